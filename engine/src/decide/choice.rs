//! Keeping pods away from nodes where the scheduler could give them other cards, or more cards, than they are charged for, or
//! where it would give up on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::configuration::AdmitOn;

use super::effort::{Effort, LOOK_AT_NODE};
use super::fit::nodes_for;
use super::narrow;
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::choice::{KeptAway, could_exceed, exceeds, open_requests};
use crate::cluster::device_cards::device_label;
use crate::cluster::device_room::may_fail;
use crate::cluster::node::Node;
use crate::cluster::waiting::Shape;
use crate::task::{Task, Wanted};

/// The most other cards that a pod is kept away from by labels.
const MOST_AVOIDED: usize = 16;

/// Whether labels alone lead a pod of this shape to this alternative, and to no other or further cards: then it may be let in
/// without a node. With `off_gpu_nodes`, only labels of other nodes than GPU nodes count. False where too many steps were spent already
/// to know.
pub(super) fn is_selectable(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    off_gpu_nodes: bool,
    effort: &Effort,
) -> bool {
    alternative.is_none_or(|alternative| {
        !effort.is_spent()
            && narrow::labels_of(cluster, shape, alternative, off_gpu_nodes, effort).is_some()
            && !kept_away(cluster, shape, alternative, effort).is_open
    })
}

/// Returns what keeps pods of this shape that are charged for an alternative away from nodes where the scheduler could give them
/// more. Found out once in a round.
pub(super) fn kept_away(cluster: &Cluster, shape: &Shape, alternative: &Alternative, effort: &Effort) -> Arc<KeptAway> {
    let task = &shape.task;
    let requests = open_requests(cluster, task);
    if requests.is_none() && !may_fail(task) {
        return Arc::default();
    }
    cluster.kept_away(task, alternative, || {
        let costs = requests.iter().flat_map(|requests| &**requests).map(cost_of_choice);
        let cost = costs.fold(LOOK_AT_NODE, usize::saturating_add);
        // What could be given on nodes that come is asked once more.
        effort.spend(cost.saturating_mul(nodes_for(cluster, Some(alternative)).len() + 1));
        find_kept_away(cluster, task, alternative)
    })
}

/// Returns the cost of asking what the scheduler could give for a request on a node.
fn cost_of_choice(request: &Wanted) -> usize {
    let size = request.choices.iter().map(|choice| choice.len()).sum::<usize>();
    // Where devices are mixed, each choice is compared with all others.
    size.saturating_mul(if request.mixes { size } else { 1 })
}

fn find_kept_away(cluster: &Cluster, task: &Task, alternative: &Alternative) -> KeptAway {
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
        // Where no node is asked (`admitOn: quota`), the pod would have to wait for one, and an autoscaler would add none.
        is_open: cluster.configuration().cardgate.admit_on == AdmitOn::Fit && could_exceed(cluster, task, alternative),
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
