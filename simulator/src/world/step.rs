//! The steps that can happen in a world. A step names its objects, so it means the same wherever other steps are left out.

use std::fmt;

use serde_json::Value;

use crate::objects::{Key, Resource};

/// One action of one actor.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    /// A user creates these objects one after the other, as `kubectl apply -f` does.
    Create(&'static str, Vec<(&'static Resource, Value)>),
    /// A user changes an object by this merge patch.
    Change(&'static str, &'static Resource, Key, Value),
    /// A user deletes an object.
    Delete(&'static str, &'static Resource, Key),
    /// The owner of a finalizer releases a pod.
    LetGo(Key),
    /// The gate of another controller is taken off a pod.
    Open(Key, String),
    /// A controller looks at all objects of its own.
    Control(Controller),
    /// The scheduler looks at a pod. Of the nodes that fit, it takes the one with this index.
    Schedule(Key, usize),
    /// A node's kubelet starts a pod.
    Start(Key),
    /// A pod's containers end: with success, or not.
    End(Key, bool),
    /// A node's kubelet has stopped a pod that is deleted.
    Stop(Key),
    /// A node is drained: cordoned, and its pods evicted.
    Drain(String),
    /// A node is lost, with everything that ran there.
    Die(String),
}

/// Controllers, which keep objects as other objects say.
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
    /// Deletes objects whose owners are gone, and pods of nodes that are gone.
    Garbage,
    /// Taints nodes that are not ready, and deletes their pods.
    Nodes,
    /// Makes claims from templates, and takes back unused ones.
    Claims,
    /// Publish the devices of nodes, slice by slice.
    Drivers,
}

/// All controllers, in an order in which each gives the next something to do.
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
    /// Returns the kind of step.
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
