//! When all is quiet, nobody waits who could run: for each waiting pod every card and every node is tried.
//!
//! # Who is not looked at
//! What waits for something else than room: pods of groups (their minimum goes first), pods that other gates hold or that are
//! being deleted, pods with shares of cards or under CrossQuota (which of several placements is chosen is the documents' own
//! question), pods of which the API server refused the write, queues that only some namespaces may use, pods that choose among
//! nodes in more than the simplest way. And all pods of a queue while any group or Job is kept room in any queue: what is
//! reserved is not to be had. What was let in and is not bound yet may come to be anywhere, so it counts on every node.

use std::collections::BTreeSet;

use crds::keys::{ADMITTED_CONDITION, CARD_ASSIGNED, CARD_REQUEST, GROUP_NAME, QUEUE_NAMESPACES};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::cross_quota::CrossQuota;
use super::nodes::{Node, texts};
use super::pods::Pod;
use super::stored::Stored;
use super::view::View;
use super::{Finding, broken, quota, told};
use crate::objects::{JOBS, Key, POD_GROUPS, PODS, QUEUES};

/// The rule.
pub const RULE: &str = "nobody waits who could run";
/// The rule about what waiting pods are told.
pub const TOLD: &str = "whoever waits is told why";

/// Reasons that are not about room, or not about room alone.
const OTHERWISE: [&str; 4] = [
    "RefusedByAPIServer",
    "InqueueTimeout",
    "ReservationTimeout",
    "NamespaceNotAllowed",
];

/// Judges all that wait.
pub fn judge(stored: &Stored, now: Timestamp) -> Finding {
    let Some(view) = View::read(&stored.now, now, &BTreeSet::new()) else {
        return Ok(());
    };
    let waits = |pod: &&Pod| pod.is_held && pod.deleted.is_none() && !pod.is_over && is_alone(&pod.spec);
    for pod in view.pods.iter().filter(waits) {
        if view.queue_of(pod).is_none() {
            continue;
        }
        let Some((reason, message)) = what_is_told(stored, &pod.key) else {
            return broken(TOLD, format!("{} waits, and has no condition that says why", pod.key));
        };
        told::judge(&view, pod, &message)?;
        if !OTHERWISE.contains(&&*reason) && !is_reserved(stored) && is_looked_at(stored, &view, pod) {
            judge_pod(&view, pod, &reason)?;
        }
    }
    Ok(())
}

/// Whether ours is the only gate.
fn is_alone(spec: &Value) -> bool {
    spec["schedulingGates"].as_array().is_some_and(|gates| gates.len() == 1)
}

/// What a pod that waits is told: the reason, and the message. None where it is told nothing.
fn what_is_told(stored: &Stored, key: &Key) -> Option<(String, String)> {
    let pod = stored.now.get(&PODS)?.get(key)?;
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let told =
        conditions.find(|condition| condition["type"] == ADMITTED_CONDITION && condition["status"] == "False")?;
    let reason = told["reason"].as_str().filter(|reason| !reason.is_empty())?;
    Some((
        reason.to_owned(),
        told["message"].as_str().unwrap_or_default().to_owned(),
    ))
}

/// Whether any queue may keep room for a group or a Job whose pods are not there.
fn is_reserved(stored: &Stored) -> bool {
    let all = |kind| stored.now.get(kind).into_iter().flatten().map(|(_, object)| object);
    let mut groups = all(&POD_GROUPS);
    let mut jobs = all(&JOBS);
    let is_for_cards = |job: &Value| job["metadata"]["annotations"][CARD_REQUEST].is_string();
    groups.any(|group| group["status"]["phase"] == "Inqueue") || jobs.any(|job| is_for_cards(job))
}

fn is_looked_at(stored: &Stored, view: &View, pod: &Pod) -> bool {
    let queue = view
        .queue_of(pod)
        .and_then(|queue| stored.now.get(&QUEUES)?.get(&Key::new("", queue)));
    let is_for_some = queue.is_some_and(|queue| queue["metadata"]["annotations"][QUEUE_NAMESPACES].is_string());
    let is_simple = pod.spec["affinity"].is_null() && pod.spec["topologySpreadConstraints"].is_null();
    let claims = pod.spec["resourceClaims"].is_array();
    let is_placed = View::is_under_cross_quota(pod) && CrossQuota::of(view).is_some();
    pod.says(GROUP_NAME).is_none() && pod.shares.is_empty() && is_simple && !is_for_some && !claims && !is_placed
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
                let its = all.into_iter().filter(|card| pod.asks(&card.resource) > 0);
                cards.extend(its.map(|card| Some(card.name.clone())));
            }
        }
    }
    for card in cards {
        // Cards of several resources at once are not charged, and not let in.
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
        let mut then = view.with(pod, |pod| {
            pod.is_held = false;
            if let Some(card) = &card {
                pod.annotations.insert(CARD_ASSIGNED.to_owned(), card.clone());
            }
        });
        if quota::judge(&then, &pod.key).is_err() {
            continue;
        }
        then.pods.retain(|other| other.key != pod.key);
        let fits = |node: &&Node| fits(&then, node, pod, card.as_deref());
        if let Some(node) = view.nodes.iter().find(fits) {
            let (key, name) = (&pod.key, &node.name);
            return broken(
                RULE,
                format!("{key} waits for {reason}, and {name} and its queue could take it with {card:?}"),
            );
        }
        if !view.configuration.admit_on_fit {
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

/// Whether a node has room for a pod, and nothing keeps it off.
fn fits(view: &View, node: &Node, pod: &Pod, card: Option<&str>) -> bool {
    let selector = texts(&pod.spec["nodeSelector"]);
    let is_selected = selector
        .iter()
        .all(|(label, value)| node.labels.get(label) == Some(value));
    let has_card = card.is_none_or(|card| node.card(card).is_some());
    let on_it = |other: &&Pod| !other.is_held && !other.is_over && other.place().is_none_or(|place| place == node.name);
    let has_room = pod.request.iter().all(|(resource, asked)| {
        let used: i128 = view.pods.iter().filter(on_it).map(|other| other.asks(resource)).sum();
        *asked == 0 || used + asked <= node.has(resource)
    });
    node.is_usable && node.taints.is_empty() && is_selected && has_card && has_room
}
