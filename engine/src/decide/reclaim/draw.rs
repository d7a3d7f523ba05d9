//! Draws candidates one after the other by rank, as many as are wanted.

use std::collections::BTreeSet;

use super::candidacy::Rank;
use super::kinds::Wanted;
use super::needs::Need;
use super::victims::Victims;
use crate::cluster::Cluster;
use crate::decide::effort::Effort;

/// Draws candidates by rank.
pub(super) struct Draw<'c> {
    cluster: &'c Cluster,
    effort: &'c Effort,
    /// Pods are drawn that are charged for any of these.
    wanted: Vec<Wanted>,
    /// The place of the next pod by rank.
    next: usize,
    /// The wholes that have come up and are not drawn yet: gangs, and pods with those that share their claims. A gang comes up
    /// with the first of its pods, none of which has a higher rank than the whole. Pods that share claims come up with the pod
    /// that pays.
    wholes: BTreeSet<(Rank, usize)>,
    /// The wholes that have come up.
    known: BTreeSet<usize>,
}

impl<'c> Draw<'c> {
    /// Starts a draw among pods that are charged for any of `needs`.
    pub(super) fn new(cluster: &'c Cluster, needs: &[Need], effort: &'c Effort) -> Self {
        let wanted: BTreeSet<_> = needs.iter().map(|(place, dimension, _)| (*place, *dimension)).collect();
        Self {
            cluster,
            effort,
            wanted: wanted.into_iter().collect(),
            next: 0,
            wholes: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// Returns the next candidate; none where no steps are left, since a user can have any number of pods that nobody may take
    /// back.
    pub(super) fn next(&mut self, victims: &mut Victims) -> Option<usize> {
        loop {
            let kinds = victims.kinds(self.cluster);
            let turn = kinds.turn(self.cluster, &self.wanted, self.next, self.effort);
            let turn = turn.map(|turn| (Rank::of(turn), turn.pod));
            let is_first = |whole: &Rank| turn.as_ref().is_none_or(|(turn, _)| whole < turn);
            let is_next = self.wholes.first().is_some_and(|(whole, _)| is_first(whole));
            let drawn = if is_next {
                self.wholes.pop_first().map(|(_, place)| place)
            } else {
                let (_, pod) = turn.filter(|_| !self.effort.is_spent())?;
                self.effort.spend(1);
                self.next += 1;
                let ways = victims.ways(self.cluster, pod, self.effort);
                if let Some(whole) = ways.whole.filter(|whole| self.known.insert(*whole)) {
                    self.wholes.insert((victims.get(whole).rank.clone(), whole));
                }
                ways.alone
            };
            if let Some(place) = drawn.filter(|place| !victims.get(*place).members.is_empty()) {
                return Some(place);
            }
        }
    }
}
