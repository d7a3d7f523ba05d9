//! What queues keep for workloads that are in them, until the workloads' pods take over.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crds::configuration::{Configuration, QueuePlugin};
use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::deadlines::{after_refused_writes, times_not_taken};
use super::pod::NotTaken;
use super::set_back::SetBack;
use super::waiting::Refused;
use super::workload::{Enqueued, Said, Step, WriteRefused};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::reason::Reason;
use crate::refs::{WorkloadKind, WorkloadRef};

/// The most Jobs of one group for which Cardgate asks what is kept for them, whenever the group is judged.
const MOST_JOBS: usize = 64;

/// What is to be looked at again about what queues keep.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    /// When workloads stop standing aside, or their time in their queues is over.
    deadlines: BTreeSet<(Timestamp, WorkloadId)>,
    /// Workloads that were in their queues when this program began to lead.
    enqueued_before: BTreeSet<WorkloadId>,
    /// Whether anything has been decided yet.
    has_decided: bool,
    /// Queues that may have come to refuse workloads for which they keep something.
    unreviewed: BTreeSet<QueueId>,
    /// Workloads that something is kept for now, or again. While all their pods ran nothing was kept, so their queue may
    /// have come to refuse them. What is kept may also be more than they were checked for, because of their pods or of the
    /// configuration.
    kept_anew: BTreeSet<WorkloadId>,
    /// Whether what is kept anew may have come about by another configuration.
    is_configured_anew: bool,
    /// Those of `kept_anew` that are to be checked for that, and were not in the round before.
    configured_anew: BTreeSet<WorkloadId>,
}

/// A workload for which more is kept than its queue was asked about.
pub(crate) struct Grown {
    pub(crate) id: WorkloadId,
    pub(crate) queue: QueueId,
    pub(crate) demand: Demand,
    /// Whether it may be more because of the configuration, and not because of what the workload does.
    pub(crate) is_configured: bool,
}

impl Reservations {
    /// Notes that a queue may have come to refuse workloads for which it keeps something.
    pub(super) fn review(&mut self, queue: QueueId) {
        self.unreviewed.insert(queue);
    }

    /// Notes that a workload is in its queue when it is seen for the first time. What an earlier leader has let in is
    /// judged before everything that waits.
    pub(super) fn found_enqueued(&mut self, id: WorkloadId) {
        self.enqueued_before.extend((!self.has_decided).then_some(id));
    }
}

fn keeps_for_workloads(configuration: &Configuration) -> bool {
    configuration.has_action("enqueue") && configuration.queue_plugin != QueuePlugin::Off
}

impl Cluster {
    /// Lets a workload into its queue: the queue keeps what the workload asks for until its pods take over.
    pub(crate) fn enqueue(&mut self, id: WorkloadId) {
        let enqueued = Enqueued {
            since: self.now,
            lapses: self.lapses_of(id),
        };
        self.reservations
            .deadlines
            .insert((self.time_in_queue_ends(enqueued), id));
        self.workloads[id].enter_queue(enqueued);
        self.settle(id);
        self.note_checked(id);
    }

    /// Returns a refusal by a queue, as things stand.
    pub(crate) fn refusal(&self, queue: QueueId, workload: Option<WorkloadId>, reason: Reason) -> Refused {
        Refused {
            reason,
            levels: 1,
            queue_version: self.version_of(queue, 1),
            cluster_version: self.version(),
            workload_version: workload.map_or(0, |id| self.workload(id).version),
            node_changes: self.node_change_count(),
            nodes_matter: reason.is_woken_by_nodes(),
            searched: 0,
            none_would_do: false,
        }
    }

    /// Remembers why a workload, or its pods together, were not let in.
    pub(crate) fn refuse_workload(&mut self, id: WorkloadId, refused: Option<(Step, Refused)>) {
        let workload = &mut self.workloads[id];
        let reason = |refused: Option<(Step, Refused)>| refused.map(|(_, refused)| refused.reason);
        if reason(workload.refused) != reason(refused) {
            self.moved_workloads.insert(id);
        }
        workload.refuse(refused);
    }

    /// Takes a workload out of its queue.
    pub(crate) fn dequeue(&mut self, id: WorkloadId) {
        self.workloads[id].leave_queue();
        self.settle(id);
    }

    /// Takes a workload out of its queue because of what it asks for itself: what was kept for it was kept in vain.
    pub(crate) fn dequeue_in_vain(&mut self, id: WorkloadId) {
        self.end_enqueued(id, self.now);
        self.settle(id);
    }

    /// Returns the workloads that have something kept for them in queues that may have come to refuse them.
    pub(crate) fn take_unreviewed(&mut self) -> BTreeSet<WorkloadId> {
        let queues = std::mem::take(&mut self.reservations.unreviewed);
        let kept = queues.iter().flat_map(|queue| self.queues[*queue].keeps_for.iter());
        let mut kept: BTreeSet<_> = kept.copied().collect();
        let anew = self.reservations.kept_anew.iter().copied();
        kept.extend(anew.filter(|id| self.workload(*id).reserved().is_some()));
        kept
    }

    /// Returns the workloads for which more is kept than they were checked for, and what is kept for them now. The last in
    /// line comes first, since it goes without where there is not enough for all. For the other workloads, what is kept
    /// now counts as what they were checked for: what was kept beyond it may be others' by the time that it is wanted
    /// again.
    pub(crate) fn take_grown(&mut self) -> Vec<Grown> {
        let is_configured = std::mem::take(&mut self.reservations.is_configured_anew);
        let configured = std::mem::take(&mut self.reservations.configured_anew);
        let mut grown = Vec::new();
        for id in std::mem::take(&mut self.reservations.kept_anew) {
            let workload = self.workload(id);
            match workload.reservation() {
                Some((queue, demand)) if workload.was_checked_for_less_than(demand) => grown.push(Grown {
                    id,
                    queue,
                    demand: demand.clone(),
                    is_configured: is_configured || configured.contains(&id),
                }),
                _ => self.note_checked(id),
            }
        }
        grown.sort_by_cached_key(|grown| Reverse(self.workload(grown.id).place()));
        grown
    }

    /// Has a workload checked in the next round, for which it was not found out whether the queue takes what is kept.
    pub(crate) fn check_later(&mut self, grown: &Grown) {
        self.reservations.kept_anew.insert(grown.id);
        self.reservations
            .configured_anew
            .extend(grown.is_configured.then_some(grown.id));
    }

    /// Notes that the queue was found to take what is kept for a workload, if anything is.
    pub(crate) fn note_checked(&mut self, id: WorkloadId) {
        self.workloads[id].note_checked();
    }

    /// Returns the workloads that were in their queues when this program began to lead, oldest first. Returns nothing
    /// after the first call.
    pub(crate) fn take_enqueued_before(&mut self) -> Vec<WorkloadId> {
        self.reservations.has_decided = true;
        let earlier = std::mem::take(&mut self.reservations.enqueued_before).into_iter();
        let still = |id: &WorkloadId| {
            let workload = self.workload(*id);
            let terms = workload.terms.as_ref();
            workload.in_line.is_some() && terms.is_some_and(|terms| terms.said == Said::Enqueued)
        };
        let mut earlier: Vec<_> = earlier.filter(still).collect();
        earlier.sort_by_key(|id| self.workload(*id).place());
        earlier
    }

    /// Makes all queues be checked for whether they still take the workloads for which they keep something.
    pub(super) fn review_all(&mut self) {
        let keeping = self.queues.ids();
        let keeping = keeping.filter(|id| !self.queues[*id].keeps_for.is_empty());
        self.reservations.unreviewed.extend(keeping);
    }

    /// Notes that a Job could not be resumed. It is tried again after a while, and where the API server does not take it
    /// (`answered`, with its words), later each time.
    pub(crate) fn refuse_resumption(
        &mut self,
        job: &WorkloadRef,
        answered: Option<(NotTaken, &Arc<str>)>,
        now: Timestamp,
    ) {
        let id = self.workload_named(job.kind, &job.namespace, &job.name);
        let is_it = |id: &WorkloadId| {
            let terms = self.workloads[*id].terms.as_ref();
            terms.is_some_and(|terms| terms.uid == job.uid)
        };
        let Some(id) = id.filter(is_it) else { return };
        let earlier = self.workloads[id]
            .write_refused
            .as_ref()
            .map_or(0, |refused| refused.times);
        let times = answered.map_or(1, |(how, _)| times_not_taken(how, earlier));
        let until = after_refused_writes(times, now);
        self.workloads[id].stand_aside(until);
        self.reservations.deadlines.insert((until, id));
        self.dequeue(id);
        let (Some((how, message)), Some(terms)) = (answered, &self.workloads[id].terms) else {
            return;
        };
        let refused = self.refusal(terms.queue, Some(id), Reason::RefusedByApiServer);
        self.workloads[id].write_was_refused(WriteRefused {
            times,
            how,
            message: Arc::clone(message),
            until,
        });
        self.refuse_workload(id, Some((Step::Enqueue, refused)));
    }

    /// Lets workloads try again that have stood aside, and lets workloads wait again whose time in their queue is over.
    pub(super) fn advance_workloads(&mut self, now: Timestamp) {
        while let Some((time, id)) = self
            .reservations
            .deadlines
            .first()
            .copied()
            .filter(|(time, _)| *time <= now)
        {
            self.reservations.deadlines.remove(&(time, id));
            let workload = &mut self.workloads[id];
            if workload.aside_until == Some(time) {
                workload.come_back();
                self.settle(id);
            }
            let enqueued = self.workloads[id].enqueued;
            if enqueued.is_some_and(|enqueued| self.time_in_queue_ends(enqueued) == time) {
                self.end_time_in_queue(id, now);
            }
        }
    }

    /// Moves times back after the clock was set back, so that workloads stand aside, and are in their queues, for no
    /// longer because of that.
    pub(super) fn bring_workloads_back(&mut self, back: SetBack) {
        self.reservations.deadlines.clear();
        for id in self.workloads.places() {
            self.workloads[id].bring_back(back);
            let workload = &self.workloads[id];
            let ends = workload.enqueued.map(|enqueued| self.time_in_queue_ends(enqueued));
            let times = workload.aside_until.into_iter().chain(ends);
            self.reservations.deadlines.extend(times.map(|time| (time, id)));
        }
    }

    /// Counts anew what is kept for every workload, when the configuration has changed.
    pub(super) fn resettle_workloads(&mut self, before: &Configuration) {
        self.reservations.is_configured_anew = true;
        let (kept, keeps) = (keeps_for_workloads(before), self.keeps_for_workloads());
        for id in self.workloads.places() {
            self.unreserve(id);
            if keeps && !kept {
                // Until now nothing was kept for it, whether in vain or not.
                self.workloads[id].begin_time_in_queue(self.now);
            } else if !keeps {
                self.workloads[id].step_forward(self.now);
            }
            if let Some(enqueued) = self.workloads[id].enqueued {
                self.reservations
                    .deadlines
                    .insert((self.time_in_queue_ends(enqueued), id));
            }
            if !self.enqueues(self.workloads[id].kind) {
                self.workloads[id].leave_queue();
            }
            self.settle(id);
        }
    }

    /// Whether queues keep anything for workloads. Where workloads do not wait for their queue first, or nothing limits
    /// queues, keeping something would keep nobody else out.
    pub(crate) fn keeps_for_workloads(&self) -> bool {
        keeps_for_workloads(&self.configuration)
    }

    /// Whether Cardgate enqueues workloads of this kind.
    fn enqueues(&self, kind: WorkloadKind) -> bool {
        kind == WorkloadKind::Job || self.configuration.cardgate.enqueue
    }

    /// Reserves for a workload what should be reserved, and puts the workload in line for its queue where it belongs
    /// there.
    pub(super) fn settle(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id];
        let Some(terms) = &workload.terms else {
            self.unreserve(id);
            self.note_incomplete(id);
            return;
        };
        let queue = terms.queue;
        let open = terms.may_be_kept() && !workload.is_started() && self.enqueues(workload.kind);
        if open && workload.is_enqueued() {
            if !self.keeps_for_workloads() {
                self.unreserve(id);
            } else if workload.reserved.is_none() {
                let demand = self.metered(workload, &terms.demand);
                self.leave_line(id);
                self.reserve_in(queue, id, &demand);
                self.note_kept_for_job(id, demand != Demand::default());
                self.workloads[id].reserve(queue, demand);
                self.reservations.kept_anew.insert(id);
            }
        } else {
            self.unreserve(id);
            if open {
                self.line_up(id, queue);
            }
        }
        self.moved_workloads.insert(id);
        self.note_incomplete(id);
    }

    /// Notes that this pod, or others, now have what was kept for the pod's workloads: it is checked again before it is
    /// kept again. For a pod that is let in, this is called once that is decided, and not where it is only tried. Whether
    /// the decision is then written changes nothing.
    pub(super) fn note_taken_over(&mut self, id: PodId) {
        let workloads = self.pod(id).map(|pod| [pod.group, pod.job]);
        for workload in workloads.into_iter().flatten().flatten() {
            if self.workload(workload).reserved().is_none() {
                self.workloads[workload].forget_checked();
            }
        }
    }

    /// Notes the same for the pods that this round lets in.
    pub(crate) fn note_let_in<'a>(&mut self, uids: impl IntoIterator<Item = &'a str>) {
        for uid in uids {
            if let Some(id) = self.pod_with_uid(uid) {
                self.note_taken_over(id);
            }
        }
    }

    /// Counts anew what is kept for a workload, once a pod with cards has come or gone: beside cards, CPU and memory may
    /// count for nothing (docs/rules.md, **Card quota**). Whether the queue takes the workload with the new amount is seen
    /// in the next round; a mere trial is undone.
    pub(super) fn meter_anew(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id];
        let Some(kept) = workload.reserved() else { return };
        let terms = workload.terms.as_ref();
        if terms.is_none_or(|terms| self.metered(workload, &terms.demand) != *kept) {
            self.unreserve(id);
        }
    }

    /// Puts a workload in line for its queue, unless it stands aside.
    fn line_up(&mut self, id: WorkloadId, queue: QueueId) {
        let (lapses, aside) = (self.lapses_of(id), self.stands_aside_until(id));
        let workload = &mut self.workloads[id];
        workload.stand_back(lapses, aside);
        if let Some(until) = workload.aside_until {
            self.reservations.deadlines.insert((until, id));
            // Nobody looks at it before then, and so nobody would tell it. A Job that nobody holds waits for nothing.
            let waits = !self.workloads[id].is_unheld_job();
            if aside.is_some() && waits && self.workloads[id].refused.is_none() {
                let refused = self.refusal(queue, Some(id), Reason::InqueueTimeout);
                self.refuse_workload(id, Some((Step::Enqueue, refused)));
            }
        } else {
            workload.line_up(queue);
            self.queues[queue].line_up(id, true);
            self.line_has_changed(queue);
        }
    }

    fn leave_line(&mut self, id: WorkloadId) {
        if let Some(queue) = self.workloads[id].leave_line() {
            self.queues[queue].line_up(id, false);
            self.line_has_changed(queue);
        }
    }

    /// Notes that what a queue, and each queue above it, shows of what waits has changed.
    fn line_has_changed(&mut self, queue: QueueId) {
        let above: Vec<_> = self.ancestry(queue).collect();
        self.changes.queues.insert(queue);
        self.changes.queues.extend(above);
    }

    pub(super) fn unreserve(&mut self, id: WorkloadId) {
        self.leave_line(id);
        let Some((queue, demand)) = self.workloads[id].release() else {
            return;
        };
        self.release_in(queue, id, &demand);
        self.note_kept_for_job(id, false);
    }

    /// Returns what is kept for the pods of a workload, and in which queues: for the workload itself, and for the first of
    /// the Jobs whose pods are of this group, or for the group that this Job's pods are of. If one counted against the
    /// other, it would keep out the very pods for which it is kept.
    pub(crate) fn kept_for_pods_of(&self, id: WorkloadId) -> impl Iterator<Item = (QueueId, &Demand)> {
        self.kin_of(id).filter_map(|id| self.workload(id).reservation())
    }

    /// Returns a workload together with those workloads with which it shares pods, so that what is kept for one is kept
    /// for the pods of the other.
    pub(crate) fn kin_of(&self, id: WorkloadId) -> impl Iterator<Item = WorkloadId> {
        let jobs = self.workload(id).jobs_kept.iter().take(MOST_JOBS);
        let kin = jobs.copied().chain(self.group_of_job(id));
        std::iter::once(id).chain(kin)
    }

    /// Returns for which workloads a queue keeps something, what it keeps, and for how long at most.
    pub(crate) fn keeps_for(&self, queue: QueueId) -> impl Iterator<Item = (WorkloadId, &Demand, SignedDuration)> {
        self.queues[queue].keeps_for.iter().filter_map(|id| {
            let workload = self.workload(*id);
            let ends = self.time_in_queue_ends(workload.enqueued?);
            let left = ends.duration_since(self.now).max(SignedDuration::ZERO);
            Some((*id, workload.reserved()?, left))
        })
    }

    /// Returns the group that a Job's pods belong to, where the group is there or something names it.
    fn group_of_job(&self, id: WorkloadId) -> Option<WorkloadId> {
        let job = self.workload(id);
        let terms = job.terms.as_ref().filter(|_| job.kind == WorkloadKind::Job)?;
        self.workload_named(WorkloadKind::PodGroup, &job.namespace, &terms.group_of_pods())
    }

    fn note_kept_for_job(&mut self, id: WorkloadId, is_kept: bool) {
        if let Some(group) = self.group_of_job(id) {
            self.workloads[group].note_kept_for_job(id, is_kept);
        }
    }
}
