//! The pods of workloads: which hold quota, which wait, and which are beyond the minimum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::keys::GROUP_NAME;
use crds::managed::is_managed;
use jiff::Timestamp;

use super::pod::{Pod, Stage};
use super::reading::task_spec;
use super::times::read_time;
use super::workload::{Member, Moved};
use super::{Cluster, Kind};
use crate::amounts::{Amounts, Totals};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::refs::WorkloadKind;

/// A pod of a group that has succeeded.
#[derive(Debug)]
struct Succeeded {
    group: WorkloadId,
    began: Timestamp,
    task: Option<Arc<str>>,
    epoch: u64,
}

/// What is remembered of the pods of workloads.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Pods of groups that have succeeded, by uid.
    succeeded: BTreeMap<Arc<str>, Succeeded>,
    /// Workloads of which some pods hold quota while other pods that belong to the minimum wait.
    incomplete: BTreeSet<WorkloadId>,
    /// Groups for which it is to be checked whether they have as many pods as they need, what these hold, and whether any
    /// pods are left that wait.
    unmeasured: BTreeSet<WorkloadId>,
    /// Workloads that may have come to say another minimum, by which their pods are not divided yet.
    unbalanced: BTreeSet<WorkloadId>,
}

impl Members {
    /// Whether this pod belonged to a group and has succeeded.
    pub(super) fn has_succeeded(&self, uid: &str) -> bool {
        self.succeeded.contains_key(uid)
    }
}

impl Cluster {
    /// Returns the workloads of which some pods hold quota while other pods that belong to the minimum wait.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        self.members.incomplete.iter().copied()
    }

    /// Records what whole groups hold, and removes refusals that concern no pod any more. This is done before and after a
    /// round, when the state is real: what a round only tries is not measured.
    pub(crate) fn measure_groups(&mut self) {
        for id in std::mem::take(&mut self.members.unmeasured) {
            if !self.workload(id).is_measured() {
                self.workloads[id].measure(self.now);
            }
            if self.workload(id).is_refused_for_nobody() {
                self.refuse_workload(id, None);
            }
        }
    }

    /// Notes that a pod has succeeded. It counts toward the minimum of its group for as long as its object exists.
    pub(super) fn note_succeeded(
        &mut self,
        uid: &str,
        namespace: &str,
        pod: &crds::pod::Pod<Box<str>>,
        now: Timestamp,
    ) {
        let epoch = self.epoch(Kind::SucceededPod);
        if let Some(known) = self.members.succeeded.get_mut(uid) {
            known.epoch = epoch;
            return;
        }
        let group = pod.metadata.annotations.get(GROUP_NAME);
        let Some(group) = group.filter(|group| !group.is_empty() && is_managed(pod, namespace)) else {
            return;
        };
        let group = self.workload_id(WorkloadKind::PodGroup, namespace, group);
        let created = pod.metadata.creation_timestamp.as_deref();
        let began = read_time(pod.status.start_time.as_deref().or(created)).unwrap_or(now);
        let uid: Arc<str> = uid.into();
        let task = task_spec(&pod.metadata).map(|task| self.texts.get(task));
        let workload = self.workload_mut(group);
        workload.add_succeeded((began, Arc::clone(&uid), task.clone()));
        let succeeded = Succeeded {
            group,
            began,
            task,
            epoch,
        };
        self.members.succeeded.insert(uid, succeeded);
        self.settle(group);
    }

    /// Notes that a pod that had succeeded is gone.
    pub(crate) fn forget_succeeded(&mut self, uid: &str) {
        let Some((uid, succeeded)) = self.members.succeeded.remove_entry(uid) else {
            return;
        };
        let group = succeeded.group;
        let workload = self.workload_mut(group);
        workload.remove_succeeded(&(succeeded.began, uid, succeeded.task));
        self.settle(group);
        self.forget_empty_workload(group);
    }

    /// Forgets the pods that have succeeded and that a complete list has not named.
    pub(super) fn forget_unlisted_succeeded(&mut self, epoch: u64) {
        let stale = self
            .members
            .succeeded
            .iter()
            .filter(|(_, succeeded)| succeeded.epoch < epoch);
        for uid in stale.map(|(uid, _)| Arc::clone(uid)).collect::<Vec<_>>() {
            self.forget_succeeded(&uid);
        }
    }

    /// Counts a pod in with its workloads.
    pub(super) fn join_workloads(&mut self, id: PodId) {
        let Some(pod) = self.pod(id).filter(|pod| pod.group.or(pod.job).is_some()) else {
            return;
        };
        let (member, held) = (member(id, pod), held(pod));
        let begins = self.begins_workloads(pod);
        let place = pod
            .waits
            .as_ref()
            .filter(|waits| pod.stage == Stage::Waiting && waits.aside_until.is_none());
        let place = place.map(|waits| (std::cmp::Reverse(waits.shape.priority), waits.place));
        let (group, task) = (pod.group, pod.task_spec.clone());
        let names_none = group.filter(|_| !pod.queue_is_settled);
        let frees_others = self.frees_others(pod);
        for workload in [pod.group, pod.job].into_iter().flatten() {
            let version = self.workload(workload).version;
            if begins {
                self.workloads[workload].note_ran();
            }
            if let Some(member) = &member {
                // Pods that wait for others of the workload are judged anew, even where nobody held this pod.
                if self.workloads[workload].missing() > 0 {
                    self.workloads[workload].wake();
                }
                self.workloads[workload].add_member(member.clone(), task.as_ref(), &held);
                self.add_elastic(id, 1);
                self.rebalance(workload);
            }
            if let Some(place) = place.filter(|_| group == Some(workload)) {
                self.workloads[workload].add_waiting(place);
            }
            if frees_others {
                self.meter_anew(workload);
            }
            self.settle(workload);
            self.keep_version_of_what_is_tried(workload, version);
        }
        if let Some(group) = names_none {
            self.workloads[group].note_without_queue(id, true);
        }
    }

    /// Counts a pod out with its workloads.
    pub(super) fn quit_workloads(&mut self, id: PodId) {
        let Some(pod) = self.pod(id).filter(|pod| pod.group.or(pod.job).is_some()) else {
            return;
        };
        let (member, held) = (member(id, pod), held(pod));
        let place = pod
            .waits
            .as_ref()
            .map(|waits| (std::cmp::Reverse(waits.shape.priority), waits.place));
        let task = pod.task_spec.clone();
        let frees_others = self.frees_others(pod);
        let group = pod.group;
        for workload in [group, pod.job].into_iter().flatten() {
            let version = self.workload(workload).version;
            let state = &mut self.workloads[workload];
            if let Some(place) = &place {
                state.remove_waiting(place);
            }
            if let Some(member) = &member {
                if state.remove_member(member, task.as_ref(), &held) {
                    self.add_elastic(id, -1);
                } else {
                    self.rebalance(workload);
                }
            }
            if frees_others {
                self.meter_anew(workload);
            }
            self.settle(workload);
            self.keep_version_of_what_is_tried(workload, version);
        }
        if let Some(group) = group {
            self.workloads[group].note_without_queue(id, false);
        }
    }

    /// Sets back a workload's version after a pod was counted in or out, where that is only tried. While Cardgate looks
    /// for what others could give back, pods are put back as they were, so each such look must not wake the workload's
    /// waiting pods.
    fn keep_version_of_what_is_tried(&mut self, id: WorkloadId, version: u64) {
        if self.claimed.away.is_some() {
            self.workloads[id].set_version(version);
        }
    }

    /// Whether a pod has taken over from what its workloads ask for as a whole. A pod on its way out may be of an earlier
    /// workload of the same name, and says nothing about this workload. A pod that nobody has let in takes over only once
    /// it holds something.
    fn begins_workloads(&self, pod: &Pod) -> bool {
        let runs = match pod.stage {
            Stage::Waiting | Stage::Blocked | Stage::Admitting { .. } => false,
            Stage::Unbound { .. } => pod.charge.is_some() || !self.is_let_in_by_nobody(pod),
            Stage::Bound => true,
        };
        runs && pod.deleted.is_none()
    }

    /// Whether a pod's cards free the CPU and memory of all pods of its workload from quota.
    fn frees_others(&self, pod: &Pod) -> bool {
        self.configuration.capacity_card.card_unlimited_cpu_memory && pod.task.is_for_cards()
    }

    /// Updates whether a gang is incomplete: some of its pods hold quota while others wait. Such a gang goes before
    /// everything else.
    pub(super) fn note_incomplete(&mut self, id: WorkloadId) {
        self.members.unmeasured.insert(id);
        let workload = &self.workloads[id];
        if workload.is_torn() && !workload.line.is_empty() {
            self.members.incomplete.insert(id);
        } else {
            self.members.incomplete.remove(&id);
        }
    }

    /// Notes that a workload may say another minimum than before, by which its pods are still to be divided.
    pub(super) fn note_unbalanced(&mut self, id: WorkloadId) {
        if self.workload(id).is_unbalanced() {
            self.members.unbalanced.insert(id);
        }
    }

    /// Divides the pods of workloads by their minima, where these have changed. A workload may have thousands of pods: where
    /// it is written again and again, they are divided once before anything is decided or asked, and not at each write.
    pub(super) fn balance_workloads(&mut self) {
        for id in std::mem::take(&mut self.members.unbalanced) {
            if self.workloads.get(id).is_some() {
                self.workloads[id].take_minimum();
                self.rebalance(id);
            }
        }
    }

    /// Whether the pods of all workloads are divided by the minima that these say.
    pub(super) fn are_all_balanced(&self) -> bool {
        self.members.unbalanced.is_empty()
    }

    /// Keeps the earliest of a workload's pods that hold quota, up to its minimum, apart from the pods beyond the minimum,
    /// which are elastic.
    fn rebalance(&mut self, id: WorkloadId) {
        let (mut elastic, mut roomier) = (BTreeMap::<QueueId, Totals>::new(), BTreeSet::new());
        while let Some(moved) = self.workloads[id].balance_one() {
            let (pod, sign) = match moved {
                Moved::Core(pod) => (pod, -1),
                Moved::Extra(pod) | Moved::Freed(pod) => (pod, 1),
            };
            let Some((queue, pod)) = self.pod(pod).and_then(|pod| Some((pod.queue?, pod))) else {
                continue;
            };
            let sums = elastic.entry(queue).or_default();
            for (dimension, amount) in pod.charge.iter().flat_map(|charge| charge.amounts.iter()) {
                sums.add(dimension, sign * i128::from(amount));
            }
            if matches!(moved, Moved::Freed(_)) {
                roomier.insert(queue);
            }
        }
        for (queue, amounts) in elastic {
            self.change_elastic(queue, &amounts);
        }
        for queue in roomier {
            self.room_grew(queue);
        }
    }

    /// Adds what a pod holds to what counts as elastic, or subtracts it (`sign`).
    fn add_elastic(&mut self, id: PodId, sign: i128) {
        let Some(pod) = self.pod(id) else { return };
        if let (Some(queue), Some(charge)) = (pod.queue, &pod.charge) {
            let mut charged = Totals::default();
            for (dimension, amount) in charge.amounts.iter() {
                charged.add(dimension, sign * i128::from(amount));
            }
            self.change_elastic(queue, &charged);
        }
    }
}

/// Returns what a pod holds.
fn held(pod: &Pod) -> Amounts {
    pod.charge
        .as_ref()
        .map_or_else(Amounts::default, |charge| charge.amounts.clone())
}

/// Returns the pod as a member, where it holds quota and is there to stay.
fn member(id: PodId, pod: &Pod) -> Option<Member> {
    (pod.charge.is_some() && pod.deleted.is_none()).then(|| (pod.created, Arc::clone(&pod.uid), id))
}
