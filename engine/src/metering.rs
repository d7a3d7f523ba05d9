//! What counts, and how much of it: every amount that a pod or a workload is charged for, asks for or has kept for it is made
//! here, dimension by dimension.

use std::collections::BTreeMap;

use crds::card_resources::is_extended;
use crds::configuration::{CapacityCard, QueuePlugin};

use crate::amounts::{Amounts, Dimension};
use crate::inqueue::Demand;
use crate::names::{CardId, Names, ResourceId};
use crate::task::Task;

/// What a pod is charged for, or would be. Kept with the pod, so that exactly this is given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charge {
    /// The card that it counts for, even where it counts for none of it.
    pub card: Option<CardId>,
    /// How much, by dimension.
    pub amounts: Amounts,
}

impl Charge {
    /// What a task comes to with this card, of which it asks for so many.
    pub fn of(arguments: &CapacityCard, task: &Task, card: Option<(CardId, i64)>) -> Self {
        let cards = card.map(|(card, count)| (Dimension::Card(card), count));
        Self {
            card: card.map(|(card, _)| card),
            amounts: resources(arguments, task).chain(cards).collect(),
        }
    }
}

/// The resources that a task is checked and charged for: CPU, memory, then the others.
pub fn resources(arguments: &CapacityCard, task: &Task) -> impl Iterator<Item = (Dimension, i64)> {
    let (request, is_for_cards) = (task.request.iter(), task.is_for_cards());
    request.filter(move |(dimension, _)| is_charged(arguments, *dimension, is_for_cards))
}

/// Whether what asks for cards, or does not, is charged for a dimension (**Plugin Configuration**, `cardUnlimitedCpuMemory`).
pub fn is_charged(arguments: &CapacityCard, dimension: Dimension, is_for_cards: bool) -> bool {
    !(arguments.card_unlimited_cpu_memory && is_for_cards && dimension.is_cpu_or_memory())
}

/// Whether a plugin limits queues in a dimension, be it named or not: `capacity-card` knows CPU, memory and cards.
pub(crate) fn is_limited(plugin: QueuePlugin, dimension: Dimension) -> bool {
    match (plugin, dimension) {
        (QueuePlugin::Off, _) => false,
        (QueuePlugin::Capacity, _) | (QueuePlugin::CapacityCard, Dimension::Card(_)) => true,
        (QueuePlugin::CapacityCard, Dimension::Resource(_)) => dimension.is_cpu_or_memory(),
    }
}

/// Whether every pod asks for it, one of it: its slot on a node. Queues are limited in it only where they name it.
pub(crate) fn is_of_every_pod(dimension: Dimension) -> bool {
    dimension == Dimension::Resource(ResourceId::PODS)
}

/// How many of a card a task asks for, by the resource that the card stands for. Of a card that no node ever had, the most of
/// any extended resource: a pod that runs must not count for nothing because its node is gone.
pub fn card_count(names: &Names, task: &Task, resource: Option<ResourceId>) -> i64 {
    if let Some(resource) = resource {
        return task.count(resource);
    }
    let request = task.request.iter();
    let extended = request.filter(|(dimension, _)| {
        dimension
            .resource()
            .is_some_and(|id| is_extended(names.resource_name(id)))
    });
    extended.map(|(_, amount)| amount).max().unwrap_or(0)
}

/// The cards that a task could get, of those that the cluster knows and whose resource it requests: most preferred first, with
/// the number of each.
pub fn alternatives(
    task: &Task,
    resource_of: impl Fn(CardId) -> Option<ResourceId>,
) -> impl Iterator<Item = (CardId, i64)> {
    let counts = task
        .cards
        .iter()
        .filter_map(move |card| Some((*card, task.count(resource_of(*card)?))));
    counts.filter(|(_, count)| *count > 0)
}

/// What tasks ask for in all, each with its alternatives.
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
        if let Some((_, count)) = known.first() {
            cards.push((known.iter().map(|(card, _)| *card).collect(), *count));
        }
    }
    Demand::new(sums.into_iter().collect(), cards)
}

/// What of a workload's own demand counts: cards, each also as one of the resource that it is requested as; CPU and memory,
/// unless it `is_for_cards` and those stand for them; and every other resource, of which the plugin compares what it does.
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
        // All alternatives are of one resource.
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
