//! Whether a node would take a pod: what the node has left, what keeps pods off it, and which of its shared cards are left.
//! Under `admitOn: fit` no pod is let in that no node would take (docs/operate.md).

use std::collections::BTreeMap;

use crds::keys::{DEVICE_LABEL_PREFIX, MGPU_POLICY};
use serde_json::Value;

use super::cards::Card;
use super::cross_quota::CrossQuota;
use super::nodes::{Node, Shared, texts};
use super::pods::Pod;
use super::shares::{self, Taken};
use super::view::View;
use super::{Finding, broken};
use crate::objects::Key;

/// The rule.
pub const RULE: &str = "who is let in has a node that takes pods like it, and is large enough";

/// Judges a pod that is let in: some node accepts it, and is large enough. How much of that others have is another question:
/// a pod may be let in beside pods that are about to go.
pub fn judge(view: &View, key: &Key) -> Finding {
    let pod = view.pods.iter().find(|pod| pod.key == *key);
    let Some(pod) = pod.filter(|_| view.configuration.admit_on_fit) else {
        return Ok(());
    };
    // Only CrossQuota held the pod, and it no longer does.
    let is_governed =
        View::is_under_cross_quota(pod) && !pod.claimed.asks_for_devices && CrossQuota::of(view).is_some();
    if view.queue_of(pod).is_none() && !is_governed {
        return Ok(());
    }
    let is_large_enough = |node: &Node| {
        // Cards are judged by the rules on quota and shares.
        let mut request = pod.request.iter().filter(|(resource, _)| !resource.contains('/'));
        request.all(|(resource, asked)| *asked <= node.has(resource))
    };
    let mut nodes = view.nodes.iter();
    if nodes.any(|node| node.is_usable && is_wanted(node, pod) && is_large_enough(node)) {
        return Ok(());
    }
    broken(RULE, format!("{key} is let in, and no node takes pods like it"))
}

/// Whether a node has room for a pod with this card, and nothing keeps the pod off.
pub fn fits(view: &View, node: &Node, pod: &Pod, card: Option<&str>) -> bool {
    let is_had = |card: &Card| view.supplies(pod, card);
    let has_card = match card {
        Some(card) => node.card(card).is_some_and(is_had),
        // Whichever card it is, it has to be handed out in the way that the pod asks for it.
        None => node
            .cards
            .iter()
            .all(|card| pod.asks(&card.resource) == 0 || is_had(card)),
    };
    let on_it = |other: &&Pod| {
        let is_there = other.place().is_none_or(|place| place == node.name);
        is_there && !other.is_held && !other.is_over && other.key != pod.key
    };
    let has_room = pod.request.iter().all(|(resource, asked)| {
        let others = view.pods.iter().filter(on_it);
        *asked == 0 || *asked <= view.left_for(pod, node, resource, others)
    });
    node.is_usable && is_wanted(node, pod) && has_card && has_room && has_shares(view, node, pod)
}

/// Whether a pod may go to a node by its node selector, its required affinity and its tolerations.
fn is_wanted(node: &Node, pod: &Pod) -> bool {
    let selector = texts(&pod.spec["nodeSelector"]);
    // Labels that say which devices a node has are Cardgate's own, and are written when the first pod needs them.
    let mut asked = selector
        .iter()
        .filter(|(label, _)| !label.starts_with(DEVICE_LABEL_PREFIX));
    let is_selected = asked.all(|(label, value)| node.labels.get(label) == Some(value));
    let required = &pod.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    let is_near = terms.is_none_or(|terms| terms.iter().any(|term| matches(node, term)));
    is_selected && is_near && node.taints.iter().all(|taint| is_tolerated(pod, taint))
}

/// Whether all of a term holds for a node. An operator unknown here does not hold.
fn matches(node: &Node, term: &Value) -> bool {
    let list = |field: &str| term[field].as_array().map_or(&[][..], Vec::as_slice).iter();
    let name = BTreeMap::from([("metadata.name".to_owned(), node.name.clone())]);
    let holds = |one: &Value, among: &BTreeMap<String, String>| {
        let has = one["key"].as_str().and_then(|key| among.get(key));
        let values = one["values"].as_array();
        let is_one =
            || values.is_some_and(|values| values.iter().any(|value| value.as_str() == has.map(String::as_str)));
        match one["operator"].as_str() {
            Some("In") => has.is_some() && is_one(),
            Some("NotIn") => has.is_none() || !is_one(),
            Some("Exists") => has.is_some(),
            Some("DoesNotExist") => has.is_none(),
            _ => false,
        }
    };
    let is_something = list("matchExpressions").len() + list("matchFields").len() > 0;
    is_something
        && list("matchExpressions").all(|one| holds(one, &node.labels))
        && list("matchFields").all(|one| holds(one, &name))
}

/// Whether a pod tolerates a taint for as long as the taint may last.
fn is_tolerated(pod: &Pod, [key, value, effect]: &[String; 3]) -> bool {
    let tolerations = pod.spec["tolerations"].as_array().into_iter().flatten();
    tolerations
        .filter(|toleration| toleration["tolerationSeconds"].is_null())
        .any(|toleration| {
            let says = |field: &str| toleration[field].as_str().filter(|text| !text.is_empty());
            let exists = says("operator") == Some("Exists");
            let is_of_key = says("key").map_or(exists, |named| named == key);
            let is_of_effect = says("effect").is_none_or(|named| named == effect);
            is_of_key && is_of_effect && (exists || says("value").unwrap_or_default() == value)
        })
}

/// Whether a node has the shares of cards that a pod's containers ask for.
fn has_shares(view: &View, node: &Node, pod: &Pod) -> bool {
    if pod.shares.is_empty() {
        return true;
    }
    let Some(shared) = &node.shared else { return false };
    // If the node does not report a distinct id for each card, no pod can be told which card it gets.
    if view.configuration.mgpu_by_id && !shared.has_ids() {
        return false;
    }
    // Which policy a pod without one means is another question.
    let is_meant = pod
        .says(MGPU_POLICY)
        .is_some_and(|policy| node.labels.get(MGPU_POLICY).is_some_and(|of| of == policy));
    // A pod whose cards are not known may have any of them.
    let mut there = view.pods.iter().filter(|other| other.place() == Some(&node.name));
    let is_known = there.all(|other| other.is_held || other.is_over || shares::cards(other, shared).is_some());
    if !is_meant || !is_known {
        return false;
    }
    let mut wanted = Vec::new();
    for (container, share) in pod.shares.iter().enumerate() {
        let Some(memory) = share.memory.or((share.core == 100).then_some(shared.memory)) else {
            return false;
        };
        let taken = Taken {
            core: share.core,
            memory: if share.core == 100 { shared.memory } else { memory },
            containers: 1,
        };
        wanted.extend((0..share.cards).map(|_| (container, taken)));
    }
    let taken = shares::taken(view, node, shared);
    let mut cards: Vec<_> = (0..shared.count)
        .map(|card| taken.get(&card).copied().unwrap_or_default())
        .collect();
    takes(
        &mut cards,
        shared,
        view.configuration.mgpu_containers,
        &wanted,
        &mut Vec::new(),
    )
}

/// Whether the cards can give everything that is wanted. Each card of a container must be a different one.
fn takes(
    cards: &mut [Taken],
    shared: &Shared,
    most: usize,
    wanted: &[(usize, Taken)],
    given: &mut Vec<(usize, usize)>,
) -> bool {
    let Some(((container, share), rest)) = wanted.split_first() else {
        return true;
    };
    for card in 0..cards.len() {
        let before = cards[card];
        let after = Taken {
            core: before.core + share.core,
            memory: before.memory + share.memory,
            containers: before.containers + 1,
        };
        let has_room = after.core <= 100 && after.memory <= shared.memory && after.containers <= most;
        if !has_room || given.contains(&(*container, card)) {
            continue;
        }
        cards[card] = after;
        given.push((*container, card));
        if takes(cards, shared, most, rest, given) {
            return true;
        }
        given.pop();
        cards[card] = before;
    }
    false
}
