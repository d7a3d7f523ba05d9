//! What a user is told about a request that is let through.
//!
//! kubectl prints warnings; the API server shortens those beyond 256 characters, so these are short.

use crds::keys::{CARD_NAME, CARD_REQUEST, MGPU_CONTAINER_CARDS, MGPU_POLICY, QUEUE_LABEL, QUEUE_NAME};
use crds::mgpu::ComputePolicy;
use thiserror::Error;

use crate::denial::Denial;
use crate::knowledge::QueueCondition;

/// What somebody should know whose request is let through, in words for them.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Warning {
    #[error(
        "annotation {CARD_NAME}: no node has the card {card:?} at the moment; the pod waits until one has, see kubectl get \
         cardtypes"
    )]
    CardUnknown { card: String },
    #[error(
        "annotation {CARD_NAME}: no node has the card {card:?} at the moment; the pod gets one of the others, see kubectl get \
         cardtypes"
    )]
    AlternativeUnknown { card: String },
    #[error(
        "annotation {CARD_NAME}: no container requests a card, so the pod will wait: add the card's resource to resources.limits"
    )]
    NoCardRequested,
    #[error("the pod's {resource} counts against no quota: say by the annotation {CARD_NAME} which card it is")]
    NotMetered { resource: String },
    #[error(
        "nobody is charged for the pod's {resource}, since nothing names its queue: name it by the annotation {QUEUE_NAME} on \
         the pod or its namespace"
    )]
    Unaccounted { resource: String },
    #[error("the pod's {resource} counts against no quota: its {CARD_NAME} stands for another resource")]
    SecondCardResource { resource: String },
    #[error("annotation {MGPU_CONTAINER_CARDS} has no effect: no container requests mGPU")]
    MgpuNotRequested,
    #[error(
        "annotation {MGPU_POLICY}: a container shares several cards under {} alone, and the pod's policy is {policy}: no node \
         will take it",
        ComputePolicy::NativeBurstShare
    )]
    MgpuPolicyUnfit { policy: ComputePolicy },
    #[error("queue {queue:?} does not exist: the pod waits until it is created")]
    QueueMissing { queue: String },
    #[error("queue {queue:?} {}: the pod waits until that changes", describe(condition))]
    QueueNotOpen { queue: String, condition: QueueCondition },
    #[error("the Job stays suspended until its queue has room for all that {CARD_REQUEST} asks for")]
    JobHeld,
    #[error("PodGroup {group:?} does not exist in this namespace: the pod's queue is {queue:?}, and stays so")]
    GroupMissing {
        group: String,
        /// The queue that the pod got instead of the group's.
        queue: String,
    },
    #[error("the name of queue {queue:?} is too long for the label {QUEUE_LABEL}, which the pod goes without")]
    QueueNameTooLong { queue: String },
    #[error("annotation {key} was removed: only Cardgate writes it, when it admits the pod")]
    ResultDropped { key: String },
    #[error("spec.schedulerName: {from:?} was replaced by {to:?}, since this cluster has no scheduler of that name")]
    SchedulerReplaced { from: String, to: &'static str },
    /// A pod template that names cards and does not request them.
    #[error("{place}: {denial}")]
    Template { place: String, denial: Denial },
    #[error("annotation {annotation}: no node has the card {card:?} at the moment, see kubectl get cardtypes")]
    QuotaCardUnknown { annotation: &'static str, card: String },
    #[error(
        "spec.guarantee: {guarantee} {item} is more than spec.deserved says ({deserved}): the queue deserves its guarantee"
    )]
    GuaranteeAboveDeserved {
        item: String,
        guarantee: String,
        deserved: String,
    },
    #[error(
        "spec.capability: the queues below {parent:?} may have {sum} {item} in all, and {parent:?} only {limit}: not all can \
         have all of it at once"
    )]
    CapabilitiesAboveParent {
        parent: String,
        item: String,
        sum: String,
        limit: String,
    },
    #[error("not changed by this update, and wrong: {0}")]
    Unchanged(Denial),
}

fn describe(condition: &QueueCondition) -> String {
    match condition {
        QueueCondition::Open => format!("is open (annotation {QUEUE_NAME})"),
        QueueCondition::NotOpen(state) => format!("is not open (its state is {state:?})"),
        QueueCondition::Unreadable(error) => format!("can't be read ({error})"),
    }
}
