//! What decisions may cost, in steps. Steps are the same on every machine, and their number is bounded for every question,
//! however many nodes it is about.
//!
//! A question is about one pod, or one gang, and all nodes. The nodes share a number of steps, so that a few of them may be
//! searched long. Each node also has a few steps for itself, so that a simple pod is judged exactly on any number of nodes.

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
/// The steps that all nodes share in a question about a gang: for all its pods and all ways to let them in.
const COMMON_OF_GANG: u64 = 10_000_000;
/// What a message that asks nodes may cost, for all nodes and all pods that it is about: others wait while it is written.
pub(crate) const STEPS_OF_MESSAGE: u64 = 1_000_000;
/// The cost of asking a node whether it takes a pod at all.
pub(super) const LOOK_AT_NODE: usize = 16;
/// The cost of counting a pod on its way out as gone for one look at a reclaim, and of putting it back: so low that a look has steps
/// left even where as many pods leave as a large cluster has.
const LEAVING: usize = 64;
/// The steps after which a queue's turn ends for this round. The rest of its pods are judged in the next round, after what other
/// queues wait for.
const QUEUE: u64 = 12_000_000;

/// The steps after which a namespace's turn ends in the same way, in all queues together. Otherwise a user who may create pods in
/// a namespace that many queues are for would have a turn in each of them.
const NAMESPACE: u64 = 2 * QUEUE;

/// Returns the cost of asking a node whether it takes a pod of this shape.
pub(super) fn cost_of_look(shape: &Shape) -> usize {
    LOOK_AT_NODE.saturating_add(shape.constraints.length)
}

/// The steps of one question.
#[derive(Debug, Clone)]
pub(super) struct Effort(Rc<Left>);

#[derive(Debug)]
struct Left {
    common: Steps,
    /// The steps that nodes may spend for themselves, of all nodes together.
    own: Steps,
    spent: Cell<u64>,
}

impl Effort {
    /// Returns what a question about a pod may cost.
    pub(super) fn of_pod() -> Self {
        Self::new(COMMON)
    }

    /// Returns what it may cost to ask again for a pod that was too complex: nodes that have changed since are searched with the
    /// steps that each has for itself.
    pub(super) fn of_complex_pod() -> Self {
        Self::new(0)
    }

    /// Returns what it may cost to ask again for pods that one look has found room for and that the next look has no steps left
    /// for: a look at the one node of each, for as many pods as a look is for at most.
    pub(super) fn of_keeping() -> Self {
        Self::new(0)
    }

    /// Returns what a message about a pod may cost: nodes have steps for themselves until these are spent.
    pub(super) fn of_message() -> Self {
        Self::of(0, STEPS_OF_MESSAGE)
    }

    /// Returns what a question about a gang may cost.
    pub(super) fn of_gang() -> Self {
        Self::new(COMMON_OF_GANG)
    }

    /// Returns what a message about a gang may cost.
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

    /// Counts a look at a node, in which all that the pod says about nodes is compared with it.
    pub(super) fn look_at_node(&self, shape: &Shape) {
        self.spend(cost_of_look(shape));
    }

    /// Lets a part of the work spend at most `most` of the steps that all nodes share.
    pub(super) fn share<T>(&self, most: u64, work: impl FnOnce(&Steps) -> T) -> T {
        let before = self.0.common.left();
        let result = self.0.common.share(most, work);
        self.count(before - self.0.common.left());
        result
    }

    /// Returns the steps that all nodes share.
    pub(super) fn common(&self) -> &Steps {
        &self.0.common
    }

    pub(super) fn spend(&self, steps: usize) {
        self.0.common.spend(steps);
        self.count(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Spends what it costs to count so many pods on their way out as gone for one look.
    pub(super) fn spend_on_leaving(&self, pods: usize) {
        self.spend(LEAVING.saturating_mul(pods));
    }

    /// Counts what was done beside the search, and takes nothing from what the search may cost.
    pub(super) fn count_beside(&self, steps: usize) {
        self.count(u64::try_from(steps).unwrap_or(u64::MAX));
    }

    /// Searches the cards of one node, with its own steps and those that all nodes share.
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

    /// Whether the steps that nodes share are spent.
    pub(super) fn is_spent(&self) -> bool {
        self.0.common.are_spent()
    }

    /// Returns how many steps were spent in all.
    pub(super) fn spent(&self) -> u64 {
        self.0.spent.get()
    }

    fn count(&self, steps: u64) {
        self.0.spent.set(self.0.spent.get().saturating_add(steps));
    }
}

/// On whose account a question is: a queue's, or, as `None`, the account of all pods together that no queue takes. A user can
/// make up any number of queue names.
pub(super) type Payer = Option<QueueId>;

/// What the queues and the namespaces have spent in one round.
#[derive(Debug)]
pub(super) struct Spending {
    of_queues: BTreeMap<Payer, u64>,
    of_namespaces: HashMap<Arc<str>, u64>,
    /// The steps after which the turn of a namespace ends.
    most_of_namespace: u64,
}

impl Spending {
    /// Returns what gangs that lost pods have before all others: a turn of each queue, and half of the steps of each namespace.
    pub(super) fn before_turns() -> Self {
        Self {
            of_queues: BTreeMap::new(),
            of_namespaces: HashMap::new(),
            most_of_namespace: NAMESPACE / 2,
        }
    }

    /// Begins the turns of all others. Each queue has a turn of its own, and each namespace what it has left: half of its steps at
    /// least, or it would have no turn for as long as such gangs spend all of them in each round.
    pub(super) fn begin_turns(&mut self) {
        self.of_queues.clear();
        for spent in self.of_namespaces.values_mut() {
            *spent = (*spent).min(self.most_of_namespace);
        }
        self.most_of_namespace = NAMESPACE;
    }

    /// Whether a queue's turn has ended.
    pub(super) fn is_over(&self, payer: Payer) -> bool {
        self.of_queues.get(&payer).is_some_and(|spent| *spent >= QUEUE)
    }

    /// Whether the turn of this namespace has ended, or that of any of these payers.
    pub(super) fn is_over_for(&self, namespace: &str, payers: &BTreeSet<Payer>) -> bool {
        let spent = self.of_namespaces.get(namespace);
        spent.is_some_and(|spent| *spent >= self.most_of_namespace) || payers.iter().any(|payer| self.is_over(*payer))
    }

    /// Counts what a question of a namespace has cost, for the namespace and for each payer.
    pub(super) fn add(&mut self, namespace: &Arc<str>, payers: &BTreeSet<Payer>, effort: &Effort) {
        let of_namespace = self.of_namespaces.entry(Arc::clone(namespace)).or_default();
        *of_namespace = of_namespace.saturating_add(effort.spent());
        for payer in payers {
            let spent = self.of_queues.entry(*payer).or_default();
            *spent = spent.saturating_add(effort.spent());
        }
    }
}
