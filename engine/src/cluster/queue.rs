//! One queue: what it may have, what it holds and what waits in it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crds::names::as_object_name;
use crds::queue_access::QueueAccess;
use crds::queue_terms::{Limits, QueueProblem, QueueTerms};
use crds::volcano;
use jiff::Timestamp;

use super::below::Below;
use super::holders::Holders;
use super::ledger::Pen;
use super::waiting::Waiting;
use crate::amounts::{Amounts, Bounds, Dimension, Totals};
use crate::ids::{QueueId, WorkloadId};
use crate::inqueue::Inqueue;
use crate::names::{CardId, Names};

/// The name of the queue that stands for no queue, and that no Queue object can have. Pods that `CrossQuota` alone holds
/// wait in it. It limits nothing.
pub(crate) const NAMELESS: &str = "";

/// What a queue says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Unique id, for owner references.
    pub uid: Box<str>,
    /// When it was created.
    pub created: Timestamp,
    /// Queues of higher priority go first.
    pub priority: i32,
    /// The state of the queue, where the queue takes no pods.
    pub closed: Option<Box<str>>,
    /// CPU, memory and card quotas, or why they can't be read.
    pub quota: Result<Quota, Box<str>>,
    /// Which namespaces may use the queue, or why that can't be read.
    pub access: Result<QueueAccess, Box<str>>,
    /// The queue that it is a part of, where it names one.
    pub parent: Option<Box<str>>,
    /// Whether what the queue has beyond what it deserves may be taken back.
    pub reclaimable: bool,
}

/// What a queue may have, what it should have and what is guaranteed to it: resources by its spec, cards by its
/// annotations (Capacity Card, **Queue Annotations for Card Quotas**).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// The most that the queue may have: what `spec.capability` names, and the cards.
    pub capability: Bounds,
    /// What the queue should have while others want it too.
    pub deserved: Bounds,
    /// What is kept free for the queue.
    pub guarantee: Amounts,
    /// Whether there is neither `spec.capability` nor a card quota.
    pub is_empty: bool,
    /// The cards that any of these names, sorted by name. Cards with an amount of 0 are included.
    pub cards: Box<[CardId]>,
}

impl Quota {
    fn of(said: &QueueTerms, names: &mut Names) -> Self {
        let mut bounds = |limits: &Limits| -> Vec<_> {
            let dimensions = limits.keys().map(|item| Dimension::of(item, names));
            dimensions.zip(limits.values().copied()).collect()
        };
        let (capability, deserved, guarantee) = (
            bounds(&said.capability),
            bounds(&said.deserved),
            bounds(&said.guarantee),
        );
        let all = capability.iter().chain(&deserved).chain(&guarantee);
        let cards = all.filter_map(|(dimension, _)| dimension.card());
        let mut cards: Vec<_> = cards.collect();
        cards.sort_unstable_by(|a, b| names.card_name(*a).cmp(names.card_name(*b)));
        cards.dedup();
        Self {
            is_empty: capability.is_empty(),
            cards: cards.into(),
            capability: capability.into_iter().collect(),
            deserved: deserved.into_iter().collect(),
            guarantee: guarantee.into_iter().collect(),
        }
    }

    /// Whether the queue says anything of a dimension, even only what it deserves or is guaranteed.
    pub(super) fn says_anything_of(&self, dimension: Dimension) -> bool {
        let mut bounds = [&self.capability, &self.deserved].into_iter();
        bounds.any(|bounds| bounds.get(dimension).is_some()) || self.guarantee.get(dimension) > 0
    }

    /// Returns the capability in one dimension; 0 where it is not named.
    pub fn limit(&self, dimension: Dimension) -> i64 {
        self.capability.get(dimension).unwrap_or(0)
    }
}

impl Terms {
    /// Reads what a queue says of itself.
    pub fn read(queue: &volcano::Queue, names: &mut Names) -> Self {
        let annotations = queue.metadata.annotations.as_ref();
        let said = QueueTerms::read(&queue.spec, |key| annotations?.get(key).map(String::as_str));
        Self {
            uid: queue.metadata.uid.as_deref().unwrap_or_default().into(),
            created: queue
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            priority: said.priority,
            closed: queue.closed().map(Into::into),
            quota: match said.problems.first() {
                None => Ok(Quota::of(&said, names)),
                Some(problem) => Err(problem.to_string().into()),
            },
            access: said
                .access
                .map_err(|error| QueueProblem::Namespaces(error).to_string().into()),
            parent: said.parent.map(|name| as_object_name(&name).into()),
            reclaimable: said.reclaimable,
        }
    }

    /// Returns the terms of a queue that could not be read at all. Such a queue takes nothing until it is mended.
    pub fn unreadable(uid: &str, reason: &str) -> Self {
        Self {
            uid: uid.into(),
            created: Timestamp::UNIX_EPOCH,
            priority: 0,
            closed: None,
            quota: Err(reason.into()),
            access: Err(reason.into()),
            parent: None,
            reclaimable: false,
        }
    }

    /// Returns what keeps the queue from admitting anything. Problems come in the order in which a user should mend them.
    pub fn problem(&self) -> Option<&str> {
        self.quota
            .as_ref()
            .err()
            .or(self.access.as_ref().err())
            .map(|text| &**text)
    }
}

/// What pods and workloads hold of a queue and ask of it. It is read through [`Queue`], and only the ledger changes it.
#[derive(Debug, Default)]
pub struct QueueBooks {
    /// What the queue's admitted pods hold.
    pub allocated: Totals,
    /// The pods that hold that.
    pub holders: Holders,
    /// The pods that want to be let in, grouped by what tells them apart.
    pub waiting: Waiting,
    /// The part of `allocated` that the queue's workloads hold beyond their minimum.
    pub elastic: Totals,
    /// What the queue keeps for workloads that are in it and whose pods have not taken over.
    pub inqueue: Inqueue,
    /// The workloads that the queue keeps something for.
    pub(super) keeps_for: BTreeSet<WorkloadId>,
    /// The sums over the queues that are parts of this queue.
    pub below: Below,
}

/// One queue: what it may have, what it holds and what waits in it.
#[derive(Debug)]
pub struct Queue {
    /// The name by which pods and other queues name it.
    pub name: Arc<str>,
    /// What the queue says of itself; none while pods name a queue that is not there.
    terms: Option<Terms>,
    books: QueueBooks,
    /// The workloads that wait to be let into the queue.
    in_line: BTreeSet<WorkloadId>,
    /// How many pods and workloads name the queue, in whatever stage.
    members: usize,
    /// Rises whenever a refused pod could now be let in as far as this queue is concerned.
    version: u64,
    /// The queue that this queue is a part of.
    parent: Option<QueueId>,
    /// What is wrong with what the queue says about its parent.
    misplaced: Option<Box<str>>,
    epoch: u64,
}

impl Deref for Queue {
    type Target = QueueBooks;

    #[inline]
    fn deref(&self) -> &QueueBooks {
        &self.books
    }
}

impl Queue {
    /// Returns what is counted of the queue, to be changed.
    #[inline]
    pub(super) fn books(&mut self, _: Pen) -> &mut QueueBooks {
        &mut self.books
    }

    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            terms: None,
            books: QueueBooks::default(),
            in_line: BTreeSet::new(),
            members: 0,
            version: 0,
            parent: None,
            misplaced: None,
            epoch: 0,
        }
    }

    /// Returns what the queue says of itself; none while pods name a queue that is not there.
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Sets what the queue says of itself; none where it is gone.
    pub(super) fn say(&mut self, terms: Option<Terms>) {
        self.terms = terms;
        self.version += 1;
    }

    /// Notes that the queue was seen in this list of all queues.
    pub(super) fn see(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether the queue is there, and has not been seen in a list as late as this.
    pub(super) fn is_missing_in(&self, epoch: u64) -> bool {
        self.terms.is_some() && self.epoch < epoch
    }

    /// Whether the queue is there, or a pod or a workload names it.
    pub(crate) fn is_known(&self) -> bool {
        self.terms.is_some() || self.members > 0
    }

    /// Notes that one more pod or workload names the queue.
    pub(super) fn join(&mut self) {
        self.members += 1;
    }

    /// Notes that one pod or workload fewer names the queue.
    pub(super) fn quit(&mut self) {
        self.members -= 1;
    }

    /// Returns the workloads that wait to be let into the queue.
    pub fn in_line(&self) -> &BTreeSet<WorkloadId> {
        &self.in_line
    }

    /// Notes that a workload waits to be let into the queue from now on, or waits no longer.
    pub(super) fn line_up(&mut self, id: WorkloadId, waits: bool) {
        if waits {
            self.in_line.insert(id);
        } else {
            self.in_line.remove(&id);
        }
    }

    /// A counter that rises whenever a refused pod could now be let in as far as this queue is concerned.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Notes that pods and workloads which this queue refused could now be let in.
    pub(super) fn wake(&mut self) {
        self.version += 1;
    }

    /// Sets the version back, where what raised it meanwhile was only tried.
    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Returns the queue that this queue is a part of.
    pub fn parent(&self) -> Option<QueueId> {
        self.parent
    }

    /// Returns what is wrong with what the queue says about its parent.
    pub(super) fn misplaced(&self) -> Option<&str> {
        self.misplaced.as_deref()
    }

    /// Sets which queue this queue is a part of, and what is wrong with its place, if anything.
    pub(super) fn stand(&mut self, parent: Option<QueueId>, problem: Option<Box<str>>) {
        (self.parent, self.misplaced) = (parent, problem);
    }

    /// Whether this is the queue that stands for no queue, for pods that no queue is charged for.
    pub(crate) fn is_nameless(&self) -> bool {
        *self.name == *NAMELESS
    }

    /// Returns the quota, where the queue is there and its quota can be read.
    pub fn quota(&self) -> Option<&Quota> {
        self.terms.as_ref()?.quota.as_ref().ok()
    }

    /// Returns what keeps the queue from admitting anything. Problems come in the order in which a user should mend them.
    pub fn problem(&self) -> Option<&str> {
        let of_terms = self.terms.as_ref().and_then(Terms::problem);
        of_terms.or(self.misplaced.as_deref())
    }
}
