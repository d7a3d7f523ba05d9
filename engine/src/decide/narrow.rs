//! Narrowing: the node labels that make a pod land on the cards that it is charged for (docs/rules.md, **Card quota**).

use std::borrow::Cow;

use super::effort::Effort;
use super::fit;
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::device_cards::are_supplied;
use crate::cluster::node::{Node, NodeCard};
use crate::cluster::waiting::Shape;
use crate::ids::NodeId;
use crate::names::CardId;

/// Node labels, keys and values.
pub(super) type Labels = [(String, String)];

/// Returns the labels that make up the names of an alternative's cards on one node. None where the node does not have all of
/// them.
pub(super) fn labels_on<'a>(cluster: &'a Cluster, node: NodeId, alternative: &Alternative) -> Option<Cow<'a, Labels>> {
    labels(alternative, |card| {
        cluster.node(node).card(card).map(|card| &*card.found.labels)
    })
}

/// Returns the labels that make up the names of an alternative's cards, taken from the first node whose labels the pod may get,
/// whatever room it has. Where there is no such node, takes the labels of nodes that are gone, except for a pod that is kept off GPU
/// nodes: those may have been GPU nodes. None where the pod excludes these nodes, or no node has all the cards.
pub(super) fn labels_of<'a>(
    cluster: &'a Cluster,
    shape: &Shape,
    alternative: &Alternative,
    off_gpu_nodes: bool,
    effort: &Effort,
) -> Option<Cow<'a, Labels>> {
    let mut nodes = fit::nodes_for(cluster, Some(alternative)).iter();
    let remembered = || {
        let is_gone = |card| cluster.card(card).is_some_and(|card| card.nodes.is_empty());
        let meaning = |card| cluster.card(card)?.meaning.as_ref();
        let labels = labels(alternative, |card| meaning(card).map(|meaning| &*meaning.labels));
        let labels = labels.filter(|_| !off_gpu_nodes && !alternative.all(|card| !is_gone(card)));
        labels.filter(|labels| shape.constraints.may_select(labels))
    };
    let on_nodes = nodes.find_map(|node| labels_for(cluster, shape, alternative, off_gpu_nodes, *node, effort));
    on_nodes.or_else(remembered)
}

/// Returns the labels of an alternative's cards on a node, where a pod may get these labels: the node has the cards as the pod asks for
/// them, the pod may select the labels, and the pod is not kept off the node as off all GPU nodes (`off_gpu_nodes`).
pub(super) fn labels_for<'a>(
    cluster: &'a Cluster,
    shape: &Shape,
    alternative: &Alternative,
    off_gpu_nodes: bool,
    node: NodeId,
    effort: &Effort,
) -> Option<Cow<'a, Labels>> {
    if off_gpu_nodes && fit::counts_as_gpu_node(cluster, node) {
        effort.spend(1);
        return None;
    }
    effort.look_at_node(shape);
    let labels = labels_supplied(cluster, shape, alternative, cluster.node(node))?;
    shape.constraints.may_select(&labels).then_some(labels)
}

/// Returns the labels of an alternative's cards on a node that has them as the pod asks for them.
fn labels_supplied<'a>(
    cluster: &Cluster,
    shape: &Shape,
    alternative: &Alternative,
    node: &'a Node,
) -> Option<Cow<'a, Labels>> {
    if !are_supplied(cluster, &shape.task, Some(alternative), node) {
        return None;
    }
    let is_meant = |card: &&NodeCard| Some(card.resource) == cluster.resource_of(card.card);
    let meant = |card| node.card(card).filter(is_meant);
    labels(alternative, |card| meant(card).map(|card| &*card.found.labels))
}

/// Returns those of the labels that the pod does not select by itself.
pub(super) fn further(shape: &Shape, labels: &Labels) -> Vec<(String, String)> {
    let missing = |(key, _): &&(String, String)| shape.constraints.node_selector.get(key).is_none();
    labels.iter().filter(missing).cloned().collect()
}

/// Returns the labels of all cards of an alternative, where `of` knows each card.
fn labels<'a>(alternative: &Alternative, of: impl Fn(CardId) -> Option<&'a Labels>) -> Option<Cow<'a, Labels>> {
    match alternative {
        Alternative::Card(card) => of(*card).map(Cow::Borrowed),
        Alternative::Set(set) => {
            let mut labels = Vec::new();
            for (card, _) in set.cards() {
                let further = of(*card)?.iter().filter(|label| !labels.contains(*label));
                labels.extend(further.cloned().collect::<Vec<_>>());
            }
            Some(Cow::Owned(labels))
        }
    }
}
