//! Nobody is evicted in vain: for whom somebody made room is let in, unless what they waited for has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::evictions;
use super::pods::is_held;
use super::rest::{OTHERWISE, what_is_told};
use super::stored::Stored;
use super::{Finding, broken, is_operator};
use crate::objects::{Key, PODS, Write};

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
