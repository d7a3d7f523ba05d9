//! Pods that were let in without a node, and for which one of several sets of labels was chosen because a node with these had room.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Cluster;
use crate::amounts::Totals;
use crate::ids::{NodeId, PodId};

/// The nodes whose labels pods were narrowed to, by the unique ids of the pods. A pod holds no room there. It is remembered so that
/// the next pods, which may come before the scheduler has placed it, are not all narrowed to the same few nodes. An operator that has
/// just become leader knows of none: then its first pods may crowd.
#[derive(Debug, Default)]
pub(super) struct Narrowed(BTreeMap<Arc<str>, Arc<str>>);

impl Cluster {
    /// Notes that a pod that was let in without a node was narrowed to the labels of this one.
    pub(crate) fn note_narrowed(&mut self, pod: PodId, node: NodeId) {
        if let Some(uid) = self.pod(pod).map(|pod| Arc::clone(&pod.uid)) {
            let name = Arc::clone(&self.node(node).name);
            self.narrowed.0.insert(uid, name);
        }
    }

    /// Returns what those pods request that the scheduler has not placed yet, by node, and forgets the others.
    pub(crate) fn requested_by_narrowed(&mut self) -> HashMap<NodeId, Totals> {
        let mut narrowed = std::mem::take(&mut self.narrowed.0);
        let mut requested = HashMap::<NodeId, Totals>::new();
        narrowed.retain(|uid, node| {
            let pod = self.pod_with_uid(uid).and_then(|id| self.pod(id));
            let pod = pod.filter(|pod| pod.charge.is_some() && pod.room.is_none());
            let Some((pod, node)) = pod.zip(self.node_named(node)) else {
                return false;
            };
            requested.entry(node).or_default().add_all(pod.request());
            true
        });
        self.narrowed.0 = narrowed;
        requested
    }
}
