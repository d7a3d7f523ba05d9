//! Binding a pod where its scheduler wants it. The node's cards are chosen here, so that the cards and the node are written at
//! once: nobody else gets the cards, and no crash leaves one written without the other.

use std::sync::Arc;

use crds::keys::{MGPU_CORE, MGPU_MEMORY};

use super::cards::{CardQuery, Shares};
use crate::cluster::Cluster;
use crate::cluster::pod::Stage;
use crate::decide::mgpu;
use crate::refs::PodRef;

/// A pod that is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The pod that the scheduler asked for.
    pub pod: PodRef,
    /// The node that the scheduler chose.
    pub node: Arc<str>,
    /// The results of mGPU scheduling, as annotations: keys and values.
    pub mgpu_results: Vec<(String, String)>,
}

/// What becomes of a scheduler's request to bind a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// The pod is to be bound, and counts as bound.
    Granted(Binding),
    /// The pod is bound there already.
    Done,
    /// The scheduler has seen something that has not been seen here; it soon will be.
    NotYet(String),
    /// The pod can't be bound there.
    Refused(String),
}

/// Takes the cards for a pod that is to be bound to this node.
pub fn bind(cluster: &mut Cluster, pod: &PodRef, node: &str) -> Wish {
    let known = cluster.pod_with_uid(&pod.uid);
    let Some((id, known)) = known.and_then(|id| Some((id, cluster.pod(id)?))) else {
        return Wish::NotYet(format!("no pod {pod} with uid {} is known", pod.uid));
    };
    if known.task.mgpu.is_none() {
        // The scheduler binds other pods itself. A caller that can reach the extender must not bind them in the scheduler's name.
        return Wish::Refused(format!(
            "pod {pod} asks for no mGPU: name {MGPU_CORE} and {MGPU_MEMORY} in the managedResources of the extender that binds"
        ));
    }
    let there = known.room.map(|node| &*cluster.node(node).name);
    match known.stage {
        Stage::Bound if there == Some(node) => return Wish::Done,
        Stage::Bound => return Wish::Refused(format!("pod {pod} is bound to node {}", there.unwrap_or_default())),
        // API servers would refuse the binding, and the cards would be taken for nobody.
        _ if known.deleted.is_some() => return Wish::Refused(format!("pod {pod} is being deleted")),
        Stage::Unbound { .. } if known.binding => {
            let there = there.unwrap_or_default();
            return Wish::Refused(format!("pod {pod} is being bound to node {there} already"));
        }
        Stage::Unbound { .. } => {}
        Stage::Admitting { .. } | Stage::Waiting | Stage::Blocked => {
            return Wish::NotYet(format!("pod {pod} has a scheduling gate"));
        }
    }
    let Some(node) = cluster.node_named(node) else {
        return Wish::NotYet(format!("no node {node} is known"));
    };
    if known.has_one_node && known.room != Some(node) {
        return Wish::Refused(format!("pod {pod} may go to node {} alone", there.unwrap_or_default()));
    }
    let mut gpus = None;
    let mut mgpu_results = Vec::new();
    let shares = Shares::read(cluster, true, Some(known), &known.task).filter(|_| !known.says_its_cards());
    if let Some(Shares::Of(request)) = shares {
        let mut query = CardQuery::new(cluster, Some(id), &request);
        if let Some(refusal) = query.refusal(node) {
            return Wish::Refused(refusal.to_string());
        }
        gpus = query.results(node);
        mgpu_results.extend(gpus.iter().flat_map(|gpus| mgpu::annotations(&request, gpus)));
    }
    let binding = Binding {
        pod: known.to_ref(),
        node: Arc::clone(&cluster.node(node).name),
        mgpu_results,
    };
    cluster.begin_binding(id, node, gpus);
    Wish::Granted(binding)
}
