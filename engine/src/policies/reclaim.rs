//! Victim selection: which pods to evict, so that what is missing comes free (the capacity document, **Reclaimable** and **Preemptive**;
//! docs/rules.md, **Queues**).
//!
//! This module is pure: the candidates, what is missing and what must stay come as numbers. It takes the cheapest sufficient set, or none.
//! Sets are compared, in this order, by the highest priority in the set (lower is cheaper), the number of pods (fewer), and age (younger).

use std::collections::HashMap;

use crate::steps::Steps;

/// A pod, or a whole gang, that may be evicted. Candidates are ordered by rank: lowest priority first, then youngest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The highest priority of its pods.
    pub priority: i32,
    /// The number of its pods.
    pub pods: usize,
    /// What the candidate gives, by the index of the need.
    pub gives: Vec<(usize, i128)>,
    /// What the candidate takes from an owner who must keep some, by the index of the slack.
    pub takes: Vec<(usize, i128)>,
    /// A number of its own, where more than these amounts distinguishes the candidate: where exactly it holds what it gives.
    pub apart: Option<usize>,
}

/// The most steps of one search: for one node, among the candidates up to one priority. After that, a set is put together without looking for the best.
pub(crate) const MOST_STEPS: u64 = 20_000;

/// The cost of asking whether a set suffices, in steps.
const ASK: usize = 16;

/// Returns the cheapest set of candidates, by their ranks, that gives all `needs`, takes no more than each `slack`, and suffices; none where
/// no set does. A superset of a sufficient set is sufficient too. `steps` limits the cost for all nodes together: when they are spent, a set
/// is put together without looking for the best.
pub fn select(
    needs: &[i128],
    slack: &[i128],
    candidates: &[Candidate],
    suffices: &dyn Fn(&[usize]) -> bool,
    steps: &Steps,
) -> Option<Vec<usize>> {
    if needs.iter().all(|need| *need <= 0) && suffices(&[]) {
        return Some(Vec::new());
    }
    let mut priorities: Vec<_> = candidates.iter().map(|candidate| candidate.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    priorities.into_iter().find_map(|highest| {
        let allowed: Vec<_> = (0..candidates.len())
            .filter(|index| candidates[*index].priority <= highest)
            .collect();
        steps.spend(candidates.len());
        // Disregarding what must stay, all candidates together have to suffice.
        let enough = needs.iter().enumerate().all(|(place, need)| {
            let all = allowed.iter().map(|index| given(&candidates[*index], place));
            all.sum::<i128>() >= *need
        });
        if !enough || !suffices(&allowed) {
            return None;
        }
        steps.share(MOST_STEPS, |own| {
            VictimSearch::new(needs, slack, candidates, &allowed, suffices, own).run()
        })
    })
}

fn given(candidate: &Candidate, place: usize) -> i128 {
    let at = candidate.gives.iter().filter(|(need, _)| *need == place);
    at.map(|(_, amount)| *amount).sum()
}

/// A search among the candidates up to one priority.
struct VictimSearch<'a> {
    candidates: &'a [Candidate],
    allowed: &'a [usize],
    /// For each number of first candidates, the most that one of their pods gives of each need.
    best: Vec<Vec<i128>>,
    /// For each candidate, how many pods belong to earlier candidates just like it: an older candidate is not taken before these.
    twins_before: Vec<usize>,
    /// For each candidate, how many pods it and the candidates before it have.
    pods_up_to: Vec<usize>,
    needs: Vec<i128>,
    slack: Vec<i128>,
    chosen: Vec<usize>,
    suffices: &'a dyn Fn(&[usize]) -> bool,
    /// The steps that this search may spend.
    steps: &'a Steps,
}

impl<'a> VictimSearch<'a> {
    fn new(
        needs: &[i128],
        slack: &[i128],
        candidates: &'a [Candidate],
        allowed: &'a [usize],
        suffices: &'a dyn Fn(&[usize]) -> bool,
        steps: &'a Steps,
    ) -> Self {
        let mut best = vec![vec![0; needs.len()]];
        let mut twins_before = Vec::with_capacity(allowed.len());
        let mut pods_up_to = Vec::with_capacity(allowed.len());
        let mut twins: HashMap<&Candidate, usize> = HashMap::new();
        for (place, index) in allowed.iter().enumerate() {
            let candidate = &candidates[*index];
            let mut most = best[place].clone();
            for (need, most) in most.iter_mut().enumerate() {
                // Rounded up, so that the bound never excludes a sufficient set.
                let pods = i128::try_from(candidate.pods.max(1)).unwrap_or(i128::MAX);
                *most = (*most).max((given(candidate, need) + pods - 1) / pods);
            }
            best.push(most);
            let twins = twins.entry(candidate).or_default();
            twins_before.push(*twins);
            *twins += candidate.pods;
            pods_up_to.push(pods_up_to.last().copied().unwrap_or(0) + candidate.pods);
        }
        Self {
            candidates,
            allowed,
            best,
            twins_before,
            pods_up_to,
            needs: needs.to_vec(),
            slack: slack.to_vec(),
            chosen: Vec::new(),
            suffices,
            steps,
        }
    }

    fn run(mut self) -> Option<Vec<usize>> {
        let all = self.pods_up_to.last().copied().unwrap_or(0);
        let best = &self.best[self.allowed.len()];
        let fewest = self.needs.iter().zip(best).map(|(need, best)| match (*need, *best) {
            (..=0, _) | (_, ..=0) => 0,
            (need, best) => usize::try_from((need + best - 1) / best).unwrap_or(usize::MAX),
        });
        for count in fewest.max().unwrap_or(0).max(1)..=all {
            if self.choose(self.allowed.len(), count) {
                self.chosen.sort_unstable();
                return Some(self.chosen);
            }
            if self.steps.are_spent() {
                return self.without_looking_for_the_best();
            }
        }
        None
    }

    /// Chooses candidates with exactly this many pods among the first `first` candidates: the set whose ranks, compared from the highest,
    /// are lowest.
    fn choose(&mut self, first: usize, pods: usize) -> bool {
        if pods == 0 {
            return self.is_enough();
        }
        let slots = i128::try_from(pods).unwrap_or(i128::MAX);
        for place in 0..first {
            self.steps.spend(1);
            if self.steps.are_spent() {
                return false;
            }
            let candidate = &self.candidates[self.allowed[place]];
            let out_of_reach = |(need, best): (&i128, &i128)| *need > best.saturating_mul(slots);
            if candidate.pods > pods
                || self.pods_up_to[place] < pods
                || self.twins_before[place] > pods - candidate.pods
                || self.needs.iter().zip(&self.best[place + 1]).any(out_of_reach)
            {
                continue;
            }
            if self.take(place) {
                if self.choose(place, pods - candidate.pods) {
                    return true;
                }
                self.put_back();
            }
        }
        false
    }

    /// Whether the chosen candidates give all that is missing.
    fn is_enough(&self) -> bool {
        self.needs.iter().all(|need| *need <= 0) && {
            self.steps.spend(ASK);
            (self.suffices)(&self.chosen)
        }
    }

    /// Takes a candidate, unless an owner would fall below what must stay.
    fn take(&mut self, place: usize) -> bool {
        let index = self.allowed[place];
        let candidate = &self.candidates[index];
        for (floor, amount) in &candidate.takes {
            self.slack[*floor] -= amount;
        }
        for (need, amount) in &candidate.gives {
            self.needs[*need] -= amount;
        }
        self.chosen.push(index);
        let allowed = candidate.takes.iter().all(|(floor, _)| self.slack[*floor] >= 0);
        if !allowed {
            self.put_back();
        }
        allowed
    }

    fn put_back(&mut self) {
        let Some(index) = self.chosen.pop() else { return };
        self.give_back(index);
    }

    fn give_back(&mut self, index: usize) {
        let candidate = &self.candidates[index];
        for (floor, amount) in &candidate.takes {
            self.slack[*floor] += amount;
        }
        for (need, amount) in &candidate.gives {
            self.needs[*need] += amount;
        }
    }

    /// Takes candidates by rank as long as they give something that is missing; then drops candidates that turn out not to be needed.
    fn without_looking_for_the_best(mut self) -> Option<Vec<usize>> {
        while !self.chosen.is_empty() {
            self.put_back();
        }
        for place in 0..self.allowed.len() {
            let candidate = &self.candidates[self.allowed[place]];
            let gives = candidate.gives.iter().any(|(need, _)| self.needs[*need] > 0);
            if gives || (candidate.apart.is_some() && !self.is_enough()) {
                self.take(place);
            }
        }
        if !self.is_enough() {
            return None;
        }
        self.chosen.sort_unstable();
        for index in self.chosen.clone().into_iter().rev() {
            self.give_back(index);
            let chosen = self.chosen.clone();
            self.chosen.retain(|chosen| *chosen != index);
            if !self.is_enough() {
                self.chosen = chosen;
                let candidate = &self.candidates[index];
                for (floor, amount) in &candidate.takes {
                    self.slack[*floor] -= amount;
                }
                for (need, amount) in &candidate.gives {
                    self.needs[*need] -= amount;
                }
            }
        }
        Some(self.chosen)
    }
}

/// Returns the cost of a set; less is better.
pub fn cost(set: &[usize], candidates: &[Candidate]) -> (Option<i32>, usize, Vec<usize>) {
    let mut ranks = set.to_vec();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let priority = set.iter().map(|index| candidates[*index].priority).max();
    let pods = set.iter().map(|index| candidates[*index].pods).sum();
    (priority, pods, ranks)
}

#[cfg(test)]
mod tests;
