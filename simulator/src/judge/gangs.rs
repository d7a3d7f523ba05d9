//! No gang stays cut in two: once all is quiet, of a group whose pods are let in together as many are in as it needs, or none.

use std::collections::BTreeMap;

use crds::keys::GROUP_NAME;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::pods::is_held;
use super::stored::Stored;
use super::{Finding, admission, broken, is_operator};
use crate::objects::{Key, POD_GROUPS, PODS, Write};

/// The rule.
pub const RULE: &str = "no gang stays cut in two";

/// When what happened to each group.
#[derive(Debug, Default)]
pub struct Gangs {
    /// When an operator last let in a pod of it.
    admitted: BTreeMap<Key, Timestamp>,
    /// When one of its pods last ended, went, was refused for good, or was let run by others.
    disturbed: BTreeMap<Key, Timestamp>,
    /// When nodes, queues, groups or the configuration last changed: what was room for the rest may be none since.
    changed: Timestamp,
}

impl Gangs {
    /// Looks at a write; `changes_terms` says whether it is about what quotas and room rest on.
    pub fn hear(&mut self, write: &Write, changes_terms: bool) {
        if changes_terms {
            self.changed = write.at;
        }
        let Some(object) = write.after.as_ref().or(write.before.as_ref()) else {
            return;
        };
        let group = &object["metadata"]["annotations"][GROUP_NAME];
        let (true, Some(group)) = (write.resource == &PODS, group.as_str()) else {
            return;
        };
        let group = Key::new(&*write.key.namespace, group);
        let is_alive = |pod: &Value| {
            !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        if is_operator(&write.who) && admission::is_one(write) {
            self.admitted.insert(group, write.at);
        } else if !write.after.as_deref().is_some_and(is_alive)
            || write
                .before
                .as_deref()
                .is_some_and(|pod| is_held(pod) && !is_held(object))
        {
            self.disturbed.insert(group, write.at);
        }
    }

    /// The clock on the wall jumped.
    pub fn jump(&mut self, by: k8s_openapi::jiff::SignedDuration) {
        let times = self.admitted.values_mut().chain(self.disturbed.values_mut());
        times
            .chain([&mut self.changed])
            .for_each(|at| *at = at.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Judges all groups, when all is quiet.
    pub fn at_rest(&self, stored: &Stored) -> Finding {
        let groups = stored.now.get(&POD_GROUPS).into_iter().flatten();
        for (key, group) in groups {
            let Some(admitted) = self.admitted.get(key) else {
                continue;
            };
            let is_excused = *admitted <= self.changed || self.disturbed.get(key).is_some_and(|at| admitted <= at);
            let least = group["spec"]["minMember"].as_u64().unwrap_or(0);
            let (mut held, mut in_, mut refused) = (0, 0, false);
            for pod in pods(stored, key) {
                if is_held(pod) {
                    held += 1;
                } else {
                    in_ += 1;
                }
                refused |= is_refused(pod);
            }
            if !is_excused && !refused && held > 0 && 0 < in_ && in_ < least {
                return broken(
                    RULE,
                    format!("of group {key}, which needs {least} pods, {in_} are let in, and {held} wait"),
                );
            }
        }
        Ok(())
    }
}

fn pods<'a>(stored: &'a Stored, group: &'a Key) -> impl Iterator<Item = &'a Value> {
    let pods = stored.now.get(&PODS).into_iter().flatten();
    pods.filter(|(key, _)| key.namespace == group.namespace)
        .map(|(_, pod)| &**pod)
        .filter(|pod| pod["metadata"]["annotations"][GROUP_NAME] == *group.name)
}

/// Whether the API server refuses for good to let this pod in.
fn is_refused(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["reason"] == "RefusedByAPIServer")
}
