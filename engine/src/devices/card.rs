//! Which card a device is: what the drivers of NVIDIA, AMD and Intel publish of their devices, read as the card's name that labels
//! would give (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use crds::card_type::CardKind;
use crds::keys::{NVIDIA_GPU, NVIDIA_MIG_PREFIX};

/// NVIDIA's driver of GPUs.
const NVIDIA: &str = "gpu.nvidia.com";
/// AMD's.
const AMD: &str = "gpu.amd.com";
/// Intel's.
const INTEL: &str = "gpu.intel.com";

/// The card that a device is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceCard {
    /// As pods and quotas name it.
    pub name: String,
    /// The resource by which such cards are counted, as where a device plugin hands them out.
    pub resource: String,
    /// What kind of card it is.
    pub kind: CardKind,
}

impl DeviceCard {
    /// The card that a device of this driver is, by its attributes in the driver's own domain; none where it is no card.
    pub fn of<'a>(driver: &str, attribute: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
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
                        let profile = named("profile")?;
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
                let partition = (attribute("type") == Some("amdgpu-partition")).then(|| named("partitionProfile"));
                Some(match partition {
                    Some(profile) => Self {
                        name: format!("{product}/{}", profile?),
                        resource: "amd.com/gpu".to_owned(),
                        kind: CardKind::Mig,
                    },
                    None => Self {
                        name: product,
                        resource: "amd.com/gpu".to_owned(),
                        kind: CardKind::Whole,
                    },
                })
            }
            INTEL => Some(Self {
                name: named("model")?,
                resource: "gpu.intel.com/xe".to_owned(),
                kind: CardKind::Whole,
            }),
            _ => None,
        }
    }
}

/// A product's name as feature discovery writes it: without spaces.
fn dashed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(driver: &str, attributes: &[(&str, &'static str)]) -> Option<(String, String)> {
        let of = |name: &str| {
            attributes
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| *text)
        };
        DeviceCard::of(driver, of).map(|card| (card.name, card.resource))
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
        assert_eq!(
            card(AMD, &[("productName", "AMD_Instinct_MI300X"), ("type", "amdgpu")]),
            found("AMD_Instinct_MI300X", "amd.com/gpu")
        );
        assert_eq!(card(INTEL, &[("model", "A770")]), found("A770", "gpu.intel.com/xe"));
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
            (INTEL, &[("model", " ")]),
            ("compute-domain.nvidia.com", &[a100, ("type", "gpu")]),
        ] {
            assert_eq!(card(driver, attributes), None, "{driver} {attributes:?}");
        }
    }
}
