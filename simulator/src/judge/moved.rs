//! Pods whose charge stays where it is, though the object that names their queue has changed (docs/rules.md, **Which pods
//! are managed**). The queue is written on every pod at its creation, except on pods that did not concern Cardgate then. An
//! operator remembers where such pods are charged, but a restarted operator can't, and no object shows it.

use std::collections::{BTreeMap, BTreeSet};

use crds::keys::QUEUE_NAME;

use super::stored::{Stored, changes_terms};
use super::view::View;
use crate::objects::{CONFIG_MAPS, Key, NAMESPACES, POD_GROUPS, PODS, Write};

/// Pods and the queue that each is charged to.
pub type Charged = BTreeMap<Key, String>;

/// Pods that may be charged to another queue than it seems.
#[derive(Debug, Default)]
pub struct Moved {
    pods: BTreeSet<Key>,
}

impl Moved {
    /// Looks at a write that is stored by now; `before` is what [`charged`] returned before.
    pub fn hear(&mut self, write: &Write, before: Charged, stored: &Stored) {
        if write.resource == &PODS && write.after.is_none() {
            self.pods.remove(&write.key);
        }
        let after = charged(write, stored);
        // If only the namespace made a pod Cardgate's, nothing names its queue any more.
        let is_nobodys = write.resource == &NAMESPACES;
        let moved = before
            .into_iter()
            .filter(|(key, queue)| after.get(key).map_or(is_nobodys, |now| now != queue));
        self.pods.extend(moved.map(|(key, _)| key));
    }

    /// Returns these pods.
    pub fn pods(&self) -> impl Iterator<Item = &Key> {
        self.pods.iter()
    }

    /// Whether any of them holds something.
    pub fn hold(&self, view: &View) -> bool {
        let mut pods = view.pods.iter();
        pods.any(|pod| self.pods.contains(&pod.key) && view.holds(pod))
    }
}

/// Returns the pods without a written queue that hold something, as far as a write may make them seem charged to another
/// queue.
pub fn charged(write: &Write, stored: &Stored) -> Charged {
    let of_pod = write.resource == &PODS && is_named_anew(write);
    let of_all = [&POD_GROUPS, &NAMESPACES, &CONFIG_MAPS].contains(&write.resource) && changes_terms(write);
    // If the queue is written on the pod, nothing else has to be read.
    let is_unwritten = || {
        let pod = stored.now.get(&PODS).and_then(|pods| pods.get(&write.key));
        pod.is_some_and(|pod| {
            pod["metadata"]["annotations"][QUEUE_NAME]
                .as_str()
                .is_none_or(str::is_empty)
        })
    };
    if !(of_all || of_pod && is_unwritten()) {
        return Charged::new();
    }
    let Some(view) = View::read(&stored.now, write.at, &BTreeSet::new()) else {
        return Charged::new();
    };
    let pods = view.pods.iter().filter(|pod| of_all || pod.key == write.key);
    let unwritten = pods.filter(|pod| pod.says(QUEUE_NAME).is_none());
    unwritten
        .filter(|pod| view.holds(pod))
        .filter_map(|pod| Some((pod.key.clone(), view.queue_of(pod)?)))
        .collect()
}

/// Whether a pod changes what it says it belongs to.
fn is_named_anew(write: &Write) -> bool {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return false;
    };
    before["metadata"]["annotations"] != after["metadata"]["annotations"]
}
