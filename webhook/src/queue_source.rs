//! Where a pod's queue comes from.

use std::fmt;

use crds::keys::QUEUE_NAME;

/// Where a pod's queue comes from, in the order in which the sources are asked (docs/rules.md, **Which pods are managed**).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueSource {
    /// The pod's own annotation.
    Pod,
    /// The field of a `PodGroup` or of Volcano's Job itself.
    Spec,
    /// The annotation in the pod template of a Job.
    Template,
    /// The `PodGroup` that the pod belongs to.
    Group(String),
    /// The annotation of the pod's namespace.
    Namespace(String),
    /// The configured default queue.
    Default,
}

impl QueueSource {
    /// Where another queue could be named instead.
    pub fn elsewhere(&self) -> &'static str {
        match self {
            Self::Spec => "spec.queue",
            Self::Template => "the annotation scheduling.volcano.sh/queue-name of spec.template",
            Self::Pod | Self::Group(_) | Self::Namespace(_) | Self::Default => {
                "the annotation scheduling.volcano.sh/queue-name"
            }
        }
    }
}

impl fmt::Display for QueueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => write!(f, "annotation {QUEUE_NAME}"),
            Self::Spec => f.write_str("spec.queue"),
            Self::Template => write!(f, "annotation {QUEUE_NAME} of spec.template"),
            Self::Group(group) => write!(f, "spec.queue of PodGroup {group:?}"),
            Self::Namespace(namespace) => write!(f, "annotation {QUEUE_NAME} of namespace {namespace:?}"),
            Self::Default => f.write_str("default queue (no queue is named by the pod, its PodGroup or its namespace)"),
        }
    }
}
