//! The objects of one kind: what the API server has, and what it should have.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::shown::{Shown, owner_uid};

/// What an object says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record<K: Shown> {
    /// Unique id of its owner; empty where the kind has none.
    pub owner_uid: Box<str>,
    pub spec: K::Spec,
    pub status: K::Status,
}

/// What has to be written about one object.
#[derive(Debug)]
pub(super) enum Plan<K: Shown> {
    /// Nothing: it is as it should be.
    Nothing,
    /// It is not there yet.
    Create(Arc<Record<K>>),
    /// It is there and says something else.
    Update {
        /// What it should say.
        record: Arc<Record<K>>,
        /// Whether the owner or the specification differ.
        object: bool,
        /// Whether the status differs.
        status: bool,
    },
    /// It should not be there.
    Delete,
}

/// What a write left behind.
#[derive(Debug)]
pub(super) enum Left<K: Shown> {
    Record(Arc<Record<K>>),
    Nothing,
    /// An object of which it is not certain what it says.
    Unknown,
}

/// The objects of one kind, by name.
#[derive(Debug)]
pub(super) struct Objects<K: Shown> {
    wanted: HashMap<Arc<str>, Arc<Record<K>>>,
    /// What the API server has; none for an object of which that is not known. Once written, an object's record is shared
    /// with [`Self::wanted`].
    there: HashMap<Arc<str>, Option<Arc<Record<K>>>>,
    /// Whether the API server's objects have been listed: before, nothing can be compared.
    listed: bool,
    /// Whether everything that should be there has been reported once: before, nothing is superfluous.
    synced: bool,
    /// While a list is under way: what was written since it began, and may say something else in it.
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

    /// Sets what an object should say, or that it should not be there. Returns whether that differs from what is there.
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

    /// Somebody has removed an object; whether it should be there.
    pub(super) fn gone(&mut self, name: &Arc<str>) -> bool {
        self.there.remove(name);
        self.listed && self.wanted.contains_key(name)
    }

    /// A list of what the API server has begins.
    pub(super) fn begin_list(&mut self) {
        self.written_since = Some(HashSet::new());
    }

    /// Takes what the API server has, and returns what has to be written.
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
        // By name, so that the same objects are always written in the same order.
        names.sort();
        for name in names {
            if !matches!(self.plan(&name, now), Plan::Nothing) {
                differing.push(name);
            }
        }
        differing
    }

    /// Everything that should be there has been reported once; returns what is superfluous.
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

    /// What has to be written about an object now.
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

    /// A write has ended.
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
    /// Reads an object; none where it has no status yet.
    pub(super) fn read(object: &K) -> Option<Self> {
        Some(Self {
            owner_uid: owner_uid(object).into(),
            spec: object.spec().clone(),
            status: object.status()?.clone(),
        })
    }
}

/// Sets the transition times of the conditions: that of the same condition in `there` where its status is the same, else
/// `now`, in whole seconds as the API keeps them.
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
