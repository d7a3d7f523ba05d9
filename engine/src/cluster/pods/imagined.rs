//! Pods that are asked about and are not there.

use std::sync::Arc;

use crds::pod::PodStatus;

use crate::cluster::Cluster;
use crate::cluster::claiming::claims_excess;
use crate::cluster::devices::NOBODY;
use crate::cluster::pod;
use crate::cluster::waiting::{Shape, Traits};
use crate::refs::WorkloadKind;

impl Cluster {
    /// How a pod would wait that is created now; none where Cardgate would not hold it. Its names count as in use until
    /// [`Self::forget_imagined`].
    pub(crate) fn imagine(&mut self, mut pod: crds::pod::Pod<Box<str>>, namespace: &str) -> Option<Shape> {
        let namespace = self.texts.get(namespace);
        let priority = pod.spec.priority.unwrap_or(0);
        // Nothing has come of it yet, whatever it says: neither claims that were made for it nor a node.
        pod.status = PodStatus::default();
        let mut reading = pod::read(&mut pod, &namespace, &mut self.names);
        let named = match claims_excess(&pod.spec) {
            None => self.imagine_claims(&mut reading, &pod, &namespace),
            Some(excess) => {
                self.put_excess(&mut reading, excess);
                Vec::new()
            }
        };
        self.meet_resources();
        if self.asks_for_charged_cards(&reading, &namespace, None) {
            (reading.managed, reading.in_no_queue) = (true, false);
        }
        if !reading.managed {
            self.forget_names(reading.task.cards().count(), reading.task.request.iter().len());
            return None;
        }
        let (queue, unqueued) = self.queue_of_pod(&reading, &namespace, None);
        reading.task.unqueued = unqueued;
        self.check_payers(&mut reading.task, &namespace, NOBODY, Some(queue), &named);
        self.name_cards(&mut reading.task, Some(queue));
        let group = reading.group.as_deref();
        let group = group.and_then(|group| self.workload_named(WorkloadKind::PodGroup, &namespace, group));
        let task_spec = pod::task_spec(&pod.metadata).filter(|_| group.is_some());
        let task_spec = task_spec.map(|task| self.texts.get(task));
        Some(Shape::from(Traits {
            queue,
            namespace: Arc::clone(&namespace),
            group,
            task_spec,
            priority,
            task: reading.task,
            constraints: reading.constraints,
            cross_quota: reading.cross_quota,
        }))
    }

    /// Nobody asks any more.
    pub(crate) fn forget_imagined(&mut self, shape: &Shape) {
        self.forget_names(shape.task.cards().count(), shape.task.request.iter().len());
        self.forget_empty_queue(shape.queue);
    }

    /// So many cards and resources are named by one pod less.
    fn forget_names(&mut self, cards: usize, resources: usize) {
        // CPU, memory and the pod's slot are names that stay.
        self.names.gone(cards, resources.saturating_sub(3));
    }
}
