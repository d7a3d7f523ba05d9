//! Which card a device is. What the drivers of NVIDIA, AMD and Intel publish of their devices is read as the card name that labels would
//! give (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::collections::BTreeMap;

use crds::card_type::CardKind;
use crds::configuration::CardDriver;
use crds::keys::{NVIDIA_GPU, NVIDIA_MIG_PREFIX};
use crds::quantity::parse_units;

/// NVIDIA's driver of GPUs.
const NVIDIA: &str = "gpu.nvidia.com";
/// AMD's driver of GPUs.
const AMD: &str = "gpu.amd.com";
/// Intel's driver of GPUs.
const INTEL: &str = "gpu.intel.com";

/// The resources by which AMD's and Intel's device plugins count cards.
const AMD_GPU: &str = "amd.com/gpu";
const INTEL_GPU: &str = "gpu.intel.com/xe";

/// What stands in a card's name for what its driver does not say.
const UNKNOWN: &str = "unknown";

/// Capacities by which a claim may ask for several parts of one device, by driver and by what its cards' resources begin with: partitions of a
/// card that AMD's driver partitions as claims ask for it, and shares into which NVIDIA's divides each card.
const PARTS: [(&str, &str, &str); 2] = [(AMD, AMD_GPU, "partitions"), (NVIDIA, "nvidia.com/", "shares")];

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
                    // The same card once more, for virtual machines. It has a class of its own.
                    "vfio" => None,
                    _ => Some(Self::named(NVIDIA, others, &format!("{product}/{}", named("type")?))?),
                }
            }
            AMD => Self::named(AMD, others, &name_by_amd(named, attribute("type"))),
            INTEL => {
                let model = named("model")?;
                // A virtual function (`vf`) is a part of a card.
                let part = named("type").filter(|of_type| of_type != "gpu");
                Self::named(
                    INTEL,
                    others,
                    &part.map_or_else(|| model.clone(), |part| format!("{model}/{part}")),
                )
            }
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
    /// Returns the card of this name for a driver's device, of which perhaps no driver publishes any more what it is.
    pub fn named(driver: &str, others: &Drivers, name: &str) -> Option<Self> {
        let profile = name.rsplit_once("/mig-").map(|(_, rest)| rest);
        let profile = profile.and_then(|rest| rest.strip_suffix("-mixed"));
        let (resource, kind) = match (driver, profile) {
            (NVIDIA, Some(profile)) => (format!("{NVIDIA_MIG_PREFIX}{profile}"), CardKind::Mig),
            (NVIDIA, None) if name.contains('/') => (NVIDIA_GPU.to_owned(), CardKind::Mig),
            (NVIDIA, None) => (NVIDIA_GPU.to_owned(), CardKind::Whole),
            (AMD, _) if name.contains('/') && !name.ends_with("/vfio") => (AMD_GPU.to_owned(), CardKind::Mig),
            (AMD, _) => (AMD_GPU.to_owned(), CardKind::Whole),
            (INTEL, _) if name.contains('/') => (INTEL_GPU.to_owned(), CardKind::Mig),
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

    /// Returns how many parts of one such device these capacities are, which a claim asks for or was given. Amounts that can't be read are
    /// more than anybody has.
    pub(super) fn parts(&self, capacities: &BTreeMap<Box<str>, Box<str>>) -> i64 {
        let is_meant = |named: &str| {
            PARTS.iter().any(|(driver, resources, capacity)| {
                let (domain, name) = named.split_once('/').unwrap_or((driver, named));
                self.resource.starts_with(resources) && domain == *driver && name == *capacity
            })
        };
        let meant = capacities.iter().filter(|(named, _)| is_meant(named));
        let counts = meant.map(|(_, quantity)| parse_units(quantity).unwrap_or(i64::MAX));
        counts.max().unwrap_or(1).max(1)
    }
}

/// Returns the name of the card that a device of AMD's driver is, of this type. One class has all of its devices, so that what is not known
/// here must not be free.
fn name_by_amd(named: impl Fn(&str) -> Option<String>, of_type: Option<&str>) -> String {
    let unknown = || UNKNOWN.to_owned();
    let product = named("productName").unwrap_or_else(unknown);
    // One partition is all of the card.
    let is_part = |profile: &String| !profile.starts_with("spx");
    let part = match of_type {
        Some("amdgpu") | None => None,
        Some("amdgpu-partition" | "amdgpu-synthetic-partition") => {
            let modes = || {
                let modes = ["computePartition", "memoryPartition"].into_iter().filter_map(&named);
                let modes: Vec<_> = modes.collect();
                (!modes.is_empty()).then(|| modes.join("_"))
            };
            let profile = named("partitionProfile").or_else(modes).unwrap_or_else(unknown);
            Some(profile).filter(is_part)
        }
        // The same card once more, for virtual machines, or a part of it.
        Some("amdgpu-vfio" | "vfio") => match named("partitionProfile").filter(is_part) {
            Some(profile) => Some(format!("vfio-{profile}")),
            None => Some("vfio".to_owned()),
        },
        Some(_) => Some(named("type").unwrap_or_else(unknown)),
    };
    match part {
        Some(part) => format!("{product}/{part}"),
        None => product,
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
        for (of_type, name) in [("gpu", "B60"), ("vf", "B60/vf")] {
            let of_intel = [("model", "B60"), ("type", of_type)];
            assert_eq!(card(INTEL, &of_intel), found(name, "gpu.intel.com/xe"));
        }
        assert_eq!(card(INTEL, &[("model", "A770")]), found("A770", "gpu.intel.com/xe"));
        // What comes later must not be free.
        assert_eq!(
            card(NVIDIA, &[a100, ("type", "vgpu")]),
            found("NVIDIA-A100-80GB-PCIe/vgpu", "nvidia.com/gpu")
        );
    }

    /// AMD's driver publishes all it has in one class, some of it by feature gates.
    #[test]
    fn nothing_that_amds_driver_publishes_is_free() {
        let mi300x = ("productName", "MI300X");
        let (cpx, nps4) = (("computePartition", "cpx"), ("memoryPartition", "nps4"));
        for (attributes, name) in [
            (
                &[mi300x, ("type", "amdgpu-partition"), cpx, nps4][..],
                "MI300X/cpx_nps4",
            ),
            (
                &[mi300x, ("type", "amdgpu-synthetic-partition"), cpx, nps4],
                "MI300X/cpx_nps4",
            ),
            (
                &[
                    mi300x,
                    ("type", "amdgpu-synthetic-partition"),
                    ("computePartition", "spx"),
                    ("memoryPartition", "nps1"),
                ],
                "MI300X",
            ),
            (&[mi300x, ("type", "amdgpu"), ("computePartition", "spx")], "MI300X"),
            (&[mi300x, ("type", "amdgpu-partition")], "MI300X/unknown"),
            (&[mi300x, ("type", "amdgpu-vfio")], "MI300X/vfio"),
            (&[mi300x, ("type", "vfio")], "MI300X/vfio"),
            (&[mi300x, ("type", "new kind")], "MI300X/new-kind"),
            (&[mi300x, ("type", "vfio"), ("partitionProfile", "spx")], "MI300X/vfio"),
            (
                &[mi300x, ("type", "vfio"), ("partitionProfile", "cpx")],
                "MI300X/vfio-cpx",
            ),
            (&[("type", "vfio")], "unknown/vfio"),
            (&[("type", "amdgpu")], "unknown"),
        ] {
            let expected = Some((name.to_owned(), "amd.com/gpu".to_owned()));
            assert_eq!(card(AMD, attributes), expected, "{attributes:?}");
        }
    }

    #[test]
    fn parts_of_one_device_are_counted() {
        let of = |driver: &str, named: &[(&str, &str)]| {
            let others = Drivers::new(&[CardDriver {
                driver: "npu.example.com".to_owned(),
                product: "model".to_owned(),
                profile: None,
            }]);
            let capacities = named.iter().map(|(name, text)| ((*name).into(), (*text).into()));
            let card = DeviceCard::named(driver, &others, "card").unwrap();
            card.parts(&capacities.collect())
        };
        for (driver, named, expected) in [
            (AMD, &[][..], 1),
            (AMD, &[("memory", "8")], 1),
            (AMD, &[("partitions", "8")], 8),
            (AMD, &[("gpu.amd.com/partitions", "2"), ("partitions", "1")], 2),
            (AMD, &[("shares", "4")], 1),
            (AMD, &[("partitions", "0")], 1),
            (AMD, &[("partitions", "many")], i64::MAX),
            (AMD, &[("other.example.com/partitions", "8")], 1),
            (NVIDIA, &[("shares", "4")], 4),
            (NVIDIA, &[("gpu.nvidia.com/shares", "3"), ("memory", "4Gi")], 3),
            (NVIDIA, &[("partitions", "4")], 1),
            ("npu.example.com", &[("shares", "10"), ("partitions", "10")], 1),
        ] {
            assert_eq!(of(driver, named), expected, "{driver} {named:?}");
        }
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
            ("npu.example.com", &[("productName", "N"), ("type", "gpu")]),
            (INTEL, &[("model", " ")]),
            ("compute-domain.nvidia.com", &[a100, ("type", "gpu")]),
        ] {
            assert_eq!(card(driver, attributes), None, "{driver} {attributes:?}");
        }
    }
}
