//! What counts, and how much of it. Every amount that a pod or a workload is charged for, asks for or has kept for it is worked
//! out here, dimension by dimension.

use std::collections::{BTreeMap, BTreeSet};

use crds::card_resources::{counts_cards, is_extended};
use crds::configuration::{CapacityCard, QueuePlugin};

use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension};
use crate::inqueue::{CardChoice, Demand};
use crate::names::{CardId, Names, ResourceId};
use crate::task::Task;

/// What a pod is charged for, or would be. It is kept with the pod, so that exactly this is given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charge {
    /// The cards that the pod counts for, also where it is charged for none of them.
    pub alternative: Option<Alternative>,
    /// How much, by dimension.
    pub amounts: Amounts,
}

impl Charge {
    /// Returns the charge of a task with one of its alternatives. `count` says how many the task asks for of a card that it
    /// names.
    pub fn of(
        arguments: &CapacityCard,
        task: &Task,
        alternative: Option<&Alternative>,
        count: impl FnOnce(CardId) -> i64,
    ) -> Self {
        let one = match alternative {
            Some(Alternative::Card(card)) => Some((Dimension::Card(*card), count(*card))),
            Some(Alternative::Set(_)) | None => None,
        };
        // The cards of a set are part of what is requested with the set.
        let is_for_cards = task.is_for_cards() || alternative.is_some();
        let request = task.request_with(alternative).iter();
        let charged = request.filter(|(dimension, _)| is_charged(arguments, *dimension, is_for_cards));
        Self {
            alternative: alternative.cloned(),
            amounts: charged.chain(task.by_class()).chain(one).collect(),
        }
    }
}

/// Returns the resources that a task is checked and charged for whichever cards it gets: CPU, memory, then the others.
pub fn resources(arguments: &CapacityCard, task: &Task) -> impl Iterator<Item = (Dimension, i64)> {
    let (request, is_for_cards) = (task.request.iter().chain(task.by_class()), task.is_for_cards());
    request.filter(move |(dimension, _)| is_charged(arguments, *dimension, is_for_cards))
}

/// Returns what an alternative adds to that: its cards, and for claimed cards the resources by which they are counted.
/// `resource_of` says as which resource a card is requested that the task names.
#[inline]
pub fn added<'a>(
    task: &Task,
    alternative: &'a Alternative,
    resource_of: impl FnOnce(CardId) -> Option<ResourceId>,
) -> impl Iterator<Item = (Dimension, i64)> + 'a {
    let (one, several) = match alternative {
        Alternative::Card(card) => {
            let count = resource_of(*card).map_or(0, |resource| task.count(resource));
            (Some((Dimension::Card(*card), count)), None)
        }
        Alternative::Set(set) => (None, Some(set.added().iter())),
    };
    one.into_iter().chain(several.into_iter().flatten())
}

/// Whether a task is charged for a dimension, given whether it asks for cards (**Plugin Configuration**,
/// `cardUnlimitedCpuMemory`).
pub fn is_charged(arguments: &CapacityCard, dimension: Dimension, is_for_cards: bool) -> bool {
    !(arguments.card_unlimited_cpu_memory && is_for_cards && dimension.is_cpu_or_memory())
}

/// Whether a plugin limits queues in a dimension, whether they name it or not: `capacity-card` knows CPU, memory and cards.
pub(crate) fn is_limited(plugin: QueuePlugin, dimension: Dimension) -> bool {
    match (plugin, dimension) {
        (QueuePlugin::Off, _) => false,
        (QueuePlugin::Capacity, _) | (QueuePlugin::CapacityCard, Dimension::Card(_)) => true,
        (QueuePlugin::CapacityCard, Dimension::Resource(_)) => dimension.is_cpu_or_memory(),
    }
}

/// Whether every pod asks for one of it: its slot on a node. Queues are limited in it only where they name it.
pub(crate) fn is_of_every_pod(dimension: Dimension) -> bool {
    dimension == Dimension::Resource(ResourceId::PODS)
}

/// Returns how many of a card a task asks for, by the resource that the card stands for. For a card that no node ever had, it is
/// the largest amount of any extended resource, except resources that count memory: a running pod must not count for nothing
/// because its node is gone.
pub fn card_count(names: &Names, task: &Task, resource: Option<ResourceId>) -> i64 {
    if let Some(resource) = resource {
        return task.count(resource);
    }
    let request = task.request.iter();
    let extended = request.filter(|(dimension, _)| {
        dimension
            .resource()
            .map(|id| names.resource_name(id))
            .is_some_and(|name| is_extended(name) && counts_cards(name))
    });
    extended.map(|(_, amount)| amount).max().unwrap_or(0)
}

/// Returns the alternatives of a task, most preferred first: those whose cards are all known to the cluster, and whose resource
/// the task requests.
pub fn alternatives(
    task: &Task,
    resource_of: impl Fn(CardId) -> Option<ResourceId>,
) -> impl Iterator<Item = &Alternative> {
    task.alternatives.iter().filter(move |alternative| match alternative {
        Alternative::Card(card) => resource_of(*card).is_some_and(|resource| task.count(resource) > 0),
        Alternative::Set(_) => alternative.all(|card| resource_of(card).is_some()),
    })
}

/// Returns what tasks ask for in all, each with its alternatives.
pub(crate) fn demand_of<'t>(
    arguments: &CapacityCard,
    tasks: impl Iterator<Item = &'t Task>,
    resource_of: impl Fn(CardId) -> Option<ResourceId>,
) -> Demand {
    let mut sums = BTreeMap::<Dimension, i64>::new();
    let mut cards = Vec::new();
    for task in tasks {
        for (dimension, amount) in resources(arguments, task) {
            let sum = sums.entry(dimension).or_default();
            *sum = sum.saturating_add(amount);
        }
        let known: Vec<_> = alternatives(task, &resource_of).collect();
        match known[..] {
            [] => {}
            // Each card of the set by itself.
            [Alternative::Set(set)] => {
                cards.extend(set.cards().iter().map(|(card, count)| (Box::from([*card]), *count)));
            }
            _ => cards.push(least_of(task, &known, &resource_of)),
        }
        for (dimension, amount) in least_added(&known) {
            let sum = sums.entry(dimension).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    Demand::new(sums.into_iter().collect(), cards)
}

/// Combines alternatives into one set of cards and the number that is taken from it whichever alternative is taken: the least
/// that any of them takes.
fn least_of(
    task: &Task,
    alternatives: &[&Alternative],
    resource_of: impl Fn(CardId) -> Option<ResourceId>,
) -> (CardChoice, i64) {
    let cards: BTreeSet<_> = alternatives
        .iter()
        .flat_map(|alternative| alternative.cards())
        .collect();
    let count = |alternative: &&Alternative| {
        let added = added(task, alternative, &resource_of);
        let counts = added.filter(|(dimension, _)| dimension.card().is_some());
        counts.fold(0, |sum: i64, (_, count)| sum.saturating_add(count))
    };
    let least = alternatives.iter().map(count).min().unwrap_or(0);
    (cards.into_iter().collect(), least)
}

/// Returns the least of each resource that claimed cards are counted by, whichever alternative is taken.
fn least_added(alternatives: &[&Alternative]) -> Vec<(Dimension, i64)> {
    let mut sets = alternatives.iter().filter_map(|alternative| alternative.set());
    let Some(first) = sets.next() else { return Vec::new() };
    let resources = first
        .added()
        .iter()
        .filter(|(dimension, _)| dimension.resource().is_some());
    let least = resources.map(|(dimension, amount)| {
        let others = sets.clone().map(|set| set.added().get(dimension));
        (dimension, others.fold(amount, i64::min))
    });
    least.collect()
}

/// Returns what counts of a workload's own demand. Cards count, each also as one of the resource that it is requested as. CPU and
/// memory count, unless the workload `is_for_cards` and the cards stand for them. Every other resource counts too; the plugin
/// compares those that it limits.
pub fn metered(
    arguments: &CapacityCard,
    demand: &Demand,
    is_for_cards: bool,
    resource_of: impl Fn(CardId) -> Option<ResourceId>,
) -> Demand {
    let counts = |(dimension, _): &(Dimension, i64)| is_charged(arguments, *dimension, is_for_cards);
    let mut resources: BTreeMap<_, _> = demand.resources.iter().filter(counts).collect();
    let mut devices = BTreeMap::<Dimension, i64>::new();
    for (set, count) in &demand.cards {
        // All alternatives stand for one resource.
        if let Some(resource) = set.iter().find_map(|card| resource_of(*card)) {
            let sum = devices.entry(Dimension::Resource(resource)).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    for (dimension, count) in devices {
        let sum = resources.entry(dimension).or_default();
        *sum = count.max(*sum);
    }
    Demand {
        resources: resources.into_iter().collect(),
        cards: demand.cards.clone(),
    }
}
