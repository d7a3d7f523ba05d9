//! One pod: what it asks for, how far it has come, and what it holds.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use super::controller::Controller;
use super::place::Place;
use super::waiting::Shape;
use super::wholes::Whole;
use crate::alternative::Alternative;
use crate::amounts::Amounts;
use crate::ids::{NodeId, QueueId, WorkloadId};
use crate::metering::Charge;
use crate::policies::mgpu::CardLists;
use crate::reason::Reason;
use crate::refs::PodRef;
use crate::task::Task;

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Only Cardgate's gate holds it.
    Waiting,
    /// Another gate holds it, or it is being deleted before it ran. It holds no quota, and it has no turn.
    Blocked,
    /// It was let in, but has not yet been seen without its gate: events that still show the gate are older than the
    /// decision.
    Admitting {
        /// Until when a pod of a gang keeps its place though it could not be written. After that it counts as waiting
        /// again. A pod that is being written keeps its place until there is an answer.
        until: Timestamp,
        /// Whether the API server has confirmed the patch.
        written: bool,
    },
    /// It has no gate and is not on a node yet.
    Unbound {
        /// When it was first seen in this stage, or when Cardgate last checked on it.
        since: Timestamp,
        /// How often Cardgate checked on it in vain.
        looks: u8,
    },
    /// It has its node: the kubelet runs it, or is about to.
    Bound,
}

/// Whether a pod is to make room for another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicting {
    /// Since when it is being evicted.
    pub since: Option<Timestamp>,
    /// Until when no further eviction is tried.
    pub spared_until: Option<Timestamp>,
    /// How often the API server has refused the eviction.
    pub refused: u32,
}

/// How the API server did not take a write that would have let something in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// It would not take it another time either.
    Refused,
    /// It may take a later one.
    Failed,
}

/// How a pod waits.
#[derive(Debug, Clone)]
pub struct Waits {
    /// What it has in common with other waiting pods.
    pub shape: Arc<Shape>,
    /// Its place among these.
    pub place: Place,
    /// Since when it waits. Before that, another gate held it, or it was not there.
    pub since: Timestamp,
    /// What counts as requested while it waits: its first card.
    pub asked: Charge,
    /// Until when it stands aside, where it does.
    pub aside_until: Option<Timestamp>,
    /// How often the API server has not let it in since it asks for this.
    pub write_refusals: u32,
    /// Whether the last of these writes was not refused: a later one may work.
    pub write_failed: bool,
}

impl Waits {
    /// Returns why it stands aside, where it does.
    pub(crate) fn aside_reason(&self) -> Option<Reason> {
        self.aside_until.map(|_| match self.write_refusals {
            0 => Reason::ReservationTimeout,
            _ => Reason::RefusedByApiServer,
        })
    }
}

/// What is known of a pod: what it asks for, how far it has come, and what it holds.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a pod is and is not, each by its own name"
)]
pub struct Pod {
    /// Tells it from an earlier pod of the same name.
    pub uid: Arc<str>,
    /// Its namespace. Others in that namespace may read about it.
    pub namespace: Arc<str>,
    /// Its name, unique in its namespace at any time.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Timestamp,
    /// When it was first seen.
    pub seen: Timestamp,
    /// The queue that is charged for it; none where Cardgate does not manage the pod.
    pub queue: Option<QueueId>,
    /// Whether its queue is final: what names the queue, the pod itself or its group, was there when the pod was read, so
    /// that nothing that comes later names it.
    pub queue_is_settled: bool,
    /// What it asks for.
    pub task: Task,
    /// How far it has come.
    pub stage: Stage,
    /// What it holds of its queue.
    pub charge: Option<Charge>,
    /// Its priority: pods of higher priority are taken back later.
    pub priority: i32,
    /// Whether it is to make room for another one.
    pub eviction: Evicting,
    /// The node whose room it holds: the one it is bound to, or expected on.
    pub room: Option<NodeId>,
    /// When its grace period ends, where it is being deleted.
    pub deleted: Option<Timestamp>,
    /// When it is over at the latest, its grace period included, where it runs and has a time limit
    /// (`activeDeadlineSeconds`).
    pub ends: Option<Timestamp>,
    /// The cards that were written on it when it was let in, or that its claims got.
    pub assigned: Option<Alternative>,
    /// The `PodGroup` it belongs to.
    pub group: Option<WorkloadId>,
    /// The task that it does in that group.
    pub task_spec: Option<Arc<str>>,
    /// The Job that made it, where that Job asks for its cards in advance.
    pub job: Option<WorkloadId>,
    /// The UID that it gives for that Job: anybody may write the kind and name of any Job.
    pub job_uid: Option<Box<str>>,
    /// Whether a scheduler has bound it to the node of its room, as far as is known: the binding is being written, or is
    /// written and not yet seen.
    pub binding: bool,
    /// Whether it can go only to the node of its room, whoever places it.
    pub has_one_node: bool,
    /// The mGPU cards written on it; before they are written, the cards that it is expected on.
    pub gpus: Option<CardLists>,
    /// Whether mGPU cards are written on it.
    pub gpus_are_written: bool,
    /// The controller that will replace it.
    pub controller: Option<Controller>,
    /// How often its controller's pods had come back unplaced when it came; once it is in, when it was let in.
    pub returns: u32,
    /// Whether Cardgate may manage it at all.
    pub reachable: bool,
    /// Whether a queue is charged for it only because it asks for cards, and not because of anything that it names.
    pub charged_for_cards: bool,
    /// Whether Volcano's controllers made its group, for it or for its controller, and it names nothing else. Where nobody
    /// has held it, it was already there when it came into that group.
    pub has_group_made_for_it: bool,
    /// Whether Cardgate's gate was seen on it.
    pub was_held: bool,
    /// Whether it has any annotation.
    pub has_annotations: bool,
    /// Whether it claims devices that are not cards, or that may not be cards: no queue is charged for these.
    pub claims_other_devices: bool,
    /// The gates of others that hold it, as it is told about them.
    pub other_gates: Option<Box<str>>,
    /// How it waits. This is kept until the pod is seen without its gate, in case the decision can't be carried out.
    pub waits: Option<Waits>,
    /// The reason it was told last.
    pub told: Option<Reason>,
    /// Whether its condition still says that it waits, though it does not.
    pub shown_as_waiting: bool,
    pub(super) epoch: u64,
}

impl Pod {
    /// Whether a later reading of it shows nothing new that matters, neither in what it says nor in what has come of it.
    pub(super) fn is_as_seen_in(&self, later: &Self) -> bool {
        let Self {
            queue,
            queue_is_settled,
            task,
            stage,
            charge,
            room,
            deleted,
            ends,
            assigned,
            group,
            task_spec,
            job,
            job_uid,
            binding,
            has_one_node,
            gpus,
            gpus_are_written,
            controller,
            has_annotations,
            claims_other_devices,
            other_gates,
            waits,
            shown_as_waiting,
            // These never change for the pod, or are Cardgate's own notes of it.
            uid: _,
            namespace: _,
            name: _,
            created: _,
            seen: _,
            priority: _,
            eviction: _,
            returns: _,
            reachable: _,
            charged_for_cards: _,
            has_group_made_for_it: _,
            was_held: _,
            told: _,
            epoch: _,
        } = self;
        let waits_alike = match (waits, &later.waits) {
            (Some(one), Some(other)) => one.shape == other.shape && one.aside_until == other.aside_until,
            (one, other) => one.is_none() && other.is_none(),
        };
        waits_alike
            && (queue, task, stage, charge) == (&later.queue, &later.task, &later.stage, &later.charge)
            && (room, deleted, assigned, gpus) == (&later.room, &later.deleted, &later.assigned, &later.gpus)
            && (has_one_node, gpus_are_written) == (&later.has_one_node, &later.gpus_are_written)
            && (ends, job_uid) == (&later.ends, &later.job_uid)
            && (group, job, binding, controller) == (&later.group, &later.job, &later.binding, &later.controller)
            && (has_annotations, claims_other_devices) == (&later.has_annotations, &later.claims_other_devices)
            && (task_spec, shown_as_waiting) == (&later.task_spec, &later.shown_as_waiting)
            && *queue_is_settled == later.queue_is_settled
            && *other_gates == later.other_gates
    }
}

/// Times of creation are cut off to whole seconds. A pod that was seen this soon after its creation came when it was seen.
const CREATION_RESOLUTION: SignedDuration = SignedDuration::from_secs(2);

impl Pod {
    /// Sets what the pod is charged. A pod of a queue that is charged nothing has no room either, unless the pod has its
    /// node.
    pub(super) fn put_charge(&mut self, charge: Option<Charge>) {
        self.charge = charge;
        let has_room = self.charge.is_some() || self.queue.is_none() || self.stage == Stage::Bound;
        self.room = self.room.filter(|_| has_room);
    }

    /// Whether a scheduler has chosen its node. Otherwise it is only expected there.
    pub(crate) fn is_placed(&self) -> bool {
        self.binding || self.stage == Stage::Bound
    }

    /// Whether it says both where it goes and which mGPU cards it has there. Both stand, whatever becomes of its binding.
    pub(crate) fn says_its_cards(&self) -> bool {
        self.has_one_node && self.gpus_are_written
    }

    /// Whether it came into its group when it was there already, and names nothing else. The webhook had no reason to hold
    /// it except what it asks for.
    pub(crate) fn joined_later(&self) -> bool {
        self.has_group_made_for_it && !self.was_held
    }

    /// Whether it was seen to have been let in, or was never held.
    pub(crate) fn is_in(&self) -> bool {
        match self.stage {
            Stage::Waiting | Stage::Blocked | Stage::Admitting { .. } => false,
            Stage::Unbound { .. } | Stage::Bound => true,
        }
    }

    /// Returns what it requests with the cards that it has, or would have.
    #[inline]
    pub(crate) fn request(&self) -> &Arc<Amounts> {
        let charged = || self.charge.as_ref()?.alternative.as_ref();
        let alternative = self.assigned.as_ref().or_else(charged);
        self.task
            .request_with(alternative.or_else(|| self.task.alternatives.first()))
    }

    /// Returns the group or the controller that it is a part of; none where it stands for itself.
    pub(crate) fn whole(&self) -> Option<Whole> {
        let group = self.group.map(Whole::Group);
        let controller = self.controller.as_ref().filter(|made_by| made_by.object().is_some());
        group.or_else(|| controller.cloned().map(Whole::Controller))
    }

    /// Returns which pod it is, for callers that act on it or report about it.
    pub fn to_ref(&self) -> PodRef {
        PodRef {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            uid: Arc::clone(&self.uid),
        }
    }

    /// Returns since when the pod waits for nobody but Cardgate; none where it does not wait.
    pub(crate) fn waits_since(&self) -> Option<Timestamp> {
        let waits = self.waits.as_ref()?;
        Some(waits.since.max(self.created))
    }

    /// Returns when the pod came, as exactly as that can be known.
    pub fn arrived(&self) -> Timestamp {
        if self.seen.duration_since(self.created) < CREATION_RESOLUTION {
            self.seen
        } else {
            self.created
        }
    }
}
