//! Which cards a node has, by the Capacity Card document's rules of discovery, and how pods and queues name cards.

use std::collections::BTreeMap;

use crds::keys::{MGPU_CORE, MGPU_SCHEDULE, NVIDIA_GPU, NVIDIA_MIG_PREFIX, NVIDIA_MPS};
use serde_json::Value;

use super::amounts::Resources;
use super::nodes::Texts;

/// Cards of one name on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Card {
    /// Such as `NVIDIA-A100`.
    pub name: String,
    /// The resource that counts them.
    pub resource: String,
    /// How many.
    pub count: i128,
    /// The labels from which the name is made.
    pub labels: Vec<(String, String)>,
    /// How the card is handed out.
    pub supply: Supply,
}

/// How cards are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Supply {
    /// By a device plugin, to pods that request the resource.
    Plugin,
    /// By the scheduler, to pods that claim devices, or request a resource that a class provides.
    Devices,
    /// The node reports it in both ways.
    Both,
}

/// The cards of a node, label by label.
pub fn of(labels: &Texts, allocatable: &Resources) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    let mut taken = Vec::new();
    let is_shared = labels
        .get(MGPU_SCHEDULE.0)
        .is_some_and(|value| value == MGPU_SCHEDULE.1);
    // If two labels could mean one resource, the label that matches it most closely gets it.
    let mut claims: Vec<_> = labels
        .iter()
        .filter_map(|(label, product)| {
            let stem = label.strip_suffix(".product")?;
            let (prefix, kind) = stem.rsplit_once('/').filter(|(prefix, _)| !prefix.is_empty())?;
            let is_word = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let whole = whole(stem, &format!("{prefix}/"), allocatable);
            let closeness = whole.map_or(3, |(closeness, _)| closeness);
            is_word.then_some((closeness, label, stem, product, whole))
        })
        .collect();
    claims.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    for (_, _, stem, product, whole) in claims {
        let whole = whole
            .map(|(_, resource)| resource)
            .filter(|resource| !taken.contains(resource));
        taken.extend(whole);
        let label = |suffix: &str| labels.get(&format!("{stem}.{suffix}"));
        if product.is_empty() || label("count").is_none() || label("memory").is_none() {
            continue;
        }
        let count = |resource: &str| allocatable.get(resource).copied().unwrap_or(0);
        let mut publish = |name: String, resource: &str, naming: &[&str]| {
            if count(resource) > 0 && !cards.iter().any(|card| card.name == name) {
                let named = |suffix: &&str| Some((format!("{stem}.{suffix}"), label(suffix)?.clone()));
                cards.push(Card {
                    name,
                    resource: resource.to_owned(),
                    count: count(resource),
                    labels: naming.iter().filter_map(named).collect(),
                    supply: Supply::Plugin,
                });
            }
        };
        if let Some(resource) = whole {
            publish(product.clone(), resource, &["product"]);
        }
        if stem != NVIDIA_GPU {
            continue;
        }
        if is_shared {
            publish(format!("{product}/mgpu"), MGPU_CORE, &["product"]);
        }
        let number = |suffix| {
            label(suffix)
                .and_then(|text| text.parse::<u64>().ok())
                .filter(|number| *number > 0)
        };
        if let (Some(memory), Some(replicas)) = (number("memory"), number("replicas")) {
            let gigabytes = (memory + 512) / 1024;
            let name = format!("{product}/mps-{gigabytes}g*1/{replicas}");
            publish(name, NVIDIA_MPS, &["product", "memory", "replicas"]);
        }
        for resource in allocatable.keys() {
            if let Some(profile) = resource.strip_prefix(NVIDIA_MIG_PREFIX) {
                publish(format!("{product}/mig-{profile}-mixed"), resource, &["product"]);
            }
        }
    }
    cards
}

/// Returns the resource that counts the whole cards of a product, and how it was found: the resource of that name, else
/// those with that prefix, else those of the vendor. If there are several, none is taken.
fn whole<'a>(stem: &str, prefix: &str, allocatable: &'a Resources) -> Option<(u8, &'a str)> {
    let others = |name: &&str| *name != NVIDIA_MPS && !name.starts_with(NVIDIA_MIG_PREFIX) && !is_share(name);
    let starting = |start: &str| -> Vec<&str> {
        let names = allocatable.keys().map(String::as_str);
        names.filter(|name| name.starts_with(start)).filter(others).collect()
    };
    let (exact, by_stem) = (allocatable.get_key_value(stem), starting(stem));
    let (closeness, found) = match exact {
        Some((name, _)) => (0, vec![name.as_str()]),
        None if !by_stem.is_empty() => (1, by_stem),
        None => (2, starting(prefix)),
    };
    let mut positive = found.into_iter().filter(|name| allocatable[*name] > 0);
    let first = positive.next()?;
    (positive.next().is_none() && first != "nvidia.com/hostdev").then_some((closeness, first))
}

/// Whether a resource is a share of cards under mGPU. It never counts whole cards.
fn is_share(resource: &str) -> bool {
    resource.starts_with("vke.volcengine.com/mgpu-")
}

/// Returns the cards that a pod names, in order: `A|B`.
pub fn alternatives(text: &str) -> Vec<&str> {
    text.split('|').map(str::trim).collect()
}

/// Reads `{"NVIDIA-A100": 8}`; `None` if a count is no whole number of 0 or more.
pub fn counts(text: &str) -> Option<BTreeMap<String, i128>> {
    let Value::Object(object) = serde_json::from_str(text).ok()? else {
        return None;
    };
    object
        .into_iter()
        .map(|(name, count)| {
            let count = count.as_u64().filter(|_| !name.trim().is_empty())?;
            Some((name, count.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(labels: &[(&str, &str)], allocatable: &[(&str, i128)]) -> Vec<(String, i128)> {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let allocatable = allocatable.iter().map(|(key, value)| ((*key).to_owned(), *value));
        let cards = of(&labels.collect(), &allocatable.collect());
        cards.into_iter().map(|card| (card.name, card.count)).collect()
    }

    const A100: [(&str, &str); 4] = [
        ("nvidia.com/gpu.product", "A100"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "81920"),
        ("nvidia.com/gpu.replicas", "8"),
    ];

    #[test]
    fn the_documents_three_kinds_of_cards() {
        let all = [
            ("nvidia.com/gpu", 4),
            ("nvidia.com/gpu.shared", 32),
            ("nvidia.com/mig-1g.5gb", 7),
        ];
        let known = [("A100", 4), ("A100/mps-80g*1/8", 32), ("A100/mig-1g.5gb-mixed", 7)];
        assert_eq!(names(&A100, &all), known.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(names(&A100[..2], &all), [], "without the memory's label there are none");
        assert_eq!(names(&A100, &[("nvidia.com/hostdev", 1)]), []);
        assert_eq!(names(&A100, &[("nvidia.com/gpu", 0)]), []);
    }

    #[test]
    fn counts_are_whole_numbers() {
        assert_eq!(counts(r#"{"A": 2}"#), Some([("A".to_owned(), 2)].into()));
        for text in [r#"{"A": -1}"#, r#"{"A": 1.5}"#, r#"{"A": "1"}"#, "[]", "", r#"{"": 1}"#] {
            assert_eq!(counts(text), None, "{text}");
        }
    }
}
