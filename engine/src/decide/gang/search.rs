//! Searches for a way to let in enough of a gang at once, where giving each pod what it would get alone does not lead to one.
//!
//! The search is exact, except for where pods go that `CrossQuota` decides about: each of them gets the best node beside those
//! before it. Pods of one shape are interchangeable, and so are nodes of which the same is free, so each situation is looked at
//! once. A situation is dropped if too few pods could get in even if each shape had all that is left for itself.

mod nodes;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::vec;

use crds::configuration::AdmitOn;

use super::super::line::InLine;
use super::Gang;
use crate::alternative::Alternative;
use crate::cluster::waiting::Shape;
use crate::cluster::{Bookmark, Cluster};
use crate::decide::effort::Effort;
use crate::decide::{Grant, choice, cross_quota, fit, mgpu, verdict};
use crate::ids::{NodeId, PodId, WorkloadId};
use nodes::Nodes;

/// How many pods are placed by way of trial before a gang counts as one that can't get in: everybody else waits for the decision.
/// Dozens of pods of three shapes on forty nodes need fewer (`engine/tests/decisions/gang_search.rs`).
pub(crate) const MOST_TRIES: usize = 5_000;

/// The cost of asking for how many pods of a kind there is quota with one alternative.
pub(crate) const STEPS_OF_QUOTA: usize = 128;
/// The cost of remembering what one kind has got, or how many nodes look alike.
const STEPS_OF_PLACE: usize = 8;

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The gang holds a way to get in.
    Way,
    /// There is no way.
    NoWay,
    /// No way was found in [`MOST_TRIES`] tries, or in the steps that a question about a gang may cost.
    GivenUp,
}

/// Pods of one shape.
struct Kind {
    shape: Arc<Shape>,
    /// In the order in which they go.
    pods: Vec<PodId>,
    /// How many of them are considered.
    most: usize,
    /// Whether `CrossQuota` decides where these pods go.
    governed: bool,
    /// The alternatives that labels don't lead these pods to; known where they are let in without a node.
    unselectable: Vec<Alternative>,
}

impl Kind {
    fn is_selectable(&self, alternative: Option<&Alternative>) -> bool {
        alternative.is_none_or(|alternative| !self.unselectable.contains(alternative))
    }

    fn task(&self) -> Option<&str> {
        self.shape.task_spec.as_deref()
    }
}

/// Returns the alternatives that labels don't lead pods of this shape to.
fn unselectable(cluster: &Cluster, shape: &Shape, effort: &Effort) -> Vec<Alternative> {
    let alternatives = shape.task.alternatives.iter();
    let unselectable = alternatives.filter(|own| !choice::is_selectable(cluster, shape, Some(own), false, effort));
    unselectable.cloned().collect()
}

/// A situation that leads nowhere: which kind is next, how many pods of it are in, how many of each kind got which alternative,
/// and how the nodes look.
type DeadEnd = (
    usize,
    usize,
    Vec<((usize, Option<Alternative>), usize)>,
    Vec<(usize, i64)>,
);

/// A situation that is followed up.
struct Situation {
    /// The kind that is next.
    kind: usize,
    /// How many pods of that kind are in.
    taken: usize,
    here: DeadEnd,
    /// What its next pod could get and was not given yet.
    choices: vec::IntoIter<Choice>,
    /// Whether that pod is in, with the last of the choices tried.
    has_placed: bool,
    /// Whether it was followed up without any further pod of this kind.
    others_stay_out: bool,
}

/// What a pod could get.
#[derive(Debug, Clone)]
enum Choice {
    /// This alternative, on a node that looks like this.
    Of(Option<Alternative>, Option<usize>),
    /// What `CrossQuota` gives the pod beside those that are in.
    Decided,
}

/// A pod that is let in by way of trial.
struct Trial {
    pod: PodId,
    alternative: Option<Alternative>,
    /// Its node, and how the node looked before.
    node: Option<(NodeId, usize)>,
}

pub(super) struct WaySearch<'g, 'c> {
    gang: &'g mut Gang<'c>,
    id: WorkloadId,
    bookmark: &'g Bookmark,
    kinds: Vec<Kind>,
    nodes: Nodes,
    on_quota: bool,
    /// The pods that are in by way of trial.
    path: Vec<Trial>,
    cards: BTreeMap<(usize, Option<Alternative>), usize>,
    dead_ends: HashSet<DeadEnd>,
    tries: usize,
}

impl<'g, 'c> WaySearch<'g, 'c> {
    pub(super) fn new(gang: &'g mut Gang<'c>, id: WorkloadId, line: &[InLine], bookmark: &'g Bookmark) -> Self {
        let on_quota = gang.cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
        let mut kinds: Vec<Kind> = Vec::new();
        let mut places = HashMap::new();
        for (pod, shape) in line {
            let place = *places.entry(shape).or_insert(kinds.len());
            if place == kinds.len() {
                kinds.push(Kind {
                    shape: Arc::clone(shape),
                    pods: Vec::new(),
                    most: 0,
                    governed: cross_quota::governs(gang.cluster, shape),
                    unselectable: if on_quota {
                        unselectable(gang.cluster, shape, &gang.effort)
                    } else {
                        Vec::new()
                    },
                });
            }
            kinds[place].pods.push(*pod);
        }
        let nodes = Nodes::new(gang.cluster, &kinds, &gang.effort);
        Self {
            gang,
            id,
            bookmark,
            kinds,
            nodes,
            on_quota,
            path: Vec::new(),
            cards: BTreeMap::new(),
            dead_ends: HashSet::new(),
            tries: MOST_TRIES,
        }
    }

    /// Looks for a way: first with the pods whose turn it is, then with any pods of the line.
    pub(super) fn run(&mut self, first: &HashSet<PodId>, first_may: bool) -> Found {
        // There are more kinds than all nodes can be asked about.
        if self.gang.effort.is_spent() {
            return Found::GivenUp;
        }
        let in_line: usize = self.kinds.iter().map(|kind| kind.pods.len()).sum();
        for all in [false, true] {
            for kind in &mut self.kinds {
                let of_first = kind.pods.iter().filter(|pod| first.contains(pod)).count();
                kind.most = if all { kind.pods.len() } else { of_first };
            }
            self.dead_ends.clear();
            if (all && in_line > first.len() || !all && first_may) && self.follow() {
                return Found::Way;
            }
        }
        if self.tries == 0 { Found::GivenUp } else { Found::NoWay }
    }

    /// Follows situations up, depth first, from the one in which no pod is in. They are as deep as there are pods and kinds, and
    /// a user may make thousands: so the situations that are followed up are kept in a list, and not on the thread's stack.
    fn follow(&mut self) -> bool {
        let mut followed: Vec<Situation> = Vec::new();
        let mut next = Some((0, 0));
        loop {
            if let Some((kind, taken)) = next.take() {
                if self.gang.is_complete() {
                    if self.gang.is_accepted(self.id, self.bookmark) {
                        return true;
                    }
                } else {
                    followed.extend(self.enter(kind, taken));
                }
            }
            let Some(situation) = followed.last_mut() else {
                return false;
            };
            next = self.lead_on(situation);
            if next.is_none()
                && let Some(situation) = followed.pop()
                && self.tries > 0
            {
                self.dead_ends.insert(situation.here);
            }
        }
    }

    /// Returns the situation in which the kinds before this one, and `taken` pods of this one, have been placed. None where it
    /// leads nowhere.
    fn enter(&mut self, kind: usize, taken: usize) -> Option<Situation> {
        if self.tries == 0 || kind == self.kinds.len() || !self.could_lead_on(kind, taken) {
            return None;
        }
        let here = self.here(kind, taken);
        // The situation is sorted, compared, and may be kept.
        self.gang
            .effort
            .spend(STEPS_OF_PLACE * (1 + here.2.len() + here.3.len()));
        if self.gang.effort.is_spent() {
            self.tries = 0;
            return None;
        }
        if self.dead_ends.contains(&here) {
            return None;
        }
        let takes_more = taken < self.kinds[kind].most && self.gang.places.free_for(self.kinds[kind].task()) > 0;
        let choices = if takes_more { self.options(kind) } else { Vec::new() };
        Some(Situation {
            kind,
            taken,
            here,
            choices: choices.into_iter(),
            has_placed: false,
            others_stay_out: false,
        })
    }

    /// Returns what follows from a situation next: with one more pod of its kind, or with the rest of the kind left out. None
    /// where it leads nowhere.
    fn lead_on(&mut self, situation: &mut Situation) -> Option<(usize, usize)> {
        let kind = situation.kind;
        if std::mem::take(&mut situation.has_placed) {
            self.take_back(kind);
        }
        while self.tries > 0
            && let Some(choice) = situation.choices.next()
        {
            let Some(grant) = self.grant(kind, &choice) else {
                continue;
            };
            self.tries -= 1;
            self.place(kind, self.kinds[kind].pods[situation.taken], grant);
            situation.has_placed = true;
            return Some((kind, situation.taken + 1));
        }
        if self.tries == 0 || std::mem::replace(&mut situation.others_stay_out, true) {
            return None;
        }
        Some((kind + 1, 0))
    }

    /// Whether enough pods could get in if each kind had all that is left for itself.
    fn could_lead_on(&self, kind: usize, taken: usize) -> bool {
        let mut places = self.gang.places.clone();
        for (index, other) in self.kinds.iter().enumerate().skip(kind) {
            if self.gang.effort.is_spent() {
                return true;
            }
            let left = other.most - if index == kind { taken } else { 0 };
            let open = left.min(places.free_for(other.task()));
            places.take_up_to(other.task(), self.most_alone(index, open));
            if places.are_taken() {
                return true;
            }
        }
        false
    }

    /// Returns how many pods of a kind, up to `wanted`, could get in if the kind had all that is left for itself; never too few.
    /// Exact where no node has two of the kind's cards or has cards as devices, and no cards are shared through mGPU.
    fn most_alone(&self, kind: usize, wanted: usize) -> usize {
        let cluster = &*self.gang.cluster;
        let shape = &self.kinds[kind].shape;
        let ways = shape.task.alternatives.len().max(1);
        self.gang.effort.spend(ways * (STEPS_OF_QUOTA + self.nodes.looks.len()));
        let quota = verdict::quota_for(cluster, shape, wanted);
        let mut sum = 0_usize;
        for (alternative, most) in quota {
            let room = if self.on_quota && !needs_cards_now(cluster, shape) {
                if self.kinds[kind].is_selectable(alternative) {
                    most
                } else {
                    0
                }
            } else {
                self.nodes.room_for(cluster, kind, alternative, shape, most)
            };
            sum = sum.saturating_add(room);
        }
        sum.min(wanted)
    }

    fn here(&self, kind: usize, taken: usize) -> DeadEnd {
        let moved = self.nodes.moved.iter().filter(|(_, count)| **count != 0);
        (
            kind,
            taken,
            self.cards.iter().map(|(way, count)| (way.clone(), *count)).collect(),
            moved.map(|(look, count)| (*look, *count)).collect(),
        )
    }

    /// Returns what a pod of this kind could get now: its alternatives in order of preference, and for each alternative one node
    /// of every look. Looks with the least free come first.
    fn options(&self, kind: usize) -> Vec<Choice> {
        if self.kinds[kind].governed {
            return vec![Choice::Decided];
        }
        let cluster = &*self.gang.cluster;
        let shape = &self.kinds[kind].shape;
        let Ok(alternatives) = verdict::alternatives_with_quota(cluster, shape) else {
            return Vec::new();
        };
        let mut alternatives = alternatives.into_iter();
        if self.on_quota && !needs_cards_now(cluster, shape) {
            let selectable = alternatives.filter(|alternative| self.kinds[kind].is_selectable(*alternative));
            return selectable
                .map(|alternative| Choice::Of(alternative.cloned(), None))
                .collect();
        }
        let mut options = Vec::new();
        for alternative in alternatives.by_ref() {
            let looks = self.nodes.looks.iter().filter(|(look, id)| {
                !self.nodes.members[**id].is_empty()
                    && self.nodes.copies(cluster, (*look, **id), kind, alternative, shape) > 0
            });
            let mut looks: Vec<_> = looks.map(|(_, id)| *id).collect();
            // Looks with devices come last: devices are left to pods that claim them.
            looks.sort_by_key(|id| {
                let node = self.nodes.members[*id].first();
                node.is_some_and(|(_, node)| fit::takes_devices(cluster, alternative, *node))
            });
            options.extend(
                looks
                    .into_iter()
                    .map(|look| Choice::Of(alternative.cloned(), Some(look))),
            );
        }
        options
    }

    /// Returns what a pod of this kind gets by a choice: on the first node of a look, or as `CrossQuota` decides.
    fn grant(&mut self, kind: usize, choice: &Choice) -> Option<Grant> {
        let shape = &self.kinds[kind].shape;
        let Choice::Of(alternative, look) = choice else {
            return verdict::judge(self.gang.cluster, shape, None, &self.gang.effort).ok();
        };
        let (cluster, alternative) = (&*self.gang.cluster, alternative.as_ref());
        let Some(look) = look else {
            return Some(Grant::of(alternative, None));
        };
        let (_, node) = self.nodes.members[*look].first()?;
        if let Some(request) = mgpu::request(cluster, shape) {
            return mgpu::grant_on(cluster, shape, request, alternative, *node, self.gang.effort.clone());
        }
        let suffice = fit::devices_suffice(cluster, shape, alternative, *node, &self.gang.effort);
        suffice.then(|| Grant::of(alternative, Some(*node)))
    }

    fn place(&mut self, kind: usize, pod: PodId, grant: Grant) {
        let (alternative, node) = (grant.alternative.clone(), grant.node);
        *self.cards.entry((kind, alternative.clone())).or_default() += 1;
        self.gang.admit(pod, grant);
        let node = node.map(|node| (node, self.nodes.look_again(self.gang.cluster, node)));
        self.path.push(Trial { pod, alternative, node });
    }

    fn take_back(&mut self, kind: usize) {
        let Some(Trial { pod, alternative, node }) = self.path.pop() else {
            return;
        };
        self.gang.take_back(&[pod], self.bookmark);
        if let Entry::Occupied(mut count) = self.cards.entry((kind, alternative)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if let Some((node, before)) = node {
            self.nodes.move_to(self.gang.cluster, node, before);
        }
    }
}

/// Whether the mGPU cards of such a pod must be known when it is let in, whatever `admitOn` says.
fn needs_cards_now(cluster: &Cluster, shape: &Shape) -> bool {
    mgpu::request(cluster, shape).is_some() && mgpu::pins(cluster)
}
