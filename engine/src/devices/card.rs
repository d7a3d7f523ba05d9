//! Which card a device is. What the drivers of NVIDIA, AMD and Intel publish of their devices is read as the card name that labels would
//! give (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::collections::BTreeMap;

use crds::card_type::CardKind;
use crds::configuration::CardDriver;
use crds::keys::{NVIDIA_GPU, NVIDIA_MIG_PREFIX};

/// NVIDIA's driver of GPUs.
const NVIDIA: &str = "gpu.nvidia.com";
/// AMD's driver of GPUs.
const AMD: &str = "gpu.amd.com";
/// Intel's driver of GPUs.
const INTEL: &str = "gpu.intel.com";

/// The resources by which AMD's and Intel's device plugins count cards.
const AMD_GPU: &str = "amd.com/gpu";
const INTEL_GPU: &str = "gpu.intel.com/xe";

/// The card that a device is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceCard {
    /// The name that pods and quotas use.
    pub name: String,
    /// The resource by which such cards are counted, as where a device plugin hands them out.
    pub resource: String,
    /// What kind of card it is.
    pub kind: CardKind,
}

/// Drivers whose devices are cards because the configuration says so: by driver name, which of their attributes say what.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drivers(BTreeMap<String, CardDriver>);

impl Drivers {
    /// Returns the drivers that a configuration names.
    pub fn new(named: &[CardDriver]) -> Self {
        Self(named.iter().map(|of| (of.driver.clone(), of.clone())).collect())
    }
}

impl DeviceCard {
    /// Returns the card that a device of this driver is, by its attributes; none where the device is no card. `attribute` takes names
    /// without a domain where the domain is the driver.
    pub fn of<'a>(driver: &str, others: &Drivers, attribute: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let named = |name: &str| attribute(name).map(dashed).filter(|name| !name.is_empty());
        match driver {
            NVIDIA => {
                let product = named("productName")?;
                match attribute("type")? {
                    "gpu" => Some(Self {
                        name: product,
                        resource: NVIDIA_GPU.to_owned(),
                        kind: CardKind::Whole,
                    }),
                    "mig" => {
                        // As the device plugin makes a resource name of a profile such as `1g.10gb+me`: a resource name can't have a plus.
                        let profile = named("profile")?.replace('+', ".");
                        Some(Self {
                            name: format!("{product}/mig-{profile}-mixed"),
                            resource: format!("{NVIDIA_MIG_PREFIX}{profile}"),
                            kind: CardKind::Mig,
                        })
                    }
                    _ => None,
                }
            }
            AMD => {
                let product = named("productName")?;
                match attribute("type") {
                    Some("amdgpu-partition") => Some(Self {
                        name: format!("{product}/{}", named("partitionProfile")?),
                        resource: AMD_GPU.to_owned(),
                        kind: CardKind::Mig,
                    }),
                    Some("amdgpu") | None => Some(Self {
                        name: product,
                        resource: AMD_GPU.to_owned(),
                        kind: CardKind::Whole,
                    }),
                    // The same card once more, for virtual machines.
                    Some(_) => None,
                }
            }
            INTEL => Some(Self {
                name: named("model")?,
                resource: INTEL_GPU.to_owned(),
                kind: CardKind::Whole,
            }),
            _ => {
                let of = others.0.get(driver)?;
                let product = named(&of.product)?;
                let profile = of.profile.as_deref().and_then(named);
                Some(match profile {
                    Some(profile) => Self {
                        name: format!("{product}/{profile}"),
                        resource: format!("{driver}/card-{profile}"),
                        kind: CardKind::Mig,
                    },
                    None => Self {
                        name: product,
                        resource: format!("{driver}/card"),
                        kind: CardKind::Whole,
                    },
                })
            }
        }
    }
}

impl DeviceCard {
    /// Returns the card of this name for a driver's device of which no driver publishes what it is.
    pub fn named(driver: &str, others: &Drivers, name: &str) -> Option<Self> {
        let profile = name.rsplit_once("/mig-").map(|(_, rest)| rest);
        let profile = profile.and_then(|rest| rest.strip_suffix("-mixed"));
        let (resource, kind) = match (driver, profile) {
            (NVIDIA, Some(profile)) => (format!("{NVIDIA_MIG_PREFIX}{profile}"), CardKind::Mig),
            (NVIDIA, None) => (NVIDIA_GPU.to_owned(), CardKind::Whole),
            (AMD, _) if name.contains('/') => (AMD_GPU.to_owned(), CardKind::Mig),
            (AMD, _) => (AMD_GPU.to_owned(), CardKind::Whole),
            (INTEL, _) => (INTEL_GPU.to_owned(), CardKind::Whole),
            _ => {
                let of = others.0.get(driver)?;
                match name.rsplit_once('/').filter(|_| of.profile.is_some()) {
                    Some((_, profile)) => (format!("{driver}/card-{profile}"), CardKind::Mig),
                    None => (format!("{driver}/card"), CardKind::Whole),
                }
            }
        };
        Some(Self {
            name: name.to_owned(),
            resource,
            kind,
        })
    }
}

/// Returns a product's name as feature discovery writes it: with dashes for spaces.
fn dashed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(driver: &str, attributes: &[(&str, &'static str)]) -> Option<(String, String)> {
        card_with(&[], driver, attributes)
    }

    fn card_with(named: &[CardDriver], driver: &str, attributes: &[(&str, &'static str)]) -> Option<(String, String)> {
        let of = |name: &str| {
            attributes
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| *text)
        };
        let drivers = Drivers::new(named);
        let card = DeviceCard::of(driver, &drivers, of)?;
        let again = DeviceCard::named(driver, &drivers, &card.name);
        assert_eq!(again.as_ref(), Some(&card), "known again by its name");
        Some((card.name, card.resource))
    }

    #[test]
    fn devices_are_the_cards_that_labels_would_name() {
        let found = |name: &str, resource: &str| Some((name.to_owned(), resource.to_owned()));
        let a100 = ("productName", "NVIDIA A100 80GB PCIe");
        assert_eq!(
            card(NVIDIA, &[a100, ("type", "gpu")]),
            found("NVIDIA-A100-80GB-PCIe", "nvidia.com/gpu")
        );
        assert_eq!(
            card(NVIDIA, &[a100, ("type", "mig"), ("profile", "1g.10gb")]),
            found("NVIDIA-A100-80GB-PCIe/mig-1g.10gb-mixed", "nvidia.com/mig-1g.10gb")
        );
        let with_media = [a100, ("type", "mig"), ("profile", "1g.10gb+me")];
        assert_eq!(
            card(NVIDIA, &with_media),
            found(
                "NVIDIA-A100-80GB-PCIe/mig-1g.10gb.me-mixed",
                "nvidia.com/mig-1g.10gb.me"
            )
        );
        assert_eq!(
            card(AMD, &[("productName", "AMD_Instinct_MI300X"), ("type", "amdgpu")]),
            found("AMD_Instinct_MI300X", "amd.com/gpu")
        );
        let mi300x = ("productName", "AMD_Instinct_MI300X_OAM");
        let partition = [mi300x, ("type", "amdgpu-partition"), ("partitionProfile", "cpx_nps4")];
        assert_eq!(
            card(AMD, &partition),
            found("AMD_Instinct_MI300X_OAM/cpx_nps4", "amd.com/gpu")
        );
        assert_eq!(card(INTEL, &[("model", "A770")]), found("A770", "gpu.intel.com/xe"));
    }

    #[test]
    fn devices_of_drivers_that_the_configuration_names_are_cards() {
        let named = |product: &str, profile: Option<&str>| {
            [CardDriver {
                driver: "npu.example.com".to_owned(),
                product: product.to_owned(),
                profile: profile.map(str::to_owned),
            }]
        };
        let found = |name: &str, resource: &str| Some((name.to_owned(), resource.to_owned()));
        let (model, part) = (("model", "Great NPU 3"), ("part", "half"));
        for (named, attributes, expected) in [
            (
                named("model", None),
                &[model, part][..],
                found("Great-NPU-3", "npu.example.com/card"),
            ),
            (
                named("model", Some("part")),
                &[model],
                found("Great-NPU-3", "npu.example.com/card"),
            ),
            (
                named("model", Some("part")),
                &[model, part],
                found("Great-NPU-3/half", "npu.example.com/card-half"),
            ),
            (
                named("example.com/m", None),
                &[("example.com/m", "N")],
                found("N", "npu.example.com/card"),
            ),
            (named("product", None), &[model], None),
        ] {
            assert_eq!(card_with(&named, "npu.example.com", attributes), expected, "{named:?}");
        }
        assert_eq!(card_with(&named("model", None), "other.example.com", &[model]), None);
    }

    #[test]
    fn what_is_no_card_or_says_too_little_is_none() {
        let a100 = ("productName", "NVIDIA A100 80GB PCIe");
        for (driver, attributes) in [
            (NVIDIA, &[a100, ("type", "vfio")][..]),
            (NVIDIA, &[a100]),
            (NVIDIA, &[("type", "gpu")]),
            (NVIDIA, &[a100, ("type", "mig")]),
            (AMD, &[("type", "amdgpu")]),
            (
                AMD,
                &[("productName", "AMD_Instinct_MI300X"), ("type", "amdgpu-partition")],
            ),
            (AMD, &[("productName", "AMD_Instinct_MI300X"), ("type", "amdgpu-vfio")]),
            ("npu.example.com", &[("productName", "N"), ("type", "gpu")]),
            (INTEL, &[("model", " ")]),
            ("compute-domain.nvidia.com", &[a100, ("type", "gpu")]),
        ] {
            assert_eq!(card(driver, attributes), None, "{driver} {attributes:?}");
        }
    }
}
