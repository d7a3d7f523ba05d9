//! Gangs of which some pods hold quota while others that they need wait. A crash or a refused write came between, or one of the
//! pods has ended. What these gangs hold is of use to nobody until they have the rest, so they are completed before anything else
//! that waits.
//!
//! Two limits apply, and a gang beyond either of them has its turn among the others. First, a gang may get no more than it held
//! when it was whole: otherwise a user who raises the minimum of a group, or makes a large pod in place of a small one, would go
//! before everybody. Second, the pods must have come to wait before the gang was torn, or within `reservationTimeout` after that:
//! otherwise a user who makes pods later, or removes their own gate from them later, would keep a place before everybody until it
//! suits them.

use jiff::SignedDuration;

use super::{Refusals, admit, payers, rests};
use crate::cluster::Cluster;
use crate::decide::effort::{Effort, Spending};
use crate::decide::line::{first_missing, line};
use crate::decide::reclaim::Aside;
use crate::decide::{Admission, trail_workload};
use crate::ids::{PodId, WorkloadId};
use crate::trail::Trail;

/// Completes those gangs, and counts in `spending` what that costs. Also returns how many steps that took. A gang whose queues or
/// namespace have had their turn waits for its turn among the others.
pub(in crate::decide) fn complete(
    cluster: &mut Cluster,
    refusals: &mut Refusals,
    spending: &mut Spending,
    aside: &mut Aside,
    trail: &dyn Trail,
) -> (Vec<Admission>, u64) {
    cluster.measure_groups();
    let (mut admissions, mut steps) = (Vec::new(), 0);
    for id in cluster.incomplete().collect::<Vec<_>>() {
        if rests(cluster, id) {
            debug_assert!(
                admit(cluster, id, &mut Refusals::default(), &Effort::of_gang()).is_empty(),
                "an incomplete gang rests that could be let in"
            );
            continue;
        }
        let Some((_, first)) = line(cluster, id).into_iter().next() else {
            continue;
        };
        // Its turn comes among the others, which see to it that there is another round.
        if cluster.has_pods_to_be_read(id) {
            continue;
        }
        let payers = payers(cluster, id);
        let missing = first_missing(cluster, id).into_iter().map(|(pod, _)| pod);
        if spending.is_over_for(&first.namespace, &payers) || come_late(cluster, id, missing) {
            continue;
        }
        trail_workload(cluster, id, trail);
        let effort = Effort::of_gang();
        aside.open_for(cluster, &first, Some(id));
        admissions.extend(complete_one(cluster, id, refusals, &effort));
        aside.close(cluster, &effort);
        spending.add(&first.namespace, &payers, &effort);
        steps += effort.spent();
    }
    (admissions, steps)
}

/// Whether any of these pods, which take the places of missing ones, came late: others of the gang had long held quota for
/// nothing when the pod was made, or when it lost a gate of somebody else.
fn come_late(cluster: &Cluster, id: WorkloadId, pods: impl IntoIterator<Item = PodId>) -> bool {
    let timeout = SignedDuration::try_from(cluster.configuration().cardgate.reservation_timeout);
    let last = cluster.workload(id).torn_since().zip(timeout.ok());
    let Some(last) = last.and_then(|(since, timeout)| since.checked_add(timeout).ok()) else {
        return false;
    };
    let mut pods = pods.into_iter().filter_map(|pod| cluster.pod(pod));
    pods.any(|pod| pod.waits_since().is_none_or(|since| since > last))
}

fn complete_one(cluster: &mut Cluster, id: WorkloadId, refusals: &mut Refusals, effort: &Effort) -> Vec<Admission> {
    let pods: Vec<_> = line(cluster, id).into_iter().map(|(pod, _)| pod).collect();
    let bookmark = cluster.bookmark(pods);
    let before = cluster.workload(id).held().0.clone();
    let admissions = admit(cluster, id, refusals, effort);
    let (held, whole) = cluster.workload(id).held();
    // A gang that this leader has never seen whole was cut in two under an earlier leader.
    let is_more = whole.is_some_and(|whole| {
        let mut grown = held.iter().filter(|(dimension, held)| *held > before.get(*dimension));
        grown.any(|(dimension, held)| held > whole.get(dimension))
    });
    let admitted = admissions.iter();
    let admitted: Vec<PodId> = admitted
        .filter_map(|admission| cluster.pod_with_uid(&admission.pod.uid))
        .collect();
    // Where the first missing pods fit nowhere, those that come after them are let in.
    if is_more || come_late(cluster, id, admitted.iter().copied()) {
        cluster.take_back(&admitted, &bookmark);
        return Vec::new();
    }
    admissions
}
