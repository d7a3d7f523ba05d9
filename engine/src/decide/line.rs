//! The waiting pods of a group, and whether enough of them could ever run.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

use super::effort::Effort;
use super::{census, cross_quota, fit, mgpu};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::ids::{PodId, WorkloadId};
use crate::lacking::Lacking;

/// A waiting pod and its shape.
pub(crate) type InLine = (PodId, Arc<Shape>);

/// Returns the waiting pods of a group, in the order in which they go.
pub(crate) fn line(cluster: &Cluster, id: WorkloadId) -> Vec<InLine> {
    let line = cluster.workload(id).line.iter().map(|(_, place)| place.pod);
    line.filter_map(|pod| Some((pod, Arc::clone(&cluster.pod(pod)?.waits.as_ref()?.shape))))
        .collect()
}

/// Returns those waiting pods of a group that fill the places that it lacks, in the order in which they go. These are fewer than
/// it lacks where some pods are not there yet.
pub(crate) fn first_missing(cluster: &Cluster, id: WorkloadId) -> Vec<InLine> {
    chosen(cluster.workload(id).lacking(), line(cluster, id))
}

/// Returns the first of these pods that take the places of the missing pods.
pub(super) fn chosen<P: Borrow<InLine>>(lacking: Lacking, pods: impl IntoIterator<Item = P>) -> Vec<P> {
    let mut places = lacking.places();
    let takes = |pod: &P| places.take(pod.borrow().1.task_spec.as_deref());
    pods.into_iter().filter(takes).collect()
}

/// Whether enough of a group's waiting pods could run if nothing else did. A group that can't must keep no quota from others.
/// Where the steps do not last to know, the answer is yes, and the group keeps quota for no longer than `inqueueTimeout`.
pub(super) fn could_ever_fit(cluster: &Cluster, id: WorkloadId, effort: &Effort) -> bool {
    let lacking = cluster.workload(id).lacking();
    let line = line(cluster, id);
    let missing = lacking.count();
    if chosen(lacking.clone(), &line).len() < missing {
        return true;
    }
    let mut asked = HashMap::new();
    let takes = |shape: &Shape, alternative: Option<&Alternative>, node| {
        effort.look_at_node(shape);
        effort.is_spent()
            || effort.share(u64::MAX, |steps| {
                census::could_take(cluster, shape, alternative, node, steps)
            }) && cross_quota::is_within(cluster, shape, node)
    };
    let fitting = line.iter().filter(|(_, shape)| {
        *asked.entry(Arc::clone(shape)).or_insert_with(|| {
            let cards = mgpu::WithoutSome::of(cluster, shape, effort);
            let holds = |node| cards.as_ref().is_none_or(|cards| cards.could_hold(node));
            alternatives_of(shape).into_iter().any(|alternative| {
                if cards.is_none() && !cross_quota::asks_nodes(cluster, shape, alternative, effort) {
                    return true;
                }
                let mut nodes = fit::nodes_for(cluster, alternative).iter();
                nodes.any(|node| takes(shape, alternative, *node) && holds(*node))
            })
        })
    });
    chosen(lacking, fitting).len() >= missing || effort.is_spent()
}

/// Returns which cards a pod of this shape may get: each of its alternatives, or no card at all.
pub(crate) fn alternatives_of(shape: &Shape) -> Vec<Option<&Alternative>> {
    match &*shape.task.alternatives {
        [] => vec![None],
        alternatives => alternatives.iter().map(Some).collect(),
    }
}
