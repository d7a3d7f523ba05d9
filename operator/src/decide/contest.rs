//! Whose turn it is: queues by priority, then share, then age, and before them those below a guarantee that is scarce; in a
//! queue by priority, then age.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::verdict;
use crate::cluster::Cluster;
use crate::cluster::amounts::Dimension;
use crate::cluster::queue::QueueId;
use crate::cluster::share::Share;
use crate::cluster::waiting::Place;
use crate::cluster::workload::WorkloadId;

/// What is to be judged next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// A workload that waits to be let into its queue.
    Workload(WorkloadId),
    /// The first of the waiting pods of a shape.
    Pods(u64),
}

/// Turns by priority and place, first to go first.
type Turns = BinaryHeap<Reverse<(Reverse<i32>, Place, Turn)>>;

/// The queues that have something to judge. What was refused, and is refused still, takes no part.
pub(super) struct Contest {
    queues: BTreeSet<Standing>,
    /// The turns of each queue.
    turns: Vec<Turns>,
    /// The dimensions of which so much is in use that queues below their guarantee go first.
    scarce: Vec<Dimension>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// These go first while what is guaranteed to them is scarce (the capacity document, section 4, `guaranteeThreshold`).
    below_guarantee: Reverse<bool>,
    priority: Reverse<i32>,
    share: Share,
    created: Timestamp,
    name: Arc<str>,
    queue: QueueId,
    contest: usize,
}

impl Contest {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut contest = Self {
            queues: BTreeSet::new(),
            turns: Vec::new(),
            scarce: cluster.scarce_guarantees(),
        };
        let concerned = |queue: &crate::cluster::queue::Queue| !queue.waiting.is_empty() || !queue.held.is_empty();
        for (id, queue) in cluster.queues().filter(|(_, queue)| concerned(queue)) {
            let pods = queue.waiting.groups().filter(|(_, group)| {
                group
                    .refused
                    .is_none_or(|refused| !verdict::stands(cluster, id, group.shape.group, refused))
            });
            let pods = pods.filter_map(|(group_id, group)| {
                Some((
                    Reverse(group.shape.priority),
                    *group.pods.first()?,
                    Turn::Pods(group_id),
                ))
            });
            let held = queue.held.iter().map(|id| (*id, cluster.workload(*id)));
            let held = held.filter(|(held, workload)| {
                workload
                    .refused
                    .is_none_or(|(_, refused)| !verdict::stands(cluster, id, Some(*held), refused))
            });
            let held = held.map(|(id, workload)| (Reverse(workload.priority()), workload.place(), Turn::Workload(id)));
            let turns: Turns = pods.chain(held).map(Reverse).collect();
            if !turns.is_empty() {
                contest
                    .queues
                    .insert(Standing::of(cluster, id, contest.turns.len(), &contest.scarce));
                contest.turns.push(turns);
            }
        }
        contest
    }

    /// Whose turn it is. Pods of a shape take part with the first of those that still wait: gangs take pods of several shapes
    /// at once.
    pub(super) fn next(&mut self, cluster: &Cluster) -> Option<(QueueId, Turn)> {
        while let Some(standing) = self.queues.first() {
            let turns = &mut self.turns[standing.contest];
            while let Some(Reverse((priority, place, turn))) = turns.peek().copied() {
                let first = match turn {
                    Turn::Workload(_) => Some(place),
                    Turn::Pods(group) => {
                        let group = cluster.queue(standing.queue).waiting.group(group);
                        group.and_then(|group| group.pods.first().copied())
                    }
                };
                if first == Some(place) {
                    return Some((standing.queue, turn));
                }
                turns.pop();
                turns.extend(first.map(|place| Reverse((priority, place, turn))));
            }
            self.queues.pop_first();
        }
        None
    }

    /// Whoever had the turn is out for this round.
    pub(super) fn done(&mut self) {
        let Some(standing) = self.queues.first() else { return };
        let turns = &mut self.turns[standing.contest];
        turns.pop();
        if turns.is_empty() {
            self.queues.pop_first();
        }
    }

    /// Pods of this queue were let in, and its share has grown.
    pub(super) fn admitted(&mut self, cluster: &Cluster, queue: QueueId) {
        if let Some(standing) = self.queues.pop_first() {
            self.queues
                .insert(Standing::of(cluster, queue, standing.contest, &self.scarce));
        }
        let scarce = cluster.scarce_guarantees();
        if scarce != self.scarce {
            self.scarce = scarce;
            let standings = self.queues.iter();
            let standings = standings.map(|one| Standing::of(cluster, one.queue, one.contest, &self.scarce));
            self.queues = standings.collect();
        }
    }
}

impl Standing {
    fn of(cluster: &Cluster, id: QueueId, contest: usize, scarce: &[Dimension]) -> Self {
        let queue = cluster.queue(id);
        let terms = queue.terms.as_ref();
        let is_below = |dimension: &Dimension| queue.allocated_in_all(*dimension) < queue.guarantee(*dimension);
        Self {
            below_guarantee: Reverse(scarce.iter().any(is_below)),
            priority: Reverse(terms.map_or(0, |terms| terms.priority)),
            share: cluster.share(id),
            created: terms.map_or(Timestamp::MAX, |terms| terms.created),
            name: Arc::clone(&queue.name),
            queue: id,
            contest,
        }
    }
}
