//! Messages about pods and other objects that are not written yet.

use std::collections::HashMap;
use std::sync::Arc;

use crds::keys::ADMITTED_CONDITION;
use engine::cluster::workload::Phase;
use engine::happening::Cause;
use engine::reason::Reason;
use engine::refs::{PodRef, WorkloadRef};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::PodReport;
use super::event::{EventKind, Occurrence};
use super::unwritten::Unwritten;

/// The action in events about pods.
const ADMIT: &str = "Admit";
/// The action in events about any other object.
const OBSERVE: &str = "Observe";

/// The messages that are not written yet. Of each pod only the newest report is kept, of other objects the newest occurrence per reason.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pods: HashMap<Arc<str>, PodMessage>,
    groups: HashMap<Arc<str>, GroupMessage>,
    events: Unwritten,
    last_time: Timestamp,
}

#[derive(Debug)]
struct PodMessage {
    pod: PodRef,
    report: PodReport,
    time: Timestamp,
    condition_unwritten: bool,
    event_unwritten: bool,
}

#[derive(Debug)]
struct GroupMessage {
    group: WorkloadRef,
    patch: Value,
    /// Whether an event has told that this status is refused.
    told: bool,
}

impl Messages {
    /// Takes a report about the state of a pod.
    pub(super) fn pod(&mut self, pod: PodRef, report: PodReport, event: bool, now: Timestamp) {
        let time = self.unique(now);
        let event_before = self.pods.get(&pod.uid).is_some_and(|message| message.event_unwritten);
        let message = PodMessage {
            report,
            time,
            condition_unwritten: true,
            event_unwritten: event || event_before,
            pod,
        };
        self.pods.insert(Arc::clone(&message.pod.uid), message);
    }

    /// Takes a report about the phase of a group.
    pub(super) fn group(
        &mut self,
        group: WorkloadRef,
        phase: Phase,
        refused: Option<(Reason, String)>,
        now: Timestamp,
    ) {
        let patch = group_patch(&group, phase, refused, now);
        let told = self.groups.get(&group.uid).is_some_and(|before| before.told);
        let message = GroupMessage { group, patch, told };
        self.groups.insert(Arc::clone(&message.group.uid), message);
    }

    /// Returns the patch of a group's status, if it is unwritten.
    pub(super) fn group_status(&self, uid: &str) -> Option<(WorkloadRef, Value)> {
        let message = self.groups.get(uid)?;
        Some((message.group.clone(), message.patch.clone()))
    }

    /// Whether a group still has to be told that its status is refused. From now on, it counts as told.
    pub(super) fn tell_of_group(&mut self, uid: &str) -> bool {
        let message = self.groups.get_mut(uid);
        message.is_none_or(|message| !std::mem::replace(&mut message.told, true))
    }

    /// Notes that a group's status is written.
    pub(super) fn group_written(&mut self, uid: &str) {
        self.groups.remove(uid);
    }

    /// Forgets the unwritten messages about a pod.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// Takes an event that is not about the admission of a pod. Returns its key, and the key of an event that is given up because there are
    /// too many.
    pub(super) fn event(
        &mut self,
        regarding: ObjectReference,
        kind: EventKind,
        reason: Cause,
        message: String,
        now: Timestamp,
    ) -> (Arc<str>, Option<Arc<str>>) {
        let time = self.unique(now);
        self.events.take(Occurrence {
            regarding,
            kind,
            action: OBSERVE,
            reason,
            message,
            time,
        })
    }

    /// Returns the namespace of a pod that has unwritten messages.
    pub(super) fn namespace_of_pod(&self, uid: &str) -> Option<&Arc<str>> {
        self.pods.get(uid).map(|message| &message.pod.namespace)
    }

    /// Returns the namespace of a group whose status is unwritten.
    pub(super) fn namespace_of_group(&self, uid: &str) -> Option<&Arc<str>> {
        self.groups.get(uid).map(|message| &message.group.namespace)
    }

    /// Returns the patch of a pod's condition, if it is unwritten.
    pub(super) fn condition(&self, uid: &str, now: Timestamp) -> Option<(PodRef, Value)> {
        let message = self.pods.get(uid).filter(|message| message.condition_unwritten)?;
        Some((message.pod.clone(), condition_patch(&message.pod, &message.report, now)))
    }

    /// Returns the event about a pod, if it is unwritten.
    pub(super) fn pod_event(&self, uid: &str) -> Option<Occurrence> {
        let message = self.pods.get(uid).filter(|message| message.event_unwritten)?;
        Some(Occurrence {
            regarding: message.pod.reference(),
            kind: if message.report.status {
                EventKind::Normal
            } else {
                EventKind::Warning
            },
            action: ADMIT,
            reason: message.report.reason,
            message: message.report.message.clone(),
            time: message.time,
        })
    }

    /// Returns the event with this key, if it is unwritten.
    pub(super) fn other_event(&self, key: &str) -> Option<&Occurrence> {
        self.events.get(key)
    }

    /// Notes that a pod's condition is written.
    pub(super) fn condition_written(&mut self, uid: &str) {
        self.settle_pod(uid, |message| message.condition_unwritten = false);
    }

    /// Notes that the event about a pod is written.
    pub(super) fn pod_event_written(&mut self, uid: &str) {
        self.settle_pod(uid, |message| message.event_unwritten = false);
    }

    /// Notes that an event is written.
    pub(super) fn other_event_written(&mut self, key: &str) {
        self.events.remove(key);
    }

    fn settle_pod(&mut self, uid: &str, settle: impl Fn(&mut PodMessage)) {
        if let Some(message) = self.pods.get_mut(uid) {
            settle(message);
            if !message.condition_unwritten && !message.event_unwritten {
                self.pods.remove(uid);
            }
        }
    }

    /// Returns a time close to `now` that no other message has.
    fn unique(&mut self, now: Timestamp) -> Timestamp {
        let next = self
            .last_time
            .saturating_add(SignedDuration::from_nanos(1))
            .unwrap_or(now);
        self.last_time = now.max(next);
        self.last_time
    }
}

/// Returns a strategic merge patch of a pod's conditions. It merges conditions by type, so conditions of other types stay. Within the
/// condition, fields that the patch does not name stay, so the transition time stays while the status does.
fn condition_patch(pod: &PodRef, report: &PodReport, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": ADMITTED_CONDITION,
        "status": if report.status { "True" } else { "False" },
        "reason": report.reason.as_str(),
        "message": report.message,
    });
    if !report.same_status {
        condition["lastTransitionTime"] = json!(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    }
    json!({ "metadata": { "uid": &*pod.uid }, "status": { "conditions": [condition] } })
}

/// Returns a merge patch of a group's status. It replaces the list of conditions: where Cardgate writes a group's phase, nobody else does.
/// Type and meaning of the condition are Volcano's.
fn group_patch(group: &WorkloadRef, phase: Phase, refused: Option<(Reason, String)>, now: Timestamp) -> Value {
    let (kind, status, reason, message) = match (refused, phase) {
        (Some((reason, message)), _) => ("Unschedulable", "True", reason.as_str(), message),
        (None, Phase::Running) => (
            "Scheduled",
            "True",
            "Running",
            "enough of its pods have come to their nodes".to_owned(),
        ),
        (None, Phase::Inqueue) => ("Unschedulable", "False", "Inqueue", "it is in its queue".to_owned()),
        (None, Phase::Pending) => (
            "Unschedulable",
            "True",
            "Pending",
            "it waits for its pods, or they say in their conditions what they wait for".to_owned(),
        ),
    };
    let condition = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
    });
    json!({
        "metadata": { "uid": &*group.uid },
        "status": { "phase": phase.as_str(), "conditions": [condition] },
    })
}

#[cfg(test)]
mod tests {
    use engine::happening::Happening;

    use super::*;

    fn pod() -> PodRef {
        PodRef {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
        }
    }

    fn report(message: &str) -> PodReport {
        PodReport {
            status: false,
            same_status: false,
            reason: Reason::InsufficientScalarQuota.into(),
            message: message.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_newest_report_replaces_an_unwritten_one_and_its_event_is_still_due() {
        let mut messages = Messages::default();
        messages.pod(pod(), report("old"), true, at(1));
        messages.pod(pod(), report("new"), false, at(2));
        let (_, patch) = messages.condition("u", at(3)).unwrap();
        let expected = json!({
            "metadata": { "uid": "u" },
            "status": { "conditions": [{
                "type": "card.volcano.sh/Admitted",
                "status": "False",
                "reason": "InsufficientScalarQuota",
                "message": "new",
                "lastTransitionTime": "1970-01-01T00:00:03Z",
            }] },
        });
        assert_eq!(patch, expected);
        assert_eq!(messages.pod_event("u").unwrap().message, "new");

        messages.condition_written("u");
        assert!(messages.condition("u", at(3)).is_none());
        assert!(messages.pod_event("u").is_some());
        messages.pod_event_written("u");
        assert!(messages.pods.is_empty());
    }

    #[test]
    fn the_transition_time_stays_while_the_status_does() {
        let mut messages = Messages::default();
        messages.pod(
            pod(),
            PodReport {
                same_status: true,
                ..report("m")
            },
            false,
            at(1),
        );
        let (_, patch) = messages.condition("u", at(3)).unwrap();
        assert_eq!(patch["status"]["conditions"][0].get("lastTransitionTime"), None);
        assert!(messages.pod_event("u").is_none());
    }

    #[test]
    fn events_are_named_by_different_times() {
        let mut messages = Messages::default();
        let mut event = |reason: Happening| {
            let (key, _) = messages.event(
                ObjectReference::default(),
                EventKind::Normal,
                reason.into(),
                String::new(),
                at(1),
            );
            messages.other_event(&key).unwrap().event("i").metadata.name.unwrap()
        };
        assert_ne!(event(Happening::Enqueued), event(Happening::PhaseNotWritten));
    }
}
