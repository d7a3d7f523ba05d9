//! Nobody is evicted in vain: for whom somebody made room is let in, unless what they waited for has changed.

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

/// For whom somebody made room, and who, since anything changed that somebody else may take it by.
#[derive(Debug, Default)]
pub struct InVain {
    made: BTreeMap<Key, Key>,
    /// Who was let in since the first of them: whoever is placed then, and was let in before, takes what nobody could keep from him.
    let_in: BTreeSet<Key>,
}

impl InVain {
    /// Looks at a write, before it is stored; `changes_terms` says whether it is about what quotas and room rest on.
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

    /// What a pod holds is the cluster's for as long as it does, also on a node that has no such card any more: whoever goes there, and was not
    /// to go for others, takes from the cluster what room was made in.
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
                // Of what no annotation names, it may be the one that is claimed.
                !names.is_empty() && !names.contains(&card)
            });
        }
    }

    /// A pod is let in for which nobody was evicted: where somebody was for one that asks for the same, it has got that, since it comes first.
    /// Who was to go for it itself may not have been let go.
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

    /// What somebody else takes without being asked, or who may go first, is nobody's mistake.
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

    /// Another operator knows nothing of what was set aside.
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

/// What a pod is judged by.
fn asked(pod: &Value) -> [&Value; 2] {
    [&pod["metadata"]["annotations"], &pod["spec"]]
}

/// Whether a pod asks for something else than before.
fn says_other(write: &Write) -> bool {
    said(write.before.as_ref()) != said(write.after.as_ref())
}

/// What a pod asks for, and whether it is to go.
fn said(pod: Option<&Arc<Value>>) -> [&Value; 4] {
    let pod = pod.map_or(&Value::Null, |pod| &**pod);
    let metadata = &pod["metadata"];
    let [labels, annotations, deleted] = ["labels", "annotations", "deletionTimestamp"].map(|field| &metadata[field]);
    [labels, annotations, deleted, &pod["spec"]]
}
