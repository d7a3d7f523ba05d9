//! Which pods and workloads are told something next: each namespace in each queue in turn, so that a crowd does not keep others from hearing
//! why they wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::has_been_patient;
use crate::cluster::waiting::Shape;
use crate::cluster::{Cluster, Lane};
use crate::ids::{PodId, WorkloadId};
use crate::reason::Reason;

/// The most shapes of pods in one queue, and the most workloads, that are looked at to find the next ones. The rest follows when these have
/// been told.
const MOST_LOOKS: usize = 1_000;

/// A pod that has to be told why it waits.
pub(super) struct Untold {
    pub lane: Lane,
    pub pod: PodId,
    pub reason: Reason,
    pub shape: Arc<Shape>,
}

/// Returns at most `limit` pods that have to be told why they wait, and have waited for a moment, beginning behind the lane that was told
/// last.
pub(super) fn untold_pods(cluster: &Cluster, now: Timestamp, limit: usize) -> Vec<Untold> {
    let after = cluster.last_told_lane();
    let mut lanes = BTreeMap::<Lane, VecDeque<Untold>>::new();
    for (id, queue) in cluster.untold_queues_from(after.map(|(queue, _)| *queue)) {
        for peers in queue.waiting.untold().take(limit.max(MOST_LOOKS)) {
            let Some(refused) = peers.refused else { continue };
            let lane = (id, Arc::clone(&peers.shape.namespace));
            let found = lanes.entry(lane.clone()).or_default();
            let old_enough = peers.untold.iter().filter(|place| has_been_patient(place.created, now));
            found.extend(old_enough.take(limit - found.len()).map(|place| Untold {
                lane: lane.clone(),
                pod: place.pod,
                reason: refused.reason,
                shape: Arc::clone(&peers.shape),
            }));
        }
        lanes.retain(|_, found| !found.is_empty());
        // Pods of the first queue that were told last come behind all others.
        if lanes.len() > limit {
            break;
        }
    }
    in_turn(lanes, after).take(limit).collect()
}

/// Returns workloads about which there may be something to tell, one of each namespace in turn, beginning behind the one that was told last.
/// The others are left in `moved`.
pub(super) fn moved_workloads(cluster: &Cluster, moved: &mut BTreeSet<WorkloadId>) -> Vec<WorkloadId> {
    let (after, namespace) = cluster.last_told_workload().unzip();
    let mut looked = after.map_or_else(BTreeSet::new, |after| moved.split_off(&after));
    let mut lanes = BTreeMap::<Arc<str>, VecDeque<WorkloadId>>::new();
    for _ in 0..MOST_LOOKS {
        let Some(id) = looked.pop_first().or_else(|| moved.pop_first()) else {
            break;
        };
        let namespace = Arc::clone(&cluster.workload(id).namespace);
        lanes.entry(namespace).or_default().push_back(id);
    }
    moved.append(&mut looked);
    in_turn(lanes, namespace.as_ref()).collect()
}

/// Returns one item of each lane in turn, beginning with the lane behind `after`.
fn in_turn<L: Ord, T>(mut lanes: BTreeMap<L, VecDeque<T>>, after: Option<&L>) -> impl Iterator<Item = T> {
    let mut order = VecDeque::with_capacity(lanes.len());
    if let Some(after) = after {
        let own = lanes.remove(after);
        let behind = lanes.split_off(after);
        order.extend(behind.into_values());
        order.extend(lanes.into_values());
        order.extend(own);
    } else {
        order.extend(lanes.into_values());
    }
    std::iter::from_fn(move || {
        loop {
            let mut lane = order.pop_front()?;
            if let Some(next) = lane.pop_front() {
                order.push_back(lane);
                return Some(next);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_before_anybody_has_two() {
        let lanes = || {
            let lanes = [("a", [1, 2, 3].as_slice()), ("b", &[4]), ("d", &[5, 6])];
            BTreeMap::from(lanes.map(|(lane, all)| (lane, all.iter().copied().collect::<VecDeque<_>>())))
        };
        for (after, expected) in [
            (None, [1, 4, 5, 2, 6, 3]),
            (Some("a"), [4, 5, 1, 6, 2, 3]),
            (Some("b"), [5, 1, 4, 6, 2, 3]),
            (Some("c"), [5, 1, 4, 6, 2, 3]),
            (Some("e"), [1, 4, 5, 2, 6, 3]),
        ] {
            assert!(in_turn(lanes(), after.as_ref()).eq(expected), "{after:?}");
        }
    }
}
