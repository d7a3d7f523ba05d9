//! `cardDrivers`: drivers whose devices are cards, besides the drivers known by name (docs/rules.md, **Cards by Dynamic
//! Resource Allocation**).

use super::ConfigurationError;
use super::yaml::Field;
use crate::names::is_object_name;

/// The drivers whose devices are read in the form in which their vendors publish them.
pub const KNOWN_DRIVERS: [&str; 3] = ["gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"];

/// How many drivers can be named.
const MOST: usize = 64;
/// Longest name of a driver, and of an attribute's domain, as in Kubernetes.
const MAX_DRIVER: usize = 63;
/// Longest name of an attribute, as in Kubernetes.
const MAX_ATTRIBUTE: usize = 32;

const DRIVER: &str = "driver";
const PRODUCT: &str = "product";
const PROFILE: &str = "profile";

const ATTRIBUTE_EXPECTED: &str =
    "the name of a device's attribute, such as productName, with its domain where that is not the driver";

/// A driver whose devices are cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardDriver {
    /// As its slices name it.
    pub driver: String,
    /// The attribute whose text is the card's name. A device without it is no card.
    pub product: String,
    /// The attribute that parts of cards have, and whole ones have not: its text is added to the name.
    pub profile: Option<String>,
}

pub(super) fn read(field: Field, warnings: &mut Vec<String>) -> Result<Vec<CardDriver>, ConfigurationError> {
    const EXPECTED: &str = "a list of at most 64 drivers, each as {driver: gpu.example.com, product: productName}";
    let whole = field.clone();
    let entries = field.list(EXPECTED)?;
    if entries.len() > MOST {
        return Err(whole.refuse(EXPECTED));
    }
    let mut drivers = Vec::<CardDriver>::new();
    for entry in entries {
        let (driver, field) = card_driver(entry, warnings)?;
        if drivers.iter().any(|known| known.driver == driver.driver) {
            return Err(field.refuse("another driver: this one is named already"));
        }
        drivers.push(driver);
    }
    Ok(drivers)
}

/// Reads a driver, and returns where it is named.
fn card_driver(entry: Field, warnings: &mut Vec<String>) -> Result<(CardDriver, Field), ConfigurationError> {
    const EXPECTED: &str =
        "a driver and the attribute with the product, such as {driver: gpu.example.com, product: productName}";
    let whole = entry.clone();
    let missing = || whole.refuse(EXPECTED);
    let mut entry = entry.section(EXPECTED)?.ok_or_else(missing)?;
    let named = entry.take(DRIVER).ok_or_else(missing)?;
    let driver = driver_name(&named)?;
    let product = attribute(&entry.take(PRODUCT).ok_or_else(missing)?)?;
    let profile = entry.take(PROFILE).as_ref().map(attribute).transpose()?;
    entry.warn_unknown("what is said of a driver", &[DRIVER, PRODUCT, PROFILE], warnings);
    let driver = CardDriver {
        driver,
        product,
        profile,
    };
    Ok((driver, named))
}

fn driver_name(field: &Field) -> Result<String, ConfigurationError> {
    const EXPECTED: &str = "the name of a driver as its ResourceSlices have it, such as gpu.example.com";
    let name = field.text(EXPECTED)?;
    if KNOWN_DRIVERS.contains(&name) {
        return Err(field.refuse("a driver other than gpu.nvidia.com, gpu.amd.com and gpu.intel.com, which are known"));
    }
    if is_domain(name) {
        Ok(name.to_owned())
    } else {
        Err(field.refuse(EXPECTED))
    }
}

fn attribute(field: &Field) -> Result<String, ConfigurationError> {
    let text = field.text(ATTRIBUTE_EXPECTED)?;
    let (domain, name) = text
        .split_once('/')
        .map_or((None, text), |(domain, name)| (Some(domain), name));
    if domain.is_none_or(is_domain) && is_identifier(name) {
        Ok(text.to_owned())
    } else {
        Err(field.refuse(ATTRIBUTE_EXPECTED))
    }
}

fn is_domain(text: &str) -> bool {
    text.len() <= MAX_DRIVER && is_object_name(text)
}

fn is_identifier(text: &str) -> bool {
    text.len() <= MAX_ATTRIBUTE
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}
