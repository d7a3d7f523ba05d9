//! What single writes mean for a world that comes to rest, and how they are shown.

use std::collections::BTreeSet;

use k8s_openapi::jiff::SignedDuration;
use serde_json::Value;

use crate::objects::{EVENTS, JOBS, LEASES, PODS, Write};

/// After how long whoever waits is told again what they were told: API servers forget events.
const REMINDED: SignedDuration = SignedDuration::from_mins(45);

/// Whether a write is more than the sign that somebody lives.
pub fn matters(write: &Write) -> bool {
    write.resource != &LEASES
}

/// Whether somebody is told again what they were told long ago: events are forgotten, conditions say it still.
pub fn is_reminder(write: &Write, all: &[Write]) -> bool {
    let (true, Some(event)) = (write.resource == &EVENTS, &write.after) else {
        return false;
    };
    let is_equal = |other: &&Write| {
        let is_event = other.resource == &EVENTS && other.version < write.version;
        is_event && other.after.as_ref().is_some_and(|other| said(other) == said(event))
    };
    let last = all.iter().rev().find(is_equal);
    last.is_some_and(|last| write.at.duration_since(last.at) >= REMINDED)
}

/// What an event says, and of whom.
fn said(event: &Value) -> [&Value; 3] {
    ["regarding", "reason", "note"].map(|field| &event[field])
}

/// What those are told who stand aside for a time of which another operator knows nothing.
const ASIDE: [&str; 3] = ["ReservationTimeout", "InqueueTimeout", "RefusedByAPIServer"];

/// Whether a pod stands aside.
pub fn stands_aside(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|told| told["reason"].as_str().is_some_and(|reason| ASIDE.contains(&reason)))
}

/// Whether a write lets somebody in, or takes somebody back.
pub fn decides(write: &Write) -> bool {
    let Some(after) = &write.after else {
        return write.resource == &PODS;
    };
    let before = write.before.as_deref().unwrap_or(&Value::Null);
    (write.resource == &PODS || write.resource == &JOBS)
        && (before["spec"] != after["spec"]
            || after["metadata"]["deletionTimestamp"] != before["metadata"]["deletionTimestamp"])
}

/// A write in one line.
pub fn tell(write: &Write) -> String {
    let (what, how) = match (&write.before, &write.after) {
        (None, Some(after)) => ("creates", after["note"].as_str().unwrap_or_default().to_owned()),
        (Some(before), Some(after)) => ("changes", difference("", before, after).join(", ")),
        _ => ("removes", String::new()),
    };
    let (time, who, plural) = (write.at, &write.who, write.resource.plural);
    // Some events are named by a clock that is told nothing.
    let about = write.after.as_ref().filter(|_| write.resource == &EVENTS);
    let about = about.and_then(|event| event["regarding"]["name"].as_str());
    let name = about.map_or_else(|| write.key.to_string(), |about| format!("about {about}"));
    format!("{time} {who} {what} {plural} {name}: {how}")
}

/// What differs, place by place.
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
