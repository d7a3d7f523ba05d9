//! A door with a small cluster behind it, and reviews to show it.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::must_use_candidate,
    missing_docs,
    reason = "part of tests"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crds::configuration::{Configuration, Settings};
use crds::dra::{ClaimSpec, DeviceClass};
use crds::queue_access::QueueAccess;
use crds::queue_terms::QueueTerms;
use futures::future::BoxFuture;
use programs::certificates::Files;
use serde_json::{Value, json};
use webhook::Options;
use webhook::door::{Door, Reply};
use webhook::endpoint::Endpoint;
use webhook::health::Health;
use webhook::knowledge::{GroupFacts, Knowledge, NamespaceFacts, QueueCondition, QueueFacts, group_key};
use webhook::lookup::{LookupError, Lookups};
use webhook::metrics::Metrics;
use webhook::server::Diagnosed;
use webhook::view::{Found, Lookup, PodsOf};

/// The namespace of all pods, unless a test says otherwise.
pub const NAMESPACE: &str = "research";
/// The uid of every review.
pub const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// What the API server has, when it is asked.
#[derive(Default)]
pub struct FakeApi {
    pub queues: Mutex<BTreeMap<String, Arc<QueueFacts>>>,
    pub groups: Mutex<BTreeMap<String, Arc<GroupFacts>>>,
    pub namespaces: Mutex<BTreeMap<String, Arc<NamespaceFacts>>>,
    /// How many pods each queue has that has any.
    pub pods: Mutex<BTreeMap<String, PodsOf>>,
    /// What claims ask for, or those that are made from templates, by name.
    pub claims: Mutex<BTreeMap<String, Arc<ClaimSpec>>>,
    pub classes: Mutex<BTreeMap<String, Arc<DeviceClass>>>,
    /// What was asked, in order.
    pub asked: Mutex<Vec<Lookup>>,
    /// Whether nothing is answered.
    pub silent: bool,
    /// Whether nothing is answered about classes of devices.
    pub silent_about_classes: bool,
    /// How long each question takes.
    pub takes: Duration,
}

impl Lookups for FakeApi {
    fn find<'l>(&'l self, lookup: &'l Lookup) -> BoxFuture<'l, Result<Found, LookupError>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(lookup.clone());
            std::thread::sleep(self.takes);
            if self.silent || self.silent_about_classes && matches!(lookup, Lookup::Class(_)) {
                return Err(LookupError::Timeout);
            }
            Ok(match lookup {
                Lookup::Queue(name) => Found::Queue(self.queues.lock().unwrap().get(name).cloned()),
                Lookup::Group { namespace, name } => {
                    Found::Group(self.groups.lock().unwrap().get(&group_key(namespace, name)).cloned())
                }
                Lookup::Namespace(name) => Found::Namespace(self.namespaces.lock().unwrap().get(name).cloned()),
                Lookup::PodsOf(queue) => {
                    let pods = self.pods.lock().unwrap().get(queue).copied();
                    Found::PodsOf(pods.unwrap_or(PodsOf::Shown(0)))
                }
                Lookup::Claim { name, .. } | Lookup::ClaimTemplate { name, .. } => {
                    Found::Claim(self.claims.lock().unwrap().get(name).cloned())
                }
                Lookup::Class(name) => Found::Class(self.classes.lock().unwrap().get(name).cloned()),
            })
        })
    }
}

/// Facts of a queue that takes pods from the namespaces that `selector` selects.
pub fn queue(selector: Option<&str>) -> Arc<QueueFacts> {
    Arc::new(QueueFacts {
        condition: QueueCondition::Open,
        selector: selector.unwrap_or_default().into(),
        terms: QueueTerms {
            access: QueueAccess::parse(selector),
            ..QueueTerms::default()
        },
    })
}

/// Facts of a queue in `condition`.
pub fn queue_in(condition: QueueCondition) -> Arc<QueueFacts> {
    Arc::new(QueueFacts {
        condition,
        ..(*queue(None)).clone()
    })
}

/// Facts of a group.
pub fn group(queue: Option<&str>) -> Arc<GroupFacts> {
    Arc::new(GroupFacts {
        queue: queue.map(Into::into),
    })
}

/// Facts of a namespace.
pub fn namespace(labels: &[(&str, &str)], queue: Option<&str>) -> Arc<NamespaceFacts> {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Arc::new(NamespaceFacts {
        labels: labels.collect(),
        queue: queue.map(Into::into),
    })
}

/// A door, what it knows, and the API server that it asks.
pub struct World {
    pub knowledge: Arc<Knowledge>,
    pub api: Arc<FakeApi>,
    pub metrics: Arc<Metrics>,
    pub door: Arc<Door>,
}

impl World {
    /// A cluster with A100 and H100 cards, whole and shared, and queues of each kind.
    pub fn new() -> Self {
        Self::with(Configuration::default(), Options::default())
    }

    pub fn with_settings(settings: Settings) -> Self {
        Self::with_configuration(Configuration {
            cardgate: settings,
            ..Configuration::default()
        })
    }

    pub fn with_configuration(configuration: Configuration) -> Self {
        Self::with(configuration, Options::default())
    }

    pub fn with(configuration: Configuration, options: Options) -> Self {
        let knowledge = Knowledge::default();
        let cards = [
            ("NVIDIA-A100", "nvidia.com/gpu"),
            ("NVIDIA-H100", "nvidia.com/gpu"),
            ("NVIDIA-A100/mps-80g*1/8", "nvidia.com/gpu.shared"),
            ("NVIDIA-A100/mig-1g.5gb-mixed", "nvidia.com/mig-1g.5gb"),
        ];
        knowledge.card_types.replace(
            cards
                .into_iter()
                .map(|(card, resource)| (card.into(), resource.into()))
                .collect(),
        );
        let queues = [
            ("default", queue(None)),
            ("team-a", queue(None)),
            ("team-b", queue(Some("team=b"))),
            ("broken", queue(Some("team in b"))),
            ("closed", queue_in(QueueCondition::NotOpen("Closed".into()))),
            ("odd", queue_in(QueueCondition::Unreadable("spec: invalid type".into()))),
        ];
        let namespaces = [
            (NAMESPACE, namespace(&[("team", "a")], None)),
            ("production", namespace(&[("team", "b")], Some("team-b"))),
        ];
        let groups = [
            ("research/training", group(Some("team-a"))),
            ("research/aimless", group(None)),
        ];
        let owned = |name: &str| name.to_owned();
        let api = Arc::new(FakeApi {
            queues: Mutex::new(
                queues
                    .iter()
                    .map(|(name, facts)| (owned(name), facts.clone()))
                    .collect(),
            ),
            namespaces: Mutex::new(
                namespaces
                    .iter()
                    .map(|(name, facts)| (owned(name), facts.clone()))
                    .collect(),
            ),
            groups: Mutex::new(
                groups
                    .iter()
                    .map(|(name, facts)| (owned(name), facts.clone()))
                    .collect(),
            ),
            ..FakeApi::default()
        });
        knowledge
            .queues
            .replace(queues.into_iter().map(|(name, facts)| (name.into(), facts)).collect());
        knowledge.namespaces.replace(
            namespaces
                .into_iter()
                .map(|(name, facts)| (name.into(), facts))
                .collect(),
        );
        knowledge
            .groups
            .replace(groups.into_iter().map(|(name, facts)| (name.into(), facts)).collect());
        knowledge.configure(Some(Arc::new(configuration)), None);
        Self::of(knowledge, api, options)
    }

    pub fn of(knowledge: Knowledge, api: Arc<FakeApi>, options: Options) -> Self {
        let (knowledge, metrics) = (Arc::new(knowledge), Arc::new(Metrics::default()));
        let door = Arc::new(Door::new(knowledge.clone(), api.clone(), options, metrics.clone()));
        Self {
            knowledge,
            api,
            metrics,
            door,
        }
    }

    /// The health of a webhook that knows what this world does.
    pub fn health(&self) -> Arc<Health> {
        Arc::new(Health::new(self.knowledge.clone(), Arc::default()))
    }

    /// What the webhook of this world says of itself.
    pub fn diagnosed(&self) -> Diagnosed {
        Diagnosed {
            health: self.health(),
            metrics: self.metrics.clone(),
        }
    }

    /// What the API server was asked, in order.
    pub fn asked(&self) -> Vec<String> {
        self.api.asked.lock().unwrap().iter().map(Lookup::to_string).collect()
    }

    /// The raw answer to any bytes.
    pub fn answer(&self, endpoint: Endpoint, body: &[u8]) -> Reply {
        futures::executor::block_on(self.door.answer(endpoint, body))
    }

    /// The verdict on a review.
    pub fn verdict(&self, endpoint: Endpoint, review: &Value) -> Verdict {
        let reply = self.answer(endpoint, &serde_json::to_vec(review).unwrap());
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{text}");
        Verdict::read(&reply.body, &review["request"]["object"])
    }

    /// The verdict on the creation of a pod.
    pub fn create_pod(&self, pod: &Value) -> Verdict {
        self.verdict(Endpoint::Mutate, &pod_review(pod))
    }
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub allowed: bool,
    pub code: Option<u64>,
    pub reason: String,
    pub message: String,
    pub warnings: Vec<String>,
    /// How many operations the patch has.
    pub operations: usize,
    /// The object with the patch applied.
    pub object: Value,
}

impl Verdict {
    /// Reads an answer as the API server does, and applies its patch to `object`.
    pub fn read(body: &[u8], object: &Value) -> Self {
        use base64::Engine as _;
        let review: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(review["kind"], "AdmissionReview");
        let response = &review["response"];
        assert_eq!(response["uid"], UID);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut object = object.clone();
        let mut operations = 0;
        if let Some(patch) = response["patch"].as_str() {
            assert_eq!(response["patchType"], "JSONPatch");
            let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
            let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
            operations = patch.0.len();
            assert!(operations > 0, "an empty patch is no patch");
            json_patch::patch(&mut object, &patch).unwrap();
        }
        Self {
            allowed: response["allowed"].as_bool().unwrap(),
            code: response["status"]["code"].as_u64(),
            reason: text(&response["status"]["details"]["causes"][0]["reason"]),
            message: text(&response["status"]["message"]),
            warnings: response["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect(),
            operations,
            object,
        }
    }

    /// The reason and the message of a refusal.
    #[track_caller]
    pub fn refused(&self) -> String {
        assert!(!self.allowed, "should be refused: {self:?}");
        assert_eq!(self.operations, 0);
        format!("{} {}: {}", self.code.unwrap(), self.reason, self.message)
    }

    /// The warnings on what is let in.
    #[track_caller]
    pub fn allowed(&self) -> &[String] {
        assert!(self.allowed, "should be let in: {}", self.message);
        &self.warnings
    }

    /// The object that is let in.
    #[track_caller]
    pub fn object(&self) -> &Value {
        self.allowed();
        &self.object
    }
}

/// A pod with these annotations that requests these resources.
pub fn pod(annotations: &[(&str, &str)], requests: &[(&str, &str)]) -> Value {
    let object = |entries: &[(&str, &str)]| -> Value {
        let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        Value::Object(entries.collect())
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker", "labels": {"app": "training"}, "annotations": object(annotations)},
        "spec": {
            "containers": [{
                "name": "main",
                "image": "training:latest",
                "resources": {"limits": object(requests), "requests": object(requests)}
            }]
        }
    })
}

/// The review of a pod's creation.
pub fn pod_review(pod: &Value) -> Value {
    review(("", "v1", "Pod"), "CREATE", pod, &Value::Null)
}

/// A review.
pub fn review((group, version, kind): (&str, &str, &str), operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": "things"},
            "requestKind": {"group": group, "version": version, "kind": kind},
            "name": ([object, old].iter().find_map(|object| object["metadata"]["name"].as_str())),
            "namespace": NAMESPACE,
            "operation": operation,
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
        }
    })
}

/// The files of a Secret with a self-signed certificate, and the certificate.
pub fn certificate(name: &str) -> (Files, rcgen::Certificate) {
    let signed = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let files = [
        ("tls.crt", signed.cert.pem().into_bytes()),
        ("tls.key", signed.signing_key.serialize_pem().into_bytes()),
    ];
    (files.into(), signed.cert)
}

/// The same, as a node's kubelet asks.
pub fn by_kubelet(pod: &Value) -> Value {
    let mut review = pod_review(pod);
    review["request"]["userInfo"] = json!({"username": "system:node:node-1", "groups": ["system:nodes"]});
    review
}
