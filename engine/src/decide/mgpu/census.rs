//! What mGPU nodes say to pods, asked for messages to people. All of them are asked, but within a limited number of steps, since
//! everything else waits meanwhile.

use std::collections::BTreeSet;

use crds::mgpu::MgpuRequest;

use super::{Answer, Query, Says, Unfit, fit};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::census::{Looks, could_take};
use crate::decide::cross_quota;
use crate::decide::effort::{Effort, STEPS_OF_MESSAGE};
use crate::ids::NodeId;

/// How many mGPU nodes give which answer, for messages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Census {
    pub nodes: usize,
    /// Nodes that would take the pod: either other pods of its group have no room, or the pod is let in within moments.
    pub take: usize,
    /// Nodes that would take the pod if nothing of them were set aside for others.
    pub set_aside: usize,
    pub cards_in_use: usize,
    /// Nodes that would take the pod, but only for cards that its queue has too little quota for.
    pub without_quota: usize,
    /// Nodes with none of the cards that the pod may have.
    pub other_cards: usize,
    pub cards_too_small: usize,
    pub too_complex: usize,
    pub over_quota: usize,
    pub other_policy: usize,
    pub too_few_cards: usize,
    pub no_device_ids: usize,
    pub lack_room: usize,
    pub lack_devices: usize,
    pub unusable: usize,
    pub excluded: usize,
    pub not_asked: usize,
}

/// Asks every mGPU node. Something of the `kept` nodes is set aside for others, and `lacks_quota` tells of which of the pod's
/// alternatives its queue has too little left. Only for messages, since it looks at all of them.
pub(crate) fn census(
    cluster: &Cluster,
    shape: &Shape,
    request: &MgpuRequest,
    kept: &BTreeSet<NodeId>,
    lacks_quota: impl Fn(&Alternative) -> bool,
) -> Census {
    let mut census = Census::default();
    // A message is worth a look at each node, but no long search.
    let mut query = Query::of(cluster, shape, request, Effort::of_message());
    let could_hold = |query: &mut Query<'_>, node: NodeId| {
        let cards = cluster.node(node).offer().and_then(|offer| offer.mgpu.as_ref());
        cards.is_some_and(|cards| query.could_hold(cards))
    };
    for node in cluster.mgpu_nodes() {
        census.nodes += 1;
        if query.effort.spent() >= STEPS_OF_MESSAGE {
            census.not_asked += 1;
            continue;
        }
        let Some((says, without_quota)) = says_of_own_cards(&mut query, cluster, shape, *node, &lacks_quota) else {
            census.other_cards += 1;
            continue;
        };
        match says {
            Says::Takes(_) if without_quota => census.without_quota += 1,
            Says::Takes(_) if kept.contains(node) => census.set_aside += 1,
            Says::Takes(_) => census.take += 1,
            Says::Refuses(Unfit::TooComplex) => census.too_complex += 1,
            Says::Refuses(Unfit::CardsInUse) if !could_hold(&mut query, *node) => census.cards_too_small += 1,
            Says::Refuses(Unfit::CardsInUse) => census.cards_in_use += 1,
            Says::OverQuota => census.over_quota += 1,
            Says::Refuses(Unfit::OtherPolicy) => census.other_policy += 1,
            Says::Refuses(Unfit::TooFewCards) => census.too_few_cards += 1,
            Says::Refuses(Unfit::NoDeviceIds) => census.no_device_ids += 1,
            Says::Unfit(Answer::LacksRoom) => census.lack_room += 1,
            Says::Unfit(Answer::LacksDevices) => census.lack_devices += 1,
            Says::Unfit(Answer::Unusable) => census.unusable += 1,
            Says::Unfit(_) => census.excluded += 1,
        }
    }
    census
}

/// Returns what a node says to a pod about the cards that the pod may have, and whether it would take the pod only for cards that
/// there is too little quota for. The node takes the pod if it would for a card that there is quota for; otherwise its answer is
/// the one about the first card that it has. None where it has none of the cards.
fn says_of_own_cards<'a>(
    query: &mut Query<'a>,
    cluster: &'a Cluster,
    shape: &Shape,
    node: NodeId,
    lacks_quota: impl Fn(&Alternative) -> bool,
) -> Option<(Says, bool)> {
    if shape.task.alternatives.is_empty() {
        return Some((query.ask(cluster, shape, None, node)?, false));
    }
    let (mut first, mut takes_without_quota) = (None, None);
    for alternative in &*shape.task.alternatives {
        match query.ask(cluster, shape, Some(alternative), node) {
            Some(takes @ Says::Takes(_)) if lacks_quota(alternative) => {
                takes_without_quota = takes_without_quota.or(Some((takes, true)));
            }
            Some(takes @ Says::Takes(_)) => return Some((takes, false)),
            other => first = first.or(other.map(|says| (says, false))),
        }
    }
    takes_without_quota.or(first)
}

/// What the mGPU node that could do best would say to a pod if nothing else were on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::decide) enum Ever {
    /// No node suits the pod, however large it is.
    Unsuited,
    /// The node is too small, or its cards are: for all containers together, or for one.
    TooSmall,
    Takes,
}

/// Returns what mGPU nodes would say to a pod with this alternative if nothing else were on them, as far as a search can tell.
/// Where not all nodes may be asked, or not long enough, one counts as taking the pod.
pub(in crate::decide) fn ever(
    cluster: &Cluster,
    shape: &Shape,
    request: &MgpuRequest,
    alternative: Option<&Alternative>,
    looks: &Looks,
) -> Ever {
    let mut query = Query::of(cluster, shape, request, Effort::of_message());
    let mut best = Ever::Unsuited;
    for id in cluster.mgpu_nodes() {
        let node = cluster.node(*id);
        let Some(cards) = node.offer().and_then(|offer| offer.mgpu.as_ref()) else {
            continue;
        };
        if !looks.may_look(shape) {
            return Ever::Takes;
        }
        let suits = query.mismatch(cards).is_none()
            && matches!(
                fit::ask(cluster, shape, alternative, node),
                Answer::Takes | Answer::LacksRoom | Answer::LacksDevices | Answer::Unusable
            );
        if !suits {
            continue;
        }
        let holds = could_take(cluster, shape, alternative, *id, looks.searches())
            && cross_quota::is_within(cluster, shape, *id)
            && query.could_hold(cards);
        if holds {
            return Ever::Takes;
        }
        best = Ever::TooSmall;
    }
    best
}
