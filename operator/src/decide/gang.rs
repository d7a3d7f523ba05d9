//! Gangs: the first `minMember` pods of a group are let in together, or none of them is.
//!
//! They are let in one by one in the ledger, so that each is judged beside those before it, and taken back where not all
//! of them can be. First each gets what it would get alone; only where that does not suffice, other cards and other nodes
//! are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::configuration::AdmitOn;
use k8s_openapi::jiff::Timestamp;

use super::verdict::{self, refusal};
use super::{Admission, Grant, admission, cross_quota, enqueue, fit, hold, mgpu, narrow};
use crate::cluster::amounts::Dimension;
use crate::cluster::names::CardId;
use crate::cluster::node::NodeId;
use crate::cluster::pod::PodId;
use crate::cluster::waiting::{Refused, Shape};
use crate::cluster::workload::{Step, WorkloadId};
use crate::cluster::{Bookmark, Cluster};
use crate::policies::Reason;

/// How many placements are tried before a gang is taken for one that does not fit. Far more than any gang needs whose pods
/// are of a few kinds; a gang that would need more waits until others leave room enough for an easy answer.
const MOST_TRIES: usize = 5_000;

/// A waiting pod and its shape.
type Candidate = (PodId, Arc<Shape>);

/// Lets the missing pods of a group in, all of them, and returns the admissions; or none, and every one of its waiting pods
/// remembers why.
pub(super) fn let_in(cluster: &mut Cluster, id: WorkloadId, now: Timestamp) -> Vec<Admission> {
    match judge(cluster, id, now) {
        Ok(admissions) => {
            cluster.refuse_workload(id, None);
            admissions
        }
        Err((step, cause)) => {
            let mut shapes: Vec<Arc<Shape>> = Vec::new();
            for (_, shape) in line(cluster, id) {
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
            for shape in &shapes {
                let refused = Refused {
                    nodes_matter: cause.nodes_matter,
                    searched: if *shape == cause.shape { cause.searched } else { 0 },
                    ..refusal(cluster, shape, cause.reason)
                };
                let refused = refused.with_levels(cluster, shape.queue, cause.levels);
                verdict::remember(cluster, shape, refused);
                if step == Step::Together {
                    cluster.refuse_workload(id, Some((step, refused)));
                }
            }
            Vec::new()
        }
    }
}

/// Why a gang was refused.
struct Cause {
    reason: Reason,
    nodes_matter: bool,
    /// How many levels from the queue upwards it depends on.
    levels: usize,
    /// The shape that was searched for on every node in vain, while nothing of the gang was on any.
    shape: Arc<Shape>,
    searched: u64,
}

fn judge(cluster: &mut Cluster, id: WorkloadId, now: Timestamp) -> Result<Vec<Admission>, (Step, Cause)> {
    let line = line(cluster, id);
    let missing = cluster.workload(id).missing();
    let Some((_, first)) = line.first() else {
        return Ok(Vec::new());
    };
    let because = |reason, nodes_matter| Cause {
        reason,
        nodes_matter,
        levels: 1,
        shape: Arc::clone(first),
        searched: 0,
    };
    enqueue::before_pods(cluster, id).map_err(|refused| {
        let cause = because(refused.reason, refused.nodes_matter);
        let levels = refused.levels;
        (Step::Enqueue, Cause { levels, ..cause })
    })?;
    if line.len() < missing {
        return Err((Step::Together, because(Reason::PodGroupIncomplete, false)));
    }
    let bookmark = cluster.bookmark(line.iter().map(|(pod, _)| *pod));
    let mut gang = Gang {
        cluster,
        missing,
        now,
        admitted: Vec::with_capacity(missing),
    };
    let cause = match gang.each_as_if_alone(&line) {
        Ok(()) => return Ok(gang.admissions()),
        Err(cause) => cause,
    };
    gang.take_back(0, &bookmark);
    let choices = line
        .iter()
        .any(|(_, shape)| *shape != line[0].1 || shape.task.cards.len() > 1);
    // Where CrossQuota decides, it has: the best node for each pod beside those before it.
    let governed = line.iter().any(|(_, shape)| cross_quota::governs(gang.cluster, shape));
    if choices && missing > 1 && !governed {
        let classes = Classes::new(gang.cluster, &line);
        let mut tries = MOST_TRIES;
        if gang.any_way(&line, None, &classes, &bookmark, &mut tries) {
            return Ok(gang.admissions());
        }
        gang.take_back(0, &bookmark);
    }
    if !could_ever_fit(cluster, id) {
        cluster.dequeue(id);
    }
    Err((Step::Together, cause))
}

/// The waiting pods of a group, first to go first.
fn line(cluster: &Cluster, id: WorkloadId) -> Vec<Candidate> {
    let line = cluster.workload(id).line.iter().map(|(_, place)| place.pod);
    line.filter_map(|pod| Some((pod, Arc::clone(&cluster.pod(pod)?.waits.as_ref()?.shape))))
        .collect()
}

/// Whether enough of a group's waiting pods could run if nothing else did. What can't must keep no quota from others.
pub(super) fn could_ever_fit(cluster: &Cluster, id: WorkloadId) -> bool {
    if cluster.configuration().cardgate.admit_on == AdmitOn::Quota {
        return true;
    }
    let workload = cluster.workload(id);
    if workload.line.len() < workload.missing() {
        return true;
    }
    let mut asked: Vec<(Arc<Shape>, bool)> = Vec::new();
    let fitting = line(cluster, id).into_iter().filter(|(_, shape)| {
        if let Some((_, known)) = asked.iter().find(|(known, _)| known == shape) {
            return *known;
        }
        let cards = &shape.task.cards;
        let cards: Vec<_> = if cards.is_empty() {
            vec![None]
        } else {
            cards.iter().copied().map(Some).collect()
        };
        let fits = cards.into_iter().any(|card| {
            fit::candidates(cluster, card)
                .iter()
                .any(|node| fit::could_take(cluster, shape, card, *node))
        });
        asked.push((Arc::clone(shape), fits));
        fits
    });
    fitting.count() >= workload.missing()
}

/// A gang that is being let in.
struct Gang<'c> {
    cluster: &'c mut Cluster,
    missing: usize,
    now: Timestamp,
    admitted: Vec<(PodId, Admission)>,
}

impl Gang<'_> {
    fn admissions(self) -> Vec<Admission> {
        self.admitted.into_iter().map(|(_, admission)| admission).collect()
    }

    fn is_complete(&self) -> bool {
        self.admitted.len() == self.missing
    }

    fn admit(&mut self, pod: PodId, grant: Grant) {
        self.admitted
            .extend(admission(self.cluster, pod, &grant).map(|admission| (pod, admission)));
        hold(self.cluster, pod, grant, self.now);
    }

    /// Takes back all but the first so many.
    fn take_back(&mut self, keep: usize, bookmark: &Bookmark) {
        let back: Vec<_> = self.admitted.drain(keep..).map(|(pod, _)| pod).collect();
        self.cluster.take_back(&back, bookmark);
    }

    /// Each pod gets what it would get alone beside those before it. Who gets nothing is passed over.
    fn each_as_if_alone(&mut self, line: &[Candidate]) -> Result<(), Cause> {
        let mut refused: Vec<(&Arc<Shape>, Refused)> = Vec::new();
        let mut searched = 0;
        for (index, (pod, shape)) in line.iter().enumerate() {
            if self.is_complete() {
                break;
            }
            if refused.iter().any(|(known, _)| *known == shape) {
                continue;
            }
            let queue = &self.cluster.queue(shape.queue).waiting;
            let earlier = queue
                .group_of(shape)
                .and_then(|(_, group)| group.refused)
                .filter(|_| index == 0);
            match verdict::judge(self.cluster, shape, earlier) {
                Ok(grant) => self.admit(*pod, grant),
                Err(refusal) => {
                    if index == 0 {
                        searched = refusal.searched;
                    }
                    refused.push((shape, refusal));
                }
            }
        }
        let Some((shape, first)) = refused.first().filter(|_| !self.is_complete()) else {
            return Ok(());
        };
        Err(Cause {
            reason: first.reason,
            nodes_matter: refused.iter().any(|(_, refused)| refused.nodes_matter),
            levels: refused.iter().map(|(_, refused)| refused.levels).max().unwrap_or(1),
            shape: Arc::clone(shape),
            searched,
        })
    }

    /// Tries every way to let enough of the line in, as far as `tries` lead; whether one was found.
    ///
    /// Pods of one shape are the same to everybody: they take their places in order, and where one is passed over, so are
    /// those behind it.
    fn any_way(
        &mut self,
        line: &[Candidate],
        before: Option<(&Arc<Shape>, Choice)>,
        classes: &Classes,
        bookmark: &Bookmark,
        tries: &mut usize,
    ) -> bool {
        if self.is_complete() {
            return true;
        }
        let open = self.missing - self.admitted.len();
        let Some(((pod, shape), rest)) = line.split_first().filter(|_| line.len() >= open) else {
            return false;
        };
        let least = before.filter(|(known, _)| *known == shape).map(|(_, option)| option);
        for (option, grant) in self.options(shape, classes, least) {
            if *tries == 0 {
                return false;
            }
            *tries -= 1;
            let keep = self.admitted.len();
            self.admit(*pod, grant);
            if self.any_way(rest, Some((shape, option)), classes, bookmark, tries) {
                return true;
            }
            self.take_back(keep, bookmark);
        }
        let others: Vec<_> = rest.iter().filter(|(_, other)| other != shape).cloned().collect();
        self.any_way(&others, None, classes, bookmark, tries)
    }

    /// What a pod of this shape could get now, one node of each class, not before `least`.
    fn options(&self, shape: &Arc<Shape>, classes: &Classes, least: Option<Choice>) -> Vec<(Choice, Grant)> {
        let cluster = &*self.cluster;
        let Ok(cards) = verdict::cards_with_quota(cluster, shape) else {
            return Vec::new();
        };
        let on_quota = cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
        let mut options = Vec::new();
        for (preference, card) in cards.into_iter().enumerate() {
            let preference = card.map_or(preference, |card| {
                shape
                    .task
                    .cards
                    .iter()
                    .position(|known| *known == card)
                    .unwrap_or(preference)
            });
            if let Some(request) = mgpu::request(cluster, shape).filter(|_| mgpu::pins(cluster) || !on_quota) {
                // What is in use of the cards tells these nodes apart, so each is one of its own.
                let places = cluster.mgpu_nodes().iter().enumerate();
                let after = places.filter(|(place, _)| least.is_none_or(|least| (preference, *place) >= least));
                options.extend(after.filter_map(|(place, node)| {
                    let grant = mgpu::grant_on(cluster, shape, request, card, *node)?;
                    Some(((preference, place), grant))
                }));
                continue;
            }
            if on_quota {
                let selectable = card.is_none_or(|card| narrow::labels_of(cluster, shape, card).is_some());
                options.extend(selectable.then_some(((preference, 0), Grant::of(card, None))));
                continue;
            }
            let mut seen = BTreeSet::new();
            for (place, node) in fit::candidates(cluster, card).iter().enumerate() {
                let option = (preference, place);
                if least.is_none_or(|least| option >= least)
                    && fit::takes(cluster, shape, card, *node)
                    && seen.insert(classes.of(cluster, *node))
                {
                    options.push((option, Grant::of(card, Some(*node))));
                }
            }
        }
        options
    }
}

/// A card by its place among the alternatives, and a node by its place among the candidates.
type Choice = (usize, usize);

/// What tells nodes apart for one gang: which of its shapes may go there at all, and how much is free of what they ask for.
struct Classes {
    dimensions: Vec<Dimension>,
    marks: BTreeMap<NodeId, u128>,
}

impl Classes {
    fn new(cluster: &Cluster, line: &[Candidate]) -> Self {
        let mut shapes: Vec<&Arc<Shape>> = Vec::new();
        for (_, shape) in line {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        let requested = shapes.iter().flat_map(|shape| shape.task.request.iter());
        let dimensions: BTreeSet<_> = requested.map(|(dimension, _)| dimension).collect();
        let pairs = shapes.iter().flat_map(|shape| {
            let cards: Vec<Option<CardId>> = if shape.task.cards.is_empty() {
                vec![None]
            } else {
                shape.task.cards.iter().copied().map(Some).collect()
            };
            cards.into_iter().map(move |card| (*shape, card))
        });
        let mut marks = BTreeMap::new();
        for (index, (shape, card)) in pairs.enumerate() {
            for node in fit::candidates(cluster, card) {
                if fit::could_take(cluster, shape, card, *node) {
                    // Beyond 128 kinds of pods some nodes are taken for the same that are not; then some ways are missed.
                    *marks.entry(*node).or_default() |= 1_u128
                        .checked_shl(u32::try_from(index).unwrap_or(u32::MAX))
                        .unwrap_or(0);
                }
            }
        }
        Self {
            dimensions: dimensions.into_iter().collect(),
            marks,
        }
    }

    fn of(&self, cluster: &Cluster, id: NodeId) -> (u128, Vec<i128>) {
        let node = cluster.node(id);
        let free = self.dimensions.iter().map(|dimension| {
            let has = node.offer.as_ref().map_or(0, |offer| offer.allocatable.get(*dimension));
            i128::from(has) - node.used.get(*dimension)
        });
        (self.marks.get(&id).copied().unwrap_or(0), free.collect())
    }
}
