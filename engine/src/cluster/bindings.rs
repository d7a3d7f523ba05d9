//! Pods that are bound by the scheduler extender, because a scheduler says so.

use std::sync::Arc;

use super::Cluster;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::CardLists;

impl Cluster {
    /// A pod is being bound to a node, with these mGPU cards where it asks for any: it holds its room there from now on, and
    /// nowhere else.
    pub(crate) fn begin_binding(&mut self, id: PodId, node: NodeId, gpus: Option<CardLists>) {
        let Some(uid) = self.pod(id).map(|pod| Arc::clone(&pod.uid)) else {
            return;
        };
        self.end_assumption(&uid);
        self.update_pod(id, |pod| {
            pod.binding = true;
            pod.room = Some(node);
            pod.gpus = gpus.or_else(|| pod.gpus.take());
        });
    }

    /// A pod could not be bound: its scheduler places it anew.
    pub(crate) fn binding_failed(&mut self, uid: &str) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        if self.pod(id).is_some_and(|pod| pod.binding) {
            self.update_pod(id, |pod| {
                pod.binding = false;
                pod.room = None;
                pod.gpus = None;
            });
        }
    }
}
