//! No gang stays cut in two: when all is quiet, of a group whose pods are let in together as many pods are in as it needs,
//! or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::keys::{GROUP_NAME, TASK_SPEC};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::pods::is_held;
use super::stored::Stored;
use super::{Finding, admission, broken, is_operator};
use crate::objects::{Key, POD_GROUPS, PODS, Write};

/// The rule.
pub const RULE: &str = "no gang stays cut in two";

/// When events of each group happened.
#[derive(Debug, Default)]
pub struct Gangs {
    /// When an operator last let in a pod of the group.
    admitted: BTreeMap<Key, Timestamp>,
    /// When a pod of the group last ended, was removed, was refused for good, or was let run by others.
    disturbed: BTreeMap<Key, Timestamp>,
    /// How long a gang may be cut in two while writes are on their way; `None` if that is not judged.
    most: Option<SignedDuration>,
    /// Whether others cut gangs in two, and faults happen. Then what excuses a cut gang at rest excuses it here too, and the
    /// time counts from [`Self::undisturbed`] on.
    is_disturbed: bool,
    /// Since when no fault has happened, and nobody has changed the available room.
    undisturbed: Timestamp,
    /// Since when each gang is cut in two.
    cut: BTreeMap<Key, Timestamp>,
    /// The pods of each group that were seen and are not gone, if that is judged.
    members: BTreeMap<Key, BTreeSet<Key>>,
    /// When nodes, queues, groups or the configuration last changed. Room for the rest of a gang may be gone since.
    changed: Timestamp,
    /// Until when an operator may not have seen how many pods each group needs, since that was changed.
    unseen_until: BTreeMap<Key, Timestamp>,
}

impl Gangs {
    /// Gangs may be cut in two for this time.
    pub fn cut_at_most(most: SignedDuration) -> Self {
        Self {
            most: Some(most),
            ..Self::default()
        }
    }

    /// Gangs may be cut in two for this time after the last fault.
    pub fn heal_within(most: SignedDuration) -> Self {
        Self {
            is_disturbed: true,
            ..Self::cut_at_most(most)
        }
    }

    /// Notes a fault.
    pub fn disturb(&mut self, at: Timestamp) {
        self.undisturbed = at;
    }

    /// Judges after a write was stored how long gangs have been cut in two: some of their pods were let in, but fewer than
    /// they need.
    pub fn cut(&mut self, write: &Write, stored: &Stored) -> Finding {
        let Some(most) = self.most else { return Ok(()) };
        let object = write.after.as_ref().or(write.before.as_ref());
        if self.is_disturbed && !is_operator(&write.who) && lets_run(write) {
            self.undisturbed = write.at;
        }
        if write.resource == &PODS
            && let Some(group) = object.and_then(|pod| pod["metadata"]["annotations"][GROUP_NAME].as_str())
        {
            let group = Key::new(&*write.key.namespace, group);
            let members = self.members.entry(group.clone()).or_default();
            if write.after.is_some() {
                members.insert(write.key.clone());
            } else {
                members.remove(&write.key);
            }
            let pods = stored.now.get(&PODS);
            let members = members.iter().filter_map(|member| pods?.get(member));
            let let_in = members.filter(|pod| !is_held(pod)).count() as u64;
            let groups = stored.now.get(&POD_GROUPS);
            let least = groups.and_then(|groups| groups.get(&group)?["spec"]["minMember"].as_u64());
            if let_in > 0 && let_in < least.unwrap_or(1) {
                self.cut.entry(group).or_insert(write.at);
            } else {
                self.cut.remove(&group);
            }
        }
        let is_late = |since: &Timestamp| write.at.duration_since((*since).max(self.undisturbed)) > most;
        let mut late = self.cut.iter().filter(|(_, since)| is_late(since));
        if !self.is_disturbed {
            return late.next().map_or(Ok(()), |(group, since)| {
                broken(RULE, format!("group {group} has been since {since}"))
            });
        }
        let late: Vec<_> = late.map(|(group, _)| group.clone()).collect();
        for group in late {
            self.judge(&group, stored)?;
            // The excuse may end after some time.
            self.cut.insert(group, write.at);
        }
        Ok(())
    }

    /// Looks at a write, which may take `lag` to reach an operator. `changes_terms` says whether the write is about what quotas and
    /// room depend on.
    pub fn hear(&mut self, write: &Write, changes_terms: bool, lag: SignedDuration) {
        if changes_terms {
            self.changed = write.at;
            if self.is_disturbed {
                self.undisturbed = write.at;
            }
        }
        let Some(object) = write.after.as_ref().or(write.before.as_ref()) else {
            return;
        };
        let needs_others = write
            .before
            .as_ref()
            .is_some_and(|before| before["spec"] != object["spec"]);
        if write.resource == &POD_GROUPS && needs_others {
            let until = write.at.checked_add(lag).unwrap_or(Timestamp::MAX);
            self.unseen_until.insert(write.key.clone(), until);
        }
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

    /// Notes that the wall clock jumped.
    pub fn jump(&mut self, by: SignedDuration) {
        let times = self.admitted.values_mut().chain(self.disturbed.values_mut());
        times
            .chain(self.cut.values_mut())
            .chain(self.unseen_until.values_mut())
            .chain([&mut self.changed, &mut self.undisturbed])
            .for_each(|at| *at = at.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Judges all groups, when all is quiet.
    pub fn at_rest(&self, stored: &Stored) -> Finding {
        let mut groups = stored.now.get(&POD_GROUPS).into_iter().flatten();
        groups.try_for_each(|(key, _)| self.judge(key, stored))
    }

    /// Judges one group, as if no write were on its way.
    fn judge(&self, key: &Key, stored: &Stored) -> Finding {
        let group = stored.now.get(&POD_GROUPS).and_then(|groups| groups.get(key));
        let (Some(group), Some(admitted)) = (group, self.admitted.get(key)) else {
            return Ok(());
        };
        let is_excused = *admitted <= self.changed
            || self.disturbed.get(key).is_some_and(|at| admitted <= at)
            || self.unseen_until.get(key).is_some_and(|until| admitted <= until);
        let least = group["spec"]["minMember"].as_u64().unwrap_or(0);
        if is_excused || pods(stored, key).any(is_refused) {
            return Ok(());
        }
        for (task, least) in [(None, least)].into_iter().chain(tasks(group, least)) {
            let is_its = |pod: &&Value| task.is_none_or(|task| is_of_task(pod, task));
            let (held, let_in): (Vec<_>, Vec<_>) = pods(stored, key).filter(is_its).partition(|pod| is_held(pod));
            let others = pods(stored, key).filter(|pod| !is_held(pod)).count();
            if !held.is_empty() && others > 0 && (let_in.len() as u64) < least {
                let (held, let_in) = (held.len(), let_in.len());
                let of_task = task.map_or_else(String::new, |task| format!(" of task {task}"));
                return broken(
                    RULE,
                    format!("of group {key}, which needs {least} pods{of_task}, {let_in} are let in, and {held} wait"),
                );
            }
        }
        Ok(())
    }
}

/// Whether a write lets a pod run.
fn lets_run(write: &Write) -> bool {
    let runs = |pod: &Option<Arc<Value>>| pod.as_ref().is_some_and(|pod| !is_held(pod));
    write.resource == &PODS && runs(&write.after) && !runs(&write.before)
}

fn pods<'a>(stored: &'a Stored, group: &'a Key) -> impl Iterator<Item = &'a Value> {
    let pods = stored.now.get(&PODS).into_iter().flatten();
    pods.filter(|(key, _)| key.namespace == group.namespace)
        .map(|(_, pod)| &**pod)
        .filter(|pod| pod["metadata"]["annotations"][GROUP_NAME] == *group.name)
}

/// Returns how many pods a group needs of each task, if it needs that many in all.
fn tasks(group: &Value, least: u64) -> Vec<(Option<&str>, u64)> {
    let tasks = group["spec"]["minTaskMember"].as_object().into_iter().flatten();
    let tasks: Vec<_> = tasks
        .filter_map(|(task, least)| Some((Some(&**task), least.as_u64()?)))
        .collect();
    let sum: u64 = tasks.iter().map(|(_, least)| least).sum();
    if sum <= least { tasks } else { Vec::new() }
}

fn is_of_task(pod: &Value, task: &str) -> bool {
    let maps = ["labels", "annotations"].map(|map| &pod["metadata"][map][TASK_SPEC]);
    maps.into_iter().find_map(Value::as_str) == Some(task)
}

/// Whether the API server refuses the pod's admission for good.
fn is_refused(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["reason"] == "RefusedByAPIServer")
}
