//! What can happen in a world. A step names what it is about, so that it means the same wherever others are left out.

use std::fmt;

use serde_json::Value;

use crate::objects::{Key, Resource};

/// Somebody does something, once.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// Somebody creates these objects, one after the other, as `kubectl apply -f` does.
    Create(&'static str, Vec<(&'static Resource, Value)>),
    /// Somebody changes an object by this merge patch.
    Change(&'static str, &'static Resource, Key, Value),
    /// Somebody deletes an object.
    Delete(&'static str, &'static Resource, Key),
    /// Whoever holds a pod back from its end lets it go.
    LetGo(Key),
    /// Somebody takes a gate of another controller off a pod.
    Open(Key, String),
    /// A controller looks at all that is its own.
    Control(Controller),
    /// The scheduler looks at a pod, and takes the so manyeth of the nodes that fit.
    Schedule(Key, usize),
    /// A node's kubelet starts a pod.
    Start(Key),
    /// A pod's containers end: with success, or not.
    End(Key, bool),
    /// A node's kubelet has stopped a pod that is deleted.
    Stop(Key),
    /// A node is drained: cordoned, and its pods evicted.
    Drain(String),
    /// A node is lost, and all that ran there.
    Die(String),
}

/// Whoever keeps objects as others say they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Controller {
    Deployments,
    ReplicaSets,
    Jobs,
    PodGroups,
    VolcanoJobs,
    Queues,
    DisruptionBudgets,
    /// Deletes what belongs to nobody that is there, and pods of nodes that are gone.
    Garbage,
    /// Taints nodes that are not ready, and deletes their pods.
    Nodes,
    /// Makes claims from templates, and takes back what is no longer used.
    Claims,
    /// Publish what nodes have of devices, slice by slice.
    Drivers,
}

/// All of them, in the order in which one gives the next something to do.
pub const CONTROLLERS: [Controller; 11] = [
    Controller::Nodes,
    Controller::Drivers,
    Controller::Deployments,
    Controller::ReplicaSets,
    Controller::Jobs,
    Controller::VolcanoJobs,
    Controller::PodGroups,
    Controller::Queues,
    Controller::DisruptionBudgets,
    Controller::Claims,
    Controller::Garbage,
];

impl Step {
    /// What kind of step it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Create(..) => "create",
            Self::Change(..) => "change",
            Self::Delete(..) => "delete",
            Self::LetGo(_) => "let go",
            Self::Open(..) => "open",
            Self::Control(_) => "control",
            Self::Schedule(..) => "schedule",
            Self::Start(_) => "start",
            Self::End(..) => "end",
            Self::Stop(_) => "stop",
            Self::Drain(_) => "drain",
            Self::Die(_) => "die",
        }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(who, objects) => {
                write!(f, "{who} creates")?;
                objects
                    .iter()
                    .try_for_each(|(resource, object)| write!(f, " {} {object}", resource.plural))
            }
            Self::Change(who, resource, key, patch) => write!(f, "{who} changes {} {key}: {patch}", resource.plural),
            Self::Delete(who, resource, key) => write!(f, "{who} deletes {} {key}", resource.plural),
            Self::LetGo(pod) => write!(f, "{pod} is let go"),
            Self::Open(pod, gate) => write!(f, "gate {gate} is taken off {pod}"),
            Self::Control(controller) => write!(f, "the controller of {controller:?} looks"),
            Self::Schedule(pod, 0) => write!(f, "the scheduler places {pod}"),
            Self::Schedule(pod, choice) => write!(f, "the scheduler places {pod}, choice {choice}"),
            Self::Start(pod) => write!(f, "the kubelet starts {pod}"),
            Self::End(pod, true) => write!(f, "{pod} succeeds"),
            Self::End(pod, false) => write!(f, "{pod} fails"),
            Self::Stop(pod) => write!(f, "the kubelet has stopped {pod}"),
            Self::Drain(node) => write!(f, "node {node} is drained"),
            Self::Die(node) => write!(f, "node {node} dies"),
        }
    }
}
