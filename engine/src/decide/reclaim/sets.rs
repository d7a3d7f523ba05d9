//! Which pods wait in a queue for something that others could give back.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::PODS_PER_LOOK;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::line::{InLine, first_missing};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::Cure;

/// Pods that wait and are looked at together or one by one.
pub(super) enum Set {
    /// Pods of one shape, each by itself.
    OneByOne(Arc<Shape>, Vec<PodId>),
    Together(WorkloadId, Vec<InLine>),
}

impl Set {
    /// Returns how many pods these are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::OneByOne(_, pods) => pods.len(),
            Self::Together(_, pods) => pods.len(),
        }
    }

    /// Returns the pod that goes first.
    pub(super) fn first(&self) -> Option<PodId> {
        match self {
            Self::OneByOne(_, pods) => pods.first().copied(),
            Self::Together(_, pods) => pods.first().map(|(pod, _)| *pod),
        }
    }
}

/// Returns the sets of pods that wait in a queue for something that others could give back; the set that goes first comes first.
pub(super) fn waiting_sets(cluster: &Cluster, queue: QueueId, now: Timestamp) -> Vec<Set> {
    let refused = cluster.queue(queue).waiting.peers().filter(|(_, peers)| {
        let reason = peers.refused.map(|refused| refused.reason);
        reason.is_some_and(|reason| matches!(reason.cure(), Cure::Eviction | Cure::Release))
    });
    let mut gangs = BTreeSet::new();
    let mut sets = Vec::new();
    for (_, peers) in refused {
        let Some(first) = peers.pods.first() else { continue };
        let gang = peers.shape.group.map(|id| (id, cluster.workload(id)));
        let set = match gang.filter(|(_, workload)| workload.missing() > 0) {
            Some((id, _)) if !gangs.insert(id) => continue,
            Some((id, workload)) => {
                let pods = first_missing(cluster, id);
                // A gang whose pods are in several queues is looked at in the queue of its first pod alone.
                let is_here = pods.first().is_some_and(|(_, shape)| shape.queue == queue);
                let may_get_in = |(pod, _): &InLine| may_get_in(cluster, *pod, now);
                if !is_here || pods.len() < workload.missing() || !pods.iter().all(may_get_in) {
                    continue;
                }
                Set::Together(id, pods)
            }
            None => {
                let pods = peers.pods.iter().map(|place| place.pod);
                let pods = pods.filter(|pod| may_get_in(cluster, *pod, now)).take(PODS_PER_LOOK);
                Set::OneByOne(Arc::clone(&peers.shape), pods.collect())
            }
        };
        sets.push((Reverse(peers.shape.priority), *first, set));
    }
    sets.sort_by_key(|(priority, place, _)| (*priority, *place));
    sets.into_iter().map(|(.., set)| set).collect()
}

/// Whether a pod may get in at all: the API server has not refused to let it in, it is known what it claims, and the scheduler has placed
/// the admitted pods of its controller. Otherwise others would be evicted for it in vain, again and again.
fn may_get_in(cluster: &Cluster, id: PodId, now: Timestamp) -> bool {
    cluster.pod(id).is_none_or(|pod| {
        pod.waits.as_ref().is_none_or(|waits| {
            // The pod keeps what others were evicted for before, and nothing else; no further pod is evicted for it.
            let is_kept_for = || cluster.was_evicted_for(id, &waits.shape);
            let is_judged = || !cluster.has_come_back(pod, now) && !cluster.is_to_be_read(id);
            waits.write_refusals == 0 && (is_judged() || is_kept_for())
        })
    })
}
