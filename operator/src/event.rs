//! What the mind hears: what the API server shows, and what became of what was done.

use std::sync::Arc;

use crds::configuration::Configuration;
use crds::job::Job;
use crds::lean::Metadata;
use crds::node::Node;
use crds::pod::Pod;
use crds::volcano::{PodGroup, Queue};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::oneshot;

use crate::cluster::Kind;
use crate::cluster::reclaims::EvictionOutcome;
use crate::decide::Eviction;
use crate::pulse::{Object, ObjectKind};

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A list of all objects of a kind begins.
    ListBegins(Kind),
    /// A list of all objects of a kind is complete.
    ListEnds(Kind),
    /// A kind is not installed in this cluster: it has no objects.
    NotInstalled(Kind),
    /// A pod is there, or has changed.
    Pod(Box<Pod<Box<str>>>),
    /// A pod is gone or over, by its uid.
    PodGone(Box<str>),
    /// A pod that had succeeded is gone, by its uid.
    SucceededPodGone(Box<str>),
    /// A node is there, or has changed.
    Node(Box<Node<Box<str>>>),
    /// A node is gone, by its name.
    NodeGone(Box<str>),
    /// A queue is there, or has changed.
    Queue(Box<Queue>),
    /// A queue is there that can't be read at all.
    QueueUnreadable {
        /// Its name.
        name: Box<str>,
        /// Its uid.
        uid: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// A queue is gone, by its name.
    QueueGone(Box<str>),
    /// A `PodGroup` is there, or has changed.
    Group(Box<PodGroup>),
    /// A `PodGroup` is there that can't be read at all.
    GroupUnreadable {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
        /// Its uid.
        uid: Box<str>,
        /// What is wrong.
        reason: Box<str>,
    },
    /// A `PodGroup` is gone.
    GroupGone {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// A Job is there, or has changed.
    Job(Box<Job<Box<str>>>),
    /// A Job is gone.
    JobGone {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// A namespace is there, or has changed.
    Namespace(Box<Metadata<Box<str>>>),
    /// A namespace is gone, by its name.
    NamespaceGone(Box<str>),
    /// Another configuration is to be put in force; who sent it is told when it is.
    Configuration(Arc<Configuration>, oneshot::Sender<()>),
    /// The label of a node, by its name, has been written, or could not be for now.
    NodeLabelled(Arc<str>),
    /// What became of an admission, by the pod's uid.
    Outcome(Arc<str>, Outcome),
    /// What became of resuming a Job, by its uid.
    Resumed(Arc<str>, Outcome),
    /// What became of binding a pod, by its uid.
    Bound(Arc<str>, Outcome),
    /// What became of evictions, victim by victim.
    Evictions(Box<Eviction>, Vec<EvictionOutcome>),
}

impl Event {
    /// The object that it is about, where reading it is more than forgetting it.
    pub fn object(&self) -> Option<Object> {
        let (kind, metadata) = match self {
            Self::Pod(pod) => (ObjectKind::Pod, &pod.metadata),
            Self::Node(node) => (ObjectKind::Node, &node.metadata),
            Self::Job(job) => (ObjectKind::Job, &job.metadata),
            Self::Namespace(metadata) => (ObjectKind::Namespace, &**metadata),
            Self::Queue(queue) => return Some(object_of(ObjectKind::Queue, &queue.metadata)),
            Self::Group(group) => return Some(object_of(ObjectKind::PodGroup, &group.metadata)),
            _ => return None,
        };
        let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().into();
        Some(Object {
            kind,
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
        })
    }
}

fn object_of(kind: ObjectKind, metadata: &ObjectMeta) -> Object {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    Object {
        kind,
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
    }
}

/// What became of an admission, or of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is let in, or bound.
    Admitted,
    /// It was not, and the pod still waits or is gone.
    Refused,
}
