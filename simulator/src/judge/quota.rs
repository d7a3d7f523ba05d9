//! No queue at any level has more than it may, by the pods that Cardgate let in (Capacity Card, **Task Allocatable Check**;
//! capacity, **Hierarchical processing**; Dimensions, **When Enabled**).

use std::collections::BTreeMap;

use super::amounts::{Amounts, What, add};
use super::configuration::Plugin;
use super::nodes::Node;
use super::queues::named;
use super::view::View;
use super::{Finding, broken};
use crate::objects::Key;

/// The rule about limits of queues.
pub const RULE: &str = "a queue has no more than it may";
/// The rule about what is kept free.
pub const KEPT: &str = "what is guaranteed to others is kept free";
/// The rule about queues that take pods.
pub const TAKES: &str = "only an open queue without parts takes pods";

/// Judges a pod that is let in; `view` is the state afterwards.
pub fn judge(view: &View, key: &Key) -> Finding {
    judge_limits(view, key)?;
    judge_kept(view, key)
}

/// Judges only the limits.
pub fn judge_limits(view: &View, key: &Key) -> Finding {
    let Some(pod) = view.pods.iter().find(|pod| pod.key == *key) else {
        return Ok(());
    };
    let Some(charge) = view.charge(pod) else {
        return Ok(());
    };
    let name = &charge.queue;
    let Some(queue) = view.tree.queues.get(name) else {
        return broken(TAKES, format!("{key} is let into {name}, which is not there"));
    };
    if !queue.is_open || view.tree.is_inner(name) || view.tree.misplaced.contains(name) {
        return broken(TAKES, format!("{key} is let into {name}: {queue:?}"));
    }
    // Without a plugin for queues, queues limit nothing, but still have to exist.
    if view.configuration.plugin == Plugin::Off {
        return Ok(());
    }
    let path = view.tree.path(name);
    for level in &path {
        if !view.tree.queues[level].is_readable() {
            return broken(TAKES, format!("{key} is let into {name}, and {level} can't be read"));
        }
        let allocated = allocated(view, level);
        for (what, asked) in charge.amounts.iter().filter(|(_, asked)| **asked > 0) {
            let (has, limit) = (
                allocated.get(what).copied().unwrap_or(0),
                limit(view, level, level == name, what),
            );
            if limit.is_some_and(|limit| has > limit) {
                let limit = limit.unwrap_or_default();
                return broken(
                    RULE,
                    format!("{key} is let into {name} with {asked} {what}, and {level} has {has} of {limit}"),
                );
            }
        }
    }
    Ok(())
}

/// Judges whether an admitted pod leaves free what is kept for others; `view` is the state afterwards.
pub fn judge_kept(view: &View, key: &Key) -> Finding {
    let Some(pod) = view.pods.iter().find(|pod| pod.key == *key) else {
        return Ok(());
    };
    let (Some(charge), false) = (view.charge(pod), view.configuration.plugin == Plugin::Off) else {
        return Ok(());
    };
    let path = view.tree.path(&charge.queue);
    for (what, asked) in charge.amounts.iter().filter(|(_, asked)| **asked > 0) {
        keeps(view, key, &path, what, *asked)?;
    }
    Ok(())
}

/// Returns what the pods of a queue and of the queues below it have.
pub fn allocated(view: &View, queue: &str) -> Amounts {
    let mut sum = Amounts::new();
    let is_below = |of: &str| of == queue || view.tree.path(of).iter().any(|level| level == queue);
    for charge in view.pods.iter().filter_map(|pod| view.charge_to(pod, is_below)) {
        add(&mut sum, &charge.amounts);
    }
    sum
}

/// Returns how much more of an item the pods of a queue, and of queues below it, may be said to have.
pub fn may_have(view: &View, queue: &str, what: &What) -> i128 {
    let Some(card) = what.card() else { return 0 };
    let is_below = |of: String| view.tree.path(&of).iter().any(|level| level == queue);
    let pods = view.pods.iter();
    let pods = pods.filter(|pod| view.queue_of(pod).is_some_and(is_below));
    pods.map(|pod| view.may_hold(pod, card)).sum()
}

/// Returns the most that a queue may have; `None` if nothing limits it. Under `capacity-card`, what the pod's own queue does
/// not name is 0, if that plugin limits it: CPU, memory and cards. A queue above does not limit what it does not name.
pub fn limit(view: &View, queue: &str, is_leaf: bool, what: &What) -> Option<i128> {
    let configuration = &view.configuration;
    let says = view.tree.queues.get(queue)?;
    let capability = capability(view, queue, is_leaf, what);
    let deserved =
        named(says.deserved.as_ref(), what).filter(|_| !configuration.overuse && is_limited(view, queue, what));
    let deserved = deserved.map(|deserved| {
        let wanted = deserved.max(guaranteed(view, queue, what));
        let most = real_capability(view, &view.tree.path(queue), is_leaf, what);
        most.map_or(wanted, |most| wanted.min(most))
    });
    capability.into_iter().chain(deserved).min()
}

/// The same, whatever the queue deserves.
pub fn capability(view: &View, queue: &str, is_leaf: bool, what: &What) -> Option<i128> {
    let says = view.tree.queues.get(queue)?;
    let capability = named(says.capability.as_ref(), what);
    let is_strict = view.configuration.plugin == Plugin::CapacityCard && is_leaf;
    capability
        .or(is_strict.then_some(0))
        .filter(|_| is_limited(view, queue, what))
}

/// The same, minus what is guaranteed to others. `path` is the queue and those above it.
pub fn real_capability(view: &View, path: &[String], is_leaf: bool, what: &What) -> Option<i128> {
    real_capability_within(view, path, is_leaf, what, total(view, what))
}

/// The same for a cluster with this total.
pub fn real_capability_within(view: &View, path: &[String], is_leaf: bool, what: &What, total: i128) -> Option<i128> {
    let queue = path.first()?;
    let left = left_to(view, path, what, total).filter(|_| is_limited(view, queue, what));
    capability(view, queue, is_leaf, what).into_iter().chain(left).min()
}

/// Returns what the parent of the first of these, or the cluster, has for it beside the guarantees of others.
fn left_to(view: &View, path: &[String], what: &What, total: i128) -> Option<i128> {
    let (queue, above) = path.split_first()?;
    let parent = above.first().map(String::as_str);
    let available = match parent {
        Some(parent) => {
            let left = left_to(view, above, what, total);
            capability(view, parent, false, what).into_iter().chain(left).min()?
        }
        None => is_limited_by_cluster(view, what).then_some(total)?,
    };
    let others = view.tree.children(parent).filter(|other| other != queue);
    let others: i128 = others.map(|other| guaranteed(view, other, what)).sum();
    Some((available - others).max(guaranteed(view, queue, what)))
}

/// Whether a queue limits an item at all.
fn is_limited(view: &View, queue: &str, what: &What) -> bool {
    let configuration = &view.configuration;
    let is_known = match configuration.plugin {
        Plugin::Off => false,
        Plugin::Capacity => true,
        Plugin::CapacityCard => what.is_cpu_or_memory() || matches!(what, What::Card(_)),
    };
    let names = || {
        let says = view.tree.queues.get(queue);
        named(says.and_then(|says| says.capability.as_ref()), what).is_some()
    };
    is_known && (!configuration.named_only || names())
}

/// Returns what is kept free for a queue and for those below it.
pub fn guaranteed(view: &View, queue: &str, what: &What) -> i128 {
    let below: i128 = view
        .tree
        .children(Some(queue))
        .map(|child| guaranteed(view, child, what))
        .sum();
    below.max(own_guarantee(view, queue, what))
}

fn own_guarantee(view: &View, queue: &str, what: &What) -> i128 {
    let says = view.tree.queues.get(queue);
    named(says.and_then(|says| says.guarantee.as_ref()), what).unwrap_or(0)
}

fn is_guaranteed(view: &View, what: &What) -> bool {
    let mut queues = view.tree.queues.keys();
    queues.any(|queue| own_guarantee(view, queue, what) > 0)
}

/// Whether all queues together must have no more than the cluster has: if any of it is kept free, and under `capacity`
/// unless pods are let in that wait for nodes.
fn is_limited_by_cluster(view: &View, what: &What) -> bool {
    let is_at_all = view.configuration.plugin == Plugin::Capacity && view.configuration.admit_on_fit;
    is_at_all || is_guaranteed(view, what)
}

/// Returns what all queues together may have at most; `None` if nothing limits them.
pub fn cluster_limit(view: &View, what: &What) -> Option<i128> {
    is_limited_by_cluster(view, what).then(|| total(view, what))
}

/// Returns what must not be given to other pods, on the account of the queues below a parent or the cluster, if the pod
/// `without` did not exist.
fn held(view: &View, parent: Option<&str>, what: &What, without: Option<&Key>) -> i128 {
    held_below(view, parent, what, without, &[])
}

/// The same for a queue below these. Queues that are above themselves count once.
fn held_below(view: &View, parent: Option<&str>, what: &What, without: Option<&Key>, above: &[&str]) -> i128 {
    let own = view.pods.iter().filter(|pod| Some(&pod.key) != without);
    let is_of_gone = |queue: &str| view.tree.is_gone(queue) && view.tree.root_there() == parent;
    let own = own.filter_map(|pod| view.charge_to(pod, |queue| Some(queue) == parent || is_of_gone(queue)));
    let own: i128 = own.filter_map(|charge| charge.amounts.get(what).copied()).sum();
    let above = [above, parent.as_slice()].concat();
    let children = view.tree.children(parent).filter(|child| !above.contains(child));
    let below = children.map(|child| {
        let held = held_below(view, Some(child), what, without, &above);
        held.max(own_guarantee(view, child, what))
    });
    own + below.sum::<i128>()
}

/// Checks guarantees. A pod may use its own queue's guarantee; beyond that it takes nothing that is kept free for another
/// queue.
fn keeps(view: &View, key: &Key, path: &[String], what: &What, asked: i128) -> Finding {
    let is_limited =
        view.configuration.plugin == Plugin::Capacity || what.is_cpu_or_memory() || matches!(what, What::Card(_));
    if !is_guaranteed(view, what) || !is_limited || view.configuration.named_only {
        return Ok(());
    }
    let queues = path
        .iter()
        .map(|level| (Some(&**level), limit(view, level, level == &path[0], what)));
    let total = Some(total(view, what));
    for (level, limit) in queues.chain([(None, total)]) {
        let (before, after) = (held(view, level, what, Some(key)), held(view, level, what, None));
        if let Some(limit) = limit.filter(|limit| after > before && after > *limit) {
            let level = level.unwrap_or("the cluster");
            return broken(
                KEPT,
                format!("{key} is let in with {asked} {what}, and {level} then holds and keeps {after} of {limit}"),
            );
        }
    }
    Ok(())
}

/// Returns what the usable nodes have of an item.
pub fn usable(view: &View, what: &What) -> i128 {
    let usable = view.nodes.iter().filter(|node| node.is_usable);
    usable.map(|node| has(node, what)).sum()
}

fn has(node: &Node, what: &What) -> i128 {
    match what {
        What::Resource(name) => node.has(name),
        What::Card(name) => node.card(name).map_or(0, |card| card.count),
    }
}

/// Returns what the nodes have of an item or, if a node no longer has it, what pods hold there. This is counted node by
/// node, since what one node has left does not make up for what another lacks.
pub fn total(view: &View, what: &What) -> i128 {
    let charges = view.pods.iter().filter_map(|pod| {
        let amount = view.charge(pod)?.amounts.get(what).copied()?;
        Some((pod.place(), amount))
    });
    let (mut held, mut all) = (BTreeMap::<_, i128>::new(), 0);
    for (place, amount) in charges {
        *held.entry(place).or_default() += amount;
        all += amount;
    }
    let mut total = 0;
    for node in view.nodes.iter() {
        total += has(node, what).max(held.remove(&Some(&*node.name)).unwrap_or(0));
    }
    let on_lost_nodes = held.iter().filter(|(place, _)| place.is_some());
    total += on_lost_nodes.map(|(_, amount)| amount).sum::<i128>();
    // An admitted pod without a node may come to hold what a pod on a lost node had.
    total.max(all)
}
