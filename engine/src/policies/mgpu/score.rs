//! Scores as exact fractions.

use std::cmp::Ordering;

use crds::mgpu::CARD_CORE;

use super::CardUse;

/// How full the cards of a combination are afterwards, from 0 to 1: the mean over these cards of
/// `weightOfCore * core + (1 - weightOfCore) * memory`, each as a fraction of what the card has.
#[derive(Debug, Clone, Copy)]
pub struct Score {
    /// The sum of the cards' weights.
    pub(super) sum: u128,
    /// The number of cards, times the weight of a full card.
    pub(super) of: u128,
}

impl Score {
    /// Returns the score of cards with this total weight, each with this much memory.
    pub(super) fn new(sum: u128, cards: usize, memory: i64) -> Self {
        let full_card = 100 * CARD_CORE.unsigned_abs() * memory.max(1).unsigned_abs();
        Self {
            sum,
            of: cards as u128 * u128::from(full_card),
        }
    }

    /// Returns the score in percent, rounded down, for users.
    pub fn percent(self) -> u128 {
        self.sum * 100 / self.of.max(1)
    }
}

/// Returns the weight of what is in use on a card: `of` times the card's score, so that no fraction is lost.
pub(super) fn weight(used: CardUse, memory: i64, weight_of_core: u8) -> u128 {
    let (core_weight, memory_weight) = (u128::from(weight_of_core), 100 - u128::from(weight_of_core));
    let amount = |amount: i64| u128::from(amount.max(0).unsigned_abs());
    core_weight * amount(used.core) * amount(memory.max(1)) + memory_weight * amount(used.memory) * amount(CARD_CORE)
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.sum * other.of).cmp(&(other.sum * self.of))
    }
}
