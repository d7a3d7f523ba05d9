//! Chooses the queues to look at in a round. Queues to which nothing has happened are not looked at, even if there are a
//! thousand of them.
//!
//! A queue that refuses all that waits in it rests until something changes that its refusals depend on. Changes to the
//! queue itself need no care: every mutable access to a queue makes it restless. Everything else that refusals depend on
//! has a version, which is compared before each look.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Index, IndexMut};
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use crate::ids::{Id, QueueId, WorkloadId};
use crate::table::Table;

/// A table that knows which of its things may have been changed.
#[derive(Debug)]
pub(super) struct Watched<I, T> {
    table: Table<I, T>,
    /// The things that may have changed, each once.
    touched: Vec<I>,
    /// Whether each thing is in `touched`, by its number.
    is_touched: Vec<bool>,
    /// How often a thing was accessed to be changed.
    accesses: u64,
}

impl<I, T> Default for Watched<I, T> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            accesses: 0,
        }
    }
}

impl<I: Id, T> Watched<I, T> {
    /// Puts a thing in its place.
    pub(super) fn insert(&mut self, key: Arc<str>, thing: T) -> I {
        let id = self.table.insert(key, thing);
        self.accesses += 1;
        self.touch(id);
        id
    }

    /// Takes the thing with this key out.
    pub(super) fn remove(&mut self, key: &str) -> Option<I> {
        self.accesses += 1;
        self.table.remove(key)
    }

    /// Returns the things in all places, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        self.accesses += 1;
        self.touch_all();
        self.table.iter_mut()
    }

    /// Counts this thing as changed.
    #[inline]
    fn touch(&mut self, id: I) {
        let place = id.index();
        if self.is_touched.len() <= place {
            self.is_touched.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.is_touched[place], true) {
            self.touched.push(id);
        }
    }

    fn touch_all(&mut self) {
        for id in self.table.places() {
            self.touch(id);
        }
    }

    /// Returns a thing that may have changed. From now on it counts as unchanged.
    fn next_touched(&mut self) -> Option<I> {
        let id = self.touched.pop()?;
        self.is_touched[id.index()] = false;
        Some(id)
    }
}

impl<I, T> Deref for Watched<I, T> {
    type Target = Table<I, T>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl<I: Id, T> Index<I> for Watched<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.table[id]
    }
}

impl<I: Id, T> IndexMut<I> for Watched<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.accesses += 1;
        self.touch(id);
        &mut self.table[id]
    }
}

/// How often anything that decisions depend on has changed, or was accessed to be changed. As long as none of these
/// counters rises, a question has the same answer as before, except for what time brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stirs {
    queues: u64,
    workloads: u64,
    /// Changes of what pods hold and of which nodes are gone, and outcomes of evictions.
    others: u64,
    node_changes: u64,
    version: u64,
}

/// What a queue's refusals depend on besides the queue itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A queue above it.
    Queue(QueueId),
    /// A workload whose pods wait in the queue, or that itself waits for the queue.
    Workload(WorkloadId),
    /// The sums over all queues.
    Top,
    /// What nodes have free.
    Nodes,
}

/// What the refusals of a queue depend on.
#[derive(Debug, Default)]
pub(crate) struct Dependence {
    /// How many levels from the queue upwards they depend on.
    pub(crate) levels: usize,
    /// Whether a change of a node could help.
    pub(crate) nodes: bool,
    /// The workloads that are refused with their pods.
    pub(crate) workloads: Vec<WorkloadId>,
}

/// Queues that rest until a cause other than themselves changes.
#[derive(Debug)]
struct Resting {
    /// The version of the cause that these queues have seen.
    version: u64,
    queues: BTreeSet<QueueId>,
}

/// Which queues rest, and which are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Rest {
    by_cause: BTreeMap<Cause, Resting>,
    /// The cluster's version when the resting queues were looked at.
    version: u64,
    /// The queues to be looked at now.
    due: Vec<QueueId>,
    /// The counters and the second when it was last checked that resting queues rest rightly.
    checked: Option<(Stirs, i64)>,
}

impl Cluster {
    /// Prepares a look at the queues that may have something to judge.
    pub(crate) fn begin_look(&mut self) {
        // A change that no queue knows of may let in whatever waits.
        if std::mem::replace(&mut self.rest.version, self.version) != self.version {
            self.rest.by_cause.clear();
            self.queues.touch_all();
        }
        while let Some(id) = self.workloads.next_touched() {
            self.wake_resting(Cause::Workload(id));
        }
        self.wake_resting(Cause::Top);
        self.wake_resting(Cause::Nodes);
        while let Some(id) = self.queues.next_touched() {
            self.rest.due.push(id);
            self.wake_resting(Cause::Queue(id));
        }
        self.rest.due.sort_unstable();
        self.rest.due.dedup();
    }

    /// Returns one of the queues that may have something to judge. The queue rests from now on, unless it is stirred
    /// again.
    pub(crate) fn next_to_look_at(&mut self) -> Option<QueueId> {
        self.rest.due.pop()
    }

    /// Returns the counters of what has happened so far.
    pub(super) fn stirs(&self) -> Stirs {
        Stirs {
            queues: self.queues.accesses,
            workloads: self.workloads.accesses,
            others: self.stirred,
            node_changes: self.node_changes.count(),
            version: self.version,
        }
    }

    /// Whether resting queues are to be looked at nevertheless this once, in debug builds: where anything has happened
    /// since the last such check, and once in each second. An operator asks five times a second.
    pub(crate) fn take_rest_check(&mut self, now: Timestamp) -> bool {
        if !cfg!(debug_assertions) {
            return false;
        }
        let these = (self.stirs(), now.as_second());
        let is_new = self.rest.checked != Some(these) || now.subsec_nanosecond() == 0;
        self.rest.checked = Some(these);
        is_new
    }

    /// Sets the counters back, since what happened meanwhile was only tried and everything is as it was.
    pub(super) fn forget_stirs(&mut self, before: Stirs) {
        self.queues.accesses = before.queues;
        self.workloads.accesses = before.workloads;
        self.stirred = before.others;
    }

    /// Makes a queue be looked at again, even if nothing happens to it.
    pub(crate) fn stir_queue(&mut self, id: QueueId) {
        self.queues.touch(id);
    }

    /// Lets a queue that has nothing to judge rest, until something changes that its refusals depend on.
    pub(crate) fn rest_queue(&mut self, id: QueueId, dependence: Dependence) {
        let levels = self.ancestry(id).skip(1).map(Cause::Queue).chain([Cause::Top]);
        let mut causes: Vec<_> = levels.take(dependence.levels.saturating_sub(1)).collect();
        causes.extend(dependence.nodes.then_some(Cause::Nodes));
        causes.extend(dependence.workloads.into_iter().map(Cause::Workload));
        for cause in causes {
            let version = self.version_of_cause(cause);
            let resting = self.rest.by_cause.entry(cause);
            let resting = resting.or_insert_with(|| Resting {
                version,
                queues: BTreeSet::new(),
            });
            resting.queues.insert(id);
        }
    }

    fn version_of_cause(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Queue(id) => self.queue(id).version(),
            Cause::Workload(id) => self.workload(id).version,
            Cause::Top => self.top_version(),
            Cause::Nodes => self.node_change_count(),
        }
    }

    /// Stirs the queues that rest until this cause changes, if it has changed.
    fn wake_resting(&mut self, cause: Cause) {
        let resting = self.rest.by_cause.get(&cause);
        if resting.is_none_or(|resting| resting.version == self.version_of_cause(cause)) {
            return;
        }
        for id in self
            .rest
            .by_cause
            .remove(&cause)
            .into_iter()
            .flat_map(|resting| resting.queues)
        {
            self.queues.touch(id);
        }
    }
}
