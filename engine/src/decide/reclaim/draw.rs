//! Candidates one after the other by rank, as many as somebody wants.

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::iter::Peekable;

use super::candidacy::Rank;
use super::needs::Need;
use super::victims::Victims;
use crate::cluster::Cluster;
use crate::cluster::holders::Turn;

/// Pods by rank, be they candidates or not.
pub(super) struct Turns<'c> {
    /// The first of each kind of pods, the rest of them, and the priority with which they end.
    heads: BTreeMap<&'c Turn, (btree_set::Iter<'c, Turn>, Option<i32>)>,
}

impl<'c> Turns<'c> {
    /// Those that are charged for any of `needs`, or all.
    pub(super) fn new(cluster: &'c Cluster, victims: &Victims, needs: Option<&[Need]>) -> Self {
        let mut turns = Self { heads: BTreeMap::new() };
        for (alike, end) in victims.turns(cluster, needs) {
            turns.go_on(alike.iter(), end);
        }
        turns
    }

    fn go_on(&mut self, mut rest: btree_set::Iter<'c, Turn>, end: Option<i32>) {
        let next = rest.next();
        if let Some(turn) = next.filter(|turn| end.is_none_or(|end| turn.priority < end)) {
            self.heads.insert(turn, (rest, end));
        }
    }
}

impl<'c> Iterator for Turns<'c> {
    type Item = &'c Turn;

    fn next(&mut self) -> Option<&'c Turn> {
        let (turn, (rest, end)) = self.heads.pop_first()?;
        self.go_on(rest, end);
        Some(turn)
    }
}

/// Draws candidates by rank.
pub(super) struct Draw<'c> {
    cluster: &'c Cluster,
    turns: Peekable<Turns<'c>>,
    /// Gangs as wholes, and pods with those that share their claims. A gang comes up with the first of its pods, none of which has a higher
    /// rank; the others with the pod that pays.
    wholes: BTreeSet<(Rank, usize)>,
    /// Those that have come up.
    known: BTreeSet<usize>,
}

impl<'c> Draw<'c> {
    /// Among those that are charged for any of `needs`.
    pub(super) fn new(cluster: &'c Cluster, victims: &Victims, needs: &[Need]) -> Self {
        Self {
            cluster,
            turns: Turns::new(cluster, victims, Some(needs)).peekable(),
            wholes: BTreeSet::new(),
            known: BTreeSet::new(),
        }
    }

    /// The next one.
    pub(super) fn next(&mut self, victims: &mut Victims) -> Option<usize> {
        loop {
            let turn = self.turns.peek().map(|turn| Rank::of(turn));
            let is_first = |whole: &Rank| turn.as_ref().is_none_or(|turn| whole < turn);
            let is_next = self.wholes.first().is_some_and(|(whole, _)| is_first(whole));
            let drawn = if is_next {
                self.wholes.pop_first().map(|(_, place)| place)
            } else {
                let ways = victims.ways(self.cluster, self.turns.next()?.pod);
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
