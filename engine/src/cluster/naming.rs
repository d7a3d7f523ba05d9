//! Decides the cards of pods that do not say themselves which cards they ask for (docs/rules.md, **Card quota**). Such a
//! pod is read as if it named every card that its queue has a quota for and that stands for the requested resource.

use std::cmp::Reverse;
use std::sync::Arc;

use crds::card_resources::{counts_cards, is_extended};
use crds::configuration::{QueuePlugin, UnnamedCards, UnqueuedCards};

use super::Cluster;
use super::pod::Pod;
use super::waiting::{Shape, Traits};
use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension};
use crate::ids::{PodId, QueueId};
use crate::names::{CardId, ResourceId};
use crate::policies::capacity;
use crate::reason::Reason;
use crate::task::{Claimed, Naming, Task};

impl Cluster {
    /// Whether a resource counts cards: by the configuration, because nodes were found to have cards of it, or because
    /// classes may provide it.
    pub(crate) fn is_card_resource(&self, resource: ResourceId) -> bool {
        let name = self.names.resource_name(resource);
        self.is_known_for_cards(name) || is_extended(name) && self.claimed.may_provide(name)
    }

    /// Whether a resource counts cards by the nodes or the configuration alone, without regard to classes.
    pub(super) fn is_known_for_cards(&self, resource: &str) -> bool {
        let is_of_nodes = || {
            let known = self.names.known_resource(resource);
            known.is_some_and(|resource| self.cards.are_counted_by(resource))
        };
        is_extended(resource) && (self.configuration.cardgate.is_card_resource(resource) || is_of_nodes())
    }

    /// Returns the resources that count the cards of a request, in order of first appearance.
    pub(crate) fn card_resources_of(&self, request: &Amounts) -> Vec<ResourceId> {
        let resources = request.iter().filter_map(|(dimension, _)| dimension.resource());
        let cards: Vec<_> = resources.filter(|resource| self.is_card_resource(*resource)).collect();
        let counts = |resource: &ResourceId| counts_cards(self.names.resource_name(*resource));
        if cards.iter().any(counts) {
            cards.into_iter().filter(counts).collect()
        } else {
            cards
        }
    }

    /// Sets which cards a task is charged for, according to the configuration, the queue's quota and the nodes now.
    pub(super) fn name_cards(&self, task: &mut Task, queue: Option<QueueId>) {
        let settings = &self.configuration.cardgate;
        let no_cards = |task: &mut Task| {
            if !task.says_cards {
                task.alternatives = Arc::default();
            }
        };
        task.naming = Naming::Own;
        let queue = queue.filter(|queue| !self.queue(*queue).is_nameless());
        let is_uncounted = task.unqueued && settings.unqueued_cards == UnqueuedCards::Count && !task.says_cards;
        let claimed = task.claimed.clone();
        // The cards that the annotation names are for the claimed devices, unless cards are requested otherwise.
        let is_by_claims = |claimed: &Claimed| {
            claimed.is_for_cards() || (claimed.shared && self.card_resources_of(&claimed.others).is_empty())
        };
        if let Some(claimed) = claimed.as_ref().filter(|claimed| is_by_claims(claimed)) {
            task.alternatives = Arc::default();
            task.request = Arc::clone(&claimed.uncharged);
        }
        if let Some(reason) = claimed.as_ref().and_then(|claimed| claimed.refusal) {
            task.naming = Naming::Refused(reason);
            task.alternatives = Arc::default();
            return;
        }
        let for_cards = claimed.filter(|claimed| claimed.is_for_cards());
        // Where queues limit nothing, no pod is read to name the cards that its queue names.
        let is_free = match settings.unnamed_cards {
            UnnamedCards::Free => true,
            UnnamedCards::Charge => self.configuration.queue_plugin == QueuePlugin::Off,
            UnnamedCards::Deny => false,
        };
        let Some(queue) = queue.filter(|_| !is_uncounted && !is_free) else {
            // A claim that itself says which cards it asks for is not unnamed.
            let is_counted = queue.is_some() && !is_uncounted;
            let is_named = |claimed: &Claimed| task.says_cards || (is_counted && claimed.names_cards());
            return match for_cards.filter(|claimed| is_named(claimed)) {
                Some(claimed) => self.name_claimed(task, &claimed, queue),
                None => no_cards(task),
            };
        };
        if let Some(claimed) = for_cards {
            return self.name_claimed(task, &claimed, Some(queue));
        }
        let resources = self.card_resources_of(&task.request);
        if task.says_cards {
            if resources.len() > 1 {
                task.naming = Naming::Refused(Reason::SecondCardResource);
            }
            return;
        }
        no_cards(task);
        task.naming = match (&*resources, settings.unnamed_cards) {
            ([], _) => Naming::Own,
            ([_, _, ..], _) => Naming::Refused(Reason::SecondCardResource),
            ([_], UnnamedCards::Deny) => Naming::Refused(Reason::CardNameMissing),
            ([resource], _) => {
                let cards = self.cards_of_queue(queue, |card| self.resource_of(card) == Some(*resource));
                task.alternatives = cards.into_iter().map(Alternative::Card).collect();
                Naming::ByQueue
            }
        };
    }

    /// Returns the queues whose quotas say which cards the pods of a queue are read to name. Under `capacity-card` a queue
    /// has none of what it does not name. Under `capacity` a queue above may name what the queue does not.
    fn naming_queues(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        let levels = match self.configuration.queue_plugin {
            QueuePlugin::CapacityCard => 1,
            QueuePlugin::Capacity | QueuePlugin::Off => usize::MAX,
        };
        self.ancestry(queue).take(levels)
    }

    /// Whether the quota of the queue `above` says which cards the pods of `queue` are read to name.
    pub(super) fn is_named_by(&self, queue: QueueId, above: QueueId) -> bool {
        self.naming_queues(queue).any(|id| id == above)
    }

    /// Returns the cards, of those that are `meant`, that a queue has a quota for, sorted by name.
    pub(super) fn cards_of_queue(&self, queue: QueueId, meant: impl Fn(CardId) -> bool) -> Vec<CardId> {
        let quotas = self.naming_queues(queue).filter_map(|level| self.queue(level).quota());
        let mut cards: Vec<_> = quotas
            .flat_map(|quota| quota.cards.iter().copied())
            .filter(|card| meant(*card) && self.limits_card(queue, *card))
            .collect();
        cards.sort_by_key(|card| self.names.card_name(*card));
        cards.dedup();
        cards
    }

    /// Returns the cards that a queue has a quota for and that no node has now. The resource that such a card stood for
    /// counts for nothing here, even if it is remembered: an operator that starts now can't know it, and would let in pods
    /// that this operator does not.
    pub(crate) fn unseen_cards_of_queue(&self, queue: QueueId) -> Vec<CardId> {
        self.cards_of_queue(queue, |card| self.is_unseen(card))
    }

    /// Whether a queue has a quota for any card that no node has now.
    pub(crate) fn names_unseen_cards(&self, queue: QueueId) -> bool {
        let quotas = self.naming_queues(queue).filter_map(|level| self.queue(level).quota());
        let mut cards = quotas.flat_map(|quota| quota.cards.iter().copied());
        cards.any(|card| self.is_unseen(card) && self.limits_card(queue, card))
    }

    fn is_unseen(&self, card: CardId) -> bool {
        self.card(card).is_none_or(|card| card.nodes.is_empty())
    }

    /// Whether a queue has a quota for a card under the plugin in force. Where what is not named is 0, an amount that is
    /// only deserved or guaranteed is no quota.
    fn limits_card(&self, queue: QueueId, card: CardId) -> bool {
        let quota = self.queue(queue).quota();
        let is_named = || quota.is_some_and(|quota| quota.capability.get(Dimension::Card(card)).is_some());
        self.configuration.queue_plugin != QueuePlugin::CapacityCard || is_named()
    }

    /// Returns the alternatives of which a pod of this shape gets one, in order. Where the queue chooses, these are the
    /// alternatives that the pod's own selectors leave (all, if they leave none), most free quota first.
    pub(crate) fn in_order_of_quota<'s>(
        &self,
        shape: &Shape,
        mut alternatives: Vec<Option<&'s Alternative>>,
    ) -> Vec<Option<&'s Alternative>> {
        if shape.task.naming != Naming::ByQueue {
            return alternatives;
        }
        let may_select = |card: CardId| {
            self.card(card)
                .is_none_or(|card| card.may_be_selected(&shape.constraints))
        };
        let is_left = |alternative: &Alternative| alternative.all(may_select);
        if shape.task.alternatives.iter().any(is_left) {
            alternatives.retain(|alternative| alternative.is_none_or(is_left));
        }
        let free = |card: CardId| {
            let levels = self.levels(shape.queue, Dimension::Card(card)).into_iter();
            capacity::free(levels.map(|(level, _)| level)).unwrap_or(i128::MAX)
        };
        alternatives.sort_by_cached_key(|alternative| {
            let cards = || alternative.iter().flat_map(|alternative| alternative.cards());
            let names: Vec<_> = cards().map(|card| self.names.card_name(card).to_owned()).collect();
            (Reverse(cards().map(free).min()), names)
        });
        alternatives
    }

    /// Returns the card of its node that a pod without a named card holds, whatever its queue has a quota for.
    pub(super) fn card_of_node(&self, pod: &Pod) -> Option<CardId> {
        let offer = self.node(pod.room?).offer()?;
        let mut cards = offer.cards.iter().map(|card| (card.card, card.resource));
        let (card, _) = cards.find(|(_, resource)| pod.task.count(*resource) > 0)?;
        Some(card)
    }

    /// Determines anew which cards pods are charged for, where what that depends on has changed: for pods that name no
    /// card, in the queues that are `concerned`.
    pub(super) fn name_cards_anew(&mut self, concerned: impl Fn(QueueId) -> bool) {
        let changed = self.pods_by_id().filter_map(|(id, pod)| {
            let queue = pod.queue.filter(|queue| concerned(*queue))?;
            let mut task = pod.task.clone();
            self.name_cards(&mut task, Some(queue));
            (task != pod.task).then_some((id, queue, task))
        });
        for (id, queue, task) in changed.collect::<Vec<_>>() {
            self.set_task(id, queue, task);
        }
    }

    /// Sets the queue that a pod asks, and what it asks for.
    pub(super) fn set_task(&mut self, id: PodId, queue: QueueId, task: Task) {
        let shape = self.pod(id).and_then(|pod| pod.waits.as_ref()).map(|waits| {
            Arc::new(Shape::from(Traits {
                queue,
                namespace: Arc::clone(&waits.shape.namespace),
                group: waits.shape.group,
                task_spec: waits.shape.task_spec.clone(),
                priority: waits.shape.priority,
                preempts: waits.shape.preempts,
                task: task.clone(),
                constraints: waits.shape.constraints.clone(),
                cross_quota: waits.shape.cross_quota,
            }))
        });
        self.update_pod(id, |pod| {
            pod.queue = Some(queue);
            pod.task = task;
            if let (Some(waits), Some(shape)) = (&mut pod.waits, shape) {
                waits.shape = shape;
            }
        });
        let Some(pod) = self.pod(id) else { return };
        let charged = || self.charge_held(pod);
        let charge = pod.charge.is_some().then(charged);
        let asked = self.charge(pod, pod.task.alternatives.first());
        self.update_pod(id, |pod| {
            pod.charge = charge;
            if let Some(waits) = &mut pod.waits {
                waits.asked = asked;
            }
        });
    }
}
