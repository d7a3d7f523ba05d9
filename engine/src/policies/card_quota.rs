//! The Capacity Card document: quotas for cards, CPU and memory, task by task. Under the `capacity` plugin a task is checked
//! in the same order; there every other resource counts too.

use crds::configuration::{CapacityCard, QueuePlugin};

use crate::amounts::Dimension;
use crate::metering;
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;
use crate::task::Task;

/// What is checked: one task against one queue, and the resources that stand for the cards.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a, R, H> {
    /// The plugin that rules queues.
    pub plugin: QueuePlugin,
    /// The arguments of `capacity-card`.
    pub arguments: &'a CapacityCard,
    /// Whether the queue has neither capability nor card quota.
    pub queue_is_empty: bool,
    /// What is asked for.
    pub task: &'a Task,
    /// The resource that a card name stands for; none where no node ever had the card.
    pub resource_of: R,
    /// Whether resources are asked about that the plugin does not limit: somebody gets them back from others.
    pub asks_all: bool,
    /// Whether there is room in the queue, and wherever else it takes, for so much of a dimension.
    pub has_room: H,
}

impl<R: Fn(CardId) -> Option<ResourceId>, H: Fn(Dimension, i64) -> bool> Check<'_, R, H> {
    /// **Task Allocatable Check** up to the cards: is the request readable, does the queue have anything at all, and is
    /// there CPU and memory left?
    pub fn before_cards(&self) -> Result<(), Reason> {
        let names_unknown = !self.task.cards.is_empty() && self.known_alternatives().next().is_none();
        if self.task.unreadable.is_some() || names_unknown {
            return Err(Reason::GetTaskRequestResourceFailed);
        }
        if self.queue_is_empty && self.plugin == QueuePlugin::CapacityCard {
            return Err(Reason::EmptyQueueCapability);
        }
        if let Some((dimension, _)) = self.resources_without_room().next() {
            return Err(dimension.shortage());
        }
        Ok(())
    }

    /// **Task Mode**: the alternatives that have quota left for the whole task, most preferred first, with the number of
    /// cards. A task uses one card type only.
    pub fn cards_with_quota(&self) -> impl Iterator<Item = (CardId, i64)> + '_ {
        self.known_alternatives()
            .filter(|(card, count)| (self.has_room)(Dimension::Card(*card), *count))
    }

    /// The resources that the queue has no room for, and how much of each is asked for: CPU and memory first, and under the
    /// plugin that counts them all, the others.
    pub(crate) fn resources_without_room(&self) -> impl Iterator<Item = (Dimension, i64)> + '_ {
        let resources = metering::resources(self.arguments, self.task);
        let limited = resources.filter(|(dimension, _)| self.asks_all || metering::is_limited(self.plugin, *dimension));
        limited.filter(|(dimension, asked)| !(self.has_room)(*dimension, *asked))
    }

    /// The alternatives that the cluster knows and whose resource the task requests, with the number of cards.
    pub(crate) fn known_alternatives(&self) -> impl Iterator<Item = (CardId, i64)> + '_ {
        metering::alternatives(self.task, &self.resource_of)
    }
}

/// **Node Ordering**: the score of a node for a task, by the first of the task's alternatives that the node has.
///
/// `100 x 0.5^index x nodeOrderWeight`; 0 for a task with a single card, and for a node that has none of the cards.
pub(crate) fn node_order_score(arguments: &CapacityCard, alternatives: &[CardId], has: impl Fn(CardId) -> bool) -> f64 {
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
