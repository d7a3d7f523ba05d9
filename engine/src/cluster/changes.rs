//! What has changed in the cluster and is to be shown again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::Cluster;
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::ids::{NodeId, QueueId};
use crate::names::CardId;

/// The least and the most that there was of something during a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// A queue that names more than this may not have found it.
    pub least: i128,
    /// A queue that names no more than this could once have had it.
    pub most: i128,
}

impl Span {
    /// Returns the span of an amount that was always the same.
    pub(crate) fn of(amount: i128) -> Self {
        Self {
            least: amount,
            most: amount,
        }
    }

    /// Extends the span so that it includes this amount as well.
    pub(crate) fn include(&mut self, amount: i128) {
        (self.least, self.most) = (self.least.min(amount), self.most.max(amount));
    }
}

/// How long the shown numbers of what the cluster has stay as they are where nothing but these numbers changes: in a large
/// cluster nodes change all the time.
const NUMBERS_STAND: SignedDuration = SignedDuration::from_secs(1);

/// What has changed since it was shown last, and is therefore to be shown again.
#[derive(Debug, Default)]
pub struct Changes {
    /// Nodes that say something else than before.
    pub nodes: BTreeSet<NodeId>,
    /// Nodes whose room is used differently.
    pub node_usage: BTreeSet<NodeId>,
    /// Nodes that are gone, by name and uid.
    pub nodes_gone: Vec<(Arc<str>, Box<str>)>,
    /// Queues that are gone, by name and uid.
    pub queues_gone: Vec<(Arc<str>, Box<str>)>,
    /// Nodes whose annotations on quotas for pods without GPU can't be read, or can be read again.
    pub bad_quotas: BTreeSet<NodeId>,
    /// Cards whose nodes have changed.
    pub cards: BTreeSet<CardId>,
    /// Cards whose use has changed.
    pub card_usage: BTreeSet<CardId>,
    /// Bound pods whose mGPU cards nobody has written on them, by uid.
    pub unplaced_gpu_pods: Vec<Arc<str>>,
    /// Pods that got other cards than they were let in for, by uid, with the cards that they were let in for.
    pub got_others: Vec<(Arc<str>, Alternative)>,
    /// Admitted pods whose condition still says that they wait, by uid.
    pub shown_as_waiting: Vec<Arc<str>>,
    /// Whether the resources that stand for cards are others than before.
    pub resources_of_cards: bool,
    /// Queues that say or hold something else than before.
    pub queues: BTreeSet<QueueId>,
    /// The dimensions of which the cluster has more or less than before, each with the least and the most that it had
    /// since.
    pub total: BTreeMap<Dimension, Span>,
    /// Whether queues that name more than the cluster has are to show what it has now. That number changes with every
    /// node.
    pub shows_numbers: bool,
    /// Whether Volcano's scheduler is seen to write what Cardgate writes too.
    pub volcano_schedules: bool,
}

impl Cluster {
    /// Returns what has changed since the last call. Changes of nothing but the numbers of what the cluster has are shown
    /// at intervals.
    pub fn take_changes(&mut self) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        if changes.total.is_empty() {
            return changes;
        }
        let stood = self.numbers_shown.map(|shown| self.now.duration_since(shown));
        changes.shows_numbers = stood.is_none_or(|stood| !(SignedDuration::ZERO..NUMBERS_STAND).contains(&stood));
        if changes.shows_numbers {
            self.numbers_shown = Some(self.now);
        } else {
            let dimensions = changes.total.keys();
            let owed = dimensions.map(|dimension| (*dimension, Span::of(self.top.total.get(*dimension))));
            self.changes.total = owed.collect();
        }
        changes
    }
}
