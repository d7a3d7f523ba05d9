//! Events: what happened to an object, for people who describe the object.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::happening::Cause;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The reporter's name in events.
const CONTROLLER: &str = "card.volcano.sh/operator";
/// Namespace of events about objects that have none, by Kubernetes' convention.
const CLUSTER_NAMESPACE: &str = "default";
/// Longest message of an event, in bytes (Kubernetes refuses longer ones).
const LONGEST_NOTE: usize = 1024;
/// The end of a message that was too long.
const ELLIPSIS: &str = "...";
/// How many bytes of an object's name are repeated in the name of its event: names have at most 253 characters, and a time follows.
const LONGEST_STEM: usize = 230;
/// For how long the same event about the same object is counted instead of written again.
const SERIES: Duration = Duration::from_mins(10);
/// How many events are remembered for counting.
const REMEMBERED: usize = 4096;

/// Whether an event is good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Something to look at.
    Warning,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    /// The object it happened to.
    pub regarding: ObjectReference,
    /// Whether the occurrence is good or bad.
    pub kind: EventKind,
    /// What was being done, in one word.
    pub action: &'static str,
    /// Why, in one word.
    pub reason: Cause,
    /// Why, in a sentence.
    pub message: String,
    /// The time. It differs between all occurrences, since events are named by it.
    pub time: Timestamp,
}

impl Occurrence {
    /// Returns a key that is equal for occurrences that replace each other while unwritten: those with the same object and reason. For the
    /// configuration, the message is part of the key, since each message names something else to be corrected.
    pub(super) fn key(&self) -> Arc<str> {
        let is_of_configuration = self.regarding.kind.as_deref() == Some("ConfigMap");
        let said = if is_of_configuration { &*self.message } else { "" };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
            ..
        } = &self.regarding;
        format!(
            "{}/{}/{}/{}/{}/{said}",
            text(kind),
            text(namespace),
            text(name),
            text(uid),
            self.reason.as_str()
        )
        .into()
    }

    /// Returns the namespace that the event belongs to.
    pub(super) fn namespace(&self) -> &str {
        let namespace = self
            .regarding
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        namespace.unwrap_or(CLUSTER_NAMESPACE)
    }

    /// Returns the event as `instance` reports it. A second attempt to write it has the same name, so the event never exists twice.
    pub(super) fn event(&self, instance: &str) -> Event {
        let stem = shorten(self.regarding.name.as_deref().unwrap_or("cluster"), LONGEST_STEM);
        let stem = stem.trim_end_matches(['.', '-']);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{stem}.{:x}", self.time.as_nanosecond())),
                namespace: Some(self.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(self.action.to_owned()),
            event_time: Some(MicroTime(self.time)),
            note: Some(note(&self.message)),
            reason: Some(self.reason.as_str().to_owned()),
            regarding: Some(self.regarding.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(instance.to_owned()),
            type_: Some(match self.kind {
                EventKind::Normal => "Normal".to_owned(),
                EventKind::Warning => "Warning".to_owned(),
            }),
            ..Event::default()
        }
    }
}

/// Shortens a message to what an event can hold. The end of a long message is kept, because it says what would help.
fn note(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = message.rfind("; ").map_or("", |end| &message[end..]);
    let end = if end.len() <= LONGEST_NOTE / 2 { end } else { "" };
    let start = shorten(message, LONGEST_NOTE - ELLIPSIS.len() - end.len());
    format!("{start}{ELLIPSIS}{end}")
}

/// Returns the beginning of `text`, at most `length` bytes.
fn shorten(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}

/// The events that were written lately. A repetition is counted on the existing event.
#[derive(Debug, Default)]
pub(super) struct Series {
    written: HashMap<Arc<str>, Written>,
    /// When each event was written, oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: i32,
    at: Instant,
}

impl Series {
    /// Returns the name of an existing event that says the same, and the count that includes this occurrence.
    pub(super) fn find(&mut self, occurrence: &Occurrence, now: Instant) -> Option<(String, i32)> {
        self.expire(now);
        let written = self.written.get(&series_key(occurrence))?;
        Some((written.name.clone(), written.count.saturating_add(1)))
    }

    /// Remembers that an event was written, with this count.
    pub(super) fn remember(&mut self, occurrence: &Occurrence, name: String, count: i32, now: Instant) {
        let key = series_key(occurrence);
        self.order.push_back((now, Arc::clone(&key)));
        self.written.insert(key, Written { name, count, at: now });
        self.expire(now);
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, key)) = self.order.front() {
            if *at + SERIES > now && self.order.len() <= REMEMBERED {
                return;
            }
            if self.written.get(key).is_some_and(|written| written.at == *at) {
                self.written.remove(key);
            }
            self.order.pop_front();
        }
    }
}

fn series_key(occurrence: &Occurrence) -> Arc<str> {
    format!("{}/{}", occurrence.key(), note(&occurrence.message)).into()
}

#[cfg(test)]
mod tests {
    use engine::reason::Reason;

    use super::*;

    fn occurrence(name: &str, message: &str) -> Occurrence {
        Occurrence {
            regarding: ObjectReference {
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            kind: EventKind::Warning,
            action: "Admit",
            reason: Reason::InsufficientScalarQuota.into(),
            message: message.to_owned(),
            time: Timestamp::from_second(1_700_000_000).unwrap(),
        }
    }

    #[test]
    fn events_keep_within_kubernetes_limits() {
        let long = "ä".repeat(1000);
        let event = occurrence(&"a.-".repeat(80), &long).event("operator-0");
        let note = event.note.unwrap();
        assert!(note.len() <= LONGEST_NOTE && note.ends_with("ä..."), "{}", note.len());
        let helps = format!("{}; waiting can't help: ask for less", "x; ".repeat(2000));
        let note = occurrence("q", &helps).event("operator-0").note.unwrap();
        assert!(
            note.len() <= LONGEST_NOTE && note.ends_with("...; waiting can't help: ask for less"),
            "{note}"
        );
        let name = event.metadata.name.unwrap();
        assert!(
            name.len() <= 253 && !name.contains("-.") && !name.contains(".."),
            "{name}"
        );
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        let exact = "x".repeat(LONGEST_NOTE);
        assert_eq!(occurrence("q", &exact).event("operator-0").note.unwrap(), exact);
    }

    #[test]
    fn what_is_said_of_the_configuration_replaces_nothing_else_that_is_said_of_it() {
        let of = |kind: &str, message: &str| {
            let mut occurrence = occurrence("cardgate-config", message);
            occurrence.regarding.kind = Some(kind.to_owned());
            occurrence.key()
        };
        assert_ne!(of("ConfigMap", "a"), of("ConfigMap", "b"));
        assert_eq!(of("Queue", "a"), of("Queue", "b"));
    }

    #[test]
    fn the_same_again_is_counted_for_a_while() {
        let start = Instant::now();
        let (first, other) = (occurrence("q", "m"), occurrence("q", "other"));
        let mut series = Series::default();
        assert_eq!(series.find(&first, start), None);
        series.remember(&first, "q.1".to_owned(), 1, start);
        assert_eq!(series.find(&first, start), Some(("q.1".to_owned(), 2)));
        assert_eq!(series.find(&other, start), None);
        // Another count keeps the event remembered.
        series.remember(&first, "q.1".to_owned(), 2, start + SERIES / 2);
        assert_eq!(series.find(&first, start + SERIES), Some(("q.1".to_owned(), 3)));
        assert_eq!(series.find(&first, start + SERIES / 2 + SERIES), None);
    }

    #[test]
    fn no_more_events_are_remembered_than_the_bound() {
        let start = Instant::now();
        let mut series = Series::default();
        for number in 0..=REMEMBERED {
            series.remember(&occurrence("q", &number.to_string()), "q".to_owned(), 1, start);
        }
        assert_eq!((series.written.len(), series.order.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(series.find(&occurrence("q", "0"), start), None);
        assert!(series.find(&occurrence("q", "1"), start).is_some());
    }
}
