//! What queues deserve with the pods that wait in them: others are evicted for pods that stay within it, and these go before pods of
//! other queues that only borrow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::alternative::Alternative;
use crate::amounts::{Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::aside::SetAside;
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

/// Whether with this pod its queue, and every queue above it, stays within what it deserves.
pub(super) fn is_entitled(cluster: &Cluster, shape: &Shape, id: PodId, alternative: Option<&Alternative>) -> bool {
    beyond_deserved(cluster, shape, id, alternative).is_empty()
}

/// Returns the dimensions of which this pod's queue, or a queue above it, has more than it deserves with the pod.
pub(super) fn beyond_deserved(
    cluster: &Cluster,
    shape: &Shape,
    id: PodId,
    alternative: Option<&Alternative>,
) -> BTreeSet<Dimension> {
    let asked = asked(cluster, id, alternative);
    let beyond = asked.into_iter().filter(|(dimension, amount)| {
        let mut levels = cluster.ancestry(shape.queue);
        levels.any(|level| !stays_within(cluster, level, *dimension, *amount))
    });
    beyond.map(|(dimension, _)| dimension).collect()
}

/// What it costs to count what one pod asks for.
const STEPS_OF_POD: usize = 16;

/// What pods ask for together, whichever of its alternatives each gets.
pub(super) struct Asked {
    /// The queues of the pods.
    queues: BTreeSet<QueueId>,
    /// The most that they ask for, of each queue and of every queue above it.
    most: BTreeMap<QueueId, Totals>,
    /// What it cost to find out, in steps.
    pub(super) cost: usize,
}

impl Asked {
    /// By these pods.
    pub(super) fn by(cluster: &Cluster, pods: &[InLine]) -> Self {
        let mut asked_by = Self {
            queues: BTreeSet::new(),
            most: BTreeMap::new(),
            cost: 0,
        };
        let mut by_shape = HashMap::new();
        for (id, shape) in pods {
            asked_by.cost += STEPS_OF_POD;
            let most = by_shape.entry(Arc::clone(shape)).or_insert_with(|| {
                asked_by.cost += STEPS_OF_POD * shape.task.alternatives.len();
                most_asked(cluster, *id, shape)
            });
            asked_by.queues.insert(shape.queue);
            for level in cluster.ancestry(shape.queue) {
                let of_level = asked_by.most.entry(level).or_default();
                for (dimension, amount) in &*most {
                    of_level.add(*dimension, *amount);
                }
            }
        }
        asked_by
    }

    /// Whether the pods may go before the pod that something is set aside for. They may if that pod borrows something that they ask for. And of
    /// all that is set aside, the queue of each of them, or a queue above, must deserve by its spec what it asks for: what that pod borrows, and
    /// what its own queue deserves. Otherwise they could not be made to give it back. Pods of one queue keep their order.
    pub(super) fn goes_before(&self, cluster: &Cluster, aside: &SetAside) -> bool {
        let asking = |dimension: Dimension| {
            let queues = self.queues.iter().copied();
            queues.filter(move |queue| self.most.get(queue).is_some_and(|most| most.get(dimension) > 0))
        };
        let is_deserved_in = |queue, dimension| {
            let mut levels = cluster.ancestry(queue);
            levels.any(|level| cluster.deserved_by_spec(level, dimension).is_some())
        };
        let is_asked = |dimension: &Dimension| asking(*dimension).next().is_some();
        let borrowed = || aside.borrowed.iter().copied();
        let matters =
            |dimension: &Dimension| aside.borrowed.contains(dimension) || is_deserved_in(aside.shape.queue, *dimension);
        !self.queues.contains(&aside.shape.queue)
            && borrowed().any(|dimension| is_asked(&dimension))
            && borrowed()
                .chain(aside.charged())
                .filter(matters)
                .all(|dimension| asking(dimension).all(|queue| is_deserved_in(queue, dimension)))
    }

    /// Whether with all of the pods their own queues stay within what they deserve. What is set aside for pods of other queues changes nothing
    /// about that.
    pub(super) fn is_within_own_deserved(&self, cluster: &Cluster) -> bool {
        let own = self.queues.iter();
        let mut own = own.filter_map(|queue| Some((*queue, self.most.get(queue)?)));
        own.all(|(queue, most)| {
            most.iter()
                .all(|(dimension, amount)| stays_within(cluster, queue, dimension, amount))
        })
    }

    /// Whether with all of the pods their queues, and every queue above them, stay within what they deserve.
    pub(super) fn is_within_deserved(&self, cluster: &Cluster) -> bool {
        self.most.iter().all(|(level, most)| {
            most.iter()
                .all(|(dimension, amount)| stays_within(cluster, *level, dimension, amount))
        })
    }
}

/// Returns the most that a pod of this shape asks for of each dimension, by any of its alternatives.
fn most_asked(cluster: &Cluster, id: PodId, shape: &Shape) -> BTreeMap<Dimension, i128> {
    let alternatives = alternatives_of(shape).into_iter();
    let mut most = BTreeMap::new();
    for (dimension, amount) in alternatives.flat_map(|alternative| asked(cluster, id, alternative)) {
        let known = most.entry(dimension).or_default();
        *known = amount.max(*known);
    }
    most
}

/// Whether a queue that gets so much more of a dimension has no more than it deserves.
fn stays_within(cluster: &Cluster, level: QueueId, dimension: Dimension, more: i128) -> bool {
    let deserved = cluster.deserved_by_spec(level, dimension);
    deserved.is_none_or(|deserved| cluster.queue(level).allocated_in_all(dimension) + more <= deserved)
}
