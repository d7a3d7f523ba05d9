//! Counts what pods hold of queues and nodes, in and out. Only this module does so, since nobody else holds the [`Pen`].

mod asides;
mod forgone;
mod pods;
mod rooms;
mod upwards;

use std::iter;
use std::sync::Arc;

use crds::keys::MGPU_CORE;
use jiff::Timestamp;

use super::Cluster;
use super::pod::{Evicting, Pod, Stage, Waits};
use super::set_back::SetBack;
use super::waiting::{Refused, Shape};
use super::workload::Workload;
use crate::alternative::Alternative;
use crate::ids::{PodId, QueueId};
use crate::inqueue::Demand;
use crate::metering::{self, Charge};
use crate::names::CardId;
use crate::reason::Reason;
use crate::task::{Naming, Task};

pub(crate) use asides::Hold;
pub(super) use pods::Pods;

/// The permission to change what is counted of a queue, a node or the cluster. Only the ledger can make one.
#[derive(Debug, Clone, Copy)]
pub struct Pen(());

const PEN: Pen = Pen(());

/// The parts of a pod that no sum depends on.
pub(super) struct Marks<'p> {
    pub(super) eviction: &'p mut Evicting,
    pub(super) epoch: &'p mut u64,
}

impl Cluster {
    /// Returns what a pod holds at its stage. A pod holds nothing while it waits, and nothing once its deletion has taken
    /// too long. A pod that is deleted before it has a node will run nowhere: if it names claims to which nothing is
    /// allocated, it holds nothing from then on. A pod that nobody has let in holds nothing before it has a node, or
    /// devices that it pays for: it has waited for no quota, and may never run.
    pub(super) fn charge_for(&self, pod: &Pod, now: Timestamp) -> Option<Charge> {
        let holds = match pod.stage {
            Stage::Waiting | Stage::Blocked => false,
            Stage::Unbound { .. } => !self.is_let_in_by_nobody(pod) || self.pays_for_devices(pod),
            Stage::Admitting { .. } | Stage::Bound => true,
        };
        let never_runs = pod.deleted.is_some() && matches!(pod.stage, Stage::Unbound { .. });
        let ended = self.quota_end(pod).is_some_and(|end| end <= now) || never_runs && self.names_open_claims(pod);
        (pod.queue.is_some() && holds && !ended).then(|| self.charge_held(pod))
    }

    /// Returns the charge of a pod that holds what it is charged for.
    pub(super) fn charge_held(&self, pod: &Pod) -> Charge {
        let alternative = self.charged_alternative(pod);
        let count = |card| self.count_held(pod, card);
        Charge::of(
            &self.configuration.capacity_card,
            &pod.task,
            alternative.as_ref(),
            count,
        )
    }

    /// Returns how many of a card a pod has. A new node may make the card's name stand for another resource; a pod that
    /// has the card by the former resource then has no less of it. In that case the resource that the pod's node counts
    /// the card by is used, or, for a card that the pod was let in for, any resource that counts cards.
    fn count_held(&self, pod: &Pod, card: CardId) -> i64 {
        let by_meaning = self.count_asked(&pod.task, card);
        if by_meaning > 0 {
            return by_meaning;
        }
        let on_node = pod.room.and_then(|node| self.node(node).card(card));
        let by_node = on_node.map_or(0, |card| pod.task.count(card.resource));
        if by_node > 0 {
            return by_node;
        }
        let was_let_in = pod.assigned.as_ref().is_some_and(|assigned| assigned.has(card));
        if !was_let_in {
            return 0;
        }
        let resources = self.card_resources_of(&pod.task.request).into_iter();
        // Shares are counted in hundredths of a card, and have names of their own.
        let whole = resources.filter(|resource| self.names.resource_name(*resource) != MGPU_CORE);
        let known = whole.map(|resource| pod.task.count(resource)).max();
        // Nothing is known any more of a resource that counted cards before this program began.
        known.unwrap_or_else(|| metering::card_count(&self.names, &pod.task, None))
    }

    /// Returns how many of a card a task asks for. If no node has had the card since this program began, nodes said to an
    /// earlier program what counts it. Then the resources are used that the configuration, which is the same, knows for
    /// cards, and not whatever else the task asks for most of.
    fn count_asked(&self, task: &Task, card: CardId) -> i64 {
        let meant = self.resource_of(card);
        if meant.is_none() {
            let known = self.card_resources_of(&task.request).into_iter();
            if let Some(count) = known.map(|resource| task.count(resource)).max() {
                return count;
            }
        }
        metering::card_count(&self.names, task, meant)
    }

    /// Returns the charge of a pod with an alternative.
    pub(crate) fn charge(&self, pod: &Pod, alternative: Option<&Alternative>) -> Charge {
        let count = |card| self.count_asked(&pod.task, card);
        Charge::of(&self.configuration.capacity_card, &pod.task, alternative, count)
    }

    /// Returns the part of a workload's own demand that counts.
    pub(crate) fn metered(&self, workload: &Workload, demand: &Demand) -> Demand {
        let arguments = &self.configuration.capacity_card;
        let is_for_cards = arguments.card_unlimited_cpu_memory && self.is_for_cards(workload, demand);
        metering::metered(arguments, demand, is_for_cards, |card| self.resource_of(card))
    }

    /// Whether a workload uses cards in any way: by name, by a card resource, or by the pods that it has.
    fn is_for_cards(&self, workload: &Workload, demand: &Demand) -> bool {
        let mut resources = demand
            .resources
            .iter()
            .filter_map(|(dimension, _)| dimension.resource());
        let mut pods = workload.line.iter().filter_map(|(_, place)| self.pod(place.pod));
        !demand.cards.is_empty()
            || resources.any(|resource| self.is_card_resource(resource))
            || pods.any(|pod| pod.task.is_for_cards())
    }

    /// Returns what pods ask for in all, each with the alternatives that the cluster knows.
    pub(crate) fn demand_of(&self, pods: impl IntoIterator<Item = PodId>) -> Demand {
        let pods = pods.into_iter().filter_map(|id| self.pod(id));
        let arguments = &self.configuration.capacity_card;
        metering::demand_of(arguments, pods.map(|pod| &pod.task), |card| self.resource_of(card))
    }

    /// Returns the cards that a pod counts for: the cards that were written when it was let in or that were allocated to
    /// it; else the cards of its node that it asks for, or the node's cards in their place; else the cards that it prefers
    /// (docs/rules.md, **Card quota**).
    pub(super) fn charged_alternative(&self, pod: &Pod) -> Option<Alternative> {
        let of_node = || {
            let node = self.node(pod.room.filter(|_| counts_by_node(pod))?);
            let mut alternatives = pod.task.alternatives.iter();
            let claims = pod.task.claims_cards();
            let has = |card| {
                let card = node.card(card);
                card.is_some_and(|card| claims || pod.task.count(card.resource) > 0)
            };
            let is_there = |alternative: &&Alternative| alternative.all(has);
            let named = alternatives.find(is_there).filter(|_| pod.task.says_cards || claims);
            let given = || self.card_of_node(pod).filter(|_| !claims).map(Alternative::Card);
            named.cloned().or_else(given)
        };
        let assigned = pod.assigned.clone().map(|assigned| self.and_beside(pod, assigned));
        assigned
            .or_else(of_node)
            .or_else(|| pod.task.alternatives.first().cloned())
    }

    /// Counts in what a pod holds: quota, room, and its place among the waiting pods.
    pub(super) fn enter(&mut self, id: PodId) {
        self.stirred += 1;
        let Some(pod) = self.pods.table[id].take() else {
            return;
        };
        self.pods.with_resource_claims += usize::from(pod.claims_other_devices);
        let marks = [pod.deleted, pod.eviction.since, pod.eviction.spared_until];
        if marks.iter().any(Option::is_some) {
            self.pods.leaving.insert(id);
        }
        if let Some(queue) = pod.queue {
            if let Some(charge) = &pod.charge {
                let charged = charge.amounts.iter();
                let charged = charged.map(|(dimension, amount)| (dimension, i128::from(amount)));
                self.change_allocated(queue, charged);
                self.queues[queue].books(PEN).holders.insert(id, &pod, &charge.amounts);
            }
            let state = &mut self.queues[queue];
            let waits = pod.waits.as_ref().filter(|_| pod.stage == Stage::Waiting);
            if let Some(reason) = waits.and_then(Waits::aside_reason) {
                state.books(PEN).waiting.set_aside(id, Some(reason));
            } else if let Some(waits) = waits {
                if state.books(PEN).waiting.insert(
                    &waits.shape,
                    waits.place,
                    &waits.asked.amounts,
                    pod.whole(),
                    pod.told,
                ) {
                    self.change_requested_above(queue, &waits.asked.amounts, 1);
                }
                self.note_untold(queue);
            }
            self.changes.queues.insert(queue);
        }
        self.expect_devices(id, &pod, true);
        if let Some(node) = pod.room {
            self.count_uncharged(&pod, 1);
            self.count_without_gpu(node, &pod, 1);
            self.take_room(node, id, &pod);
            if counts_by_node(&pod) {
                self.nodes[node].books(PEN).undecided.insert(id);
            }
        }
        self.pods.table[id] = Some(pod);
        self.enter_gpus(id);
        self.join_workloads(id);
    }

    /// Counts out what a pod holds.
    pub(super) fn leave(&mut self, id: PodId) {
        self.stirred += 1;
        self.quit_workloads(id);
        let Some(pod) = self.pods.table[id].take() else {
            return;
        };
        self.pods.with_resource_claims -= usize::from(pod.claims_other_devices);
        self.pods.leaving.remove(&id);
        if let Some(queue) = pod.queue {
            if let Some(charge) = &pod.charge {
                let charged = charge.amounts.iter();
                let charged = charged.map(|(dimension, amount)| (dimension, -i128::from(amount)));
                self.change_allocated(queue, charged);
                let state = &mut self.queues[queue];
                state.books(PEN).holders.remove(id, &pod, &charge.amounts);
                state.wake();
            }
            let state = &mut self.queues[queue];
            state.books(PEN).waiting.set_aside(id, None);
            if let Some(waits) = &pod.waits {
                if state.books(PEN).waiting.remove(
                    &waits.shape,
                    waits.place,
                    &waits.asked.amounts,
                    pod.whole().as_ref(),
                ) {
                    self.change_requested_above(queue, &waits.asked.amounts, -1);
                }
                self.note_untold(queue);
            }
            self.changes.queues.insert(queue);
        }
        self.expect_devices(id, &pod, false);
        if let Some(node) = pod.room {
            self.count_uncharged(&pod, -1);
            self.count_without_gpu(node, &pod, -1);
            self.give_room_back(node, id, &pod);
            self.nodes[node].books(PEN).undecided.remove(&id);
        }
        self.pods.table[id] = Some(pod);
        self.leave_gpus(id);
    }

    /// Puts a pod in its place in the table, or in a new place where it has none, and counts in what it holds.
    pub(super) fn put_pod(&mut self, known: Option<PodId>, mut pod: Pod) -> PodId {
        let id = known.unwrap_or_else(|| self.pods.table.insert(Arc::clone(&pod.uid), None));
        if let Some(waits) = &mut pod.waits {
            waits.place.pod = id;
        }
        self.pods.table[id] = Some(pod);
        self.enter(id);
        self.set_deadline(id);
        id
    }

    /// Takes a pod out of the table, with all that it holds.
    pub(super) fn take_pod(&mut self, uid: &str) -> Option<Pod> {
        let id = self.pods.table.remove(uid)?;
        self.leave(id);
        self.deadlines.set(id, None);
        self.pods.table[id].take()
    }

    /// Remembers a refusal for the waiting pods of a shape, and which pods have to be told about it.
    pub(crate) fn remember_refusal(&mut self, shape: &Shape, refused: Refused) {
        let books = self.queues[shape.queue].books(PEN);
        books.waiting.remember(shape, refused);
        self.note_untold(shape.queue);
    }

    /// Updates whether pods of a queue have something to be told.
    fn note_untold(&mut self, queue: QueueId) {
        if self
            .queues
            .get(queue)
            .is_some_and(|queue| queue.waiting.untold().next().is_some())
        {
            self.untold.insert(queue);
        } else {
            self.untold.remove(&queue);
        }
    }

    /// Remembers what a waiting pod has been told.
    pub(crate) fn tell(&mut self, id: PodId, reason: Reason) {
        let Some(pod) = self.pods.table[id].as_mut() else {
            return;
        };
        pod.told = Some(reason);
        if let (Some(queue), Some(waits)) = (pod.queue, &pod.waits) {
            self.queues[queue]
                .books(PEN)
                .waiting
                .note_told(&waits.shape, waits.place);
            self.note_untold(queue);
        }
    }

    /// Returns how many pods claim devices that are not cards.
    pub fn pods_with_resource_claims(&self) -> usize {
        self.pods.with_resource_claims
    }

    /// Marks a pod as being evicted.
    pub(super) fn mark_evicted(&mut self, id: PodId, now: Timestamp) {
        if let Some(marks) = self.mark_pod(id) {
            marks.eviction.since = Some(now);
            self.pods.leaving.insert(id);
        }
    }

    /// Returns the parts of a pod that no sum depends on, to be changed.
    pub(super) fn mark_pod(&mut self, id: PodId) -> Option<Marks<'_>> {
        let pod = self.pods.table[id].as_mut()?;
        Some(Marks {
            eviction: &mut pod.eviction,
            epoch: &mut pod.epoch,
        })
    }

    /// Moves the times of pods back after the clock was set back. No sum depends on these times, only on whether there are
    /// any.
    pub(super) fn bring_pods_back(&mut self, back: SetBack) {
        for pod in self.pods.table.iter_mut().filter_map(|(_, pod)| pod.as_mut()) {
            let of_stage = match &mut pod.stage {
                Stage::Admitting { until: time, .. } | Stage::Unbound { since: time, .. } => Some(time),
                Stage::Waiting | Stage::Blocked | Stage::Bound => None,
            };
            let Evicting {
                since, spared_until, ..
            } = &mut pod.eviction;
            let waits = pod.waits.iter_mut();
            let of_wait = waits.flat_map(|waits| iter::once(&mut waits.since).chain(&mut waits.aside_until));
            let times = of_stage.into_iter().chain(since).chain(spared_until).chain(of_wait);
            times.chain([&mut pod.seen]).for_each(|time| back.bring_back(time));
        }
    }

    /// Sets other times for a pod that stays at the same stage.
    pub(super) fn prolong_stage(&mut self, id: PodId, stage: Stage) {
        if let Some(pod) = self.pods.table[id].as_mut()
            && std::mem::discriminant(&pod.stage) == std::mem::discriminant(&stage)
        {
            pod.stage = stage;
        }
        self.set_deadline(id);
    }

    /// Changes a pod, and counts anew all that it holds.
    pub(super) fn recount<R>(&mut self, id: PodId, change: impl FnOnce(&mut Pod) -> R) -> Option<R> {
        self.leave(id);
        let changed = self.pods.table[id].as_mut().map(change);
        self.enter(id);
        changed
    }

    /// Changes a pod as [`Self::recount`] does, renews its deadline, and forgets a node of which nothing else is known.
    pub(super) fn update_pod(&mut self, id: PodId, change: impl FnOnce(&mut Pod)) {
        let room = self.pod(id).and_then(|pod| pod.room);
        self.recount(id, change);
        self.set_deadline(id);
        if let Some(node) = room {
            self.forget_empty_node(node);
        }
    }

    /// Counts anew what the pods that `concerned` selects hold, when what their requests mean has changed.
    pub(super) fn recharge(&mut self, now: Timestamp, concerned: impl Fn(&Pod) -> bool) {
        let pods = self.pods_by_id();
        let pods = pods.filter(|(_, pod)| pod.queue.is_some() && concerned(pod));
        for id in pods.map(|(id, _)| id).collect::<Vec<_>>() {
            self.recharge_pod(id, now);
        }
    }

    /// Counts anew what a pod holds.
    pub(super) fn recharge_pod(&mut self, id: PodId, now: Timestamp) {
        let Some(pod) = self.pod(id) else { return };
        let charge = self.charge_for(pod, now);
        let asked = self.charge(pod, pod.task.alternatives.first());
        self.update_pod(id, |pod| {
            pod.put_charge(charge);
            if let Some(waits) = &mut pod.waits {
                waits.asked = asked;
            }
        });
        self.settle_payers(id);
    }
}

/// Whether the node that a pod runs on decides which cards the pod counts for.
fn counts_by_node(pod: &Pod) -> bool {
    let is_open = pod.task.says_cards || pod.task.naming != Naming::Own;
    let is_given = pod
        .task
        .claimed
        .as_ref()
        .is_some_and(|claimed| claimed.allocated.is_some());
    pod.stage == Stage::Bound && (pod.assigned.is_none() || is_given) && is_open
}
