//! The waiting pods of one queue, by the group or controller that they are parts of. People think of a Job or a gang, and
//! not of each of its pods.

use std::collections::{BTreeSet, HashMap};

use super::controller::Controller;
use super::place::Turn;
use crate::amounts::{Amounts, Totals};
use crate::ids::{PodId, WorkloadId};

/// What a pod is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whole {
    /// A `PodGroup`, whatever made the pod.
    Group(WorkloadId),
    /// The Job, `ReplicaSet` or other object that made the pod.
    Controller(Controller),
}

/// The waiting pods of one whole.
#[derive(Debug)]
pub struct Parts {
    /// What they are parts of.
    pub whole: Whole,
    /// The pods, in the order in which they go.
    pods: BTreeSet<Turn>,
    /// What the pods ask for together. A pod with alternatives counts with its first.
    pub requested: Totals,
}

impl Parts {
    /// Returns how many of the pods wait.
    pub fn count(&self) -> usize {
        self.pods.len()
    }
}

/// The waiting pods of one queue, by what they are parts of. It is updated with each pod.
#[derive(Debug, Default)]
pub struct Wholes {
    ids: HashMap<Whole, u64>,
    parts: HashMap<u64, Parts>,
    /// Each whole by the first of its pods, and each pod that stands for itself, in the order in which they go.
    by_first: BTreeSet<(Turn, Option<u64>)>,
    next_id: u64,
}

impl Wholes {
    /// Returns how many wholes there are, including pods that stand for themselves.
    pub fn count(&self) -> usize {
        self.by_first.len()
    }

    /// Whether pods of this whole wait.
    pub fn has(&self, whole: &Whole) -> bool {
        self.ids.contains_key(whole)
    }

    /// Returns the wholes in the order of their turns: the turn and the pod that is next, and the whole that the pod is a
    /// part of.
    pub fn in_order(&self) -> impl Iterator<Item = (Turn, PodId, Option<&Parts>)> {
        let parts = |id: &u64| self.parts.get(id);
        self.by_first
            .iter()
            .map(move |(turn, id)| (*turn, turn.1.pod, id.as_ref().and_then(parts)))
    }

    /// Adds a pod that waits and has not waited before.
    pub(super) fn insert(&mut self, whole: Option<Whole>, turn: Turn, asked: &Amounts) {
        let Some(whole) = whole else {
            self.by_first.insert((turn, None));
            return;
        };
        let id = *self.ids.entry(whole.clone()).or_insert_with(|| {
            self.next_id += 1;
            self.next_id
        });
        let parts = self.parts.entry(id).or_insert_with(|| Parts {
            whole,
            pods: BTreeSet::new(),
            requested: Totals::default(),
        });
        let before = parts.pods.first().copied();
        parts.pods.insert(turn);
        parts.requested.add_all(asked);
        let after = parts.pods.first().copied();
        self.first_changed(id, before, after);
    }

    /// Removes a pod that waits no longer.
    pub(super) fn remove(&mut self, whole: Option<&Whole>, turn: Turn, asked: &Amounts) {
        let Some(whole) = whole else {
            self.by_first.remove(&(turn, None));
            return;
        };
        let Some(id) = self.ids.get(whole).copied() else {
            return;
        };
        let Some(parts) = self.parts.get_mut(&id) else {
            return;
        };
        let before = parts.pods.first().copied();
        parts.pods.remove(&turn);
        parts.requested.subtract_all(asked);
        let after = parts.pods.first().copied();
        if after.is_none() {
            self.parts.remove(&id);
            self.ids.remove(whole);
        }
        self.first_changed(id, before, after);
    }

    /// Updates the order after another pod of a whole goes first than before, or none is left.
    fn first_changed(&mut self, id: u64, before: Option<Turn>, after: Option<Turn>) {
        if before == after {
            return;
        }
        if let Some(turn) = before {
            self.by_first.remove(&(turn, Some(id)));
        }
        if let Some(turn) = after {
            self.by_first.insert((turn, Some(id)));
        }
    }
}
