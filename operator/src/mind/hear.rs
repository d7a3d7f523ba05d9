//! What the mind hears: each event changes the picture, unless it is about an object in quarantine.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Resumption;
use engine::explain::refused_write;
use engine::happening::Happening;
use engine::refs::PodRef;
use engine::trail::{Object, ObjectKind, Trail as _, Work};
use engine::{Answer, Observation, Outcome};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;

use super::Mind;
use super::quarantine::{Heard, Said};
use crate::event::Event;
use crate::metrics::Decision;
use crate::report::{EventKind, PodReport, Report};

impl Mind {
    /// Takes in what has happened.
    pub(super) fn hear_all(&mut self, events: &mut Vec<Event>, now: Timestamp) {
        for event in events.drain(..) {
            self.pulse.over();
            self.hear(event, now);
        }
        self.pulse.over();
        self.cluster.read_again(now);
        if self.cluster.take_pods_wanted() {
            self.pods_wanted.notify_one();
        }
    }

    /// Says that an object is in quarantine.
    fn say_quarantined(&self, said: Said) {
        let Said { object, waits, message } = said;
        tracing::warn!(%object, uid = &*object.uid, message, "set aside");
        if waits {
            let condition = PodReport {
                status: false,
                same_status: false,
                reason: Happening::SetAside.into(),
                message,
            };
            let pod = PodRef {
                namespace: object.namespace,
                name: object.name,
                uid: object.uid,
            };
            self.reports.send(Report::Pod {
                pod,
                condition,
                event: true,
            });
            return;
        }
        self.reports.send(Report::Event {
            regarding: Box::new(reference(&object)),
            kind: EventKind::Warning,
            reason: Happening::SetAside.into(),
            message,
        });
    }

    fn hear(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Observed(observation) => self.observe(observation, now),
            Event::Configuration(configuration, in_force) => {
                self.cluster.apply(Observation::Configuration(configuration), now);
                self.reconfigured = true;
                // The caller may have gone; the configuration is in force all the same.
                let _ = in_force.send(());
            }
            Event::NodeLabelled { node, uid, writer } => {
                if let Entry::Occupied(labelling) = self.labelling.entry((node, uid))
                    && labelling.get().1.id() == writer
                {
                    labelling.remove();
                }
            }
            Event::NodeNotLabelled { node, uid, why } => {
                let message = format!(
                    "the node's label can't be written: {why}; until it is, pods without GPU may come here, and pods that name cards may not: \
                     have whoever refuses it let the operator write labels of nodes. It is tried again in ten minutes"
                );
                self.say_of_node(&node, &uid, Happening::NodeNotLabelled, message);
            }
            Event::Outcome(outcome) => {
                self.under_way -= 1;
                self.hear_outcome(&outcome, now);
            }
            Event::FoundOut(outcome) => self.hear_outcome(&outcome, now),
            Event::Resumed(Resumption { job, queue }) => self.reports.send(Report::Event {
                regarding: Box::new(job.reference()),
                kind: EventKind::Normal,
                reason: Happening::Enqueued.into(),
                message: format!("let into queue {queue}: its pods may be made"),
            }),
            Event::SentBack(pod, reason, message) => {
                self.metrics.decided(Decision::SentBack);
                self.say(&pod, reason, message);
                let outcome = Outcome::Eviction(pod.uid, EvictionOutcome::Evicted);
                self.cluster.outcome(&outcome, now);
            }
            Event::NotSentBack(pod, why) => {
                let message =
                    format!("the pod may not be evicted: {why}; it keeps its quota, and that is tried again later");
                self.say(&pod, Happening::EvictionRefused, message);
                // This is the outcome of an allowed eviction that has no effect: each further try comes after twice as long a time.
                let outcome = Outcome::Eviction(Arc::clone(&pod.uid), EvictionOutcome::Evicted);
                self.cluster.outcome(&outcome, now);
            }
            Event::Evictions(eviction, outcomes) => {
                self.evictions_under_way -= 1;
                for (victim, outcome) in eviction.victims.iter().zip(&outcomes) {
                    let outcome = Outcome::Eviction(Arc::clone(&victim.pod.uid), *outcome);
                    self.cluster.outcome(&outcome, now);
                }
                self.tell_victims(*eviction, &outcomes);
            }
        }
    }

    /// Takes in the outcome of a decision, and tells a pod that the API server has not let it in.
    fn hear_outcome(&mut self, outcome: &Outcome, now: Timestamp) {
        self.cluster.outcome(outcome, now);
        if let Outcome::Admission(uid, Answer::Refused(message) | Answer::Failed(message)) = outcome
            && let Some(notice) = refused_write(&mut self.cluster, uid, message)
        {
            self.tell(notice);
        }
    }

    /// Takes in an observation, unless it is about an object in quarantine.
    fn observe(&mut self, observation: Observation, now: Timestamp) {
        let observation = match self.quarantine.hear(observation) {
            Heard::AsItIs(observation) => observation,
            Heard::Instead(observation, said) => {
                if let Some(said) = said {
                    self.say_quarantined(said);
                }
                observation
            }
        };
        if let Some(object) = observation.object() {
            self.pulse.at(Work {
                doing: "reading",
                object,
                queue: None,
            });
        }
        if let Observation::ListEnds(kind) | Observation::NotInstalled(kind) = observation
            && self.unlisted.remove(&kind)
        {
            self.readiness.arrived(kind.plural());
        }
        self.cluster.apply_one_of_many(observation, now);
    }
}

/// Returns a reference to an object, for events.
fn reference(object: &Object) -> ObjectReference {
    let api_version = match object.kind {
        ObjectKind::Pod | ObjectKind::Node | ObjectKind::Namespace => "v1",
        ObjectKind::Queue | ObjectKind::PodGroup => "scheduling.volcano.sh/v1beta1",
        ObjectKind::Job => "batch/v1",
        ObjectKind::ResourceSlice
        | ObjectKind::DeviceClass
        | ObjectKind::DeviceTaintRule
        | ObjectKind::ResourceClaim => "resource.k8s.io/v1",
    };
    let said = |text: &Arc<str>| (!text.is_empty()).then(|| text.to_string());
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(object.kind.as_str().to_owned()),
        namespace: said(&object.namespace),
        name: said(&object.name),
        uid: said(&object.uid),
        ..ObjectReference::default()
    }
}
