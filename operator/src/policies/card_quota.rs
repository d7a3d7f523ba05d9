//! The Capacity Card document: quotas for cards, CPU and memory, task by task.

use crds::configuration::CapacityCard;

use super::Reason;
use crate::cluster::amounts::{Dimension, Totals};
use crate::cluster::names::{CardId, ResourceId};
use crate::cluster::queue::Quota;
use crate::cluster::waiting::Task;

/// What a quota is checked against: one task, one queue, and the resources that stand for the cards.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a, R> {
    /// The plugin's arguments.
    pub arguments: &'a CapacityCard,
    /// What the queue may have.
    pub quota: &'a Quota,
    /// What the queue holds.
    pub allocated: &'a Totals,
    /// What is asked for.
    pub task: &'a Task,
    /// The resource that a card name stands for; none where no node ever had the card.
    pub resource_of: R,
}

impl<R: Fn(CardId) -> Option<ResourceId>> Check<'_, R> {
    /// **Task Allocatable Check** up to the cards: is the request readable, does the queue have anything at all, and is
    /// there CPU and memory left?
    pub fn before_cards(&self) -> Result<(), Reason> {
        let names_cards = !self.task.cards.is_empty();
        if self.task.unreadable.is_some() || (names_cards && self.known_alternatives().next().is_none()) {
            return Err(Reason::GetTaskRequestResourceFailed);
        }
        if self.quota.is_empty {
            return Err(Reason::EmptyQueueCapability);
        }
        if charges_cpu_and_memory(self.arguments, names_cards) {
            for (resource, reason) in [
                (ResourceId::CPU, Reason::InsufficientCpuQuota),
                (ResourceId::MEMORY, Reason::InsufficientMemoryQuota),
            ] {
                if !self.has_room(Dimension::Resource(resource), self.task.count(resource)) {
                    return Err(reason);
                }
            }
        }
        Ok(())
    }

    /// **Task Mode**: the alternatives that have quota left for the whole task, most preferred first, with the number of
    /// cards. A task uses one card type only.
    pub fn cards_with_quota(&self) -> impl Iterator<Item = (CardId, i64)> + '_ {
        self.known_alternatives()
            .filter(|(card, count)| self.has_room(Dimension::Card(*card), *count))
    }

    /// The alternatives that the cluster knows and whose resource the task requests, with the number of cards.
    pub fn known_alternatives(&self) -> impl Iterator<Item = (CardId, i64)> + '_ {
        self.task.cards.iter().filter_map(|card| {
            let count = self.task.count((self.resource_of)(*card)?);
            (count > 0).then_some((*card, count))
        })
    }

    /// What is not asked for is not limited, also where more is in use than the quota has become.
    fn has_room(&self, dimension: Dimension, asked: i64) -> bool {
        asked == 0 || self.allocated.get(dimension) + i128::from(asked) <= i128::from(self.quota.limit(dimension))
    }
}

/// Whether a pod is checked and charged for CPU and memory (**Plugin Configuration**, `cardUnlimitedCpuMemory`).
pub fn charges_cpu_and_memory(arguments: &CapacityCard, names_cards: bool) -> bool {
    !(arguments.card_unlimited_cpu_memory && names_cards)
}

/// **Node Ordering**: the score of a node for a task, by the first of the task's alternatives that the node has.
///
/// `100 x 0.5^index x nodeOrderWeight`; 0 for a task with a single card, and for a node that has none of the cards.
pub fn node_order_score(arguments: &CapacityCard, alternatives: &[CardId], has: impl Fn(CardId) -> bool) -> f64 {
    const BASE: f64 = 100.0;
    if alternatives.len() < 2 {
        return 0.0;
    }
    let index = alternatives.iter().position(|card| has(*card));
    index.map_or(0.0, |index| {
        BASE * 0.5_f64.powi(i32::try_from(index).unwrap_or(i32::MAX)) * arguments.node_order_weight
    })
}

#[cfg(test)]
mod tests;
