//! Whose turn it is. Queues go by priority, then share, then age; queues below a guarantee that is scarce go before all others.
//! In a queue, pods and workloads go by priority, then age.
//!
//! Where queues are parts of others, siblings are compared: two queues are compared by those of their ancestors that have the
//! same parent. So a department's order among departments does not depend on how it is divided, and no department gets ahead by
//! the priority of one of its parts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use jiff::Timestamp;

use super::verdict;
use crate::amounts::Dimension;
use crate::cluster::place::Place;
use crate::cluster::queue::Queue;
use crate::cluster::waiting::Refused;
use crate::cluster::{Cluster, Dependence};
use crate::ids::{QueueId, WorkloadId};
use crate::share::Share;

/// What is to be judged next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// A workload that waits to be let into its queue.
    Workload(WorkloadId),
    /// The first of the waiting pods of a shape.
    Pods(u64),
}

/// Turns by priority and place; the first in that order goes first.
type Turns = BinaryHeap<Reverse<(Reverse<i32>, Place, Turn)>>;

/// The queues that have something to judge, and the queues that these are parts of. What was refused, and is refused still, takes
/// no part.
pub(super) struct Contest {
    /// The queues without a parent.
    top: BTreeSet<Standing>,
    branches: BTreeMap<QueueId, Branch>,
    /// The dimensions of which so much is in use that queues below their guarantee go first.
    scarce: Vec<Dimension>,
    /// The queue whose turn it is.
    current: Option<QueueId>,
}

/// A queue, and those of its parts that have something to judge.
#[derive(Default)]
struct Branch {
    turns: Turns,
    parts: BTreeSet<Standing>,
    /// Where the queue stands beside others, once it is ranked.
    standing: Option<Standing>,
}

/// A queue among those with the same parent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// Queues below their guarantee go first while what is guaranteed to them, or to a part of them, is scarce (the capacity
    /// document, section 4, `guaranteeThreshold`).
    below_guarantee: Reverse<bool>,
    priority: Reverse<i32>,
    share: Share,
    created: Timestamp,
    name: Arc<str>,
    queue: QueueId,
}

impl Contest {
    /// Collects the turns of all queues. Resting queues are not looked at, unless that is checked.
    pub(super) fn new(cluster: &mut Cluster, is_rest_checked: bool) -> Self {
        let mut contest = Self {
            top: BTreeSet::new(),
            branches: BTreeMap::new(),
            scarce: cluster.scarce_guarantees(),
            current: None,
        };
        cluster.begin_look();
        while let Some(id) = cluster.next_to_look_at() {
            let (turns, dependence) = turns(cluster, id);
            if turns.is_empty() {
                cluster.rest_queue(id, dependence);
                continue;
            }
            cluster.stir_queue(id);
            for ancestor in cluster.ancestry(id) {
                contest.branches.entry(ancestor).or_default();
            }
            contest.branches.entry(id).or_default().turns = turns;
        }
        debug_assert_eq!(
            is_rest_checked.then(|| contest.overlooked(cluster)).flatten(),
            None,
            "a queue rests that has something to judge"
        );
        contest.rank_all(cluster);
        contest
    }

    /// Returns a queue that has something to judge and takes no part.
    fn overlooked(&self, cluster: &Cluster) -> Option<Arc<str>> {
        let takes_part = |id| self.branches.get(&id).is_some_and(|branch| !branch.turns.is_empty());
        let mut others = cluster.queues().filter(|(id, _)| !takes_part(*id));
        let (_, queue) = others.find(|(id, _)| !turns(cluster, *id).0.is_empty())?;
        Some(Arc::clone(&queue.name))
    }

    /// Returns whose turn it is. Pods of a shape take part with the first pod that still waits, since gangs take pods of several
    /// shapes at once.
    pub(super) fn next(&mut self, cluster: &Cluster) -> Option<(QueueId, Turn)> {
        loop {
            let mut id = self.top.first()?.queue;
            loop {
                let branch = self.branches.get_mut(&id)?;
                if let Some(turn) = branch.turn(cluster.queue(id)) {
                    self.current = Some(id);
                    return Some((id, turn));
                }
                let Some(first) = branch.parts.first() else { break };
                id = first.queue;
            }
            self.leave(cluster, id);
        }
    }

    /// Takes the present turn out of this round.
    pub(super) fn done(&mut self) {
        let branch = self.current.and_then(|id| self.branches.get_mut(&id));
        branch.and_then(|branch| branch.turns.pop());
    }

    /// Ranks a queue anew whose pods were let in: its share has grown, and the share of every queue above it.
    pub(super) fn admitted(&mut self, cluster: &Cluster, queue: QueueId) {
        let scarce = cluster.scarce_guarantees();
        if scarce == self.scarce {
            self.rank(cluster, Some(queue));
        } else {
            self.scarce = scarce;
            self.rank_all(cluster);
        }
    }

    /// Takes out a queue that has nothing to judge any more.
    fn leave(&mut self, cluster: &Cluster, id: QueueId) {
        let parent = cluster.queue(id).parent();
        if let Some(standing) = self.branches.remove(&id).and_then(|branch| branch.standing) {
            self.beside(parent).remove(&standing);
        }
        self.rank(cluster, parent);
    }

    /// Returns the queues with this parent.
    fn beside(&mut self, parent: Option<QueueId>) -> &mut BTreeSet<Standing> {
        match parent.and_then(|parent| self.branches.get_mut(&parent)) {
            Some(branch) => &mut branch.parts,
            None => &mut self.top,
        }
    }

    /// Ranks a queue and all queues above it anew.
    fn rank(&mut self, cluster: &Cluster, queue: Option<QueueId>) {
        for id in queue.into_iter().flat_map(|queue| cluster.ancestry(queue)) {
            self.rank_one(cluster, id);
        }
    }

    fn rank_one(&mut self, cluster: &Cluster, id: QueueId) {
        let Some(branch) = self.branches.get_mut(&id) else {
            return;
        };
        let has_part_below = branch.parts.first().is_some_and(|first| first.below_guarantee.0);
        let standing = Standing::of(cluster, id, &self.scarce, has_part_below);
        let before = branch.standing.replace(standing.clone());
        let beside = self.beside(cluster.queue(id).parent());
        if let Some(before) = before {
            beside.remove(&before);
        }
        beside.insert(standing);
    }

    /// Ranks all queues anew.
    fn rank_all(&mut self, cluster: &Cluster) {
        let depth = |id: &QueueId| cluster.ancestry(*id).count();
        let mut ids: Vec<_> = self.branches.keys().map(|id| (depth(id), *id)).collect();
        ids.sort_unstable();
        for (_, id) in ids.into_iter().rev() {
            self.rank_one(cluster, id);
        }
    }
}

impl Branch {
    /// Returns the next turn of the queue itself.
    fn turn(&mut self, queue: &Queue) -> Option<Turn> {
        while let Some(Reverse((priority, place, turn))) = self.turns.peek().copied() {
            let first = match turn {
                Turn::Workload(_) => Some(place),
                Turn::Pods(peers) => {
                    let peers = queue.waiting.get(peers);
                    peers.and_then(|peers| peers.pods.first().copied())
                }
            };
            if first == Some(place) {
                return Some(turn);
            }
            self.turns.pop();
            self.turns.extend(first.map(|place| Reverse((priority, place, turn))));
        }
        None
    }
}

/// Returns what a queue has to judge, and what its refusals of all else depend on.
fn turns(cluster: &Cluster, id: QueueId) -> (Turns, Dependence) {
    let queue = cluster.queue(id);
    let mut dependence = Dependence::default();
    let mut stands = |workload: Option<WorkloadId>, refused: Refused| {
        dependence.levels = dependence.levels.max(refused.levels);
        dependence.nodes |= refused.nodes_matter;
        dependence.workloads.extend(workload);
        verdict::stands(cluster, id, workload, refused)
    };
    let mut turns = Turns::new();
    for (number, peers) in queue.waiting.peers() {
        let is_refused = peers.refused.is_some_and(|refused| stands(peers.shape.group, refused));
        if let Some(first) = peers.pods.first().filter(|_| !is_refused) {
            turns.push(Reverse((Reverse(peers.shape.priority), *first, Turn::Pods(number))));
        }
    }
    for workload_id in queue.in_line() {
        let workload = cluster.workload(*workload_id);
        if !workload
            .refused
            .is_some_and(|(_, refused)| stands(Some(*workload_id), refused))
        {
            let turn = Turn::Workload(*workload_id);
            turns.push(Reverse((Reverse(workload.priority()), workload.place(), turn)));
        }
    }
    (turns, dependence)
}

impl Standing {
    fn of(cluster: &Cluster, id: QueueId, scarce: &[Dimension], has_part_below: bool) -> Self {
        let queue = cluster.queue(id);
        let terms = queue.terms();
        let is_below = |dimension: &Dimension| queue.allocated_in_all(*dimension) < queue.guarantee(*dimension);
        Self {
            below_guarantee: Reverse(has_part_below || scarce.iter().any(is_below)),
            priority: Reverse(terms.map_or(0, |terms| terms.priority)),
            share: cluster.share(id),
            created: terms.map_or(Timestamp::MAX, |terms| terms.created),
            name: Arc::clone(&queue.name),
            queue: id,
        }
    }
}

#[cfg(test)]
mod tests;
