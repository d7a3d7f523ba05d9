//! When all is quiet, no group waits whose pods could run together. Places for all the pods it needs are looked for, one pod
//! after another; if the next pod finds none, another placement is tried.
//!
//! Judged are groups without admitted pods, of which exactly as many pods wait as are needed, each with at most one card to
//! choose, and all in the group's queue. Neither that queue nor one above it may keep something for others, nor may any
//! queue if the cluster limits all queues together, since what is kept is kept at every level.

use std::collections::BTreeSet;

use crds::keys::{ADMITTED_CONDITION, CARD_ASSIGNED};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::pods::Pod;
use super::rest::{OTHERWISE, RULE, is_alone, is_looked_at, what_is_told};
use super::stored::Stored;
use super::view::View;
use super::workloads::{self, Workload};
use super::{Finding, broken, places, quota, told};
use crate::objects::{Key, POD_GROUPS};

/// How many places are tried for a group.
const TRIES: usize = 200;

/// Judges all groups.
pub fn judge(stored: &Stored, now: Timestamp) -> Finding {
    let Some(view) = View::read(&stored.now, now, &BTreeSet::new()).map(|view| view.with_room()) else {
        return Ok(());
    };
    for (key, group) in stored.now.get(&POD_GROUPS).into_iter().flatten() {
        let Some(pods) = needed(&view, stored, key, group) else {
            continue;
        };
        let mut tries = TRIES;
        if let Some(places) = search(&view, &pods, &mut tries, Vec::new()) {
            let told: Vec<_> = pods.iter().filter_map(|pod| what_is_told(stored, &pod.key)).collect();
            let reason = told.first().map_or(ADMITTED_CONDITION, |(reason, _)| reason);
            return broken(
                RULE,
                format!("the pods of {key} wait for {reason}, and could run together on {places:?}"),
            );
        }
    }
    Ok(())
}

/// Returns the pods of a group that have to be let in together, if the group is judged.
fn needed<'v>(view: &'v View, stored: &Stored, key: &Key, group: &Value) -> Option<Vec<&'v Pod>> {
    let name = (&POD_GROUPS, key.clone());
    let least = group["spec"]["minMember"].as_u64().unwrap_or(1).max(1);
    let is_its = |pod: &&Pod| workloads::of_pod(pod).any(|of| of == name);
    let pods: Vec<_> = view.pods.iter().filter(is_its).collect();
    let is_whole = pods.len() as u64 == least && group["spec"]["minTaskMember"].is_null();
    let asks = Workload::read(view, &name, group).is_some();
    if !is_whole || asks && group["status"]["phase"] != "Inqueue" {
        return None;
    }
    let queue = pods.first().and_then(|pod| view.queue_of(pod))?;
    let waits = |pod: &&Pod| {
        let told = what_is_told(stored, &pod.key);
        pod.is_held
            && pod.deleted.is_none()
            && is_alone(&pod.spec)
            && is_looked_at(stored, view, pod)
            && view.queue_of(pod).as_ref() == Some(&queue)
            && group["spec"]["queue"] == *queue
            && told.is_some_and(|(reason, _)| !OTHERWISE.contains(&&*reason))
            && pod.shares.is_empty()
            && (pod.names().len() == 1 || pod.names().is_empty() && !view.asks_for_cards(pod))
    };
    let path = view.tree.path(&queue);
    let mut amounts = pods
        .iter()
        .flat_map(|pod| view.amounts(pod, pod.names().first().copied()));
    let is_limited_together = amounts.any(|(what, _)| quota::cluster_limit(view, &what).is_some());
    let is_beside = |other: &workloads::Name| {
        let object = stored.now.get(other.0).and_then(|objects| objects.get(&other.1));
        let workload = object.and_then(|object| Workload::read(view, other, object));
        let at = workload.map(|workload| view.tree.path(&workload.queue));
        *other != name && at.is_some_and(|at| is_limited_together || at.iter().any(|level| path.contains(level)))
    };
    let is_kept = told::possibly(view, stored).iter().any(is_beside);
    (pods.iter().all(waits) && !is_kept).then_some(pods)
}

/// Returns nodes for all of these pods, beside what is there.
fn search(view: &View, pods: &[&Pod], tries: &mut usize, so_far: Vec<String>) -> Option<Vec<String>> {
    let Some((pod, rest)) = pods.split_first() else {
        return Some(so_far);
    };
    let card = pod.names().first().map(|card| (*card).to_owned());
    if card.as_ref().is_some_and(|card| view.count_of(pod, card) == 0) {
        return None;
    }
    let then = view.with(pod, |pod| {
        pod.is_held = false;
        if let Some(card) = &card {
            pod.annotations.insert(CARD_ASSIGNED.to_owned(), card.clone());
        }
    });
    if quota::judge(&then, &pod.key).is_err() {
        return None;
    }
    for node in view.nodes.iter() {
        if *tries == 0 {
            return None;
        }
        *tries -= 1;
        if places::fits(&then, node, pod, card.as_deref()) {
            let beside = then.with(pod, |pod| pod.pin = Some(node.name.clone()));
            let so_far = so_far.iter().chain([&node.name]).cloned().collect();
            if let Some(found) = search(&beside, rest, tries, so_far) {
                return Some(found);
            }
        }
    }
    None
}
