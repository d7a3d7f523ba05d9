//! Which pods come first in a queue: in the order in which it is decided, with pods and workloads that are taken as a whole in one line.

use std::cmp::Reverse;

use crds::card_review::{CardReviewStatus, Count};

use super::estimate::MOST_BEFORE;
use super::holders::MOST_NAMES;
use crate::cluster::Cluster;
use crate::cluster::place::Turn;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Workload;
use crate::decide::enqueue::is_in_line;
use crate::decide::verdict::is_for;
use crate::ids::{PodId, QueueId, WorkloadId};

/// Returns the pods that are let in before a pod of this shape and place in its queue, without pods that are let in together with it.
pub(super) fn before(cluster: &Cluster, shape: &Shape, place: Turn) -> Vec<PodId> {
    let gang = shape.group.filter(|group| cluster.workload(*group).missing() > 0);
    let peers = cluster.queue(shape.queue).waiting.peers().map(|(_, peers)| peers);
    let others = peers.filter(|peers| gang.is_none() || peers.shape.group != gang);
    let pods = others.flat_map(|peers| {
        let priority = Reverse(peers.shape.priority);
        let earlier = peers.pods.iter().take_while(move |one| (priority, **one) < place);
        earlier.map(|one| one.pod)
    });
    // One pod more than the most that are looked at shows that there are more.
    pods.take(MOST_BEFORE + 1).collect()
}

/// Returns the pods that are let in before a workload. Returns none where that is not known: other workloads before it take what their pods
/// ask for later.
pub(super) fn before_workload(cluster: &Cluster, id: WorkloadId) -> Option<Vec<PodId>> {
    let workload = cluster.workload(id);
    let queue = cluster.queue(workload.terms.as_ref()?.queue);
    if let Some((shape, place)) = first_that_waits(cluster, workload) {
        return Some(before(cluster, shape, place));
    }
    let mut in_line = queue.in_line().iter();
    let is_first = !in_line.any(|other| cluster.workload(*other).turn() < workload.turn());
    (is_first && queue.waiting.is_empty()).then(Vec::new)
}

/// Says which pods are before this place in a queue, if the queue is for this namespace.
pub(super) fn line_up(cluster: &Cluster, namespace: &str, queue: QueueId, place: Turn, status: &mut CardReviewStatus) {
    if !is_for(cluster, queue, namespace) {
        return;
    }
    let queue = cluster.queue(queue);
    let mut before = Count::default();
    let mut names = Vec::new();
    for (_, peers) in queue.waiting.peers() {
        let priority = Reverse(peers.shape.priority);
        let earlier = peers.pods.iter().take_while(|one| (priority, **one) < place);
        if *peers.shape.namespace != *namespace {
            before.others += number(earlier.count());
            continue;
        }
        for (at, one) in earlier.enumerate() {
            before.own_count += 1;
            if at < MOST_NAMES {
                names.push(((priority, *one), None));
            }
        }
    }
    let mut wholes = 0;
    for (_, whole) in cluster.wholes_in_line(queue) {
        wholes += 1;
        if whole.turn() >= place {
            continue;
        }
        if *whole.namespace == *namespace {
            before.own_count += 1;
            names.push((whole.turn(), Some((whole.kind, &whole.name))));
        } else {
            before.others += 1;
        }
    }
    names.sort_unstable();
    let names = names.into_iter().filter_map(|((_, one), whole)| match whole {
        Some((kind, name)) => Some(format!("{} {name}", kind.as_str())),
        None => Some(cluster.pod(one.pod)?.name.to_string()),
    });
    before.own = names.take(MOST_NAMES).collect();
    status.position = Some(before.own_count + before.others + 1);
    status.waiting = Some(number(queue.waiting.len_in_all() + wholes));
    status.before = Some(before);
}

/// Says which pods are before a workload: before the first of its waiting pods, or before the workload itself while it waits to be let into
/// its queue.
pub(super) fn line_up_workload(cluster: &Cluster, namespace: &str, id: WorkloadId, status: &mut CardReviewStatus) {
    let workload = cluster.workload(id);
    let first = first_that_waits(cluster, workload).map(|(shape, place)| (shape.queue, place));
    let itself = || {
        let terms = workload.terms.as_ref().filter(|_| is_in_line(cluster, id))?;
        Some((terms.queue, workload.turn()))
    };
    if let Some((queue, place)) = first.or_else(itself) {
        line_up(cluster, namespace, queue, place, status);
    }
}

/// Returns the first of a workload's waiting pods.
fn first_that_waits<'c>(cluster: &'c Cluster, workload: &Workload) -> Option<(&'c Shape, Turn)> {
    let (_, place) = workload.line.first()?;
    let shape = &cluster.pod(place.pod)?.waits.as_ref()?.shape;
    Some((shape, (Reverse(shape.priority), *place)))
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
