//! What follows when a write has ended: it is done, no longer needed, or tried again.

use std::sync::Arc;

use engine::happening::Happening;
use engine::refs::{PodRef, WorkloadRef};
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
            // The condition would be refused again until the policy that refuses it changes. Meanwhile the event says what the condition
            // would have said.
            Err(error) if matches!(error.code(), Some(400 | 403 | 422)) && !error.is_about_requester() => {
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
            tracing::warn!(%group, problem, "can't write how far a group is, trying again later");
            let refused =
                |error: &RequestError| matches!(error.code(), Some(400 | 403 | 422)) && !error.is_about_requester();
            // An event tells, once, those who wait for the phase that it will not come.
            if result.as_ref().err().is_none_or(refused) && self.messages.tell_of_group(&group.uid) {
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
            Outcome::Failed
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
