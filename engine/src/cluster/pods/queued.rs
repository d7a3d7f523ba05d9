//! Decides which queue, if any, is charged for a pod (docs/rules.md, **Which pods are managed**).

use std::sync::Arc;

use crds::configuration::UnqueuedCards;

use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::cluster::queue::NAMELESS;
use crate::cluster::reading::Reading;
use crate::cluster::workload::QueueNaming;
use crate::devices::Named;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::refs::WorkloadKind;
use crate::task::Task;

impl Cluster {
    /// Returns the queue that is charged for a pod, where Cardgate manages the pod. From then on the pod's task says
    /// everything that depends on the queue.
    pub(super) fn read_queue(
        &mut self,
        reading: &mut Reading,
        namespace: &Arc<str>,
        uid: &str,
        known: Option<PodId>,
        named: &[Named],
    ) -> Option<QueueId> {
        let queue = reading.managed.then(|| self.queue_of_pod(reading, namespace, known));
        let (queue, unqueued) = queue.unzip();
        reading.task.unqueued = unqueued.unwrap_or_default();
        self.check_payers(&mut reading.task, namespace, uid, queue, named);
        self.name_cards(&mut reading.task, queue);
        queue
    }

    /// Returns the queue that is charged for a managed pod, and whether it is the default queue for want of any other.
    pub(super) fn queue_of_pod(&mut self, reading: &Reading, namespace: &str, known: Option<PodId>) -> (QueueId, bool) {
        if reading.in_no_queue {
            return (self.queue_id(NAMELESS), false);
        }
        if let Some(name) = &reading.queue_annotation {
            return (self.queue_id(name), false);
        }
        // A later change elsewhere does not move a charge.
        let old = known.and_then(|id| self.pod(id));
        let charged = old.and_then(|old| Some((old.queue?, old.task.unqueued)));
        // But a pod that turns out only now to be for cards was charged to no queue before.
        if let Some(charged) = charged.filter(|(queue, _)| !self.queue(*queue).is_nameless()) {
            return charged;
        }
        self.queue_of_unnamed(namespace, reading.group.as_deref())
    }

    /// Whether what names a pod's queue exists now, or did before: the pod itself, or its group.
    pub(super) fn is_queue_settled(&self, reading: &Reading, group: Option<WorkloadId>, old: Option<&Pod>) -> bool {
        let group_is_there = || group.is_some_and(|group| self.workload(group).terms.is_some());
        let was_settled = || old.is_some_and(|old| old.queue_is_settled && old.group == group);
        reading.queue_annotation.is_some() || group_is_there() || was_settled()
    }

    /// Returns the queue of a pod that names none: its group's, else its namespace's, else the default queue. Also returns
    /// whether it is the default queue for want of any other. The webhook writes the queue on every pod but these, so
    /// other pods without it were there before Cardgate, or before their group.
    pub(super) fn queue_of_unnamed(&mut self, namespace: &str, group: Option<&str>) -> (QueueId, bool) {
        let group = group.and_then(|group| self.workload_named(WorkloadKind::PodGroup, namespace, group));
        let group = group.and_then(|group| self.workload(group).terms.as_ref());
        let group = group.map(|terms| (terms.queue, terms.naming.queue.is_some()));
        let (queue, names) =
            group.unwrap_or_else(|| (self.queue_of_workload(namespace, &QueueNaming::default()), false));
        let of_namespace = self.namespace(namespace);
        let is_named = names || of_namespace.is_some_and(|namespace| namespace.queue.is_some());
        (queue, !is_named)
    }

    /// Whether a pod that names neither queue nor card asks for cards that are charged all the same: its namespace names a
    /// queue, or the configuration charges pods that name no queue (`unqueuedCards: charge`). A pod that was charged once
    /// for what it names stays charged for as long as it may be for cards. While any pods are charged there, a pod with
    /// claims that was let in and charged for its cards stays so: their devices may not be shown for a while.
    pub(super) fn asks_for_charged_cards(&self, reading: &Reading, namespace: &str, known: Option<PodId>) -> bool {
        let old = known.and_then(|id| self.pod(id));
        let old = old.filter(|old| old.queue.is_some_and(|queue| !self.queue(queue).is_nameless()));
        // One that was just being let in when this ended has kept its charge until now.
        let named_nothing = |old: &Pod| old.charged_for_cards && !old.queue_is_settled;
        let old = old.filter(|old| !named_nothing(old) || self.charges_unqueued_cards(namespace));
        let was_let_in = |old: &Pod| !matches!(old.stage, Stage::Waiting | Stage::Blocked);
        let is_kept = reading.task.claimed.is_some() && old.is_some_and(|old| old.charged_for_cards && was_let_in(old));
        let is_charged = || old.is_some() || self.charges_unqueued_cards(namespace);
        let is_open = !reading.managed || reading.in_no_queue;
        is_open && reading.reachable && (is_kept || self.may_be_for_cards(&reading.task) && is_charged())
    }

    /// Whether nobody has let a pod in: it came into its group when it was there already, and the webhook has no other
    /// reason to hold it, or to hold the pod that replaces it.
    pub(crate) fn is_let_in_by_nobody(&self, pod: &Pod) -> bool {
        pod.joined_later() && !(self.may_be_for_cards(&pod.task) && self.charges_unqueued_cards(&pod.namespace))
    }

    /// Whether another pod, held by nobody either, runs at once in the place of this pod if it is evicted. A pod that is
    /// for cards, or of a gang, is evicted all the same: otherwise a tenant could use pods that nobody holds to keep the
    /// cards of the pods beside them.
    pub(crate) fn comes_back_unheld(&self, pod: &Pod) -> bool {
        let is_of_gang = || pod.group.is_some_and(|group| self.workload(group).is_gang());
        let may_come_back = pod.controller.is_some() && self.is_let_in_by_nobody(pod);
        may_come_back && !is_of_gang() && !self.may_be_for_cards(&pod.task)
    }

    /// Whether the cards of pods that name no queue are charged in this namespace.
    pub(crate) fn charges_unqueued_cards(&self, namespace: &str) -> bool {
        let namespace = self.namespace(namespace);
        let names_queue = namespace.is_some_and(|namespace| namespace.queue.is_some());
        names_queue || self.configuration.cardgate.unqueued_cards == UnqueuedCards::Charge
    }

    /// Whether the webhook holds a pod only for its claims, and it is not known what these are for.
    pub(super) fn is_held_for_its_claims(&self, reading: &Reading, namespace: &str) -> bool {
        let claimed = reading.task.claimed.as_ref();
        let is_unknown = claimed.is_some_and(|claimed| claimed.refusal.is_some());
        !reading.managed && reading.reachable && is_unknown && self.charges_unqueued_cards(namespace)
    }

    /// Whether a pod asks for cards. Claims of which nothing can be said may be for cards: otherwise they would be a way
    /// past the queue of the namespace.
    fn may_be_for_cards(&self, task: &Task) -> bool {
        let is_unclear = task.unreadable.is_some() && task.claimed.is_some();
        is_unclear || self.gets_cards(task)
    }
}
