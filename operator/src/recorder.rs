//! Kubernetes events about Cardgate's own objects: the configuration, certificates.
//!
//! The reporter writes events about pods, within its budget. The events here are rare, and each says something new, so none is folded into
//! an earlier one.

use std::sync::Arc;
use std::time::Duration;

use engine::happening::Happening;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{self, Event, EventType, Reporter};
use programs::when_it_has_time;
use tracing::warn;

use crate::metrics::{Metrics, Verb, Write};

/// Name of the controller in events.
pub const CONTROLLER: &str = "cardgate-operator";
/// Longest note that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;
/// The end of a note that was cut.
const CUT: &str = "...";
/// How long one write may take: an event that comes too late helps nobody.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Writes events; an event that can't be written is logged.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    instance: String,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// Returns a recorder that writes in the name of this `instance` (the pod's name).
    pub fn new(client: Client, instance: String, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            instance,
            metrics,
        }
    }

    /// Writes one event about `regarding`. `reason` is one word, `action` is what Cardgate was doing, and `note` is the text for people.
    pub async fn publish(
        &self,
        regarding: &ObjectReference,
        kind: EventType,
        reason: Happening,
        action: &'static str,
        note: &str,
    ) {
        let event = Event {
            type_: kind,
            reason: reason.as_str().to_owned(),
            note: Some(cut(note)),
            action: action.to_owned(),
            secondary: None,
        };
        let reporter = Reporter {
            controller: CONTROLLER.to_owned(),
            instance: Some(self.instance.clone()),
        };
        // kube's recorder folds events with the same reason, and keeps the note of the first one.
        let recorder = events::Recorder::new(self.client.clone(), reporter);
        self.metrics.api_write(Write::Event);
        let written = when_it_has_time(|| recorder.publish(&event, regarding));
        if let Err(error) = self.metrics.in_time(Verb::Create, TIME_LIMIT, written).await {
            warn!(reason = reason.as_str(), note, %error, "can't write an event");
        }
    }
}

/// Returns at most [`MAX_NOTE`] bytes of a note, cut between characters.
fn cut(note: &str) -> String {
    if note.len() <= MAX_NOTE {
        return note.to_owned();
    }
    let end = note.floor_char_boundary(MAX_NOTE - CUT.len());
    format!("{}{CUT}", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let exact = "x".repeat(MAX_NOTE);
        assert_eq!(cut(&exact), exact);
        let long = "é".repeat(MAX_NOTE);
        let cut = cut(&long);
        assert!(cut.len() <= MAX_NOTE && cut.len() > MAX_NOTE - 8, "{}", cut.len());
        assert!(cut.ends_with("é..."));
    }
}
