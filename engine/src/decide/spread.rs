//! Pods that are let in without a node (`admitOn: quota`): to which set of labels each is narrowed, where nodes have its card by several.

use std::collections::HashMap;
use std::sync::Arc;

use super::effort::Effort;
use super::grant::Admission;
use super::{fit, narrow};
use crate::alternative::Alternative;
use crate::amounts::Totals;
use crate::cluster::Cluster;
use crate::cluster::node::Node;
use crate::cluster::waiting::Shape;
use crate::ids::{NodeId, PodId};

/// Which labels pods get in one round that are let in without a node, for cards that nodes have by different labels: by a device
/// plugin and as devices, or with memory that only rounded is the same. No pod can be narrowed to several sets of labels, so each is
/// narrowed to those of a node that has room for it beside the pods before it.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// What those pods request that were narrowed to a node's labels and are not placed yet; found out when it is first needed.
    requested: Option<HashMap<NodeId, Totals>>,
}

impl Spread {
    /// Chooses the labels of the pods that were let in.
    pub(super) fn narrow(&mut self, cluster: &mut Cluster, admissions: &mut [Admission], effort: &Effort) {
        for admission in admissions {
            let id = cluster.pod_with_uid(&admission.pod.uid);
            let off_gpu_nodes = admission.off_gpu_nodes.is_some();
            if let Some(labels) = id.and_then(|id| self.narrow_one(cluster, id, off_gpu_nodes, effort)) {
                admission.narrow = labels;
            }
        }
    }

    /// Returns the labels that a pod gets. None where there is nothing to choose, or no node to take them from.
    fn narrow_one(
        &mut self,
        cluster: &mut Cluster,
        id: PodId,
        off_gpu_nodes: bool,
        effort: &Effort,
    ) -> Option<Vec<(String, String)>> {
        let pod = cluster.pod(id).filter(|pod| pod.room.is_none())?;
        let alternative = pod.assigned.clone()?;
        let is_sure = |card| cluster.card(card).is_none_or(|card| !card.has_several_labels());
        if alternative.all(is_sure) {
            return None;
        }
        let shape = Arc::clone(&pod.waits.as_ref()?.shape);
        let requested = self.requested.get_or_insert_with(|| cluster.requested_by_narrowed());
        let (node, has_room) = best(cluster, &shape, &alternative, off_gpu_nodes, requested, effort)?;
        if has_room {
            cluster.note_narrowed(id, node);
            let sums = requested.entry(node).or_default();
            sums.add_all(shape.task.request_with(Some(&alternative)));
        }
        let labels = narrow::labels_on(cluster, node, &alternative)?;
        Some(narrow::further(&shape, &labels))
    }
}

/// Returns the node whose labels a pod is narrowed to, and whether that node has room for the pod beside what others requested. Nodes
/// with room go first, then nodes where the pod may run, then all others. Among equals, nodes go first where the pod takes no device
/// that other pods could claim. A pod that is kept off GPU nodes (`off_gpu_nodes`) gets the labels of none of these.
fn best(
    cluster: &Cluster,
    shape: &Shape,
    alternative: &Alternative,
    off_gpu_nodes: bool,
    requested: &HashMap<NodeId, Totals>,
    effort: &Effort,
) -> Option<(NodeId, bool)> {
    let mut best: Option<((bool, bool, bool), NodeId)> = None;
    for id in fit::nodes_for(cluster, Some(alternative)) {
        if effort.is_spent() {
            break;
        }
        effort.look_at_node(shape);
        if off_gpu_nodes && (cluster.gpu_nodes().contains(*id) || fit::has_gpu_label(cluster, *id)) {
            continue;
        }
        let node = cluster.node(*id);
        let labels = narrow::labels_supplied(cluster, shape, alternative, node);
        if !labels.is_some_and(|labels| shape.constraints.may_select(&labels)) {
            continue;
        }
        let may_run = fit::may_run_on(cluster, shape, Some(alternative), *id);
        let has_room = may_run && has_room_beside(cluster, shape, alternative, node, requested.get(id));
        let rank = (!has_room, !may_run, fit::takes_devices(cluster, Some(alternative), *id));
        if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, *id));
        }
        if rank == (false, false, false) {
            break;
        }
    }
    best.map(|((lacks_room, ..), id)| (id, !lacks_room))
}

/// Whether a node has room for a pod beside what its pods hold and others requested, in numbers: which devices are free matters to
/// pods that claim them, whose cards have one label each.
fn has_room_beside(
    cluster: &Cluster,
    shape: &Shape,
    alternative: &Alternative,
    node: &Node,
    requested: Option<&Totals>,
) -> bool {
    let mut request = shape.task.request_with(Some(alternative)).iter();
    request.all(|(dimension, asked)| {
        let (used, there) = fit::compared(cluster, shape, Some(alternative), node, &node.used, dimension);
        let requested = requested.map_or(0, |requested| requested.get(dimension));
        used + requested + i128::from(asked) <= there
    })
}
