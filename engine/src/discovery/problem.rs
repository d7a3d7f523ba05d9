//! What discovery has to say about a node: why a card is not published, or what does not agree.

use crds::keys::{MGPU_CORE, MGPU_DEVICE_IDS, MGPU_POLICY, MGPU_SCHEDULE};
use crds::mgpu::{CARD_CORE, ComputePolicyError};
use thiserror::Error;

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Cards that the node seems to have are not published.
    Unpublished,
    /// The cards are published as the node allocates them, but its labels, or other nodes, say something else.
    Note,
}

/// One problem; the message says which label or resource it is about and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum Problem {
    /// A card is labelled, and no resource counts it.
    #[error(
        "label {label}={product}, but the node allocates no {resource}: \
         the device plugin has not registered, check that it runs on the node"
    )]
    MissingResource {
        /// The product label.
        label: String,
        /// Its value.
        product: String,
        /// The resource that is expected.
        resource: String,
    },
    /// A card is labelled, and the node allocates none of its resource.
    #[error(
        "label {label}={product}, but the node allocates 0 {resource}: no card is healthy, check the device plugin's log"
    )]
    NoneAllocatable {
        /// The product label.
        label: String,
        /// Its value.
        product: String,
        /// The resource.
        resource: String,
    },
    /// More than one resource could count the card.
    #[error(
        "label {label}={product} could be counted by any of {resources}: \
         none is taken, name one of them exactly as the label without .product"
    )]
    AmbiguousResource {
        /// The product label.
        label: String,
        /// Its value.
        product: String,
        /// The resources, by name.
        resources: String,
    },
    /// The resource that could count the card counts that of another label.
    #[error(
        "label {label}={product} could be counted by {resource} alone, which counts {owner}: remove one of the labels"
    )]
    ResourceTaken {
        /// The product label.
        label: String,
        /// Its value.
        product: String,
        /// The resource.
        resource: String,
        /// The product label whose cards the resource counts.
        owner: String,
    },
    /// A second resource under a name that the node already yields.
    #[error(
        "label {label} names {resource} {card:?}, as {published} is named on this node: give the two products different names"
    )]
    RepeatedCard {
        /// The product label.
        label: String,
        /// The card name.
        card: String,
        /// The resource that is not published.
        resource: String,
        /// The resource that has the name.
        published: String,
    },
    /// Another node maps the card name to another resource.
    #[error(
        "{card} is counted by {resource} here and by {other_resource} on node {other_node}: one card name stands for one \
         resource, and the first node by name decides; give the two products different names"
    )]
    ConflictingResource {
        /// The card name.
        card: String,
        /// The resource on this node.
        resource: String,
        /// The resource on the other node.
        other_resource: String,
        /// The other node.
        other_node: String,
        /// Whether this node decides, and not the other.
        decides: bool,
    },
    /// A label that the card needs is not there.
    #[error(
        "label {label}={product}, but label {missing} is missing: set it, or check that feature discovery runs on the node"
    )]
    MissingLabel {
        /// The product label.
        label: String,
        /// Its value.
        product: String,
        /// The missing label.
        missing: String,
    },
    /// A label that makes up the card's name is not a positive integer.
    #[error(
        "label {label}={value} must be a positive integer, since it is part of the name of the cards that {resource} counts"
    )]
    InvalidLabel {
        /// The label.
        label: String,
        /// Its value.
        value: String,
        /// The resource.
        resource: String,
    },
    /// The product label is empty.
    #[error("label {label} is empty: set it to the name of the product")]
    EmptyProduct {
        /// The product label.
        label: String,
    },
    /// Cards are counted, and no label names them.
    #[error(
        "the node allocates {amount} {resource}, but has no label {label}: set it, with .count and .memory beside it, or \
         check that feature discovery runs on the node"
    )]
    UnlabelledResource {
        /// The resource.
        resource: String,
        /// How many the node allocates.
        amount: i64,
        /// The label that is missing.
        label: String,
    },
    /// A quantity that is none, or is negative.
    #[error("the node allocates {quantity:?} {resource}, which is not a count: check the device plugin")]
    UnreadableQuantity {
        /// The resource.
        resource: String,
        /// The quantity, as written.
        quantity: String,
    },
    /// A node that shares its cards through mGPU has none.
    #[error(
        "label {}={}, but the node allocates {core} {MGPU_CORE}, less than the {CARD_CORE} of one card: check that the mGPU \
         device plugin runs on the node",
        MGPU_SCHEDULE.0, MGPU_SCHEDULE.1
    )]
    NoMgpuCards {
        /// The compute that the node allocates.
        core: i64,
    },
    /// A compute policy that is none.
    #[error("label {MGPU_POLICY}: {}: no mGPU pod can match it", ComputePolicyError(policy.clone()))]
    UnknownComputePolicy {
        /// The label's value.
        policy: String,
    },
    /// Device ids that do not name every card.
    #[error(
        "annotation {MGPU_DEVICE_IDS}: {ids:?} must name {cards} different device ids, one for each card, separated by commas"
    )]
    DeviceIds {
        /// The annotation.
        ids: String,
        /// How many cards the node has.
        cards: i64,
    },
    /// The labels count something else than the node allocates.
    #[error("label {labels}, but the node allocates {allocatable} {resource}: {allocatable} are published")]
    CountMismatch {
        /// The labels that count, with their values.
        labels: String,
        /// The resource.
        resource: String,
        /// How many the node allocates.
        allocatable: i64,
    },
}

impl Problem {
    /// The reason, in one word, as conditions show it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MissingResource { .. } => "MissingResource",
            Self::NoneAllocatable { .. } => "NoneAllocatable",
            Self::AmbiguousResource { .. } => "AmbiguousResource",
            Self::ResourceTaken { .. } => "ResourceTaken",
            Self::RepeatedCard { .. } => "RepeatedCard",
            Self::ConflictingResource { .. } => "ConflictingResource",
            Self::MissingLabel { .. } => "MissingLabel",
            Self::InvalidLabel { .. } => "InvalidLabel",
            Self::EmptyProduct { .. } => "EmptyProduct",
            Self::UnlabelledResource { .. } => "UnlabelledResource",
            Self::UnreadableQuantity { .. } => "UnreadableQuantity",
            Self::NoMgpuCards { .. } => "NoMGPUCards",
            Self::UnknownComputePolicy { .. } => "UnknownComputePolicy",
            Self::DeviceIds { .. } => "DeviceIdsIncomplete",
            Self::CountMismatch { .. } => "CountMismatch",
        }
    }

    /// How much it matters.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::CountMismatch { .. }
            | Self::UnknownComputePolicy { .. }
            | Self::DeviceIds { .. }
            | Self::ConflictingResource { decides: true, .. } => Severity::Note,
            _ => Severity::Unpublished,
        }
    }
}
