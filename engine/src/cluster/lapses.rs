//! What queues have kept in vain: reservations of workloads whose pods did not take over in time.
//!
//! This is counted for each namespace in each queue, and not for each workload. Otherwise somebody who makes many groups
//! without pods could hold a queue's quota with one group after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::deadlines::{RETURN_MEMORY, after_returns};
use super::set_back::SetBack;
use super::workload::{Enqueued, Step};
use crate::ids::WorkloadId;
use crate::reason::Reason;

/// How the reservations of one namespace in one queue have fared.
#[derive(Debug, Clone, Copy)]
struct Lapse {
    /// How often reservations ran out.
    times: u32,
    /// Until when no further reservations are made.
    until: Timestamp,
    /// For how long further reservations were held and then given up without use since then, added up.
    given_up: SignedDuration,
    /// When any of this was last noted.
    noted: Timestamp,
}

impl Lapse {
    /// Whether it is so long ago that it says nothing about today.
    fn is_forgotten(&self, now: Timestamp) -> bool {
        now.duration_since(self.noted.max(self.until)) >= RETURN_MEMORY
    }
}

/// The lapses, by namespace and queue.
#[derive(Debug, Default)]
pub(super) struct Lapses(BTreeMap<(Arc<str>, Arc<str>), Lapse>);

impl Lapses {
    /// Moves times back after the clock was set back.
    pub(super) fn bring_back(&mut self, back: SetBack) {
        let times = self
            .0
            .values_mut()
            .flat_map(|lapse| [&mut lapse.until, &mut lapse.noted]);
        times.for_each(|time| back.bring_back(time));
    }
}

impl Cluster {
    /// Returns how the reservations of a workload's namespace in its queue have fared.
    fn lapse_of(&self, id: WorkloadId) -> Option<Lapse> {
        let lapse = self.lapses.0.get(&self.lapse_key(id)?).copied();
        lapse.filter(|lapse| !lapse.is_forgotten(self.now))
    }

    fn lapse_key(&self, id: WorkloadId) -> Option<(Arc<str>, Arc<str>)> {
        let workload = self.workload(id);
        let queue = &self.queue(workload.terms.as_ref()?.queue).name;
        Some((Arc::clone(&workload.namespace), Arc::clone(queue)))
    }

    /// Returns how often reservations of a workload's namespace in its queue ran out.
    pub(super) fn lapses_of(&self, id: WorkloadId) -> u32 {
        self.lapse_of(id).map_or(0, |lapse| lapse.times)
    }

    /// Returns until when no reservation is made for a workload, because others of its namespace in its queue ran out.
    pub(crate) fn stands_aside_until(&self, id: WorkloadId) -> Option<Timestamp> {
        let until = self.lapse_of(id)?.until;
        Some(until).filter(|until| *until > self.now && self.keeps_for_workloads())
    }

    /// Returns when a workload's time in its queue is over.
    pub(super) fn time_in_queue_ends(&self, enqueued: Enqueued) -> Timestamp {
        let timeout = SignedDuration::try_from(self.configuration.cardgate.inqueue_timeout);
        let end = timeout
            .ok()
            .and_then(|timeout| enqueued.since.checked_add(timeout).ok());
        end.unwrap_or(Timestamp::MAX)
    }

    /// Ends a workload's stay in its queue for another reason than that its time there is over. What was kept for it in
    /// vain is not forgotten: otherwise groups that are made and deleted in turn would hold as much as groups that stay.
    pub(super) fn end_enqueued(&mut self, id: WorkloadId, now: Timestamp) {
        let Some(enqueued) = self.workloads[id].leave_queue() else {
            return;
        };
        let was_kept = self.workloads[id].reserved.is_some();
        let Some(key) = self.lapse_key(id).filter(|_| was_kept) else {
            return;
        };
        let held = now.duration_since(enqueued.since).max(SignedDuration::ZERO);
        let earlier = self.lapse_of(id);
        let given_up = earlier.map_or(SignedDuration::ZERO, |earlier| earlier.given_up) + held;
        if SignedDuration::try_from(self.configuration.cardgate.inqueue_timeout).is_ok_and(|most| given_up >= most) {
            self.note_lapse(id, enqueued, now);
        } else {
            let lapse = Lapse {
                times: earlier.map_or(0, |earlier| earlier.times),
                until: earlier.map_or(now, |earlier| earlier.until),
                given_up,
                noted: now,
            };
            self.remember_lapse(key, lapse, now);
        }
    }

    /// Ends a workload's time in its queue. Where its pods have not taken over, its queue keeps nothing for it any more.
    /// For a while the queue also keeps nothing for any workload of its namespace, so that others have their turn.
    pub(super) fn end_time_in_queue(&mut self, id: WorkloadId, now: Timestamp) {
        // Where nothing is kept, time takes nothing from anybody.
        if !self.keeps_for_workloads() {
            return;
        }
        let workload = &mut self.workloads[id];
        let Some(enqueued) = workload.leave_queue().filter(|_| workload.reserved.is_some()) else {
            return;
        };
        workload.note_kept_in_vain();
        self.note_lapse(id, enqueued, now);
        let terms = self.workload(id).terms.as_ref();
        let refused = terms.map(|terms| self.refusal(terms.queue, Some(id), Reason::InqueueTimeout));
        self.refuse_workload(id, refused.map(|refused| (Step::Enqueue, refused)));
        self.settle(id);
    }

    /// Notes that a reservation has run out. Reservations that were made after the same number of such ends belong to one
    /// wave, and count once.
    fn note_lapse(&mut self, id: WorkloadId, enqueued: Enqueued, now: Timestamp) {
        let Some(key) = self.lapse_key(id) else { return };
        let earlier = self.lapse_of(id);
        let times = enqueued.lapses.saturating_add(1);
        let times = times.max(earlier.map_or(0, |earlier| earlier.times));
        let until = after_returns(times, now);
        let lapse = Lapse {
            times,
            until: earlier.map_or(until, |earlier| earlier.until.max(until)),
            given_up: SignedDuration::ZERO,
            noted: now,
        };
        self.remember_lapse(key, lapse, now);
        // The other workloads of its namespace that stand in line step back with it.
        let workload = self.workload(id);
        let namespace = Arc::clone(&workload.namespace);
        let queue = workload.terms.as_ref().map(|terms| terms.queue);
        let line = queue.into_iter().flat_map(|queue| self.queue(queue).in_line());
        let beside = line.filter(|other| self.workload(**other).namespace == namespace);
        for other in beside.copied().collect::<Vec<_>>() {
            self.settle(other);
        }
    }

    fn remember_lapse(&mut self, key: (Arc<str>, Arc<str>), lapse: Lapse, now: Timestamp) {
        self.lapses.0.retain(|_, earlier| !earlier.is_forgotten(now));
        self.lapses.0.insert(key, lapse);
    }
}
