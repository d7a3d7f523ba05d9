//! The labels of nodes by which pods are kept off GPU nodes, and narrowed to cards that nodes have by devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::keys::NODE_LABEL_SET;
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
    /// Sets or removes labels of a node, each by whether it is to be there; when that is done, or can't be for now, an event says
    /// so.
    pub fn label_node(&self, node: Arc<str>, uid: Box<str>, labels: Vec<(String, bool)>) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let mut wait = FIRST_WAIT;
            for _ in 0..TRIES {
                let Err(reason) = actor.try_to_label(&node, &uid, &labels).await else {
                    tracing::info!(node = %node, ?labels, "labelled");
                    break;
                };
                tracing::warn!(node = %node, ?labels, reason, "not labelled, trying again");
                sleep(wait).await;
                wait = (wait * 4).min(LONGEST_WAIT);
            }
            // The mind is gone only when the program ends.
            let _ = actor.events.send(Event::NodeLabelled(node)).await;
        });
    }

    async fn try_to_label(&self, node: &str, uid: &str, labels: &[(String, bool)]) -> Result<(), String> {
        let _lane = self.node_lanes.acquire().await.map_err(|error| error.to_string())?;
        if !self.leadership.holds() {
            return Err("no longer the leader".into());
        }
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, is_set)| (key, is_set.then_some(NODE_LABEL_SET)))
            .collect();
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "labels": labels}}));
        self.metrics.api_write(Write::NodeLabel);
        let nodes = Api::<Node>::all(self.client.clone());
        let params = PatchParams::default();
        let write = nodes.patch_metadata(node, &params, &patch);
        let written = self.in_time(Verb::Patch, write).await;
        written.map(|_| ()).map_err(|failure| failure.to_string())
    }
}
