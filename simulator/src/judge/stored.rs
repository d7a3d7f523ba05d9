//! The stored objects, as far as the judge was told, and, of what others decide, also those of a while ago.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crds::keys::{CONFIG_MAP, NAMESPACE};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::configuration::Configuration;
use super::pods::{Pod, is_held};
use super::{admission, is_operator};
use crate::objects::{
    CONFIG_MAPS, DEVICE_CLASSES, Key, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, RESOURCE_CLAIMS, Resource, SLICES,
    Write,
};

/// The objects of one resource, which many views share.
#[derive(Debug, Clone, Default)]
pub struct OfKind {
    objects: Arc<BTreeMap<Key, Arc<Value>>>,
    /// For pods, what each says: read once, however often it is used.
    pods: Arc<BTreeMap<Key, Pod>>,
}

impl OfKind {
    /// Adds or changes an object.
    pub fn insert(&mut self, key: Key, object: Arc<Value>) {
        Arc::make_mut(&mut self.objects).insert(key, object);
    }

    /// Adds or changes a pod.
    fn insert_pod(&mut self, key: Key, object: Arc<Value>) {
        Arc::make_mut(&mut self.pods).insert(key.clone(), Pod::read(&key, &object));
        self.insert(key, object);
    }

    fn remove(&mut self, key: &Key) {
        Arc::make_mut(&mut self.objects).remove(key);
        Arc::make_mut(&mut self.pods).remove(key);
    }

    /// Returns what the pods among them say, by key.
    pub fn pods(&self) -> btree_map::Values<'_, Key, Pod> {
        self.pods.values()
    }
}

impl Deref for OfKind {
    type Target = BTreeMap<Key, Arc<Value>>;

    fn deref(&self) -> &Self::Target {
        &self.objects
    }
}

impl<'a> IntoIterator for &'a OfKind {
    type Item = (&'a Key, &'a Arc<Value>);
    type IntoIter = btree_map::Iter<'a, Key, Arc<Value>>;

    fn into_iter(self) -> Self::IntoIter {
        self.objects.iter()
    }
}

/// Objects by resource.
pub type ByKind = BTreeMap<&'static Resource, OfKind>;

/// What quotas and room depend on, besides pods.
static TERMS: [&Resource; 8] = [
    &QUEUES,
    &NODES,
    &CONFIG_MAPS,
    &NAMESPACES,
    &POD_GROUPS,
    &SLICES,
    &DEVICE_CLASSES,
    &RESOURCE_CLAIMS,
];

/// What is stored.
#[derive(Debug, Default)]
pub struct Stored {
    /// Everything.
    pub now: ByKind,
    /// What [`TERMS`] were before each change, and when the change was, oldest first.
    past: VecDeque<(Timestamp, ByKind)>,
    /// Pods that others let run, and when.
    others: BTreeMap<Key, Timestamp>,
    /// Pods that operators let in, when, and how old the world was when they sent the write.
    let_in: BTreeMap<Key, (Timestamp, Duration)>,
    /// Pods that a scheduler has bound, when, and what they were before.
    bound: BTreeMap<Key, (Timestamp, Arc<Value>)>,
    /// Pods that disappeared recently, when, and what they were.
    gone: BTreeMap<Key, (Timestamp, Arc<Value>)>,
    /// The latest time before the clock was set back.
    latest: Option<Timestamp>,
}

impl Stored {
    /// Stores a write, and forgets what ended before `since`.
    pub fn take(&mut self, write: &Write, since: Timestamp) {
        while self.past.front().is_some_and(|(until, _)| *until < since) {
            self.past.pop_front();
        }
        self.others.retain(|_, at| *at >= since);
        self.bound.retain(|_, (at, _)| *at >= since);
        self.gone.retain(|_, (at, _)| *at >= since);
        self.let_in.retain(|_, (at, _)| *at >= since);
        if write.resource == &PODS && is_operator(&write.who) && admission::is_one(write) {
            self.let_in.insert(write.key.clone(), (write.at, write.sent));
        }
        if changes_terms(write) {
            let terms = TERMS
                .iter()
                .filter_map(|kind| Some((*kind, self.now.get(*kind)?.clone())));
            self.past.push_back((write.at, terms.collect()));
        }
        if write.resource == &PODS && !is_operator(&write.who) {
            let runs = |pod: &Option<Arc<Value>>| pod.as_ref().is_some_and(|pod| !is_held(pod));
            if runs(&write.after) && !runs(&write.before) {
                self.others.insert(write.key.clone(), write.at);
            }
            if let (Some(before), Some(after)) = (&write.before, &write.after)
                && before["spec"]["nodeName"].is_null()
                && !after["spec"]["nodeName"].is_null()
            {
                self.bound.insert(write.key.clone(), (write.at, Arc::clone(before)));
            }
        }
        if let (true, Some(before), None) = (write.resource == &PODS, &write.before, &write.after) {
            self.gone.insert(write.key.clone(), (write.at, Arc::clone(before)));
        }
        // A configuration that can't be put in force, or is deleted, leaves the former one in force. An operator that starts with one
        // that can't be put in force decides nothing.
        let is_unreadable = |map: &Arc<Value>| Configuration::read(&map["data"]).is_none();
        if is_configuration(write) && write.after.as_ref().is_none_or(is_unreadable) {
            return;
        }
        let of_kind = self.now.entry(write.resource).or_default();
        match &write.after {
            Some(object) if write.resource == &PODS => of_kind.insert_pod(write.key.clone(), Arc::clone(object)),
            Some(object) => of_kind.insert(write.key.clone(), Arc::clone(object)),
            None => of_kind.remove(&write.key),
        }
    }

    /// Returns the configuration in force for an operator that has read it: the newest valid one.
    pub fn configuration(&self) -> Option<&Arc<Value>> {
        self.now.get(&CONFIG_MAPS)?.get(&Key::new(NAMESPACE, CONFIG_MAP))
    }

    /// Returns the latest time before the wall clock was set back, if the clock has not reached it again.
    pub fn ahead_of(&self, now: Timestamp) -> Option<Timestamp> {
        self.latest.filter(|latest| *latest > now)
    }

    /// Notes that the wall clock jumped. Recent events stay recent.
    pub fn jump(&mut self, from: Timestamp, by: SignedDuration) {
        self.latest = self.latest.max(Some(from));
        let times = self.past.iter_mut().map(|(at, _)| at).chain(self.others.values_mut());
        let times = times.chain(self.bound.values_mut().map(|(at, _)| at));
        let times = times.chain(self.gone.values_mut().map(|(at, _)| at));
        let times = times.chain(self.let_in.values_mut().map(|(at, _)| at));
        times.for_each(|at| *at = at.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Returns the states that an operator may take for true: the stored one, then those at any recent time, each with the
    /// pods of now, then those with only one kind of an earlier time; and the same before pods were recently bound.
    pub fn known(&self) -> impl Iterator<Item = ByKind> + '_ {
        let with = |terms: &ByKind, kinds: &[&'static Resource]| {
            let mut known = self.now.clone();
            for kind in kinds {
                known.insert(kind, terms.get(kind).cloned().unwrap_or_default());
            }
            known
        };
        let past = || self.past.iter().rev().map(|(_, terms)| terms);
        let all = past().map(move |terms| with(terms, &TERMS));
        // Each kind has a watch of its own.
        let one = past().flat_map(move |terms| TERMS.into_iter().map(move |kind| with(terms, &[kind])));
        let known = std::iter::once_with(|| self.now.clone()).chain(all).chain(one);
        known.flat_map(|known| {
            let unbound = (!self.bound.is_empty()).then(|| self.unbound(known.clone()));
            std::iter::once(known).chain(unbound)
        })
    }

    /// Returns the state as an operator sees it that has not heard of the last bindings.
    fn unbound(&self, mut known: ByKind) -> ByKind {
        let pods = known.entry(&PODS).or_default();
        for (key, (_, before)) in &self.bound {
            if pods.contains_key(key) {
                pods.insert_pod(key.clone(), Arc::clone(before));
            }
        }
        known
    }

    /// Returns the state as an operator sees it that has not heard of the last removals of pods; `None` if there were none.
    pub fn before_the_last_went(&self, known: &ByKind) -> Option<ByKind> {
        if self.gone.is_empty() {
            return None;
        }
        let mut known = known.clone();
        let pods = known.entry(&PODS).or_default();
        for (key, (_, before)) in &self.gone {
            if !pods.contains_key(key) {
                pods.insert_pod(key.clone(), Arc::clone(before));
            }
        }
        Some(known)
    }

    /// Returns the pods whose admission an operator sent when the world was older than this.
    pub fn let_in_since(&self, age: Duration) -> BTreeSet<&Key> {
        let later = self.let_in.iter().filter(|(_, (_, sent))| *sent > age);
        later.map(|(key, _)| key).collect()
    }

    /// Returns the pods that others let run just now, so that an operator may not know of it.
    pub fn unheard(&self) -> BTreeSet<&Key> {
        self.others.keys().collect()
    }
}

fn is_configuration(write: &Write) -> bool {
    write.resource == &CONFIG_MAPS && write.key == Key::new(NAMESPACE, CONFIG_MAP)
}

/// Whether a write changes what quotas and room depend on.
pub fn changes_terms(write: &Write) -> bool {
    TERMS.contains(&write.resource) && is_said_anew(write)
}

/// Whether more has changed than times in the status: nodes report every few seconds that they are alive.
fn is_said_anew(write: &Write) -> bool {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return true;
    };
    said(before) != said(after)
}

/// Returns what an object says that quotas and room may depend on, and its conditions with their status.
fn said(object: &Value) -> ([&Value; 7], Vec<[&Value; 2]>) {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions = conditions.map(|condition| [&condition["type"], &condition["status"]]);
    (
        [
            &metadata["labels"],
            &metadata["annotations"],
            &object["spec"],
            &object["data"],
            &status["allocatable"],
            &status["allocation"],
            &status["state"],
        ],
        conditions.collect(),
    )
}
