//! The methods that change what a workload says, who belongs to it and who of them waits. Each also makes the changes to the workload itself
//! that follow. For its way into its queue see `progress`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::succeeded::{Succeeded, SucceededPod};
use super::{Facts, Member, Said, Workload, WorkloadTerms};
use crate::amounts::{Amounts, Totals};
use crate::cluster::place::Place;
use crate::ids::{PodId, WorkloadId};
use crate::refs::WorkloadKind;

/// A pod that counts elsewhere than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Moved {
    /// It counts toward the minimum now.
    Core(PodId),
    /// The pod counts beyond the minimum now, since an earlier pod has come.
    Extra(PodId),
    /// The pod counts beyond the minimum now, since the minimum is lower than it was.
    Freed(PodId),
}

impl Facts {
    /// Whether a workload that now says `terms` waits anew: as another object, for something else, or because it is
    /// suspended again.
    pub(in crate::cluster) fn begins_anew(&self, terms: &WorkloadTerms) -> bool {
        let before = self.terms.as_ref();
        before.is_none_or(|before| before.uid != terms.uid || is_elsewhere(before, terms)) || self.is_again(terms)
    }

    /// Whether a workload that now says `terms` gives up what is kept for it, and its place. Otherwise a workload could
    /// say so shortly before its time is over, take it back then, and so have a queue keep as much for ever.
    pub(in crate::cluster) fn gives_up(&self, terms: &WorkloadTerms) -> bool {
        self.reserved.is_some() && (!terms.may_be_kept() || terms.said == Said::Started)
    }

    /// Whether a Job is suspended again. It has then given up its place, and its pods are gone or going.
    fn is_again(&self, terms: &WorkloadTerms) -> bool {
        let had_left = self.terms.as_ref().is_some_and(|before| before.said != Said::Waiting);
        self.kind == WorkloadKind::Job && terms.said == Said::Waiting && had_left
    }

    /// Whether a workload that now says `terms` may wait, and is no further than it was.
    fn waits_as_before(&self, terms: &WorkloadTerms) -> bool {
        let before = self.terms.as_ref().map(|before| before.said);
        terms.may_be_kept() && (terms.said == Said::Waiting || before == Some(terms.said))
    }

    /// Divides by the minimum that the workload says by now, if none of its pods holds quota: then there is nothing to divide.
    fn take_minimum_if_none_hold(&mut self) {
        if self.admitted() == 0 {
            self.divided_by = self.min_member();
        }
    }

    /// Whether it is a Job that Cardgate holds, and that therefore makes no pods.
    fn is_held_job(&self) -> bool {
        let is_held = |terms: &WorkloadTerms| terms.said == Said::Waiting;
        self.kind == WorkloadKind::Job && self.terms.as_ref().is_some_and(is_held)
    }
}

fn is_elsewhere(before: &WorkloadTerms, terms: &WorkloadTerms) -> bool {
    before.queue != terms.queue || before.demand != terms.demand
}

impl Workload {
    pub(in crate::cluster) fn new(kind: WorkloadKind, namespace: Arc<str>, name: &str, arrival: u64) -> Self {
        Self(Facts {
            kind,
            namespace,
            name: name.into(),
            terms: None,
            enqueued: None,
            waits_since: Timestamp::MAX,
            in_line: None,
            jobs: BTreeSet::new(),
            jobs_kept: BTreeSet::new(),
            lapses: 0,
            ran: false,
            divided_by: 1,
            core: BTreeSet::new(),
            extra: BTreeSet::new(),
            held: Totals::default(),
            whole: None,
            torn_since: None,
            of_tasks: BTreeMap::new(),
            lacking_of_tasks: 0,
            succeeded: Succeeded::default(),
            without_queue: BTreeSet::new(),
            line: BTreeSet::new(),
            named: 0,
            reserved: None,
            checked: None,
            refused: None,
            told: None,
            shown: None,
            aside_until: None,
            was_kept_in_vain: false,
            write_refused: None,
            version: 0,
            arrival,
            epoch: 0,
        })
    }

    /// Notes that the workload is in the list of this epoch.
    pub(in crate::cluster) fn note_listed(&mut self, epoch: u64) {
        self.0.epoch = epoch;
    }

    /// Sets what the workload says of itself from now on. Returns what it said before.
    pub(in crate::cluster) fn say(&mut self, terms: WorkloadTerms, now: Timestamp) -> Option<WorkloadTerms> {
        let anew = self.begins_anew(&terms);
        let waits_as_before = !anew && self.waits_as_before(&terms);
        let was_held = self.is_held_job();
        let facts = &mut self.0;
        let before = facts.terms.take();
        // Somebody else has made the object show another phase.
        let changed = before.as_ref().is_some_and(|before| before.phase != terms.phase);
        if changed && terms.phase.as_deref() != facts.shown.map(|(phase, _)| phase.as_str()) {
            facts.shown = None;
        }
        match &before {
            Some(before) if before.uid == terms.uid => {
                if is_elsewhere(before, &terms) {
                    facts.waits_since = now.max(terms.created);
                }
            }
            // What ran for an earlier object of this name has nothing to do with this one.
            _ => {
                facts.ran = facts.admitted() > 0;
                facts.waits_since = terms.created;
            }
        }
        if anew && before.is_some() {
            facts.forget_what_it_was_told();
        }
        facts.succeeded.begin_anew_for(Some(terms.created));
        facts.terms = Some(terms);
        facts.take_minimum_if_none_hold();
        facts.count_what_tasks_lack();
        if facts.is_held_job() {
            facts.ran = false;
        } else if was_held {
            // These pods were seen before their Job was seen to be resumed.
            facts.ran = facts.admitted() > 0;
        }
        // While the workload stands aside, nobody looks at it. The reason for its refusal holds for as long as it waits
        // for the same.
        if self.0.aside_until.is_none() || !waits_as_before || self.is_started() {
            self.0.refused = None;
        }
        self.wake();
        before
    }

    /// Notes that the workload's object is gone. Returns what it said.
    pub(in crate::cluster) fn fall_silent(&mut self) -> Option<WorkloadTerms> {
        let before = self.0.terms.take()?;
        self.0.succeeded.begin_anew_for(None);
        self.0.take_minimum_if_none_hold();
        self.0.count_what_tasks_lack();
        self.0.forget_what_it_was_told();
        self.try_anew();
        Some(before)
    }

    /// Forgets the last refusal, since something has changed that it was based on.
    pub(super) fn try_anew(&mut self) {
        self.0.refused = None;
        self.wake();
    }

    /// Notes that the workload's refused pods could now be let in as far as the workload is concerned.
    pub(in crate::cluster) fn wake(&mut self) {
        self.0.version += 1;
    }

    /// Sets the version back, where what was decided since then is taken back.
    pub(in crate::cluster) fn set_version(&mut self, version: u64) {
        self.0.version = version;
    }

    /// Notes that one more pod names the workload.
    pub(in crate::cluster) fn name(&mut self) {
        self.0.named += 1;
    }

    /// Notes that one pod fewer names the workload.
    pub(in crate::cluster) fn unname(&mut self) {
        self.0.named -= 1;
    }

    /// Notes that a Job's pods belong to this group.
    pub(in crate::cluster) fn take_in_job(&mut self, job: WorkloadId) {
        self.0.named += usize::from(self.0.jobs.insert(job));
    }

    /// Notes that a Job's pods no longer belong to this group.
    pub(in crate::cluster) fn let_go_of_job(&mut self, job: WorkloadId) {
        self.0.named -= usize::from(self.0.jobs.remove(&job));
        self.0.jobs_kept.remove(&job);
    }

    /// Notes whether something is kept for a Job whose pods belong to this group.
    pub(in crate::cluster) fn note_kept_for_job(&mut self, job: WorkloadId, is_kept: bool) {
        if is_kept {
            self.0.jobs_kept.insert(job);
        } else {
            self.0.jobs_kept.remove(&job);
        }
    }

    /// Notes that a pod of the workload has succeeded.
    pub(in crate::cluster) fn add_succeeded(&mut self, pod: SucceededPod) {
        self.0.succeeded.insert(pod);
        self.0.count_what_tasks_lack();
        self.name();
        self.wake();
    }

    /// Notes that a pod of the workload that had succeeded is gone.
    pub(in crate::cluster) fn remove_succeeded(&mut self, pod: &SucceededPod) {
        self.0.succeeded.remove(pod);
        self.0.count_what_tasks_lack();
        self.unname();
        self.wake();
    }

    /// Notes that a pod of the workload has taken over from what the workload asks for as a whole. For a Job that is held
    /// this does not count: the pod is from before the Job was held and on its way out, and what ran then has nothing to
    /// do with how the Job is judged now.
    pub(in crate::cluster) fn note_ran(&mut self) {
        self.0.ran = !self.is_held_job();
    }

    /// Notes that a pod of the workload holds quota. The pod counts beyond the minimum until core and extra are balanced.
    pub(in crate::cluster) fn add_member(&mut self, member: Member, task: Option<&Arc<str>>, held: &Amounts) {
        self.0.held.add_all(held);
        if let Some(task) = task {
            let lacked = self.0.lacking_of_task(task);
            *self.0.of_tasks.entry(Arc::clone(task)).or_default() += 1;
            self.0.lacking_of_tasks -= lacked - self.0.lacking_of_task(task);
        }
        self.0.extra.insert(member);
    }

    /// Notes that a pod of the workload no longer holds quota. Returns whether the pod counted beyond the minimum.
    pub(in crate::cluster) fn remove_member(
        &mut self,
        member: &Member,
        task: Option<&Arc<str>>,
        held: &Amounts,
    ) -> bool {
        self.0.held.subtract_all(held);
        if let Some(task) = task {
            let lacked = self.0.lacking_of_task(task);
            if let Some(count) = self.0.of_tasks.get_mut(task) {
                *count -= 1;
                if *count == 0 {
                    self.0.of_tasks.remove(task);
                }
            }
            self.0.lacking_of_tasks += self.0.lacking_of_task(task) - lacked;
        }
        self.wake();
        let was_extra = self.0.extra.remove(member);
        if !was_extra {
            self.0.core.remove(member);
        }
        was_extra
    }

    /// Records what the workload's pods hold, where there are as many of them as it needs, and else since when there are
    /// fewer.
    pub(in crate::cluster) fn measure(&mut self, now: Timestamp) {
        // When a group is deleted and made anew, it counts as torn since the same time as before.
        self.0.torn_since = match self.torn_since {
            since if self.is_torn() => since.or(Some(now)),
            since if self.terms.is_none() && self.admitted() > 0 => since,
            _ => None,
        };
        if self.is_whole() {
            self.0.whole = Some(self.0.held.clone());
        }
    }

    /// Takes the minimum that the workload says by now. Core and extra are divided by it as [`Self::balance_one`] is called.
    pub(in crate::cluster) fn take_minimum(&mut self) {
        self.0.divided_by = self.min_member();
    }

    /// Moves one pod between core and extra, where the core is not the earliest pods that hold quota, up to the minimum
    /// that they are divided by. Returns the move; none where all is in order.
    pub(in crate::cluster) fn balance_one(&mut self) -> Option<Moved> {
        let least = self.divided_by;
        let Facts { core, extra, .. } = &mut self.0;
        let out_of_order = core.last() > extra.first() && !extra.is_empty();
        let is_lowered = core.len() > least;
        if is_lowered || (out_of_order && core.len() == least) {
            let member = core.pop_last()?;
            let pod = member.2;
            extra.insert(member);
            return Some(if is_lowered {
                Moved::Freed(pod)
            } else {
                Moved::Extra(pod)
            });
        }
        let member = if core.len() < least {
            extra.pop_first()?
        } else {
            return None;
        };
        let pod = member.2;
        core.insert(member);
        Some(Moved::Core(pod))
    }

    /// Returns the group's pods that name no queue and were read before the group, and forgets them.
    pub(in crate::cluster) fn take_without_queue(&mut self) -> BTreeSet<PodId> {
        std::mem::take(&mut self.0.without_queue)
    }

    /// Notes that a pod of the group names no queue, or is no longer there to do so.
    pub(in crate::cluster) fn note_without_queue(&mut self, pod: PodId, is_there: bool) {
        if is_there {
            self.0.without_queue.insert(pod);
        } else {
            self.0.without_queue.remove(&pod);
        }
    }

    /// Notes that a pod of the workload waits.
    pub(in crate::cluster) fn add_waiting(&mut self, place: (Reverse<i32>, Place)) {
        self.0.line.insert(place);
        if self.missing() > 0 {
            self.wake();
        }
    }

    /// Notes that a pod of the workload waits no longer. The pods that are left may be too few: this is another reason to
    /// wait, and no reason to keep the workload out of its queue.
    pub(in crate::cluster) fn remove_waiting(&mut self, place: &(Reverse<i32>, Place)) {
        if self.0.line.remove(place) && self.missing() > 0 {
            self.wake();
        }
    }
}

impl Facts {
    /// Counts anew how many pods the tasks lack, once the workload says something else or other pods have succeeded.
    fn count_what_tasks_lack(&mut self) {
        let tasks = self.terms.iter().flat_map(|terms| terms.tasks.iter());
        self.lacking_of_tasks = tasks.map(|(task, least)| self.lacking_of(task, *least)).sum();
    }

    /// Returns how many pods a task lacks; 0 for a task that the workload does not name.
    fn lacking_of_task(&self, task: &str) -> usize {
        let tasks = self.terms.as_ref().map_or(&[][..], |terms| &terms.tasks);
        let place = tasks.binary_search_by(|(name, _)| (**name).cmp(task));
        place.map_or(0, |place| self.lacking_of(task, tasks[place].1))
    }

    /// Returns how many pods a task lacks that needs at least so many.
    fn lacking_of(&self, task: &str, least: usize) -> usize {
        let admitted = self.of_tasks.get(task).copied().unwrap_or(0);
        least.saturating_sub(admitted + self.succeeded.of_task(task))
    }
}
