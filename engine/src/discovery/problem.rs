//! What discovery reports about a node: why a card is not published, or what does not agree.

use crds::keys::{MGPU_CORE, MGPU_DEVICE_IDS, MGPU_POLICY, MGPU_SCHEDULE};
use crds::mgpu::{CARD_CORE, ComputePolicyError};
use thiserror::Error;

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Cards that the node seems to have are not published.
    Unpublished,
    /// The cards are published as the node allocates them, but the node's labels, or other nodes, say something else.
    Note,
}

/// One problem; the message says which label or resource it is about and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
#[expect(missing_docs, reason = "a field is what its message shows in its place")]
pub enum Problem {
    #[error(
        "label {label}={product}, but the node allocates no {resource}: \
         the device plugin has not registered, check that it runs on the node"
    )]
    MissingResource {
        label: String,
        product: String,
        resource: String,
    },
    #[error(
        "label {label}={product}, but the node allocates 0 {resource}: no card is healthy, check the device plugin's log"
    )]
    NoneAllocatable {
        label: String,
        product: String,
        resource: String,
    },
    #[error(
        "label {label}={product} could be counted by any of {resources}: \
         none is taken, name one of them exactly as the label without .product"
    )]
    AmbiguousResource {
        label: String,
        product: String,
        resources: String,
    },
    #[error(
        "label {label}={product} could be counted by {resource} alone, which counts {owner}: remove one of the labels"
    )]
    ResourceTaken {
        label: String,
        product: String,
        resource: String,
        /// The product label whose cards the resource counts.
        owner: String,
    },
    #[error(
        "label {label} names {resource} {card:?}, as {published} is named on this node: give the two products different names"
    )]
    RepeatedCard {
        label: String,
        card: String,
        /// The resource that is not published.
        resource: String,
        /// The resource that has the name already.
        published: String,
    },
    #[error(
        "{card} is counted by {resource} here and by {other_resource} on node {other_node}: one card name stands for one \
         resource, and the first node by name that is sure of it decides; give the two products different names"
    )]
    ConflictingResource {
        card: String,
        resource: String,
        other_resource: String,
        other_node: String,
        /// Whether this node decides, and not the other one.
        decides: bool,
    },
    #[error(
        "label {label}={product}, but label {missing} is missing: set it, or check that feature discovery runs on the node"
    )]
    MissingLabel {
        label: String,
        product: String,
        missing: String,
    },
    #[error(
        "label {label}={value} must be a positive integer, since it is part of the name of the cards that {resource} counts"
    )]
    InvalidLabel {
        label: String,
        value: String,
        resource: String,
    },
    #[error("label {label} is empty: set it to the name of the product")]
    EmptyProduct { label: String },
    #[error(
        "the node allocates {amount} {resource}, but has no label {label}: set it, with .count and .memory beside it, or \
         check that feature discovery runs on the node"
    )]
    UnlabelledResource {
        resource: String,
        amount: i64,
        label: String,
    },
    #[error("the node allocates {quantity:?} {resource}, which is not a count: check the device plugin")]
    UnreadableQuantity { resource: String, quantity: String },
    #[error(
        "label {}={}, but the node allocates {core} {MGPU_CORE}, less than the {CARD_CORE} of one card: check that the mGPU \
         device plugin runs on the node",
        MGPU_SCHEDULE.0, MGPU_SCHEDULE.1
    )]
    NoMgpuCards { core: i64 },
    #[error("label {MGPU_POLICY}: {}: no mGPU pod can match it", ComputePolicyError(policy.clone()))]
    UnknownComputePolicy { policy: String },
    #[error(
        "annotation {MGPU_DEVICE_IDS}: {ids:?} must name {cards} different device ids, one for each card, separated by commas"
    )]
    DeviceIds { ids: String, cards: i64 },
    #[error(
        "the node has {devices} {card} as devices that claims get, and allocates {allocatable} {resource} by a device plugin: if \
         these are the same cards they are handed out twice, end the device plugin there"
    )]
    CountedTwice {
        card: String,
        devices: i64,
        resource: String,
        allocatable: i64,
    },
    #[error("label {labels}, but the node allocates {allocatable} {resource}: {allocatable} are published")]
    CountMismatch {
        /// The labels that count, with their values.
        labels: String,
        resource: String,
        allocatable: i64,
    },
}

/// Defines for each problem, in one line, its reason in one word and its severity.
macro_rules! reasons {
    ($($problem:ident = $word:literal, $severity:ident;)+) => {
        impl Problem {
            /// All reasons with their severities, for documents.
            pub const REASONS: [(&'static str, Severity); [$($word),+].len()] = [$(($word, Severity::$severity)),+];

            /// Returns the reason, in one word, as conditions show it.
            pub fn reason(&self) -> &'static str {
                match self {
                    $(Self::$problem { .. } => $word,)+
                }
            }

            /// Returns how much the problem matters.
            pub(crate) fn severity(&self) -> Severity {
                match self {
                    // If this node's resource decides for all nodes, its cards are published.
                    Self::ConflictingResource { decides: true, .. } => Severity::Note,
                    $(Self::$problem { .. } => Severity::$severity,)+
                }
            }
        }
    };
}

reasons! {
    MissingResource = "MissingResource", Unpublished;
    NoneAllocatable = "NoneAllocatable", Unpublished;
    AmbiguousResource = "AmbiguousResource", Unpublished;
    ResourceTaken = "ResourceTaken", Unpublished;
    RepeatedCard = "RepeatedCard", Unpublished;
    ConflictingResource = "ConflictingResource", Unpublished;
    MissingLabel = "MissingLabel", Unpublished;
    InvalidLabel = "InvalidLabel", Unpublished;
    EmptyProduct = "EmptyProduct", Unpublished;
    UnlabelledResource = "UnlabelledResource", Unpublished;
    UnreadableQuantity = "UnreadableQuantity", Unpublished;
    NoMgpuCards = "NoMGPUCards", Unpublished;
    UnknownComputePolicy = "UnknownComputePolicy", Note;
    DeviceIds = "DeviceIdsIncomplete", Note;
    CountedTwice = "CountedTwice", Note;
    CountMismatch = "CountMismatch", Note;
}

impl Problem {
    /// Whether the problem is that a product lacks its device plugin. The product needs none where its devices are claimed.
    pub(crate) fn is_want_of_plugin_for(&self, card: &str) -> bool {
        match self {
            Self::MissingResource { product, .. } | Self::NoneAllocatable { product, .. } => product == card,
            _ => false,
        }
    }
}
