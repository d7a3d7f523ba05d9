//! Pods that are let in without a node (`admitOn: quota`): to which set of labels each is narrowed, where nodes have its card by several.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::effort::Effort;
use super::grant::Admission;
use super::{fit, narrow};
use crate::alternative::Alternative;
use crate::amounts::Totals;
use crate::cluster::Cluster;
use crate::cluster::compared::compared;
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
    /// The searches for the nodes whose labels they get: one for all pods that are alike. What nodes get back within a round, of what was
    /// set aside for a pod that went elsewhere, is found in the next one.
    searches: HashMap<Alike, Search>,
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
        let pods = Alike {
            shape: Arc::clone(&shape),
            alternative: alternative.clone(),
            off_gpu_nodes,
        };
        let search = self.searches.entry(pods.clone()).or_default();
        let (node, has_room) = search.best(cluster, &pods, requested, effort)?;
        if has_room {
            cluster.note_narrowed(id, node);
            let sums = requested.entry(node).or_default();
            sums.add_all(shape.task.request_with(Some(&alternative)));
        }
        let labels = narrow::labels_on(cluster, node, &alternative)?;
        Some(narrow::further(&shape, &labels))
    }
}

/// Pods that each node takes alike: they are of one queue, namespace, priority and strategy of `CrossQuota`, ask for the same and say the
/// same about nodes, in whatever group they are.
#[derive(Debug, Clone)]
struct Alike {
    /// The shape of one of them.
    shape: Arc<Shape>,
    alternative: Alternative,
    /// Whether they get the labels of no GPU node.
    off_gpu_nodes: bool,
}

impl PartialEq for Alike {
    fn eq(&self, other: &Self) -> bool {
        let (own, others) = (&*self.shape, &*other.shape);
        let are_alike = || {
            // The hash stands for queue, namespace, priority and strategy, as in `gang/alike.rs`.
            own.hash_in_any_group() == others.hash_in_any_group()
                && own.task == others.task
                && own.constraints == others.constraints
        };
        self.off_gpu_nodes == other.off_gpu_nodes
            && self.alternative == other.alternative
            && (Arc::ptr_eq(&self.shape, &other.shape) || are_alike())
    }
}

impl Eq for Alike {}

impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.shape.hash_in_any_group());
        (&self.alternative, self.off_gpu_nodes).hash(state);
    }
}

/// A search for the node whose labels pods get that are alike. Nodes with room go first, then nodes where the pods may run, then all
/// others. Among equals, nodes go first where the pods take no device that other pods could claim. Since nodes only lose room within
/// a round, the search goes on for each pod where it ended for the pod before.
#[derive(Debug, Default)]
struct Search {
    /// Whether nodes are looked at where the pods take devices; before, the others are.
    takes_devices: bool,
    /// The place of the next node, among those that have the card.
    next: usize,
    /// The best of the nodes without room so far, and whether the pods may run there. Those where they take no devices come first.
    without_room: Option<(bool, NodeId)>,
}

impl Search {
    /// Returns the node for the next pod, and whether that node has room for it beside what others requested. The search goes on by at
    /// least one place, and no further once the steps are spent: then pods get the labels of nodes that were looked at. None where there
    /// was no such node: the pod keeps the labels that it was let in with.
    fn best(
        &mut self,
        cluster: &Cluster,
        pods: &Alike,
        requested: &HashMap<NodeId, Totals>,
        effort: &Effort,
    ) -> Option<(NodeId, bool)> {
        let nodes = fit::nodes_for(cluster, Some(&pods.alternative));
        loop {
            match nodes.get(self.next) {
                Some(node) if self.has_room(cluster, pods, *node, requested.get(node), effort) => {
                    return Some((*node, true));
                }
                Some(_) => self.next += 1,
                None if self.takes_devices => break,
                None => (self.takes_devices, self.next) = (true, 0),
            }
            if effort.is_spent() {
                break;
            }
        }
        self.without_room.map(|(_, node)| (node, false))
    }

    /// Whether a node has room for the next pod. One where the pod may get the labels, but has no room, is remembered where it is better
    /// than those before.
    fn has_room(
        &mut self,
        cluster: &Cluster,
        pods: &Alike,
        id: NodeId,
        requested: Option<&Totals>,
        effort: &Effort,
    ) -> bool {
        let (shape, alternative) = (&*pods.shape, &pods.alternative);
        if fit::takes_devices(cluster, Some(alternative), id) != self.takes_devices {
            effort.spend(1);
            return false;
        }
        if narrow::labels_for(cluster, shape, alternative, pods.off_gpu_nodes, id, effort).is_none() {
            return false;
        }
        let may_run = fit::may_run_on(cluster, shape, Some(alternative), id);
        let has_room = may_run && has_room_beside(cluster, shape, alternative, cluster.node(id), requested);
        if !has_room
            && self
                .without_room
                .is_none_or(|(may_run_there, _)| may_run && !may_run_there)
        {
            self.without_room = Some((may_run, id));
        }
        has_room
    }
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
    let mut used = Cow::Borrowed(&node.used);
    for (dimension, amount) in requested.into_iter().flat_map(Totals::iter) {
        used.to_mut().add(dimension, amount);
    }
    let mut request = shape.task.request_with(Some(alternative)).iter();
    request.all(|asked| {
        let mut parts = compared(cluster, &shape.task, Some(alternative), node, &used, asked);
        parts.all(|part| part.missing() <= 0)
    })
}
