//! Allocate: finds the best combination of cards for the containers of a pod on one node.

use crds::configuration::{CardStrategy, Mgpu};
use crds::mgpu::{ContainerRequest, Share};

use super::by_rule::by_rule;
use super::demand::Demand;
use super::score::weight;
use super::search::AllocationSearch;
use super::targets::{Class, Targets};
use super::{Allocation, CardUse, Cards, Score, amounts};
use crate::steps::Steps;

/// What the cards of a node can give a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The best combination; among equally good ones, the one with the lexicographically smallest card lists. Where the steps were spent
    /// before the best was known, a combination that was put together by a simple rule.
    Cards(Allocation),
    /// The containers do not fit.
    NoRoom,
    /// The steps were spent before a combination was found; one may exist.
    TooComplex,
}

/// The steps of a search on one node that has them all for itself. That is many times what any realistic pod needs (`engine/benches/mgpu.rs`
/// has the worst case).
pub const STEPS: u64 = 2_000_000;

/// Returns the best combination that a search with [`STEPS`] steps finds; none where it finds none.
pub fn allocate(containers: &[ContainerRequest], cards: Cards<'_>, arguments: Mgpu) -> Option<Allocation> {
    match best(containers, cards, arguments, &Steps::new(STEPS)) {
        Answer::Cards(allocation) => Some(allocation),
        Answer::NoRoom | Answer::TooComplex => None,
    }
}

/// Returns the best combination of cards for containers.
///
/// Sets of cards are tried best first. For each set, a depth-first search looks for a combination that uses exactly these cards. The first
/// one found is the best.
pub fn best(containers: &[ContainerRequest], cards: Cards<'_>, arguments: Mgpu, steps: &Steps) -> Answer {
    let demand = Demand::of(containers);
    let idle = cards.used.iter().filter(|card| card.is_idle()).count();
    let Some(full_cards) = full_cards(containers).filter(|full| *full <= idle) else {
        return Answer::NoRoom;
    };
    if demand.widest > cards.used.len() {
        return Answer::NoRoom;
    }
    let (classes, class_of) = classify(containers, cards, full_cards, arguments);
    steps.spend(cards.used.len() * (containers.len() + classes.len()));
    let added = containers.iter().map(|container| {
        let (core, memory) = amounts(container.share, cards.memory);
        let used = CardUse {
            core,
            memory,
            containers: 1,
        };
        u128::from(container.cards) * weight(used, cards.memory, arguments.weight_of_core)
    });
    let mut targets = Targets::new(&classes, &demand, (added.sum(), full_cards), arguments.policy, steps);
    while let Some(mut equal) = targets.next_best() {
        equal.retain(|target| {
            steps.spend(2 * classes.len() * demand.bounds());
            target.could_meet(&classes, &demand)
        });
        if let Some(first) = equal.first() {
            let score = Score::new(first.sum, first.cards, cards.memory);
            let max = arguments.max_containers_per_card;
            let mut search = AllocationSearch::new(containers, cards, &class_of, &classes, equal, (max, steps));
            if let Some(cards) = search.run() {
                return Answer::Cards(Allocation { cards, score });
            }
        }
        if steps.are_spent() {
            let found = by_rule(containers, cards, arguments);
            return found.map_or(Answer::TooComplex, Answer::Cards);
        }
    }
    Answer::NoRoom
}

/// Returns how many cards whole-card containers take; none where the number overflows.
fn full_cards(containers: &[ContainerRequest]) -> Option<usize> {
    let full = containers.iter().filter(|container| container.share == Share::Full);
    full.map(|container| usize::try_from(container.cards).ok())
        .try_fold(0_usize, |sum, cards| sum.checked_add(cards?))
}

/// Returns the classes of cards that could take a part, best first, and the class of each card.
fn classify(
    containers: &[ContainerRequest],
    cards: Cards<'_>,
    full_cards: usize,
    arguments: Mgpu,
) -> (Vec<Class>, Vec<Option<u16>>) {
    let parts = || containers.iter().filter(|container| container.share != Share::Full);
    let takes = |used: &CardUse| {
        let max = arguments.max_containers_per_card;
        parts().any(|container| used.takes(container.share, cards.memory, max))
    };
    let mut uses: Vec<(u128, CardUse)> = Vec::with_capacity(cards.used.len());
    for used in cards.used {
        if !uses.iter().any(|(_, known)| known == used) && takes(used) {
            uses.push((weight(*used, cards.memory, arguments.weight_of_core), *used));
        }
    }
    uses.sort_unstable();
    if arguments.policy == CardStrategy::Binpack {
        uses.reverse();
    }
    let class = |(weight, used): &(u128, CardUse)| {
        let count = cards.used.iter().filter(|card| *card == used).count();
        Class {
            count: if used.is_idle() { count - full_cards } else { count },
            weight: *weight,
            room: used.room(cards.memory, arguments.max_containers_per_card),
        }
    };
    let classes = uses.iter().map(class).collect();
    let class_of = cards.used.iter().map(|used| {
        let place = uses.iter().position(|(_, known)| known == used);
        place.and_then(|place| u16::try_from(place).ok())
    });
    (classes, class_of.collect())
}
