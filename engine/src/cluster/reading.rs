//! What is read of a pod before it finds its place in the cluster.

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
use crds::pod::{Metadata, OwnerReference, PodCondition, PodStatus};
use crds::pod_bounds;
use crds::pod_request::pod_request;
use crds::resources::ResourceVector;
use crds::scoring_strategy::ScoringStrategy;
use jiff::Timestamp;

use super::constraints::NodeConstraints;
use super::controller::{Controller, LONGEST_NAME, cut};
use super::gates::{self, Gates};
use super::pod::{Pod, Stage};
use super::times::latest_end;
use crate::alternative::{Alternative, Assigned};
use crate::amounts::{Amounts, Dimension};
use crate::names::{Names, ResourceId};
use crate::policies::mgpu::CardLists;
use crate::reason::Reason;
use crate::task::{Naming, Task};

/// What is read of a pod before it finds its place in the cluster.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a pod is and is not, each by its own name"
)]
pub(super) struct Reading {
    pub task: Task,
    pub constraints: NodeConstraints,
    /// Whether its priority class allows other pods to be evicted for it.
    pub preempts: bool,
    pub assigned: Option<Assigned>,
    pub gpus: Option<CardLists>,
    pub managed: bool,
    /// Whether Cardgate may manage it at all.
    pub reachable: bool,
    /// Whether it is managed only for `CrossQuota` or for its gate, so that no queue is charged.
    pub in_no_queue: bool,
    /// How it orders GPU nodes, where `CrossQuota` decides where it goes.
    pub cross_quota: Option<ScoringStrategy>,
    pub gates: Gates,
    /// The names of the gates of others.
    pub other_gates: Option<Box<str>>,
    pub queue_annotation: Option<Box<str>>,
    pub group: Option<Box<str>>,
    /// Whether the pod's condition says that it waits, and for which reason.
    pub shown_as_waiting: bool,
    pub told: Option<Reason>,
    pub controller: Option<Controller>,
    /// The UID that it gives for that controller.
    pub controller_uid: Option<Box<str>>,
    /// When it is over at the latest, where it has a time limit.
    pub ends: Option<Timestamp>,
    /// Whether it names nothing but its group.
    pub names_group_alone: bool,
    /// Whether it shows that Cardgate has held it, though its gate may be gone. It shows that where it was told something
    /// other than that others' gates hold it, or where what it was let in for is written on it.
    pub shows_it_was_held: bool,
}

/// The prefix of the name of a group that Volcano's controllers make for a pod that names their scheduler and no group.
/// Behind the prefix comes the UID of the pod's controller, or else of the pod. The controllers write the name on the
/// existing pod.
pub(super) const GROUP_FOR_POD: &str = "podgroup-";

impl Reading {
    /// Makes a pod managed that only Cardgate's gate keeps from the scheduler, at least to have the gate taken off, since
    /// nobody else does that. The webhook held such a pod only for its claims, since it did not know whose devices they
    /// are, or the pod's maker wrote the gate while the webhook was away.
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

    /// Returns the mGPU cards that are written on the pod; before they are written, the cards that the decision about the
    /// pod took.
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
    // This is also checked for a pod that says nothing of queues or cards: its namespace may make it managed.
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

    let owner = controlling_owner(&pod.metadata);
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
        // The webhook refuses an unknown strategy. Where one got past the webhook, the default holds.
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
            // Makes no list of its own where there is nothing to list: most pods name no card.
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

/// Returns the owner that makes another pod in the place of this one.
fn controlling_owner(metadata: &Metadata<Box<str>>) -> Option<&OwnerReference<Box<str>>> {
    let mut owners = metadata.owner_references.iter();
    owners.find(|owner| owner.controller == Some(true))
}

/// Returns the task of its group that a pod does.
pub(super) fn task_spec(metadata: &Metadata<Box<str>>) -> Option<&str> {
    // The task may also be given by an annotation, whose length nothing limits. No task has a longer name than a label can
    // have.
    let found = metadata
        .labels
        .get(TASK_SPEC)
        .or_else(|| metadata.annotations.get(TASK_SPEC));
    found.filter(|task| !task.is_empty() && task.len() <= TASK_NAME_LENGTH)
}

/// Returns the cards that the pod was let in for, from what is written on it.
fn assigned_of(annotations: &TextMap<Box<str>>, names: &mut Names) -> Option<Assigned> {
    let written = annotations.get(CARD_ASSIGNED).filter(|text| !says_none(text))?;
    Some(Assigned::read(written, names))
}

/// Returns the condition by which Cardgate tells a pod why it waits, or that it was let in.
fn own_condition(status: &PodStatus<Box<str>>) -> Option<&PodCondition<Box<str>>> {
    let is_ours = |condition: &&PodCondition<Box<str>>| condition.r#type.as_deref() == Some(ADMITTED_CONDITION);
    status.conditions.iter().find(is_ours)
}

/// Whether the condition says more than that another gate holds the pod. Pods that nobody held were told that once, too.
fn is_of_who_was_held(condition: &PodCondition<Box<str>>) -> bool {
    let is_of_another_gate = || condition.reason.as_deref() == Some(Reason::HeldByAnotherGate.as_str());
    condition.status.as_deref() != Some("False") || !is_of_another_gate()
}

/// Returns that condition where it says that the pod waits.
fn waiting_condition(status: &PodStatus<Box<str>>) -> Option<&PodCondition<Box<str>>> {
    own_condition(status).filter(|condition| condition.status.as_deref() == Some("False"))
}
