//! The Capacity Card document: quotas for cards, CPU and memory, task by task. Under the `capacity` plugin a task is checked in the same
//! order, but every other resource counts too.

use crds::configuration::{CapacityCard, QueuePlugin};

use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::metering;
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;
use crate::task::Task;

/// The input of a check: one task against one queue, and the resources that the cards stand for.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a, 't, R, H> {
    /// The plugin that governs queues.
    pub plugin: QueuePlugin,
    /// The arguments of `capacity-card`.
    pub arguments: &'a CapacityCard,
    /// Whether the queue has neither capability nor card quota.
    pub queue_is_empty: bool,
    /// What is asked for.
    pub task: &'t Task,
    /// Returns the resource that a card name stands for; none where no node ever had the card.
    pub resource_of: R,
    /// Whether resources that the plugin does not limit are checked too, because a claimant gets them back from others.
    pub asks_all: bool,
    /// Whether there is room for an amount of a dimension, in the queue and in every other place that matters.
    pub has_room: H,
}

impl<'t, R: Fn(CardId) -> Option<ResourceId>, H: Fn(Dimension, i64) -> bool> Check<'_, 't, R, H> {
    /// **Task Allocatable Check** up to the cards: whether the request is readable, the queue has any quota at all, and CPU and memory are
    /// left.
    pub fn before_cards(&self) -> Result<(), Reason> {
        let names_unknown = !self.task.alternatives.is_empty() && self.known_alternatives().next().is_none();
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

    /// **Task Mode**: returns the alternatives that have quota left for the whole task, most preferred first. An alternative of several
    /// cards needs quota of all of them.
    pub fn alternatives_with_quota(&self) -> impl Iterator<Item = &'t Alternative> {
        self.known_alternatives().filter(|alternative| {
            let mut compared = self.compared(alternative);
            compared.all(|(dimension, asked)| (self.has_room)(dimension, asked))
        })
    }

    /// Returns the parts of an alternative for which the queue has no room, and how much of each is asked for.
    pub(crate) fn without_room(&self, alternative: &Alternative) -> impl Iterator<Item = (Dimension, i64)> {
        let compared = self.compared(alternative);
        compared.filter(|(dimension, asked)| !(self.has_room)(*dimension, *asked))
    }

    /// Returns what an alternative adds to the task's other requests, as far as it is checked.
    #[inline]
    pub(crate) fn compared(&self, alternative: &Alternative) -> impl Iterator<Item = (Dimension, i64)> {
        let added = metering::added(self.task, alternative, &self.resource_of);
        added.filter(|(dimension, _)| self.asks_all || metering::is_limited(self.plugin, *dimension))
    }

    /// Returns the resources for which the queue has no room, and how much of each is asked for: CPU and memory first, and then, under the
    /// plugin that counts them, all others.
    pub(crate) fn resources_without_room(&self) -> impl Iterator<Item = (Dimension, i64)> + '_ {
        let resources = metering::resources(self.arguments, self.task);
        let limited = resources.filter(|(dimension, _)| self.asks_all || metering::is_limited(self.plugin, *dimension));
        limited.filter(|(dimension, asked)| !(self.has_room)(*dimension, *asked))
    }

    /// Returns the alternatives that the cluster knows and whose resource the task requests.
    pub(crate) fn known_alternatives(&self) -> impl Iterator<Item = &'t Alternative> {
        metering::alternatives(self.task, &self.resource_of)
    }
}

/// **Node Ordering**: returns the score of a node for a task, by the first of the task's alternatives of which the node has all cards.
///
/// `100 x 0.5^index x nodeOrderWeight`; 0 for a task with a single card, and for a node that has none of the cards.
pub(crate) fn node_order_score(
    arguments: &CapacityCard,
    alternatives: &[Alternative],
    has: impl Fn(CardId) -> bool,
) -> f64 {
    const BASE: f64 = 100.0;
    if alternatives.len() < 2 {
        return 0.0;
    }
    let index = alternatives.iter().position(|alternative| alternative.all(&has));
    index.map_or(0.0, |index| {
        BASE * 0.5_f64.powi(i32::try_from(index).unwrap_or(i32::MAX)) * arguments.node_order_weight
    })
}

#[cfg(test)]
mod tests;
