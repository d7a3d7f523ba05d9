//! When all is quiet, every number that is shown is true: what queues have, what cards there are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::amounts::{Amounts, What, add};
use super::configuration::Plugin;
use super::pods::Pod;
use super::quota;
use super::stored::Stored;
use super::view::View;
use super::{Finding, broken};
use crate::objects::{CARD_INVENTORIES, CARD_TYPES, CARD_USAGES};

/// The rule.
pub const RULE: &str = "every number that is shown is true";

/// Judges what is shown of every queue and every card.
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
        // What can't be read is said so, and shown no further.
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

/// What a node has, and what the pods hold of that which are there, or are expected there.
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
        let asked = |is_there: &dyn Fn(&Pod) -> bool| -> i128 {
            let those = view
                .pods
                .iter()
                .filter(|pod| !pod.is_held && !pod.is_over && is_there(pod));
            those.map(|pod| pod.asks(&there.resource)).sum()
        };
        let held = asked(&|pod| pod.place() == Some(name) && view.holds(pod));
        // Besides: what is let in and has no node yet is expected on some node, and on a node that is lost pods never go.
        let most = asked(&|pod| pod.place().is_none_or(|place| place == name));
        if total != Some(there.count) || !used.is_some_and(|used| (held..=most).contains(&used)) {
            let count = there.count;
            return broken(
                RULE,
                format!("pods hold {held} of {count} {card} on {name}, and {used:?} of {total:?} is shown"),
            );
        }
    }
    Ok(())
}

/// What a queue has: its own pods, or those of all queues below it as well.
fn queue(view: &View, name: &str, shown: &Value) -> Finding {
    let mut own = Amounts::new();
    for charge in view.pods.iter().filter_map(|pod| view.charge(pod)) {
        if charge.queue == name {
            add(&mut own, &charge.amounts);
        }
    }
    let in_all = quota::allocated(view, name);
    for line in shown["cards"].as_array().into_iter().flatten() {
        let what = What::Card(line["name"].as_str().unwrap_or_default().to_owned());
        let has = [&own, &in_all].map(|sums| sums.get(&what).copied().unwrap_or(0));
        let shown = line["allocated"].as_i64().map(i128::from);
        if !has.map(Some).contains(&shown) {
            return broken(RULE, format!("queue {name} has {has:?} {what}, and {shown:?} is shown"));
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

/// What there is of a card.
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
    Ok(())
}
