//! What claims ask for, judged only by what `CardType` objects show of cards: for a component that judges claims and watches no slices.

use std::collections::BTreeSet;

use crds::card_type::{CardDevice, CardDeviceAttribute, MOST_DEVICES};
use crds::configuration::CardDriver;
use crds::dra::{
    AttributeValue, Capacity, ClaimSpec, Device, DeviceClass, Pool, Request, ResourceSlice, SliceSpec, SubRequest,
};

use super::Devices;
use super::asks::Problem;
use super::bounds;
use super::card::Drivers;
use super::model::{Attribute, Model};
use super::selector::Selector;
use crate::steps::Steps;
use crate::texts::TextPool;

/// The cards that devices are known to be, and the classes by which they can be claimed.
#[derive(Debug, Default)]
pub struct Catalogue {
    devices: Devices,
    texts: TextPool,
    /// The number of kinds of devices in the catalogue; each is a slice of its own.
    count: usize,
    /// Cards of which not all kinds of devices are shown.
    cut: BTreeSet<String>,
    classes: BTreeSet<Box<str>>,
}

/// Why it is not known which cards a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// The class does not exist.
    Class(String),
    /// A selector is not evaluated by Cardgate: which selector, and why.
    Selector(String),
    /// No device of the class satisfies the request, and all devices of the class are known. The text is for the user.
    None(String),
    /// The request selects by something that is not known of the devices, or selects none of the known devices; or the steps were spent
    /// before the answer was found.
    Devices,
}

impl Catalogue {
    /// Returns an empty catalogue, in which these drivers' devices are cards because the configuration says so.
    pub fn new(drivers: &[CardDriver]) -> Self {
        let mut catalogue = Self::default();
        catalogue.devices.set_drivers(Drivers::new(drivers));
        catalogue
    }

    /// Adds what the devices of a card say of themselves.
    pub fn add(&mut self, card: &str, devices: &[CardDevice]) {
        let hides = |device: &CardDevice| {
            device
                .attributes
                .values()
                .any(|shown| *shown == CardDeviceAttribute::default())
        };
        if devices.len() >= MOST_DEVICES || devices.iter().any(hides) {
            self.cut.insert(card.to_owned());
        }
        for device in devices {
            self.count += 1;
            let slice = slice_of(device, self.count);
            self.devices.apply_slice(&slice, 0, &mut self.texts);
        }
    }

    /// Adds a class.
    pub fn add_class(&mut self, class: DeviceClass) {
        self.classes.extend(class.metadata.name.clone());
        self.devices.apply_class(class, 0);
    }

    /// Returns the cards that each request of a claim asks for, by the request's name, as far as these steps suffice; no cards where the
    /// request is for other devices, or only looks at them.
    pub fn requests<'s>(
        &mut self,
        spec: &'s ClaimSpec,
        steps: &Steps,
    ) -> Vec<(&'s str, Result<BTreeSet<String>, Unknown>)> {
        if let Some(why) = bounds::excess([spec].into_iter()) {
            let first = spec.devices.requests.iter().take(1);
            return first
                .map(|request| (&*request.name, Err(Unknown::Selector(why.clone()))))
                .collect();
        }
        let requests = spec.devices.requests.iter();
        requests
            .map(|request| (&*request.name, self.request(request, steps)))
            .collect()
    }

    fn request(&mut self, request: &Request, steps: &Steps) -> Result<BTreeSet<String>, Unknown> {
        let mut cards = BTreeSet::new();
        let forms = request.exactly.iter().chain(&request.first_available);
        for form in forms.filter(|form| !form.admin_access) {
            if !self.classes.contains(&form.device_class_name) {
                return Err(Unknown::Class(form.device_class_name.to_string()));
            }
            match self.devices.form(form, steps) {
                Ok(found) => cards.extend(found.into_iter().map(|card| card.name.clone())),
                Err(Problem::Unclear(why)) => return Err(Unknown::Selector(why)),
                Err(Problem::NoDevice(why)) if self.knows_all_of_class(form, steps) => return Err(Unknown::None(why)),
                Err(Problem::NoDevice(_) | Problem::Unevaluated) => return Err(Unknown::Devices),
            }
            let class = self.devices.classes.get(&form.device_class_name);
            if class.is_some_and(|(class, _)| self.tells_devices_apart(class, form, steps)) {
                return Err(Unknown::Devices);
            }
        }
        Ok(cards)
    }

    /// Whether all devices of a form's class are known, as far as its selectors look at them.
    fn knows_all_of_class(&self, form: &SubRequest, steps: &Steps) -> bool {
        let Some((class, _)) = self.devices.classes.get(&form.device_class_name) else {
            return false;
        };
        let tells_apart = self.tells_devices_apart(class, form, steps);
        let of_class = self.devices.select(class, &[], steps);
        // A class of which no device is known may be a class of other devices.
        !tells_apart && self.cut.is_empty() && of_class.is_ok_and(|models| !models.is_empty()) && !steps.are_spent()
    }

    /// Whether a form may ask for what each device has of its own. Also true where the steps are spent before that is found.
    fn tells_devices_apart(&self, class: &DeviceClass, form: &SubRequest, steps: &Steps) -> bool {
        let expressions = self.devices.expressions(class, &form.selectors, steps);
        expressions.is_none_or(|expressions| self.devices.selections.tell_devices_apart(&expressions, steps))
    }

    /// Whether all devices of a card are known.
    pub fn knows_all_of(&self, card: &str) -> bool {
        !self.cut.contains(card)
    }
}

/// Returns why Cardgate does not evaluate an expression, in words for its author; none where Cardgate evaluates it.
pub fn not_evaluated(expression: &str) -> Option<String> {
    Selector::read(expression).err().map(|error| error.to_string())
}

/// Returns what is shown of the devices of one model.
pub fn shown(model: &Model) -> CardDevice {
    let attributes = model.attributes.iter().map(|(name, value)| {
        let mut shown = CardDeviceAttribute::default();
        match value {
            Attribute::Bool(value) => shown.bool = Some(*value),
            Attribute::Int(value) => shown.int = Some(*value),
            Attribute::Text(text) => shown.string = Some(text.to_string()),
            Attribute::Version(text) => shown.version = Some(text.to_string()),
            // A list is shown only by its name, not by its content.
            Attribute::List(_) => {}
        }
        (name.to_string(), shown)
    });
    let capacity = model.capacity.iter();
    CardDevice {
        driver: model.driver.to_string(),
        attributes: attributes.collect(),
        capacity: capacity
            .map(|(name, quantity)| (name.to_string(), quantity.to_string()))
            .collect(),
    }
}

/// Returns a slice with one such device.
fn slice_of(device: &CardDevice, number: usize) -> ResourceSlice {
    let attribute = |shown: &CardDeviceAttribute| AttributeValue {
        bool: shown.bool,
        int: shown.int,
        string: shown.string.as_deref().map(Into::into),
        version: shown.version.as_deref().map(Into::into),
        ..AttributeValue::default()
    };
    let attributes = device.attributes.iter();
    let capacity = device.capacity.iter().map(|(name, quantity)| {
        let value = quantity.as_str().into();
        (name.as_str().into(), Capacity { value })
    });
    let mut slice = ResourceSlice::default();
    slice.metadata.name = Some(number.to_string().into());
    slice.spec = SliceSpec {
        driver: device.driver.as_str().into(),
        node_name: "any".into(),
        pool: Pool {
            name: number.to_string().into(),
            generation: 1,
            resource_slice_count: 1,
        },
        devices: vec![Device {
            name: "device".into(),
            attributes: attributes
                .map(|(name, shown)| (name.as_str().into(), attribute(shown)))
                .collect(),
            capacity: capacity.collect(),
            ..Device::default()
        }],
        ..SliceSpec::default()
    };
    slice
}
