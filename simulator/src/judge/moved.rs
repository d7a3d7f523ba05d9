//! Pods whose charge stays where it is, though what names their queue has changed since (docs/rules.md, **Which pods are managed**). The
//! queue is written on every pod at its creation, but on none that was nobody's business then: an operator remembers whose they are,
//! one that is started anew can't, and nobody can see it.

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
    /// Looks at a write that is stored by now; `before` is what [`charged`] said of it before.
    pub fn hear(&mut self, write: &Write, before: Charged, stored: &Stored) {
        if write.resource == &PODS && write.after.is_none() {
            self.pods.remove(&write.key);
        }
        let after = charged(write, stored);
        // Of a pod that nothing else makes somebody's business, nobody is named any more.
        let is_nobodys = write.resource == &NAMESPACES;
        let moved = before
            .into_iter()
            .filter(|(key, queue)| after.get(key).map_or(is_nobodys, |now| now != queue));
        self.pods.extend(moved.map(|(key, _)| key));
    }

    /// Which.
    pub fn pods(&self) -> impl Iterator<Item = &Key> {
        self.pods.iter()
    }

    /// Whether any of them holds something.
    pub fn hold(&self, view: &View) -> bool {
        let mut pods = view.pods.iter();
        pods.any(|pod| self.pods.contains(&pod.key) && view.holds(pod))
    }
}

/// The pods on which no queue is written and which hold something, as far as a write may have them seem to be charged to another one.
pub fn charged(write: &Write, stored: &Stored) -> Charged {
    let of_pod = write.resource == &PODS && is_named_anew(write);
    let of_all = [&POD_GROUPS, &NAMESPACES, &CONFIG_MAPS].contains(&write.resource) && changes_terms(write);
    // Where its own queue is written on the pod, nobody has to read what else is stored.
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

/// Whether a pod comes to say something else of what it is part of.
fn is_named_anew(write: &Write) -> bool {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return false;
    };
    before["metadata"]["annotations"] != after["metadata"]["annotations"]
}
