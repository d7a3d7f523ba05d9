//! What single writes mean for a world that comes to rest, and how writes are shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;

use crate::objects::{EVENTS, JOBS, LEASES, POD_GROUPS, PODS, Write};

/// After this time a waiting pod is told again what it was told: API servers forget events.
const REMINDED: SignedDuration = SignedDuration::from_mins(45);

/// Whether a write is more than a sign of life.
pub fn matters(write: &Write) -> bool {
    write.resource != &LEASES
}

/// The action of an event that comes with a new condition of a pod. An operator that begins to lead tells all waiting pods,
/// once.
const TOLD_ANEW: &str = "Admit";

/// Whether a write repeats an event from long ago. Events are forgotten, while conditions still say it.
pub fn is_reminder(write: &Write, all: &[Write]) -> bool {
    let (true, Some(event)) = (write.resource == &EVENTS, &write.after) else {
        return false;
    };
    if event["action"] == TOLD_ANEW {
        return false;
    }
    let is_equal = |other: &&Write| {
        let is_event = other.resource == &EVENTS && other.version < write.version;
        is_event && other.after.as_ref().is_some_and(|other| said(other) == said(event))
    };
    let last = all.iter().rev().find(is_equal);
    last.is_some_and(|last| write.at.duration_since(last.at) >= REMINDED)
}

/// What an event says, and about which object.
fn said(event: &Value) -> [&Value; 3] {
    ["regarding", "reason", "note"].map(|field| &event[field])
}

/// The reasons of objects that stand aside for a time. Another operator does not know of that time.
const ASIDE: [&str; 3] = ["ReservationTimeout", "InqueueTimeout", "RefusedByAPIServer"];

/// Whether a pod or a group stands aside.
pub fn stands_aside(object: &Value) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|told| told["reason"].as_str().is_some_and(|reason| ASIDE.contains(&reason)))
}

/// Whether a write admits or evicts something: pods, Jobs, and groups into their queues.
pub fn decides(write: &Write) -> bool {
    let Some(after) = &write.after else {
        return write.resource == &PODS;
    };
    let before = write.before.as_deref().unwrap_or(&Value::Null);
    if write.resource == &POD_GROUPS {
        let phase = |group: &Value| group["status"]["phase"].clone();
        // A group whose pods came later, and were refused as a whole, stays in its queue without any quota kept for it. A
        // restarted operator sees group and pods at once.
        let keeps_nothing = phase(before) == "Inqueue" && is_refused(before);
        return phase(before) != phase(after) && !keeps_nothing;
    }
    (write.resource == &PODS || write.resource == &JOBS)
        && (before["spec"] != after["spec"]
            || after["metadata"]["deletionTimestamp"] != before["metadata"]["deletionTimestamp"])
}

/// The namespaces with a group that was let out of its queue again. For a growing time, of which another operator does not
/// know, queues keep nothing for the groups of these namespaces.
pub fn set_aside(writes: &[Write]) -> BTreeSet<String> {
    let phase = |group: &Option<Arc<Value>>| group.as_ref().map(|group| group["status"]["phase"].clone());
    let is_let_out = |write: &&Write| {
        let is_by_operator = write.resource == &POD_GROUPS && write.who.starts_with("operator");
        let (was, is) = (phase(&write.before), phase(&write.after));
        is_by_operator && was.is_some_and(|was| was == "Inqueue") && is.is_some_and(|is| is == "Pending")
    };
    let let_out = writes.iter().filter(is_let_out);
    let_out.map(|write| write.key.namespace.clone()).collect()
}

/// Whether a group's condition says that it can't be let in.
fn is_refused(group: &Value) -> bool {
    let mut conditions = group["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|told| told["type"] == "Unschedulable" && told["status"] == "True")
}

/// Returns a write in one line.
pub fn tell(write: &Write) -> String {
    let (what, how) = match (&write.before, &write.after) {
        (None, Some(after)) => ("creates", after["note"].as_str().unwrap_or_default().to_owned()),
        (Some(before), Some(after)) => ("changes", difference("", before, after).join(", ")),
        _ => ("removes", String::new()),
    };
    let (time, who, plural) = (write.at, &write.who, write.resource.plural);
    // Some events have names from a clock that the simulator does not control.
    let about = write.after.as_ref().filter(|_| write.resource == &EVENTS);
    let about = about.and_then(|event| event["regarding"]["name"].as_str());
    let name = about.map_or_else(|| write.key.to_string(), |about| format!("about {about}"));
    format!("{time} {who} {what} {plural} {name}: {how}")
}

/// Returns what differs, place by place.
fn difference(place: &str, before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        (Value::Object(had), Value::Object(has)) => {
            let keys: BTreeSet<_> = had.keys().chain(has.keys()).collect();
            let of_key = |key: &&String| difference(&format!("{place}.{key}"), &before[&***key], &after[&***key]);
            keys.iter()
                .filter(|key| ***key != "resourceVersion")
                .flat_map(of_key)
                .collect()
        }
        (Value::Array(had), Value::Array(has)) if had.len() == has.len() => {
            let pairs = had.iter().zip(has).enumerate();
            let of_pair = |(index, (before, after))| difference(&format!("{place}[{index}]"), before, after);
            pairs.flat_map(of_pair).collect()
        }
        (before, after) if before == after => Vec::new(),
        (before, after) => vec![format!("{place} {before} -> {after}")],
    }
}
