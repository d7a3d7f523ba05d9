//! Pods that are bound by the scheduler extender, because a scheduler says so.

use std::sync::Arc;

use super::Cluster;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::CardLists;

impl Cluster {
    /// Notes that a pod is being bound to a node, with these mGPU cards where it asks for any. From now on the pod holds
    /// its room there, and nowhere else. If the pod says its cards itself, these stay.
    pub(crate) fn begin_binding(&mut self, id: PodId, node: NodeId, gpus: Option<CardLists>) {
        let Some(uid) = self.pod(id).map(|pod| Arc::clone(&pod.uid)) else {
            return;
        };
        self.end_assumption(&uid);
        self.update_pod(id, |pod| {
            pod.binding = true;
            pod.room = Some(node);
            if !pod.says_its_cards() {
                pod.gpus = gpus.or_else(|| pod.gpus.take());
            }
        });
    }

    /// Notes that a pod could not be bound: its scheduler places it anew. The node that it is pinned to and the cards that
    /// are written on it stay as they are, so that no other pod may have those meanwhile.
    pub(crate) fn binding_failed(&mut self, uid: &str) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        if self.pod(id).is_some_and(|pod| pod.binding) {
            self.update_pod(id, |pod| {
                pod.binding = false;
                if !pod.has_one_node {
                    pod.room = None;
                }
                if !pod.gpus_are_written {
                    pod.gpus = None;
                }
            });
        }
    }
}
