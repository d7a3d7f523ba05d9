//! Pods that somebody else's scheduling gate holds, and that have not been told so.

use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::reason::Reason;

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
        if let Some((namespace, created, uid)) =
            untold.map(|pod| (Arc::clone(&pod.namespace), pod.created, Arc::clone(&pod.uid)))
        {
            self.held_elsewhere.insert(namespace, created, uid);
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
