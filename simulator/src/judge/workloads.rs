//! Workloads that are let into their queues as a whole: what they ask for, and how much of that their pods hold beyond their
//! minimum (Capacity Card, **Job Mode**).

use std::collections::{BTreeMap, BTreeSet};

use crds::keys::{CARD_REQUEST, GROUP_NAME, QUEUE_NAME};
use serde_json::Value;

use super::amounts::{self, Amounts, Resources, add};
use super::cards;
use super::pods::Pod;
use super::view::View;
use crate::objects::{JOBS, Key, POD_GROUPS, Resource};

/// A workload's name: a group, or a Job.
pub type Name = (&'static Resource, Key);

/// Cards that are alternatives to each other.
pub type Set = BTreeSet<String>;

/// What a workload says of itself.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The queue that the workload asks.
    pub queue: String,
    /// How many cards, by sets of alternatives.
    pub cards: BTreeMap<Set, i128>,
    /// How much CPU and memory; none if cards stand for them, or may.
    pub resources: Resources,
    /// The same; none only if cards certainly stand for them.
    pub at_most: Resources,
}

impl Workload {
    /// Reads a workload. `None` if it asks for nothing as a whole, or if what it asks for can't be read.
    pub fn read(view: &View, name: &Name, object: &Value) -> Option<Self> {
        let (resource, key) = name;
        let asks = object["metadata"]["annotations"][CARD_REQUEST].as_str();
        let least = &object["spec"]["minResources"];
        let has_least = *resource == &POD_GROUPS && least.as_object().is_some_and(|least| !least.is_empty());
        if asks.is_none() && !has_least {
            return None;
        }
        let mut sets = BTreeMap::new();
        for (names, count) in cards::counts(asks.unwrap_or("{}"))? {
            let set: Set = cards::alternatives(&names).into_iter().map(str::to_owned).collect();
            *sets.entry(set).or_default() += count;
        }
        sets.retain(|_, count| *count > 0);
        let resources = if has_least {
            amounts::resources(least)?
        } else {
            Resources::new()
        };
        let mut devices = resources.keys().filter(|name| name.contains('/'));
        let names_devices = devices.any(|name| view.configuration.is_card_resource(name));
        let is_own = |pod: &&Pod| pod.says(GROUP_NAME) == Some(&*key.name) && pod.key.namespace == key.namespace;
        let of_cards: Vec<_> = view
            .pods
            .iter()
            .filter(|pod| is_own(pod) && view.asks_for_cards(pod))
            .collect();
        // Of the pods that share a claim one pays, and the others are charged as pods without cards. Which pod pays is not
        // known here before any of them is let in.
        let is_payer = |pod: &&Pod| pod.claimed.shared.is_empty();
        let says_cards = !sets.is_empty() || names_devices;
        let is_free = says_cards || of_cards.iter().any(is_payer);
        let may_be_free = is_free || !of_cards.is_empty();
        let counted = |is_free: bool| {
            let mut counted = resources.clone();
            let is_free = view.configuration.card_unlimited && is_free;
            counted.retain(|name, _| matches!(&**name, "cpu" | "memory") && !is_free);
            counted
        };
        Some(Self {
            queue: queue_of(view, name, object),
            resources: counted(may_be_free),
            at_most: counted(is_free),
            cards: sets,
        })
    }
}

/// Returns the queue that a workload asks: the one it names, else the one its namespace names, else the default.
fn queue_of(view: &View, (resource, key): &Name, object: &Value) -> String {
    let template = &object["spec"]["template"]["metadata"]["annotations"];
    let said = |text: &Value| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let own = if *resource == &JOBS {
        let of_group = || {
            let group = Key::new(&*key.namespace, said(&template[GROUP_NAME])?);
            said(&view.group(&group)?["spec"]["queue"])
        };
        said(&template[QUEUE_NAME]).or_else(of_group)
    } else {
        said(&object["spec"]["queue"])
    };
    own.or_else(|| view.queue_of_namespace(&key.namespace))
        .unwrap_or_else(|| view.configuration.default_queue.clone())
}

/// Returns the workloads that a pod belongs to: its group, and the Job that made it.
pub fn of_pod(pod: &Pod) -> impl Iterator<Item = Name> {
    let named = |kind: &'static Resource, name: &str| (kind, Key::new(&*pod.key.namespace, name));
    let group = pod.says(GROUP_NAME).map(|name| named(&POD_GROUPS, name));
    let job = pod.job.as_ref().map(|name| named(&JOBS, name));
    group.into_iter().chain(job)
}

/// Returns what groups hold beyond their minimum in a queue and in those below it, or without a queue in the cluster. Of a
/// group's pods that hold quota, the first to come are the minimum.
pub fn elastic(view: &View, level: Option<&str>) -> Amounts {
    let mut groups = BTreeMap::<Key, Vec<&Pod>>::new();
    for pod in view.pods.iter().filter(|pod| pod.deleted.is_none()) {
        if let Some(group) = pod.says(GROUP_NAME)
            && view.charge(pod).is_some()
        {
            let group = Key::new(&*pod.key.namespace, group);
            groups.entry(group).or_default().push(pod);
        }
    }
    let mut sum = Amounts::new();
    for (group, mut pods) in groups {
        let least = view.group(&group).and_then(|group| group["spec"]["minMember"].as_u64());
        let least = usize::try_from(least.unwrap_or(1).max(1)).unwrap_or(usize::MAX);
        pods.sort_by(|one, other| one.born.cmp(&other.born));
        for charge in pods.into_iter().skip(least).filter_map(|pod| view.charge(pod)) {
            if view.tree.is_within(&charge.queue, level) {
                add(&mut sum, &charge.amounts);
            }
        }
    }
    sum
}
