//! The fields that are read of objects that are let go. No others are read, since users may make objects as long as objects can be.

use crds::lean::TextMap;
use k8s_openapi::api::{batch::v1 as batch, core::v1 as core};
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An object of which the fields are read that may mark it.
pub(super) trait Marked: DeserializeOwned + Clone {
    /// Kubernetes' own kind.
    type Kind: Resource<DynamicType = ()>;

    fn metadata(&self) -> &Metadata;
}

/// The identity of an object, and the keys on it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Metadata {
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub uid: Option<String>,
    annotations: Option<TextMap<Box<str>>>,
    labels: Option<TextMap<Box<str>>>,
}

impl Metadata {
    pub fn has_annotation(&self, key: &str) -> bool {
        self.annotations.as_ref().is_some_and(|keys| keys.contains_key(key))
    }

    pub fn has_label(&self, key: &str) -> bool {
        self.labels.as_ref().is_some_and(|keys| keys.contains_key(key))
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Pod {
    metadata: Metadata,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    scheduling_gates: Option<Vec<Gate>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Gate {
    pub name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct PodStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Condition {
    pub r#type: String,
    pub status: String,
}

impl Pod {
    pub fn gates(&self) -> &[Gate] {
        let gates = self.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_deref());
        gates.unwrap_or_default()
    }

    pub fn conditions(&self) -> &[Condition] {
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default()
    }
}

impl Marked for Pod {
    type Kind = core::Pod;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Job {
    metadata: Metadata,
    spec: Option<JobSpec>,
}

#[derive(Debug, Clone, Deserialize)]
struct JobSpec {
    suspend: Option<bool>,
}

impl Job {
    pub fn is_suspended(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
    }
}

impl Marked for Job {
    type Kind = batch::Job;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Node {
    metadata: Metadata,
}

impl Marked for Node {
    type Kind = core::Node;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
