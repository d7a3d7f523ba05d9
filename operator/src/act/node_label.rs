//! The labels of nodes that keep pods off GPU nodes, and that restrict pods to cards which nodes have by devices.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crds::keys::NODE_LABEL_SET;
use k8s_openapi::api::core::v1::Node;
use kube::api::Patch;
use kube::core::Status;
use programs::lean_requests;
use serde_json::json;
use tokio::task::{self, AbortHandle};
use tokio::time::sleep;

use super::tries::{FIRST_WAIT, LONGEST_WAIT};
use super::{Actor, Failure};
use crate::event::Event;
use crate::metrics::{Verb, Write};

/// How often one write is tried before the mind looks at the node again.
const TRIES: u32 = 4;

/// The pause after the last try if the API server answered it with an error. An API server that always answers so is asked four times a
/// minute.
const PAUSE: Duration = Duration::from_mins(1);

/// How long a node is left alone after its label was refused: a policy may refuse the labels of all nodes, for hours. The same pause
/// follows when the label was written or the node is gone: the watch tells that, and while the watch is silent, nothing is written again
/// and again.
const REST: Duration = Duration::from_mins(10);

impl Actor {
    /// Sets or removes labels of a node; the flag of each label says whether the node is to have it. Some time after the labels are
    /// written, or cannot be written for now, an event says so. Then the mind may try again, if the labels are still wrong. The returned
    /// handle aborts the write.
    pub fn label_node(&self, node: Arc<str>, uid: Box<str>, labels: Vec<(String, bool)>) -> AbortHandle {
        let actor = self.clone();
        let writing = self.runtime.spawn(async move {
            if let Some(refusal) = actor.keep_labelling(&node, &uid, &labels).await {
                let (node, uid, why) = (Arc::clone(&node), uid.clone(), refusal.message);
                // The mind is gone only when the program ends.
                let _ = actor.events.send(Event::NodeNotLabelled { node, uid, why }).await;
                sleep(REST).await;
            }
            let writer = task::id();
            let _ = actor.events.send(Event::NodeLabelled { node, uid, writer }).await;
        });
        writing.abort_handle()
    }

    /// Writes the labels, with some tries. Returns the API server's answer if it refuses them.
    async fn keep_labelling(&self, node: &str, uid: &str, labels: &[(String, bool)]) -> Option<Box<Status>> {
        let mut wait = FIRST_WAIT;
        for tried in 1..=TRIES {
            let Err(failure) = self.try_to_label(node, uid, labels).await else {
                tracing::info!(node, ?labels, "labelled");
                sleep(REST).await;
                return None;
            };
            if matches!(&failure, Failure::Api(status) if status.code == 404) {
                tracing::info!(node, "gone before it was labelled");
                sleep(REST).await;
                return None;
            }
            tracing::warn!(node, ?labels, reason = %failure, "not labelled, trying again");
            let is_mistaken = match failure {
                failure if failure.is_passing() => false,
                Failure::Api(status) if matches!(status.code, 400 | 403 | 422) => return Some(status),
                failure => matches!(failure, Failure::Api(_)),
            };
            sleep(if tried == TRIES && is_mistaken { PAUSE } else { wait }).await;
            wait = (wait * 4).min(LONGEST_WAIT);
        }
        None
    }

    async fn try_to_label(&self, node: &str, uid: &str, labels: &[(String, bool)]) -> Result<(), Failure> {
        let Ok(_lane) = self.node_lanes.acquire().await else {
            return Err(Failure::NotSent("shutting down"));
        };
        if !self.leadership.holds() {
            return Err(Failure::NotSent("no longer the leader"));
        }
        let labels: BTreeMap<_, _> = labels
            .iter()
            .map(|(key, is_set)| (key, is_set.then_some(NODE_LABEL_SET)))
            .collect();
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "labels": labels}}));
        self.metrics.api_write(Write::NodeLabel);
        let write = lean_requests::patch::<Node>(&self.client, None, node, &patch);
        self.in_time(Verb::Patch, write).await
    }
}
