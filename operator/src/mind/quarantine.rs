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
            event => state.hear_other(event),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two assignments that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns what is to be heard of an event, unless a pod is there or has changed. An object leaves the quarantine when it is seen to have
    /// changed.
    fn hear_other(&mut self, event: Observation) -> Heard {
        let Some(object) = event.object() else {
            self.forget_gone(&event);
            return Heard::AsItIs(event);
        };
        let key = key(&object);
        let Some(entry) = self.entries.get_mut(&key) else {
            return Heard::AsItIs(event);
        };
        let Some((says, substitute)) = content_and_substitute(&event, &object) else {
            return Heard::AsItIs(event);
        };
        if *entry.says.get_or_insert(says) != says {
            self.entries.remove(&key);
            return Heard::AsItIs(event);
        }
        Heard::Instead(substitute, entry.say(&said_of("object"), false))
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
            Observation::PodGone(uid) | Observation::SucceededPodGone(uid) => (ObjectKind::Pod, uid.clone()),
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

/// Returns a hash of an object's content, and what is heard in its place while it is in quarantine: of a queue or a group, that it cannot be
/// read; of anything else, that it is gone. None for a pod: for pods see [`State::hear_pod`].
fn content_and_substitute(event: &Observation, object: &Object) -> Option<(u64, Observation)> {
    let [namespace, name, uid] = [&object.namespace, &object.name, &object.uid].map(|text| Box::<str>::from(&**text));
    Some(match event {
        Observation::Node(node) => {
            let (metadata, spec, status) = (&node.metadata, &node.spec, &node.status);
            let says = hash(&(&metadata.labels, &metadata.annotations, spec, status));
            (says, Observation::NodeGone(name))
        }
        Observation::Queue(queue) => {
            let says = hash(&(&queue.metadata.annotations, &queue.spec));
            let reason = said_of("queue").into();
            (says, Observation::QueueUnreadable { name, uid, reason })
        }
        Observation::Group(group) => {
            let says = hash(&(&group.metadata.annotations, &group.spec));
            let reason = said_of("group").into();
            let unreadable = Observation::GroupUnreadable {
                namespace,
                name,
                uid,
                reason,
            };
            (says, unreadable)
        }
        Observation::Job(job) => {
            let says = hash(&(&job.metadata.annotations, &job.metadata.labels, &job.spec));
            (says, Observation::JobGone { namespace, name })
        }
        Observation::Namespace(metadata) => {
            let says = hash(&(&metadata.annotations, &metadata.labels));
            (says, Observation::NamespaceGone(name))
        }
        Observation::Slice(slice) => (hash(&slice.spec), Observation::SliceGone(name)),
        Observation::Class(class) => (hash(&class.spec), Observation::ClassGone(name)),
        Observation::TaintRule(rule) => (hash(&rule.spec), Observation::TaintRuleGone(name)),
        Observation::Claim(claim) => {
            let says = hash(&(&claim.spec, &claim.status));
            (says, Observation::ClaimGone { namespace, name })
        }
        _ => return None,
    })
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
