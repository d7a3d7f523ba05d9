//! The depth-first search: the tree has one layer for each container, in the pod's order (mGPU, **Allocate**).
//!
//! Card lists are tried in lexicographic order, so the first combination found is the smallest. Branches that can't lead to one are cut off:
//! a card that looks like a card already tried in the same place, containers that no longer find enough cards, sets of cards that can no
//! longer be met, and a state of the cards in which placing the same containers has failed before.

use std::collections::HashSet;

use crds::mgpu::{ContainerRequest, Share};

use super::demand::Demand;
use super::targets::{Class, Target};
use super::{CardUse, Cards, card_index};
use crate::steps::Steps;

/// One card while the search is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Card {
    used: CardUse,
    class: Option<u16>,
    /// Whether one of the search's containers takes it.
    touched: bool,
}

/// What is left to do from a container on. It does not matter which container got which of equal cards before.
type Position = (usize, Vec<Card>);

pub(super) struct AllocationSearch<'a> {
    containers: &'a [ContainerRequest],
    memory: i64,
    max_containers: u32,
    cards: Vec<Card>,
    targets: Vec<Target>,
    /// How many cards of each class are touched by parts.
    touched: Vec<u16>,
    /// What is still to be placed, from each container on.
    demands: Vec<Demand>,
    classes: &'a [Class],
    /// The cards of each container chosen so far.
    chosen: Vec<Vec<u16>>,
    failed: HashSet<Position>,
    steps: &'a Steps,
}

impl<'a> AllocationSearch<'a> {
    pub fn new(
        containers: &'a [ContainerRequest],
        cards: Cards<'_>,
        class_of: &[Option<u16>],
        classes: &'a [Class],
        targets: Vec<Target>,
        (max_containers, steps): (u32, &'a Steps),
    ) -> Self {
        steps.spend(containers.len() * containers.len() + cards.used.len());
        let demands = (0..=containers.len()).map(|first| Demand::of(&containers[first..]));
        let cards_now = cards.used.iter().zip(class_of).map(|(used, class)| Card {
            used: *used,
            class: *class,
            touched: false,
        });
        Self {
            containers,
            memory: cards.memory,
            max_containers,
            cards: cards_now.collect(),
            targets,
            touched: vec![0; classes.len()],
            demands: demands.collect(),
            classes,
            chosen: vec![Vec::new(); containers.len()],
            failed: HashSet::new(),
            steps,
        }
    }

    /// Returns the smallest combination that uses exactly the cards of one of the targets; none where there is none, or where none is found
    /// before the steps are spent.
    pub fn run(&mut self) -> Option<Vec<Box<[u16]>>> {
        self.place(0)
            .then(|| self.chosen.iter().map(|cards| cards.as_slice().into()).collect())
    }

    /// Places this container and all that follow. Returns whether that succeeded.
    fn place(&mut self, container: usize) -> bool {
        if container == self.containers.len() {
            return true;
        }
        if !self.can_follow(container) || (!self.failed.is_empty() && self.failed.contains(&self.position(container))) {
            return false;
        }
        let placed = self.choose(container, 0);
        if !placed && !self.steps.are_spent() {
            self.failed.insert(self.position(container));
        }
        placed
    }

    /// Chooses the remaining cards of a container, from index `first` on, and places the containers that follow.
    fn choose(&mut self, container: usize, first: usize) -> bool {
        let request = self.containers[container];
        let missing = width(&request) - self.chosen[container].len();
        if missing == 0 {
            return self.can_meet_target(&self.demands[container + 1]) && self.place(container + 1);
        }
        for index in first..(self.cards.len() + 1).saturating_sub(missing) {
            if self.steps.are_spent() {
                return false;
            }
            let card = self.cards[index];
            if !self.takes(&card, request.share) || self.tried(container, index) {
                continue;
            }
            self.take(container, index, request.share);
            if self.choose(container, index + 1) {
                return true;
            }
            self.give_back(container, index, card);
        }
        false
    }

    fn takes(&self, card: &Card, share: Share) -> bool {
        self.steps.spend(1);
        if !card.used.takes(share, self.memory, self.max_containers) {
            return false;
        }
        match (share, card.class) {
            (Share::Full, _) => true,
            (Share::Part { .. }, Some(_)) if card.touched => true,
            (Share::Part { .. }, Some(class)) => {
                let class = usize::from(class);
                let wants = |target: &Target| {
                    self.steps.spend(target.counts.len());
                    target.counts[class] > self.touched[class] && is_within(&self.touched, &target.counts)
                };
                self.targets.iter().any(wants)
            }
            (Share::Part { .. }, None) => false,
        }
    }

    /// Whether a card of lower index that this container does not take looks the same: then everything was tried with that card.
    fn tried(&self, container: usize, index: usize) -> bool {
        self.steps.spend(2 * index);
        let card = self.cards[index];
        let same = |lower: usize| self.cards[lower] == card && !self.chosen[container].contains(&card_index(lower));
        (0..index).any(same)
    }

    fn take(&mut self, container: usize, index: usize, share: Share) {
        self.chosen[container].push(card_index(index));
        let card = &mut self.cards[index];
        card.used.add(share, self.memory);
        if let (Share::Part { .. }, Some(class), false) = (share, card.class, card.touched) {
            self.touched[usize::from(class)] += 1;
        }
        card.touched = true;
    }

    fn give_back(&mut self, container: usize, index: usize, before: Card) {
        let share = self.containers[container].share;
        if let (Share::Part { .. }, Some(class), false) = (share, before.class, before.touched) {
            self.touched[usize::from(class)] -= 1;
        }
        self.cards[index] = before;
        self.chosen[container].pop();
    }

    /// Whether each container from this one on, taken by itself, still finds as many cards as it asks for.
    fn can_follow(&self, container: usize) -> bool {
        let finds = |request: &ContainerRequest| {
            let takers = self.cards.iter().filter(|card| self.takes(card, request.share));
            takers.take(width(request)).count() == width(request)
        };
        self.containers[container..].iter().all(finds)
    }

    /// Whether some target can still be met by what is left to be placed: there are no more untouched cards than places, and there is room.
    fn can_meet_target(&self, left: &Demand) -> bool {
        let max = self.max_containers;
        let touched = self.cards.iter().filter(|card| card.touched && card.class.is_some());
        let touched = touched.map(|card| (card.used.room(self.memory, max), 1));
        let meets = |target: &Target| {
            self.steps
                .spend(2 * (self.cards.len() + self.classes.len()) * left.bounds());
            let missing = target.counts.iter().zip(&self.touched);
            let missing = missing.map(|(wanted, touched)| usize::from(wanted - touched));
            let untouched = self.classes.iter().zip(missing.clone());
            let untouched = untouched.map(|(class, missing)| (class.room, missing));
            missing.sum::<usize>() <= left.cards && left.could_be_met(&touched.clone().chain(untouched))
        };
        let mut open = self.targets.iter().filter(|target| {
            self.steps.spend(self.touched.len());
            is_within(&self.touched, &target.counts)
        });
        open.any(meets)
    }

    fn position(&self, container: usize) -> Position {
        // The position is sorted, and may be stored.
        self.steps.spend(12 * self.cards.len());
        let mut cards = self.cards.clone();
        cards.sort_unstable();
        (container, cards)
    }
}

fn is_within(touched: &[u16], counts: &[u16]) -> bool {
    touched.iter().zip(counts).all(|(touched, wanted)| touched <= wanted)
}

fn width(container: &ContainerRequest) -> usize {
    usize::try_from(container.cards).unwrap_or(usize::MAX)
}
