//! The Capacity Card document, **Job Mode**: whether a queue can take a workload as a whole.

use crds::configuration::CapacityCard;

use crate::amounts::{Dimension, Totals};
use crate::inqueue::{Demand, Inqueue};
use crate::metering;
use crate::names::CardId;
use crate::reason::Reason;

/// What counts against a limit.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// What admitted pods hold.
    pub allocated: &'a Totals,
    /// What is reserved for workloads that are in their queue already.
    pub inqueue: &'a Inqueue,
    /// What workloads hold beyond their minimum.
    pub elastic: &'a Totals,
}

/// The check of a workload against its queue, or a level above it.
#[derive(Debug, Clone)]
pub struct JobCheck<'a, L> {
    /// The plugin's arguments.
    pub arguments: &'a CapacityCard,
    /// Whether the queue has no quota at all, under a plugin where unnamed dimensions have a quota of zero.
    pub is_empty: bool,
    /// Returns the quota of a dimension; none where nothing limits it.
    pub limit: L,
    /// The level's own load, and that of the queues below it.
    pub loads: Vec<Load<'a>>,
    /// Reservations that do not count, since they are for the workload's own pods.
    pub own: Vec<&'a Demand>,
}

/// The sums for a set of alternatives, for decisions and for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// What is asked for.
    pub asked: i128,
    /// What admitted pods hold.
    pub allocated: i128,
    /// What is reserved.
    pub inqueue: i128,
    /// What other workloads hold beyond their minimum.
    pub elastic: i128,
    /// The quota; none where nothing limits it.
    pub quota: Option<i128>,
}

impl Sums {
    /// Whether `allocated + inqueue + minResources - elastic <= capability`. What is not asked for is not limited.
    pub fn fit(self) -> bool {
        let sum = self.allocated + self.inqueue + self.asked - self.elastic;
        self.asked == 0 || self.quota.is_none_or(|quota| sum <= quota)
    }
}

impl<L: Fn(Dimension) -> Option<i128>> JobCheck<'_, L> {
    /// **Job Enqueueable Check**: checks CPU and memory, then cards.
    pub fn check(&self, demand: &Demand) -> Result<(), Reason> {
        if self.is_empty {
            return Err(Reason::EmptyQueueCapability);
        }
        if let Some((dimension, _)) = self.resources_in_excess(demand).next() {
            return Err(dimension.shortage());
        }
        if self.first_excess(demand).is_some() {
            return Err(Reason::InsufficientScalarQuota);
        }
        Ok(())
    }

    /// Returns the resources for which the limit does not suffice, with their sums: CPU and memory first.
    pub(crate) fn resources_in_excess(&self, demand: &Demand) -> impl Iterator<Item = (Dimension, Sums)> {
        let is_for_cards = !demand.cards.is_empty();
        let asked = demand.resources.iter().map(|(dimension, _)| dimension);
        let charged = asked.filter(move |dimension| metering::is_charged(self.arguments, *dimension, is_for_cards));
        let sums = charged.map(|dimension| (dimension, self.resource(demand, dimension)));
        sums.filter(|(_, sums)| !sums.fit())
    }

    /// Returns the sums for a Kubernetes resource.
    pub fn resource(&self, demand: &Demand, dimension: Dimension) -> Sums {
        let own = self.own.iter().map(|own| i128::from(own.resources.get(dimension)));
        Sums {
            asked: demand.resources.get(dimension).into(),
            allocated: self.sum(|load| load.allocated.get(dimension)),
            inqueue: self.sum(|load| load.inqueue.resource(dimension)) - own.sum::<i128>(),
            elastic: self.sum(|load| load.elastic.get(dimension)),
            quota: (self.limit)(dimension),
        }
    }

    /// Returns the first set of alternatives for which the quota does not suffice, with its sums: a set that is asked for, or a reserved set
    /// that shares a card with what is asked for.
    pub(crate) fn first_excess<'s>(&'s self, demand: &'s Demand) -> Option<(&'s [CardId], Sums)> {
        let asked = demand.cards.iter().map(|(set, _)| &**set);
        asked
            .chain(self.concerned(demand))
            .map(|set| (set, self.cards(demand, set)))
            .find(|(_, sums)| !sums.fit())
    }

    /// Returns the sums for a set of alternatives: over its cards, and over all that is asked for or reserved of sets that share a card with
    /// it. What is asked for of one card by name counts only where that card is asked for, since alternatives can do without it.
    pub fn cards(&self, demand: &Demand, set: &[CardId]) -> Sums {
        let counts = |other: &[CardId]| {
            if set.len() > 1 {
                share_a_card(set, other)
            } else {
                set == other
            }
        };
        let over_cards =
            |amount: &dyn Fn(Dimension) -> i128| set.iter().map(|card| amount(Dimension::Card(*card))).sum();
        let asked = demand.cards.iter().filter(|(other, _)| counts(other));
        let reserved = self.loads.iter().flat_map(|load| load.inqueue.cards());
        let reserved: i128 = reserved
            .filter(|(other, _)| counts(other))
            .map(|(_, count)| count)
            .sum();
        let own = self.own.iter().flat_map(|own| own.cards.iter());
        let own: i128 = own
            .filter(|(other, _)| counts(other))
            .map(|(_, count)| i128::from(*count))
            .sum();
        Sums {
            asked: asked.map(|(_, count)| i128::from(*count)).sum(),
            inqueue: reserved - own,
            allocated: over_cards(&|dimension| self.sum(|load| load.allocated.get(dimension))),
            elastic: over_cards(&|dimension| self.sum(|load| load.elastic.get(dimension))),
            quota: self.quota_of(set),
        }
    }

    /// Returns the quota of the cards of a set together; none where one of them is not limited.
    fn quota_of(&self, set: &[CardId]) -> Option<i128> {
        set.iter().map(|card| (self.limit)(Dimension::Card(*card))).sum()
    }

    /// Returns the reserved sets that share a card with what is asked for. Sets that nothing limits are left out, since nothing can exceed
    /// them.
    fn concerned<'s>(&'s self, demand: &'s Demand) -> impl Iterator<Item = &'s [CardId]> {
        let reserved = self.loads.iter().flat_map(|load| load.inqueue.cards());
        let reserved = reserved.map(|(set, _)| set);
        let concerned =
            reserved.filter(|set| set.len() > 1 && demand.cards.iter().any(|(asked, _)| share_a_card(set, asked)));
        concerned.filter(|set| self.quota_of(set).is_some())
    }

    /// Returns how many times [`Self::first_excess`] compares two sets where nothing is in excess.
    pub(crate) fn cost(&self, demand: &Demand) -> usize {
        let reserved: usize = self.loads.iter().map(|load| load.inqueue.cards().len()).sum();
        let asked = demand.cards.len();
        let added_up = asked + self.concerned(demand).count();
        let to_find = asked.saturating_mul(reserved);
        to_find.saturating_add(added_up.saturating_mul(asked + reserved))
    }

    fn sum(&self, amount: impl Fn(&Load<'_>) -> i128) -> i128 {
        self.loads.iter().map(amount).sum()
    }
}

fn share_a_card(one: &[CardId], other: &[CardId]) -> bool {
    one.iter().any(|card| other.contains(card))
}

#[cfg(test)]
mod tests;
