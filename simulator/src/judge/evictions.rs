//! No pod is evicted for one of equal priority, or by a queue beyond what it deserves from a queue that has no more than it
//! deserves, and no two pods evict each other in turns. The events say which pod made room for which, and give the numbers.
//! Nor is a pod with a node evicted because the scheduler has not placed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;

use super::amounts::What;
use super::pods::Pod;
use super::stored::Stored;
use super::told::{amount, number, what};
use super::view::View;
use super::{Finding, broken, deserves, is_operator};
use crate::objects::{EVENTS, Key, PODS, Write};

/// The rule about priorities.
pub const EQUALS: &str = "only who has less priority is preempted";
/// The rule about pods that must not preempt.
pub const NEVER: &str = "who has preemptionPolicy Never preempts nobody";
/// The rule about turns.
pub const TURNS: &str = "no two pods evict each other in turns";

/// The rule about pods that were not placed in time.
pub const UNPLACED: &str = "only who has no node is sent back as not placed";
/// What the events of these pods say at the end; others say with the same reason why a pod stands aside, or stays.
const SENT_BACK: &str = ": it is evicted";

/// The rule about what queues deserve.
pub const DESERVED: &str =
    "only what a queue has beyond what it deserves is reclaimed, and only for one that gets no more than it deserves";

/// The pod for which another one was evicted; it is named to readers who may know of it.
static FOR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^evicted for (?:pod (\S+)/(\S+)|a pod) of ").ok());
/// Its queue.
static OF: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^evicted for (?:pod \S+|a pod) of queue (\S+), which ").ok());
/// How long before a pod's event other pods may have been evicted together with it.
const LATELY: Duration = Duration::from_mins(2);
/// Its priority.
static PRIORITY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r" has priority (-?\d+), more than ").ok());

/// What the queue that gives has and deserves, and of which item. The text depends on whether the evicted pod may know of
/// the other queue, and on whether only that queue lacks room.
static GIVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r", which (?:asks (.*); of (\S+), queue \S+ has (\d\w*) and (?:deserves (\d\w*)|names nothing that it deserves), and|has less (\S+) than it deserves;|lacks room on a node; of (\S+),) this pod's queue \S+?(?:, or queue \S+ that it is a part of,)? has (\d\w*) and deserves (\d\w*)$",
    )
    .ok()
});

/// Returns which pod made room for which, if a write is an operator's event about that.
pub fn said(write: &Write) -> Option<(Key, Key)> {
    let (victim, message) = told(write)?;
    let said = FOR.as_ref()?.captures(message)?;
    Some((victim, Key::new(said.get(1)?.as_str(), said.get(2)?.as_str())))
}

/// Returns which pod was evicted for others, and what its event says.
fn told(write: &Write) -> Option<(Key, &str)> {
    let (victim, reason, message) = event(write)?;
    matches!(reason, "Preempted" | "Reclaimed").then_some((victim, message))
}

/// Returns which object an operator's new event is about, with its reason and what it says.
fn event(write: &Write) -> Option<(Key, &str, &str)> {
    let event = write.after.as_ref().filter(|_| write.resource == &EVENTS)?;
    let is_new = write.before.is_none() && is_operator(&write.who);
    let regarding = &event["regarding"];
    let about = Key::new(text(&regarding["namespace"]), text(&regarding["name"]));
    is_new.then_some((about, text(&event["reason"]), text(&event["note"])))
}

/// Which pods made room for which.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Pods that operators evicted, as they were, with the age of the world.
    evicted: BTreeMap<Key, (Duration, Arc<Value>)>,
    /// Which pod made room for which since anything else changed. An entry stands for a pod, or for all pods of one
    /// controller and priority.
    turns: BTreeSet<(String, String)>,
}

impl Evictions {
    /// Looks at a write before it is stored. `changes_terms` says whether the write is about what quotas and room depend on.
    pub fn hear(&mut self, write: &Write, stored: &Stored, changes_terms: bool) -> Finding {
        let is_deleted = |pod: &Arc<Value>| pod["metadata"]["deletionTimestamp"].is_string();
        if write.resource == &PODS {
            let (before, after) = (write.before.as_ref(), write.after.as_ref());
            let was_there = before.filter(|pod| !is_deleted(pod));
            let ends = was_there.filter(|_| after.is_none_or(|pod| is_deleted(pod) || is_over(pod)));
            match ends {
                Some(pod) if is_operator(&write.who) => {
                    self.evicted.insert(write.key.clone(), (write.age, Arc::clone(pod)));
                }
                // A pod that others end leaves room, and a pod with less than before may take it back.
                Some(pod) if !is_over(pod) => self.turns.clear(),
                _ => {}
            }
        }
        if changes_terms {
            self.turns.clear();
        }
        self.judge(write, stored)
    }

    fn judge(&mut self, write: &Write, stored: &Stored) -> Finding {
        self.judge_unplaced(write)?;
        let (Some((key, message)), Some(priority)) = (told(write), &*PRIORITY) else {
            return Ok(());
        };
        let Some((_, victim)) = self.evicted.get(&key) else {
            return Ok(());
        };
        deserves::judge(stored, write.at, message)?;
        self.judge_queues(write, stored, &Pod::read(&key, victim), message)?;
        let own = victim["spec"]["priority"].as_i64().unwrap_or(0);
        let more = priority.captures(message).and_then(|said| said[1].parse::<i64>().ok());
        if more.is_some_and(|more| more <= own) {
            return broken(EQUALS, format!("{key} has priority {own}, and is told: {message}"));
        }
        let named = said(write).map(|(_, whom)| whom);
        let Some((named, pod)) = named.and_then(|key| Some((key.clone(), stored.now.get(&PODS)?.get(&key)?))) else {
            return Ok(());
        };
        let is_preempted = write.after.as_ref().is_some_and(|event| event["reason"] == "Preempted");
        if is_preempted && pod["spec"]["preemptionPolicy"] == "Never" {
            return broken(NEVER, format!("{key} was evicted for {named}, which preempts nobody"));
        }
        let (gave, got) = (maker(&key, victim), maker(&named, pod));
        if self.turns.contains(&(got.clone(), gave.clone())) {
            return broken(
                TURNS,
                format!("{key} was evicted for {named}, after {named} or its like for {key} or its like"),
            );
        }
        self.turns.insert((gave, got));
        Ok(())
    }

    /// Judges the eviction of a pod that its event calls not placed in time.
    fn judge_unplaced(&self, write: &Write) -> Finding {
        let Some((key, "ReservationTimeout", message)) = event(write) else {
            return Ok(());
        };
        let uid = write.after.as_ref().map(|event| &event["regarding"]["uid"]);
        let victim = self.evicted.get(&key).map(|(_, pod)| pod);
        let victim = victim.filter(|pod| Some(&pod["metadata"]["uid"]) == uid && message.contains(SENT_BACK));
        match victim.and_then(|pod| pod["spec"]["nodeName"].as_str()) {
            Some(node) => broken(UNPLACED, format!("{key} was on {node}, and is told: {message}")),
            None => Ok(()),
        }
    }

    /// Judges the numbers of an eviction in which one queue takes back from another, for each pod that was evicted by
    /// itself.
    fn judge_queues(&self, write: &Write, stored: &Stored, victim: &Pod, message: &str) -> Finding {
        let Some(said) = GIVES.as_ref().and_then(|gives| gives.captures(message)) else {
            return Ok(());
        };
        let name = [2, 5, 6]
            .iter()
            .find_map(|place| said.get(*place))
            .map_or("", |name| name.as_str());
        let Some(view) = View::read(&stored.now, write.at, &BTreeSet::new()) else {
            return Ok(());
        };
        let Some(what) = what(&view, name) else { return Ok(()) };
        let number = |place| number(&said, place, &what);
        let gives = view
            .amounts(victim, view.card_of(victim).as_deref())
            .get(&what)
            .copied()
            .unwrap_or(0);
        let keeps = number(7)
            .zip(number(8))
            .is_none_or(|(has, deserves)| has - gives >= deserves);
        let mut asks = said.get(1).map_or("", |asks| asks.as_str()).split(", ");
        let asked = asks.find_map(|asks| asks.split_once(' ').filter(|(_, of)| *of == name));
        let asked = asked.and_then(|(asked, _)| amount(asked, &what)).unwrap_or(0);
        let gets = number(3)
            .zip(number(4))
            .is_none_or(|(has, deserves)| has + asked - self.gives_way(write, &view, message, &what) <= deserves);
        if keeps && gets {
            return Ok(());
        }
        broken(
            DESERVED,
            format!("{} gives {gives} {what}, and is told: {message}", victim.key),
        )
    }

    /// Returns what pods of lower priority have in the queue of the pod that another one makes room for. They may have to go
    /// too, just before it or after it.
    fn gives_way(&self, write: &Write, view: &View, message: &str, what: &What) -> i128 {
        let Some(queue) = OF.as_ref().and_then(|of| of.captures(message)) else {
            return 0;
        };
        let queue = &queue[1];
        let is_of_queue = |pod: &&Pod| view.queue_of(pod).as_deref() == Some(queue);
        let priority = |pod: &Pod| pod.spec["priority"].as_i64().unwrap_or(0);
        let whom = said(write).map(|(_, whom)| whom);
        let waits = |pod: &&Pod| pod.is_held && whom.as_ref().is_none_or(|whom| pod.key == *whom);
        let waiting = view.pods.iter().filter(waits).filter(is_of_queue);
        let highest = waiting.map(priority).max().unwrap_or(0);
        let since = write.age.saturating_sub(LATELY);
        let gone = self
            .evicted
            .iter()
            .filter(|(key, (at, _))| *at >= since && !view.pods.iter().any(|pod| pod.key == **key));
        let gone: Vec<_> = gone.map(|(key, (_, pod))| Pod::read(key, pod)).collect();
        let all = view.pods.iter().filter(|pod| !pod.is_held).chain(&gone);
        let lower = all.filter(is_of_queue).filter(|pod| priority(pod) < highest);
        lower
            .filter_map(|pod| view.amounts(pod, view.card_of(pod).as_deref()).get(what).copied())
            .sum()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns the controller of a pod, or the pod itself, with the priority. Tasks of one Job may differ in priority, and a
/// task of higher priority preempts the others again and again.
fn maker(key: &Key, pod: &Value) -> String {
    let owner = pod["metadata"]["ownerReferences"][0]["uid"].as_str();
    let priority = pod["spec"]["priority"].as_i64().unwrap_or(0);
    format!(
        "{} of priority {priority}",
        owner.map_or_else(|| key.to_string(), str::to_owned)
    )
}
