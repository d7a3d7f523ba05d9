//! Bindings: a pod's node and the results of mGPU scheduling in one write, since the API server copies the annotations of a
//! Binding to its pod.

use engine::decide::extender::Binding;
use engine::{Answer, Outcome};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{Actor, Failure, Tried, keep_trying};
use crate::event::Event;
use crate::metrics::{Verb, Write};

impl Actor {
    /// Binds a pod and answers the scheduler; the outcome comes as an event too.
    pub fn bind(&self, binding: Binding, answer: oneshot::Sender<Result<(), String>>) {
        let actor = self.clone();
        self.runtime.spawn(async move {
            let body = body(&binding);
            let api = actor.pods(&binding.pod);
            let bound = keep_trying(|| actor.bind_once(&api, &binding, &body)).await;
            let (pod, node) = (&binding.pod, &binding.node);
            let answered = match &bound {
                Ok(()) => {
                    tracing::info!(pod = %pod, node = %node, "bound");
                    Answer::Accepted
                }
                Err(reason) => {
                    tracing::info!(pod = %pod, node = %node, reason, "not bound");
                    Answer::Refused
                }
            };
            // The mind is gone only when the program ends, and the scheduler may have stopped waiting.
            let _ = actor
                .events
                .send(Event::Outcome(Outcome::Binding(binding.pod.uid, answered)))
                .await;
            let _ = answer.send(bound);
        });
    }

    async fn bind_once(&self, api: &Api<Pod>, binding: &Binding, body: &Value) -> Tried {
        let Ok(_lane) = self.lanes.acquire().await else {
            return Tried::Refused("shutting down".into());
        };
        if !self.leadership.holds() {
            return Tried::Refused("no longer the leader".into());
        }
        self.metrics.api_write(Write::Binding);
        let params = PostParams::default();
        let write = api.create_subresource::<_, Status>("binding", &binding.pod.name, &params, body);
        match self.in_time(Verb::Create, write).await {
            Ok(_) => Tried::Done,
            // The answer to an earlier try may be lost.
            Err(Failure::Api(status)) if status.code == 409 => self.look_at_bound(api, binding, &status.message).await,
            Err(Failure::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Tried::Refused(status.message)
            }
            Err(failure) => Tried::Failed(failure.to_string()),
        }
    }

    /// Whether the pod is already bound as it should be.
    async fn look_at_bound(&self, api: &Api<Pod>, binding: &Binding, refusal: &str) -> Tried {
        match self.in_time(Verb::Get, api.get(&binding.pod.name)).await {
            Ok(pod) if is_bound(&pod, binding) => Tried::Done,
            Ok(_) => Tried::Refused(refusal.to_owned()),
            Err(Failure::Api(status)) if status.code == 404 => Tried::Refused("the pod is gone".into()),
            Err(failure) => Tried::Failed(failure.to_string()),
        }
    }
}

/// The Binding. Its uid makes the API server refuse another pod of the same name.
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

fn is_bound(pod: &Pod, binding: &Binding) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let annotations = pod.metadata.annotations.as_ref();
    let is_written = |(key, value): &(String, String)| annotations.is_some_and(|found| found.get(key) == Some(value));
    pod.metadata.uid.as_deref() == Some(&*binding.pod.uid)
        && node == Some(&*binding.node)
        && binding.mgpu_results.iter().all(is_written)
}
