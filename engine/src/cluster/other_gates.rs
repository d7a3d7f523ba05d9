//! Pods that somebody else's scheduling gate holds, and that have not been told so.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::reason::Reason;

/// By namespace, each of which has its turn, and there by when they were created. One that is gone, or held no longer, is passed over when its
/// turn comes.
#[derive(Debug, Default)]
pub(super) struct HeldElsewhere {
    pods: BTreeMap<Arc<str>, BTreeSet<(Timestamp, Arc<str>)>>,
    /// Whose turn it was last.
    last: Option<Arc<str>>,
}

impl HeldElsewhere {
    /// The namespace whose turn it is, of those that have a pod whose turn it may be by when it was created.
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

    /// Takes out the next, of those whose turn it may be by when they were created: its unique id. That is who is there for long, or was created
    /// by a clock that ran far ahead: the first of a namespace, or its last.
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
    /// Whether it would wait, but for the gates of others.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.stage == Stage::Blocked && self.deleted.is_none() && self.queue.is_some()
    }

    /// Whether it is to be told so. Who came into its group later, as nobody held it, is not: by that condition it would look to whoever decides
    /// next as if it had been held.
    fn is_told_of_other_gates(&self) -> bool {
        self.is_held_elsewhere() && !self.joined_later()
    }
}

impl Cluster {
    /// Remembers a pod that has to be told, if it has.
    pub(super) fn note_held_elsewhere(&mut self, id: PodId) {
        let held = self.pod(id).filter(|pod| pod.is_told_of_other_gates());
        let untold = held.filter(|pod| pod.told != Some(Reason::HeldByAnotherGate));
        if let Some((namespace, of_pod)) =
            untold.map(|pod| (Arc::clone(&pod.namespace), (pod.created, Arc::clone(&pod.uid))))
        {
            self.held_elsewhere.pods.entry(namespace).or_default().insert(of_pod);
        }
    }

    /// Whether one may have to be told, of those whose turn it may be by when they were created.
    pub(crate) fn has_held_elsewhere(&self, may_be: impl Fn(Timestamp) -> bool) -> bool {
        self.held_elsewhere.next_namespace(may_be).is_some()
    }

    /// Takes out the next that has to be told, of those whose turn it may be by when they were created.
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
