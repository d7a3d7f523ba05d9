//! What changes a workload, each with all that follows from it for the workload itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::succeeded::{Succeeded, SucceededPod};
use super::{Enqueued, Facts, Member, Phase, Said, Step, Workload, WorkloadTerms, WriteRefused};
use crate::amounts::{Amounts, Totals};
use crate::cluster::place::Place;
use crate::cluster::set_back::SetBack;
use crate::cluster::waiting::Refused;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::reason::Reason;
use crate::refs::WorkloadKind;

/// A pod that counts elsewhere than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Moved {
    /// It counts toward the minimum now.
    Core(PodId),
    /// Beyond it, since an earlier one has come.
    Extra(PodId),
    /// Beyond it, since the minimum is lower than it was.
    Freed(PodId),
}

impl Facts {
    /// Whether it waits anew by saying this: as another object, for something else, or because it is suspended again.
    pub(in crate::cluster) fn begins_anew(&self, terms: &WorkloadTerms) -> bool {
        let before = self.terms.as_ref();
        before.is_none_or(|before| before.uid != terms.uid || is_elsewhere(before, terms)) || self.is_again(terms)
    }

    /// Whether it gives up by saying this what is kept for it, and its place: else who says so shortly before its time is over, and takes it back
    /// then, would have a queue keep as much for ever.
    pub(in crate::cluster) fn gives_up(&self, terms: &WorkloadTerms) -> bool {
        self.reserved.is_some() && (!terms.may_be_kept() || terms.said == Said::Started)
    }

    /// A Job that is suspended again has given up its place; its pods are gone or going.
    fn is_again(&self, terms: &WorkloadTerms) -> bool {
        let had_left = self.terms.as_ref().is_some_and(|before| before.said != Said::Waiting);
        self.kind == WorkloadKind::Job && terms.said == Said::Waiting && had_left
    }

    /// Whether it may wait by saying this, and is no further than it was.
    fn waits_as_before(&self, terms: &WorkloadTerms) -> bool {
        let before = self.terms.as_ref().map(|before| before.said);
        terms.may_be_kept() && (terms.said == Said::Waiting || before == Some(terms.said))
    }

    /// Whether it is a Job that Cardgate holds: it makes no pods.
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
            core: BTreeSet::new(),
            extra: BTreeSet::new(),
            held: Totals::default(),
            whole: None,
            torn_since: None,
            of_tasks: BTreeMap::new(),
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

    /// It is in the list of this epoch.
    pub(in crate::cluster) fn note_listed(&mut self, epoch: u64) {
        self.0.epoch = epoch;
    }

    /// It says this of itself from now on. Returns what it said before.
    pub(in crate::cluster) fn say(&mut self, terms: WorkloadTerms, now: Timestamp) -> Option<WorkloadTerms> {
        let anew = self.begins_anew(&terms);
        let waits_as_before = !anew && self.waits_as_before(&terms);
        let was_held = self.is_held_job();
        let facts = &mut self.0;
        let before = facts.terms.take();
        // Somebody else has made it show something else.
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
            // What ran for an earlier one of its name has nothing to do with it.
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
        if facts.is_held_job() {
            facts.ran = false;
        } else if was_held {
            // Pods that were seen before their Job was seen to be resumed.
            facts.ran = facts.admitted() > 0;
        }
        // While it stands aside nobody looks at it: what it was refused for holds for as long as it waits for the same.
        if self.0.aside_until.is_none() || !waits_as_before || self.is_started() {
            self.0.refused = None;
        }
        self.wake();
        before
    }

    /// Its object is gone. Returns what it said.
    pub(in crate::cluster) fn fall_silent(&mut self) -> Option<WorkloadTerms> {
        let before = self.0.terms.take()?;
        self.0.succeeded.begin_anew_for(None);
        self.0.forget_what_it_was_told();
        self.try_anew();
        Some(before)
    }

    /// Something is another than when it was refused: that says nothing any more.
    fn try_anew(&mut self) {
        self.0.refused = None;
        self.wake();
    }

    /// Its refused pods could now be let in as far as it is concerned.
    pub(in crate::cluster) fn wake(&mut self) {
        self.0.version += 1;
    }

    /// What was decided since then is taken back.
    pub(in crate::cluster) fn set_version(&mut self, version: u64) {
        self.0.version = version;
    }

    /// One more pod names it.
    pub(in crate::cluster) fn name(&mut self) {
        self.0.named += 1;
    }

    /// One pod fewer names it.
    pub(in crate::cluster) fn unname(&mut self) {
        self.0.named -= 1;
    }

    /// A Job's pods belong to this group.
    pub(in crate::cluster) fn take_in_job(&mut self, job: WorkloadId) {
        self.0.named += usize::from(self.0.jobs.insert(job));
    }

    /// A Job's pods belong to this group no longer.
    pub(in crate::cluster) fn let_go_of_job(&mut self, job: WorkloadId) {
        self.0.named -= usize::from(self.0.jobs.remove(&job));
        self.0.jobs_kept.remove(&job);
    }

    /// Whether something is kept for a Job whose pods belong to this group.
    pub(in crate::cluster) fn note_kept_for_job(&mut self, job: WorkloadId, is_kept: bool) {
        if is_kept {
            self.0.jobs_kept.insert(job);
        } else {
            self.0.jobs_kept.remove(&job);
        }
    }

    /// A pod of it has succeeded.
    pub(in crate::cluster) fn add_succeeded(&mut self, pod: SucceededPod) {
        self.0.succeeded.insert(pod);
        self.name();
        self.wake();
    }

    /// A pod of it that had succeeded is gone.
    pub(in crate::cluster) fn remove_succeeded(&mut self, pod: &SucceededPod) {
        self.0.succeeded.remove(pod);
        self.unname();
        self.wake();
    }

    /// A pod of it has taken over from what it asks for as a whole. Of a Job that is held, that is one of before, on its way out: what ran then
    /// has nothing to do with how it is judged now.
    pub(in crate::cluster) fn note_ran(&mut self) {
        self.0.ran = !self.is_held_job();
    }

    /// A pod of it holds quota. It counts beyond the minimum until they are balanced.
    pub(in crate::cluster) fn add_member(&mut self, member: Member, task: Option<&Arc<str>>, held: &Amounts) {
        self.0.held.add_all(held);
        if let Some(task) = task {
            *self.0.of_tasks.entry(Arc::clone(task)).or_default() += 1;
        }
        self.0.extra.insert(member);
    }

    /// A pod of it holds quota no longer. Returns whether it counted beyond the minimum.
    pub(in crate::cluster) fn remove_member(
        &mut self,
        member: &Member,
        task: Option<&Arc<str>>,
        held: &Amounts,
    ) -> bool {
        self.0.held.subtract_all(held);
        if let Some(task) = task
            && let Some(count) = self.0.of_tasks.get_mut(task)
        {
            *count -= 1;
            if *count == 0 {
                self.0.of_tasks.remove(task);
            }
        }
        self.wake();
        let was_extra = self.0.extra.remove(member);
        if !was_extra {
            self.0.core.remove(member);
        }
        was_extra
    }

    /// Takes note of what its pods hold, where there are as many of them as it needs, and since when there are fewer.
    pub(in crate::cluster) fn measure(&mut self, now: Timestamp) {
        // Who deletes the group and makes it anew is torn no later by that.
        self.0.torn_since = match self.torn_since {
            since if self.is_torn() => since.or(Some(now)),
            since if self.terms.is_none() && self.admitted() > 0 => since,
            _ => None,
        };
        if self.is_whole() {
            self.0.whole = Some(self.0.held.clone());
        }
    }

    /// Moves one pod, where the first of those that hold quota are not the minimum, or are not all of it.
    pub(in crate::cluster) fn balance_one(&mut self) -> Option<Moved> {
        let least = self.min_member();
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

    /// The pods of it that name no queue, and were read before it.
    pub(in crate::cluster) fn take_without_queue(&mut self) -> BTreeSet<PodId> {
        std::mem::take(&mut self.0.without_queue)
    }

    /// A pod of it names no queue, or is no longer there to do so.
    pub(in crate::cluster) fn note_without_queue(&mut self, pod: PodId, is_there: bool) {
        if is_there {
            self.0.without_queue.insert(pod);
        } else {
            self.0.without_queue.remove(&pod);
        }
    }

    /// A pod of it waits.
    pub(in crate::cluster) fn add_waiting(&mut self, place: (Reverse<i32>, Place)) {
        self.0.line.insert(place);
        if self.missing() > 0 {
            self.wake();
        }
    }

    /// A pod of it waits no longer. Those that are left may be too few, which is another reason to wait, and none to be kept
    /// out of the queue.
    pub(in crate::cluster) fn remove_waiting(&mut self, place: &(Reverse<i32>, Place)) {
        if self.0.line.remove(place) && self.missing() > 0 {
            self.wake();
        }
    }

    /// It is in its queue.
    pub(in crate::cluster) fn enter_queue(&mut self, enqueued: Enqueued) {
        self.0.enqueued = Some(enqueued);
        self.0.was_kept_in_vain = false;
        self.try_anew();
    }

    /// It is in its queue no longer. Returns since when it was.
    pub(in crate::cluster) fn leave_queue(&mut self) -> Option<Enqueued> {
        self.0.checked = None;
        self.0.enqueued.take()
    }

    /// It stands in line for this queue.
    pub(in crate::cluster) fn line_up(&mut self, queue: QueueId) {
        self.0.in_line = Some(queue);
    }

    /// It stands in line no longer. Returns for which queue it did.
    pub(in crate::cluster) fn leave_line(&mut self) -> Option<QueueId> {
        self.0.in_line.take()
    }

    /// Its queue keeps this for it.
    pub(in crate::cluster) fn reserve(&mut self, queue: QueueId, demand: Demand) {
        self.0.reserved = Some((queue, demand));
    }

    /// Its queue was found to take what it keeps for it, if it keeps anything.
    pub(in crate::cluster) fn note_checked(&mut self) {
        if let Some((_, demand)) = &self.0.reserved {
            self.0.checked = Some(demand.clone());
        }
    }

    /// What its queue was found to take before, it need not take any more: others may have it by the time that it is kept again.
    pub(in crate::cluster) fn forget_checked(&mut self) {
        self.0.checked = None;
    }

    /// Its queue keeps nothing for it any more. Returns what it kept.
    pub(in crate::cluster) fn release(&mut self) -> Option<(QueueId, Demand)> {
        self.0.reserved.take()
    }

    /// So often reservations of its namespace ran out, and so long it stands aside for that, unless it does for longer.
    pub(in crate::cluster) fn stand_back(&mut self, lapses: u32, until: Option<Timestamp>) {
        self.0.lapses = lapses;
        self.0.aside_until = self.0.aside_until.max(until);
    }

    /// It takes no part until then.
    pub(in crate::cluster) fn stand_aside(&mut self, until: Timestamp) {
        self.0.aside_until = Some(until);
    }

    /// Its time in its queue, if it is there, begins now. What it was checked for says nothing of what others have by now.
    pub(in crate::cluster) fn begin_time_in_queue(&mut self, now: Timestamp) {
        if let Some(enqueued) = &mut self.0.enqueued {
            enqueued.since = now;
        }
        self.forget_checked();
    }

    /// Nobody stands aside for what was kept in vain where nothing is kept; only for a write that was refused.
    pub(in crate::cluster) fn step_forward(&mut self, now: Timestamp) {
        let refused_until = self.0.write_refused.as_ref().map(|refused| refused.until);
        let until = refused_until.filter(|until| *until > now);
        if self.0.aside_until.is_some() && self.0.aside_until != until {
            self.come_back();
            self.0.aside_until = until;
            // For as long as it stands aside for that write, that is why.
            let is_of_write = |(_, refused): &(Step, Refused)| refused.reason == Reason::RefusedByApiServer;
            self.0.refused = self.0.refused.filter(is_of_write).filter(|_| until.is_some());
        }
    }

    /// It stands aside no longer.
    pub(in crate::cluster) fn come_back(&mut self) {
        self.0.aside_until = None;
        self.0.was_kept_in_vain = false;
        self.wake();
    }

    /// The clock was set back.
    pub(in crate::cluster) fn bring_back(&mut self, back: SetBack) {
        let Facts {
            enqueued,
            torn_since,
            aside_until,
            waits_since,
            terms,
            write_refused,
            ..
        } = &mut self.0;
        let times = enqueued.iter_mut().map(|enqueued| &mut enqueued.since);
        times
            .chain(write_refused.iter_mut().map(|refused| &mut refused.until))
            .chain(torn_since)
            .chain(aside_until)
            .for_each(|time| back.bring_back(time));
        // Since it was created: by whose clock that is nobody knows.
        let created = terms.as_ref().map(|terms| terms.created);
        if created != Some(*waits_since) {
            back.bring_back(waits_since);
            *waits_since = (*waits_since).max(created.unwrap_or(*waits_since));
        }
    }

    /// The API server has refused to let it in. That is said each time.
    pub(in crate::cluster) fn write_was_refused(&mut self, refused: WriteRefused) {
        self.0.write_refused = Some(refused);
        self.tell_again();
    }

    /// It was not let in, or nothing is known to be in its way.
    pub(in crate::cluster) fn refuse(&mut self, refused: Option<(Step, Refused)>) {
        self.0.refused = refused;
    }

    /// What its queue kept for it was not used in time. It is told so, though that may be what it was told last.
    pub(in crate::cluster) fn note_kept_in_vain(&mut self) {
        self.0.was_kept_in_vain = true;
        self.tell_again();
    }

    /// It is told the next reason, though it may be the last one again.
    fn tell_again(&mut self) {
        self.0.told = None;
    }

    /// Its object says already why it waits, as whoever decided before has written there.
    pub(in crate::cluster) fn note_told_before(&mut self, told: Option<Reason>) {
        let terms = self.0.terms.as_ref();
        let phase = terms.and_then(|terms| Phase::from_word(terms.phase.as_deref()?));
        self.note_shown(phase.map(|phase| (phase, told)), told);
    }

    /// What its object shows from now on, and why it is told that it waits, where it is told anything.
    pub(in crate::cluster) fn note_shown(&mut self, shown: Option<(Phase, Option<Reason>)>, told: Option<Reason>) {
        self.0.shown = shown;
        self.0.told = told.or(self.0.told);
    }
}

impl Facts {
    fn forget_what_it_was_told(&mut self) {
        self.told = None;
        self.shown = None;
        self.aside_until = None;
        self.was_kept_in_vain = false;
        self.write_refused = None;
    }
}
