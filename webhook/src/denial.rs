//! Why a request is refused, and what its author is told about it.
//!
//! Every message names the key, the value and the remedy. Values come from users, so they are quoted, and long values are
//! cut.

use std::collections::BTreeSet;
use std::fmt;

use crds::bounds::BoundError;
use crds::card::CardNameError;
use crds::card_counts::CardCountsError;
use crds::keys::{CARD_DESERVED, CARD_NAME, CARD_QUOTA, CARD_REQUEST, QUEUE_NAMESPACES, SCORING_STRATEGY};
use crds::mgpu::MgpuError;
use crds::pod_bounds::PodBoundError;
use crds::pod_request::PodRequestError;
use crds::queue_access::QueueAccessError;
use crds::queue_terms::{Item, QueueProblem};
use crds::scoring_strategy::ScoringStrategyError;
use crds::volcano::ResourceQuantityError;
use thiserror::Error;

use crate::queue_source::QueueSource;

/// An amount above its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Excess {
    /// What is counted.
    item: String,
    /// The amount, as users write it.
    amount: String,
    /// The limit, as users write it.
    limit: String,
    /// By how much the amount is above the limit.
    by: i128,
}

impl Excess {
    /// An `amount` of an item that is above the `limit`.
    pub fn new(item: &Item, amount: impl Into<i128>, limit: impl Into<i128>) -> Box<Self> {
        let (amount, limit) = (amount.into(), limit.into());
        Box::new(Self {
            item: item.to_string(),
            amount: item.format(amount),
            limit: item.format(limit),
            by: amount.saturating_sub(limit),
        })
    }

    fn is_no_more_than(&self, other: &Self) -> bool {
        self.item == other.item && self.by <= other.by
    }
}

/// Why a request is refused, in words for the user who sent it.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "each message says what it is about")]
pub enum Denial {
    /// `volcano.sh/card.name` holds no valid card name.
    #[error("annotation {CARD_NAME}: {0}")]
    CardName(#[from] CardNameError),
    #[error(
        "annotation {CARD_NAME}: {card_name:?} mixes cards of different resources ({}), but what a pod requests can't change \
         with the card that it gets: name only cards of one resource",
        Listed(cards)
    )]
    CardResourcesDiffer {
        card_name: String,
        cards: Vec<(String, String)>,
    },
    #[error(
        "annotation {CARD_NAME}: {card_name:?} stands for the resource {resource}, which no container requests: add {resource} \
         with the number of cards to a container's resources.limits, or remove the annotation"
    )]
    CardNotRequested { card_name: String, resource: String },
    #[error(
        "the pod requests {resource} without saying of which card, and this cluster requires it (unnamedCards: deny): add the \
         annotation {CARD_NAME} with a card of that resource, see kubectl get cardtypes"
    )]
    CardNameMissing { resource: String },
    #[error(
        "annotation {CARD_NAME}: {card_name:?} covers only one resource, so nobody would be charged for the pod's {resource}: \
         request cards of one resource in each pod"
    )]
    SecondCardResource {
        card_name: String,
        /// A requested card resource that the card name does not stand for.
        resource: String,
    },
    #[error(
        "the pod requests cards by {}, and can be charged for those of one resource only: request cards of one resource in each \
         pod",
        .resources.join(" and ")
    )]
    SeveralCardResources { resources: Vec<String> },
    /// The pod's claims ask for other cards than the pod names.
    #[error(
        "annotation {CARD_NAME}: {card_name:?} names none of the cards that the pod's claims ask for ({}: {}): name one of these, \
         select those that are named, or remove the annotation, since the selectors of a claim say which card it is for",
        .claims.join(", "), few(.cards)
    )]
    ClaimsOtherCards {
        card_name: String,
        claims: Vec<String>,
        cards: BTreeSet<String>,
    },
    /// The pod exceeds a bound on what pods may contain.
    #[error("{0}")]
    Bound(#[from] PodBoundError),
    /// A quantity that can't be counted.
    #[error("{0}")]
    Request(#[from] PodRequestError),
    /// An mGPU request that breaks a rule (mGPU, **Webhook Admission**).
    #[error("mGPU: {0}")]
    Mgpu(#[from] MgpuError),
    #[error(
        "spec.nodeName: {node:?} passes by the scheduler and the queue's quota: leave it empty, and choose nodes by \
         spec.nodeSelector or node affinity"
    )]
    NodeNamed { node: String },
    /// An unknown scoring strategy.
    #[error("annotation {SCORING_STRATEGY}: {0}")]
    ScoringStrategy(#[from] ScoringStrategyError),
    #[error(
        "{named_by}: {queue:?} can't be the name of a queue: write lower case letters, digits, - and . only, 253 at most, see \
         kubectl get queues"
    )]
    QueueName { named_by: QueueSource, queue: String },
    #[error(
        "{named_by}: queue {queue:?} takes pods only from namespaces with the labels {selector:?} (its annotation \
         {QUEUE_NAMESPACES}), and namespace {namespace:?} has not: choose another queue by {}, or ask an administrator to let \
         the namespace in",
        named_by.elsewhere()
    )]
    QueueAccess {
        named_by: QueueSource,
        queue: String,
        selector: String,
        namespace: String,
    },
    #[error(
        "{named_by}: queue {queue:?} takes no pods, since its annotation {QUEUE_NAMESPACES} can't be read ({error}): ask an \
         administrator to mend or remove it"
    )]
    QueueAccessUnreadable {
        named_by: QueueSource,
        queue: String,
        error: QueueAccessError,
    },
    /// A Queue with a part that can't be read.
    #[error(transparent)]
    Queue(#[from] QueueProblem),
    #[error("{place}: {} {} is more than {limit} says ({}): lower it, or raise that", .excess.amount, .excess.item, .excess.limit)]
    AboveCapability {
        /// Where the queue names the amount.
        place: Box<str>,
        /// Where the queue names its limit.
        limit: Box<str>,
        excess: Box<Excess>,
    },
    #[error(
        "spec.parent: queue {root:?} is the root of all queues (rootQueue), and can't be part of {parent:?}: remove it"
    )]
    RootParent { root: String, parent: String },
    #[error("spec.parent: queue {parent:?} does not exist: create it first, or name another, see kubectl get queues")]
    ParentMissing { parent: String },
    #[error("spec.parent: the queue would be part of itself ({path}): name a queue that is not below it")]
    ParentCycle {
        /// The path from the queue back to itself.
        path: String,
    },
    #[error(
        "spec.parent: queue {parent:?} has pods that were let in (see its CardUsage), and a queue with queues below it takes none: let \
         them end, or name another parent"
    )]
    ParentHasPods { parent: String },
    #[error(
        "{place}: queue {child:?} may have {} {}, more than the {} of {relation} {parent:?}: lower it, or raise that",
        .excess.amount, .excess.item, .excess.limit
    )]
    ChildAboveParent {
        place: Box<str>,
        child: Box<str>,
        /// How the two queues are related.
        relation: &'static str,
        parent: Box<str>,
        excess: Box<Excess>,
    },
    #[error(
        "{place}: the queues below {parent:?} are guaranteed {} {} in all, and {parent:?} only {}: lower theirs, or raise the \
         parent's",
        .excess.amount, .excess.item, .excess.limit
    )]
    GuaranteesAboveParent {
        place: Box<str>,
        parent: String,
        excess: Box<Excess>,
    },
    #[error(
        "{place}: the queues below {parent:?} may have {} {} in all, and {parent:?} only {}, which this cluster forbids \
         (strictHierarchy): lower theirs, or raise the parent's",
        .excess.amount, .excess.item, .excess.limit
    )]
    CapabilitiesAboveParent {
        place: Box<str>,
        parent: String,
        excess: Box<Excess>,
    },
    #[error(
        "queue {queue:?} is the default queue (defaultQueue), which pods without a queue go to: name another one first"
    )]
    DefaultQueue { queue: String },
    #[error("queue {queue:?} is the root of all queues (rootQueue): remove those first that name it as spec.parent")]
    RootQueue { queue: String },
    #[error(
        "queue {queue:?} has queues below it ({count}, {child:?} among them): remove them first, or name them another parent"
    )]
    QueueHasChildren { queue: String, child: String, count: usize },
    #[error(
        "queue {queue:?} has pods that were let in (see its CardUsage): let them end first, and close the queue (status.state: Closed) to \
         have no others let in meanwhile"
    )]
    QueueHasPods { queue: String },
    #[error(
        "the operator has not shown yet whether queue {queue:?} has pods (its CardUsage is missing or empty): try again in a moment, and see \
         that an operator leads"
    )]
    UsageNotShown { queue: String },
    #[error(
        "the Binding carries {keys}, which would replace what the pod is charged by, and {user:?} is none of the schedulers that \
         may send a pod's own annotations back: leave them out, or have an administrator add the scheduler to `schedulers` in \
         cardgate.yaml"
    )]
    BindingKeys { keys: String, user: String },
    /// A workload with a card request that can't be read.
    #[error("annotation {CARD_REQUEST}: {0}")]
    CardRequest(#[source] CardCountsError),
    /// A group whose `minResources` can't be read.
    #[error("spec.minResources: {0}")]
    MinResources(#[source] ResourceQuantityError),
    /// A group with too many tasks.
    #[error("spec.minTaskMember: {0}")]
    MinTaskMember(#[source] BoundError),
    /// A Job with too many tasks.
    #[error("spec.tasks: {0}")]
    Tasks(#[source] BoundError),
    /// A Job whose pods name none of the cards in its request.
    #[error(
        "annotation {CARD_REQUEST}: {request} asks for none of the cards that the Job's pods name ({card_name:?} in spec.template), so \
         it would be let in for cards that they don't use: name the same cards in both"
    )]
    RequestOfOtherCards { request: String, card_name: String },
    /// A Job with a pod that asks for more than the Job does.
    #[error(
        "annotation {CARD_REQUEST}: {request} is {asked} of the cards that a single pod of the Job requests {needed} of ({resource} \
         in spec.template): ask for at least what one pod does"
    )]
    RequestBelowPod {
        request: String,
        asked: i64,
        needed: i64,
        resource: String,
    },
    /// A refusal of pods that a workload would create.
    #[error("{place}: {denial}")]
    Template { place: String, denial: Box<Denial> },
    #[error("the {kind} can't be read ({error}): see kubectl explain {kind}")]
    Object { kind: String, error: String },
    #[error(
        "{path} does not judge {kind} (API version {api_version:?}): remove it from the rules of Cardgate's webhook configuration"
    )]
    Kind {
        /// The URL path of the request.
        path: &'static str,
        kind: String,
        api_version: String,
    },
}

impl Denial {
    /// The reason as one word, for metrics, logs and programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::CardName(_) => "CardNameInvalid",
            Self::CardResourcesDiffer { .. } => "CardResourcesDiffer",
            Self::CardNotRequested { .. } => "CardNotRequested",
            Self::CardNameMissing { .. } => "CardNameMissing",
            Self::SecondCardResource { .. } | Self::SeveralCardResources { .. } => "SecondCardResource",
            Self::ClaimsOtherCards { .. } => "ClaimsOtherCards",
            Self::Bound(_) => "PodBoundExceeded",
            Self::Request(_) => "RequestInvalid",
            Self::Mgpu(_) => "MgpuRequestInvalid",
            Self::NodeNamed { .. } => "NodeNamed",
            Self::ScoringStrategy(_) => "ScoringStrategyUnknown",
            Self::QueueName { .. } => "QueueNameInvalid",
            Self::QueueAccess { .. } => "QueueAccessDenied",
            Self::QueueAccessUnreadable { .. } => "QueueAccessUnreadable",
            Self::Queue(QueueProblem::Namespaces(_)) => "NamespacesInvalid",
            Self::Queue(QueueProblem::Cards { annotation, .. }) => match *annotation {
                CARD_QUOTA => "CardQuotaInvalid",
                CARD_DESERVED => "CardDeservedInvalid",
                _ => "CardGuaranteeInvalid",
            },
            Self::Queue(QueueProblem::Resources { field, .. }) => match *field {
                "spec.capability" => "CapabilityInvalid",
                "spec.deserved" => "DeservedInvalid",
                _ => "GuaranteeInvalid",
            },
            Self::AboveCapability { .. } => "AboveCapability",
            Self::RootParent { .. } => "RootParent",
            Self::ParentMissing { .. } => "ParentMissing",
            Self::ParentCycle { .. } => "ParentCycle",
            Self::ParentHasPods { .. } => "ParentHasPods",
            Self::ChildAboveParent { .. } => "ChildAboveParent",
            Self::GuaranteesAboveParent { .. } => "GuaranteesAboveParent",
            Self::CapabilitiesAboveParent { .. } => "CapabilitiesAboveParent",
            Self::DefaultQueue { .. } => "DefaultQueue",
            Self::RootQueue { .. } => "RootQueue",
            Self::QueueHasChildren { .. } => "QueueHasChildren",
            Self::QueueHasPods { .. } => "QueueHasPods",
            Self::UsageNotShown { .. } => "UsageNotShown",
            Self::BindingKeys { .. } => "BindingKeys",
            Self::CardRequest(_) => "CardRequestInvalid",
            Self::MinResources(_) => "MinResourcesInvalid",
            Self::MinTaskMember(_) => "MinTaskMemberInvalid",
            Self::Tasks(_) => "TasksExceeded",
            Self::RequestOfOtherCards { .. } | Self::RequestBelowPod { .. } => "CardRequestUnfit",
            Self::Template { denial, .. } => denial.reason(),
            Self::Object { .. } => "ObjectInvalid",
            Self::Kind { .. } => "KindUnknown",
        }
    }

    /// Whether the object had the same fault before, to the same or a greater degree. An update that keeps such a fault did
    /// not cause it, and may be on the way to mend it.
    pub fn is_no_worse_than(&self, before: &Self) -> bool {
        match (self, before) {
            (
                Self::AboveCapability { place, excess, .. },
                Self::AboveCapability {
                    place: same_place,
                    excess: more,
                    ..
                },
            ) => place == same_place && excess.is_no_more_than(more),
            (
                Self::ChildAboveParent {
                    child, parent, excess, ..
                },
                Self::ChildAboveParent {
                    child: same_child,
                    parent: same_parent,
                    excess: more,
                    ..
                },
            ) => (child, parent) == (same_child, same_parent) && excess.is_no_more_than(more),
            (
                Self::GuaranteesAboveParent { parent, excess, .. },
                Self::GuaranteesAboveParent {
                    parent: same_parent,
                    excess: more,
                    ..
                },
            )
            | (
                Self::CapabilitiesAboveParent { parent, excess, .. },
                Self::CapabilitiesAboveParent {
                    parent: same_parent,
                    excess: more,
                    ..
                },
            ) => parent == same_parent && excess.is_no_more_than(more),
            _ => self == before,
        }
    }

    /// Returns what Kubernetes' clients are told: HTTP status code and `status.reason`. kubectl shows a forbidden request in
    /// its own words, with the file and the webhook, but an invalid one without them. So every refusal is a 403, whatever
    /// its reason. Only a call that should not have come has another status.
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Self::Kind { .. } => (400, "BadRequest"),
            _ => (403, "Forbidden"),
        }
    }
}

/// Joins the first few of the texts; "..." stands for the rest.
pub(crate) fn few<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    const FEW: usize = 8;
    let mut few = String::new();
    for (index, text) in texts.into_iter().take(FEW + 1).enumerate() {
        if index > 0 {
            few.push_str(", ");
        }
        few.push_str(if index < FEW { text.as_ref() } else { "..." });
    }
    few
}

/// `NVIDIA-A100 is nvidia.com/gpu, ...`
struct Listed<'c>(&'c [(String, String)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (card, resource)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{card} is {resource}")?;
        }
        Ok(())
    }
}
