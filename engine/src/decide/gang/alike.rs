//! Gangs that wait alike share a verdict, as pods of one shape do.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use super::{Cause, InLine};
use crate::cluster::Cluster;
use crate::cluster::waiting::{Refused, Shape};
use crate::cluster::workload::Step;
use crate::decide::effort::Payer;
use crate::decide::verdict;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::lacking::Lacking;

/// Everything that decides whether the pods of a gang get in together, except their age.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Likeness {
    lacking: Lacking,
    is_started: bool,
    /// Whether the group itself asks for cards, so that what it asks for has been checked.
    asks_for_cards: bool,
    /// What is kept for its pods alone, by queue.
    reserved: Vec<(QueueId, Demand)>,
    /// The group, where pods are evicted for it: what is set aside for it is not for a gang like it.
    served: Option<WorkloadId>,
    /// Its waiting pods, in order, as runs of pods of one shape.
    line: Vec<(OfAnyGroup, usize)>,
}

/// A shape, whatever group it belongs to.
#[derive(Debug)]
struct OfAnyGroup(Arc<Shape>);

impl PartialEq for OfAnyGroup {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&*self.0, &*other.0);
        if std::ptr::eq(one, other) {
            return true;
        }
        one.hash_in_any_group() == other.hash_in_any_group()
            && (one.queue, &one.namespace, one.priority, one.cross_quota)
                == (other.queue, &other.namespace, other.priority, other.cross_quota)
            && (&one.task, &one.constraints, &one.task_spec) == (&other.task, &other.constraints, &other.task_spec)
    }
}

impl Eq for OfAnyGroup {}

impl Hash for OfAnyGroup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash_in_any_group());
    }
}

impl Likeness {
    pub(super) fn of(cluster: &Cluster, id: WorkloadId, lacking: Lacking, line: &[InLine]) -> Self {
        let mut runs: Vec<(OfAnyGroup, usize)> = Vec::new();
        for (_, shape) in line {
            match runs.last_mut() {
                Some((last, count)) if last.0 == *shape => *count += 1,
                _ => runs.push((OfAnyGroup(Arc::clone(shape)), 1)),
            }
        }
        let workload = cluster.workload(id);
        let terms = workload.terms.as_ref();
        let reserved = cluster.kept_for_pods_of(id);
        Self {
            lacking,
            is_started: workload.is_started(),
            asks_for_cards: terms.is_some_and(|terms| !terms.demand.cards.is_empty()),
            reserved: reserved.map(|(queue, demand)| (queue, demand.clone())).collect(),
            served: Some(id).filter(|id| cluster.sets_aside_for(*id)),
            line: runs,
        }
    }
}

/// The gangs that were refused in this round.
#[derive(Debug, Default)]
pub(in crate::decide) struct Refusals {
    known: HashMap<Likeness, (Refusal, Vec<(QueueId, Refused)>)>,
    /// How many gangs were judged by themselves.
    pub(in crate::decide) judged: usize,
    /// Whether what was kept for a gang that can never run is no longer kept: other gangs may have been refused because of it.
    pub(in crate::decide) gave_back: bool,
    /// The turns that each gang has had.
    turns: HashMap<WorkloadId, GangTurns>,
}

/// The turns of a gang in one round.
#[derive(Debug)]
struct GangTurns {
    count: usize,
    /// Who pays for them.
    payers: Rc<BTreeSet<Payer>>,
    /// Whether some of its pods are to be read anew before it is judged.
    is_to_be_read: bool,
}

/// How often a gang is judged in one round, however many shapes its pods have. Each shape has a turn, and what others leave may
/// let in a gang that was refused before. A gang of more shapes than that waits for the next round.
const TURNS: usize = 16;

/// Why a gang was refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) step: Step,
    pub(super) cause: Cause,
    /// Whether the gang would not get in even if nothing else were there.
    pub(super) never_fits: bool,
}

impl Refusals {
    /// Counts a turn of a gang and returns who pays for it. None where the gang has no turn left in this round.
    pub(in crate::decide) fn turn(&mut self, cluster: &Cluster, gang: WorkloadId) -> Option<Rc<BTreeSet<Payer>>> {
        let turns = self.turns.entry(gang).or_insert_with(|| GangTurns {
            count: 0,
            payers: Rc::new(super::payers(cluster, gang)),
            is_to_be_read: cluster.has_pods_to_be_read(gang),
        });
        turns.count += 1;
        (turns.count <= TURNS).then(|| Rc::clone(&turns.payers))
    }

    /// Whether a pod, or any pod of its gang, which has had a turn, is to be read anew before it is judged.
    pub(in crate::decide) fn is_to_be_read(
        &self,
        cluster: &Cluster,
        gang: Option<WorkloadId>,
        pod: Option<PodId>,
    ) -> bool {
        match gang {
            Some(gang) => self.turns.get(&gang).is_some_and(|turns| turns.is_to_be_read),
            None => pod.is_some_and(|pod| cluster.is_to_be_read(pod)),
        }
    }

    /// Whether the gang need not be judged in the turn of this shape: it was refused in the turn of another of its shapes, and nothing
    /// that matters has changed since. False while anything is set aside for any pod, and once a gang lost what was kept for it in this
    /// round: that gang may be this one, so the earlier refusal says nothing any more.
    pub(in crate::decide) fn stand_for(&self, cluster: &Cluster, gang: WorkloadId, shape: &Shape) -> bool {
        !self.gave_back && !cluster.sets_aside() && super::stands(cluster, gang, shape)
    }

    /// Returns why a gang like this one was refused, where nothing that matters has changed since.
    pub(super) fn of(&self, cluster: &Cluster, likeness: &Likeness) -> Option<Refusal> {
        let (refusal, refused) = self.known.get(likeness)?;
        let stands = |(queue, refused): &(QueueId, Refused)| verdict::stands(cluster, *queue, None, *refused);
        refused.iter().all(stands).then_some(*refusal)
    }

    pub(super) fn remember(&mut self, cluster: &Cluster, likeness: Likeness, refusal: Refusal) {
        let cause = refusal.cause;
        // A tenant may name as many queues as there are pods.
        let queues: BTreeSet<_> = likeness.line.iter().map(|(shape, _)| shape.0.queue).collect();
        let refused = queues.into_iter().map(|queue| {
            let versions = Refused {
                nodes_matter: cause.nodes_matter,
                ..cluster.refusal(queue, None, cause.reason)
            };
            (queue, versions.with_levels(cluster, queue, cause.levels))
        });
        let refused = refused.collect();
        self.known.insert(likeness, (refusal, refused));
    }
}
