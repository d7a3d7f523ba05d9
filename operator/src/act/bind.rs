//! Bindings: write a pod's node and the results of mGPU scheduling at once, since the API server copies the annotations of a Binding to its
//! pod.

use std::sync::Arc;

use crds::pod::Pod;
use engine::Outcome;
use engine::decide::extender::Binding;
use k8s_openapi::api::core;
use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::tries::{Ended, Tried, keep_trying};
use super::{Actor, Failure, not_seen};
use crate::event::Event;
use crate::metrics::{Verb, Write};

impl Actor {
    /// Binds a pod and answers the scheduler; the outcome also comes as an event.
    pub fn bind(&self, binding: Binding, answer: oneshot::Sender<Result<(), String>>) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let body = body(&binding);
            let api = actor.pods(&binding.pod);
            let ended =
                keep_trying(|| actor.in_lane(&binding.pod.namespace, || actor.bind_once(&api, &binding, &body))).await;
            let (pod, node) = (&binding.pod, &binding.node);
            let bound = match &ended {
                Ended::Done => {
                    tracing::info!(pod = %pod, node = %node, "bound");
                    Ok(())
                }
                ended => {
                    tracing::info!(pod = %pod, node = %node, reason = ended.reason(), "not bound");
                    Err(ended.reason().to_owned())
                }
            };
            let outcome = |answer| Outcome::Binding(Arc::clone(&binding.pod.uid), answer);
            // The mind is gone only when the program ends, and the scheduler may have stopped waiting.
            let _ = actor.events.send(Event::Outcome(outcome(ended.answer()))).await;
            let _ = answer.send(bound);
            if let Ended::Unknown(reason) = ended {
                actor.find_out(&reason, outcome, || actor.is_bound(&binding)).await;
            }
        });
    }

    async fn bind_once(&self, api: &Api<core::v1::Pod>, binding: &Binding, body: &Value) -> Tried {
        self.metrics.api_write(Write::Binding);
        let params = PostParams::default();
        let write = api.create_subresource::<_, Status>("binding", &binding.pod.name, &params, body);
        match self.in_time(Verb::Create, write).await {
            Ok(_) => Tried::Done,
            // The answer to an earlier try may have been lost.
            Err(Failure::Api(status)) if status.code == 409 => self.look_at_bound(binding, &status.message).await,
            Err(failure) => Tried::of(failure),
        }
    }

    /// Whether a pod is seen to be bound as decided; none if it cannot be read.
    async fn is_bound(&self, binding: &Binding) -> Option<bool> {
        match self.pod(&binding.pod).await {
            Ok(pod) => Some(is_bound(&pod, binding)),
            Err(failure) => failure.is_gone().then_some(false),
        }
    }

    /// Reads the pod after a conflict. The result is done if the pod is already bound as it should be.
    async fn look_at_bound(&self, binding: &Binding, refusal: &str) -> Tried {
        match self.pod(&binding.pod).await {
            Ok(pod) if is_bound(&pod, binding) => Tried::Done,
            Ok(_) => Tried::Refused(refusal.to_owned()),
            Err(failure) => not_seen(&failure),
        }
    }
}

/// Returns the Binding. Its uid makes the API server refuse another pod of the same name.
fn body(binding: &Binding) -> Value {
    let pod = &binding.pod;
    let results = binding.mgpu_results.iter();
    let annotations: Map<_, _> = results.map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": &*pod.name, "namespace": &*pod.namespace, "uid": &*pod.uid, "annotations": annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": &*binding.node},
    })
}

fn is_bound(pod: &Pod<Box<str>>, binding: &Binding) -> bool {
    let is_written = |(key, value): &(String, String)| pod.metadata.annotations.get(key) == Some(value);
    pod.metadata.uid.as_deref() == Some(&*binding.pod.uid)
        && pod.spec.node_name.as_deref() == Some(&*binding.node)
        && binding.mgpu_results.iter().all(is_written)
}
