//! What is shown of the cards that nodes share through mGPU.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::card_inventory::SharedGpu;
use crds::keys::MGPU_INDEX_PREFIX;
use crds::mgpu::CARD_CORE;

use super::{Cluster, GpuFigures};
use crate::cluster::Changes;
use crate::cluster::gpus::Placed;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::ids::NodeId;
use crate::policies::mgpu::CardUse;
use crate::refs::PodRef;

/// Returns what is in use of each card of a node, and by which containers.
pub(super) fn shared(cluster: &Cluster, id: NodeId) -> Vec<SharedGpu> {
    let node = cluster.node(id);
    let Some((offer, mgpu)) = node.offer().and_then(|offer| Some((offer, offer.mgpu.as_ref()?))) else {
        return Vec::new();
    };
    let placed = cluster.containers_on_cards(id);
    let free = |free: i64| if offer.is_usable() { free.max(0) } else { 0 };
    let card = |(index, used): (u16, &CardUse)| SharedGpu {
        index: index.into(),
        id: mgpu.device_id(index).map(Into::into),
        core_used: used.core,
        core_free: free(CARD_CORE - used.core),
        memory: mgpu.memory,
        memory_used: used.memory,
        memory_free: free(mgpu.memory - used.memory),
        containers: containers(cluster, &placed, index),
    };
    (0..).zip(node.gpus.iter()).map(card).collect()
}

/// Returns the containers on a card, by name.
fn containers(cluster: &Cluster, placed: &[Placed], card: u16) -> Vec<String> {
    let on_card = placed.iter().filter(|placed| placed.cards.contains(&card));
    let mut names: Vec<_> = on_card
        .filter_map(|placed| {
            let pod = cluster.pod(placed.pod)?;
            let container = container_name(pod, placed.container)?;
            Some(format!("{}/{}/{container}", pod.namespace, pod.name))
        })
        .collect();
    names.sort_unstable();
    names
}

/// Returns the name of one of the containers that ask for mGPU.
fn container_name(pod: &Pod, container: usize) -> Option<&str> {
    let request = pod.task.mgpu.as_ref()?;
    request.containers.get(container).map(|(name, _)| &**name)
}

/// Returns the figures of the nodes whose cards or their use have changed, for the metrics.
pub fn gpu_figures(cluster: &Cluster, changes: &Changes) -> Vec<(Arc<str>, Vec<GpuFigures>)> {
    let gone = changes
        .nodes_gone
        .iter()
        .map(|(name, _)| (Arc::clone(name), Vec::new()));
    let nodes: BTreeSet<_> = changes.nodes.union(&changes.node_usage).collect();
    let there = nodes.into_iter().map(|id| {
        let node = cluster.node(*id);
        (Arc::clone(&node.name), figures(node))
    });
    // If a node was replaced by another of its name, the old one is reported gone first.
    gone.chain(there).collect()
}

fn figures(node: &Node) -> Vec<GpuFigures> {
    let mgpu = node.offer().and_then(|offer| offer.mgpu.as_ref());
    let total_memory = mgpu.map_or(0, |mgpu| mgpu.memory);
    let card = |used: &CardUse| GpuFigures {
        core: used.core,
        memory: used.memory,
        total_memory,
        containers: used.containers.into(),
    };
    node.gpus.iter().map(card).collect()
}

/// Returns what to say on a bound pod without a scheduling result: the cards that its containers are taken to hold.
pub fn first_fit(cluster: &Cluster, uid: &str) -> Option<(PodRef, String)> {
    let id = cluster.pod_with_uid(uid)?;
    let pod = cluster.pod(id)?;
    let node = pod.room?;
    let placed = cluster.containers_on_cards(node);
    let lists: Vec<_> = placed
        .iter()
        .filter(|placed| placed.pod == id)
        .filter_map(|placed| {
            let cards: Vec<_> = placed.cards.iter().map(ToString::to_string).collect();
            Some(format!(
                "{} {}",
                container_name(pod, placed.container)?,
                cards.join(",")
            ))
        })
        .collect();
    let (what, name) = if pod.has_mgpu_results() {
        (
            "with",
            "do not say for each container which of the node's cards it uses",
        )
    } else {
        ("without the", "say which cards its containers use")
    };
    let message = format!(
        "the pod runs on node {} {what} annotations {MGPU_INDEX_PREFIX}<name> that {name}: they \
         are taken to use the first cards with room ({}); delete the pod and create it anew to have it placed",
        cluster.node(node).name,
        lists.join("; ")
    );
    let pod = PodRef {
        namespace: Arc::clone(&pod.namespace),
        name: Arc::clone(&pod.name),
        uid: Arc::clone(&pod.uid),
    };
    Some((pod, message))
}
