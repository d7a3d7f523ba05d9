//! Narrowing: the node labels by which a pod lands on the card that it is charged for (docs/rules.md, **Card quota**).

use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::ids::NodeId;
use crate::names::CardId;

/// Node labels, keys and values.
pub(super) type Labels = [(String, String)];

/// The labels that make up a card's name on one node.
pub(super) fn labels_on(cluster: &Cluster, node: NodeId, card: CardId) -> Option<&Labels> {
    Some(&cluster.node(node).card(card)?.found.labels)
}

/// The labels that make up a card's name on the first node that the pod may select, whatever room it has; those of nodes
/// that are gone where there is none. None where the pod excludes the card.
pub(super) fn labels_of<'a>(cluster: &'a Cluster, shape: &Shape, card: CardId) -> Option<&'a Labels> {
    let known = cluster.card(card)?;
    let meaning = known.meaning.as_ref()?;
    let on_nodes = known
        .nodes
        .iter()
        .filter_map(|node| cluster.node(*node).card(card))
        .filter(|found| found.resource == meaning.resource)
        .map(|card| &*card.found.labels);
    let remembered = known.nodes.is_empty().then_some(&*meaning.labels);
    on_nodes
        .chain(remembered)
        .find(|labels| shape.constraints.may_select(labels))
}
