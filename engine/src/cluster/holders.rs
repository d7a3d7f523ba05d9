//! The pods that hold something of a queue, grouped by what each holds, in the order in which they are taken back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::pod::Pod;
use crate::amounts::Amounts;
use crate::ids::PodId;

/// The place of a pod among those that are taken back: lowest priority first, then youngest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// The priority of the pod.
    pub priority: i32,
    /// When the pod was created.
    pub created: Reverse<Timestamp>,
    /// Tells the pod from others that were created at the same time.
    pub uid: Arc<str>,
    /// The pod's place in the table.
    pub pod: PodId,
}

/// What pods hold: what their queue is charged, and what they request of a node.
pub(crate) type Held = (Amounts, Arc<Amounts>);

/// The pods that hold something of a queue. Pods that hold the same are kept together, since there are few such kinds:
/// where something is lacking, only pods that could give it are looked at.
#[derive(Debug, Default)]
pub struct Holders {
    alike: BTreeMap<Held, BTreeSet<Turn>>,
    count: usize,
}

impl Holders {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all of them, with pods that hold the same one after the other.
    pub fn iter(&self) -> impl Iterator<Item = PodId> + '_ {
        self.alike.values().flatten().map(|turn| turn.pod)
    }

    /// Returns what pods hold, each with the pods that hold it, in the order in which they are taken back.
    pub(crate) fn alike(&self) -> impl ExactSizeIterator<Item = (&Held, &BTreeSet<Turn>)> {
        self.alike.iter()
    }

    /// Returns the pods that hold this, in the order in which they are taken back.
    pub(crate) fn alike_to<'h>(&'h self, held: &Held) -> impl Iterator<Item = &'h Turn> + use<'h> {
        self.alike.get(held).into_iter().flatten()
    }

    /// Returns the pod that comes after that turn, of the pods that hold this.
    pub(crate) fn next_alike(&self, held: &Held, turn: &Turn) -> Option<&Turn> {
        let alike = self.alike.get(held)?;
        alike.range((Bound::Excluded(turn), Bound::Unbounded)).next()
    }

    pub(super) fn insert(&mut self, id: PodId, pod: &Pod, charged: &Amounts) {
        let held = (charged.clone(), Arc::clone(pod.request()));
        let is_new = self.alike.entry(held).or_default().insert(Turn::of(id, pod));
        self.count += usize::from(is_new);
    }

    pub(super) fn remove(&mut self, id: PodId, pod: &Pod, charged: &Amounts) {
        let held = (charged.clone(), Arc::clone(pod.request()));
        let Some(turns) = self.alike.get_mut(&held) else {
            return;
        };
        self.count -= usize::from(turns.remove(&Turn::of(id, pod)));
        if turns.is_empty() {
            self.alike.remove(&held);
        }
    }
}

impl Turn {
    fn of(id: PodId, pod: &Pod) -> Self {
        Self {
            priority: pod.priority,
            created: Reverse(pod.created),
            uid: Arc::clone(&pod.uid),
            pod: id,
        }
    }
}
