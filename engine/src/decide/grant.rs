//! What a pod gets when it is let in: how the pod counts from then on, and what is written on it.

use std::sync::Arc;

use crds::card_assigned::NO_CARDS;
use crds::keys::CARD_ASSIGNED;
use jiff::Timestamp;

use super::effort::Effort;
use super::{choice, mgpu, narrow};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::constraints::NodeAffinity;
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::CardLists;
use crate::refs::PodRef;

/// A pod that is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something else that the patch depends on"
)]
pub struct Admission {
    /// The pod that the patch lets in; the patch fails on any other pod of that name.
    pub pod: PodRef,
    /// The queue that the pod is charged to.
    pub queue: Arc<str>,
    /// When the pod came to wait.
    pub arrived: Timestamp,
    /// The card or cards that the pod is charged for, as written on the pod.
    pub card: Option<Box<str>>,
    /// Whether nothing else on the pod would show that it was held: then the patch writes that the pod is for no card.
    pub is_marked: bool,
    /// Node labels, keys and values, that narrow the pod to its cards; without those that it has already.
    pub narrow: Vec<(String, String)>,
    /// Whether the pod has a node selector.
    pub has_node_selector: bool,
    /// The node that the pod is pinned to, where what it is charged for is accounted for node by node.
    pub pin: Option<Pin>,
    /// Where the pod must not go to a GPU node: its own affinity, to which the patch adds that.
    pub off_gpu_nodes: Option<NodeAffinity>,
    /// Where the pod's claims select other cards as well: the nodes that it may not go to.
    pub avoid: Option<Avoid>,
    /// The results of mGPU scheduling, as annotations: keys and values.
    pub mgpu_results: Vec<(String, String)>,
    /// Whether the pod has annotations.
    pub has_annotations: bool,
    /// Whether the pod was told that it waits.
    pub was_told: bool,
}

impl Admission {
    /// Returns what is written on the pod about cards.
    pub fn assigned(&self) -> Option<&str> {
        self.card.as_deref().or_else(|| self.is_marked.then_some(NO_CARDS))
    }

    /// Returns the annotations, keys and values, that only the operator writes on a pod.
    pub fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        let card = self.assigned().map(|card| (CARD_ASSIGNED, card));
        let mgpu = self.mgpu_results.iter();
        card.into_iter()
            .chain(mgpu.map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

/// The one node that a pod may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Name of the node.
    pub node: Arc<str>,
    /// The pod's own affinity, to which the patch adds the name.
    pub affinity: NodeAffinity,
}

/// The nodes that a pod must not go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avoid {
    /// These nodes have one of these labels.
    pub labels: Vec<String>,
    /// The pod's own affinity, to which the patch adds that.
    pub affinity: NodeAffinity,
}

/// What a pod gets when it is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub alternative: Option<Alternative>,
    pub node: Option<NodeId>,
    /// Whether the pod may go to this node alone.
    pub pinned: bool,
    /// Whether the pod may go to no GPU node.
    pub off_gpu_nodes: bool,
    /// The mGPU cards of its containers on that node.
    pub gpus: Option<CardLists>,
}

impl Grant {
    /// Returns a grant of one of the pod's alternatives, expected on this node.
    pub fn of(alternative: Option<&Alternative>, node: Option<NodeId>) -> Self {
        Self {
            alternative: alternative.cloned(),
            node,
            pinned: false,
            off_gpu_nodes: false,
            gpus: None,
        }
    }
}

/// Counts a waiting pod as let in.
pub(super) fn count_in(cluster: &mut Cluster, pod: PodId, grant: Grant) {
    let gpus = grant.gpus.filter(|_| grant.node.is_some());
    cluster.admit(pod, grant.alternative, grant.node, gpus);
}

/// Returns what is written on a pod that is let in.
pub(super) fn admission(cluster: &Cluster, id: PodId, grant: &Grant, effort: &Effort) -> Option<Admission> {
    let pod = cluster.pod(id)?;
    let shape = &pod.waits.as_ref()?.shape;
    let alternative = grant.alternative.as_ref();
    let labels = alternative.and_then(|alternative| match grant.node {
        Some(node) => narrow::labels_on(cluster, node, alternative),
        None => narrow::labels_of(cluster, shape, alternative, grant.off_gpu_nodes, effort),
    });
    let kept_away = alternative.map(|own| choice::kept_away(cluster, shape, own, effort));
    let kept_away = kept_away.unwrap_or_default();
    // The pod's own node may have one of the cards that it is to be kept away from elsewhere.
    let expected = grant.node.map(|node| cluster.node(node));
    let is_kept_from_its_node = expected.is_some_and(|node| kept_away.has_label(node));
    let is_pinned = grant.pinned || kept_away.is_open || is_kept_from_its_node;
    let pin = grant.node.filter(|_| is_pinned).map(|node| Pin {
        node: Arc::clone(&cluster.node(node).name),
        affinity: shape.constraints.affinity.clone(),
    });
    // Where a scheduler chooses the node, the cards are written once it has chosen.
    let gpus = grant.gpus.as_ref().filter(|_| mgpu::pins(cluster));
    let mgpu_results = shape.task.mgpu.as_deref().zip(gpus);
    let mgpu_results = mgpu_results.map(|(request, gpus)| mgpu::annotations(request, gpus));
    Some(Admission {
        pod: pod.to_ref(),
        queue: Arc::clone(&cluster.queue(shape.queue).name),
        arrived: pod.arrived(),
        card: alternative.map(|own| own.written(cluster.names()).into()),
        is_marked: alternative.is_none() && pod.has_group_made_for_it,
        narrow: labels.map_or_else(Vec::new, |labels| narrow::further(shape, &labels)),
        has_node_selector: !shape.constraints.node_selector.is_empty(),
        pin,
        avoid: (!kept_away.labels.is_empty() && !is_kept_from_its_node).then(|| Avoid {
            labels: kept_away.labels.clone(),
            affinity: shape.constraints.affinity.clone(),
        }),
        off_gpu_nodes: grant.off_gpu_nodes.then(|| shape.constraints.affinity.clone()),
        mgpu_results: mgpu_results.unwrap_or_default(),
        has_annotations: pod.has_annotations,
        was_told: pod.told.is_some(),
    })
}
