//! `CardReview`: a question about what waits, and its answer.

#![expect(
    clippy::doc_markdown,
    reason = "these are the words of kubectl explain, which shows backticks as they are"
)]

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// What is asked about: exactly one of these, in the namespace of the review.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "card.volcano.sh",
    version = "v1alpha1",
    kind = "CardReview",
    plural = "cardreviews",
    namespaced,
    status = "CardReviewStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A question: why does this wait, and what would let it in? Create it with dryRun=All (kubectl create --dry-run=server -o \
           yaml): it comes back at once with its status filled in, and is never stored."
)]
#[serde(rename_all = "camelCase")]
pub struct CardReviewSpec {
    /// Name of a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Name of a Job (batch/v1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Name of a PodGroup (scheduling.volcano.sh/v1beta1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group: Option<String>,
    /// A Deployment, or another controller of pods: its first waiting pod is explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ReviewedWorkload>,
    /// Name of a queue: whether it takes pods, and who waits in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A Pod, or an object with a pod template (Job, Deployment, ...), that need not exist: whether its first pod would be let in now; of a
    /// Job that is taken as a whole, and of pods that join a PodGroup, whether all of it would. Its queue is read from the annotations of the
    /// pod, else of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub manifest: Option<Value>,
}

/// A controller of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedWorkload {
    /// Its kind, such as Deployment, ReplicaSet or StatefulSet; Deployment where nothing is said.
    #[serde(default = "deployment")]
    #[schemars(default = "deployment")]
    pub kind: String,
    /// Its name.
    pub name: String,
}

fn deployment() -> String {
    "Deployment".to_owned()
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardReviewStatus {
    /// Whether it is let in already, or, of a manifest, would be now. Of a queue, whether it takes pods.
    #[serde(default)]
    pub admitted: bool,
    /// The answer in one sentence.
    #[serde(default)]
    pub message: String,
    /// The queue that it is charged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What stands in the way: first what is checked first, then everything else.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Its position among what waits in its queue; 1 is next. Absent where it is not its turn at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// How many pods wait in the queue, and Jobs and groups to be taken as a whole before their pods exist, itself included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i64>,
    /// Who is before it in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Count>,
    /// What would let it in, in words.
    #[serde(default)]
    pub lets_in: String,
    /// When it may be let in, where anything says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// One check that says no.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The reason in one word, as conditions and events say it.
    pub reason: String,
    /// The same in words, with the numbers of this moment.
    pub message: String,
    /// Whether waiting can help.
    pub outlook: Outlook,
    /// What to do about it.
    pub remedy: String,
    /// What there is too little of; empty where it is not about amounts.
    #[serde(default)]
    pub shortages: Vec<Shortage>,
}

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outlook {
    /// It can: others may give back what is missing, or time may bring it.
    #[default]
    NotYet,
    /// It can't, as things are: somebody has to change the request, the queue, the nodes or the configuration.
    Never,
}

/// What there is too little of, where, and who has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shortage {
    /// A card name, or a resource such as cpu.
    pub resource: String,
    /// How much is asked for, as a Kubernetes quantity.
    pub asked: String,
    /// How much is in use.
    pub used: String,
    /// How much there may be in use; absent where that depends on what others do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Where: the queue, a queue above it, or the cluster.
    pub place: Place,
    /// Who has it: queue by queue, the asker's first, at most 32 queues, and last all queues together that are not for the namespace of
    /// the review.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// What is kept of it for Jobs and groups whose pods are not let in yet; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptFor>,
}

/// What queues keep for Jobs and groups that they have taken as a whole, until their pods are let in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptFor {
    /// How much, as a Kubernetes quantity.
    pub amount: String,
    /// For whom: those of the namespace of the review as `Job NAME` and `PodGroup NAME`.
    pub workloads: Count,
    /// After how many seconds the last of it is given up, where no pod of theirs is let in before (`inqueueTimeout`).
    pub seconds: i64,
}

/// Where something is short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Queue, ParentQueue, Node or Cluster.
    pub kind: String,
    /// Its name; empty for the cluster.
    #[serde(default)]
    pub name: String,
}

/// What the pods of one queue have of something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The queue; empty for all pods together that are in no queue, or of others in one that is not for the namespace of the review.
    pub queue: String,
    /// How much its pods have, as a Kubernetes quantity.
    pub amount: String,
    /// Which pods.
    pub pods: Count,
}

/// Pods: those of the asker's namespace by name, all others by number alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Names of pods in the namespace of the review, and of Jobs and groups in line without pods as `Job NAME` and `PodGroup NAME`; at
    /// most 32.
    #[serde(default)]
    pub own: Vec<String>,
    /// How many pods, and such Jobs and groups, of that namespace.
    #[serde(default)]
    pub own_count: i64,
    /// How many of other namespaces.
    #[serde(default)]
    pub others: i64,
}

/// When something may be let in. It is no promise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Seconds from now.
    pub seconds: i64,
    /// What it goes by.
    pub basis: String,
}

/// What a review asks about.
#[derive(Debug, Clone, PartialEq)]
pub enum Reviewed {
    /// A pod.
    Pod(String),
    /// A Job.
    Job(String),
    /// A `PodGroup`.
    PodGroup(String),
    /// A controller of pods.
    Workload(ReviewedWorkload),
    /// A queue.
    Queue(String),
    /// An object that need not exist.
    Manifest(Value),
}

/// A review that does not say what it asks about.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("spec names {0} of pod, job, podGroup, workload, queue and manifest: name exactly one")]
pub struct NotOne(usize);

impl CardReviewSpec {
    /// What it asks about.
    pub fn into_reviewed(self) -> Result<Reviewed, NotOne> {
        let named = [
            self.pod.map(Reviewed::Pod),
            self.job.map(Reviewed::Job),
            self.pod_group.map(Reviewed::PodGroup),
            self.workload.map(Reviewed::Workload),
            self.queue.map(Reviewed::Queue),
            self.manifest.map(Reviewed::Manifest),
        ];
        let mut named: Vec<_> = named.into_iter().flatten().collect();
        match (named.pop(), named.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) => Err(NotOne(0)),
            (Some(_), others) => Err(NotOne(others + 1)),
        }
    }
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotYet => "not yet",
            Self::Never => "never",
        })
    }
}

/// Returns the definition, without a status subresource: with one, API servers would clear the status of a created review.
pub(crate) fn definition() -> CustomResourceDefinition {
    let mut definition = CardReview::crd();
    for version in &mut definition.spec.versions {
        version.subresources = None;
    }
    definition
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_review_names_exactly_one() {
        let read = |spec: Value| serde_json::from_value::<CardReviewSpec>(spec).unwrap().into_reviewed();
        assert_eq!(read(json!({ "pod": "a" })), Ok(Reviewed::Pod("a".to_owned())));
        assert_eq!(
            read(json!({ "workload": { "name": "a" } })),
            Ok(Reviewed::Workload(ReviewedWorkload {
                kind: "Deployment".to_owned(),
                name: "a".to_owned()
            }))
        );
        assert_eq!(read(json!({})), Err(NotOne(0)));
        let both = read(json!({ "pod": "a", "queue": "q" })).unwrap_err().to_string();
        assert!(both.starts_with("spec names 2 of pod"), "{both}");
    }

    #[test]
    fn nothing_clears_the_answer() {
        let definition = definition();
        assert!(
            definition
                .spec
                .versions
                .iter()
                .all(|version| version.subresources.is_none())
        );
    }
}
