//! Pods that are bound by the scheduler extender, because a scheduler says so.

use std::sync::Arc;

use super::Cluster;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::CardLists;

impl Cluster {
    /// A pod is being bound to a node, with these mGPU cards where it asks for any: it holds its room there from now on, and
    /// nowhere else. What it says of its cards stays.
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

    /// A pod could not be bound: its scheduler places it anew. Where it is pinned, and which cards are written on it, stands all the same: nobody
    /// else may have those meanwhile.
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
