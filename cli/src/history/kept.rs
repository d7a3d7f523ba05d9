//! What objects and events say about the past.

use std::collections::{BTreeMap, BTreeSet};

use crds::card_assigned::says_none;
use crds::keys::{
    ADMITTED_CONDITION, CARD_ASSIGNED, CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA, GATE, QUEUE_LABEL, QUEUE_NAME,
};
use crds::volcano::Queue;
use engine::decide::SENT_BACK;
use engine::happening::Happening;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{Entry, Source, What};
use crate::print::cut;

/// The annotations in which a queue says what it may have.
const ANNOTATIONS: [&str; 3] = [CARD_QUOTA, CARD_DESERVED, CARD_GUARANTEE];
/// The fields of its spec that say so.
const FIELDS: [&str; 6] = [
    "capability",
    "deserved",
    "guarantee",
    "parent",
    "priority",
    "reclaimable",
];
/// How messages about evictions begin, and what follows the name of the pod that the eviction was for.
const EVICTED_FOR: (&str, &str) = ("evicted for ", ", which ");

/// Returns when an event last happened.
pub fn time_of(event: &Event) -> Option<Timestamp> {
    let of_series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let time = of_series.or(event.event_time.as_ref()).map(|time| time.0);
    time.or_else(|| event.last_timestamp.as_ref().map(|time| time.0))
}

/// Returns what the operator's events say about the past, except what these pods themselves show.
pub fn of_events(events: &[Event], pods: &[Pod]) -> Vec<Entry> {
    let let_in: BTreeSet<_> = pods
        .iter()
        .filter(|pod| of_pod(pod).is_some())
        .filter_map(|pod| pod.metadata.uid.clone())
        .collect();
    let uid = |event: &Event| event.involved_object.uid.clone();
    // An eviction that was accepted may have had no effect, and a later try of it be refused: then the pod was not evicted. An
    // event of another namespace says nothing of the pod: its users may have written it.
    let subject = |event: &Event| (event.metadata.namespace.clone(), uid(event));
    let mut refused = BTreeMap::new();
    for event in events {
        if event.reason.as_deref() == Some(Happening::EvictionRefused.as_str()) {
            let last = refused.entry(subject(event)).or_insert(None);
            *last = time_of(event).max(*last);
        }
    }
    let is_known = |event: &Event, entry: &Entry| match entry.what {
        What::Admitted => uid(event).is_some_and(|uid| let_in.contains(&uid)),
        What::Evicted => refused
            .get(&subject(event))
            .is_some_and(|last| *last >= Some(entry.time)),
        What::Queue | What::Enqueued => false,
    };
    events
        .iter()
        .filter_map(|event| of_event(event).filter(|entry| !is_known(event, entry)))
        .collect()
}

/// Returns what one of the operator's events says; `None` if it says why something waits.
fn of_event(event: &Event) -> Option<Entry> {
    let message = event.message.as_deref().unwrap_or_default();
    let reason = event.reason.as_deref()?;
    let (what, by) = match Happening::ALL.into_iter().find(|known| known.as_str() == reason)? {
        Happening::Admitted => (What::Admitted, None),
        Happening::ResourceClaimChanged | Happening::ReservationTimeout if message.contains(SENT_BACK) => {
            (What::Evicted, None)
        }
        Happening::Reclaimed | Happening::Preempted => {
            let rest = message.strip_prefix(EVICTED_FOR.0);
            let whom = rest
                .and_then(|rest| rest.split_once(EVICTED_FOR.1))
                .map(|(whom, _)| cut(whom).into_owned());
            (What::Evicted, whom)
        }
        Happening::Enqueued => (What::Enqueued, None),
        _ => return None,
    };
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default().to_lowercase();
    Some(Entry {
        time: time_of(event)?,
        what,
        namespace: event.metadata.namespace.clone(),
        name: cut(&format!("{kind}/{}", about.name.as_deref().unwrap_or_default())).into_owned(),
        by,
        details: cut(message).into_owned(),
        source: Source::Event,
    })
}

/// Returns the queue that a pod names or was given.
pub fn queue_of(pod: &Pod) -> Option<String> {
    let named = pod
        .annotations()
        .get(QUEUE_NAME)
        .or_else(|| pod.labels().get(QUEUE_LABEL));
    named.cloned()
}

/// Returns when a pod was let in, and with which card. Only the operator writes the card, or clears the condition that the
/// pod waits.
pub fn of_pod(pod: &Pod) -> Option<Entry> {
    let gates = pod.spec.as_ref()?.scheduling_gates.iter().flatten();
    if gates.into_iter().any(|gate| gate.name == GATE) {
        return None;
    }
    let has_assigned = |entry: &&ManagedFieldsEntry| owns(entry, &["metadata", "annotations", CARD_ASSIGNED]);
    let managed = pod.managed_fields().iter().find(has_assigned);
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let admitted = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == ADMITTED_CONDITION && condition.status == "True");
    let of_condition = admitted.and_then(|condition| condition.last_transition_time.as_ref());
    let time = managed.and_then(|entry| entry.time.as_ref()).or(of_condition)?;
    let queue = queue_of(pod).map(|queue| format!("by queue {queue}"));
    let card = pod.annotations().get(CARD_ASSIGNED).filter(|card| !says_none(card));
    let card = card.map(|card| format!("with {card}"));
    let parts: Vec<_> = [Some("let in".to_owned()), queue, card].into_iter().flatten().collect();
    Some(Entry {
        time: time.0,
        what: What::Admitted,
        namespace: pod.namespace(),
        name: format!("pod/{}", pod.name_any()),
        by: None,
        details: parts.join(" "),
        source: Source::Object,
    })
}

/// Returns which programs wrote what a queue may have, and when each did so last.
pub fn of_queue(queue: &Queue) -> Vec<Entry> {
    let created = queue.creation_timestamp().map(|time| time.0);
    let of_entry = |entry: &ManagedFieldsEntry| {
        let annotations = ANNOTATIONS
            .iter()
            .filter(|key| owns(entry, &["metadata", "annotations", key]));
        let fields = FIELDS.iter().filter(|field| owns(entry, &["spec", field]));
        let annotations = annotations.map(|key| (*key).to_owned());
        let changed: Vec<_> = annotations.chain(fields.map(|field| format!("spec.{field}"))).collect();
        let time = entry.time.as_ref()?.0;
        if changed.is_empty() {
            return None;
        }
        // The API server takes the two times one after the other, in whole seconds.
        let is_first = created.is_some_and(|created| (0..=1).contains(&created.duration_since(time).as_secs()));
        let verb = if is_first { "created with" } else { "has written" };
        Some(Entry {
            time,
            what: What::Queue,
            namespace: None,
            name: format!("queue/{}", queue.name_any()),
            by: entry.manager.clone(),
            details: format!("{verb} {}", changed.join(", ")),
            source: Source::Object,
        })
    };
    queue.managed_fields().iter().filter_map(of_entry).collect()
}

/// Whether a program owns a field, or parts of it.
fn owns(entry: &ManagedFieldsEntry, path: &[&str]) -> bool {
    let mut fields: Option<&Value> = entry.fields_v1.as_ref().map(|fields| &fields.0);
    for name in path {
        fields = fields.and_then(|fields| fields.get(format!("f:{name}")));
    }
    fields.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(reason: &str, message: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": { "name": "e", "namespace": "research" },
            "involvedObject": { "kind": "Pod", "name": "victim" },
            "reason": reason, "message": message, "eventTime": "2026-01-02T03:04:05.000006Z",
        }))
        .unwrap()
    }

    #[test]
    fn an_eviction_says_for_whom() {
        let message = "evicted for a pod of queue team-b, which asks 3 NVIDIA-A100; of NVIDIA-A100, queue team-b has 0";
        let entry = of_event(&event("Reclaimed", message)).unwrap();
        assert_eq!((entry.what, &*entry.name), (What::Evicted, "pod/victim"));
        assert_eq!(entry.by.as_deref(), Some("a pod of queue team-b"));
        assert_eq!(entry.time.to_string(), "2026-01-02T03:04:05.000006Z");
        assert_eq!(of_event(&event("Preempted", "strange")).unwrap().by, None);
        assert_eq!(of_event(&event("InsufficientScalarQuota", message)), None);
    }

    /// Pods that were let in and are gone, and pods that were evicted, except those whose eviction the API server refused.
    #[test]
    fn events_tell_what_no_object_does() {
        let about = |uid: &str, reason: &str, message: &str| {
            let mut event = event(reason, message);
            event.involved_object.uid = Some(uid.to_owned());
            event
        };
        let pod = |uid: &str| {
            let object = json!({
                "metadata": { "name": uid, "uid": uid, "namespace": "research" },
                "spec": { "containers": [] },
                "status": { "conditions": [
                    { "type": ADMITTED_CONDITION, "status": "True", "lastTransitionTime": "2026-01-02T04:00:00Z" },
                ] },
            });
            serde_json::from_value::<Pod>(object).unwrap()
        };
        let sent_back =
            format!("the scheduler has not placed the pod within 5m of its admission: {SENT_BACK}, and so on");
        let mut forged = about("greedy", "EvictionRefused", "the pod may not be evicted");
        forged.metadata.namespace = Some("another".to_owned());
        let events = [
            forged,
            about("gone", "Admitted", "let in by queue a with A100"),
            about("there", "Admitted", "let in by queue a with A100"),
            about("late", "ReservationTimeout", &sent_back),
            about(
                "aside",
                "ReservationTimeout",
                "the scheduler did not place earlier pods",
            ),
            about("greedy", "ResourceClaimChanged", &sent_back),
            about("kept", "ReservationTimeout", &sent_back),
            about("kept", "EvictionRefused", "the pod may not be evicted"),
        ];
        let told = of_events(&events, &[pod("there")]);
        let told: Vec<_> = told.iter().map(|entry| (entry.what, &*entry.details)).collect();
        let evicted = (What::Evicted, &*sent_back);
        assert_eq!(
            told,
            [(What::Admitted, "let in by queue a with A100"), evicted, evicted]
        );
    }

    /// Whoever may write events writes any text, and pages and tables hold many of them.
    #[test]
    fn of_long_texts_the_beginning_is_kept() {
        let event = json!({
            "metadata": { "name": "e" }, "reason": Happening::Preempted.as_str(), "lastTimestamp": "2026-01-02T03:04:05Z",
            "message": format!("{}{}{}", EVICTED_FOR.0, "x".repeat(100_000), EVICTED_FOR.1),
            "involvedObject": { "kind": "Pod", "name": "y".repeat(100_000) },
        });
        let entry = of_event(&serde_json::from_value(event).unwrap()).unwrap();
        for text in [Some(&entry.name), entry.by.as_ref(), Some(&entry.details)] {
            assert!(text.unwrap().len() < 2000, "{text:?}");
        }
    }

    #[test]
    fn an_admission_is_told_by_what_the_operator_wrote() {
        let pod = |gate: &str, fields: Value, condition: &str| {
            let object = json!({
                "metadata": {
                    "name": "p", "namespace": "n", "annotations": { QUEUE_NAME: "team-a", CARD_ASSIGNED: "A100" },
                    "managedFields": [{ "time": "2026-01-02T03:04:05Z", "fieldsV1": fields }],
                },
                "spec": { "containers": [], "schedulingGates": [{ "name": gate }] },
                "status": { "conditions": [
                    { "type": ADMITTED_CONDITION, "status": condition, "lastTransitionTime": "2026-01-02T04:00:00Z" },
                ] },
            });
            of_pod(&serde_json::from_value(object).unwrap())
        };
        let fields = || json!({ "f:metadata": { "f:annotations": { format!("f:{CARD_ASSIGNED}"): {} } } });
        let entry = pod("other", fields(), "False").unwrap();
        assert_eq!(entry.time.to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(entry.details, "let in by queue team-a with A100");
        let entry = pod("other", json!({}), "True").unwrap();
        assert_eq!(entry.time.to_string(), "2026-01-02T04:00:00Z");
        assert_eq!(pod("other", json!({}), "False"), None);
        assert_eq!(pod(GATE, fields(), "True"), None);
    }

    #[test]
    fn a_queue_tells_which_program_wrote_its_quota() {
        let managed =
            |manager: &str, time: &str, fields: Value| json!({ "manager": manager, "time": time, "fieldsV1": fields });
        let quota = json!({ "f:metadata": { "f:annotations": { format!("f:{CARD_QUOTA}"): {} } } });
        let both =
            json!({ "f:spec": { "f:capability": { "f:cpu": {} } }, "f:metadata": { "f:labels": { "f:a": {} } } });
        let object = json!({
            "metadata": {
                "name": "team-a", "creationTimestamp": "2026-01-02T03:04:05Z",
                "managedFields": [
                    managed("kubectl-create", "2026-01-02T03:04:05Z", both.clone()),
                    managed("a-second-before", "2026-01-02T03:04:04Z", both),
                    managed("kubectl-annotate", "2026-01-03T00:00:00Z", quota),
                    managed("labeller", "2026-01-04T00:00:00Z", json!({ "f:metadata": { "f:labels": { "f:a": {} } } })),
                ],
            },
            "spec": {},
        });
        let entries = of_queue(&serde_json::from_value(object).unwrap());
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry.by.as_deref().unwrap(), &*entry.details))
            .collect();
        let expected = [
            ("kubectl-create", "created with spec.capability"),
            ("a-second-before", "created with spec.capability"),
            ("kubectl-annotate", "has written volcano.sh/card.quota"),
        ];
        assert_eq!(told, expected);
    }
}
