//! What nodes say to pods that wait for them, counted.

use crds::keys::MGPU_POLICY;
use crds::mgpu::ComputePolicy;

use super::cross_quota::over_quota;
use super::found::{NodeCount, Nodes, What};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::census::{self, Looks, kept_for_others};
use crate::decide::mgpu;
use crate::decide::verdict::{check_of, is_for};

/// What is said of nodes that would take the pod if room on them were not set aside.
const SET_ASIDE: &str = "whose room is set aside for pods that wait for others to end";

/// Returns whether a pod's queue has too little quota left for an alternative.
fn lacks_quota<'c>(cluster: &'c Cluster, shape: &'c Shape) -> impl Fn(&Alternative) -> bool + 'c {
    let has_room = |dimension, asked| cluster.room_for(shape, dimension, asked).is_ok();
    let check = check_of(cluster, shape, has_room);
    // Where the queue is not for the pod's namespace, nothing is said of quotas.
    let is_limited = !cluster.queue(shape.queue).is_nameless() && is_for(cluster, shape.queue, &shape.namespace);
    move |alternative| is_limited && check.without_room(alternative).next().is_some()
}

/// Returns what nodes say to a pod that none of them can take.
pub(super) fn none_takes<'c>(cluster: &Cluster, shape: &'c Shape, lead: &str) -> Nodes<'c> {
    let lacks_quota = lacks_quota(cluster, shape);
    let looks = Looks::of_message();
    let kept = kept_for_others(cluster, shape);
    let (mut some_away, mut some_there) = (false, false);
    let mut count = |alternative: Option<&Alternative>| {
        let census = census::census(cluster, shape, alternative, &kept, &looks);
        some_away |= census.unusable > 0;
        some_there |= census.take + census.set_aside + census.lack_room + census.lack_devices + census.not_asked > 0;
        let (without_quota, set_aside) = if alternative.is_some_and(&lacks_quota) {
            (census.take + census.set_aside, 0)
        } else {
            (0, census.set_aside)
        };
        let parts = [
            (without_quota, "whose card the queue has too little quota left for"),
            (set_aside, SET_ASIDE),
            (census.lack_room, "without enough room"),
            (census.lack_devices, "without free devices as the pod claims them"),
            (
                census.excluded,
                "excluded by the pod's node selector, affinity or tolerations",
            ),
            (
                census.leave_choice,
                "where the pod's claims select other cards too, or more of them: select the cards themselves",
            ),
            (
                census.fail_selectors,
                "with devices that lack an attribute which a selector of the pod's claims asks for, where the scheduler would give up on \
                 the pod: ask for it by has() first",
            ),
            (
                census.give_otherwise,
                "where a card is handed out in another way than the pod asks for it: as devices to be claimed, or by a device plugin",
            ),
            (census.unusable, "not ready or cordoned"),
            (
                census.not_asked,
                "not asked, since the pod says too much about nodes: say less in its affinity and tolerations",
            ),
        ];
        NodeCount {
            nodes: census.nodes,
            kind: "node",
            card: alternative.map(|alternative| cards_of_nodes(cluster, alternative)),
            parts: parts.map(|(count, text)| (count, text.to_owned())).into(),
        }
    };
    let alternatives = known_alternatives(cluster, shape);
    let mut counts = Vec::new();
    for alternative in &alternatives {
        let of_same_cards = count(Some(alternative));
        // Alternatives that differ only in numbers have the same nodes, but may differ in how many have room.
        if !counts.contains(&of_same_cards) {
            counts.push(of_same_cards);
        }
    }
    if counts.is_empty() {
        counts.push(count(None));
    }
    Nodes {
        lead: lead.to_owned(),
        counts,
        are_away: some_away && !some_there,
        over_quota: Vec::new(),
        shape,
        alternatives,
    }
}

/// Returns the cards that a node must have for an alternative. Where the cards come in several ways, says by which way each comes.
fn cards_of_nodes(cluster: &Cluster, alternative: &Alternative) -> String {
    let names = cluster.names();
    let ways = alternative.set().and_then(|set| Some((set, set.requested()?.0)));
    let Some((set, requested)) = ways else {
        return alternative.joined(names, " and ");
    };
    let claimed: Vec<_> = set.claimed().map(|(card, _)| names.card_name(card)).collect();
    let requested = names.card_name(requested);
    format!(
        "{requested} by a device plugin and {} as devices",
        claimed.join(" and ")
    )
}

/// Returns the alternatives of a pod of which the cluster has all cards.
fn known_alternatives<'c>(cluster: &Cluster, shape: &'c Shape) -> Vec<&'c Alternative> {
    let is_known = |alternative: &&Alternative| alternative.all(|card| cluster.resource_of(card).is_some());
    shape.task.alternatives.iter().filter(is_known).collect()
}

/// Returns what mGPU nodes say to a pod for which none of them has cards.
pub(super) fn none_has_cards<'c>(cluster: &Cluster, shape: &'c Shape, lead: String) -> What<'c> {
    let Some(request) = &shape.task.mgpu else {
        // The pod of a group that is refused first speaks for all its pods.
        return What::Said(format!("of a pod of its group that asks for shares of cards: {lead}"));
    };
    let kept = kept_for_others(cluster, shape);
    let census = mgpu::census(cluster, shape, request, &kept, lacks_quota(cluster, shape));
    let policy = match request.policy {
        Some(policy) => format!("with another compute policy than {policy}"),
        None => format!(
            "with another compute policy than {}, which is that of pods without annotation {MGPU_POLICY}",
            ComputePolicy::default()
        ),
    };
    let parts = [
        (census.take, "that could take the pod by itself"),
        (census.set_aside, SET_ASIDE),
        (census.cards_in_use, "whose cards have no room for its containers"),
        (
            census.cards_too_small,
            "whose cards are too small or too few for its containers, whatever is free of them",
        ),
        (
            census.without_quota,
            "whose card the queue has too little quota left for",
        ),
        (census.too_complex, "where no way was found"),
        (census.over_quota, "whose quota for pods without GPU is used up"),
        (census.lack_room, "without enough room"),
        (census.lack_devices, "without free devices as the pod claims them"),
        (census.other_policy, &policy),
        (census.too_few_cards, "with fewer cards than a container asks for"),
        (census.no_device_ids, "without a device id for each card"),
        (census.other_cards, "with other cards than it may have"),
        (
            census.excluded,
            "excluded by the pod's node selector, affinity or tolerations",
        ),
        (census.unusable, "not ready or cordoned"),
        (
            census.not_asked,
            "not asked, since their cards take too long to search: say less about nodes, or ask for shares in fewer containers",
        ),
    ];
    let count = NodeCount {
        nodes: census.nodes,
        kind: "mGPU node",
        card: None,
        parts: parts.map(|(count, text)| (count, text.to_owned())).into(),
    };
    What::Nodes(Nodes {
        lead,
        counts: vec![count],
        are_away: census.unusable > 0
            && census.take
                + census.set_aside
                + census.cards_in_use
                + census.without_quota
                + census.too_complex
                + census.over_quota
                + census.lack_room
                + census.lack_devices
                + census.not_asked
                == 0,
        over_quota: match census.over_quota {
            0 => Vec::new(),
            _ => over_quota(cluster, shape),
        },
        shape,
        alternatives: known_alternatives(cluster, shape),
    })
}
