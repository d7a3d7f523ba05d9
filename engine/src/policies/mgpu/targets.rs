//! Which sets of cards a combination may use, best score first.
//!
//! Whatever combination is chosen, the containers add the same weight to the cards. So its score depends on nothing but the
//! set of cards that it uses: what was in use of them before, and how many they are. Cards of equal use are of one class,
//! and a set is as many cards of each class.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use crds::configuration::CardStrategy;

use super::demand::{Demand, Room};
use crate::steps::Steps;

/// Cards of equal use that could take at least one of the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// How many there are, beyond those that must stay for full cards.
    pub count: usize,
    /// The weight of what is in use of each.
    pub weight: u128,
    /// What is free of each.
    pub room: Room,
}

/// A set of cards: how many of each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub counts: Vec<u16>,
    pub sum: u128,
    pub cards: usize,
    strategy: CardStrategy,
}

impl Target {
    /// Whether the cards together could have room for all that is asked.
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
    /// The better score is the greater target.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = (self.sum * other.cards as u128).cmp(&(other.sum * self.cards as u128));
        let by_score = match self.strategy {
            CardStrategy::Binpack => by_score,
            CardStrategy::Spread => by_score.reverse(),
        };
        by_score.then_with(|| self.counts.cmp(&other.counts))
    }
}

/// Sets of cards, best first, found as they are asked for: there may be many, and the first few mostly do.
pub(super) struct Targets<'a> {
    classes: &'a [Class],
    steps: &'a Steps,
    waiting: BinaryHeap<Target>,
    seen: HashSet<Vec<u16>>,
}

impl<'a> Targets<'a> {
    /// All sets that could have room. `classes` are best first; `sum` is the weight that all containers add, those with full
    /// cards included, and `full_cards` the number of cards that these take.
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

    /// The next sets of cards, all with the same score; none when there are no more, or when the steps are spent: then not all
    /// sets with that score may be known.
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
        // One card after the other gives way to one of the next class: no such set is better, and all are reached.
        for index in 1..self.classes.len() {
            let (from, to) = (index - 1, index);
            if best.counts[from] == 0 || usize::from(best.counts[to]) == self.classes[to].count {
                continue;
            }
            // It is copied twice, hashed, and compared with others.
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
