//! References that say which pod or workload is meant, for code that acts on it or reports about it.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

/// One incarnation of a pod: a successor of the same name has another `uid`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields of its metadata")]
pub struct PodRef {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl PodRef {
    /// Returns the pod as events refer to it.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: Some(self.namespace.to_string()),
            name: Some(self.name.to_string()),
            uid: Some(self.uid.to_string()),
            ..ObjectReference::default()
        }
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What kind of object a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// Volcano's kind, which says how many of its pods start together.
    PodGroup,
    /// A `batch/v1` Job.
    Job,
}

impl WorkloadKind {
    /// The kind, as objects name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodGroup => "PodGroup",
            Self::Job => "Job",
        }
    }
}

/// One incarnation of a `PodGroup` or Job, as [`PodRef`] is of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "fields of its kind and metadata")]
pub struct WorkloadRef {
    pub kind: WorkloadKind,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

impl WorkloadRef {
    /// Returns the workload as events refer to it.
    pub fn reference(&self) -> ObjectReference {
        let api_version = match self.kind {
            WorkloadKind::PodGroup => "scheduling.volcano.sh/v1beta1",
            WorkloadKind::Job => "batch/v1",
        };
        ObjectReference {
            api_version: Some(api_version.into()),
            kind: Some(self.kind.as_str().into()),
            namespace: Some(self.namespace.to_string()),
            name: Some(self.name.to_string()),
            uid: Some(self.uid.to_string()),
            ..ObjectReference::default()
        }
    }
}

impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}
