//! What happens when workloads come, change and go.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::keys::EXEMPT_NAMESPACES;
use crds::pod::Metadata;
use jiff::Timestamp;

use super::pod::{Controller, Pod};
use super::queue::Queue;
use super::reading::{Reading, task_spec};
use super::workload::{Phase, Said, Workload, WorkloadTerms};
use super::{Cluster, Kind};
use crate::ids::WorkloadId;
use crate::reason::Reason;
use crate::refs::WorkloadKind;

impl Cluster {
    /// Returns the group that a pod belongs to, the task that it does in that group, and the Job that made it.
    pub(super) fn workloads_of(
        &mut self,
        reading: &Reading,
        metadata: &Metadata<Box<str>>,
        namespace: &Arc<str>,
    ) -> (Option<WorkloadId>, Option<Arc<str>>, Option<WorkloadId>) {
        let group = reading.group.as_deref();
        let group = group.map(|group| self.workload_id(WorkloadKind::PodGroup, namespace, group));
        let task_spec = task_spec(metadata).filter(|_| group.is_some());
        let task_spec = task_spec.map(|task| self.texts.get(task));
        let job = reading.controller.as_ref().filter(|_| reading.managed);
        let job = job.and_then(|controller| self.workloads.id(&controller.0));
        // Anybody may write on a pod that a PodGroup made it. The pod would then be a member of that group twice.
        let job = job.filter(|job| self.workload(*job).kind == WorkloadKind::Job);
        (group, task_spec, job)
    }

    /// Returns what a queue is to take as a whole while no pod waits for it: Jobs that are suspended until the queue takes
    /// them, and groups whose pods do not exist yet.
    pub(crate) fn wholes_in_line<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = (WorkloadId, &'a Workload)> {
        let in_line = queue.in_line().iter().map(|id| (*id, self.workload(*id)));
        in_line.filter(|(_, workload)| workload.line.is_empty())
    }

    /// Counts a pod among those that name its workloads.
    pub(super) fn name_workloads(&mut self, pod: &Pod) {
        for workload in [pod.group, pod.job].into_iter().flatten() {
            self.workload_mut(workload).name();
        }
    }

    /// Counts a pod out of those that name these workloads.
    pub(super) fn unname_workloads(&mut self, workloads: [Option<WorkloadId>; 2]) {
        for workload in workloads.into_iter().flatten() {
            self.workload_mut(workload).unname();
            self.forget_empty_workload(workload);
        }
    }

    /// Takes in what a workload says of itself. A workload in an exempt namespace is ignored: no pods are managed there,
    /// so its queue would keep something for it that no pod takes.
    pub(super) fn apply_terms(
        &mut self,
        kind: WorkloadKind,
        namespace: &str,
        name: &str,
        terms: WorkloadTerms,
        told: Option<Reason>,
        now: Timestamp,
    ) {
        if EXEMPT_NAMESPACES.contains(&namespace) {
            return;
        }
        let id = self.workload_id(kind, namespace, name);
        let epoch = self.epoch(kind.watched());
        self.workloads[id].note_listed(epoch);
        let is_new = self.workloads[id].terms.is_none();
        self.change_terms(id, terms, now);
        if is_new && told.is_some() {
            self.workloads[id].note_told_before(told);
        }
    }

    /// Takes in that a workload says something else of itself. If it asks for another queue or for something else, it is
    /// judged as if it came to wait now, whatever it was let into its queue for.
    pub(super) fn change_terms(&mut self, id: WorkloadId, terms: WorkloadTerms, now: Timestamp) {
        let workload = &self.workloads[id];
        if workload.terms.as_ref() == Some(&terms) {
            return;
        }
        let is_new = workload.terms.as_ref().is_none_or(|before| before.uid != terms.uid);
        if is_new && terms.said == Said::Enqueued {
            self.reservations.found_enqueued(id);
        }
        if workload.begins_anew(&terms) || workload.gives_up(&terms) {
            self.end_enqueued(id, now);
        }
        let queue = terms.queue;
        let before = self.workloads[id].say(terms, now);
        let moved = before.as_ref().is_some_and(|before| before.queue != queue);
        self.name_group(id, before.as_ref());
        self.queues[queue].join();
        self.unreserve(id);
        self.note_unbalanced(id);
        self.settle(id);
        if let Some(before) = before {
            self.queues[before.queue].quit();
            self.forget_empty_queue(before.queue);
        }
        if (moved || is_new) && !self.workloads[id].jobs.is_empty() {
            self.moved_groups.insert(id);
        }
        if is_new {
            self.find_queues_of_pods(id, now);
        }
    }

    pub(super) fn remove_terms(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        let Some(id) = self.workload_named(kind, namespace, name) else {
            return;
        };
        let now = self.now;
        self.end_enqueued(id, now);
        let Some(terms) = self.workloads[id].fall_silent() else {
            return;
        };
        self.note_unbalanced(id);
        self.settle(id);
        self.moved_groups.insert(id);
        self.name_group(id, Some(&terms));
        self.queues[terms.queue].quit();
        self.forget_empty_queue(terms.queue);
        self.forget_empty_workload(id);
    }

    /// Moves the Jobs whose pods belong to groups that have come, gone or moved to another queue. Thousands of Jobs may
    /// name one group: where a group is written again and again, they are looked at once in a round, and not at each
    /// write; and where many of a namespace have moved, less often.
    pub(super) fn move_jobs_of_groups(&mut self, now: Timestamp) {
        let workloads = &self.workloads;
        let namespace_of = |group| workloads.get(group).map(|group| Arc::clone(&group.namespace));
        let due = self.moved_groups.take_due(now, namespace_of);
        let mut followed = BTreeMap::<Arc<str>, usize>::new();
        for group in due {
            let Some(group) = self.workloads.get(group) else {
                continue;
            };
            let (namespace, jobs) = (Arc::clone(&group.namespace), group.jobs.clone());
            *followed.entry(namespace).or_default() += jobs.len();
            for job in jobs {
                self.find_queue(job, now);
            }
        }
        for (namespace, jobs) in followed {
            self.moved_groups.have_followed(namespace, jobs, now);
        }
    }

    /// Updates the group that the pods of a Job belong to, where the Job said `before` until now. The Job's queue, where
    /// it names none, and what is kept for it depend on that group.
    fn name_group(&mut self, job: WorkloadId, before: Option<&WorkloadTerms>) {
        let workload = self.workload(job);
        if workload.kind != WorkloadKind::Job {
            return;
        }
        let namespace = Arc::clone(&workload.namespace);
        let named = workload.terms.as_ref().map(WorkloadTerms::group_of_pods);
        let left = before
            .map(WorkloadTerms::group_of_pods)
            .filter(|left| Some(left) != named.as_ref());
        let (named, left) = (named.map(Cow::into_owned), left.map(Cow::into_owned));
        if let Some(named) = named {
            let named = self.workload_id(WorkloadKind::PodGroup, &namespace, &named);
            self.workload_mut(named).take_in_job(job);
        }
        if let Some(left) = left {
            let left = self.workload_id(WorkloadKind::PodGroup, &namespace, &left);
            self.workload_mut(left).let_go_of_job(job);
            self.forget_empty_workload(left);
        }
    }

    /// Forgets what workloads of this kind said, where a complete list has not named them.
    pub(super) fn remove_unlisted_workloads(&mut self, kind: WorkloadKind, epoch: u64) {
        let stale = |workload: &Workload| workload.kind == kind && workload.terms.is_some() && workload.epoch < epoch;
        let stale = self.workloads().filter(|(_, workload)| stale(workload));
        let names: Vec<_> = stale
            .map(|(_, stale)| (Arc::clone(&stale.namespace), Arc::clone(&stale.name)))
            .collect();
        for (namespace, name) in names {
            self.remove_terms(kind, &namespace, &name);
        }
    }

    /// Returns the workload with this id.
    pub fn workload(&self, id: WorkloadId) -> &Workload {
        &self.workloads[id]
    }

    /// Returns the workload with this id, to be changed.
    pub(super) fn workload_mut(&mut self, id: WorkloadId) -> &mut Workload {
        &mut self.workloads[id]
    }

    /// Notes what a workload's object shows from now on, and why it is told that it waits, where it is told anything.
    pub(crate) fn workload_is_told(
        &mut self,
        id: WorkloadId,
        shown: Option<(Phase, Option<Reason>)>,
        told: Option<Reason>,
    ) {
        self.workload_mut(id).note_shown(shown, told);
    }

    /// Returns the id of the workload with this name.
    pub fn workload_named(&self, kind: WorkloadKind, namespace: &str, name: &str) -> Option<WorkloadId> {
        self.workloads.id(&key(kind, namespace, name))
    }

    /// Returns every workload that exists or that pods name.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        let there = |workload: &Workload| workload.terms.is_some() || workload.named > 0;
        self.workloads.iter().filter(move |(_, workload)| there(workload))
    }

    /// Returns the id of a workload, whether it exists or is only named by a pod. Makes an entry where there is none.
    pub(super) fn workload_id(&mut self, kind: WorkloadKind, namespace: &str, name: &str) -> WorkloadId {
        let key = key(kind, namespace, name);
        if let Some(id) = self.workloads.id(&key) {
            return id;
        }
        self.arrivals += 1;
        let workload = Workload::new(kind, self.texts.get(namespace), name, self.arrivals);
        self.workloads.insert(key, workload)
    }

    pub(super) fn forget_empty_workload(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id];
        if workload.terms.is_none() && workload.named == 0 {
            let key = key(workload.kind, &workload.namespace, &workload.name);
            self.workloads.remove(&key);
        }
    }
}

impl WorkloadKind {
    /// Returns the kind under which objects of this kind are watched.
    const fn watched(self) -> Kind {
        match self {
            Self::PodGroup => Kind::PodGroup,
            Self::Job => Kind::Job,
        }
    }
}

/// Returns the key of a workload: the text that a pod has for its controller, where a Job makes it.
fn key(kind: WorkloadKind, namespace: &str, name: &str) -> Arc<str> {
    Controller::new(namespace, kind.as_str(), name).0
}
