//! What evicted pods are told.

use std::sync::Arc;

use super::needs::is_same;
use super::{Eviction, Victim};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::pod::Pod;
use crate::cluster::waiting::Shape;
use crate::decide::verdict::is_for;
use crate::happening::Happening;
use crate::ids::{PodId, QueueId};

/// Returns the eviction, with what each of its victims is told. `all_asked` is what the waiting pod asks for, and `missing` what
/// it lacks of that.
pub(super) fn describe(
    cluster: &Cluster,
    shape: &Shape,
    id: PodId,
    victims: &[PodId],
    mut all_asked: Vec<(Dimension, i128)>,
    missing: &[Dimension],
) -> Option<Eviction> {
    let waiting = cluster.pod(id)?;
    let name = &cluster.queue(shape.queue).name;
    let of = |queue: QueueId, dimension: Dimension| {
        let has = dimension.format(cluster.queue(queue).allocated_in_all(dimension));
        // Where a queue names nothing that it deserves, the number is derived from what pods ask for and means nothing to people:
        // a pod that names several cards counts for one of them.
        if cluster.names_no_deserved(queue, dimension) {
            return format!("has {has} and names nothing that it deserves");
        }
        let deserves = dimension.format(cluster.deserved(queue, dimension));
        format!("has {has} and deserves {deserves}")
    };
    all_asked.retain(|(dimension, _)| cluster.is_shared_out(shape.queue, *dimension));
    let asks = |(dimension, asked): &(Dimension, i128)| {
        format!("{} {}", dimension.format(*asked), dimension.name(cluster.names()))
    };
    let everything = all_asked.iter().map(asks).collect::<Vec<_>>().join(", ");
    let pod = waiting.to_ref();
    // The reader of the message may have no rights in the namespace of the waiting pod.
    let for_whom = |victim: &Pod| {
        if victim.namespace == waiting.namespace {
            format!("pod {pod}")
        } else {
            "a pod".to_owned()
        }
    };
    let victims = victims.iter().filter_map(|victim| {
        let victim = cluster.pod(*victim)?;
        let (queue, pod) = (victim.queue?, for_whom(victim));
        let (reason, message) = if queue == shape.queue {
            let (own, priority) = (victim.priority, shape.priority);
            let message = format!(
                "evicted for {pod} of the same queue {name}, which has priority {priority}, more than {own}, and asks \
                 {everything}"
            );
            (Happening::Preempted, message)
        } else {
            let path: Vec<_> = cluster.ancestry(shape.queue).collect();
            let below = cluster.ancestry(queue).take_while(|level| !path.contains(level));
            let below: Vec<_> = below.collect();
            // The ancestor that stands beside the waiting pod's branch: a queue in it may say nothing of what it deserves.
            let branch = *below.last()?;
            let borrows = |dimension: &Dimension| cluster.borrows(&below, *dimension);
            let is_asked = |dimension: &Dimension| all_asked.iter().any(|(asked, _)| asked == dimension);
            let mut borrowed: Vec<_> = missing.iter().copied().filter(borrows).collect();
            borrowed.sort_by_key(|dimension| !is_asked(dimension));
            let asked = all_asked.iter().map(|(dimension, _)| *dimension);
            // A node lacks the resource of cards, where queues deserve the cards.
            let is_lacked = |dimension: &Dimension| missing.iter().any(|lacked| is_same(cluster, *dimension, *lacked));
            let mut lacked_first = asked.clone().filter(is_lacked).chain(asked.clone());
            let dimension = borrowed.first().copied().or_else(|| lacked_first.find(borrows));
            let dimension = dimension.or_else(|| asked.clone().next())?;
            let what = dimension.name(cluster.names());
            let theirs = &cluster.queue(queue).name;
            let of_part = if branch == queue {
                String::new()
            } else {
                format!(", or queue {} that it is a part of,", cluster.queue(branch).name)
            };
            // What a queue uses and what its pods ask for is told only to those that the queue is for. A dimension that limits no
            // queue of the pod is missing on the node.
            let claims = if !is_asked(&dimension) {
                format!("lacks room on a node; of {what},")
            } else if is_for(cluster, shape.queue, &victim.namespace) {
                format!(
                    "asks {everything}; of {what}, queue {name} {}, and",
                    of(shape.queue, dimension)
                )
            } else {
                format!("has less {what} than it deserves;")
            };
            let message = format!(
                "evicted for {pod} of queue {name}, which {claims} this pod's queue {theirs}{of_part} {}",
                of(branch, dimension),
            );
            (Happening::Reclaimed, message)
        };
        Some(Victim {
            pod: victim.to_ref(),
            reason,
            message,
        })
    });
    Some(Eviction {
        victims: victims.collect(),
        waiting: pod.clone(),
        queue: Arc::clone(name),
    })
}
