//! What decisions may cost, in steps: the same on every machine, and bounded for every question, however many nodes it is about.
//!
//! A question is about one pod, or one gang, and all nodes. The nodes share a number of steps among them, so that a few of
//! them may be searched long; and each has a few for itself, so that a simple pod is judged exactly on any number of nodes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use crate::cluster::waiting::Shape;
use crate::ids::QueueId;
use crate::policies::mgpu::STEPS;
use crate::steps::Steps;

/// The steps that all nodes share in one question: some ten milliseconds.
const COMMON: u64 = 3_000_000;
/// The steps that each node has for itself: enough for the document's pods on eight cards that are all in use differently.
pub(super) const OWN: u64 = 20_000;
/// The same for all pods of a gang and all ways to let them in.
const COMMON_OF_GANG: u64 = 10_000_000;
/// What a message may cost that asks nodes, for all of them and all pods that it is about: others wait while it is written.
pub(crate) const STEPS_OF_MESSAGE: u64 = 1_000_000;
/// What it costs to ask a node whether it takes a pod at all.
pub(super) const LOOK_AT_NODE: usize = 16;
/// The steps after which a queue's turn ends for this round: the others of its pods are judged in the next one, after what
/// other queues wait for.
const QUEUE: u64 = 12_000_000;

/// The steps after which a namespace's turn ends in the same way, in all queues together: whoever may create pods in one that many queues are
/// for would else have a turn in each.
const NAMESPACE: u64 = 2 * QUEUE;

/// What it costs to ask a node whether it takes a pod of this shape.
pub(super) fn cost_of_look(shape: &Shape) -> usize {
    LOOK_AT_NODE.saturating_add(shape.constraints.length)
}

/// The steps of one question.
#[derive(Debug, Clone)]
pub(super) struct Effort(Rc<Left>);

#[derive(Debug)]
struct Left {
    common: Steps,
    /// What nodes may spend for themselves, all of them.
    own: Steps,
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

    /// What it may cost to ask again for those whom a look has found room for and the next one has no steps left for: a look at the one
    /// node of each, for as many as a look is for at most.
    pub(super) fn of_keeping() -> Self {
        Self::new(0)
    }

    /// What a message about a pod may cost: nodes have steps for themselves until these are spent.
    pub(super) fn of_message() -> Self {
        Self::of(0, STEPS_OF_MESSAGE)
    }

    /// What a question about a gang may cost.
    pub(super) fn of_gang() -> Self {
        Self::new(COMMON_OF_GANG)
    }

    /// What a message about a gang may cost.
    pub(super) fn of_message_of_gang() -> Self {
        Self::of(STEPS_OF_MESSAGE, STEPS_OF_MESSAGE)
    }

    fn new(common: u64) -> Self {
        Self::of(common, u64::MAX)
    }

    fn of(common: u64, own: u64) -> Self {
        Self(Rc::new(Left {
            common: Steps::new(common),
            own: Steps::new(own),
            spent: Cell::new(0),
        }))
    }

    /// Counts a look at a node, with which all that the pod says about nodes is compared.
    pub(super) fn look_at_node(&self, shape: &Shape) {
        self.spend(cost_of_look(shape));
    }

    /// Lets a part of the work spend at most so many of the steps that all nodes share.
    pub(super) fn share<T>(&self, most: u64, work: impl FnOnce(&Steps) -> T) -> T {
        let before = self.0.common.left();
        let result = self.0.common.share(most, work);
        self.count(before - self.0.common.left());
        result
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
        let own = OWN.min(self.0.own.left());
        let granted = STEPS.min(self.0.common.left() + own);
        let steps = Steps::new(granted);
        let found = search(&steps);
        let used = granted - steps.left();
        let size = |steps: u64| usize::try_from(steps).unwrap_or(usize::MAX);
        self.0.common.spend(size(used.saturating_sub(own)));
        self.0.own.spend(size(used.min(own)));
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

/// On whose account a question is: a queue's, or that of all those together whom no queue takes. Anybody can make up any number of queues
/// by their names.
pub(super) type Payer = Option<QueueId>;

/// What the queues and the namespaces have spent in one round.
#[derive(Debug, Default)]
pub(super) struct Spending {
    of_queues: BTreeMap<Payer, u64>,
    of_namespaces: HashMap<Arc<str>, u64>,
}

impl Spending {
    /// Whether a queue's turn has ended.
    pub(super) fn is_over(&self, payer: Payer) -> bool {
        self.of_queues.get(&payer).is_some_and(|spent| *spent >= QUEUE)
    }

    /// Whether the turn has ended of any on whose account a question of a namespace is.
    pub(super) fn is_over_for(&self, namespace: &str, payers: &BTreeSet<Payer>) -> bool {
        let spent = self.of_namespaces.get(namespace);
        spent.is_some_and(|spent| *spent >= NAMESPACE) || payers.iter().any(|payer| self.is_over(*payer))
    }

    /// Counts what a question of a namespace has cost, for it and for each on whose account it was.
    pub(super) fn add(&mut self, namespace: &Arc<str>, payers: &BTreeSet<Payer>, effort: &Effort) {
        let of_namespace = self.of_namespaces.entry(Arc::clone(namespace)).or_default();
        *of_namespace = of_namespace.saturating_add(effort.spent());
        for payer in payers {
            let spent = self.of_queues.entry(*payer).or_default();
            *spent = spent.saturating_add(effort.spent());
        }
    }
}
