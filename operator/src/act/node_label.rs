//! The label of GPU nodes, by which pods are kept off them.

use std::sync::Arc;

use crds::keys::GPU_NODE_LABEL;
use engine::cluster::gpu_nodes::GPU_NODE;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::Actor;
use super::tries::{FIRST_WAIT, LONGEST_WAIT};
use crate::event::Event;
use crate::metrics::{Verb, Write};

/// How often one write is tried before the mind looks at the node again.
const TRIES: u32 = 4;

impl Actor {
    /// Sets or removes the label of a GPU node; when that is done, or can't be for now, an event says so.
    pub fn label_node(&self, node: Arc<str>, uid: Box<str>, is_gpu_node: bool) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let mut wait = FIRST_WAIT;
            for _ in 0..TRIES {
                let Err(reason) = actor.try_to_label(&node, &uid, is_gpu_node).await else {
                    tracing::info!(node = %node, is_gpu_node, "labelled");
                    break;
                };
                tracing::warn!(node = %node, is_gpu_node, reason, "not labelled, trying again");
                sleep(wait).await;
                wait = (wait * 4).min(LONGEST_WAIT);
            }
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::NodeLabelled(node)).await;
        });
    }

    async fn try_to_label(&self, node: &str, uid: &str, is_gpu_node: bool) -> Result<(), String> {
        let _lane = self.node_lanes.acquire().await.map_err(|error| error.to_string())?;
        if !self.leadership.holds() {
            return Err("no longer the leader".into());
        }
        let label = is_gpu_node.then_some(GPU_NODE);
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "labels": {GPU_NODE_LABEL: label}}}));
        self.metrics.api_write(Write::NodeLabel);
        let nodes = Api::<Node>::all(self.client.clone());
        let params = PatchParams::default();
        let write = nodes.patch_metadata(node, &params, &patch);
        let written = self.in_time(Verb::Patch, write).await;
        written.map(|_| ()).map_err(|failure| failure.to_string())
    }
}
