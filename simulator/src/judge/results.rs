//! Results are written together with the gate's removal, all of them, or not at all: the card, the card indexes, the
//! narrowing.

use crds::keys::{GATE, MGPU_ASSUMED, MGPU_INDEX_PREFIX, is_operator_result};
use serde_json::Value;

use super::admission;
use super::configuration::Plugin;
use super::nodes::{Texts, texts};
use super::pods::Pod;
use super::view::View;
use super::{Finding, broken};
use crate::objects::Write;

/// The rule.
pub const RULE: &str = "results are written with the gate's removal or not at all";
/// The rule about what they say.
pub const SAY: &str = "a pod that is let in is narrowed to what it was given";

/// Judges an operator's write on a pod by itself.
pub fn judge(write: &Write) -> Finding {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return Ok(());
    };
    let key = &write.key;
    if admission::is_one(write) {
        let gates = before["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
        if gates != 1
            || after["spec"]["schedulingGates"]
                .as_array()
                .is_some_and(|gates| !gates.is_empty())
        {
            return broken(
                RULE,
                format!(
                    "{key}: other gates than {GATE} hold it: {}",
                    before["spec"]["schedulingGates"]
                ),
            );
        }
        if before["metadata"]["uid"] != after["metadata"]["uid"] {
            return broken(RULE, format!("{key} is another pod now"));
        }
        return grows(write, before, after);
    }
    let (was, is) = (results(before), results(after));
    if was != is {
        return broken(RULE, format!("{key}: {is:?} is written apart, after {was:?}"));
    }
    if before["spec"] != after["spec"] {
        return broken(RULE, format!("{key}: its specification is changed apart"));
    }
    Ok(())
}

/// Checks that what the user wrote stays, and only results are added.
fn grows(write: &Write, before: &Value, after: &Value) -> Finding {
    let maps = [
        (
            "annotations",
            &before["metadata"]["annotations"],
            &after["metadata"]["annotations"],
        ),
        (
            "nodeSelector",
            &before["spec"]["nodeSelector"],
            &after["spec"]["nodeSelector"],
        ),
    ];
    for (map, before, after) in maps {
        let (before, after) = (texts(before), texts(after));
        if let Some((key, value)) = before.iter().find(|(key, value)| after.get(*key) != Some(value)) {
            return broken(
                RULE,
                format!("{}: {map} had {key}={value}, and no longer has", write.key),
            );
        }
    }
    Ok(())
}

fn results(pod: &Value) -> Texts {
    let mut all = texts(&pod["metadata"]["annotations"]);
    all.retain(|key, _| is_operator_result(key));
    all
}

/// Judges what an admission wrote: a card that was asked for, on which the pod is sure to land; and as many shared cards as
/// its containers asked for, on a node that it is pinned to.
pub fn fit(view: &View, write: &Write) -> Finding {
    let key = &write.key;
    let Some(pod) = view.pods.iter().find(|pod| pod.key == *key) else {
        return Ok(());
    };
    if view.queue_of(pod).is_some() {
        card(view, pod)?;
    }
    if view.configuration.mgpu && !pod.shares.is_empty() {
        shares(pod)?;
    }
    Ok(())
}

fn card(view: &View, pod: &Pod) -> Finding {
    let (key, names) = (&pod.key, pod.names());
    // It is not recorded whether anything named the queue of a pod in the default queue. If nothing did, its cards may only
    // be counted.
    let configuration = &view.configuration;
    let is_counted =
        configuration.unqueued == "count" && view.queue_of(pod).as_ref() == Some(&configuration.default_queue);
    // Under `capacity`, cards that no queue above names are ordinary resources.
    let is_charged = configuration.unnamed == "charge" && configuration.plugin == Plugin::CapacityCard;
    // Of the pods that share a claim, one has its cards.
    let shares = !pod.claimed.shared.is_empty();
    let must = !shares && (!names.is_empty() || is_charged && view.asks_for_cards(pod) && !is_counted);
    let Some(assigned) = pod.assigned() else {
        return if must {
            broken(SAY, format!("{key} asks for {names:?}, and is let in without a card"))
        } else {
            Ok(())
        };
    };
    let several = pod.claimed.counted.keys().map(String::as_str);
    let all: Vec<_> = if assigned.starts_with('{') {
        several.collect()
    } else {
        vec![assigned]
    };
    all.into_iter().try_for_each(|card| is_given(view, pod, card))
}

/// Whether a pod asks for the card that it was given, and is narrowed to it.
fn is_given(view: &View, pod: &Pod, assigned: &str) -> Finding {
    let (key, names) = (&pod.key, pod.names());
    if !names.is_empty() && !names.contains(&assigned) {
        return broken(SAY, format!("{key} asks for {names:?}, and is given {assigned}"));
    }
    let cards: Vec<_> = view.nodes.iter().filter_map(|node| node.card(assigned)).collect();
    if cards.is_empty() && view.configuration.admit_on_fit {
        return broken(SAY, format!("{key} is given {assigned}, which no node has"));
    }
    let selector = texts(&pod.spec["nodeSelector"]);
    let is_narrowed = cards.iter().any(|card| {
        card.labels
            .iter()
            .all(|(label, value)| selector.get(label) == Some(value))
    });
    if !is_narrowed && !cards.is_empty() {
        return broken(SAY, format!("{key} is given {assigned}, and selects {selector:?}"));
    }
    Ok(())
}

fn shares(pod: &Pod) -> Finding {
    let key = &pod.key;
    if pod.says(MGPU_ASSUMED) != Some("true") || pod.pin.is_none() {
        return broken(
            SAY,
            format!("{key} asks for shares of cards, and is let in without cards on one node"),
        );
    }
    for share in &pod.shares {
        let listed = pod
            .says(&format!("{MGPU_INDEX_PREFIX}{}", share.container))
            .unwrap_or_default();
        let count = listed.split(',').filter(|card| !card.is_empty()).count();
        if count != share.cards {
            let asked = share.cards;
            return broken(
                SAY,
                format!(
                    "{key}: {} asks for {asked} cards, and is given {listed:?}",
                    share.container
                ),
            );
        }
    }
    Ok(())
}
