//! Pods, what makes pods, and queues, in the few variations that tests need.

use std::collections::BTreeMap;
use std::fmt::Display;

use crds::keys;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, Pod, PodSchedulingGate, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// The label by which a workload finds its pods.
pub const APP: &str = "app";

/// A pod with one container, or a template for one.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    metadata: ObjectMeta,
    spec: PodSpec,
    /// What is said of its container besides.
    main: Box<Container>,
    requests: BTreeMap<String, Quantity>,
}

/// A pod of that name in the namespace `default`.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(APP.to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        },
        spec: PodSpec::default(),
        main: Box::default(),
        requests: BTreeMap::new(),
    }
}

impl PodBuilder {
    /// Puts it into a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// Gives it another name, and leaves the label [`APP`].
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.metadata.name = Some(name.to_owned());
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .annotations
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .labels
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    /// Names its queue.
    #[must_use]
    pub fn queue(self, queue: &str) -> Self {
        self.annotation(keys::QUEUE_NAME, queue)
    }

    /// Names its card, or alternatives (`A|B`).
    #[must_use]
    pub fn card(self, card: &str) -> Self {
        self.annotation(keys::CARD_NAME, card)
    }

    /// Requests a resource, with an equal limit, as extended resources need it.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: impl Display) -> Self {
        self.requests
            .insert(resource.to_owned(), Quantity(quantity.to_string()));
        self
    }

    /// Adds a scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.spec
            .scheduling_gates
            .get_or_insert_default()
            .push(PodSchedulingGate { name: name.to_owned() });
        self
    }

    /// Selects nodes by a label.
    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        self.spec
            .node_selector
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    /// Names the scheduler.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.spec.scheduler_name = Some(name.to_owned());
        self
    }

    /// Names the priority class.
    #[must_use]
    pub fn priority_class(mut self, name: &str) -> Self {
        self.spec.priority_class_name = Some(name.to_owned());
        self
    }

    /// Changes anything else of the pod's spec.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Changes what is said of its container, but for its name, image and resources.
    #[must_use]
    pub fn container(mut self, change: impl FnOnce(&mut Container)) -> Self {
        change(&mut self.main);
        self
    }

    /// The pod.
    pub fn build(self) -> Pod {
        let spec = self.pod_spec();
        Pod {
            metadata: self.metadata,
            spec: Some(spec),
            status: None,
        }
    }

    /// A Deployment of such pods, under the same name.
    pub fn deployment(self, replicas: i32) -> Deployment {
        Deployment {
            metadata: self.owner_metadata(),
            spec: Some(DeploymentSpec {
                replicas: Some(replicas),
                selector: self.selector(),
                template: self.template(None),
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    /// A `StatefulSet` of such pods, under the same name. It makes a pod when the one before is Ready.
    pub fn stateful_set(self, replicas: i32) -> StatefulSet {
        StatefulSet {
            metadata: self.owner_metadata(),
            spec: Some(StatefulSetSpec {
                replicas: Some(replicas),
                selector: self.selector(),
                service_name: self.metadata.name.clone(),
                template: self.template(None),
                ..StatefulSetSpec::default()
            }),
            status: None,
        }
    }

    /// A batch Job that needs `completions` such pods, all of them at once, under the same name.
    pub fn job(self, completions: i32) -> Job {
        Job {
            metadata: self.owner_metadata(),
            spec: Some(JobSpec {
                parallelism: Some(completions),
                completions: Some(completions),
                template: self.template(Some("Never")),
                ..JobSpec::default()
            }),
            status: None,
        }
    }

    fn pod_spec(&self) -> PodSpec {
        let mut spec = self.spec.clone();
        let resources = (!self.requests.is_empty()).then(|| ResourceRequirements {
            requests: Some(self.requests.clone()),
            limits: Some(self.requests.clone()),
            ..ResourceRequirements::default()
        });
        let main = Container {
            name: "main".to_owned(),
            image: Some("registry.k8s.io/pause:3.10".to_owned()),
            resources,
            ..Container::clone(&self.main)
        };
        spec.containers.insert(0, main);
        spec
    }

    fn template(&self, restart_policy: Option<&str>) -> PodTemplateSpec {
        let mut spec = self.pod_spec();
        spec.restart_policy = restart_policy.map(str::to_owned);
        let metadata = ObjectMeta {
            name: None,
            namespace: None,
            ..self.metadata.clone()
        };
        PodTemplateSpec {
            metadata: Some(metadata),
            spec: Some(spec),
        }
    }

    fn owner_metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: self.metadata.name.clone(),
            namespace: self.metadata.namespace.clone(),
            ..ObjectMeta::default()
        }
    }

    fn selector(&self) -> LabelSelector {
        let app = self.metadata.name.clone().unwrap_or_default();
        LabelSelector {
            match_labels: Some(BTreeMap::from([(APP.to_owned(), app)])),
            match_expressions: None,
        }
    }
}

/// A Volcano Queue.
#[derive(Debug, Clone)]
pub struct QueueBuilder {
    name: String,
    annotations: BTreeMap<String, String>,
    cards: BTreeMap<String, u64>,
    spec: Value,
}

/// A queue of that name, with neither card quota nor capability.
pub fn queue(name: &str) -> QueueBuilder {
    QueueBuilder {
        name: name.to_owned(),
        annotations: BTreeMap::new(),
        cards: BTreeMap::new(),
        spec: json!({}),
    }
}

impl QueueBuilder {
    /// Adds to its card quota.
    #[must_use]
    pub fn quota(mut self, card: &str, count: u64) -> Self {
        self.cards.insert(card.to_owned(), count);
        self
    }

    /// Sets its capability for a resource such as `cpu`.
    #[must_use]
    pub fn capability(mut self, resource: &str, quantity: &str) -> Self {
        self.spec["capability"][resource] = json!(quantity);
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a field of its spec, such as `priority` or `parent`.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.spec[name] = value;
        self
    }

    /// The object, for [`crate::controlplane::ControlPlane::apply`].
    pub fn build(self) -> Value {
        let mut annotations = self.annotations;
        if !self.cards.is_empty() {
            annotations.insert(keys::CARD_QUOTA.to_owned(), json!(self.cards).to_string());
        }
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": { "name": self.name, "annotations": annotations },
            "spec": self.spec,
        })
    }
}
