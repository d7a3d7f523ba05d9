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

/// The name of the queue that is none, and that no Queue can have: pods that `CrossQuota` alone holds wait in it. It limits
/// nothing.
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
    /// Set where the queue takes no pods: its state.
    pub closed: Option<Box<str>>,
    /// CPU, memory and card quotas; why they can't be read, where they can't.
    pub quota: Result<Quota, Box<str>>,
    /// Which namespaces may use it; why that can't be read, where it can't.
    pub access: Result<QueueAccess, Box<str>>,
    /// The queue that it is a part of, where it names one.
    pub parent: Option<Box<str>>,
    /// Whether what it has beyond what it deserves may be taken back.
    pub reclaimable: bool,
}

/// What a queue may have, should have, and has for certain: resources by its spec, cards by its annotations (Capacity Card,
/// **Queue Annotations for Card Quotas**).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quota {
    /// The most that it may have: what `spec.capability` names, and the cards.
    pub capability: Bounds,
    /// What it should have while others want it too.
    pub deserved: Bounds,
    /// What is kept free for it.
    pub guarantee: Amounts,
    /// Neither `spec.capability` nor a card quota is there.
    pub is_empty: bool,
    /// The cards that any of these names, by name; 0 included.
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

    /// The capability in one dimension; 0 where it is not named.
    pub fn limit(&self, dimension: Dimension) -> i64 {
        self.capability.get(dimension).unwrap_or(0)
    }
}

impl Terms {
    /// Takes in what a queue says of itself.
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

    /// Terms of a queue that could not be read at all: it takes nothing until it is mended.
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

    /// What keeps the queue from admitting anything, in the order a user should mend it.
    pub fn problem(&self) -> Option<&str> {
        self.quota
            .as_ref()
            .err()
            .or(self.access.as_ref().err())
            .map(|text| &**text)
    }
}

/// What pods and workloads hold of a queue and ask of it. Everybody reads it from the [`Queue`]; the ledger alone changes it.
#[derive(Debug, Default)]
pub struct QueueBooks {
    /// What its admitted pods hold.
    pub allocated: Totals,
    /// The pods that hold that.
    pub holders: Holders,
    /// The pods that want to be let in, by what tells them apart.
    pub waiting: Waiting,
    /// What of that its workloads hold beyond their minimum.
    pub elastic: Totals,
    /// What it keeps for workloads that are in it and whose pods have not taken over.
    pub inqueue: Inqueue,
    /// The workloads that it keeps something for.
    pub(super) keeps_for: BTreeSet<WorkloadId>,
    /// The queues that are parts of it.
    pub below: Below,
}

/// One queue: what it may have, what it holds and what waits in it.
#[derive(Debug)]
pub struct Queue {
    /// As pods and other queues name it.
    pub name: Arc<str>,
    /// What it says of itself; nothing while pods name a queue that is not there.
    terms: Option<Terms>,
    books: QueueBooks,
    /// Workloads that wait to be let into it.
    in_line: BTreeSet<WorkloadId>,
    /// How many pods and workloads name it, in whatever stage.
    members: usize,
    /// Rises whenever a refused pod could now be let in as far as this queue is concerned.
    version: u64,
    /// The queue that it is a part of.
    parent: Option<QueueId>,
    /// What is wrong with what it says about that.
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
    /// What is counted of it, to be changed.
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

    /// What it says of itself; nothing while pods name a queue that is not there.
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// It says something else, or nothing any more.
    pub(super) fn say(&mut self, terms: Option<Terms>) {
        self.terms = terms;
        self.version += 1;
    }

    /// It was seen in this list of all queues.
    pub(super) fn see(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether it is there, and has not been seen in a list so late.
    pub(super) fn is_missing_in(&self, epoch: u64) -> bool {
        self.terms.is_some() && self.epoch < epoch
    }

    /// Whether it is there, or a pod or a workload names it.
    pub(crate) fn is_known(&self) -> bool {
        self.terms.is_some() || self.members > 0
    }

    /// One more names it.
    pub(super) fn join(&mut self) {
        self.members += 1;
    }

    /// One that named it names it no longer.
    pub(super) fn quit(&mut self) {
        self.members -= 1;
    }

    /// Workloads that wait to be let into it.
    pub fn in_line(&self) -> &BTreeSet<WorkloadId> {
        &self.in_line
    }

    /// A workload waits to be let into it from now on, or waits no longer.
    pub(super) fn line_up(&mut self, id: WorkloadId, waits: bool) {
        if waits {
            self.in_line.insert(id);
        } else {
            self.in_line.remove(&id);
        }
    }

    /// Rises whenever a refused pod could now be let in as far as this queue is concerned.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whoever it refused could now be let in.
    pub(super) fn wake(&mut self) {
        self.version += 1;
    }

    /// What rose meanwhile was only tried.
    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// The queue that it is a part of.
    pub fn parent(&self) -> Option<QueueId> {
        self.parent
    }

    /// What is wrong with what it says about that.
    pub(super) fn misplaced(&self) -> Option<&str> {
        self.misplaced.as_deref()
    }

    /// It is part of this queue, or its place is wrong.
    pub(super) fn stand(&mut self, parent: Option<QueueId>, problem: Option<Box<str>>) {
        (self.parent, self.misplaced) = (parent, problem);
    }

    /// Whether this is the queue that is none, for pods that no queue is charged for.
    pub(crate) fn is_nameless(&self) -> bool {
        *self.name == *NAMELESS
    }

    /// The quota, where the queue is there and its quota can be read.
    pub fn quota(&self) -> Option<&Quota> {
        self.terms.as_ref()?.quota.as_ref().ok()
    }

    /// What keeps the queue from admitting anything, in the order a user should mend it.
    pub fn problem(&self) -> Option<&str> {
        let of_terms = self.terms.as_ref().and_then(Terms::problem);
        of_terms.or(self.misplaced.as_deref())
    }
}
