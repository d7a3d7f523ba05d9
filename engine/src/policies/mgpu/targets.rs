//! Which sets of cards a combination may use, best score first.
//!
//! Every combination adds the same weight to the cards. So its score depends only on the set of cards that it uses: on what was in use on
//! them before, and on how many they are. Cards of equal use form a class, and a set is described by the number of cards of each class.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use crds::configuration::CardStrategy;

use super::demand::{Demand, Room};
use crate::steps::Steps;

/// Cards of equal use that could take at least one of the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// How many such cards there are, beyond the cards that must stay free for full cards.
    pub count: usize,
    /// The weight of what is in use on each card.
    pub weight: u128,
    /// What is free on each card.
    pub room: Room,
}

/// A set of cards: the number of cards of each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub counts: Vec<u16>,
    pub sum: u128,
    pub cards: usize,
    strategy: CardStrategy,
}

impl Target {
    /// Whether the cards together could have room for all that is asked for.
    pub(crate) fn could_meet(&self, classes: &[Class], demand: &Demand) -> bool {
        let cards = classes.iter().zip(&self.counts);
        demand.could_be_met(&cards.map(|(class, count)| (class.room, usize::from(*count))))
    }
}

impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Target {
    /// The target with the better score is the greater one.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = (self.sum * other.cards as u128).cmp(&(other.sum * self.cards as u128));
        let by_score = match self.strategy {
            CardStrategy::Binpack => by_score,
            CardStrategy::Spread => by_score.reverse(),
        };
        by_score.then_with(|| self.counts.cmp(&other.counts))
    }
}

/// Sets of cards, best first, produced on demand: there may be many, and the first few usually suffice.
pub(super) struct Targets<'a> {
    classes: &'a [Class],
    steps: &'a Steps,
    waiting: BinaryHeap<Target>,
    seen: HashSet<Vec<u16>>,
}

impl<'a> Targets<'a> {
    /// Finds all sets that could have room. `classes` are best first. `sum` is the weight that all containers add, including containers with
    /// full cards, and `full_cards` is the number of cards that these take.
    pub fn new(
        classes: &'a [Class],
        demand: &Demand,
        (sum, full_cards): (u128, usize),
        strategy: CardStrategy,
        steps: &'a Steps,
    ) -> Self {
        let mut targets = Self {
            classes,
            steps,
            waiting: BinaryHeap::new(),
            seen: HashSet::new(),
        };
        let there: usize = classes.iter().map(|class| class.count).sum();
        let Some(fewest) = demand.fewest(&classes.iter().map(|class| (class.room, class.count))) else {
            return targets;
        };
        for size in fewest..=demand.cards.min(there) {
            steps.spend(classes.len());
            let mut left = size;
            let mut target = Target {
                counts: Vec::with_capacity(classes.len()),
                sum,
                cards: full_cards + size,
                strategy,
            };
            for class in classes {
                let count = class.count.min(left);
                left -= count;
                target.sum += class.weight * count as u128;
                target.counts.push(u16::try_from(count).unwrap_or(u16::MAX));
            }
            targets.waiting.push(target);
        }
        targets
    }

    /// Returns the next sets of cards, all with the same score. Returns none when there are no more. When the
    /// steps are spent, sets with that score may be missing, or the result may be none.
    pub(crate) fn next_best(&mut self) -> Option<Vec<Target>> {
        let best = self.next()?;
        let mut equal = vec![best];
        while let Some(next) = self.waiting.peek() {
            let best = &equal[0];
            let is_equal = next.sum * best.cards as u128 == best.sum * next.cards as u128;
            if !is_equal || self.steps.are_spent() {
                break;
            }
            equal.extend(self.next());
        }
        Some(equal)
    }

    fn next(&mut self) -> Option<Target> {
        let best = self.waiting.pop()?;
        self.steps.spend(8 * self.classes.len());
        // One card at a time is replaced by a card of the next class: no such set is better, and all sets are reached.
        for index in 1..self.classes.len() {
            let (from, to) = (index - 1, index);
            if best.counts[from] == 0 || usize::from(best.counts[to]) == self.classes[to].count {
                continue;
            }
            // The set is copied twice, hashed, and compared with others.
            self.steps.spend(12 * self.classes.len());
            let mut counts = best.counts.clone();
            counts[from] -= 1;
            counts[to] += 1;
            if self.seen.insert(counts.clone()) {
                self.waiting.push(Target {
                    counts,
                    sum: best.sum - self.classes[from].weight + self.classes[to].weight,
                    ..best
                });
            }
        }
        Some(best)
    }
}
