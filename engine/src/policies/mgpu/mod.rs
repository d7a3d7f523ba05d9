//! mGPU (**Plugin implementation details**): which cards of a node the containers of a pod get, and how well they fit there.
//!
//! This module is pure: the same request on the same cards gives the same allocation, in whatever order anything is listed.

mod allocate;
mod by_rule;
mod demand;
mod score;
mod search;
mod targets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crds::mgpu::{CARD_CORE, ContainerRequest, Share};

pub use allocate::{Answer, STEPS, allocate, best};
use demand::Room;
pub use score::Score;

/// The cards of each container that asks for mGPU, as the scheduling result names them; none for a container without a result.
pub type CardLists = Arc<[Option<Box<str>>]>;

/// The cards of each container, and how well they fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The card indexes of each container, ascending, in the order of the containers.
    pub cards: Vec<Box<[u16]>>,
    /// The score of the combination.
    pub score: Score,
}

/// What is in use on one card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardUse {
    /// Compute, of [`CARD_CORE`].
    pub core: i64,
    /// Memory in MiB.
    pub memory: i64,
    /// How many containers share the card.
    pub containers: u32,
}

impl CardUse {
    /// Whether nothing uses the card.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a container. `memory` is the memory of the whole card.
    pub fn add(&mut self, share: Share, memory: i64) {
        let (core, memory) = amounts(share, memory);
        self.core += core;
        self.memory += memory;
        self.containers += 1;
    }

    /// Whether a container fits beside the containers that are there (**End Condition**, 1: resource admission).
    pub fn takes(&self, share: Share, memory: i64, max_containers: u32) -> bool {
        match share {
            Share::Full => self.is_idle(),
            Share::Part { core, memory: asked } => {
                self.core + core <= CARD_CORE && self.memory + asked <= memory && self.containers < max_containers
            }
        }
    }

    /// Returns what is left for parts.
    fn room(&self, memory: i64, max_containers: u32) -> Room {
        Room {
            core: CARD_CORE - self.core,
            memory: memory - self.memory,
            containers: max_containers.saturating_sub(self.containers),
        }
    }
}

/// Returns what a share comes to on a card with this much memory: compute and memory.
pub(crate) fn amounts(share: Share, memory: i64) -> (i64, i64) {
    match share {
        Share::Full => (CARD_CORE, memory),
        Share::Part { core, memory } => (core, memory),
    }
}

/// The cards of a node.
#[derive(Debug, Clone, Copy)]
pub struct Cards<'a> {
    /// What is in use on each card, by index.
    pub used: &'a [CardUse],
    /// The memory of each card, in MiB.
    pub memory: i64,
}

/// First fit: returns the cards with the lowest indexes that take a container (docs/rules.md, **mGPU**: a bound pod that nobody placed).
/// Where too few cards do, the cards with the most room make up the number, since what runs there uses them, allowed or not.
pub fn first_fit(request: ContainerRequest, cards: Cards<'_>, max_containers: u32) -> Vec<u16> {
    let takes = |index: &usize| cards.used[*index].takes(request.share, cards.memory, max_containers);
    let wanted = usize::try_from(request.cards).unwrap_or(usize::MAX);
    let mut chosen: Vec<_> = (0..cards.used.len()).filter(takes).take(wanted).collect();
    let mut others: Vec<_> = (0..cards.used.len()).filter(|index| !chosen.contains(index)).collect();
    others.sort_by_key(|index| (cards.used[*index], *index));
    chosen.extend(others.into_iter().take(wanted - chosen.len()));
    chosen.sort_unstable();
    chosen.into_iter().map(card_index).collect()
}

/// Returns the index of a card. A node has at most [`MAX_CARDS`](crate::discovery::MAX_CARDS).
fn card_index(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}
