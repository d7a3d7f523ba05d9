//! What the mind hears: each event changes the picture, unless it is about something that is set aside.

use std::sync::Arc;

use crds::keys::QUEUE_NAME;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;

use super::Mind;
use super::aside::{Heard, SET_ASIDE, Said};
use crate::cluster::queue::Terms;
use crate::event::{Event, Outcome};
use crate::pod_ref::PodRef;
use crate::pulse::{Object, ObjectKind, Trail as _, Work};
use crate::report::{EventKind, PodReport, Report};

impl Mind {
    /// Takes in what has happened.
    pub(super) fn hear_all(&mut self, events: &mut Vec<Event>, now: Timestamp) {
        for event in events.drain(..) {
            let event = match self.aside.hear(event) {
                Heard::AsItIs(event) => event,
                Heard::Aside(event, said) => {
                    if let Some(said) = said {
                        self.say_aside(said);
                    }
                    let Some(event) = event else { continue };
                    event
                }
            };
            match event.object() {
                Some(object) => self.pulse.at(Work {
                    doing: "reading",
                    object,
                    queue: None,
                }),
                None => self.pulse.over(),
            }
            self.hear(event, now);
        }
    }

    /// Says of an object that it is set aside.
    fn say_aside(&self, said: Said) {
        let Said { object, waits, message } = said;
        tracing::warn!(%object, uid = &*object.uid, message, "set aside");
        self.show_aside();
        if waits {
            let condition = PodReport {
                status: false,
                same_status: false,
                reason: SET_ASIDE,
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
            reason: SET_ASIDE.to_owned(),
            message,
        });
    }

    /// Shows how much is set aside.
    pub(super) fn show_aside(&self) {
        for kind in ObjectKind::ALL {
            let namespaces = if kind == ObjectKind::Namespace {
                self.aside.namespaces()
            } else {
                0
            };
            self.metrics
                .set_aside(kind.as_str(), self.aside.count(kind) + namespaces);
        }
    }

    fn hear(&mut self, event: Event, now: Timestamp) {
        let cluster = &mut self.cluster;
        match event {
            Event::ListBegins(kind) => cluster.begin_list(kind),
            Event::ListEnds(kind) | Event::NotInstalled(kind) => {
                if matches!(event, Event::ListEnds(_)) {
                    cluster.end_list(kind, now);
                } else {
                    cluster.not_installed(kind, now);
                }
                if self.unlisted.remove(&kind) {
                    self.readiness.arrived(kind.plural());
                }
            }
            Event::Pod(pod) => cluster.apply_pod(*pod, now),
            Event::PodGone(uid) => cluster.remove_pod(&uid),
            Event::SucceededPodGone(uid) => cluster.forget_succeeded(&uid),
            Event::Node(node) => cluster.apply_node(&node, now),
            Event::NodeGone(name) => cluster.remove_node(&name, now),
            Event::Queue(queue) => {
                let terms = Terms::read(&queue, &mut cluster.names);
                cluster.apply_queue(queue.metadata.name.as_deref().unwrap_or_default(), terms);
            }
            Event::QueueUnreadable { name, uid, reason } => {
                cluster.apply_queue(&name, Terms::unreadable(&uid, &reason));
            }
            Event::QueueGone(name) => cluster.remove_queue(&name),
            Event::Namespace(metadata) => {
                let name = metadata.name.clone().unwrap_or_default();
                let queue = metadata.annotations.get(QUEUE_NAME).map(ToOwned::to_owned);
                cluster.apply_namespace(&name, metadata.labels, queue.as_deref(), now);
            }
            Event::NamespaceGone(name) => cluster.remove_namespace(&name, now),
            Event::Group(group) => cluster.apply_group(&group, now),
            Event::GroupUnreadable {
                namespace,
                name,
                uid,
                reason,
            } => cluster.apply_unreadable_group(&namespace, &name, &uid, &reason, now),
            Event::GroupGone { namespace, name } => cluster.remove_group(&namespace, &name),
            Event::Job(job) => cluster.apply_job(&job, now),
            Event::JobGone { namespace, name } => cluster.remove_job(&namespace, &name),
            Event::Configuration(configuration, in_force) => {
                cluster.set_configuration(configuration, now);
                self.reconfigured = true;
                // Who asked may have gone; the configuration is in force all the same.
                let _ = in_force.send(());
            }
            Event::Resumed(uid, outcome) => {
                self.under_way -= 1;
                if outcome == Outcome::Refused {
                    cluster.refuse_resumption(&uid, now);
                }
            }
            Event::NodeLabelled(node) => {
                self.labelling.remove(&node);
            }
            Event::Outcome(uid, outcome) => {
                self.under_way -= 1;
                match outcome {
                    Outcome::Admitted => cluster.confirm(&uid),
                    Outcome::Refused => cluster.refuse(&uid, now),
                }
            }
            Event::Bound(uid, outcome) => {
                self.under_way -= 1;
                if outcome == Outcome::Refused {
                    cluster.binding_failed(&uid);
                }
            }
            Event::Evictions(eviction, outcomes) => {
                self.under_way -= 1;
                for (victim, outcome) in eviction.victims.iter().zip(&outcomes) {
                    cluster.eviction_ended(&victim.pod.uid, *outcome, now);
                }
                self.tell_victims(*eviction, &outcomes);
            }
        }
    }
}

/// An object, as events refer to it.
fn reference(object: &Object) -> ObjectReference {
    let api_version = match object.kind {
        ObjectKind::Pod | ObjectKind::Node | ObjectKind::Namespace => "v1",
        ObjectKind::Queue | ObjectKind::PodGroup => "scheduling.volcano.sh/v1beta1",
        ObjectKind::Job => "batch/v1",
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
