//! The requests that write one object. Each request has a time limit; none is repeated here.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crds::volcano::{PodGroup, PodGroupStatus};
use engine::refs::{PodRef, WorkloadRef};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use programs::lean_requests;
use serde::Deserialize;
use serde_json::{Value, json};

use super::event::Occurrence;
use super::objects::{Left, Plan, Record};
use super::shown::{Shown, owner_reference};
use crate::metrics::{Metrics, Verb, Write};
use crate::request::RequestError;

/// How long a request may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Objects per page of a list.
const PAGE: u32 = 100;

/// How a write ended, and how many requests it took.
#[derive(Debug)]
pub(super) struct Written<T> {
    pub left: T,
    pub requests: u32,
    pub error: Option<RequestError>,
    /// Whether the API server does not know the kind, or is about to remove it.
    pub kind_is_gone: bool,
}

/// Sends requests, each within the time limit, and counts them.
#[derive(Clone)]
pub(super) struct Sender {
    /// A separate client, so that its requests share no connection with admissions.
    pub client: Client,
    /// Where requests and errors are counted.
    pub metrics: Arc<Metrics>,
}

impl Sender {
    async fn write<T>(
        &self,
        verb: Verb,
        what: Write,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, RequestError> {
        self.metrics.api_write(what);
        self.send(verb, request).await
    }

    async fn send<T>(&self, verb: Verb, request: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        self.metrics.in_time(verb, TIME_LIMIT, request).await
    }
}

/// Returns all objects of a kind by name; the record is none for an object that cannot be read.
pub(super) async fn list<K: Shown>(sender: Sender) -> Result<Vec<(Arc<str>, Option<Record<K>>)>, RequestError> {
    let api: Api<DeserializeGuard<K>> = Api::all(sender.client.clone());
    let mut page = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let list = sender.send(Verb::List, api.list(&page)).await?;
        objects.extend(list.items.into_iter().map(|object| {
            let name = object.name_any().into();
            (name, object.0.ok().as_ref().and_then(Record::read))
        }));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// Writes one object as planned.
pub(super) async fn write_object<K: Shown>(sender: Sender, name: Arc<str>, plan: Plan<K>) -> Written<Left<K>> {
    let mut writing = Writing {
        api: Api::all(sender.client.clone()),
        sender,
        name,
        requests: 0,
        kind_is_gone: false,
    };
    let (left, error) = match writing.carry_out(plan).await {
        Ok(left) => (left, None),
        Err((left, error)) => (left, Some(error)),
    };
    Written {
        left,
        requests: writing.requests,
        error,
        kind_is_gone: writing.kind_is_gone,
    }
}

struct Writing<K> {
    /// The content of the server's answers is not needed, so only their metadata is read.
    api: Api<PartialObjectMeta<K>>,
    sender: Sender,
    name: Arc<str>,
    requests: u32,
    kind_is_gone: bool,
}

impl<K: Shown> Writing<K> {
    async fn carry_out(&mut self, plan: Plan<K>) -> Result<Left<K>, (Left<K>, RequestError)> {
        match plan {
            Plan::Nothing => Ok(Left::Unknown),
            Plan::Delete => self.delete().await,
            Plan::Create(record) => self.make(record).await,
            Plan::Update { record, object, status } => match self.update(&record, object, status).await {
                Ok(()) => Ok(Left::Record(record)),
                // The object has gone since it was listed, for example because its node went while no operator led.
                Err((Left::Nothing, _)) => self.make(record).await,
                Err(failed) => Err(failed),
            },
        }
    }

    /// Creates the object. If the object exists although it was not seen, updates it.
    async fn make(&mut self, record: Arc<Record<K>>) -> Result<Left<K>, (Left<K>, RequestError)> {
        let is_there = !self.create(&record).await?;
        self.update(&record, is_there, true).await?;
        Ok(Left::Record(record))
    }

    async fn update(&mut self, record: &Record<K>, object: bool, status: bool) -> Result<(), (Left<K>, RequestError)> {
        if object {
            self.patch_object(record).await?;
        }
        if status {
            self.patch_status(record).await?;
        }
        Ok(())
    }

    /// Creates the object; returns false if it already exists.
    async fn create(&mut self, record: &Record<K>) -> Result<bool, (Left<K>, RequestError)> {
        self.requests += 1;
        let mut object = K::object(&self.name, record.spec.clone());
        object.meta_mut().owner_references =
            owner_reference::<K>(&record.spec, &record.owner_uid).map(|owner| vec![owner]);
        let api: Api<K> = Api::all(self.sender.client.clone());
        match self
            .sender
            .write(Verb::Create, K::WRITE, api.create(&PostParams::default(), &object))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) => match error.code() {
                Some(409) => Ok(false),
                // Codes 404 (not found) and 405 (not allowed, while the definition is being removed) concern the kind: no single object
                // is answered like this.
                Some(code) => {
                    self.kind_is_gone = matches!(code, 404 | 405);
                    Err((Left::Nothing, error))
                }
                None => Err((Left::Unknown, error)),
            },
        }
    }

    async fn patch_object(&mut self, record: &Record<K>) -> Result<(), (Left<K>, RequestError)> {
        self.requests += 1;
        let owners: Vec<_> = owner_reference::<K>(&record.spec, &record.owner_uid)
            .into_iter()
            .collect();
        let patch = json!({ "metadata": { "ownerReferences": owners }, "spec": record.spec });
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        let request = self.api.patch(&self.name, &params, &patch);
        let patched = self.sender.write(Verb::Patch, K::WRITE, request).await;
        patched.map(drop).map_err(failed)
    }

    async fn patch_status(&mut self, record: &Record<K>) -> Result<(), (Left<K>, RequestError)> {
        self.requests += 1;
        // The whole status is replaced: a merge would keep what the status no longer says, such as the last device of a card.
        let patch = Patch::Json::<()>(json_patch::Patch(vec![PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(["status"]),
            value: json!(record.status),
        })]));
        let params = PatchParams::default();
        let request = self.api.patch_status(&self.name, &params, &patch);
        let patched = self.sender.write(Verb::Patch, K::WRITE, request).await;
        patched.map(drop).map_err(failed)
    }

    async fn delete(&mut self) -> Result<Left<K>, (Left<K>, RequestError)> {
        self.requests += 1;
        let params = DeleteParams::default();
        let request = self.api.delete(&self.name, &params);
        match self.sender.write(Verb::Delete, K::WRITE, request).await {
            Ok(_) => Ok(Left::Nothing),
            Err(error) if error.code() == Some(404) => Ok(Left::Nothing),
            Err(error) => Err((Left::Unknown, error)),
        }
    }
}

/// Returns what a failed patch leaves behind.
fn failed<K: Shown>(error: RequestError) -> (Left<K>, RequestError) {
    match error.code() {
        Some(404) => (Left::Nothing, error),
        _ => (Left::Unknown, error),
    }
}

/// The phase that a group shows.
#[derive(Deserialize)]
struct ShownGroup {
    status: Option<PodGroupStatus>,
}

/// Writes a pod's condition.
pub(super) async fn write_condition(sender: Sender, pod: PodRef, patch: Value) -> Result<(), RequestError> {
    let (patch, status) = (Patch::Strategic(patch), format!("{}/status", pod.name));
    let request = lean_requests::patch::<Pod>(&sender.client, Some(&pod.namespace), &status, &patch);
    sender.write(Verb::Patch, Write::PodCondition, request).await
}

/// Writes the phase of a group, and returns whether the group then shows it. Volcano's definition has no status subresource, so the object
/// itself is patched. The patch only contains the status, so it undoes no other client's changes.
pub(super) async fn write_group_status(sender: Sender, group: WorkloadRef, patch: Value) -> Result<bool, RequestError> {
    let shown = patch
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let patch = Patch::Merge(patch);
    let request =
        lean_requests::patch_and_read::<PodGroup, ShownGroup>(&sender.client, &group.namespace, &group.name, &patch);
    let written = sender.write(Verb::Patch, Write::PodGroup, request).await?;
    Ok(written.status.and_then(|status| status.phase) == shown)
}

/// Writes an event, or increases the count of an existing event that says the same. Leaves the event's name and count.
pub(super) async fn write_event(
    sender: Sender,
    occurrence: &Occurrence,
    instance: &str,
    known: Option<(String, i32)>,
) -> Written<Option<(String, i32)>> {
    let api: Api<Event> = Api::namespaced(sender.client.clone(), occurrence.namespace());
    let mut requests = 0;
    if let Some((name, count)) = known {
        requests += 1;
        let series = EventSeries {
            count,
            last_observed_time: MicroTime(occurrence.time),
        };
        let patch = Patch::Merge(json!({ "series": series }));
        let request = lean_requests::patch::<Event>(&sender.client, Some(occurrence.namespace()), &name, &patch);
        match sender.write(Verb::Patch, Write::Event, request).await {
            Ok(()) => {
                return Written {
                    left: Some((name, count)),
                    requests,
                    error: None,
                    kind_is_gone: false,
                };
            }
            // The event has expired, so a new one is written.
            Err(error) if error.code() == Some(404) => {}
            Err(error) => {
                return Written {
                    left: None,
                    requests,
                    error: Some(error),
                    kind_is_gone: false,
                };
            }
        }
    }
    requests += 1;
    let event = occurrence.event(instance);
    let params = PostParams::default();
    let request = api.create(&params, &event);
    match sender.write(Verb::Create, Write::Event, request).await {
        Ok(_) => Written {
            left: Some((event.name_any(), 1)),
            requests,
            error: None,
            kind_is_gone: false,
        },
        // An earlier attempt was written, but its answer was lost.
        Err(error) if error.code() == Some(409) => Written {
            left: Some((event.name_any(), 1)),
            requests,
            error: None,
            kind_is_gone: false,
        },
        Err(error) => Written {
            left: None,
            requests,
            error: Some(error),
            kind_is_gone: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use crds::card_inventory::{CardInventory, CardInventorySpec, CardInventoryStatus};
    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;

    use super::*;

    /// Otherwise each operator that starts would log a warning for each object that went with its node meanwhile, and show nothing until
    /// the next try.
    #[tokio::test]
    async fn what_is_gone_since_it_was_listed_is_made_anew_at_once() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let server = tower::service_fn(move |request: Request<Body>| {
            let heard = Arc::clone(&heard);
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let is_there = heard.lock().unwrap().iter().any(|said| said.starts_with("POST"));
                heard
                    .lock()
                    .unwrap()
                    .push(format!("{method} {}", path.rsplit('/').next().unwrap_or_default()));
                let (code, body) = if method == Method::POST {
                    (
                        StatusCode::CREATED,
                        json!({ "metadata": { "name": "n1" }, "spec": { "nodeName": "n1" } }),
                    )
                } else if is_there {
                    (StatusCode::OK, json!({ "metadata": { "name": "n1" } }))
                } else {
                    let status = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "gone" });
                    (StatusCode::NOT_FOUND, status)
                };
                let response = Response::builder().status(code);
                response.body(Body::from(body.to_string().into_bytes()))
            }
        });
        let sender = Sender {
            client: Client::new(server, "default"),
            metrics: Arc::default(),
        };
        let record: Record<CardInventory> = Record {
            owner_uid: "1".into(),
            spec: CardInventorySpec {
                node_name: "n1".to_owned(),
            },
            status: CardInventoryStatus::default(),
        };
        let plan = Plan::Update {
            record: Arc::new(record),
            object: false,
            status: true,
        };
        let written = write_object(sender, "n1".into(), plan).await;
        assert!(
            written.error.is_none() && matches!(written.left, Left::Record(_)),
            "{written:?}"
        );
        assert_eq!(
            *asked.lock().unwrap(),
            ["PATCH status", "POST cardinventories", "PATCH status"]
        );
    }
}
