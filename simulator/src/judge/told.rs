//! When all is quiet, the numbers in the messages to waiting pods and groups are true: what their queue, or one above it,
//! has of what is short, and what it keeps.

use std::sync::LazyLock;

use crds::keys::ADMITTED_CONDITION;
use regex_lite::{Captures, Regex};
use serde_json::Value;

use super::amounts::{self, What};
use super::kept::{self, Kept};
use super::pods::Pod;
use super::stored::Stored;
use super::view::View;
use super::workloads::{self, Name, Set, Workload};
use super::{Finding, broken, quota};
use crate::objects::{JOBS, Key, POD_GROUPS, PODS};

/// The rule.
pub const RULE: &str = "the numbers in a reason are true";

/// Which account is short of something: `queue speech: `, `queue research, of which queue speech is a part: ` or `the
/// cluster, for queue speech: `, for each pod of a group, for one of several pods that are let in together, or for this pod.
/// Without a name it is the last one named.
static WHOSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:of (?:each|this one), |(of one of them, ))?((?:queue (\S+?)(?:, of which queue \S+ is a part)?|the cluster, for queue \S+): )?(.*)$",
    )
    .ok()
});
/// What is short, and the numbers.
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(\S.*) asked (\d\w*), used (\d\w*)(?:, (quota|deserved) (\d\w*))?(?:, (\d\w*) of them kept free by guarantees)?(, .*)?$",
    )
    .ok()
});
/// Why a queue does not take a workload as a whole.
static WHOLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"queue (\S+?)(?:, of which queue \S+ is a part,)? can't take (\w+) (\S+) as a whole: (\S.*?) asked (\d\w*), allocated (\d\w*), in queue (-?\d\w*), elastic (\d\w*), quota(?: (\d\w*))?",
    )
    .ok()
});

/// Judges what a pod is told. What it may not borrow at the moment is said in words.
pub fn judge(view: &View, pod: &Pod, message: &str) -> Finding {
    let (Some(whose), Some(numbers)) = (&*WHOSE, &*NUMBERS) else {
        return Ok(());
    };
    let (mut queue, mut is_of_another) = (None, false);
    for part in message.split("; ") {
        let Some(said) = whose.captures(part) else { continue };
        is_of_another |= said.get(1).is_some();
        if said.get(2).is_some() {
            queue = said.get(3).map(|name| name.as_str().to_owned());
        }
        let (Some(queue), Some(said)) = (&queue, numbers.captures(&said[4])) else {
            continue;
        };
        let Some(what) = what(view, &said[1]).filter(|_| view.tree.queues.contains_key(queue)) else {
            continue;
        };
        // What is about to become free for others is counted too.
        if said
            .get(7)
            .is_some_and(|more| more.as_str().contains("higher priority"))
        {
            continue;
        }
        let number = |place: usize| number(&said, place, &what);
        let has = quota::allocated(view, queue).get(&what).copied().unwrap_or(0);
        let asks = match &what {
            What::Card(card) => view.count_of(pod, card),
            What::Resource(resource) => pod.asks(resource),
        };
        let is_leaf = view.queue_of(pod).as_ref() == Some(queue);
        let most = quota::capability(view, queue, is_leaf, &what);
        let limit = number(5).filter(|_| said.get(4).is_some_and(|word| word.as_str() == "quota"));
        let is_too_much = limit.zip(most).is_some_and(|(limit, most)| limit > most);
        let used = number(3).map(|used| used - number(6).unwrap_or(0));
        let is_so = used.is_some_and(|used| (has..=has + quota::may_have(view, queue, &what)).contains(&used));
        // How many cards the pod asks for is not known here if it claims different cards at once, or shares its claims.
        let is_compared = !is_of_another && !pod.claimed.unclear && pod.claimed.shared.is_empty();
        if !is_so || is_compared && number(2) != Some(asks) || is_too_much {
            let key = &pod.key;
            return broken(
                RULE,
                format!("{key} is told {message:?}, asks for {asks} {what}, and queue {queue} has {has} of {most:?}"),
            );
        }
    }
    Ok(())
}

/// Judges what workloads that their queues do not take as a whole are told, and what their pods are told.
pub fn judge_workloads(view: &View, stored: &Stored, kept: &Kept) -> Finding {
    let Some(whole) = &*WHOLE else { return Ok(()) };
    let all = |kind| stored.now.get(kind).into_iter().flatten();
    let pods = all(&PODS).map(|(key, pod)| (key, pod, "False", ADMITTED_CONDITION));
    let pods = pods.filter(|(_, pod, ..)| super::pods::is_held(pod));
    let groups = all(&POD_GROUPS).filter(|(_, group)| group["status"]["phase"] == "Pending");
    let groups = groups.filter(|_| view.configuration.moves_groups);
    let groups = groups.map(|(key, group)| (key, group, "True", "Unschedulable"));
    for (key, object, status, kind) in pods.chain(groups) {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        for told in conditions.filter(|told| told["type"] == kind && told["status"] == status) {
            let message = told["message"].as_str().unwrap_or_default();
            let said = whole.captures(message);
            if let Some(why) = said.and_then(|said| is_untrue(view, stored, kept, &key.namespace, &said)) {
                return broken(RULE, format!("{key} is told {message:?}, and {why}"));
            }
        }
    }
    Ok(())
}

/// Returns which of the numbers are not true.
fn is_untrue(view: &View, stored: &Stored, kept: &Kept, namespace: &str, said: &Captures<'_>) -> Option<String> {
    let queue = &said[1];
    if !view.tree.queues.contains_key(queue) {
        return None;
    }
    // What is kept for the workload itself is not in its way.
    let is_other = |name: &&Name| name.0.kind != &said[2] || name.1 != Key::new(namespace, &said[3]);
    let whats = said[4]
        .split('|')
        .map(|name| what(view, name))
        .collect::<Option<Vec<_>>>()?;
    let number = |place: usize| number(said, place, whats.first()?);
    let (allocated, elastic) = (quota::allocated(view, queue), workloads::elastic(view, Some(queue)));
    let more: i128 = whats.iter().map(|what| quota::may_have(view, queue, what)).sum();
    for (place, word, there) in [(6, "has", &allocated), (8, "could take back", &elastic)] {
        let sum: i128 = whats.iter().filter_map(|what| there.get(what)).sum();
        if !number(place).is_some_and(|said| (sum..=sum + more).contains(&said)) {
            return Some(format!("{queue} {word} {sum}"));
        }
    }
    // Numbers by which the workload could be taken explain nothing.
    if let [Some(asked), Some(has), Some(kept), Some(elastic), Some(limit)] = [5, 6, 7, 8, 9].map(number)
        && asked + has + kept - elastic <= limit
    {
        return Some(format!("{queue} may have that much"));
    }
    let of_cards: Set = whats.iter().filter_map(What::card).map(str::to_owned).collect();
    let keeps = |name: &Name, is_sure: bool| {
        let object = stored.now.get(name.0)?.get(&name.1)?;
        let workload = Workload::read(view, name, object)?;
        let is_below = view.tree.is_within(&workload.queue, Some(queue));
        let amount = match whats.first()? {
            What::Resource(resource) => {
                let of_all = if is_sure {
                    &workload.resources
                } else {
                    &workload.at_most
                };
                of_all.get(resource).copied().unwrap_or(0)
            }
            What::Card(_) if is_sure => kept::of_set(&workload, &of_cards),
            What::Card(_) => {
                let sets = workload.cards.iter();
                let sets = sets.filter(|(set, _)| !set.is_disjoint(&of_cards));
                sets.map(|(_, count)| count).sum()
            }
        };
        Some(amount).filter(|_| is_below)
    };
    let certainly = kept.certainly(view).filter(is_other);
    let least: i128 = certainly.filter_map(|name| keeps(name, true)).sum();
    let most: i128 = possibly(view, stored)
        .iter()
        .filter(is_other)
        .filter_map(|name| keeps(name, false))
        .sum();
    let is_counted = whats
        .iter()
        .all(|what| matches!(what, What::Card(_)) || what.is_cpu_or_memory());
    let is_so = number(7).is_some_and(|kept| (least..=most).contains(&kept));
    (is_counted && !is_so).then(|| format!("{queue} keeps from {least} to {most}"))
}

/// Returns the workloads for which their queues may keep something: those that are visibly in their queues, and have no pods
/// that hold anything.
pub fn possibly(view: &View, stored: &Stored) -> Vec<Name> {
    let is_in = |kind, object: &Value| {
        if kind == &JOBS {
            object["spec"]["suspend"] != true
        } else {
            object["status"]["phase"] == "Inqueue"
        }
    };
    let mut all = Vec::new();
    for kind in [&POD_GROUPS, &JOBS] {
        let objects = stored.now.get(kind).into_iter().flatten();
        all.extend(
            objects
                .filter(|(_, object)| is_in(kind, object))
                .map(|(key, _)| (kind, key.clone())),
        );
    }
    for pod in view
        .pods
        .iter()
        .filter(|pod| pod.deleted.is_none() && view.charge(pod).is_some())
    {
        for name in workloads::of_pod(pod) {
            all.retain(|other| *other != name);
        }
    }
    all
}

/// Returns what a message means by a name: CPU, another resource that pods request, or a card that a node has.
pub fn what(view: &View, name: &str) -> Option<What> {
    match name {
        "CPU" => Some(What::Resource("cpu".to_owned())),
        "memory" => Some(What::Resource(name.to_owned())),
        _ => {
            let mut nodes = view.nodes.iter();
            nodes
                .any(|node| node.card(name).is_some())
                .then(|| What::Card(name.to_owned()))
        }
    }
}

/// Reads a number of this item in a message.
pub fn number(said: &Captures<'_>, place: usize, what: &What) -> Option<i128> {
    amount(said.get(place)?.as_str(), what)
}

/// Reads an amount of this item.
pub fn amount(text: &str, what: &What) -> Option<i128> {
    let text = Value::from(text);
    match what {
        What::Resource(resource) => amounts::of(resource, &text),
        What::Card(card) => amounts::of(card, &text),
    }
}
