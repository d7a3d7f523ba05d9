//! Nodes: what they have, and what keeps pods off them.

use std::collections::{BTreeMap, BTreeSet};

use crds::keys::{MGPU_CORE, MGPU_DEVICE_IDS, MGPU_MEMORY, MGPU_SCHEDULE};
use serde_json::Value;

use super::amounts::{self, Resources};
use super::cards::{self, Card};

/// Keys and values.
pub type Texts = BTreeMap<String, String>;

/// A node, as its object says.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// What is allocatable, with its cards by devices.
    pub allocatable: Resources,
    /// What is allocatable without these: what device plugins hand out, and all else.
    pub by_plugin: Resources,
    /// Whether it is ready and takes pods.
    pub is_usable: bool,
    /// Its taints that keep pods off: key, value, effect.
    pub taints: Vec<[String; 3]>,
    /// Its cards.
    pub cards: Vec<Card>,
    /// How many devices of each card are in use although a taint keeps new pods away from them.
    pub away: BTreeMap<String, i128>,
    /// The cards that the node shares.
    pub shared: Option<Shared>,
}

/// The cards of an mGPU node, each with 100 core.
#[derive(Debug, Clone)]
pub struct Shared {
    /// How many.
    pub count: usize,
    /// The memory of each, in MiB.
    pub memory: i128,
    /// The device ids of the cards, if the node reports them.
    pub ids: Vec<String>,
}

impl Node {
    /// Reads a node.
    pub fn read(object: &Value) -> Self {
        let labels = texts(&object["metadata"]["labels"]);
        let annotations = texts(&object["metadata"]["annotations"]);
        let allocatable = readable(&object["status"]["allocatable"]);
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let is_ready = ready.any(|condition| condition["status"] == "True");
        let taints = object["spec"]["taints"].as_array().into_iter().flatten();
        let taints = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
        Self {
            name: text(&object["metadata"]["name"]),
            cards: cards::of(&labels, &allocatable),
            away: BTreeMap::new(),
            shared: shared(&labels, &annotations, &allocatable),
            is_usable: is_ready && object["spec"]["unschedulable"] != true,
            taints: taints
                .map(|taint| ["key", "value", "effect"].map(|field| text(&taint[field])))
                .collect(),
            labels,
            annotations,
            by_plugin: allocatable.clone(),
            allocatable,
        }
    }

    /// Returns how much of a resource the node has.
    pub fn has(&self, resource: &str) -> i128 {
        self.allocatable.get(resource).copied().unwrap_or(0)
    }

    /// Returns the node's cards of this name.
    pub fn card(&self, name: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.name == name)
    }
}

impl Shared {
    /// Whether the node reports a distinct device id for each card.
    pub fn has_ids(&self) -> bool {
        let ids: BTreeSet<_> = self.ids.iter().filter(|id| !id.is_empty()).collect();
        ids.len() == self.count && self.ids.len() == self.count
    }
}

fn shared(labels: &Texts, annotations: &Texts, allocatable: &Resources) -> Option<Shared> {
    let (key, value) = MGPU_SCHEDULE;
    let is_shared = labels.get(key).is_some_and(|said| said == value);
    let amount = |resource: &str| allocatable.get(resource).copied().unwrap_or(0);
    let count = usize::try_from(amount(MGPU_CORE) / 100).ok()?;
    (is_shared && count > 0).then(|| Shared {
        count,
        memory: amount(MGPU_MEMORY) / i128::try_from(count).unwrap_or(1),
        ids: annotations
            .get(MGPU_DEVICE_IDS)
            .map_or_else(Vec::new, |ids| ids.split(',').map(|id| id.trim().to_owned()).collect()),
    })
}

/// Returns what can be read of a list of resources.
fn readable(list: &Value) -> Resources {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, amount)| {
        let amount = amounts::of(name, amount)?;
        Some((name.clone(), amount.max(0)))
    })
    .collect()
}

/// Returns a map of texts; values that are no texts are left out.
pub fn texts(map: &Value) -> Texts {
    let entries = map.as_object().into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Returns a text; empty if there is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
