//! Pods that somebody else's scheduling gate holds, and that have not been told so.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::reason::Reason;

/// Such pods, by namespace and in each namespace by their time of creation. The namespaces take turns. A pod that is gone,
/// or is held no longer, is passed over when its turn comes.
#[derive(Debug, Default)]
pub(super) struct HeldElsewhere {
    pods: BTreeMap<Arc<str>, BTreeSet<(Timestamp, Arc<str>)>>,
    /// The namespace whose turn it was last.
    last: Option<Arc<str>>,
}

impl HeldElsewhere {
    /// Returns the namespace whose turn it is, of those with a pod whose time of creation allows it a turn.
    fn next_namespace(&self, may_be: impl Fn(Timestamp) -> bool) -> Option<Arc<str>> {
        let is_due = |pods: &BTreeSet<(Timestamp, Arc<str>)>| {
            let mut ends = pods.first().into_iter().chain(pods.last());
            ends.any(|(created, _)| may_be(*created))
        };
        let behind = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.pods.range::<Arc<str>, _>((behind, Bound::Unbounded));
        let mut in_turn = behind.chain(&self.pods).filter(|(_, pods)| is_due(pods));
        in_turn.next().map(|(namespace, _)| Arc::clone(namespace))
    }

    /// Takes out the next pod whose time of creation allows it a turn, and returns its unique id. Such a pod has been
    /// there for long, or was created by a clock that ran far ahead, so it is the first or the last of its namespace.
    fn take_next(&mut self, may_be: impl Fn(Timestamp) -> bool) -> Option<Arc<str>> {
        let namespace = self.next_namespace(&may_be)?;
        let pods = self.pods.get_mut(&namespace)?;
        let is_first = pods.first().is_some_and(|(created, _)| may_be(*created));
        let (_, uid) = if is_first { pods.pop_first() } else { pods.pop_last() }?;
        if pods.is_empty() {
            self.pods.remove(&namespace);
        }
        self.last = Some(namespace);
        Some(uid)
    }
}

impl Pod {
    /// Whether it would wait if the gates of others did not hold it.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.stage == Stage::Blocked && self.deleted.is_none() && self.queue.is_some()
    }

    /// Whether it is to be told so. A pod that came into its group later, as nobody held it, is not told: the condition
    /// would make it look to the next leader as if it had been held.
    fn is_told_of_other_gates(&self) -> bool {
        self.is_held_elsewhere() && !self.joined_later()
    }
}

impl Cluster {
    /// Remembers a pod that has to be told, if it has to be.
    pub(super) fn note_held_elsewhere(&mut self, id: PodId) {
        let held = self.pod(id).filter(|pod| pod.is_told_of_other_gates());
        let untold = held.filter(|pod| pod.told != Some(Reason::HeldByAnotherGate));
        if let Some((namespace, of_pod)) =
            untold.map(|pod| (Arc::clone(&pod.namespace), (pod.created, Arc::clone(&pod.uid))))
        {
            self.held_elsewhere.pods.entry(namespace).or_default().insert(of_pod);
        }
    }

    /// Whether some pod whose time of creation allows it a turn may have to be told.
    pub(crate) fn has_held_elsewhere(&self, may_be: impl Fn(Timestamp) -> bool) -> bool {
        self.held_elsewhere.next_namespace(may_be).is_some()
    }

    /// Takes out the next pod that has to be told, of those whose time of creation allows them a turn.
    pub(crate) fn next_held_elsewhere(&mut self, may_be: impl Fn(Timestamp) -> bool) -> Option<PodId> {
        while let Some(uid) = self.held_elsewhere.take_next(&may_be) {
            let id = self.pod_with_uid(&uid);
            if let Some(id) = id.filter(|id| self.pod(*id).is_some_and(Pod::is_told_of_other_gates)) {
                return Some(id);
            }
        }
        None
    }
}
