//! Pods that nobody was charged for, and that come to be somebody's: their namespace names a queue now, or nobody's cards are free; and
//! those that come to be nobody's.

use std::sync::Arc;

use crds::configuration::UnqueuedCards;
use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::task::Task;

impl Cluster {
    /// Charges those pods of the namespaces that are `concerned` which name neither queue nor card and ask for cards, as they would be
    /// charged were they seen for the first time, and counts anew whom nobody has let in. What a gate holds is seen again when that goes.
    pub(in crate::cluster) fn charge_unqueued(&mut self, concerned: impl Fn(&str) -> bool, now: Timestamp) {
        let charges_all = self.configuration.cardgate.unqueued_cards == UnqueuedCards::Charge;
        let found = self.pods_by_id().filter_map(|(id, pod)| {
            // Whom CrossQuota alone held was let in at nobody's cost, too.
            let is_nobodys = pod.queue.is_none_or(|queue| self.queue(queue).is_nameless());
            let is_nobodys = is_nobodys && pod.is_in() && pod.reachable && concerned(&pod.namespace);
            let is_charged = || {
                let namespace = self.namespace(&pod.namespace);
                charges_all || namespace.is_some_and(|namespace| namespace.queue.is_some())
            };
            (is_nobodys && is_charged() && self.gets_cards(&pod.task)).then_some(id)
        });
        for id in found.collect::<Vec<_>>() {
            self.charge_unqueued_pod(id, now);
        }
        // Whether the door has a reason to hold them depends on the same.
        self.recharge(now, |pod| pod.joined_later() && concerned(&pod.namespace));
    }

    /// Charges nobody any more for those pods that were charged for want of any queue, where such are only counted now.
    pub(in crate::cluster) fn give_back_unqueued(&mut self, now: Timestamp) {
        if self.configuration.cardgate.unqueued_cards == UnqueuedCards::Count {
            self.give_back(|_, pod| pod.task.unqueued, now);
        }
    }

    /// Charges nobody any more for those pods that were charged for resources which are no cards now. Claims stay charged, whatever can be said
    /// of them at the moment.
    pub(in crate::cluster) fn give_back_without_cards(&mut self, now: Timestamp) {
        self.give_back(
            |cluster, pod| pod.task.claimed.is_none() && !cluster.gets_cards(&pod.task),
            now,
        );
    }

    /// Charges nobody any more for those of these pods that were charged for their cards alone.
    fn give_back(&mut self, concerned: impl Fn(&Self, &Pod) -> bool, now: Timestamp) {
        let found = self.pods_by_id();
        let found = found.filter(|(_, pod)| pod.charged_for_cards && pod.is_in() && concerned(self, pod));
        for id in found.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(pod) = self.pod(id) else { continue };
            let (Some(queue), mut task) = (pod.queue, pod.task.clone()) else {
                continue;
            };
            task.unqueued = false;
            self.name_cards(&mut task, None);
            self.update_pod(id, |pod| {
                pod.queue = None;
                pod.task = task;
            });
            self.recharge_pod(id, now);
            self.queues[queue].quit();
            self.forget_empty_queue(queue);
        }
    }

    /// Sees pods of the namespaces that are `concerned` as for the first time, which wait and for which neither they nor their group say the
    /// queue: they may be another queue's, or be nobody's and need not wait. Nobody was let in for that, so no charge moves.
    pub(in crate::cluster) fn see_unqueued_anew(&mut self, concerned: impl Fn(&str) -> bool) {
        let waiting = self.pods_by_id().filter(|(_, pod)| {
            let waits = matches!(pod.stage, Stage::Waiting | Stage::Blocked);
            let is_open = pod.charged_for_cards || !pod.queue_is_settled;
            waits && is_open && pod.reachable && concerned(&pod.namespace)
        });
        for uid in waiting.map(|(_, pod)| Arc::clone(&pod.uid)).collect::<Vec<_>>() {
            self.remove_pod(&uid);
            self.lists.pods_again = true;
        }
    }

    /// Whether a task asks for cards, or shares some that another one pays for.
    pub(super) fn gets_cards(&self, task: &Task) -> bool {
        let shares = task.claimed.as_ref().is_some_and(|claimed| claimed.shared);
        shares || !self.card_resources_of(&task.request).is_empty()
    }

    fn charge_unqueued_pod(&mut self, id: PodId, now: Timestamp) {
        let Some(pod) = self.pod(id) else { return };
        let (namespace, before, mut task) = (Arc::clone(&pod.namespace), pod.queue, pod.task.clone());
        let (queue, unqueued) = self.queue_of_unnamed(&namespace, None);
        task.unqueued = unqueued;
        self.name_cards(&mut task, Some(queue));
        self.queues[queue].join();
        self.update_pod(id, |pod| {
            pod.queue = Some(queue);
            pod.task = task;
            pod.charged_for_cards = true;
        });
        if let Some(before) = before {
            self.queues[before].quit();
            self.forget_empty_queue(before);
        }
        self.recharge_pod(id, now);
        // It pays for what it shares, in place of who waits.
        self.settle_payers(id);
    }
}
