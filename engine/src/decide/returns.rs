//! Pods that were let in and are sent back: they were not placed in time, or have more than they were let in for.

use crds::configuration::{AdmitOn, format_duration};
use jiff::Timestamp;

use super::{Action, SENT_BACK};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::deadlines::Cause;
use crate::happening::Happening;
use crate::ids::PodId;

/// Moves the cluster to `now`. Returns what is to be done about admitted pods that were not placed in time, and about pods that have
/// more than they were let in for.
pub(super) fn advance(cluster: &mut Cluster, now: Timestamp) -> Vec<Action> {
    let due = cluster.advance(now);
    let mut actions: Vec<_> = due
        .into_iter()
        .filter_map(|pod| reservation_ran_out(cluster, pod, now))
        .collect();
    cluster.grow_tree();
    actions.extend(evict_overdrawing(cluster, now));
    actions
}

/// Evicts admitted pods whose claims have become larger than what they were let in for, where their queue has no quota for that.
fn evict_overdrawing(cluster: &mut Cluster, now: Timestamp) -> Vec<Action> {
    let overdrawing = cluster.take_overdrawing(now);
    // Nobody has changed anything: a successor would be let in for as little, and be given as much.
    for given in overdrawing.iter().filter(|overdrawing| overdrawing.by_scheduler) {
        cluster.note_return(given.pod, Cause::GivenBeyond, now);
    }
    let sent_back = overdrawing.into_iter().filter_map(|overdrawing| {
        let pod = cluster.pod(overdrawing.pod)?;
        let names = cluster.names();
        let said = |alternative: Option<&Alternative>| alternative.map_or_else(|| "no cards".to_owned(), |own| own.said(names));
        let charged = pod.charge.as_ref()?.alternative.as_ref();
        let (let_in, has) = (said(overdrawing.let_in.as_ref()), said(charged));
        let queue = &cluster.queue(pod.queue?).name;
        let message = if overdrawing.by_scheduler {
            format!(
                "let in for {let_in}, and the scheduler claimed {has} for it, which queue {queue} has no quota for: {SENT_BACK}; some \
                 schedulers claim devices of their own for each init container: request cards in the other containers alone"
            )
        } else {
            format!(
                "let in for {let_in}, and its resource claims are others now, for {has}, which queue {queue} has no quota for: \
                 {SENT_BACK}; leave claims as they are while their pods wait to be scheduled"
            )
        };
        Some(Action::SendBack {
            pod: pod.to_ref(),
            reason: Happening::ResourceClaimChanged,
            message,
        })
    });
    sent_back.collect()
}

/// Evicts an admitted pod that was not placed in time, or whose node was removed; for a pod without a controller, only says so.
fn reservation_ran_out(cluster: &mut Cluster, id: PodId, now: Timestamp) -> Option<Action> {
    let timeout = cluster.configuration().cardgate.reservation_timeout;
    let pod = cluster.pod(id)?;
    let (pod_ref, has_controller) = (pod.to_ref(), pod.controller.is_some());
    let lost = cluster.lost_node(pod);
    let is_lost = lost.is_some();
    // No node is asked for an autoscaler, nor for pods that only `CrossQuota` held and that ask for devices.
    let is_left_alone = || pod.task.asks_for_devices() && pod.queue.is_none_or(|id| cluster.queue(id).is_nameless());
    let asks_nodes = cluster.configuration().cardgate.admit_on == AdmitOn::Fit && !is_left_alone();
    let waited = match lost {
        Some(node) => format!("node {}, which alone the pod was let in for, was removed", node.name),
        None => format!(
            "the scheduler has not placed the pod within {} of its admission",
            format_duration(timeout)
        ),
    };
    // The pod is looked at again after either outcome: an eviction can be refused.
    cluster.renew_reservation(id, !has_controller || is_lost, now);
    Some(if has_controller {
        // That a node was removed says nothing about what the scheduler makes of the successor. But where no node is asked for that, it
        // could be let in for the same one, and be sent back at once, again and again.
        let message = if is_lost && asks_nodes {
            format!("{waited}: {SENT_BACK}")
        } else {
            cluster.note_return(id, Cause::Unplaced, now);
            format!("{waited}: {SENT_BACK}, and its successor waits behind the others of its priority")
        };
        let reason = Happening::ReservationTimeout;
        Action::SendBack {
            pod: pod_ref,
            reason,
            message,
        }
    } else {
        let message = format!(
            "{waited}: no controller would replace it, so it keeps its quota; delete it, or make room on a node that it \
             may run on"
        );
        Action::Unplaced { pod: pod_ref, message }
    })
}
