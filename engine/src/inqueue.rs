//! What workloads ask for as a whole, and what a queue keeps for workloads that are in it and whose pods do not exist yet
//! (Capacity Card, **Job Enqueueable Check**).

use std::collections::BTreeMap;

use crate::amounts::{Amounts, Dimension, Totals};
use crate::names::CardId;

/// The alternatives of a request, in any order: one of these cards for each card asked for.
pub type CardChoice = Box<[CardId]>;

/// What a workload asks for as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The resources of `minResources` that a queue limits.
    pub resources: Amounts,
    /// Cards, by sets of alternatives. Each set is sorted and appears once.
    pub cards: Box<[(CardChoice, i64)]>,
}

impl Demand {
    /// Returns the sum of what is listed.
    pub fn new(resources: Amounts, cards: impl IntoIterator<Item = (CardChoice, i64)>) -> Self {
        let mut sums = BTreeMap::<CardChoice, i64>::new();
        for (mut set, count) in cards {
            set.sort_unstable();
            let sum = sums.entry(set).or_default();
            // A sum that exceeds what can exist is never let in, which is right.
            *sum = sum.saturating_add(count);
        }
        Self {
            resources,
            cards: sums.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Returns how much of a dimension it asks for at most: a set of alternatives counts in full for each of its cards.
    pub fn most_of(&self, dimension: Dimension) -> i128 {
        let sets = self.cards.iter().filter(|(set, _)| {
            let card = dimension.card();
            card.is_some_and(|card| set.contains(&card))
        });
        let cards: i128 = sets.map(|(_, count)| i128::from(*count)).sum();
        cards + i128::from(self.resources.get(dimension))
    }

    /// Returns the dimensions that it asks for any of.
    pub fn dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        let cards = self.cards.iter().flat_map(|(set, _)| set.iter());
        let resources = self.resources.iter().map(|(dimension, _)| dimension);
        resources.chain(cards.map(|card| Dimension::Card(*card)))
    }
}

/// What is reserved in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inqueue {
    resources: Totals,
    cards: BTreeMap<CardChoice, i128>,
}

impl Inqueue {
    /// Returns how much of a Kubernetes resource is reserved.
    pub fn resource(&self, dimension: Dimension) -> i128 {
        self.resources.get(dimension)
    }

    /// Returns the Kubernetes resources of which something is reserved.
    pub fn resources(&self) -> impl Iterator<Item = Dimension> + '_ {
        self.resources.iter().map(|(dimension, _)| dimension)
    }

    /// Returns the sets of alternatives and how many cards are reserved of each, without sets that have none.
    pub fn cards(&self) -> impl ExactSizeIterator<Item = (&[CardId], i128)> {
        self.cards.iter().map(|(set, count)| (&**set, *count))
    }

    /// Whether any of a dimension is reserved, also where it is one of several alternatives.
    pub fn is_for(&self, dimension: Dimension) -> bool {
        let card = dimension.card();
        self.resource(dimension) > 0 || card.is_some_and(|card| self.cards.keys().any(|set| set.contains(&card)))
    }

    /// Whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.resources.iter().next().is_none() && self.cards.is_empty()
    }

    /// Returns the sum of several demands.
    #[cfg(test)]
    pub(crate) fn of(demands: &[Demand]) -> Self {
        let mut inqueue = Self::default();
        for demand in demands {
            inqueue.add(demand);
        }
        inqueue
    }

    pub(crate) fn add(&mut self, demand: &Demand) {
        self.resources.add_all(&demand.resources);
        for (set, count) in &demand.cards {
            *self.cards.entry(set.clone()).or_default() += i128::from(*count);
        }
    }

    /// Adds what is reserved elsewhere.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.resources.add_totals(&other.resources);
        for (set, count) in &other.cards {
            *self.cards.entry(set.clone()).or_default() += count;
        }
    }

    pub(crate) fn subtract(&mut self, demand: &Demand) {
        self.resources.subtract_all(&demand.resources);
        for (set, count) in &demand.cards {
            if let Some(sum) = self.cards.get_mut(set) {
                *sum -= i128::from(*count);
                if *sum == 0 {
                    self.cards.remove(set);
                }
            }
        }
    }
}
