//! What a user is told about a request that is let through.
//!
//! kubectl prints warnings. The API server shortens warnings of more than 256 characters, so these are short.

use std::collections::HashMap;
use std::fmt;

use crds::bounds::BoundError;
use crds::keys::{
    CARD_DESERVED, CARD_NAME, CARD_QUOTA, CARD_REQUEST, GATE, MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_MEMORY,
    MGPU_POLICY, QUEUE_LABEL, QUEUE_NAME,
};
use crds::mgpu::ComputePolicy;
use crds::spelling;
use thiserror::Error;

use crate::denial::Denial;
use crate::knowledge::{Knowledge, QueueCondition};

/// How many unknown cards of one object are compared with the known cards.
const MOST_COMPARED: usize = 8;

/// What the author of an admitted request should know, in words for that author.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "each message says what it is about")]
pub enum Warning {
    #[error(
        "annotation {CARD_NAME}: no node has the card {card:?} at the moment, and the pod can't be let in before one has{meant}, see \
         kubectl get cardtypes"
    )]
    CardUnknown { card: String, meant: Meant },
    #[error(
        "annotation {CARD_NAME}: no node has the card {card:?} at the moment; the pod gets one of the others{meant}, see \
         kubectl get cardtypes"
    )]
    AlternativeUnknown { card: String, meant: Meant },
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
    #[error(
        "{place}: DeviceClass {class:?} does not exist: the pod waits until it is created, see kubectl get deviceclasses"
    )]
    DeviceClassMissing { place: String, class: String },
    #[error("{place}: {why}")]
    SelectorNotEvaluated { place: String, why: String },
    #[error("{place}: {why}: the pod waits for one, see kubectl get cardtypes -o yaml")]
    NoDeviceSelected { place: String, why: String },
    #[error("annotation {MGPU_CONTAINER_CARDS} has no effect: no container requests mGPU")]
    MgpuNotRequested,
    #[error(
        "annotation {MGPU_POLICY}: a container shares several cards under {} alone, and the pod's policy is {policy}: no node \
         will take it",
        ComputePolicy::NativeBurstShare
    )]
    MgpuPolicyUnfit { policy: ComputePolicy },
    #[error("queue {queue:?} does not exist: what names it waits until it is created")]
    QueueMissing { queue: String },
    #[error("queue {queue:?} {}: what names it waits until that changes", describe(condition))]
    QueueNotOpen { queue: String, condition: QueueCondition },
    #[error("the Job stays suspended until its queue has room for all that {CARD_REQUEST} asks for")]
    JobHeld,
    #[error(
        "the Job asks for no cards in advance any more (annotation {CARD_REQUEST}): it is resumed, and its pods wait one by one"
    )]
    JobLetGo,
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
    #[error(
        "scheduling gate {GATE} was removed: Cardgate adds it to the pods that it holds, and this one is not subject to its quotas: leave it out"
    )]
    GateDropped,
    #[error("spec.schedulerName: {from:?} was replaced by {to:?}, since this cluster has no scheduler of that name")]
    SchedulerReplaced { from: String, to: &'static str },
    /// A pod template that names cards and does not request them.
    #[error("{place}: {denial}")]
    Template { place: String, denial: Denial },
    #[error("annotation {annotation}: no node has the card {card:?} at the moment{meant}, see kubectl get cardtypes")]
    QuotaCardUnknown {
        annotation: &'static str,
        card: String,
        meant: Meant,
    },
    #[error(
        "annotation {CARD_DESERVED}: {card:?} has no effect, since {CARD_QUOTA} names none of it, and what is not named is 0: name it \
         there too"
    )]
    DeservedWithoutQuota { card: String },
    #[error(
        "{place}: what is kept free of {item} can't be used unless other queues are parts of this one, since {limit} names none of it, and \
         what is not named is 0: name it there too"
    )]
    GuaranteeWithoutQuota {
        place: Box<str>,
        item: String,
        limit: Box<str>,
    },
    #[error("{place}: nobody reads the annotation {key:?}: did you mean {meant}?")]
    KeyMisspelt {
        place: String,
        key: String,
        meant: &'static str,
    },
    #[error("{place}: {key} is an annotation, and has no effect as a label")]
    KeyAmongLabels { place: String, key: &'static str },
    #[error("{place}: the annotation {key} has no effect there: {remedy}")]
    KeyMisplaced {
        place: String,
        key: &'static str,
        remedy: String,
    },
    #[error(
        "{place} requests {resource} and names no card: its pods get any that their queue has a quota for; say which by the \
         annotation {CARD_NAME}"
    )]
    NoCardNamed { place: String, resource: String },
    /// Volcano creates the pods of a Job only after its `PodGroup` was let in, and the `PodGroup`'s `minResources` name no
    /// claims.
    #[error(
        "{place} claims devices: if they are cards, say which by the annotation {CARD_REQUEST} on the Job; without it, it is limited in CPU and \
         memory until there are pods, in spite of cardUnlimitedCpuMemory, and may wait for ever"
    )]
    ClaimsUnannounced { place: String },
    #[error(
        "spec.capability names no {missing}: under capacity-card that is 0, and pods that request {missing} wait for ever; set \
         it"
    )]
    NoCapability { missing: &'static str },
    /// The documents refuse an `mgpu-memory` beside whole cards, so whole cards are never charged any `mgpu-memory`.
    #[error(
        "spec.capability limits {MGPU_MEMORY} and not {MGPU_CORE}: who takes whole cards ({MGPU_CORE} of 100) requests no memory, \
         and is not limited; set {MGPU_CORE} too"
    )]
    WholeCardsUnlimited,
    #[error("{place}: {guarantee} {item} is more than {limit} says ({deserved}): the queue deserves its guarantee")]
    GuaranteeAboveDeserved {
        place: Box<str>,
        limit: Box<str>,
        item: String,
        guarantee: String,
        deserved: String,
    },
    #[error(
        "{place}: the queues below {parent:?} may have {sum} {item} in all, and {parent:?} only {limit}: not all can \
         have all of it at once"
    )]
    CapabilitiesAboveParent {
        place: Box<str>,
        parent: String,
        item: String,
        sum: String,
        limit: String,
    },
    /// A Job with too many tasks; here it is not refused for that.
    #[error("spec.tasks: {0}")]
    Tasks(BoundError),
    #[error("not made worse by this update, and wrong: {0}")]
    Unchanged(Denial),
}

/// The card that an author may have meant by an unknown name. `None` where no card of the cluster is similar, or where the
/// card was not looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meant(Option<String>);

impl Meant {
    /// Fills in which cards may have been meant by names of cards that no node has. Does so for the first few such names of
    /// an object only, since each name is compared with all cards.
    pub fn fill_in(warnings: &mut [Warning], knowledge: &Knowledge) {
        let mut known = None;
        let mut found = HashMap::new();
        for (card, meant) in warnings.iter_mut().filter_map(Warning::unknown_card) {
            if let Some(before) = found.get(card) {
                *meant = Self::clone(before);
            } else if found.len() < MOST_COMPARED {
                let known = known.get_or_insert_with(|| knowledge.card_types.select(|name, _| Some(name.to_owned())));
                let nearest = spelling::meant_card(card, known.iter().map(String::as_str));
                *meant = Self(nearest.map(str::to_owned));
                found.insert(card.to_owned(), meant.clone());
            }
        }
    }
}

impl Warning {
    /// The card that the warning calls unknown, and what may have been meant.
    fn unknown_card(&mut self) -> Option<(&str, &mut Meant)> {
        match self {
            Self::CardUnknown { card, meant }
            | Self::AlternativeUnknown { card, meant }
            | Self::QuotaCardUnknown { card, meant, .. } => Some((card, meant)),
            _ => None,
        }
    }
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(card) => write!(f, " (did you mean {card:?}?)"),
            None => Ok(()),
        }
    }
}

fn describe(condition: &QueueCondition) -> String {
    match condition {
        QueueCondition::Open => format!("is open (annotation {QUEUE_NAME})"),
        QueueCondition::NotOpen(state) => format!("is not open (its state is {state:?})"),
        QueueCondition::Unreadable(error) => format!("can't be read ({error})"),
    }
}
