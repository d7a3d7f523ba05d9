//! What claims ask for, by what is shown of cards alone (`CardType`): for whoever judges claims and watches no slices.

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
    /// How many kinds of devices there are in it, each a slice of its own.
    count: usize,
    /// Cards of which not all kinds of devices are shown.
    cut: BTreeSet<String>,
    classes: BTreeSet<Box<str>>,
}

/// Why it is not known which cards a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// There is no such class.
    Class(String),
    /// A selector that Cardgate does not evaluate: which, and why.
    Selector(String),
    /// None of the devices that are known of its class, which are all that there are, in words for whoever wrote it.
    None(String),
    /// It selects by what is not known of the devices, or none of those that are known; or the steps were spent before that was found.
    Devices,
}

impl Catalogue {
    /// Of nothing yet, where these drivers' devices are cards because the configuration says so.
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

    /// The cards that each request of a claim asks for, by the request's name, as far as that can be found with these steps; none where it
    /// is for other devices, or looks at them alone.
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
        // A class of which nothing is known may be one of other devices.
        !tells_apart && self.cut.is_empty() && of_class.is_ok_and(|models| !models.is_empty()) && !steps.are_spent()
    }

    /// Whether a form may ask for what each device has of its own; so where the steps are spent before that is found.
    fn tells_devices_apart(&self, class: &DeviceClass, form: &SubRequest, steps: &Steps) -> bool {
        let expressions = self.devices.expressions(class, &form.selectors, steps);
        expressions.is_none_or(|expressions| self.devices.selections.tell_devices_apart(&expressions, steps))
    }

    /// Whether the devices of a card are all known.
    pub fn knows_all_of(&self, card: &str) -> bool {
        !self.cut.contains(card)
    }
}

/// Why Cardgate does not evaluate an expression, in words for whoever wrote it; none where it does.
pub fn not_evaluated(expression: &str) -> Option<String> {
    Selector::read(expression).err().map(|error| error.to_string())
}

/// What is shown of the devices of one kind.
pub fn shown(model: &Model) -> CardDevice {
    let attributes = model.attributes.iter().map(|(name, value)| {
        let mut shown = CardDeviceAttribute::default();
        match value {
            Attribute::Bool(value) => shown.bool = Some(*value),
            Attribute::Int(value) => shown.int = Some(*value),
            Attribute::Text(text) => shown.string = Some(text.to_string()),
            Attribute::Version(text) => shown.version = Some(text.to_string()),
            // That it is there, and not what is in it.
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

/// A slice of one such device.
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
