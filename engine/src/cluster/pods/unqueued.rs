//! Pods that no queue was charged for and that come to be charged, since their namespace names a queue now, or the
//! configuration charges pods that name no queue (`unqueuedCards`); and pods that cease to be charged.

use std::sync::Arc;

use crds::configuration::UnqueuedCards;
use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::ids::PodId;
use crate::task::Task;

impl Cluster {
    /// Charges the pods of the namespaces that are `concerned` which name neither queue nor card and ask for cards, as
    /// they would be charged if they were seen for the first time. Also counts anew the pods that nobody has let in. A pod
    /// that a gate holds is seen again when the gate goes.
    pub(in crate::cluster) fn charge_unqueued(&mut self, concerned: impl Fn(&str) -> bool, now: Timestamp) {
        let charges_all = self.configuration.cardgate.unqueued_cards == UnqueuedCards::Charge;
        let found = self.pods_by_id().filter_map(|(id, pod)| {
            // Pods that only CrossQuota held were also let in without any queue being charged.
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
        // Whether the webhook has a reason to hold these pods depends on the same.
        self.recharge(now, |pod| pod.joined_later() && concerned(&pod.namespace));
    }

    /// Ends the charge of pods that were charged for want of any queue, where such pods are only counted now.
    pub(in crate::cluster) fn give_back_unqueued(&mut self, now: Timestamp) {
        if self.configuration.cardgate.unqueued_cards == UnqueuedCards::Count {
            self.give_back(|_, pod| pod.task.unqueued, now);
        }
    }

    /// Ends the charge of pods that were charged for resources which are no longer cards. Claims stay charged, whatever
    /// can be said of them at the moment.
    pub(in crate::cluster) fn give_back_without_cards(&mut self, now: Timestamp) {
        self.give_back(
            |cluster, pod| pod.task.claimed.is_none() && !cluster.gets_cards(&pod.task),
            now,
        );
    }

    /// Ends the charge of those of these pods that were charged only because of their cards.
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
            self.see_again_with_sharers(id);
        }
    }

    /// Charges pods of the namespaces that are `concerned` to the queue that is named for them now, or to none, where they
    /// were let in and charged only because of their cards. An operator that starts now would come to the same.
    pub(in crate::cluster) fn follow_names_of_queues(&mut self, concerned: impl Fn(&str) -> bool, now: Timestamp) {
        let names_none = |pod: &Pod| pod.charged_for_cards && !pod.queue_is_settled && concerned(&pod.namespace);
        let is_nobodys = |cluster: &Self, pod: &Pod| !cluster.charges_unqueued_cards(&pod.namespace);
        self.give_back(|cluster, pod| names_none(pod) && is_nobodys(cluster, pod), now);
        let found = self.pods_by_id().filter(|(_, pod)| {
            let was_let_in = !matches!(pod.stage, Stage::Waiting | Stage::Blocked);
            was_let_in && names_none(pod) && !is_nobodys(self, pod)
        });
        let found = found.map(|(id, pod)| (id, Arc::clone(&pod.namespace)));
        for (id, namespace) in found.collect::<Vec<_>>() {
            let (queue, unqueued) = self.queue_of_unnamed(&namespace, None);
            self.move_pod(id, queue, unqueued, now);
        }
    }

    /// Sees pods of the namespaces that are `concerned` as for the first time, where they wait and neither they nor their
    /// group name the queue. They may belong to another queue, or to none and need not wait. None of them was let in, so
    /// no charge moves.
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

    /// Whether a task asks for cards, or shares cards that another pod pays for.
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
        // The pod pays for what it shares, in place of a pod that waits.
        self.settle_payers(id);
    }
}
