//! The score of the Capacity Card document's **Node Ordering**, for a scheduler that asks and for the simulation. Gating needs no
//! such score: it takes the leftmost card that has quota and a place.

use crate::cluster::Cluster;
use crate::ids::{NodeId, PodId};
use crate::policies::card_quota::node_order_score;
use crate::task::Task;

/// Returns the score of a node for a pod.
pub(crate) fn score_of_node(cluster: &Cluster, task: &Task, node: NodeId) -> f64 {
    let arguments = &cluster.configuration().capacity_card;
    node_order_score(arguments, &task.alternatives, |card| {
        cluster.node(node).card(card).is_some()
    })
}

/// Returns the score, for a pod, of the nodes with the card that the pod was let in for. None where the pod has no choice of
/// cards.
pub fn score_of_card(cluster: &Cluster, pod: PodId) -> Option<f64> {
    let pod = cluster.pod(pod)?;
    let alternatives = &pod.task.alternatives;
    let given = pod.charge.as_ref()?.alternative.as_ref()?;
    let arguments = &cluster.configuration().capacity_card;
    (alternatives.len() > 1).then(|| node_order_score(arguments, alternatives, |card| given.has(card)))
}
