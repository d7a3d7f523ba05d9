//! Whether queues stay within what they deserve together with the pods that wait in them. This decides for which pods others are
//! evicted, and which pods go before those that only borrow.

use std::collections::BTreeMap;

use crate::alternative::Alternative;
use crate::amounts::{Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::line::{InLine, alternatives_of};
use crate::ids::{PodId, QueueId};

/// Returns what a waiting pod would be charged.
pub(super) fn asked(cluster: &Cluster, id: PodId, alternative: Option<&Alternative>) -> Vec<(Dimension, i128)> {
    let charge = cluster.pod(id).map(|pod| cluster.charge(pod, alternative));
    let amounts = charge.iter().flat_map(|charge| charge.amounts.iter());
    amounts
        .filter(|(_, amount)| *amount > 0)
        .map(|(dimension, amount)| (dimension, amount.into()))
        .collect()
}

/// Whether the pod's queue, and everything above it, stays within what it deserves with this pod.
pub(super) fn is_entitled(cluster: &Cluster, shape: &Shape, id: PodId, alternative: Option<&Alternative>) -> bool {
    let asked = asked(cluster, id, alternative);
    cluster
        .ancestry(shape.queue)
        .all(|level| stays_within(cluster, level, asked.iter().copied()))
}

/// Whether the queues of these pods, and everything above them, stay within what they deserve with all of these pods, whichever
/// of its alternatives each pod gets.
pub(super) fn are_entitled(cluster: &Cluster, pods: &[InLine]) -> bool {
    let mut most = BTreeMap::<QueueId, Totals>::new();
    for (id, shape) in pods {
        let mut of_pod = BTreeMap::<Dimension, i128>::new();
        for (dimension, amount) in alternatives_of(shape)
            .into_iter()
            .flat_map(|alternative| asked(cluster, *id, alternative))
        {
            let known = of_pod.entry(dimension).or_default();
            *known = amount.max(*known);
        }
        for level in cluster.ancestry(shape.queue) {
            let of_level = most.entry(level).or_default();
            of_pod
                .iter()
                .for_each(|(dimension, amount)| of_level.add(*dimension, *amount));
        }
    }
    most.iter()
        .all(|(level, most)| stays_within(cluster, *level, most.iter()))
}

/// Whether a level that is given this much more has no more than it deserves.
fn stays_within(cluster: &Cluster, level: QueueId, mut more: impl Iterator<Item = (Dimension, i128)>) -> bool {
    more.all(|(dimension, amount)| {
        let deserved = cluster.deserved_by_spec(level, dimension);
        deserved.is_none_or(|deserved| cluster.queue(level).allocated_in_all(dimension) + amount <= deserved)
    })
}
