//! What decisions may cost, in steps: the same on every machine, and bounded for every question, however many nodes it is about.
//!
//! A question is about one pod, or one gang, and all nodes. The nodes share a number of steps among them, so that a few of
//! them may be searched long; and each has a few for itself, so that a simple pod is judged exactly on any number of nodes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::cluster::waiting::Shape;
use crate::ids::QueueId;
use crate::policies::mgpu::STEPS;
use crate::steps::Steps;

/// The steps that all nodes share in one question: some ten milliseconds.
const COMMON: u64 = 3_000_000;
/// The steps that each node has for itself: enough for the document's pods on eight cards that are all in use differently.
const OWN: u64 = 20_000;
/// The same for all pods of a gang and all ways to let them in.
const COMMON_OF_GANG: u64 = 10_000_000;
/// What it costs to ask a node whether it takes a pod at all.
const LOOK_AT_NODE: usize = 16;
/// The steps after which a queue's turn ends for this round: the others of its pods are judged in the next one, after what
/// other queues wait for.
const QUEUE: u64 = 12_000_000;

/// The steps of one question.
#[derive(Debug, Clone)]
pub(super) struct Effort(Rc<Left>);

#[derive(Debug)]
struct Left {
    common: Steps,
    spent: Cell<u64>,
}

impl Effort {
    /// What a question about a pod may cost.
    pub(super) fn of_pod() -> Self {
        Self::new(COMMON)
    }

    /// What it may cost to ask again for a pod that was too complex: nodes that have changed since are searched with the steps
    /// that each has for itself.
    pub(super) fn of_complex_pod() -> Self {
        Self::new(0)
    }

    /// What a question about a gang may cost.
    pub(super) fn of_gang() -> Self {
        Self::new(COMMON_OF_GANG)
    }

    fn new(common: u64) -> Self {
        let common = Steps::new(common);
        let spent = Cell::new(0);
        Self(Rc::new(Left { common, spent }))
    }

    /// Counts a look at a node, with which all that the pod says about nodes is compared.
    pub(super) fn look_at_node(&self, shape: &Shape) {
        self.spend(LOOK_AT_NODE.saturating_add(shape.constraints.length));
    }

    /// The steps that all nodes share.
    pub(super) fn common(&self) -> &Steps {
        &self.0.common
    }

    pub(super) fn spend(&self, steps: usize) {
        self.0.common.spend(steps);
        self.count(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Searches the cards of one node, with the steps that it has.
    pub(super) fn search<T>(&self, search: impl FnOnce(&Steps) -> T) -> T {
        let granted = STEPS.min(self.0.common.left() + OWN);
        let steps = Steps::new(granted);
        let found = search(&steps);
        let used = granted - steps.left();
        self.0
            .common
            .spend(usize::try_from(used.saturating_sub(OWN)).unwrap_or(usize::MAX));
        self.count(used);
        found
    }

    /// Whether what nodes share is spent.
    pub(super) fn is_spent(&self) -> bool {
        self.0.common.are_spent()
    }

    /// How many steps were spent in all.
    pub(super) fn spent(&self) -> u64 {
        self.0.spent.get()
    }

    fn count(&self, steps: u64) {
        self.0.spent.set(self.0.spent.get().saturating_add(steps));
    }
}

/// What the queues have spent in one round.
#[derive(Debug, Default)]
pub(super) struct Spending(BTreeMap<QueueId, u64>);

impl Spending {
    /// Whether a queue's turn has ended.
    pub(super) fn is_over(&self, queue: QueueId) -> bool {
        self.0.get(&queue).is_some_and(|spent| *spent >= QUEUE)
    }

    /// Counts what a question has cost, for each of the queues that it was about.
    pub(super) fn add(&mut self, queues: &BTreeSet<QueueId>, effort: &Effort) {
        for queue in queues {
            let spent = self.0.entry(*queue).or_default();
            *spent = spent.saturating_add(effort.spent());
        }
    }
}
