//! No queue takes a workload as a whole without room for it beside what the queue keeps for workloads that it took before
//! (Capacity Card, **Job Enqueueable Check**): `allocated + inqueue + asked - elastic <= quota`.
//!
//! An operator takes a workload in memory first, and shows it later. So pods that were let in shortly before count as
//! absent, and a finding holds only if what it rests on is still there when all of that must have been written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::amounts::{Amounts, What, add};
use super::pods::Pod;
use super::quota;
use super::stored::{self, Stored};
use super::view::View;
use super::workloads::{self, Name, Set, Workload};
use super::{Broken, Finding, is_operator};
use crate::objects::{CONFIG_MAPS, JOBS, Key, NAMESPACES, POD_GROUPS, PODS, QUEUES, Resource, Write};

/// The rule.
pub const RULE: &str = "a queue takes no workload that it has no room for";

/// What queues keep, and for which workloads, as far as that is certain.
#[derive(Debug, Default)]
pub struct Kept {
    /// The operator that let them in. Another operator decides anew.
    by: Option<Arc<str>>,
    /// Workloads that were let in and have had no admitted pod since, and when they were let in.
    workloads: BTreeMap<Name, Timestamp>,
    /// Pods that were let in recently, and when.
    pods: BTreeMap<Key, Timestamp>,
    suspicions: Vec<Suspicion>,
}

#[derive(Debug)]
struct Suspicion {
    /// When the suspicion becomes certain.
    from: Timestamp,
    rests_on: Taken,
    broken: Broken,
}

/// A workload that was taken, and the others for which something is kept. These must stay as they were until it is certain
/// that it is too much.
#[derive(Debug)]
struct Taken {
    name: Name,
    own: Workload,
    others: Vec<(Name, Workload)>,
}

impl Taken {
    fn is_about(&self, name: &Name) -> bool {
        let mut others = self.others.iter();
        self.name == *name || others.any(|(other, _)| other == name)
    }

    /// Returns where there is no room for it.
    fn excess(&self, view: &View, of_late: &BTreeMap<Key, Timestamp>) -> Option<Broken> {
        let by_quota = |above: &[String], what: &What| by_quota(view, &self.own, above, what);
        excess(view, of_late, &self.name, &self.own, &self.others, by_quota)
    }
}

impl Kept {
    /// Looks at a write before it is stored.
    pub fn hear(&mut self, write: &Write, stored: &Stored, since: Timestamp) -> Finding {
        self.certain(write.at)?;
        self.pods.retain(|_, at| *at >= since);
        self.forget_what_ends(write);
        self.let_in(write, stored);
        let Some(name) = taken(write) else { return Ok(()) };
        let is_of = |pod: &Arc<Value>, key: &Key| workloads::of_pod(&Pod::read(key, pod)).any(|of| of == name);
        let mut pods = stored.now.get(&PODS).into_iter().flatten();
        if pods.any(|(key, pod)| !super::pods::is_held(pod) && is_of(pod, key)) {
            return Ok(());
        }
        let lag = write.at.duration_since(since);
        if let Some((rests_on, broken)) = self.judge(&name, write, stored, lag) {
            let from = write.at.checked_add(lag).unwrap_or(Timestamp::MAX);
            self.suspicions.push(Suspicion { from, rests_on, broken });
        }
        self.workloads.insert(name, write.at);
        Ok(())
    }

    /// Reports suspicions that have become certain.
    pub fn certain(&self, now: Timestamp) -> Finding {
        let mut certain = self.suspicions.iter().filter(|suspicion| suspicion.from <= now);
        certain.next().map_or(Ok(()), |suspicion| Err(suspicion.broken.clone()))
    }

    /// Returns the workloads for which something is certainly kept.
    pub fn certainly(&self, view: &View) -> impl Iterator<Item = &Name> {
        let is_in_time = |at: Timestamp| view.now.duration_since(at) < view.configuration.inqueue;
        let all = self.workloads.iter();
        all.filter(move |((resource, _), at)| *resource != &JOBS || is_in_time(**at))
            .map(|(name, _)| name)
    }

    /// Forgets everything, since a newly started operator remembers nothing.
    pub fn forget_all(&mut self) {
        self.workloads.clear();
        self.suspicions.clear();
    }

    /// Notes that the wall clock jumped.
    pub fn jump(&mut self, by: SignedDuration) {
        let times = self.workloads.values_mut().chain(self.pods.values_mut());
        let times = times.chain(self.suspicions.iter_mut().map(|suspicion| &mut suspicion.from));
        times.for_each(|at| *at = at.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    fn forget(&mut self, name: &Name) {
        self.workloads.remove(name);
        self.suspicions.retain(|suspicion| !suspicion.rests_on.is_about(name));
    }

    /// Handles an admission. It was decided before it was written, perhaps before workloads were taken. By it, other pods of
    /// the group may be beyond the minimum.
    fn let_in(&mut self, write: &Write, stored: &Stored) {
        let is_it = is_operator(&write.who) && write.resource == &PODS && !self.suspicions.is_empty();
        let Some(pod) = write.after.as_ref().filter(|pod| is_it && !super::pods::is_held(pod)) else {
            return;
        };
        let pod = Pod::read(&write.key, pod);
        if let Some(view) = View::read_with(&stored.now, write.at, &BTreeSet::new(), Some(&pod)) {
            let of_late = &self.pods;
            self.suspicions
                .retain(|suspicion| suspicion.rests_on.excess(&view, of_late).is_some());
        }
    }

    /// Forgets whatever a write may end: what is kept for a workload that has changed, is let out again, or has admitted
    /// pods; and everything if queues change or another operator decides.
    fn forget_what_ends(&mut self, write: &Write) {
        let is_decision = [&PODS, &POD_GROUPS, &JOBS].contains(&write.resource);
        if is_operator(&write.who) && is_decision && self.by.as_ref() != Some(&write.who) {
            self.by = Some(Arc::clone(&write.who));
            self.forget_all();
        }
        if [&QUEUES, &CONFIG_MAPS, &NAMESPACES].contains(&write.resource) && stored::changes_terms(write) {
            self.forget_all();
        }
        if write.resource == &PODS {
            let runs = |pod: &Arc<Value>| !super::pods::is_held(pod);
            if let Some(pod) = write.after.as_ref().filter(|pod| runs(pod)) {
                if !write.before.as_ref().is_some_and(runs) {
                    self.pods.insert(write.key.clone(), write.at);
                }
                for name in workloads::of_pod(&Pod::read(&write.key, pod)) {
                    self.forget(&name);
                }
            }
        } else if write.resource == &POD_GROUPS || write.resource == &JOBS {
            let is_kept = write.after.as_ref().is_some_and(|after| is_in(write.resource, after));
            if !is_kept || write.before.as_deref().map(asked) != write.after.as_deref().map(asked) {
                self.forget(&(write.resource, write.key.clone()));
            }
        }
    }

    /// Returns what a workload and those before it come to, if that is too much by everything that may be known, and which
    /// workloads the finding rests on.
    fn judge(&self, name: &Name, write: &Write, stored: &Stored, lag: SignedDuration) -> Option<(Taken, Broken)> {
        let mut first = None;
        for known in stored.known() {
            let view = View::read(&known, write.at, &BTreeSet::new())?;
            let own = Workload::read(&view, name, write.after.as_ref()?)?;
            let others = self.others(&view, stored, name, write.at, lag);
            let taken = Taken {
                name: name.clone(),
                own,
                others,
            };
            let broken = taken.excess(&view, &self.pods)?;
            first.get_or_insert((taken, broken));
        }
        first
    }

    /// Returns the other workloads for which something is kept. A Job's time in its queue ends without a visible write.
    fn others(
        &self,
        view: &View,
        stored: &Stored,
        name: &Name,
        now: Timestamp,
        lag: SignedDuration,
    ) -> Vec<(Name, Workload)> {
        let is_in_time = |at: Timestamp| now.duration_since(at) + lag < view.configuration.inqueue;
        let others = self.workloads.iter().filter(|(other, at)| {
            let (resource, _) = other;
            *other != name && (*resource != &JOBS || is_in_time(**at))
        });
        let read = |other: &Name| {
            let object = stored.now.get(other.0)?.get(&other.1)?;
            Some((other.clone(), Workload::read(view, other, object)?))
        };
        others.filter_map(|(other, _)| read(other)).collect()
    }
}

/// Returns the workloads that are visibly in their queues, and of which no pod was let in.
fn without_pods(view: &View, stored: &Stored) -> Vec<(Name, Workload)> {
    let of = |resource: &'static Resource| {
        let all = stored.now.get(resource).into_iter().flatten();
        let is_over = |object: &Value| {
            let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|one| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True")
        };
        let waiting = all.filter(move |(_, object)| is_in(resource, object) && !is_over(object));
        waiting.map(move |(key, object)| ((resource, key.clone()), object))
    };
    let has_pods = |name: &Name| {
        let mut pods = view.pods.iter().filter(|pod| !pod.is_held);
        pods.any(|pod| workloads::of_pod(pod).any(|of| of == *name))
    };
    let kept = of(&POD_GROUPS).chain(of(&JOBS)).filter(|(name, _)| !has_pods(name));
    kept.filter_map(|(name, object)| Some((name.clone(), Workload::read(view, &name, object)?)))
        .collect()
}

/// Whether more is kept for workloads than there is room for, in their queues and beside the guarantees of others. A
/// restarted operator can't know what was there before others took it, so it keeps nothing for some of them.
pub fn is_beyond_room(view: &View, stored: &Stored) -> bool {
    let kept = without_pods(view, stored);
    let nobody = BTreeMap::new();
    kept.iter().any(|(name, own)| {
        let others: Vec<_> = kept.iter().filter(|(other, _)| other != name).cloned().collect();
        let left = |above: &[String], what: &What| match above.first() {
            Some(level) => quota::real_capability(view, above, *level == own.queue, what),
            None => quota::cluster_limit(view, what),
        };
        excess(view, &nobody, name, own, &others, left).is_some()
    })
}

/// Whether something may be kept for a Job whose pods do not come: that ends and begins again without a visible write.
pub fn is_for_jobs(view: &View, stored: &Stored) -> bool {
    without_pods(view, stored)
        .iter()
        .any(|((resource, _), _)| *resource == &JOBS)
}

/// Returns what a workload asks for.
fn asked(object: &Value) -> [&Value; 2] {
    [&object["spec"], &object["metadata"]["annotations"]]
}

/// Whether a workload is visibly in its queue.
fn is_in(resource: &'static Resource, object: &Value) -> bool {
    if resource == &JOBS {
        object["spec"]["suspend"] != true
    } else {
        object["status"]["phase"] == "Inqueue"
    }
}

/// Returns the workload that an operator lets into its queue by this write.
fn taken(write: &Write) -> Option<Name> {
    let (before, after) = (write.before.as_ref()?, write.after.as_ref()?);
    let is_one = [&POD_GROUPS, &JOBS].contains(&write.resource) && is_operator(&write.who);
    (is_one && is_in(write.resource, after) && !is_in(write.resource, before))
        .then(|| (write.resource, write.key.clone()))
}

/// Returns what a queue, the first of these, allows at most of what a workload asks for. Above the workload's own queue,
/// other queues may have to give something back, if reclaim is on.
fn by_quota(view: &View, own: &Workload, above: &[String], what: &What) -> Option<i128> {
    let level = above.first()?;
    let is_leaf = *level == own.queue;
    if view.configuration.reclaims && !is_leaf {
        return None;
    }
    quota::limit(view, level, is_leaf, what)
}

/// Returns where a workload has no room: in its queue, in a queue above it, or in the cluster. The limit of each queue is
/// asked for with the queues above it, and that of the cluster without any.
fn excess(
    view: &View,
    of_late: &BTreeMap<Key, Timestamp>,
    name: &Name,
    own: &Workload,
    others: &[(Name, Workload)],
    limit: impl Fn(&[String], &What) -> Option<i128>,
) -> Option<Broken> {
    if !view.configuration.enqueues {
        return None;
    }
    let path = view.tree.path(&own.queue);
    for place in 0..=path.len() {
        let above = &path[place..];
        let level = above.first().map(String::as_str);
        let mut sums = Amounts::new();
        for pod in view.pods.iter().filter(|pod| !of_late.contains_key(&pod.key)) {
            if let Some(charge) = view.charge(pod)
                && view.tree.is_within(&charge.queue, level)
            {
                add(&mut sums, &charge.amounts);
            }
        }
        let elastic = workloads::elastic(view, level);
        let has = |what: &What| sums.get(what).copied().unwrap_or(0) - elastic.get(what).copied().unwrap_or(0);
        let beside = || {
            let beside = others.iter().map(|(_, other)| other);
            beside.filter(|other| view.tree.is_within(&other.queue, level))
        };
        let says = |what: &str, asked: i128, has: i128, kept: i128, limit: i128| {
            let (_, key) = name;
            let level = level.unwrap_or("the cluster");
            Broken {
                rule: RULE,
                what: format!(
                    "{level} takes {key}, which asks for {asked} {what}, has {has} beside what it could take back, keeps {kept} \
                     for others, and may have {limit}"
                ),
            }
        };
        for (resource, asked) in &own.resources {
            let what = What::Resource(resource.clone());
            let kept: i128 = beside().filter_map(|other| other.resources.get(resource)).sum();
            if let Some(limit) = limit(above, &what).filter(|limit| *asked > 0 && has(&what) + kept + asked > *limit) {
                return Some(says(resource, *asked, has(&what), kept, limit));
            }
        }
        for set in own.cards.keys() {
            let whats: Vec<_> = set.iter().cloned().map(What::Card).collect();
            let has: i128 = whats.iter().map(has).sum();
            let limit: Option<i128> = whats.iter().map(|what| limit(above, what)).sum();
            let kept = beside().map(|other| of_set(other, set)).sum();
            let asked = of_set(own, set);
            if let Some(limit) = limit.filter(|limit| has + kept + asked > *limit) {
                let names: Vec<_> = set.iter().map(String::as_str).collect();
                return Some(says(&names.join("|"), asked, has, kept, limit));
            }
        }
    }
    None
}

/// Returns what a workload asks for that is certainly of these cards.
pub fn of_set(workload: &Workload, set: &Set) -> i128 {
    let sets = workload.cards.iter().filter(|(other, _)| other.is_subset(set));
    sets.map(|(_, count)| count).sum()
}
