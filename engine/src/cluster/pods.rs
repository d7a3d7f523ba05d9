//! What happens when pods come, change, and go.

mod imagined;
mod of_groups;
mod queued;
mod unqueued;

use std::sync::Arc;

use crds::keys::GATE;
use crds::pod::PodSpec;
use jiff::{SignedDuration, Timestamp};

use super::claimed_cards::let_in_for_others;
use super::deadlines::Return;
use super::device_room::allocated_at;
use super::gates::Gates;
use super::kept::to_keep;
use super::place::Place;
use super::pod::{Pod, Stage, Waits};
use super::reading::{self, Reading};
use super::times::{end_of_deletion, ends_at_once, read_time};
use super::waiting::{Shape, Traits};
use super::{Cluster, Kind};
use crate::ids::{NodeId, PodId, QueueId};
use crate::task::Task;
pub(crate) use imagined::Allowance;

impl Cluster {
    /// Takes in what a pod says.
    pub(crate) fn apply_pod(&mut self, pod: crds::pod::Pod<Box<str>>, now: Timestamp) {
        self.apply_pod_of(self.epoch(Kind::Pod), pod, now);
    }

    /// Takes in a pod again as it was seen last. Which lists have named the pod stays as it was: otherwise a pod that is
    /// gone would outlive the list that does not name it any more.
    pub(super) fn apply_pod_again(&mut self, pod: crds::pod::Pod<Box<str>>, now: Timestamp) {
        let known = pod.metadata.uid.as_deref().and_then(|uid| self.pod_with_uid(uid));
        if let Some(epoch) = known.and_then(|id| self.pod(id)).map(|pod| pod.epoch) {
            self.apply_pod_of(epoch, pod, now);
        }
    }

    /// Takes in what a pod says that was named last by the list of this number.
    fn apply_pod_of(&mut self, epoch: u64, mut pod: crds::pod::Pod<Box<str>>, now: Timestamp) {
        let as_seen = self.may_claim(&pod).then(|| to_keep(&pod));
        let (Some(uid), Some(name)) = (pod.metadata.uid.take(), pod.metadata.name.take()) else {
            return;
        };
        let namespace = self.texts.get(pod.metadata.namespace.as_deref().unwrap_or_default());
        if self.end_if_over(&uid, &namespace, &pod, now) {
            return;
        }
        let known = self.pods.id(&uid);
        self.note_named_by(epoch, known);
        let mut reading = reading::read(&mut pod, &namespace, &mut self.names);
        let named = self.read_claims(&mut reading, as_seen, &namespace, &uid);
        let claims_are_known = self.keep_claimed(&mut reading, known);
        self.meet_resources();
        reading.manage_own_gate();
        let charged_for_cards = self.asks_for_charged_cards(&reading, &namespace, known);
        reading.managed |= charged_for_cards;
        reading.in_no_queue &= !charged_for_cards;
        let queue = self.read_queue(&mut reading, &namespace, &uid, known, &named);
        let node_name = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
        // A pod that is being deleted is not placed any more.
        if node_name.is_some() || pod.metadata.deletion_timestamp.is_some() {
            self.end_assumption(&uid);
        }
        let bound_to = node_name.map(|node| self.node_id(node));
        let own_grace = bound_to.and(pod.spec.termination_grace_period_seconds);
        // A pod that was let in and can go to only one node holds room there even before it is bound, also after a
        // restart.
        let only_node = self.only_node_of(&reading).filter(|_| bound_to.is_none());
        let (group, task_spec, job) = self.workloads_of(&reading, &pod.metadata, &namespace);
        let old = known.and_then(|id| self.pod(id));
        // A later deletion with a shorter grace period may find a kubelet that keeps to the earlier one.
        let deleted = end_of_deletion(&pod.metadata, own_grace).max(old.and_then(|old| old.deleted));
        let was_held = pod.spec.has_gate(GATE) || reading.shows_it_was_held || old.is_some_and(|old| old.was_held);
        let has_group_made_for_it = reading.names_group_alone && reading.has_group_made_for_it(&uid);
        let (assigned, let_in) = (self.assigned_of(&reading, old), self.let_in_set(&reading));
        let stage = stage(&reading, &pod.spec, bound_to, deleted.is_some(), old, now);
        let under_way = old.filter(|_| matches!(stage, Stage::Admitting { .. }));
        let room = bound_to.or_else(|| expected_on(only_node, old, deleted));
        let mut new = Pod {
            // Without a readable time of creation, a pod is as young as can be.
            created: read_time(pod.metadata.creation_timestamp.as_deref()).unwrap_or(now),
            seen: old.map_or(now, |old| old.seen),
            namespace,
            name: name.into(),
            queue,
            queue_is_settled: self.is_queue_settled(&reading, group, old),
            stage,
            charge: None,
            priority: pod.spec.priority.unwrap_or(0),
            eviction: old.map(|old| old.eviction).unwrap_or_default(),
            room: room.filter(|_| !matches!(stage, Stage::Waiting | Stage::Blocked)),
            deleted,
            ends: reading.ends,
            assigned: assigned.or_else(|| under_way?.assigned.clone()),
            group,
            task_spec,
            job,
            job_uid: reading.controller_uid.take().filter(|_| job.is_some()),
            binding: old.is_some_and(|old| old.binding) && matches!(stage, Stage::Unbound { .. }),
            has_one_node: only_node.is_some(),
            gpus: reading.cards(stage, old),
            gpus_are_written: reading.cards_are_written(),
            controller: reading.controller.clone(),
            returns: returns(old, stage, self.return_of(reading.controller.as_ref(), now)),
            reachable: reading.reachable,
            charged_for_cards,
            has_group_made_for_it,
            was_held,
            has_annotations: !pod.metadata.annotations.is_empty(),
            claims_other_devices: !named.is_empty() && !reading.task.claims_cards(),
            other_gates: reading.other_gates.take(),
            waits: None,
            told: old.map_or(reading.told, |old| old.told),
            shown_as_waiting: reading.shown_as_waiting,
            epoch,
            uid: old.map_or_else(|| uid.into(), |old| Arc::clone(&old.uid)),
            task: reading.task.clone(),
        };
        new.put_charge(self.charge_for(&new, now));
        let (got_others, was_in) = (let_in_for_others(&new, old), old.is_some_and(Pod::is_in));
        let bound_now = stage == Stage::Bound && old.is_none_or(|old| old.stage != Stage::Bound);
        let wrongly_shown = is_wrongly_shown_as_waiting(&new, old).then(|| Arc::clone(&new.uid));
        self.changes.shown_as_waiting.extend(wrongly_shown);
        if let (Stage::Waiting | Stage::Admitting { .. }, Some(queue)) = (stage, queue) {
            new.waits = Some(self.waits(known, &new, queue, reading, now));
        }
        self.changes.got_others.extend(got_others);
        let id = match known {
            Some(id) => self.replace_pod(id, new),
            None => self.add_pod(new),
        };
        if bound_now {
            self.note_bound(id, known.is_some());
        }
        if self.pod(id).is_some_and(Pod::is_in) {
            self.note_taken_over(id);
        }
        self.note_held_elsewhere(id);
        self.note_outgrown(id, let_in, claims_are_known, ends_at_once(&pod.metadata), now);
        if self.pod(id).is_some_and(Pod::is_in) != was_in {
            self.see_sharers_again(id, &named);
        }
        self.settle_payers(id);
    }

    /// A pod has a node. Where it was known before, the scheduler has placed it; a new one may have been created with its node.
    fn note_bound(&mut self, id: PodId, was_known: bool) {
        self.note_unplaced(id);
        if was_known {
            self.note_placed(id);
        }
    }

    /// Notes that the list of this number has named a pod.
    fn note_named_by(&mut self, epoch: u64, known: Option<PodId>) {
        if let Some(marks) = known.and_then(|id| self.mark_pod(id)) {
            *marks.epoch = epoch;
        }
    }

    /// Returns the only node that a managed pod without a gate can go to, because it is pinned there or has devices there.
    fn only_node_of(&mut self, reading: &Reading) -> Option<NodeId> {
        if !reading.managed || reading.gates != Gates::None {
            return None;
        }
        let pinned_to = reading.constraints.affinity.pinned_to();
        let node = pinned_to.or_else(|| allocated_at(&reading.task))?;
        Some(self.node_id(node))
    }

    /// Removes a pod that is over. Returns whether it is over.
    fn end_if_over(&mut self, uid: &str, namespace: &str, pod: &crds::pod::Pod<Box<str>>, now: Timestamp) -> bool {
        let phase = pod.status.phase.as_deref();
        if !matches!(phase, Some("Succeeded" | "Failed")) {
            // This was seen later, but written earlier. A pod that is over stays so.
            return self.members.has_succeeded(uid);
        }
        self.remove_pod(uid);
        if phase == Some("Succeeded") {
            self.note_succeeded(uid, namespace, pod, now);
        }
        true
    }

    fn waits(&mut self, known: Option<PodId>, pod: &Pod, queue: QueueId, reading: Reading, now: Timestamp) -> Waits {
        let shape = Shape::from(Traits {
            queue,
            namespace: Arc::clone(&pod.namespace),
            group: pod.group,
            task_spec: pod.task_spec.clone(),
            priority: pod.priority,
            preempts: reading.preempts,
            task: reading.task,
            constraints: reading.constraints,
            cross_quota: reading.cross_quota,
        });
        let old = known.and_then(|id| self.pod(id)?.waits.as_ref());
        let write_refusals = old.map_or(0, |old| if *old.shape == shape { old.write_refusals } else { 0 });
        let write_failed = write_refusals > 0 && old.is_some_and(|old| old.write_failed);
        // A pod that was refused as it was may be accepted as it is now.
        let is_mended = |old: &Waits| old.write_refusals > write_refusals;
        let aside_until = if let Some(old) = old {
            old.aside_until.filter(|_| !is_mended(old))
        } else {
            let returned = self.return_of(pod.controller.as_ref(), now);
            returned.map(|returned| returned.until)
        };
        let aside_until = aside_until.filter(|until| *until > now);
        let since = old.map_or(now, |old| old.since);
        let arrival = old.map(|old| old.place.arrival);
        if old.is_none() && aside_until.is_some() {
            let (namespace, uid) = (Arc::clone(&pod.namespace), Arc::clone(&pod.uid));
            self.standing_aside.insert(namespace, pod.created, uid);
        }
        let arrival = arrival.unwrap_or_else(|| {
            self.arrivals += 1;
            self.arrivals
        });
        Waits {
            shape: Arc::new(shape),
            place: Place {
                returns: pod.returns,
                created: pod.created,
                arrival,
                pod: PodId::NONE,
            },
            since,
            asked: self.charge(pod, pod.task.alternatives.first()),
            aside_until,
            write_refusals,
            write_failed,
        }
    }

    fn add_pod(&mut self, pod: Pod) -> PodId {
        if let Some(queue) = pod.queue {
            self.queues[queue].join();
        }
        self.name_workloads(&pod);
        self.put_pod(None, pod)
    }

    fn replace_pod(&mut self, id: PodId, pod: Pod) -> PodId {
        let Some(old) = self.pod(id).filter(|old| !old.is_as_seen_in(&pod)) else {
            return id;
        };
        let (old_queue, old_room, old_workloads) = (old.queue, old.room, [old.group, old.job]);
        self.name_workloads(&pod);
        if let Some(queue) = pod.queue {
            self.queues[queue].join();
        }
        self.leave(id);
        if let Some(queue) = old_queue {
            self.queues[queue].quit();
            self.forget_empty_queue(queue);
        }
        self.unname_workloads(old_workloads);
        self.put_pod(Some(id), pod);
        if let Some(node) = old_room {
            self.forget_empty_node(node);
        }
        id
    }

    /// Returns what a pod asks for that somebody else shows.
    pub(crate) fn read_task(&mut self, mut pod: crds::pod::Pod<Box<str>>, namespace: &str) -> Task {
        let task = reading::read(&mut pod, namespace, &mut self.names).task;
        self.meet_resources();
        task
    }

    /// Forgets a pod and gives back all that it held.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        self.end_assumption(uid);
        if let Some(id) = self.pod_with_uid(uid) {
            self.claimed.outgrown.forget(id);
        }
        let Some(pod) = self.take_pod(uid) else { return };
        // CPU, memory and the pod's slot are names that are never forgotten.
        let resources = pod.task.request.iter().len().saturating_sub(3);
        self.names.gone(pod.task.cards().count(), resources);
        if let Some(node) = pod.room {
            self.forget_empty_node(node);
        }
        if let Some(queue) = pod.queue {
            self.queues[queue].quit();
            self.forget_empty_queue(queue);
        }
        self.unname_workloads([pod.group, pod.job]);
        self.forget_claiming(uid, pod.is_in());
    }

    /// Returns the pod with this id.
    pub fn pod(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(id)?.as_ref()
    }

    /// Returns the id of the pod with this UID.
    pub fn pod_with_uid(&self, uid: &str) -> Option<PodId> {
        self.pods.id(uid)
    }

    /// Returns all pods, each with its id.
    pub(crate) fn pods_by_id(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.pods.iter().filter_map(|(id, pod)| Some((id, pod.as_ref()?)))
    }

    /// Returns the pods that run or wait, and of unmanaged pods those that use nodes.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods_by_id().map(|(_, pod)| pod)
    }

    /// Returns when a pod that is being deleted gives its quota back, whether it is gone by then or not.
    pub(crate) fn quota_end(&self, pod: &Pod) -> Option<Timestamp> {
        let timeout = SignedDuration::try_from(self.configuration.cardgate.terminating_timeout);
        let end = |deleted: Timestamp| deleted.checked_add(timeout.ok()?).ok();
        pod.deleted.map(|deleted| end(deleted).unwrap_or(Timestamp::MAX))
    }
}

fn stage(
    reading: &Reading,
    spec: &PodSpec<Box<str>>,
    bound_to: Option<NodeId>,
    deleting: bool,
    old: Option<&Pod>,
    now: Timestamp,
) -> Stage {
    if bound_to.is_some() {
        return Stage::Bound;
    }
    if let Some(stage @ Stage::Admitting { .. }) = old.map(|old| old.stage)
        && spec.has_gate(GATE)
    {
        // This was seen later, but written before the decision.
        return stage;
    }
    match reading.gates {
        Gates::Own if reading.managed && !deleting => return Stage::Waiting,
        Gates::Own | Gates::Foreign => return Stage::Blocked,
        Gates::None => {}
    }
    match old.map(|old| old.stage) {
        Some(unbound @ Stage::Unbound { .. }) => unbound,
        _ => Stage::Unbound { since: now, looks: 0 },
    }
}

/// Returns where a pod without a node is expected. Until the scheduler has said where, that is where the decision expected
/// it. API servers bind no pod that is being deleted: such a pod goes nowhere any more, and if a finalizer keeps it there,
/// it keeps no room.
fn expected_on(only_node: Option<NodeId>, old: Option<&Pod>, deleted: Option<Timestamp>) -> Option<NodeId> {
    let expected = only_node.or_else(|| old?.room);
    expected.filter(|_| deleted.is_none())
}

/// Returns how often pods of its controller had come back when this pod came, or was let in; `now` is how often they have
/// by now.
fn returns(old: Option<&Pod>, stage: Stage, now: Option<&Return>) -> u32 {
    let is_let_in_now = |old: &&Pod| matches!(stage, Stage::Unbound { .. } | Stage::Bound) && !old.is_in();
    let known = old.filter(|old| !is_let_in_now(old));
    known.map_or_else(|| now.map_or(0, |returned| returned.times), |old| old.returns)
}

/// Whether a pod that is in says that it waits, and did not say so before. It may be in no queue, where its claims turned
/// out to be for no cards.
fn is_wrongly_shown_as_waiting(new: &Pod, old: Option<&Pod>) -> bool {
    let was_shown = old.is_some_and(|old| old.shown_as_waiting && old.stage == new.stage);
    let is_in = matches!(new.stage, Stage::Unbound { .. } | Stage::Bound);
    new.shown_as_waiting && !was_shown && new.reachable && is_in
}
