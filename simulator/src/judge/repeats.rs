//! Nothing is written again and again. While nothing changes, an operator repeats a message to an object only a few times,
//! and writes to one object only a few times at all.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::stored::Stored;
use super::{Finding, broken, is_operator};
use crate::objects::{CARD_USAGES, EVENTS, JOBS, Key, LEASES, NODES, POD_GROUPS, PODS, Resource, SECRETS, Write};

/// The rule.
pub const RULE: &str = "nothing is written again and again while nothing changes";

/// How often the same may be written. A write that is refused, or arrives late, does not count as a change.
const MOST: u32 = 3;
/// How often one object may be written, whatever is said. A pod is let in, told why it waits, and settled in a few writes.
const MOST_AT_ALL: u32 = 10;
/// How often a queue's numbers may be the same, and what its waiting workloads and their pods show. What is kept for
/// workloads that send no pods lapses without a visible write, at intervals that double up to an hour, and is kept again.
/// Each namespace has its own intervals, and the workloads of several namespaces may take turns.
const MOST_OF_QUEUES: u32 = 9;
/// The part of a message to pods whose group is not taken into its queue, before the numbers of what is kept there.
const OF_GROUP: &str = " as a whole: ";
/// After this time it may be said again: API servers forget events.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(45);

/// A pod that keeps quota without being placed is told so after ever longer times, twice as long each (docs/rules.md, **What
/// a gate changes**). A message after this many times the previous interval counts once, however often it comes.
const LONGER: f64 = 1.5;
/// The reasons that such pods are told.
const UNPLACED: [&str; 2] = ["ReservationTimeout", "EvictionRefused"];

/// An object, and what was written there.
type Said = (&'static Resource, Key, String);

/// What operators wrote since anything last changed, how often, and when last.
#[derive(Debug, Default)]
pub struct Repeats {
    said: BTreeMap<Said, Times>,
    objects: BTreeMap<(&'static Resource, Key), Times>,
}

/// How often, when last, and how long after the previous time.
#[derive(Debug)]
struct Times {
    count: u32,
    last: Timestamp,
    after: SignedDuration,
}

impl Repeats {
    /// Looks at a write before it is stored. `changes_terms` says whether the write is about what quotas and room depend on.
    pub fn hear(&mut self, write: &Write, changes_terms: bool, stored: &Stored) -> Finding {
        if write.resource == &LEASES || write.resource == &SECRETS {
            return Ok(());
        }
        if changes_terms || is_change(write) {
            self.forget_all();
        }
        let (true, Some(after)) = (is_operator(&write.who), &write.after) else {
            return Ok(());
        };
        let (key, content) = if write.resource == &EVENTS {
            // Each event has a name of its own.
            let regarding = &after["regarding"]["uid"];
            let said = ["reason", "note"].map(|field| after[field].as_str().unwrap_or_default());
            (Key::new("", regarding.as_str().unwrap_or_default()), said.join(": "))
        } else {
            (write.key.clone(), without_times(after))
        };
        let is_unplaced = UNPLACED.iter().any(|reason| after["reason"] == *reason);
        let is_told_seldom = write.resource == &EVENTS && is_unplaced && after["regarding"]["kind"] == "Pod";
        let of_object = self.objects.entry((write.resource, key.clone()));
        let at_all = once_more(of_object, write.at, is_told_seldom);
        let of_content = self.said.entry((write.resource, key, content));
        let the_same = once_more(of_content, write.at, is_told_seldom);
        let (who, plural, key) = (&write.who, write.resource.plural, &write.key);
        let (most, most_at_all) = if is_of_queue(write.resource, after) {
            let most = MOST_OF_QUEUES.saturating_mul(namespaces_in_line(stored));
            (most, most.saturating_mul(2))
        } else {
            (MOST, MOST_AT_ALL)
        };
        if the_same > most {
            return broken(
                RULE,
                format!("{who} has written the same {the_same} times to {plural} {key}: {after}"),
            );
        }
        if at_all > most_at_all {
            return broken(
                RULE,
                format!("{who} has written {at_all} times to {plural} {key}, lately: {after}"),
            );
        }
        Ok(())
    }

    /// Forgets everything, since a restarted operator tells everything again.
    pub fn forget_all(&mut self) {
        self.said.clear();
        self.objects.clear();
    }
}

/// Counts the namespaces with workloads for which something may be kept.
fn namespaces_in_line(stored: &Stored) -> u32 {
    let workloads = [&JOBS, &POD_GROUPS].into_iter().filter_map(|kind| stored.now.get(kind));
    let namespaces: BTreeSet<_> = workloads.flatten().map(|(key, _)| &key.namespace).collect();
    u32::try_from(namespaces.len()).unwrap_or(u32::MAX).max(1)
}

/// Whether a write shows what a queue has and keeps, or tells it to objects that wait in the queue.
fn is_of_queue(resource: &'static Resource, after: &Value) -> bool {
    let is_of_group = |message: &Value| message.as_str().is_some_and(|message| message.contains(OF_GROUP));
    if resource == &EVENTS {
        matches!(after["regarding"]["kind"].as_str(), Some("Job" | "PodGroup")) || is_of_group(&after["note"])
    } else if resource == &PODS {
        let mut conditions = after["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|told| is_of_group(&told["message"]))
    } else {
        [&CARD_USAGES, &POD_GROUPS].contains(&resource)
    }
}

/// Counts a write: one more than before; the first after a long time; or none more, if such writes come after ever longer
/// intervals and this interval is longer.
fn once_more<K: Ord>(entry: Entry<'_, K, Times>, at: Timestamp, is_told_seldom: bool) -> u32 {
    let times = entry.or_insert(Times {
        count: 0,
        last: at,
        after: SignedDuration::ZERO,
    });
    let after = at.duration_since(times.last);
    if after >= FORGOTTEN {
        times.count = 0;
    }
    let is_longer = !times.after.is_zero() && after.as_secs_f64() >= LONGER * times.after.as_secs_f64();
    if !(is_told_seldom && is_longer && times.count > 0) {
        times.count += 1;
    }
    (times.last, times.after) = (at, after);
    times.count
}

/// Whether a write of another author, or an operator's decision, may change what others are told.
fn is_change(write: &Write) -> bool {
    if !is_operator(&write.who) {
        return write.resource != &EVENTS && write.resource != &NODES;
    }
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return write.resource == &PODS;
    };
    let decides = [&PODS, &JOBS, &POD_GROUPS].contains(&write.resource);
    decides && decided(before) != decided(after)
}

/// Returns what an operator decides about an object.
fn decided(object: &Value) -> [&Value; 3] {
    let deleted = &object["metadata"]["deletionTimestamp"];
    [&object["spec"], deleted, &object["status"]["phase"]]
}

/// Returns what an object says, without times.
fn without_times(object: &Value) -> String {
    let mut said = String::new();
    say_without_times(&mut said, object);
    said
}

fn say_without_times(said: &mut String, object: &Value) {
    match object {
        Value::Object(fields) => {
            said.push('{');
            let is_content = |name: &str| name != "resourceVersion" && !name.ends_with("Time");
            for (name, value) in fields.iter().filter(|(name, _)| is_content(name)) {
                said.extend([name, ":"]);
                say_without_times(said, value);
                said.push(',');
            }
            said.push('}');
        }
        Value::Array(values) => {
            said.push('[');
            for value in values {
                say_without_times(said, value);
                said.push(',');
            }
            said.push(']');
        }
        value => said.push_str(&value.to_string()),
    }
}
