//! Pods that somebody else's scheduling gate holds, and that have not been told so.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::reason::Reason;

/// By when they were created. One that is gone, or held no longer, is passed over when its turn comes.
#[derive(Debug, Default)]
pub(super) struct HeldElsewhere(BTreeSet<(Timestamp, Arc<str>)>);

impl Pod {
    /// Whether it would wait, but for the gates of others.
    pub(crate) fn is_held_elsewhere(&self) -> bool {
        self.stage == Stage::Blocked && self.deleted.is_none() && self.queue.is_some()
    }
}

impl Cluster {
    /// Remembers a pod that has to be told, if it has.
    pub(super) fn note_held_elsewhere(&mut self, id: PodId) {
        let held = self.pod(id).filter(|pod| pod.is_held_elsewhere());
        let untold = held.filter(|pod| pod.told != Some(Reason::HeldByAnotherGate));
        if let Some((created, uid)) = untold.map(|pod| (pod.created, Arc::clone(&pod.uid))) {
            self.held_elsewhere.0.insert((created, uid));
        }
    }

    /// Whether one may have to be told, of those that were created until then.
    pub(crate) fn has_held_elsewhere(&self, until: Timestamp) -> bool {
        let first = self.held_elsewhere.0.first();
        first.is_some_and(|(created, _)| *created <= until)
    }

    /// Takes out the next that has to be told, of those that were created until then.
    pub(crate) fn next_held_elsewhere(&mut self, until: Timestamp) -> Option<PodId> {
        while self
            .held_elsewhere
            .0
            .first()
            .is_some_and(|(created, _)| *created <= until)
        {
            let (_, uid) = self.held_elsewhere.0.pop_first()?;
            let id = self.pod_with_uid(&uid);
            if let Some(id) = id.filter(|id| self.pod(*id).is_some_and(Pod::is_held_elsewhere)) {
                return Some(id);
            }
        }
        None
    }
}
