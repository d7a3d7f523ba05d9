//! Decisions to let pods in: made, confirmed, refused, taken back.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Cluster;
use super::deadlines::{after_refused_writes, times_not_taken};
use super::pod::{NotTaken, Pod, Stage};
use crate::alternative::Alternative;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::policies::mgpu::CardLists;

impl Cluster {
    /// Lets a waiting pod in. From now on it holds quota for one of its alternatives and room where it is expected, with
    /// these mGPU cards there where it asks for any.
    pub(crate) fn admit(
        &mut self,
        id: PodId,
        alternative: Option<Alternative>,
        expected_on: Option<NodeId>,
        gpus: Option<CardLists>,
    ) {
        let Some(charge) = self.pod(id).map(|pod| self.charge(pod, alternative.as_ref())) else {
            return;
        };
        self.remember_claims(id);
        self.update_pod(id, |pod| {
            pod.stage = Stage::Admitting {
                // A write ends by its answer, which the actor brings in any case. No clock ends it: a clock that jumps
                // would give away what a write takes that is still under way.
                until: Timestamp::MAX,
                written: false,
            };
            pod.assigned = alternative;
            pod.charge = Some(charge);
            pod.room = expected_on;
            if gpus.is_some() {
                pod.gpus = gpus;
            }
        });
    }

    /// Notes that the API server has confirmed an admission.
    pub(crate) fn confirm(&mut self, uid: &str) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        if let Some(Stage::Admitting { until, .. }) = self.pod(id).map(|pod| pod.stage) {
            // A pod that is being deleted meanwhile gives its quota back later than the confirmation was due.
            self.prolong_stage(id, Stage::Admitting { until, written: true });
        }
    }

    /// Takes back an admission that was not written: the pod waits again, and stands aside for a moment. A pod of a gang
    /// whose other pods are on their way keeps its place for that moment.
    pub(crate) fn refuse(&mut self, uid: &str, now: Timestamp) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        let until = after_refused_writes(1, now);
        let stage = self.pod(id).map(|pod| pod.stage);
        if let Some(Stage::Admitting { .. }) = stage
            && self.belongs_to_started_gang(id)
        {
            self.prolong_stage(id, Stage::Admitting { until, written: false });
        } else {
            self.withdraw(id, Some(until));
        }
    }

    /// Takes back an admission that the API server refuses and would refuse again, or that has failed for too long. The pod
    /// gives back all that it took and stands aside, longer each time. Keeping its place would be of no use to the other
    /// pods of its gang, which are in, since the pod can't take it.
    pub(crate) fn refuse_for_good(&mut self, uid: &str, how: NotTaken, now: Timestamp) {
        let Some(id) = self.pod_with_uid(uid) else { return };
        let is_under_way = |pod: &&Pod| matches!(pod.stage, Stage::Admitting { .. });
        let pod = self.pod(id).filter(is_under_way);
        let Some(waits) = pod.and_then(|pod| pod.waits.as_ref()) else {
            return;
        };
        let times = times_not_taken(how, waits.write_refusals);
        self.withdraw(id, Some(after_refused_writes(times, now)));
        self.update_pod(id, |pod| {
            if let Some(waits) = &mut pod.waits {
                waits.write_refusals = times;
                waits.write_failed = how == NotTaken::Failed;
            }
        });
    }

    /// Keeps what an admission took, while nobody knows whether it is written or will be, until the pod has been read
    /// again.
    pub(crate) fn await_answer(&mut self, uid: &str) {
        if let Some(id) = self.pod_with_uid(uid) {
            let (until, written) = (Timestamp::MAX, false);
            self.prolong_stage(id, Stage::Admitting { until, written });
        }
    }

    /// Whether a pod belongs to the minimum of a group of which other pods hold quota too.
    pub(super) fn belongs_to_started_gang(&self, id: PodId) -> bool {
        let group = self.pod(id).and_then(|pod| pod.group).map(|group| self.workload(group));
        group.is_some_and(|group| {
            group.min_member() > 1 && group.admitted() > 1 && group.admitted() <= group.min_member()
        })
    }

    /// Records the state, as far as it is needed to take back admissions of these pods.
    pub(crate) fn bookmark(&self, pods: impl IntoIterator<Item = PodId>) -> Bookmark {
        let mut bookmark = Bookmark {
            node_changes: self.node_change_count(),
            top: self.top_version(),
            ..Bookmark::default()
        };
        self.add_to_bookmark(&mut bookmark, pods);
        bookmark
    }

    /// Records the same for further pods, of which nothing has changed since.
    pub(crate) fn add_to_bookmark(&self, bookmark: &mut Bookmark, pods: impl IntoIterator<Item = PodId>) {
        for pod in pods.into_iter().filter_map(|id| self.pod(id)) {
            let workloads = [pod.group, pod.job].into_iter().flatten();
            let reserved = workloads
                .clone()
                .filter_map(|id| Some(self.workload(id).terms.as_ref()?.queue));
            for queue in pod
                .queue
                .into_iter()
                .chain(reserved)
                .flat_map(|queue| self.ancestry(queue))
            {
                let version = self.queue(queue).version();
                bookmark.queues.entry(queue).or_insert(version);
            }
            for id in workloads {
                let version = self.workload(id).version;
                bookmark.workloads.entry(id).or_insert(version);
            }
        }
    }

    /// Takes back decisions of this round, the last first, as if they had not been made. The state from before
    /// [`Self::bookmark`] is restored, as far as these decisions changed it.
    pub(crate) fn take_back(&mut self, pods: &[PodId], bookmark: &Bookmark) {
        for id in pods.iter().rev() {
            self.withdraw(*id, None);
        }
        self.turn_back(bookmark);
    }

    /// Sets all versions back to the bookmark, so that what was woken since has nothing to look at.
    pub(super) fn turn_back(&mut self, bookmark: &Bookmark) {
        self.set_top_version(bookmark.top);
        for (queue, version) in &bookmark.queues {
            self.queues[*queue].set_version(*version);
        }
        for (workload, version) in &bookmark.workloads {
            self.workload_mut(*workload).set_version(*version);
        }
        self.node_changes.forget_since(bookmark.node_changes);
    }

    /// Takes back the decision to let a pod in.
    pub(super) fn withdraw(&mut self, id: PodId, aside_until: Option<Timestamp>) {
        if !self
            .pod(id)
            .is_some_and(|pod| matches!(pod.stage, Stage::Admitting { .. }))
        {
            return;
        }
        self.update_pod(id, |pod| {
            pod.stage = if pod.deleted.is_some() {
                Stage::Blocked
            } else {
                Stage::Waiting
            };
            pod.assigned = None;
            pod.gpus = None;
            pod.charge = None;
            pod.room = None;
            if let Some(waits) = &mut pod.waits {
                waits.aside_until = aside_until;
            }
        });
    }
}

/// Versions at one time, so that decisions that are taken back wake nobody.
#[derive(Debug, Default)]
pub struct Bookmark {
    queues: BTreeMap<QueueId, u64>,
    /// The version of the cluster, above the queues.
    top: u64,
    workloads: BTreeMap<WorkloadId, u64>,
    node_changes: u64,
}
