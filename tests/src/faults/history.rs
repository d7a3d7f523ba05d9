//! What was written, one after the other, as watches tell it: what the simulator's judge reads. Who wrote it the audit log says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crds::keys::{CROSS_QUOTA_LABEL, NAMESPACE, QUEUE_LABEL};
use k8s_openapi::jiff::Timestamp;
use operator::lease::{DURATION, LEASE};
use serde_json::{Value, json};
use simulator::judge::is_held;
use simulator::objects::{Key, LEASES, PODS, Resource, Write};

use crate::controlplane;

/// Who wrote what no operator is known to have written.
pub(super) const SOMEBODY: &str = "somebody";

/// What was heard of so far.
#[derive(Debug)]
pub(super) struct History {
    begin: Timestamp,
    objects: BTreeMap<&'static Resource, BTreeMap<Key, Arc<Value>>>,
    writes: Vec<Write>,
    /// Versions of what was there before anybody looked.
    there: BTreeSet<u64>,
    let_in: usize,
    /// When operators were started.
    pub starts: Vec<Timestamp>,
}

impl History {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            begin: Timestamp::now(),
            objects: BTreeMap::new(),
            writes: Vec::new(),
            there: BTreeSet::new(),
            let_in: 0,
            starts: Vec::new(),
        }
    }

    /// How many pods have been let in so far.
    pub fn let_in(&self) -> usize {
        self.let_in
    }

    /// An object was there before anybody looked: whoever wrote it is not judged, since what they wrote it by was not seen. Returns
    /// which.
    pub fn was_there(&mut self, resource: &'static Resource, object: Value) -> Key {
        self.there.insert(version(&object));
        self.apply(resource, object)
    }

    /// An object is there, or has changed. Returns which.
    pub fn apply(&mut self, resource: &'static Resource, object: Value) -> Key {
        let key = key(&object);
        let version = version(&object);
        let of_kind = self.objects.entry(resource).or_default();
        let before = of_kind.get(&key).cloned();
        // Who lists anew hears of everything again.
        if before.as_ref().is_some_and(|before| self::version(before) >= version) {
            return key;
        }
        let after = Arc::new(object);
        of_kind.insert(key.clone(), Arc::clone(&after));
        self.note(resource, &key, version, before, Some(after));
        self.let_in += usize::from(self.writes.last().is_some_and(lets_in));
        key
    }

    /// An object is gone.
    pub fn delete(&mut self, resource: &'static Resource, object: &Value) {
        self.forget(resource, &key(object), version(object));
    }

    /// Who listed anew has seen these, and no others are there.
    pub fn keep(&mut self, resource: &'static Resource, seen: &BTreeSet<Key>) {
        let all = self.objects.entry(resource).or_default();
        let gone: Vec<_> = all.keys().filter(|key| !seen.contains(key)).cloned().collect();
        let newest = self.writes.iter().map(|write| write.version).max().unwrap_or(0);
        for key in gone {
            self.forget(resource, &key, newest);
        }
    }

    fn forget(&mut self, resource: &'static Resource, key: &Key, version: u64) {
        let before = self.objects.entry(resource).or_default().remove(key);
        if before.is_some() {
            self.note(resource, key, version, before, None);
        }
    }

    fn note(
        &mut self,
        resource: &'static Resource,
        key: &Key,
        version: u64,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
    ) {
        let at = Timestamp::now();
        self.writes.push(Write {
            who: SOMEBODY.into(),
            at,
            age: since(self.begin, at),
            sent: since(self.begin, at),
            version,
            resource,
            key: key.clone(),
            before,
            after,
        });
    }

    /// All writes in their order, each with its author: the audit log knows them by version, and `operators` says by which token
    /// each of them writes.
    pub fn writes(&self, log: &[controlplane::Write], operators: &BTreeMap<String, String>) -> Vec<Write> {
        let (mut by_version, mut evicted) = (BTreeMap::new(), BTreeMap::new());
        for write in log {
            let author = write.credential().and_then(|token| operators.get(token));
            let (Some(author), Some(target)) = (author, &write.object_ref) else {
                continue;
            };
            let Ok(asked) = write.request_received_timestamp.parse::<Timestamp>() else {
                continue;
            };
            if target.subresource == "eviction" && write.response_status.code < 400 {
                evicted.insert(Key::new(&*target.namespace, &*target.name), (author, asked));
            } else if let Some(version) = write.version() {
                // Who is answered first made it: later ones changed nothing.
                by_version.entry(version).or_insert((author, asked));
            }
        }
        let mut writes = self.writes.clone();
        writes.extend(self.unseen_terms(log));
        writes.sort_by_key(|write| write.version);
        let mut last = self.begin;
        for write in &mut writes {
            last = last.max(write.at);
            write.at = last;
            // A request that follows what was heard of made nothing new.
            let by_version = by_version.get(&write.version).filter(|(_, asked)| *asked <= write.at);
            if self.there.contains(&write.version) {
                if let (Some(lease), true) = (&write.after, write.resource == &LEASES) {
                    write.who = holder(lease);
                    write.age = Duration::ZERO;
                }
            } else if let Some((author, asked)) = by_version.or_else(|| evicted.get(&write.key).filter(|_| ends(write)))
            {
                write.who = author.as_str().into();
                write.sent = since(self.begin, *asked);
                if write.resource == &LEASES {
                    write.age = write.sent;
                }
            } else if let (Some(lease), true) = (&write.after, write.resource == &LEASES) {
                // Written, though it was answered that it might not be.
                write.who = holder(lease);
            }
        }
        writes
    }

    /// Leases of which no watch has told: while the API server was away they were written, and one that lists anew hears of the last
    /// alone. Without them, who had renewed in time would seem to write without leading.
    fn unseen_terms(&self, log: &[controlplane::Write]) -> Vec<Write> {
        let told: BTreeSet<u64> = self.writes.iter().map(|write| write.version).collect();
        let unseen = log.iter().filter_map(|write| {
            let target = write.object_ref.as_ref()?;
            let version = write.version().filter(|version| !told.contains(version))?;
            if target.resource != LEASES.plural || target.name != LEASE || target.namespace != NAMESPACE {
                return None;
            }
            let at = write.request_received_timestamp.parse().ok()?;
            Some(Write {
                who: SOMEBODY.into(),
                at,
                age: since(self.begin, at),
                sent: since(self.begin, at),
                version,
                resource: &LEASES,
                key: Key::new(NAMESPACE, LEASE),
                before: None,
                after: Some(Arc::new(lease_held_by(write.holder()?))),
            })
        });
        unseen.collect()
    }
}

/// A Lease as it was written, of which only this is known.
fn lease_held_by(holder: &str) -> Value {
    json!({ "spec": { "holderIdentity": holder, "leaseDurationSeconds": DURATION.as_secs() } })
}

fn holder(lease: &Value) -> Arc<str> {
    lease["spec"]["holderIdentity"].as_str().unwrap_or(SOMEBODY).into()
}

/// Whether a pod is let in: the door holds whatever Cardgate is to let in, so one that was not seen waiting has waited.
pub(super) fn lets_in(write: &Write) -> bool {
    let is_held = |pod: &Arc<Value>| is_held(pod);
    let is_ours = |pod: &&Arc<Value>| {
        let labels = &pod["metadata"]["labels"];
        [QUEUE_LABEL, CROSS_QUOTA_LABEL]
            .iter()
            .any(|label| labels[*label].is_string())
    };
    write.resource == &PODS
        && write.before.as_ref().is_none_or(is_held)
        && write.after.as_ref().filter(is_ours).is_some_and(|pod| !is_held(pod))
}

/// Whether a pod is to be deleted from here on.
fn ends(write: &Write) -> bool {
    let is_there = |pod: &Option<Arc<Value>>| {
        pod.as_ref()
            .is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    };
    write.resource == &PODS && is_there(&write.before) && !is_there(&write.after)
}

fn since(begin: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(begin)).unwrap_or_default()
}

fn key(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Key::new(text("namespace"), text("name"))
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
