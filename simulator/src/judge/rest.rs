//! When all is quiet, no pod waits that could run: for each waiting pod, every card and every node is tried.
//!
//! # What is not judged
//! Pods that wait for something else than room: pods held by other gates, pods being deleted, pods under CrossQuota (which
//! of several placements is chosen is a question for the documents), pods whose write the API server refused, pods of queues
//! that only some namespaces may use, pods that share claims, and pods with spread constraints. Groups of which some pods
//! are let in, or that keep tasks apart. Pods that compete with what their queue, or one above it, keeps for others: what is
//! kept is not available. A pod that was let in and is not bound yet may go anywhere, so it counts on every node.

use std::collections::BTreeSet;

use crds::keys::{ADMITTED_CONDITION, CARD_ASSIGNED, CROSS_QUOTA_LABEL, GROUP_NAME, QUEUE_NAMESPACES};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::amounts::{Resources, What};
use super::claims::Claimed;
use super::cross_quota::CrossQuota;
use super::kept::Kept;
use super::nodes::Texts;
use super::pods::{Pod, is_held};
use super::queues::named;
use super::stored::Stored;
use super::view::View;
use super::{Finding, broken, places, quota, told};
use crate::objects::{Key, PODS, QUEUES};

/// The rule.
pub const RULE: &str = "nobody waits who could run";
/// The rule about what waiting pods are told.
pub const TOLD: &str = "whoever waits is told why";

/// Reasons that are not about room, or not only about room.
pub const OTHERWISE: [&str; 4] = [
    "RefusedByAPIServer",
    "InqueueTimeout",
    "ReservationTimeout",
    "NamespaceNotAllowed",
];

/// Judges all waiting pods; with `kept`, also the numbers that they are told.
pub fn judge(stored: &Stored, kept: Option<&Kept>, now: Timestamp) -> Finding {
    let Some(view) = View::read(&stored.now, now, &BTreeSet::new()) else {
        return Ok(());
    };
    if let Some(kept) = kept {
        told::judge_workloads(&view, stored, kept)?;
    }
    let room = view.with_room();
    let waits = |pod: &&Pod| pod.is_held && pod.deleted.is_none() && !pod.is_over && is_alone(&pod.spec);
    // If nothing is found for one pod, nothing is found for pods like it.
    let mut tried = BTreeSet::new();
    for pod in view.pods.iter().filter(waits) {
        if view.queue_of(pod).is_none() {
            continue;
        }
        let Some((reason, message)) = what_is_told(stored, &pod.key) else {
            return broken(TOLD, format!("{} waits, and has no condition that says why", pod.key));
        };
        if kept.is_some() {
            told::judge(&view, pod, &message)?;
        }
        let is_for_room = !OTHERWISE.contains(&&*reason) && pod.says(GROUP_NAME).is_none();
        if is_for_room && is_looked_at(stored, &view, pod) && tried.insert(traits(pod)) {
            judge_pod(&room, pod, &format!("{reason}: {message}"))?;
        }
    }
    Ok(())
}

/// Returns everything that decides whether a pod could run. If two pods share it, both could run, or neither could.
fn traits(pod: &Pod) -> (String, Texts, Resources, String) {
    let namespace = pod.key.namespace.clone();
    let constraints = ["nodeSelector", "affinity", "tolerations", "priority"].map(|field| &pod.spec[field]);
    let rest = format!(
        "{constraints:?} {:?} {:?} {:?}",
        pod.claimed,
        pod.shares,
        pod.labels.get(CROSS_QUOTA_LABEL)
    );
    (namespace, pod.annotations.clone(), pod.request.clone(), rest)
}

/// Whether Cardgate's gate is the only one.
pub fn is_alone(spec: &Value) -> bool {
    spec["schedulingGates"].as_array().is_some_and(|gates| gates.len() == 1)
}

/// Returns the reason and the message that a waiting pod is told; `None` if it is told nothing.
pub fn what_is_told(stored: &Stored, key: &Key) -> Option<(String, String)> {
    let (reason, message) = told_by_condition(stored.now.get(&PODS)?.get(key)?)?;
    Some((reason.to_owned(), message.to_owned()))
}

/// Returns, from its condition, why a pod waits that only Cardgate's gate holds.
pub fn why_it_waits(pod: &Value) -> Option<&str> {
    let waits = pod["metadata"]["deletionTimestamp"].is_null() && is_held(pod) && is_alone(&pod["spec"]);
    waits.then(|| told_by_condition(pod))?.map(|(reason, _)| reason)
}

fn told_by_condition(pod: &Value) -> Option<(&str, &str)> {
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let told =
        conditions.find(|condition| condition["type"] == ADMITTED_CONDITION && condition["status"] == "False")?;
    let reason = told["reason"].as_str().filter(|reason| !reason.is_empty())?;
    Some((reason, told["message"].as_str().unwrap_or_default()))
}

/// Whether a pod waits only for room, as far as that is judged here.
pub fn is_looked_at(stored: &Stored, view: &View, pod: &Pod) -> bool {
    let queue = view
        .queue_of(pod)
        .and_then(|queue| stored.now.get(&QUEUES)?.get(&Key::new("", queue)));
    let is_for_some = queue.is_some_and(|queue| queue["metadata"]["annotations"][QUEUE_NAMESPACES].is_string());
    let affinity = &pod.spec["affinity"];
    let is_simple = affinity["podAffinity"].is_null()
        && affinity["podAntiAffinity"].is_null()
        && pod.spec["topologySpreadConstraints"].is_null();
    let is_shared = pod.shares.is_empty() || view.configuration.mgpu;
    let Claimed { unclear, shared, .. } = &pod.claimed;
    let claims = *unclear || !shared.is_empty() || !pod.claimed.cards.is_empty() && !view.configuration.admit_on_fit;
    // What is kept free for others counts if it is named, which is not judged here.
    let is_compared = !view.configuration.named_only;
    let is_placed = View::is_under_cross_quota(pod) && CrossQuota::of(view).is_some();
    is_compared && is_shared && is_simple && !is_for_some && !claims && !is_placed
}

/// Whether all nodes together have what a pod requests beside what others have; of cards only if the cluster limits them.
fn is_there(view: &View, pod: &Pod, card: Option<&str>) -> bool {
    let has_cards = card.is_none_or(|card| {
        let what = What::Card(card.to_owned());
        let charges = view.pods.iter().filter_map(|other| view.charge(other));
        let others: i128 = charges.filter_map(|charge| charge.amounts.get(&what).copied()).sum();
        quota::cluster_limit(view, &what).is_none_or(|limit| others + view.count_of(pod, card) <= limit)
    });
    // Only an operator that has seen a card knows how it is requested once no node has it. Existing cards have to be handed
    // out in the way that the pod asks for them.
    let are_supplied = card.is_none_or(|card| {
        let mut there = view.nodes.iter().filter_map(|node| node.card(card));
        there.any(|card| view.supplies(pod, card))
    });
    has_cards
        && are_supplied
        && pod.request.iter().all(|(resource, asked)| {
            let there: i128 = view.nodes.iter().map(|node| node.has(resource)).sum();
            let others = view.pods.iter().filter(|other| !other.is_held && !other.is_over);
            others.map(|other| other.asks(resource)).sum::<i128>() + asked <= there
        })
}

/// Whether a pod that names no card may have this one: its queue, or one above it, has a quota for the card (docs/rules.md,
/// **Card quota**). If there is no quota for any card, only the resource of the pod is limited, which is not judged.
fn has_quota_for(view: &View, pod: &Pod, card: &str) -> bool {
    let what = What::Card(card.to_owned());
    let queue = view.queue_of(pod).unwrap_or_default();
    let mut levels = view.tree.path(&queue).into_iter();
    levels.any(|level| {
        let says = view.tree.queues.get(&level);
        let amounts = says.map(|says| [&says.capability, &says.deserved, &says.guarantee]);
        let mut amounts = amounts.into_iter().flatten();
        amounts.any(|amounts| named(amounts.as_ref(), &what).is_some())
    })
}

/// Tries every card and every node.
fn judge_pod(view: &View, pod: &Pod, reason: &str) -> Finding {
    let asks = view.asks_for_cards(pod);
    let mut cards: Vec<Option<String>> = pod.names().into_iter().map(|name| Some(name.to_owned())).collect();
    if cards.is_empty() {
        match (asks, &*view.configuration.unnamed) {
            (false, _) | (_, "free") => cards.push(None),
            (true, "deny") => return Ok(()),
            (true, _) => {
                let all: BTreeSet<_> = view.nodes.iter().flat_map(|node| &node.cards).collect();
                let its = all
                    .into_iter()
                    .filter(|card| pod.asks(&card.resource) > 0 && view.supplies(pod, card));
                let its = its.filter(|card| has_quota_for(view, pod, &card.name));
                cards.extend(its.map(|card| Some(card.name.clone())));
            }
        }
    }
    for card in cards {
        // Cards of several resources at once can't be charged, so such a pod is not let in.
        let resources: BTreeSet<_> = view
            .nodes
            .iter()
            .flat_map(|node| &node.cards)
            .map(|card| &card.resource)
            .collect();
        if resources.into_iter().filter(|resource| pod.asks(resource) > 0).count() > 1 {
            continue;
        }
        if card.as_ref().is_some_and(|card| view.count_of(pod, card) == 0) {
            continue;
        }
        let may_hold = |card: &String| view.pods.iter().any(|other| view.may_hold(other, card) > 0);
        if card.as_ref().is_some_and(may_hold) {
            continue;
        }
        let then = view.with(pod, |pod| {
            pod.is_held = false;
            if let Some(card) = &card {
                pod.annotations.insert(CARD_ASSIGNED.to_owned(), card.clone());
            }
        });
        if quota::judge(&then, &pod.key).is_err() {
            continue;
        }
        let mut nodes = view.nodes.iter();
        if let Some(node) = nodes.find(|node| places::fits(&then, node, pod, card.as_deref())) {
            let (key, name) = (&pod.key, &node.name);
            return broken(
                RULE,
                format!("{key} waits for {reason}, and {name} and its queue could take it with {card:?}"),
            );
        }
        // Shares of cards are always given on a node.
        if !view.configuration.admit_on_fit && pod.shares.is_empty() && is_there(view, pod, card.as_deref()) {
            return broken(
                RULE,
                format!(
                    "{} waits for {reason}, and its queue could take it with {card:?}",
                    pod.key
                ),
            );
        }
    }
    Ok(())
}
