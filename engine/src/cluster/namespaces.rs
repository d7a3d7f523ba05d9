//! What namespaces say of queues.

use std::collections::BTreeMap;

use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL};
use crds::lean::TextMap;
use jiff::Timestamp;

use super::{Cluster, Kind};

/// What a namespace says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels, which queues select by.
    pub labels: TextMap<Box<str>>,
    /// The queue of its pods that name none.
    pub queue: Option<Box<str>>,
    epoch: u64,
}

impl Namespace {
    /// Whether CrossQuota is to place its pods without GPU. Such pods are marked when they are created.
    pub fn opts_in_to_cross_quota(&self) -> bool {
        self.labels.get(CROSS_QUOTA_LABEL) == Some(CROSS_QUOTA_ENABLED)
    }
}

/// The namespaces that exist, by name.
#[derive(Debug, Default)]
pub(super) struct Namespaces(BTreeMap<Box<str>, Namespace>);

impl Cluster {
    /// Takes in what a namespace says.
    pub(crate) fn apply_namespace(
        &mut self,
        name: &str,
        labels: TextMap<Box<str>>,
        queue: Option<&str>,
        now: Timestamp,
    ) {
        let namespace = Namespace {
            labels,
            queue: queue.filter(|name| !name.is_empty()).map(Into::into),
            epoch: self.epoch(Kind::Namespace),
        };
        let before = self.namespaces.0.insert(name.into(), namespace.clone());
        // The epoch only tells in which list it was seen last.
        let says_the_same = |before: &Namespace| before.labels == namespace.labels && before.queue == namespace.queue;
        if !before.as_ref().is_some_and(says_the_same) {
            let same_queue = before.and_then(|before| before.queue) == namespace.queue;
            self.namespace_changed(name, same_queue, now);
        }
    }

    /// Forgets a namespace that is gone. Queues that select by labels take nothing from it any more.
    pub(crate) fn remove_namespace(&mut self, name: &str, now: Timestamp) {
        if let Some(before) = self.namespaces.0.remove(name) {
            self.namespace_changed(name, before.queue.is_none(), now);
        }
    }

    /// Handles that a namespace says something else. Queues select by that, and it names the queue of pods and workloads
    /// that name none.
    fn namespace_changed(&mut self, name: &str, same_queue: bool, now: Timestamp) {
        // Namespaces come and go all day, mostly with nothing in them. What is judged elsewhere stands.
        let has_pod = self.pods().any(|pod| &*pod.namespace == name);
        if !has_pod && !self.workloads().any(|(_, workload)| &*workload.namespace == name) {
            return;
        }
        self.version += 1;
        self.review_all();
        if !same_queue {
            self.find_queues(|workload| &*workload.namespace == name, now);
            self.see_unqueued_anew(|namespace| namespace == name);
            self.follow_names_of_queues(|namespace| namespace == name, now);
            self.charge_unqueued(|namespace| namespace == name, now);
        }
    }

    /// Returns what a namespace says.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.0.get(name)
    }

    /// Forgets the namespaces that a complete list has not named.
    pub(super) fn remove_unlisted_namespaces(&mut self, epoch: u64, now: Timestamp) {
        let stale = self
            .namespaces
            .0
            .iter()
            .filter(|(_, namespace)| namespace.epoch < epoch);
        for name in stale.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.remove_namespace(&name, now);
        }
    }
}
