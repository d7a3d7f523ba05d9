//! The methods that change how far a workload is on its way into its queue: its place there, what is kept for it, how long it stands
//! aside, and what it is told.

use jiff::Timestamp;

use super::{Enqueued, Facts, Phase, Step, Workload, WriteRefused};
use crate::cluster::set_back::SetBack;
use crate::cluster::waiting::Refused;
use crate::ids::QueueId;
use crate::inqueue::Demand;
use crate::reason::Reason;

impl Workload {
    /// Notes that the workload is in its queue.
    pub(in crate::cluster) fn enter_queue(&mut self, enqueued: Enqueued) {
        self.0.enqueued = Some(enqueued);
        self.0.was_kept_in_vain = false;
        self.try_anew();
    }

    /// Notes that the workload is no longer in its queue. Returns since when it was.
    pub(in crate::cluster) fn leave_queue(&mut self) -> Option<Enqueued> {
        self.0.checked = None;
        self.0.enqueued.take()
    }

    /// Notes that the workload stands in line for this queue.
    pub(in crate::cluster) fn line_up(&mut self, queue: QueueId) {
        self.0.in_line = Some(queue);
    }

    /// Notes that the workload stands in line no longer. Returns the queue for which it did.
    pub(in crate::cluster) fn leave_line(&mut self) -> Option<QueueId> {
        self.0.in_line.take()
    }

    /// Notes what the workload's queue keeps for it.
    pub(in crate::cluster) fn reserve(&mut self, queue: QueueId, demand: Demand) {
        self.0.reserved = Some((queue, demand));
    }

    /// Notes that the workload's queue was found to take what it keeps for the workload, if it keeps anything.
    pub(in crate::cluster) fn note_checked(&mut self) {
        if let Some((_, demand)) = &self.0.reserved {
            self.0.checked = Some(demand.clone());
        }
    }

    /// Forgets what the queue was found to take: the queue need not take it any more, since others may have it by the time
    /// that it is kept again.
    pub(in crate::cluster) fn forget_checked(&mut self) {
        self.0.checked = None;
    }

    /// Notes that the queue keeps nothing for the workload any more. Returns what it kept.
    pub(in crate::cluster) fn release(&mut self) -> Option<(QueueId, Demand)> {
        self.0.reserved.take()
    }

    /// Notes how often reservations of the workload's namespace ran out, and until when the workload stands aside for
    /// that. Where it already stands aside for longer, that stays.
    pub(in crate::cluster) fn stand_back(&mut self, lapses: u32, until: Option<Timestamp>) {
        self.0.lapses = lapses;
        self.0.aside_until = self.0.aside_until.max(until);
    }

    /// Notes that the workload takes no part until then.
    pub(in crate::cluster) fn stand_aside(&mut self, until: Timestamp) {
        self.0.aside_until = Some(until);
    }

    /// Starts the workload's time in its queue, if it is there, from now. What it was checked for says nothing of what
    /// others have by now.
    pub(in crate::cluster) fn begin_time_in_queue(&mut self, now: Timestamp) {
        if let Some(enqueued) = &mut self.0.enqueued {
            enqueued.since = now;
        }
        self.forget_checked();
    }

    /// Ends standing aside for what was kept in vain, since nothing is kept any more. The workload still stands aside for
    /// a write that was refused.
    pub(in crate::cluster) fn step_forward(&mut self, now: Timestamp) {
        let refused_until = self.0.write_refused.as_ref().map(|refused| refused.until);
        let until = refused_until.filter(|until| *until > now);
        if self.0.aside_until.is_some() && self.0.aside_until != until {
            self.come_back();
            self.0.aside_until = until;
            // While the workload stands aside for that write, the write is the reason.
            let is_of_write = |(_, refused): &(Step, Refused)| refused.reason == Reason::RefusedByApiServer;
            self.0.refused = self.0.refused.filter(is_of_write).filter(|_| until.is_some());
        }
    }

    /// Notes that the workload stands aside no longer.
    pub(in crate::cluster) fn come_back(&mut self) {
        self.0.aside_until = None;
        self.0.was_kept_in_vain = false;
        self.wake();
    }

    /// Moves the workload's times back after the clock was set back.
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
        // `waits_since` may be the time of creation, and nobody knows by whose clock that is. It is then left as it is.
        let created = terms.as_ref().map(|terms| terms.created);
        if created != Some(*waits_since) {
            back.bring_back(waits_since);
            *waits_since = (*waits_since).max(created.unwrap_or(*waits_since));
        }
    }

    /// Notes that the API server has refused to let the workload in. The workload is told each time.
    pub(in crate::cluster) fn write_was_refused(&mut self, refused: WriteRefused) {
        self.0.write_refused = Some(refused);
        self.tell_again();
    }

    /// Notes why the workload was not let in; none where nothing is known to be in its way.
    pub(in crate::cluster) fn refuse(&mut self, refused: Option<(Step, Refused)>) {
        self.0.refused = refused;
    }

    /// Notes that what the queue kept for the workload was not used in time. The workload is told so, even where it was
    /// told the same last.
    pub(in crate::cluster) fn note_kept_in_vain(&mut self) {
        self.0.was_kept_in_vain = true;
        self.tell_again();
    }

    /// Makes the workload be told the next reason, even where that is the last one again.
    fn tell_again(&mut self) {
        self.0.told = None;
    }

    /// Notes that the object already says why the workload waits, as an earlier leader has written there.
    pub(in crate::cluster) fn note_told_before(&mut self, told: Option<Reason>) {
        let terms = self.0.terms.as_ref();
        let phase = terms.and_then(|terms| Phase::from_word(terms.phase.as_deref()?));
        self.note_shown(phase.map(|phase| (phase, told)), told);
    }

    /// Notes what the object shows from now on, and why it is told that it waits, where it is told anything.
    pub(in crate::cluster) fn note_shown(&mut self, shown: Option<(Phase, Option<Reason>)>, told: Option<Reason>) {
        self.0.shown = shown;
        self.0.told = told.or(self.0.told);
    }
}

impl Facts {
    /// Forgets what was said and shown of an earlier object, or of what it waited for earlier.
    pub(super) fn forget_what_it_was_told(&mut self) {
        self.told = None;
        self.shown = None;
        self.aside_until = None;
        self.was_kept_in_vain = false;
        self.write_refused = None;
    }
}
