//! No pod is evicted in vain: a pod for which another made room is let in, unless what it waited for has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::evictions;
use super::nodes::Node;
use super::pods::{Pod, is_held};
use super::rest::{OTHERWISE, what_is_told};
use super::stored::Stored;
use super::{Finding, broken, is_operator};
use crate::objects::{Key, NODES, PODS, Write};

/// The rule.
pub const RULE: &str = "nobody is evicted in vain";

/// The pods for which room was made, and by which pods, since anything changed by which others may take the room.
#[derive(Debug, Default)]
pub struct InVain {
    made: BTreeMap<Key, Key>,
    /// Pods that were let in since the first of these. A pod that was let in before, and is placed only then, takes what
    /// could not be kept from it.
    let_in: BTreeSet<Key>,
}

impl InVain {
    /// Looks at a write before it is stored. `changes_terms` says whether the write is about what quotas and room depend on.
    pub fn hear(&mut self, write: &Write, stored: &Stored, changes_terms: bool) {
        if changes_terms {
            self.made.clear();
        }
        if let Some((victim, whom)) = evictions::said(write) {
            if stored
                .now
                .get(&PODS)
                .and_then(|pods| pods.get(&whom))
                .is_some_and(|pod| is_held(pod))
            {
                if self.made.is_empty() {
                    self.let_in.clear();
                }
                self.made.insert(whom, victim);
            }
        } else if write.resource == &PODS {
            let [was_held, is_held_now] =
                [&write.before, &write.after].map(|pod| pod.as_ref().is_some_and(|pod| is_held(pod)));
            if is_operator(&write.who) && was_held && !is_held_now {
                self.let_in.insert(write.key.clone());
            }
            let is_changed = !is_operator(&write.who) && write.before.is_some() && says_other(write);
            if is_changed || write.after.as_ref().is_none_or(|pod| !is_held(pod)) {
                let was_made_room_for = self.made.remove(&write.key).is_some();
                if !is_changed && !was_made_room_for {
                    self.give_to_one_alike(write, stored);
                }
            }
            self.give_way(write, stored);
            self.lose_what_goes_along(write, stored);
        }
    }

    /// What a pod holds counts as the cluster's as long as the pod holds it, even on a node that no longer has such a card.
    /// When such a pod ends, and was not evicted to make room, it takes away from the cluster what room was made in.
    fn lose_what_goes_along(&mut self, write: &Write, stored: &Stored) {
        let Some(before) = write.before.as_ref().map(|pod| Pod::read(&write.key, pod)) else {
            return;
        };
        let ends = write
            .after
            .as_ref()
            .is_none_or(|pod| Pod::read(&write.key, pod).is_over);
        let (Some(node), Some(card)) = (&before.node, before.assigned()) else {
            return;
        };
        if before.is_over || !ends || self.made.values().any(|victim| *victim == write.key) {
            return;
        }
        let mut nodes = stored.now.get(&NODES).into_iter().flatten();
        let object = nodes.find_map(|(key, object)| (key.name == *node).then_some(object));
        if object.is_none_or(|object| Node::read(object).card(card).is_none()) {
            let pods = stored.now.get(&PODS);
            self.made.retain(|whom, _| {
                let waits = pods.and_then(|pods| pods.get(whom)).map(|pod| Pod::read(whom, pod));
                let names = waits.as_ref().map_or_else(Vec::new, |pod| pod.names());
                // If no annotation names a card, it may be the claimed one.
                !names.is_empty() && !names.contains(&card)
            });
        }
    }

    /// Handles an admission for which no pod was evicted. If a pod was evicted for another pod with the same request, the
    /// admitted pod has got its room, since it comes first. The victim of the admitted pod itself may not have been
    /// released.
    fn give_to_one_alike(&mut self, write: &Write, stored: &Stored) {
        let (Some(pod), Some(pods)) = (&write.before, stored.now.get(&PODS)) else {
            return;
        };
        let is_alike = |whom: &&Key| {
            let other = pods.get(whom).map_or(&Value::Null, |pod| &**pod);
            whom.namespace == write.key.namespace && asked(other) == asked(pod)
        };
        if let Some(whom) = self.made.keys().find(is_alike).cloned() {
            self.made.remove(&whom);
        }
    }

    /// Forgets room that others take without being asked, or that a pod takes that may go first: that is no mistake.
    fn give_way(&mut self, write: &Write, stored: &Stored) {
        let (false, Some(pod)) = (is_operator(&write.who), &write.after) else {
            return;
        };
        let was_held = write.before.as_ref().is_none_or(|pod| is_held(pod));
        let is_placed = |pod: &Value| pod["spec"]["nodeName"].is_string();
        let was_placed = write.before.as_ref().is_some_and(|pod| is_placed(pod));
        let takes_room = is_placed(pod) && !was_placed && !self.let_in.contains(&write.key);
        if was_held && !is_held(pod) || takes_room {
            self.made.clear();
        } else if write.before.is_none() {
            let priority = |pod: &Value| pod["spec"]["priority"].as_i64().unwrap_or(0);
            let pods = stored.now.get(&PODS);
            let of = |key: &Key| pods.and_then(|pods| pods.get(key)).map_or(0, |pod| priority(pod));
            self.made.retain(|whom, _| of(whom) >= priority(pod));
        }
    }

    /// Forgets everything, since another operator does not know what was set aside.
    pub fn forget_all(&mut self) {
        self.made.clear();
    }

    /// Judges what is left when all is quiet.
    pub fn at_rest(&self, stored: &Stored) -> Finding {
        for (whom, victim) in &self.made {
            let (reason, message) = what_is_told(stored, whom).unwrap_or_default();
            if !OTHERWISE.contains(&&*reason) {
                return broken(
                    RULE,
                    format!("{victim} was evicted for {whom}, which waits: {reason}: {message}"),
                );
            }
        }
        Ok(())
    }
}

/// Returns what a pod is judged by.
fn asked(pod: &Value) -> [&Value; 2] {
    [&pod["metadata"]["annotations"], &pod["spec"]]
}

/// Whether a pod's request changes.
fn says_other(write: &Write) -> bool {
    said(write.before.as_ref()) != said(write.after.as_ref())
}

/// Returns what a pod requests, and whether it is being deleted.
fn said(pod: Option<&Arc<Value>>) -> [&Value; 4] {
    let pod = pod.map_or(&Value::Null, |pod| &**pod);
    let metadata = &pod["metadata"];
    let [labels, annotations, deleted] = ["labels", "annotations", "deletionTimestamp"].map(|field| &metadata[field]);
    [labels, annotations, deleted, &pod["spec"]]
}
