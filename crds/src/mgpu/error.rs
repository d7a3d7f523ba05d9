//! Why an mGPU request is refused. Every message names the container, the value and the rule.

use thiserror::Error;

use super::policy::ComputePolicyError;
use super::{CARD_CORE, MAX_CONTAINER_NAME, MIN_MEMORY};
use crate::bounds::BoundError;
use crate::keys::{MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_INDEX_PREFIX, MGPU_MEMORY, MGPU_POLICY};
use crate::quantity::QuantityError;

/// An mGPU request that is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum MgpuError {
    #[error(
        "init container {container:?} requests {resource}: only containers can have a share of a GPU, move it to one"
    )]
    InitContainer { container: String, resource: &'static str },
    /// A container whose result could not be written (mGPU, **Schedule Result**).
    #[error(
        "container {container:?} has a name of {length} characters, and its cards are written in the annotation \
         {MGPU_INDEX_PREFIX}NAME, of which NAME has {MAX_CONTAINER_NAME} at most: shorten it"
    )]
    ContainerName { container: String, length: usize },
    #[error("container {container:?} requests {resource}: {source}")]
    Quantity {
        container: String,
        resource: &'static str,
        source: QuantityError,
    },
    #[error("container {container:?} requests {quantity} of {resource}: write a whole number")]
    Fraction {
        container: String,
        resource: &'static str,
        quantity: String,
    },
    #[error("container {container:?} requests {quantity} of {MGPU_MEMORY}, which counts MiB: write {meant}")]
    MemoryInBytes {
        container: String,
        quantity: String,
        meant: i64,
    },
    #[error(
        "container {container:?} requests {request} of {resource} and is limited to {limit}: write the same in requests and limits"
    )]
    Disagree {
        container: String,
        resource: &'static str,
        request: i64,
        limit: i64,
    },
    /// **Normal MGPU Pod**, 1.
    #[error("container {container:?} requests {quantity} of {resource}: it must be more than 0, or left out")]
    NotPositive {
        container: String,
        resource: &'static str,
        quantity: String,
    },
    #[error(
        "container {container:?} requests {memory} of {MGPU_MEMORY} and no {MGPU_CORE}: request {MGPU_CORE} too, {CARD_CORE} a \
         card"
    )]
    CoreMissing { container: String, memory: i64 },
    /// **Normal MGPU Pod**, 2, and **Multiple MGPU Pod**, 4.1.
    #[error(
        "container {container:?} requests {} of {MGPU_MEMORY} with {core} of {MGPU_CORE} on {cards} {}: a part of a card needs \
         at least {MIN_MEMORY} MiB on every card",
        .memory.unwrap_or(0), if *cards == 1 { "card" } else { "cards" }
    )]
    MemoryTooSmall {
        container: String,
        core: i64,
        memory: Option<i64>,
        cards: u32,
    },
    /// **Normal MGPU Pod**, 3.
    #[error(
        "container {container:?} requests {core} of {MGPU_CORE}: more than {CARD_CORE} must be full cards, a multiple of \
         {CARD_CORE}; for parts of several cards add the annotation {MGPU_CONTAINER_CARDS}"
    )]
    NotFullCards { container: String, core: i64 },
    /// **Normal MGPU Pod**, 4, and **Multiple MGPU Pod**, 3.
    #[error(
        "container {container:?} requests {memory} of {MGPU_MEMORY} with {core} of {MGPU_CORE}: {full_cards} full {} memory, so \
         leave {MGPU_MEMORY} out",
        if *full_cards == 1 { "card comes with all of its" } else { "cards come with all of their" }
    )]
    RedundantMemory {
        container: String,
        core: i64,
        memory: i64,
        full_cards: i64,
    },
    /// **Multiple MGPU Pod**, 1.
    #[error(
        "annotation {MGPU_CONTAINER_CARDS}: {list:?} has {entries} {}, and the pod has {containers} {}: write one number of cards \
         for each container, in their order",
        if *entries == 1 { "entry" } else { "entries" }, if *containers == 1 { "container" } else { "containers" }
    )]
    ListLength {
        list: String,
        entries: usize,
        containers: usize,
    },
    /// **Multiple MGPU Pod**, 2.
    #[error(
        "annotation {MGPU_CONTAINER_CARDS}: {entry:?} in {list:?} is no number of cards: write numbers from 0 on, separated by \
         commas and nothing else, such as 2,1,3"
    )]
    Count { list: String, entry: String },
    /// **Multiple MGPU Pod**, 2: no cards for a container that asks for mGPU.
    #[error(
        "annotation {MGPU_CONTAINER_CARDS}: {list:?} gives container {container:?} 0 cards, but it requests mGPU: write at least 1"
    )]
    NoCards { list: String, container: String },
    /// **Multiple MGPU Pod**, 2: cards for a container that asks for no mGPU.
    #[error(
        "annotation {MGPU_CONTAINER_CARDS}: {list:?} gives container {container:?} {count} cards, but it requests no mGPU: write 0, \
         or request {MGPU_CORE}"
    )]
    CardsNotAsked {
        list: String,
        container: String,
        count: u32,
    },
    /// **Multiple MGPU Pod**, 4.2.
    #[error(
        "container {container:?} requests {amount} of {resource} on {cards} cards: it can't be divided by {cards}, and every card \
         must give the same whole number"
    )]
    NotDivisible {
        container: String,
        resource: &'static str,
        amount: i64,
        cards: u32,
    },
    /// **Multiple MGPU Pod**, 4.3.
    #[error(
        "container {container:?} requests {core} of {MGPU_CORE} on {cards} {}, {per_card} a card: a card has {CARD_CORE}",
        if *cards == 1 { "card" } else { "cards" }
    )]
    MoreThanACard {
        container: String,
        core: i64,
        cards: u32,
        per_card: i64,
    },
    /// More containers than are allowed.
    #[error("{0}")]
    Containers(BoundError),
    /// A list that is longer than is allowed.
    #[error("annotation {MGPU_CONTAINER_CARDS}: {0}")]
    List(BoundError),
    /// An unknown compute policy.
    #[error("annotation {MGPU_POLICY}: {0}")]
    Policy(#[from] ComputePolicyError),
}
