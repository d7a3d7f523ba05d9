//! When all is quiet, every number in the reports is true: what queues have, and which cards there are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::amounts::{self, Amounts, What, add};
use super::configuration::Plugin;
use super::nodes::Node;
use super::pods::Pod;
use super::quota;
use super::shares;
use super::stored::Stored;
use super::view::View;
use super::{Finding, broken};
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES};

/// The rule.
pub const RULE: &str = "every number that is shown is true";

/// Judges the reports on every queue and every card.
pub fn judge(stored: &Stored, now: Timestamp) -> Finding {
    let Some(view) = View::read(&stored.now, now, &BTreeSet::new()) else {
        return Ok(());
    };
    let all = |kind| stored.now.get(kind).into_iter().flatten().map(|(_, object)| &**object);
    let queues: BTreeMap<_, _> = all(&CARD_USAGES)
        .filter_map(|shown| Some((shown["spec"]["queue"].as_str()?, shown)))
        .collect();
    for (name, says) in &view.tree.queues {
        let Some(shown) = queues.get(&**name) else {
            return broken(RULE, format!("nothing is shown of queue {name}"));
        };
        // A queue that can't be read is reported so, without numbers.
        if says.is_readable() && view.configuration.plugin != Plugin::Off {
            queue(&view, name, &shown["status"])?;
        }
    }
    for shown in all(&CARD_TYPES) {
        card(&view, shown)?;
    }
    for (key, shown) in stored.now.get(&CARD_INVENTORIES).into_iter().flatten() {
        inventory(&view, &key.name, &shown["status"])?;
    }
    Ok(())
}

/// Judges what a node has, and what the pods hold of it that are there or expected there.
fn inventory(view: &View, name: &str, shown: &Value) -> Finding {
    let Some(node) = view.node(name) else {
        return broken(RULE, format!("an inventory of {name} is shown, which is not there"));
    };
    for line in shown["cards"].as_array().into_iter().flatten() {
        let card = line["name"].as_str().unwrap_or_default();
        let [total, used] = ["total", "used"].map(|field| line[field].as_i64().map(i128::from));
        let Some(there) = node.card(card) else {
            return broken(RULE, format!("{name} is shown with {card}, which it has not"));
        };
        let least = held(view, &there.resource, |pod| {
            pod.place() == Some(name) && view.holds(pod)
        });
        // Also counted: an admitted pod without a node is expected on some node, and pods never leave a lost node.
        let most = held(view, &there.resource, |pod| {
            pod.place().is_none_or(|place| place == name)
        });
        if total != Some(there.count) || !used.is_some_and(|used| (least..=most).contains(&used)) {
            let count = there.count;
            return broken(
                RULE,
                format!("pods hold {least} of {count} {card} on {name}, and {used:?} of {total:?} is shown"),
            );
        }
    }
    gpus(view, node, shown)
}

/// Judges what is in use of each shared card of a node, if every pod there says which cards it has, and no other pod is
/// expected anywhere.
fn gpus(view: &View, node: &Node, shown: &Value) -> Finding {
    let Some(shared) = &node.shared else { return Ok(()) };
    let may_be_there = |pod: &&Pod| pod.place().is_none_or(|place| place == node.name);
    let mut there = view
        .pods
        .iter()
        .filter(|pod| !pod.shares.is_empty() && may_be_there(pod) && !pod.is_held && !pod.is_over);
    if !there.all(|pod| view.holds(pod) && shares::cards(pod, shared).is_some()) {
        return Ok(());
    }
    let taken = shares::taken(view, node, shared);
    for line in shown["gpus"].as_array().into_iter().flatten() {
        let card = line["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let has = card.and_then(|card| taken.get(&card)).copied().unwrap_or_default();
        let [core, memory] = ["coreUsed", "memoryUsed"].map(|field| line[field].as_i64().map(i128::from));
        let containers = line["containers"].as_array().map_or(0, Vec::len);
        if (core, memory, containers) != (Some(has.core), Some(has.memory), has.containers) {
            let name = &node.name;
            return broken(
                RULE,
                format!("of card {card:?} of {name} {has:?} is taken, and shown is {line}"),
            );
        }
    }
    Ok(())
}

/// Judges what a queue has: its own pods, or those of all queues below it as well.
fn queue(view: &View, name: &str, shown: &Value) -> Finding {
    let mut own = Amounts::new();
    let pods = view.pods.iter();
    for charge in pods.filter_map(|pod| view.charge_to(pod, |queue| queue == name)) {
        add(&mut own, &charge.amounts);
    }
    let in_all = quota::allocated(view, name);
    for line in shown["cards"].as_array().into_iter().flatten() {
        let what = What::Card(line["name"].as_str().unwrap_or_default().to_owned());
        let has = [&own, &in_all].map(|sums| sums.get(&what).copied().unwrap_or(0));
        let shown = line["allocated"].as_i64().map(i128::from);
        let more = quota::may_have(view, name, &what);
        let is_so = |shown| has.iter().any(|has| (*has..=has + more).contains(&shown));
        if !shown.is_some_and(is_so) {
            return broken(RULE, format!("queue {name} has {has:?} {what}, and {shown:?} is shown"));
        }
    }
    for resource in ["cpu", "memory"] {
        let what = What::Resource(resource.to_owned());
        let Some(used) = shown[resource].as_str().and_then(|line| line.split(' ').next()) else {
            continue;
        };
        let has = [&own, &in_all].map(|sums| sums.get(&what).copied().unwrap_or(0));
        if !has.map(Some).contains(&amounts::of(resource, &used.into())) {
            return broken(RULE, format!("queue {name} has {has:?} {what}, and {used} is shown"));
        }
    }
    for (what, amount) in own
        .iter()
        .filter(|(what, amount)| matches!(what, What::Card(_)) && **amount > 0)
    {
        let mut lines = shown["cards"].as_array().into_iter().flatten();
        if !lines.any(|line| line["name"].as_str() == Some(&what.to_string())) {
            return broken(RULE, format!("queue {name} has {amount} {what}, which is not shown"));
        }
    }
    Ok(())
}

/// Judges what there is of a card.
fn card(view: &View, shown: &Value) -> Finding {
    let name = shown["spec"]["cardName"].as_str().unwrap_or_default();
    let there: Vec<_> = view.nodes.iter().filter_map(|node| node.card(name)).collect();
    let total: i128 = there.iter().map(|card| card.count).sum();
    let status = &shown["status"];
    let (says, nodes) = (status["total"].as_i64(), status["nodes"].as_u64());
    if says.map(i128::from) != Some(total) || nodes != u64::try_from(there.len()).ok() {
        let count = there.len();
        return broken(
            RULE,
            format!("there are {total} {name} on {count} nodes, and {says:?} on {nodes:?} are shown"),
        );
    }
    let with = |node: &&Node| node.card(name).is_some();
    let Some(resource) = there.first().map(|card| &*card.resource) else {
        return Ok(());
    };
    let on = |node: &Node| held(view, resource, |pod| pod.place() == Some(&node.name) && view.holds(pod));
    let used: i128 = view.nodes.iter().filter(with).map(on).sum();
    // Also counted: an admitted pod without a node is expected on some node, and pods never leave a lost node.
    let is_there = |pod: &Pod| {
        pod.place()
            .is_none_or(|place| view.node(place).as_ref().is_some_and(with))
    };
    let most = held(view, resource, is_there);
    let shown = ["used", "free"].map(|field| status[field].as_i64().map(i128::from));
    let usable = view.nodes.iter().filter(with).filter(|node| node.is_usable);
    // A pod with a device that new pods are kept away from takes none of the available ones.
    let away = |node: &Node| node.away.get(name).copied().unwrap_or(0);
    let free: i128 = usable
        .map(|node| (node.card(name).map_or(0, |card| card.count) - (on(node) - away(node)).max(0)).max(0))
        .sum();
    let is_so =
        |shown: Option<i128>, least: i128, most: i128| shown.is_some_and(|shown| (least..=most).contains(&shown));
    // How much of shared cards a new pod could get is more than a sum.
    let is_free = name.ends_with("/mgpu") || is_so(shown[1], (free - (most - used)).max(0), free);
    if !is_so(shown[0], used, most) || !is_free {
        return broken(
            RULE,
            format!("of {name} {used} are used for certain and {free} free at most, and {shown:?} are shown"),
        );
    }
    Ok(())
}

/// Returns how many cards the admitted pods request, of those pods for which `is_meant` holds.
fn held(view: &View, resource: &str, is_meant: impl Fn(&Pod) -> bool) -> i128 {
    let pods = view
        .pods
        .iter()
        .filter(|pod| !pod.is_held && !pod.is_over && is_meant(pod));
    pods.map(|pod| pod.asks(resource)).sum()
}
