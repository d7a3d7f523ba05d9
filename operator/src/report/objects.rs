//! The objects of one kind: what the API server has, and what it should have.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::shown::{Shown, owner_uid};

/// The content of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record<K: Shown> {
    /// Unique id of the object's owner; empty if the kind has no owner.
    pub owner_uid: Box<str>,
    pub spec: K::Spec,
    pub status: K::Status,
}

/// What has to be written about one object.
#[derive(Debug)]
pub(super) enum Plan<K: Shown> {
    /// Nothing: the object is as it should be.
    Nothing,
    /// The object does not exist yet.
    Create(Arc<Record<K>>),
    /// The object exists with another content.
    Update {
        /// The content that it should have.
        record: Arc<Record<K>>,
        /// Whether the owner or the specification differ.
        object: bool,
        /// Whether the status differs.
        status: bool,
    },
    /// The object should not exist.
    Delete,
}

/// What a write left behind in the API server.
#[derive(Debug)]
pub(super) enum Left<K: Shown> {
    Record(Arc<Record<K>>),
    Nothing,
    /// An object whose content is not certain.
    Unknown,
}

/// The objects of one kind, by name.
#[derive(Debug)]
pub(super) struct Objects<K: Shown> {
    wanted: HashMap<Arc<str>, Arc<Record<K>>>,
    /// What the API server has; the record is none for an object whose content is not known. Once written, an object's record is shared
    /// with [`Self::wanted`].
    there: HashMap<Arc<str>, Option<Arc<Record<K>>>>,
    /// Whether the API server's objects have been listed. Before that, nothing can be compared.
    listed: bool,
    /// Whether everything that should exist has been reported once. Before that, nothing is superfluous.
    synced: bool,
    /// While a list is under way: the names of the objects that were written since it began. The list may contain older content of them.
    written_since: Option<HashSet<Arc<str>>>,
}

impl<K: Shown> Objects<K> {
    pub(super) fn new() -> Self {
        Self {
            wanted: HashMap::new(),
            there: HashMap::new(),
            listed: false,
            synced: false,
            written_since: None,
        }
    }

    /// Sets what an object should say, or that it should not exist. Returns whether that differs from what the API server has.
    pub(super) fn want(&mut self, name: &Arc<str>, record: Option<Record<K>>, now: Timestamp) -> bool {
        let Some(mut record) = record else {
            self.wanted.remove(name);
            return self.listed && self.there.contains_key(name);
        };
        let there = self.there.get(name).and_then(Option::as_ref);
        stamp(&mut record, there.map(Arc::as_ref), now);
        let same = there.filter(|there| ***there == record).cloned();
        let differs = same.is_none();
        self.wanted
            .insert(Arc::clone(name), same.unwrap_or_else(|| Arc::new(record)));
        self.listed && differs
    }

    /// Notes that somebody has removed an object. Returns whether the object should exist.
    pub(super) fn gone(&mut self, name: &Arc<str>) -> bool {
        self.there.remove(name);
        self.listed && self.wanted.contains_key(name)
    }

    /// Notes that a list of what the API server has begins.
    pub(super) fn begin_list(&mut self) {
        self.written_since = Some(HashSet::new());
    }

    /// Takes a list of what the API server has. Returns the names of the objects that have to be written.
    pub(super) fn end_list(&mut self, objects: Vec<(Arc<str>, Option<Record<K>>)>, now: Timestamp) -> Vec<Arc<str>> {
        let known = std::mem::take(&mut self.there);
        let mut there: HashMap<_, _> = objects
            .into_iter()
            .map(|(name, record)| (name, record.map(Arc::new)))
            .collect();
        // What was written in the meantime is newer than the list.
        for name in self.written_since.take().into_iter().flatten() {
            match known.get(&name) {
                Some(record) => there.insert(name, record.clone()),
                None => there.remove(&name),
            };
        }
        self.there = there;
        self.listed = true;
        let mut differing = self.superfluous();
        let mut names: Vec<_> = self.wanted.keys().cloned().collect();
        // Sorted by name, so that the same objects are always written in the same order.
        names.sort();
        for name in names {
            if !matches!(self.plan(&name, now), Plan::Nothing) {
                differing.push(name);
            }
        }
        differing
    }

    /// Notes that everything that should exist has been reported once. Returns the names of superfluous objects.
    pub(super) fn sync(&mut self) -> Vec<Arc<str>> {
        self.synced = true;
        self.superfluous()
    }

    fn superfluous(&self) -> Vec<Arc<str>> {
        if !self.synced || !self.listed {
            return Vec::new();
        }
        let names = self.there.keys().filter(|name| !self.wanted.contains_key(*name));
        let mut names: Vec<_> = names.cloned().collect();
        names.sort();
        names
    }

    /// Returns what has to be written about an object now.
    pub(super) fn plan(&mut self, name: &Arc<str>, now: Timestamp) -> Plan<K> {
        match (self.wanted.get_mut(name), self.there.get(name)) {
            (None, None) => Plan::Nothing,
            (None, Some(_)) => Plan::Delete,
            (Some(wanted), None) => {
                stamp(Arc::make_mut(wanted), None, now);
                Plan::Create(Arc::clone(wanted))
            }
            (Some(wanted), Some(None)) => Plan::Update {
                record: Arc::clone(wanted),
                object: true,
                status: true,
            },
            (Some(wanted), Some(Some(there))) => {
                if Arc::ptr_eq(wanted, there) {
                    return Plan::Nothing;
                }
                stamp(Arc::make_mut(wanted), Some(there), now);
                let object = wanted.owner_uid != there.owner_uid || wanted.spec != there.spec;
                let status = wanted.status != there.status;
                if object || status {
                    return Plan::Update {
                        record: Arc::clone(wanted),
                        object,
                        status,
                    };
                }
                *wanted = Arc::clone(there);
                Plan::Nothing
            }
        }
    }

    /// Notes what a write left behind when it ended.
    pub(super) fn written(&mut self, name: &Arc<str>, left: Left<K>) {
        if let Some(names) = &mut self.written_since {
            names.insert(Arc::clone(name));
        }
        match left {
            Left::Record(record) => self.there.insert(Arc::clone(name), Some(record)),
            Left::Unknown => self.there.insert(Arc::clone(name), None),
            Left::Nothing => self.there.remove(name),
        };
    }
}

impl<K: Shown> Record<K> {
    /// Reads an object; none if it has no status yet.
    pub(super) fn read(object: &K) -> Option<Self> {
        Some(Self {
            owner_uid: owner_uid(object).into(),
            spec: object.spec().clone(),
            status: object.status()?.clone(),
        })
    }
}

/// Sets the transition times of the conditions. If the same condition in `there` has the same status, its time is kept; otherwise the time
/// is `now`, in whole seconds as the API keeps them.
fn stamp<K: Shown>(record: &mut Record<K>, there: Option<&Record<K>>, now: Timestamp) {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let known = there.map_or(&[][..], |there| K::conditions(&there.status));
    for condition in K::conditions_mut(&mut record.status) {
        let same = known
            .iter()
            .find(|known| known.type_ == condition.type_ && known.status == condition.status);
        condition.last_transition_time = same.map_or(Time(now), |same| same.last_transition_time.clone());
    }
}
