//! What devices say of themselves: what the devices of one model have in common, and what each has of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::dra::{AttributeValue, Device};

use super::card::{DeviceCard, Drivers};
use crate::texts::TextPool;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(Arc<str>),
    /// A semantic version.
    Version(Arc<str>),
    /// Several values of one kind.
    List(Box<[Attribute]>),
}

/// Attributes, by domain and name (`gpu.nvidia.com/productName`).
pub type Attributes = BTreeMap<Arc<str>, Attribute>;

/// Names of attributes that tell one device from the next: models don't differ in them. Any other attribute that differs between devices
/// costs a model for each of its values.
const OWN: [&str; 17] = [
    "uuid",
    "uid",
    "serial",
    "index",
    "minor",
    "parentUUID",
    "parentIndex",
    "parentMinor",
    "cardIndex",
    "renderIndex",
    "deviceID",
    "pciAddr",
    "pciBusID",
    "pcieBusID",
    "pcieRoot",
    "pciRoot",
    "numaNode",
];

/// What devices that are alike have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Model {
    /// The driver that publishes the devices.
    pub driver: Arc<str>,
    /// The attributes in which the devices do not differ.
    pub attributes: Attributes,
    /// Quantities, by domain and name.
    pub capacity: BTreeMap<Arc<str>, Arc<str>>,
    /// The card that the devices are; none where they are no cards.
    pub card: Option<Arc<DeviceCard>>,
    /// Whether several claims may have one of the devices at once.
    pub is_shared: bool,
}

/// Whether devices of one model may differ in the attribute with this name, with or without its domain.
pub fn is_own(attribute: &str) -> bool {
    let name = attribute.rsplit_once('/').map_or(attribute, |(_, name)| name);
    OWN.contains(&name)
}

/// The names of attributes in which devices of one model may differ.
pub fn own_names() -> impl Iterator<Item = &'static str> {
    OWN.into_iter()
}

impl Model {
    /// Returns the model of a device, and what the device has of its own.
    pub fn of(driver: &str, drivers: &Drivers, device: &Device, pool: &mut TextPool) -> (Self, Attributes) {
        let mut model = Self {
            driver: pool.get(driver),
            attributes: Attributes::new(),
            capacity: BTreeMap::new(),
            card: None,
            is_shared: device.allow_multiple_allocations,
        };
        let mut own = Attributes::new();
        for (name, value) in &device.attributes {
            let Some(value) = read(value, pool) else { continue };
            let of = if is_own(name) { &mut own } else { &mut model.attributes };
            of.insert(qualified(driver, name, pool), value);
        }
        for (name, capacity) in &device.capacity {
            let quantity = pool.get(&capacity.value);
            model.capacity.insert(qualified(driver, name, pool), quantity);
        }
        model.card = model.card_by(drivers, &own);
        (model, own)
    }

    /// Returns the card that a device of this model is, if these drivers are known.
    fn card_by(&self, drivers: &Drivers, own: &Attributes) -> Option<Arc<DeviceCard>> {
        let text = |name: &str| {
            let qualified = if name.contains('/') {
                Cow::Borrowed(name)
            } else {
                format!("{}/{name}", self.driver).into()
            };
            let value = self.attributes.get(&*qualified).or_else(|| own.get(&*qualified));
            value.and_then(Attribute::text)
        };
        DeviceCard::of(&self.driver, drivers, text).map(Arc::new)
    }

    /// Returns the model that a device of this model has with these drivers known; none where it stays this one.
    pub fn with_drivers(&self, drivers: &Drivers, own: &Attributes) -> Option<Self> {
        let card = self.card_by(drivers, own);
        (card != self.card).then(|| Self { card, ..self.clone() })
    }
}

impl Attribute {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bool(_) | Self::Int(_) | Self::Version(_) | Self::List(_) => None,
        }
    }
}

fn read(value: &AttributeValue, pool: &mut TextPool) -> Option<Attribute> {
    let AttributeValue {
        bool,
        int,
        string,
        version,
        bools,
        ints,
        strings,
        versions,
    } = value;
    let text = string.as_deref().map(|text| Attribute::Text(pool.get(text)));
    let version = version.as_deref().map(|version| Attribute::Version(pool.get(version)));
    let one = bool
        .map(Attribute::Bool)
        .or(int.map(Attribute::Int))
        .or(text)
        .or(version);
    if one.is_some() {
        return one;
    }
    let bools = bools.iter().copied().map(Attribute::Bool);
    let ints = ints.iter().copied().map(Attribute::Int);
    let mut list: Vec<_> = bools.chain(ints).collect();
    list.extend(strings.iter().map(|text| Attribute::Text(pool.get(text))));
    list.extend(versions.iter().map(|version| Attribute::Version(pool.get(version))));
    (!list.is_empty()).then(|| Attribute::List(list.into()))
}

/// Returns a name with its domain; where it has none, the domain is the driver.
fn qualified(driver: &str, name: &str, pool: &mut TextPool) -> Arc<str> {
    if name.contains('/') {
        pool.get(name)
    } else {
        pool.get(&format!("{driver}/{name}"))
    }
}

/// A device as selectors see it: its model, and what it has of its own.
#[derive(Debug, Clone, Copy)]
pub struct Described<'d> {
    /// What the device has in common with others.
    pub model: &'d Model,
    /// What the device has of its own; none where no selector asks for it.
    pub own: Option<&'d Attributes>,
}

impl<'d> Described<'d> {
    /// Returns the driver that publishes the device.
    pub fn driver(&self) -> &'d str {
        &self.model.driver
    }

    /// Returns all attributes, with their domains.
    pub fn attributes(&self) -> impl Iterator<Item = (&'d str, &'d Attribute)> + use<'d> {
        let all = self.model.attributes.iter().chain(self.own.into_iter().flatten());
        all.map(|(name, value)| (&**name, value))
    }

    /// Returns all capacities, with their domains.
    pub fn capacity(&self) -> impl Iterator<Item = (&'d str, &'d str)> + use<'d> {
        self.model.capacity.iter().map(|(name, value)| (&**name, &**value))
    }
}
