//! One pod: what it asks for, how far it has come, and what it holds.

use std::sync::Arc;

use crds::bounds::TASK_NAME_LENGTH;
use crds::card::CardAlternatives;
use crds::card_assigned::says_none;
use crds::keys::{
    ADMITTED_CONDITION, CARD_ASSIGNED, CARD_NAME, GROUP_NAME, MGPU_INDEX_PREFIX, QUEUE_NAME, SCORING_STRATEGY,
    TASK_SPEC,
};
use crds::lean::TextMap;
use crds::managed::{is_managed, is_reachable, is_under_cross_quota};
use crds::mgpu::MgpuRequest;
use crds::names::as_object_name;
use crds::pod::{Metadata, PodCondition, PodStatus};
use crds::pod_bounds;
use crds::pod_request::pod_request;
use crds::resources::ResourceVector;
use crds::scoring_strategy::ScoringStrategy;
use jiff::{SignedDuration, Timestamp};

use super::constraints::NodeConstraints;
pub use super::controller::Controller;
use super::controller::{LONGEST_NAME, cut};
use super::gates::{self, Gates};
use super::place::Place;
use super::times::latest_end;
use super::waiting::Shape;
use super::wholes::Whole;
use crate::alternative::{Alternative, Assigned};
use crate::amounts::{Amounts, Dimension};
use crate::ids::{NodeId, QueueId, WorkloadId};
use crate::metering::Charge;
use crate::names::{Names, ResourceId};
use crate::policies::mgpu::CardLists;
use crate::reason::Reason;
use crate::refs::PodRef;
use crate::task::{Naming, Task};

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Only Cardgate's gate holds it.
    Waiting,
    /// Another gate holds it, or it is being deleted before it ran: no quota is held, and it is not its turn.
    Blocked,
    /// Let in, but not yet seen without its gate: events that still show the gate are older than the decision.
    Admitting {
        /// Until when one of a gang keeps its place though it could not be written; then it counts as waiting again. What is being
        /// written keeps its place until there is an answer.
        until: Timestamp,
        /// Whether the API server has confirmed the patch.
        written: bool,
    },
    /// Without a gate and not on a node yet.
    Unbound {
        /// When it was first seen so, or when that was looked at last.
        since: Timestamp,
        /// How often it was looked at in vain.
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
    /// Until when that is not tried again.
    pub spared_until: Option<Timestamp>,
    /// How often the API server has refused it.
    pub refused: u32,
}

/// How a pod waits.
#[derive(Debug, Clone)]
pub struct Waits {
    /// What it has in common with others.
    pub shape: Arc<Shape>,
    /// Its place among those.
    pub place: Place,
    /// Since when: before it had another gate, or there was nothing of it.
    pub since: Timestamp,
    /// What counts as requested while it waits: its first card.
    pub asked: Charge,
    /// Where it stands aside for a while: until when.
    pub aside_until: Option<Timestamp>,
    /// How often the API server has refused to let it in since it asks for this.
    pub write_refusals: u32,
}

impl Waits {
    /// For what it stands aside, where it does.
    pub(crate) fn aside_reason(&self) -> Option<Reason> {
        self.aside_until.map(|_| match self.write_refusals {
            0 => Reason::ReservationTimeout,
            _ => Reason::RefusedByApiServer,
        })
    }
}

/// What is known of a pod: what it asks for, where it is on its way, and what it holds there.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a pod is and is not, each by its own name"
)]
pub struct Pod {
    /// Tells it from one that had its name before.
    pub uid: Arc<str>,
    /// Where it is; others there may read of it.
    pub namespace: Arc<str>,
    /// As its namespace has it once at a time.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Timestamp,
    /// When it was first seen.
    pub seen: Timestamp,
    /// The queue it is charged to; none where Cardgate does not manage the pod.
    pub queue: Option<QueueId>,
    /// Whether what says so was there when it was read, itself or its group, so that nothing that comes later does.
    pub queue_is_settled: bool,
    /// What it asks for.
    pub task: Task,
    /// How far it has come.
    pub stage: Stage,
    /// What it holds of its queue.
    pub charge: Option<Charge>,
    /// Pods of higher priority are taken back later.
    pub priority: i32,
    /// Whether it is to make room for another one.
    pub eviction: Evicting,
    /// The node whose room it holds: the one it is bound to, or expected on.
    pub room: Option<NodeId>,
    /// Where it is being deleted: when its grace period ends.
    pub deleted: Option<Timestamp>,
    /// Where it runs and may not for ever (`activeDeadlineSeconds`): when it is over at the latest, its grace period included.
    pub ends: Option<Timestamp>,
    /// The cards written on it when it was let in, or those that its claims got.
    pub assigned: Option<Alternative>,
    /// The `PodGroup` it belongs to.
    pub group: Option<WorkloadId>,
    /// The task that it does of that group.
    pub task_spec: Option<Arc<str>>,
    /// The Job that made it, where that Job asks for its cards in advance.
    pub job: Option<WorkloadId>,
    /// The UID that it gives that Job: anybody may write the kind and name of any.
    pub job_uid: Option<Box<str>>,
    /// Whether a scheduler has it bound to the node of its room, as far as is known: that is being written, or is written and
    /// not yet seen.
    pub binding: bool,
    /// Whether it can go to the node of its room alone, whoever places it.
    pub has_one_node: bool,
    /// The mGPU cards written on it; before they are, those it is expected on.
    pub gpus: Option<CardLists>,
    /// Whether such cards stand on it.
    pub gpus_are_written: bool,
    /// The controller that will replace it.
    pub controller: Option<Controller>,
    /// How often its controller's pods had come back unplaced when it came; from when it is in, when it was let in.
    pub returns: u32,
    /// Whether Cardgate may look at it at all.
    pub reachable: bool,
    /// Whether a queue is charged for it since it asks for cards, and for nothing that it says.
    pub charged_for_cards: bool,
    /// Whether its group was made for it, or for its controller, by Volcano's controllers, and it names nothing else: where nobody has held it,
    /// it came into that group when it was there already.
    pub has_group_made_for_it: bool,
    /// Whether Cardgate's gate was seen on it.
    pub was_held: bool,
    /// Whether it has any annotation.
    pub has_annotations: bool,
    /// Whether it claims devices which are no cards, or of which that is not known: no queue is charged for them.
    pub claims_other_devices: bool,
    /// The gates of others that hold it, as it is told.
    pub other_gates: Option<Box<str>>,
    /// How it waits; kept until it is seen without its gate, in case the decision can't be carried out.
    pub waits: Option<Waits>,
    /// The reason it was told last.
    pub told: Option<Reason>,
    /// Whether its condition still says that it waits, though it does not.
    pub shown_as_waiting: bool,
    pub(super) epoch: u64,
}

impl Pod {
    /// Whether a later look at it shows nothing that matters: neither what it says nor what has come of it.
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
            // The pod's for ever, or Cardgate's own notes of it.
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

/// Times of creation are whole seconds, cut off: a pod that was seen this soon came when it was seen.
const CREATION_RESOLUTION: SignedDuration = SignedDuration::from_secs(2);

impl Pod {
    /// Puts on a pod what it holds. One of a queue that holds nothing has no room either, unless it has its node.
    pub(super) fn put_charge(&mut self, charge: Option<Charge>) {
        self.charge = charge;
        let has_room = self.charge.is_some() || self.queue.is_none() || self.stage == Stage::Bound;
        self.room = self.room.filter(|_| has_room);
    }

    /// Whether a scheduler has chosen its node, rather than that it is only expected there.
    pub(crate) fn is_placed(&self) -> bool {
        self.binding || self.stage == Stage::Bound
    }

    /// Whether it says where it goes and which mGPU cards it has there: both stand, whatever becomes of its binding.
    pub(crate) fn says_its_cards(&self) -> bool {
        self.has_one_node && self.gpus_are_written
    }

    /// Whether it came to belong to its group when it was there already, and names nothing else: the door had no reason to hold it but what
    /// it asks for.
    pub(crate) fn joined_later(&self) -> bool {
        self.has_group_made_for_it && !self.was_held
    }

    /// Whether it is seen to have been let in, or was never held.
    pub(crate) fn is_in(&self) -> bool {
        match self.stage {
            Stage::Waiting | Stage::Blocked | Stage::Admitting { .. } => false,
            Stage::Unbound { .. } | Stage::Bound => true,
        }
    }

    /// What it requests with the cards that it has, or would have.
    #[inline]
    pub(crate) fn request(&self) -> &Arc<Amounts> {
        let charged = || self.charge.as_ref()?.alternative.as_ref();
        let alternative = self.assigned.as_ref().or_else(charged);
        self.task
            .request_with(alternative.or_else(|| self.task.alternatives.first()))
    }

    /// What it is a part of; none where it stands for itself.
    pub(crate) fn whole(&self) -> Option<Whole> {
        let group = self.group.map(Whole::Group);
        let controller = self.controller.as_ref().filter(|made_by| made_by.object().is_some());
        group.or_else(|| controller.cloned().map(Whole::Controller))
    }

    /// Which pod it is, for those who act on it or report about it.
    pub fn to_ref(&self) -> PodRef {
        PodRef {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            uid: Arc::clone(&self.uid),
        }
    }

    /// Since when the pod waits for nobody else; none where it does not wait.
    pub(crate) fn waits_since(&self) -> Option<Timestamp> {
        let waits = self.waits.as_ref()?;
        Some(waits.since.max(self.created))
    }

    /// When the pod came, as exactly as that can be known.
    pub fn arrived(&self) -> Timestamp {
        if self.seen.duration_since(self.created) < CREATION_RESOLUTION {
            self.seen
        } else {
            self.created
        }
    }
}

/// What is read of a pod before it finds its place in the cluster.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a pod is and is not, each by its own name"
)]
pub(super) struct Reading {
    pub task: Task,
    pub constraints: NodeConstraints,
    /// Whether others may be evicted for its priority.
    pub preempts: bool,
    pub assigned: Option<Assigned>,
    pub gpus: Option<CardLists>,
    pub managed: bool,
    /// Whether Cardgate may look at it at all.
    pub reachable: bool,
    /// Whether it is managed for `CrossQuota` or for its gate alone, so that no queue is charged.
    pub in_no_queue: bool,
    /// How it orders GPU nodes, where `CrossQuota` decides where it goes.
    pub cross_quota: Option<ScoringStrategy>,
    pub gates: Gates,
    /// The names of others' gates.
    pub other_gates: Option<Box<str>>,
    pub queue_annotation: Option<Box<str>>,
    pub group: Option<Box<str>>,
    /// Whether the pod's condition says that it waits, and for which reason.
    pub shown_as_waiting: bool,
    pub told: Option<Reason>,
    pub controller: Option<Controller>,
    /// The UID that it gives that controller.
    pub controller_uid: Option<Box<str>>,
    /// When it is over at the latest, where it may not run for ever.
    pub ends: Option<Timestamp>,
    /// Whether its group is all that it names.
    pub names_group_alone: bool,
    /// Whether it shows that Cardgate has held it, though its gate may be gone: it was told something but of the
    /// gates of others, or what it was let in for is written on it.
    pub shows_it_was_held: bool,
}

/// What the name of a group begins with that Volcano's controllers make for a pod that names their scheduler and no group; behind it comes
/// the UID of its controller, or its own. They write it on the pod that is there.
pub(super) const GROUP_FOR_POD: &str = "podgroup-";

impl Reading {
    /// Whom nothing but Cardgate's gate keeps from the scheduler is managed at least to have it taken off: nobody else does. The door held it
    /// for its claims alone, since whose devices they are was not known there, or its maker wrote the gate while the door was away.
    pub(super) fn manage_own_gate(&mut self) {
        if !self.managed && self.reachable && self.gates == Gates::Own {
            (self.managed, self.in_no_queue) = (true, true);
        }
    }

    /// Whether its group was made for it, or for its controller, when it was there already.
    pub(super) fn has_group_made_for_it(&self, uid: &str) -> bool {
        let of = self
            .group
            .as_deref()
            .and_then(|group| group.strip_prefix(GROUP_FOR_POD));
        of.is_some_and(|of| of == self.controller_uid.as_deref().unwrap_or(uid))
    }

    /// Whether mGPU cards are written on the pod.
    pub(super) fn cards_are_written(&self) -> bool {
        self.gpus.iter().flat_map(|gpus| gpus.iter()).any(Option::is_some)
    }

    /// The mGPU cards that are written on the pod; before they are, those that the decision about it took.
    pub(super) fn cards(&self, stage: Stage, old: Option<&Pod>) -> Option<CardLists> {
        let is_written = self.cards_are_written();
        let taken = old.filter(|_| matches!(stage, Stage::Admitting { .. } | Stage::Unbound { .. }));
        taken
            .filter(|_| !is_written)
            .map_or_else(|| self.gpus.clone(), |old| old.gpus.clone())
    }
}

/// Reads what a pod asks for. What can't be read makes the task unreadable, with the reason for the user.
pub(super) fn read(pod: &mut crds::pod::Pod<Box<str>>, namespace: &str, names: &mut Names) -> Reading {
    let names_queue_or_card = is_managed(pod, namespace);
    let under_cross_quota = is_under_cross_quota(pod, namespace);
    let managed = names_queue_or_card || under_cross_quota;
    let reachable = is_reachable(pod, namespace);
    let annotations = &pod.metadata.annotations;
    // Also of a pod that says nothing of queues or cards: its namespace may make it managed.
    let mut unreadable: Option<Box<str>> = pod_bounds::check(pod).err().map(|error| error.to_string().into());

    let mut cards = Vec::new();
    let says_cards = managed && annotations.contains_key(CARD_NAME);
    if let Some(text) = annotations.get(CARD_NAME).filter(|_| managed) {
        match CardAlternatives::parse(text) {
            Ok(alternatives) => cards.extend(alternatives.iter().map(|name| Alternative::Card(names.card(name)))),
            Err(error) => {
                unreadable = unreadable.or_else(|| Some(format!("annotation {CARD_NAME}: {error}").into()));
            }
        }
    }
    let resources = pod_request(&pod.spec).unwrap_or_else(|error| {
        unreadable = unreadable.take().or(Some(error.to_string().into()));
        ResourceVector::default()
    });
    let resources = resources
        .iter()
        .map(|(name, amount)| (Dimension::Resource(names.resource(name)), amount));
    let slot = Dimension::Resource(ResourceId::PODS);
    let resources = resources.filter(|(dimension, _)| *dimension != slot);
    let request: Amounts = resources.chain([(slot, 1)]).collect();
    let mgpu = match MgpuRequest::read(pod) {
        Ok(mgpu) => mgpu.map(Arc::new),
        Err(error) => {
            unreadable = unreadable.or_else(|| Some(format!("mGPU: {error}").into()));
            None
        }
    };
    let gpus = mgpu.as_ref().map(|mgpu| {
        let result = |container: &str| {
            annotations
                .get(&format!("{MGPU_INDEX_PREFIX}{container}"))
                .map(Into::into)
        };
        mgpu.containers.iter().map(|(container, _)| result(container)).collect()
    });

    let controllers = pod
        .metadata
        .owner_references
        .iter()
        .filter(|owner| owner.controller == Some(true));
    let owner = controllers.into_iter().next();
    let controller_uid = owner.and_then(|owner| Some(cut(owner.uid.as_deref()?, LONGEST_NAME + 1).into()));
    let controller = owner.map(|owner| {
        let [kind, name] = [&owner.kind, &owner.name].map(|field| field.as_deref().unwrap_or_default());
        Controller::new(namespace, kind, name)
    });
    let waits = waiting_condition(&pod.status);
    Reading {
        assigned: assigned_of(annotations, names),
        shown_as_waiting: waits.is_some(),
        gpus,
        told: waits.and_then(|condition| Reason::from_word(condition.reason.as_deref()?)),
        queue_annotation: annotations
            .get(QUEUE_NAME)
            .filter(|name| !name.is_empty())
            .map(|name| as_object_name(name).into()),
        group: annotations
            .get(GROUP_NAME)
            .filter(|name| managed && !name.is_empty())
            .map(|name| as_object_name(name).into()),
        in_no_queue: !names_queue_or_card,
        shows_it_was_held: own_condition(&pod.status).is_some_and(is_of_who_was_held)
            || annotations.contains_key(CARD_ASSIGNED),
        names_group_alone: !under_cross_quota
            && [QUEUE_NAME, CARD_NAME].iter().all(|key| !annotations.contains_key(key))
            && mgpu.is_none(),
        // The door refuses a strategy that is unknown; past it, the default holds.
        cross_quota: under_cross_quota.then(|| {
            let strategy = annotations.get(SCORING_STRATEGY).and_then(|text| text.parse().ok());
            strategy.unwrap_or_default()
        }),
        gates: Gates::of(&pod.spec),
        other_gates: gates::others_named(&pod.spec),
        constraints: NodeConstraints::take(&mut pod.spec),
        preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
        task: Task {
            request: Arc::new(request),
            says_cards,
            naming: Naming::Own,
            claimed: None,
            unqueued: false,
            // Nothing is shared for nothing: most pods name no card.
            alternatives: if cards.is_empty() { Arc::default() } else { cards.into() },
            mgpu,
            unreadable,
        },
        managed,
        reachable,
        controller,
        controller_uid,
        ends: latest_end(
            pod.spec.active_deadline_seconds,
            pod.spec.termination_grace_period_seconds,
            pod.status.start_time.as_deref(),
        ),
    }
}

/// The task of its group that a pod does.
pub(super) fn task_spec(metadata: &Metadata<Box<str>>) -> Option<&str> {
    // Also an annotation, of which nothing limits the length: no task has a longer name than a label can.
    let found = metadata
        .labels
        .get(TASK_SPEC)
        .or_else(|| metadata.annotations.get(TASK_SPEC));
    found.filter(|task| !task.is_empty() && task.len() <= TASK_NAME_LENGTH)
}

/// The cards that it was let in for, of those that are written on it.
fn assigned_of(annotations: &TextMap<Box<str>>, names: &mut Names) -> Option<Assigned> {
    let written = annotations.get(CARD_ASSIGNED).filter(|text| !says_none(text))?;
    Some(Assigned::read(written, names))
}

/// The condition by which Cardgate tells a pod why it waits, or that it was let in.
fn own_condition(status: &PodStatus<Box<str>>) -> Option<&PodCondition<Box<str>>> {
    let is_ours = |condition: &&PodCondition<Box<str>>| condition.r#type.as_deref() == Some(ADMITTED_CONDITION);
    status.conditions.iter().find(is_ours)
}

/// Whether it says more than that another gate holds the pod: that was told once to pods, too, that nobody held.
fn is_of_who_was_held(condition: &PodCondition<Box<str>>) -> bool {
    let is_of_another_gate = || condition.reason.as_deref() == Some(Reason::HeldByAnotherGate.as_str());
    condition.status.as_deref() != Some("False") || !is_of_another_gate()
}

/// The same where it says that the pod waits.
fn waiting_condition(status: &PodStatus<Box<str>>) -> Option<&PodCondition<Box<str>>> {
    own_condition(status).filter(|condition| condition.status.as_deref() == Some("False"))
}
