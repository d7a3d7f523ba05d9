//! What follows when a write has ended: it is done, no longer needed, or tried again.

use std::sync::Arc;

use engine::happening::Happening;
use engine::refs::{PodRef, WorkloadRef};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use programs::clock;
use tokio::time::Instant;

use super::super::Report;
use super::super::api::Written;
use super::super::event::{EventKind, Occurrence};
use super::super::queue::{Outcome, Target, Urgency};
use super::State;
use crate::request::RequestError;

/// Why the API server does not show a phase that was written.
const NO_PLACE_FOR_PHASES: &str = "the API server left the phase out, since the definition podgroups.scheduling.volcano.sh has a status \
                                   subresource, which Volcano's own has not: apply Volcano's, or Cardgate's of this version";

/// After this time, an event that could not be written is given up.
const OLD: SignedDuration = SignedDuration::from_hours(1);

/// Whether the API server refuses what is written, and would refuse it again until the policy that refuses it changes.
fn is_refusal(error: &RequestError) -> bool {
    matches!(error.code(), Some(400 | 403 | 422)) && !error.is_about_requester()
}

impl State {
    /// Takes in the end of a write of a pod's condition. The event is only written after the condition, so that no event is written about a
    /// pod that turns out to be gone.
    pub(super) fn end_condition(&mut self, pod: &PodRef, result: &Result<(), RequestError>, now: Instant) {
        let uid = &pod.uid;
        let (condition, event) = (Target::Condition(Arc::clone(uid)), Target::PodEvent(Arc::clone(uid)));
        match result {
            Ok(()) => {
                self.queue.done(&condition, Outcome::Settled, 1, now);
                if self.queue.is_pending(&condition) {
                    return;
                }
                self.messages.condition_written(uid);
                if self.messages.pod_event(uid).is_some() {
                    self.queue.offer(&event, Urgency::Event, now, now);
                }
            }
            Err(error) if error.is_gone() => {
                tracing::debug!(%pod, %error, "the condition of a pod is of no use any more");
                self.messages.forget_pod(uid);
                self.queue.done(&condition, Outcome::Settled, 1, now);
                self.queue.withdraw(&condition);
                self.queue.withdraw(&event);
            }
            // Meanwhile the event says what the condition would have said.
            Err(error) if is_refusal(error) => {
                tracing::warn!(%pod, %error, "the API server does not take the condition of a pod");
                self.queue.done(&condition, Outcome::Refused, 1, now);
                if self.messages.pod_event(uid).is_some() {
                    self.queue.offer(&event, Urgency::Event, now, now);
                }
            }
            Err(error) => {
                tracing::warn!(%pod, %error, "can't write the condition of a pod, trying again later");
                self.queue.done(&condition, Outcome::Failed, 1, now);
            }
        }
    }

    pub(super) fn end_group(&mut self, group: &WorkloadRef, result: &Result<bool, RequestError>, now: Instant) {
        let problem = match result {
            Ok(true) => None,
            Ok(false) => Some(NO_PLACE_FOR_PHASES.to_owned()),
            Err(error) if error.is_gone() => {
                tracing::debug!(%group, %error, "the status of a group is of no use any more");
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let outcome = if let Some(problem) = problem {
            let is_refused = result.as_ref().err().is_none_or(is_refusal);
            let is_news = !is_refused || self.messages.tell_of_group(&group.uid);
            if is_news {
                tracing::warn!(%group, problem, "can't write how far a group is, trying again later");
            } else {
                tracing::debug!(%group, problem, "how far a group is is still refused");
            }
            // An event tells, once, those who wait for the phase that it will not come.
            if is_refused && is_news {
                let event = Report::Event {
                    regarding: Box::new(group.reference()),
                    kind: EventKind::Warning,
                    reason: Happening::PhaseNotWritten.into(),
                    message: format!(
                        "how far the group is can't be written, and is tried again, later each time: {problem}"
                    ),
                };
                self.take_in(event, now, clock::now());
            }
            if is_refused { Outcome::Refused } else { Outcome::Failed }
        } else {
            Outcome::Settled
        };
        let target = Target::Group(Arc::clone(&group.uid));
        self.queue.done(&target, outcome, 1, now);
        if !self.queue.is_pending(&target) {
            self.messages.group_written(&group.uid);
        }
    }

    pub(super) fn end_event(
        &mut self,
        target: &Target,
        occurrence: &Occurrence,
        written: Written<Option<(String, i32)>>,
        now: Instant,
        time: Timestamp,
    ) {
        if let Some((name, count)) = written.left {
            self.series.remember(occurrence, name, count, now);
        }
        let (reason, regarding) = (&occurrence.reason, occurrence.regarding.name.as_deref());
        let outcome = match &written.error {
            None => Outcome::Settled,
            Some(error) if matches!(error.code(), Some(400 | 404 | 422)) => {
                tracing::warn!(reason = reason.as_str(), regarding, %error, "the API server does not take an event");
                Outcome::Settled
            }
            // API servers keep events for an hour, unless they are told otherwise.
            Some(error) if time.duration_since(occurrence.time) >= OLD => {
                tracing::warn!(reason = reason.as_str(), regarding, %error, "an event is given up, since it is old");
                Outcome::Settled
            }
            Some(error) if is_refusal(error) => {
                if self.queue.has_failed(target) {
                    tracing::debug!(reason = reason.as_str(), regarding, %error, "an event is still refused");
                } else {
                    tracing::warn!(reason = reason.as_str(), regarding, %error, "an event is refused, trying again later");
                }
                Outcome::Refused
            }
            Some(error) => {
                tracing::warn!(reason = reason.as_str(), regarding, %error, "can't write an event, trying again later");
                Outcome::Failed
            }
        };
        self.queue.done(target, outcome, written.requests, now);
        if self.queue.is_pending(target) {
            return;
        }
        match target {
            Target::PodEvent(uid) => self.messages.pod_event_written(uid),
            Target::Event(key) => self.messages.other_event_written(key),
            _ => {}
        }
    }
}
