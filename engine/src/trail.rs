//! The trail of a decision: what is being worked on, piece by piece, for a watchdog.

use std::fmt;
use std::sync::Arc;

use crate::refs::{PodRef, WorkloadKind, WorkloadRef};

/// What kind of object is being worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "Kubernetes' own names")]
pub enum ObjectKind {
    Pod,
    Node,
    Queue,
    PodGroup,
    Job,
    Namespace,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
}

impl ObjectKind {
    /// All kinds, each once, for metrics that show them all.
    pub const ALL: [Self; 10] = [
        Self::Pod,
        Self::Node,
        Self::Queue,
        Self::PodGroup,
        Self::Job,
        Self::Namespace,
        Self::ResourceSlice,
        Self::DeviceClass,
        Self::DeviceTaintRule,
        Self::ResourceClaim,
    ];

    /// Returns the kind as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Queue => "Queue",
            Self::PodGroup => "PodGroup",
            Self::Job => "Job",
            Self::Namespace => "Namespace",
            Self::ResourceSlice => "ResourceSlice",
            Self::DeviceClass => "DeviceClass",
            Self::DeviceTaintRule => "DeviceTaintRule",
            Self::ResourceClaim => "ResourceClaim",
        }
    }
}

/// An object that is being worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What kind of object it is; it tells how to read [`Self::name`].
    pub kind: ObjectKind,
    /// Its namespace; empty where it has none.
    pub namespace: Arc<str>,
    /// Its name, as in its metadata. Where there is no namespace, the name alone says which object it is.
    pub name: Arc<str>,
    /// Its unique id; empty where its name identifies it.
    pub uid: Arc<str>,
}

impl From<PodRef> for Object {
    fn from(pod: PodRef) -> Self {
        Self {
            kind: ObjectKind::Pod,
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
        }
    }
}

impl From<WorkloadRef> for Object {
    fn from(workload: WorkloadRef) -> Self {
        Self {
            kind: match workload.kind {
                WorkloadKind::PodGroup => ObjectKind::PodGroup,
                WorkloadKind::Job => ObjectKind::Job,
            },
            namespace: workload.namespace,
            name: workload.name,
            uid: workload.uid,
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind.as_str(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.as_str(), self.name),
        }
    }
}

/// One piece of work, so small that it should be over in a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// What is done, such as "judging".
    pub doing: &'static str,
    /// The object that is worked on.
    pub object: Object,
    /// The queue that the work is about.
    pub queue: Option<Arc<str>>,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.doing, self.object)?;
        match &self.queue {
            Some(queue) => write!(f, " of queue {queue}"),
            None => Ok(()),
        }
    }
}

/// Receives what is begun, piece by piece. The code that decides knows no clock; the receiver does.
pub trait Trail {
    /// Work on this begins now, and the work before it is over.
    fn at(&self, work: Work);
    /// The last piece of work is over, and no other of this kind begins.
    fn over(&self);
}

impl Trail for () {
    fn at(&self, _: Work) {}

    fn over(&self) {}
}
