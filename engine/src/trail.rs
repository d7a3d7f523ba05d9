//! The trail of whoever decides: what is being worked on, piece by piece, for somebody who watches over it.

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
    /// Each once, for metrics that show them all.
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

    /// The kind, as Kubernetes writes it.
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
    /// What it is, by which [`Self::name`] is read.
    pub kind: ObjectKind,
    /// Its namespace; empty where it has none.
    pub namespace: Arc<str>,
    /// As in its metadata; alone it says which object it is where there is no namespace.
    pub name: Arc<str>,
    /// Its unique id; empty where it is known by its name.
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

/// One piece of work: so small that it should be over in a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// What is done, as in "judging".
    pub doing: &'static str,
    /// The object that it is done with.
    pub object: Object,
    /// The queue that it is about.
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

/// Is told what is begun, piece by piece. Whoever decides knows no clock; whoever listens does.
pub trait Trail {
    /// This is worked on from now on, and what was before is over.
    fn at(&self, work: Work);
    /// What was worked on is over, and nothing else of this kind begins.
    fn over(&self);
}

impl Trail for () {
    fn at(&self, _: Work) {}

    fn over(&self) {}
}
