//! The door: the real webhook, asked as the API server asks it about every creation and change that it is registered for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crds::configuration::Configuration;
use crds::keys::{CONFIG_MAP, EXEMPT_NAMESPACES, NAMESPACE};
use crds::volcano::{PodGroup, Queue};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use programs::configuration::Reader;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use webhook::door::Door as Webhook;
use webhook::endpoint::Endpoint;
use webhook::knowledge::{GroupFacts, Knowledge, NamespaceFacts, QueueFacts, group_key};
use webhook::lookup::{LookupError, Lookups};
use webhook::view::{Found, Lookup, PodsOf};

use crate::objects::{
    CARD_TYPES, CARD_USAGES, CONFIG_MAPS, JOBS, Key, NAMESPACES, POD_GROUPS, PODS, QUEUES, Refusal, Resource,
    VOLCANO_JOBS,
};

/// The real webhook. It knows at once whatever is stored.
pub struct Door {
    webhook: Webhook,
    seen: Arc<Seen>,
    reader: Reader,
}

/// What the webhook sees.
#[derive(Default)]
struct Seen {
    knowledge: Arc<Knowledge>,
    /// How many pods each queue has, as its `CardUsage` says.
    pods_of: Mutex<BTreeMap<String, u64>>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}

impl Default for Door {
    fn default() -> Self {
        let seen = Arc::new(Seen::default());
        let knowledge = &seen.knowledge;
        knowledge.queues.replace(HashMap::new());
        knowledge.groups.replace(HashMap::new());
        knowledge.namespaces.replace(HashMap::new());
        knowledge.card_types.replace(HashMap::new());
        knowledge.configure(Some(Arc::new(Configuration::default())), None);
        let lookups: Arc<dyn Lookups> = Arc::clone(&seen) as _;
        Self {
            webhook: Webhook::new(
                Arc::clone(knowledge),
                lookups,
                webhook::Options::default(),
                Arc::new(()),
            ),
            seen,
            reader: Reader::default(),
        }
    }
}

impl Lookups for Seen {
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>> {
        let found = match lookup {
            Lookup::Queue(name) => Found::Queue(self.knowledge.queues.get(name)),
            Lookup::Group { namespace, name } => Found::Group(self.knowledge.groups.get(&group_key(namespace, name))),
            Lookup::Namespace(name) => Found::Namespace(self.knowledge.namespaces.get(name)),
            Lookup::PodsOf(queue) => {
                let pods_of = self.pods_of.lock().unwrap_or_else(PoisonError::into_inner);
                Found::PodsOf(PodsOf::Shown(pods_of.get(queue).copied().unwrap_or(0)))
            }
            // Claims matter only for refusals that are certain, which do not occur in random worlds.
            Lookup::Claim { .. } | Lookup::ClaimTemplate { .. } => Found::Claim(None),
            Lookup::Class(_) => Found::Class(None),
        };
        std::future::ready(Ok(found)).boxed()
    }
}

impl Door {
    /// Takes in what has been stored; `None` for a removed object.
    pub fn see(&mut self, resource: &Resource, key: &Key, object: Option<&Value>) {
        let knowledge = &self.seen.knowledge;
        let name = Box::<str>::from(&*key.name);
        if resource == &QUEUES {
            match object.and_then(read::<DeserializeGuard<Queue>>) {
                Some(queue) => knowledge.queues.set(name, Arc::new(QueueFacts::read(&queue.0))),
                None => knowledge.queues.remove(&name),
            }
        } else if resource == &POD_GROUPS {
            let name = group_key(&key.namespace, &key.name);
            match object.and_then(read::<DeserializeGuard<PodGroup>>) {
                Some(group) => knowledge.groups.set(
                    name.into(),
                    Arc::new(GroupFacts::naming(
                        group.0.as_ref().ok().and_then(|group| group.spec.queue.as_deref()),
                    )),
                ),
                None => knowledge.groups.remove(&name),
            }
        } else if resource == &NAMESPACES {
            match object.and_then(|object| read::<ObjectMeta>(&object["metadata"])) {
                Some(metadata) => knowledge
                    .namespaces
                    .set(name, Arc::new(NamespaceFacts::read(&metadata))),
                None => knowledge.namespaces.remove(&name),
            }
        } else if resource == &CARD_TYPES {
            match object.and_then(|object| object["spec"]["resource"].as_str()) {
                Some(resource) => knowledge.card_types.set(name, resource.into()),
                None => knowledge.card_types.remove(&name),
            }
        } else if resource == &CARD_USAGES {
            let mut pods_of = self.seen.pods_of.lock().unwrap_or_else(PoisonError::into_inner);
            match object {
                Some(usage) => {
                    let count = |field| usage["status"][field].as_u64().unwrap_or(0);
                    pods_of.insert(key.name.clone(), count("admittedPods") + count("waitingPods"));
                }
                None => drop(pods_of.remove(&key.name)),
            }
        } else if resource == &CONFIG_MAPS
            && key.namespace == NAMESPACE
            && key.name == CONFIG_MAP
            && let Some(loaded) = self.reader.read(object.and_then(read).as_ref())
        {
            knowledge.configure(loaded.in_force, loaded.read.err());
        }
    }

    /// Asks whether something may be created or changed, and applies what the webhook writes on it.
    pub fn review(
        &self,
        who: &str,
        resource: &Resource,
        key: &Key,
        before: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Refusal> {
        // The webhook's configurations leave these namespaces out, and the operator may resume Jobs.
        if EXEMPT_NAMESPACES.contains(&&*key.namespace) || (who.starts_with("operator") && resource == &JOBS) {
            return Ok(());
        }
        let is_new = before.is_none();
        if (resource == &PODS && is_new) || resource == &JOBS {
            self.ask(Endpoint::Mutate, who, resource, key, before, object)?;
        }
        let is_validated =
            resource == &QUEUES || resource == &POD_GROUPS || resource == &JOBS || resource == &VOLCANO_JOBS;
        if is_validated {
            self.ask(Endpoint::Validate, who, resource, key, before, object)?;
        }
        Ok(())
    }

    fn ask(
        &self,
        endpoint: Endpoint,
        who: &str,
        resource: &Resource,
        key: &Key,
        before: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Refusal> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "review",
                "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
                "name": key.name,
                "namespace": key.namespace,
                "operation": if before.is_none() { "CREATE" } else { "UPDATE" },
                "userInfo": {"username": user(who)},
                "object": object,
                "oldObject": before,
            },
        });
        let review = review.to_string();
        let reply = self.webhook.answer(endpoint, review.as_bytes());
        let Some(reply) = reply.now_or_never() else {
            return Err(Refusal::Denied("the webhook waits for something".to_owned()));
        };
        let text = String::from_utf8_lossy(&reply.body);
        if reply.status != 200 {
            return Err(Refusal::Denied(format!("failed calling webhook: {text}")));
        }
        let answer: Value = serde_json::from_str(&text).map_err(|error| Refusal::Denied(error.to_string()))?;
        let response = &answer["response"];
        if response["allowed"] != true {
            return Err(Refusal::Denied(
                response["status"]["message"].as_str().unwrap_or_default().to_owned(),
            ));
        }
        let Some(patch) = response["patch"].as_str() else {
            return Ok(());
        };
        let patch = STANDARD
            .decode(patch)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<json_patch::Patch>(&bytes).ok());
        let patched = patch.map(|patch| json_patch::patch(object, &patch));
        match patched {
            Some(Ok(())) => Ok(()),
            _ => Err(Refusal::Denied(format!("the webhook's patch does not fit: {text}"))),
        }
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}

/// Returns the user name that the API server knows an author by.
fn user(who: &str) -> String {
    match who {
        "user" => "alice".to_owned(),
        "scheduler" => "system:kube-scheduler".to_owned(),
        who if who.starts_with("kubelet") => format!("system:node:{who}"),
        who if who.ends_with("-controller") => format!("system:serviceaccount:kube-system:{who}"),
        who => who.to_owned(),
    }
}
