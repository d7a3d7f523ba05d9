//! Keeping pods away from nodes where the scheduler could give them other cards, or more, than they are charged for, or where it would give
//! up on them.

use std::collections::BTreeSet;

use super::effort::Effort;
use super::fit::nodes_for;
use super::narrow;
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::choice::{exceeds, open_requests};
use crate::cluster::device_cards::device_label;
use crate::cluster::device_room::may_fail;
use crate::cluster::node::{Node, Supply};
use crate::cluster::waiting::Shape;
use crate::names::CardId;
use crate::task::Task;

/// So many other cards are kept away from a pod by their labels, at most.
const MOST_AVOIDED: usize = 16;

/// How a pod is kept away from nodes.
#[derive(Debug, Default)]
pub(super) struct KeptAway {
    /// The labels of nodes that it must not go to.
    pub labels: Vec<String>,
    /// Whether those don't say of some node that it must not go there, or say so of every node where it may go: it must have its node.
    pub is_open: bool,
    /// The cards of those labels.
    cards: BTreeSet<CardId>,
}

impl KeptAway {
    /// Whether a node has one of the labels.
    pub(super) fn has_label(&self, node: &Node) -> bool {
        let mut cards = self.cards.iter().filter_map(|card| node.card(*card));
        cards.any(|card| card.supply == Supply::Devices)
    }
}

/// Whether labels alone lead a pod of this shape to this alternative, and to no other cards or more of them: it may be let in without a node.
pub(super) fn is_selectable(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>) -> bool {
    alternative.is_none_or(|alternative| {
        narrow::labels_of(cluster, shape, alternative).is_some()
            && !kept_away(cluster, &shape.task, alternative).is_open
    })
}

/// The alternatives of pods of this shape that labels don't lead them to. Those of claims are compared with all nodes.
pub(super) fn unselectable(cluster: &Cluster, shape: &Shape, effort: &Effort) -> Vec<Alternative> {
    let alternatives = shape.task.alternatives.iter();
    let unselectable = alternatives.filter(|alternative| {
        if shape.task.claims_cards() {
            effort.look_at_nodes(shape, nodes_for(cluster, Some(alternative)).len());
        }
        effort.is_spent() || !is_selectable(cluster, shape, Some(alternative))
    });
    unselectable.cloned().collect()
}

/// What keeps a pod that is charged for an alternative away from nodes where the scheduler could give it more.
pub(super) fn kept_away(cluster: &Cluster, task: &Task, alternative: &Alternative) -> KeptAway {
    let nodes = nodes_for(cluster, Some(alternative)).iter();
    let nodes = nodes.map(|node| cluster.node(*node));
    let has_all = |node: &&Node| alternative.all(|card| node.card(card).is_some());
    let mut nodes = nodes.filter(has_all);
    let must_not = |node: &Node| exceeds(cluster, task, alternative, node) || cluster.selectors_fail(task, node);
    let Some(requests) = open_requests(cluster, task) else {
        return KeptAway {
            labels: Vec::new(),
            cards: BTreeSet::new(),
            is_open: may_fail(task) && nodes.any(|node| cluster.selectors_fail(task, node)),
        };
    };
    let choices = requests.iter().flat_map(|request| &request.choices).flatten();
    let others: BTreeSet<_> = choices
        .map(|(card, ..)| *card)
        .filter(|card| !alternative.has(*card))
        .collect();
    let cards: BTreeSet<_> = others.into_iter().take(MOST_AVOIDED).collect();
    let mut kept_away = KeptAway {
        labels: cards
            .iter()
            .map(|card| device_label(cluster.names().card_name(*card)))
            .collect(),
        is_open: false,
        cards,
    };
    let (mut may, mut may_without_label) = (false, false);
    for node in nodes {
        match (must_not(node), kept_away.has_label(node)) {
            (true, false) => kept_away.is_open = true,
            (true, true) => {}
            (false, has_label) => {
                may = true;
                may_without_label |= !has_label;
            }
        }
    }
    kept_away.is_open |= may && !may_without_label;
    kept_away
}
