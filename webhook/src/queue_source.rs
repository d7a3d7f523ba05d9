//! Where a pod's queue comes from.

use std::fmt;

use crds::keys::QUEUE_NAME;

/// Where a pod's queue comes from, in the order in which they are asked (semantics, **Which pods are managed**).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueSource {
    /// The pod's own annotation.
    Pod,
    /// The `PodGroup` that the pod belongs to.
    Group(String),
    /// The annotation of the pod's namespace.
    Namespace(String),
    /// The configured default queue.
    Default,
}

impl fmt::Display for QueueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => write!(f, "annotation {QUEUE_NAME}"),
            Self::Group(group) => write!(f, "spec.queue of PodGroup {group:?}"),
            Self::Namespace(namespace) => write!(f, "annotation {QUEUE_NAME} of namespace {namespace:?}"),
            Self::Default => f.write_str("default queue (no queue is named by the pod, its PodGroup or its namespace)"),
        }
    }
}
