//! The quarantine: objects over which a mind fell (panicked) or stood still. The next mind keeps off them. Users read that such an object
//! is set aside (`SetAside`).
//!
//! An object that has changed, or that is another one by now, gets another chance. A pod that holds something is not forgotten: it counts
//! with what it requests, and nothing else that it says is read. If the pods of a namespace caused this again and again, no waiting pod of
//! that namespace is looked at until the operator is restarted. Otherwise users could make the mind fall as often as they can create pods.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::hash::Hasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crds::keys::{CARD_ASSIGNED, CARD_NAME, GATE, QUEUE_NAME};
use crds::lean::TextMap;
use crds::pod::Pod;
use engine::Observation;
use engine::happening::Happening;
use engine::trail::{Object, ObjectKind};

use crate::metrics::Stumble;

/// The largest number of objects in quarantine. Beyond it, the object that came first gets another chance.
const MOST: usize = 1000;
/// When this many pods of a namespace have come into quarantine, all other waiting pods of the namespace are kept off too.
const PODS_OF_A_NAMESPACE: usize = 3;

/// When a pod in quarantine gets another chance.
const CHANGED: &str = "it is changed";
/// When a pod of a namespace whose waiting pods are all kept off gets another chance.
const RESTARTED: &str = "the operator is started anew";

/// What to do about it.
const REPORT: &str = "That is a mistake of Cardgate's: report it to its developers, with this object";

/// What the mind keeps off. The minds of a process share it; one of them at a time is at work.
#[derive(Debug, Clone, Default)]
pub struct Quarantine(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<Key, Entry>,
    /// Namespaces whose waiting pods are not looked at.
    namespaces: BTreeSet<Arc<str>>,
    /// How many pods of each namespace came into quarantine, including pods that are gone. Otherwise a user who deletes each such pod could go on
    /// for ever.
    pods: BTreeMap<Arc<str>, usize>,
    /// The order of arrival.
    arrivals: u64,
}

/// Key of an object: a pod by its uid, since its successor may bear the same name; everything else by namespace and name.
type Key = (ObjectKind, Box<str>);

#[derive(Debug)]
struct Entry {
    object: Object,
    how: Stumble,
    arrival: u64,
    /// A hash of the object's content; none until the object is seen again.
    says: Option<u64>,
    /// Whether a mind also stumbled over the reduced form of the object.
    again: bool,
    told: bool,
}

/// What becomes of an event.
#[derive(Debug)]
pub enum Heard {
    /// The event is heard as it is.
    AsItIs(Observation),
    /// The event is about something in quarantine. The observation is heard in its place; the message is given unless it was given
    /// before.
    Instead(Observation, Option<Said>),
}

/// What is said about an object in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub object: Object,
    /// Whether the object is a waiting pod, whose condition shows the message.
    pub waits: bool,
    /// Why the object is in quarantine, and what to do.
    pub message: String,
}

/// Whether the mind keeps off an object.
enum Kept {
    /// It does, and this message is to be given now.
    Off(Option<Said>),
    Not,
}

impl Quarantine {
    /// Adds an object.
    pub fn add(&self, object: Object, how: Stumble) {
        let mut state = self.state();
        let key = key(&object);
        state.arrivals += 1;
        let arrival = state.arrivals;
        if let Some(entry) = state.entries.get_mut(&key) {
            entry.again = true;
            entry.told = false;
            return;
        }
        let (kind, namespace) = (object.kind, Arc::clone(&object.namespace));
        let entry = Entry {
            object,
            how,
            arrival,
            says: None,
            again: false,
            told: false,
        };
        state.entries.insert(key, entry);
        if state.entries.len() > MOST {
            let first = state.entries.iter().min_by_key(|(_, entry)| entry.arrival);
            let first = first.map(|(key, _)| key.clone());
            first.and_then(|key| state.entries.remove(&key));
        }
        if kind == ObjectKind::Pod {
            let pods = state.pods.entry(Arc::clone(&namespace)).or_default();
            *pods += 1;
            if *pods >= PODS_OF_A_NAMESPACE {
                state.namespaces.insert(namespace);
            }
        }
    }

    /// How many objects of a kind are in quarantine.
    pub fn count(&self, kind: ObjectKind) -> usize {
        let state = self.state();
        state.entries.keys().filter(|(of, _)| *of == kind).count()
    }

    /// Of how many namespaces no waiting pod is looked at.
    pub fn namespaces(&self) -> usize {
        self.state().namespaces.len()
    }

    /// Whether this pod, by its uid, is in quarantine.
    pub fn has_pod(&self, uid: &str) -> bool {
        let state = self.state();
        !state.entries.is_empty() && state.entries.contains_key(&(ObjectKind::Pod, uid.into()))
    }

    /// Returns what is to be heard of an event.
    pub fn hear(&self, event: Observation) -> Heard {
        let mut state = self.state();
        if state.entries.is_empty() && state.namespaces.is_empty() {
            return Heard::AsItIs(event);
        }
        match event {
            Observation::Pod(pod) => state.hear_pod(pod),
            Observation::PodGone(ref uid) | Observation::SucceededPodGone(ref uid) => {
                let key = (ObjectKind::Pod, uid.clone());
                state.entries.remove(&key);
                Heard::AsItIs(event)
            }
            Observation::Node(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                let says = hash(&(
                    &node.metadata.labels,
                    &node.metadata.annotations,
                    &node.spec,
                    &node.status,
                ));
                match state.keeps_off(&(ObjectKind::Node, path("", &name)), says) {
                    Kept::Off(said) => Heard::Instead(Observation::NodeGone(name), said),
                    Kept::Not => Heard::AsItIs(Observation::Node(node)),
                }
            }
            Observation::Queue(queue) => {
                let name: Box<str> = queue.metadata.name.as_deref().unwrap_or_default().into();
                let says = hash(&(&queue.metadata.annotations, &queue.spec));
                match state.keeps_off(&(ObjectKind::Queue, path("", &name)), says) {
                    Kept::Off(said) => {
                        let uid = queue.metadata.uid.as_deref().unwrap_or_default().into();
                        let reason = said_of("queue").into();
                        Heard::Instead(Observation::QueueUnreadable { name, uid, reason }, said)
                    }
                    Kept::Not => Heard::AsItIs(Observation::Queue(queue)),
                }
            }
            Observation::Group(group) => {
                let of = |text: &Option<Box<str>>| text.clone().unwrap_or_default();
                let (namespace, name) = (of(&group.metadata.namespace), of(&group.metadata.name));
                let says = hash(&(&group.metadata.annotations, &group.spec));
                match state.keeps_off(&(ObjectKind::PodGroup, path(&namespace, &name)), says) {
                    Kept::Off(said) => {
                        let (uid, reason) = (of(&group.metadata.uid), said_of("group").into());
                        let event = Observation::GroupUnreadable {
                            namespace,
                            name,
                            uid,
                            reason,
                        };
                        Heard::Instead(event, said)
                    }
                    Kept::Not => Heard::AsItIs(Observation::Group(group)),
                }
            }
            Observation::Job(job) => {
                let namespace = job.metadata.namespace.clone().unwrap_or_default();
                let name = job.metadata.name.clone().unwrap_or_default();
                let says = hash(&(&job.metadata.annotations, &job.metadata.labels, &job.spec));
                match state.keeps_off(&(ObjectKind::Job, path(&namespace, &name)), says) {
                    Kept::Off(said) => Heard::Instead(Observation::JobGone { namespace, name }, said),
                    Kept::Not => Heard::AsItIs(Observation::Job(job)),
                }
            }
            Observation::Namespace(metadata) => {
                let name = metadata.name.clone().unwrap_or_default();
                let says = hash(&(&metadata.annotations, &metadata.labels));
                match state.keeps_off(&(ObjectKind::Namespace, path("", &name)), says) {
                    Kept::Off(said) => Heard::Instead(Observation::NamespaceGone(name), said),
                    Kept::Not => Heard::AsItIs(Observation::Namespace(metadata)),
                }
            }
            event @ (Observation::Slice(_)
            | Observation::Class(_)
            | Observation::TaintRule(_)
            | Observation::Claim(_)) => state.hear_of_devices(event),
            event => {
                state.forget_gone(&event);
                Heard::AsItIs(event)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two assignments that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns what is to be heard of an event about devices, or of any other event whose object is never in quarantine.
    fn hear_of_devices(&mut self, event: Observation) -> Heard {
        match event {
            Observation::Slice(slice) => {
                let name = slice.metadata.name.clone().unwrap_or_default();
                match self.keeps_off(&(ObjectKind::ResourceSlice, path("", &name)), hash(&slice.spec)) {
                    Kept::Off(said) => Heard::Instead(Observation::SliceGone(name), said),
                    Kept::Not => Heard::AsItIs(Observation::Slice(slice)),
                }
            }
            Observation::Class(class) => {
                let name = class.metadata.name.clone().unwrap_or_default();
                match self.keeps_off(&(ObjectKind::DeviceClass, path("", &name)), hash(&class.spec)) {
                    Kept::Off(said) => Heard::Instead(Observation::ClassGone(name), said),
                    Kept::Not => Heard::AsItIs(Observation::Class(class)),
                }
            }
            Observation::TaintRule(rule) => {
                let name = rule.metadata.name.clone().unwrap_or_default();
                match self.keeps_off(&(ObjectKind::DeviceTaintRule, path("", &name)), hash(&rule.spec)) {
                    Kept::Off(said) => Heard::Instead(Observation::TaintRuleGone(name), said),
                    Kept::Not => Heard::AsItIs(Observation::TaintRule(rule)),
                }
            }
            Observation::Claim(claim) => {
                let namespace = claim.metadata.namespace.clone().unwrap_or_default();
                let name = claim.metadata.name.clone().unwrap_or_default();
                let says = hash(&(&claim.spec, &claim.status));
                match self.keeps_off(&(ObjectKind::ResourceClaim, path(&namespace, &name)), says) {
                    Kept::Off(said) => Heard::Instead(Observation::ClaimGone { namespace, name }, said),
                    Kept::Not => Heard::AsItIs(Observation::Claim(claim)),
                }
            }
            event => Heard::AsItIs(event),
        }
    }

    /// Whether this object is in quarantine and has the same content as then. If the content has changed, the object leaves the quarantine.
    fn keeps_off(&mut self, key: &Key, says: u64) -> Kept {
        let Some(entry) = self.entries.get_mut(key) else {
            return Kept::Not;
        };
        if *entry.says.get_or_insert(says) != says {
            self.entries.remove(key);
            return Kept::Not;
        }
        Kept::Off(entry.say(&said_of("object"), false))
    }

    fn hear_pod(&mut self, mut pod: Box<Pod<Box<str>>>) -> Heard {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let holds = !pod.spec.has_gate(GATE);
        let says = || hash(&(&pod.metadata.labels, &pod.metadata.annotations, &pod.spec));
        let key = (ObjectKind::Pod, uid.clone());
        if self.entries.contains_key(&key) {
            let says = says();
            let entry = self.entries.get_mut(&key);
            let entry = entry.and_then(|entry| (*entry.says.get_or_insert(says) == says).then_some(entry));
            let Some(entry) = entry else {
                self.entries.remove(&key);
                return self.hear_pod(pod);
            };
            if !holds {
                let said = entry.say(&waits("the operator crashed or hung over this pod", CHANGED), true);
                return Heard::Instead(Observation::PodGone(uid), said);
            }
            if entry.again {
                let said = format!(
                    "the operator crashed or hung over this pod, and over what it requests: it is set aside, and nothing that it holds is \
                     counted. Delete it when it can be spared. {REPORT}"
                );
                let said = entry.say(&said, false);
                return Heard::Instead(Observation::PodGone(uid), said);
            }
            let said = format!(
                "the operator crashed or hung over this pod: it is set aside, and counts with what it requests and nothing else that it \
                 says. Delete it when it can be spared. {REPORT}"
            );
            let said = entry.say(&said, false);
            reduce(&mut pod);
            return Heard::Instead(Observation::Pod(pod), said);
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        if holds || !self.namespaces.contains(namespace) {
            return Heard::AsItIs(Observation::Pod(pod));
        }
        let object = Object {
            kind: ObjectKind::Pod,
            namespace: namespace.into(),
            name: pod.metadata.name.as_deref().unwrap_or_default().into(),
            uid: (&*uid).into(),
        };
        let message = waits(
            "the operator crashed or hung over several pods of this namespace",
            RESTARTED,
        );
        // The message is given once for each pod; afterwards the pod's own condition says so.
        let said = (!says_so(&pod)).then_some(Said {
            object,
            waits: true,
            message,
        });
        Heard::Instead(Observation::PodGone(uid), said)
    }

    /// Forgets an object that is gone.
    fn forget_gone(&mut self, event: &Observation) {
        let key = match event {
            Observation::NodeGone(name) => (ObjectKind::Node, path("", name)),
            Observation::QueueGone(name) => (ObjectKind::Queue, path("", name)),
            Observation::NamespaceGone(name) => (ObjectKind::Namespace, path("", name)),
            Observation::GroupGone { namespace, name } => (ObjectKind::PodGroup, path(namespace, name)),
            Observation::JobGone { namespace, name } => (ObjectKind::Job, path(namespace, name)),
            Observation::SliceGone(name) => (ObjectKind::ResourceSlice, path("", name)),
            Observation::ClassGone(name) => (ObjectKind::DeviceClass, path("", name)),
            Observation::TaintRuleGone(name) => (ObjectKind::DeviceTaintRule, path("", name)),
            Observation::ClaimGone { namespace, name } => (ObjectKind::ResourceClaim, path(namespace, name)),
            _ => return,
        };
        self.entries.remove(&key);
    }
}

impl Entry {
    fn say(&mut self, message: &str, waits: bool) -> Option<Said> {
        let first = !std::mem::replace(&mut self.told, true);
        first.then(|| Said {
            object: self.object.clone(),
            waits,
            message: format!("{message} ({})", self.how.as_str()),
        })
    }
}

fn key(object: &Object) -> Key {
    match object.kind {
        ObjectKind::Pod => (object.kind, (&*object.uid).into()),
        kind => (kind, path(&object.namespace, &object.name)),
    }
}

fn path(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

fn waits(what_happened: &str, until: &str) -> String {
    format!("{what_happened}: it is set aside, so that others get in, and is looked at again when {until}. {REPORT}")
}

fn said_of(what: &str) -> String {
    format!(
        "the operator crashed or hung over this {what}: it is set aside, and is looked at again when it is changed. {REPORT}"
    )
}

/// Removes from a pod all that is not needed to count what it requests: its queue, its card and its node stay.
fn reduce(pod: &mut Pod<Box<str>>) {
    let annotations: TextMap<Box<str>> = [QUEUE_NAME, CARD_NAME, CARD_ASSIGNED]
        .into_iter()
        .filter_map(|key| Some((key.into(), pod.metadata.annotations.get(key)?.into())))
        .collect();
    pod.metadata.annotations = annotations;
    pod.metadata.labels = TextMap::default();
    pod.spec.affinity = None;
    pod.spec.node_selector = TextMap::default();
    pod.spec.tolerations = Vec::new();
}

/// Whether a pod's condition says that it is set aside.
fn says_so(pod: &Pod<Box<str>>) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|condition| condition.reason.as_deref() == Some(Happening::SetAside.as_str()))
}

/// Returns a hash of a value's debug output. It writes out the whole value, so it is only for objects in quarantine.
fn hash(what: &impl Debug) -> u64 {
    struct Ear(DefaultHasher);
    impl std::fmt::Write for Ear {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut ear = Ear(DefaultHasher::new());
    // Hashing can't fail.
    let _ = write!(ear, "{what:?}");
    ear.0.finish()
}

#[cfg(test)]
mod tests;
