//! Who waits in a queue for something that others could give back.

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

/// Pods that wait.
pub(super) enum Set {
    /// Pods of one shape, each by itself.
    OneByOne(Arc<Shape>, Vec<PodId>),
    Together(WorkloadId, Vec<InLine>),
}

impl Set {
    /// The pod that goes first.
    pub(super) fn first(&self) -> Option<PodId> {
        match self {
            Self::OneByOne(_, pods) => pods.first().copied(),
            Self::Together(_, pods) => pods.first().map(|(pod, _)| *pod),
        }
    }
}

/// What waits in a queue for something that others could give back, first to go first.
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
                // One whose pods are in several queues is looked at in that of the first of them alone.
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

/// Whether the API server has not refused to let a pod in, and the scheduler has placed what was let in of its controller: others would be
/// evicted for it in vain, again and again.
fn may_get_in(cluster: &Cluster, id: PodId, now: Timestamp) -> bool {
    cluster.pod(id).is_none_or(|pod| {
        pod.waits.as_ref().is_none_or(|waits| {
            // What others were evicted for before is kept: nobody more is.
            let is_kept_for = || cluster.was_evicted_for(id, &waits.shape);
            waits.write_refusals == 0 && (!cluster.has_come_back(pod, now) || is_kept_for())
        })
    })
}
