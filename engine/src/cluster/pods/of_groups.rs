//! Pods whose queue is their group's, and which were seen before the group.

use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::ids::{PodId, QueueId, WorkloadId};

impl Cluster {
    /// Handles a group that has just come to exist. Its pods on which no queue is written, and that were read before it,
    /// were read as if the group named no queue. Their queue is determined again, once. Which queue's pods they are must
    /// not depend on which of two watches is faster, nor, for an operator that begins to decide, on which list comes
    /// first.
    pub(in crate::cluster) fn find_queues_of_pods(&mut self, group: WorkloadId, now: Timestamp) {
        let workload = self.workload(group);
        let (namespace, name) = (Arc::clone(&workload.namespace), Arc::clone(&workload.name));
        for id in self.workloads[group].take_without_queue() {
            self.update_pod(id, |pod| pod.queue_is_settled = true);
            let (queue, unqueued) = self.queue_of_unnamed(&namespace, Some(&name));
            self.move_pod(id, queue, unqueued, now);
        }
    }

    /// Moves a pod to another queue; `unqueued` says that nothing names that queue for it.
    pub(super) fn move_pod(&mut self, id: PodId, queue: QueueId, unqueued: bool, now: Timestamp) {
        let Some(pod) = self.pod(id) else { return };
        let (Some(before), mut task) = (pod.queue, pod.task.clone()) else {
            return;
        };
        if (before, task.unqueued) == (queue, unqueued) {
            return;
        }
        task.unqueued = unqueued;
        self.name_cards(&mut task, Some(queue));
        self.queues[queue].join();
        self.set_task(id, queue, task);
        self.recharge_pod(id, now);
        self.queues[before].quit();
        self.forget_empty_queue(before);
        self.see_again_with_sharers(id);
    }
}
