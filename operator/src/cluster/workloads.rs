//! Workloads come, change and go, and their pods with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::card::SEPARATOR;
use crds::card_counts::CardRequest;
use crds::keys::{CARD_REQUEST, GROUP_NAME, JOB_HELD, QUEUE_NAME};
use crds::volcano::{self, PodGroup};
use k8s_openapi::jiff::Timestamp;

use super::amounts::{Amounts, Dimension};
use super::inqueue::Demand;
use super::names::{Names, ResourceId};
use super::pod::{Pod, PodId, Stage};
use super::queue::QueueId;
use super::waiting::Refused;
use super::workload::{Claim, Member, Said, Step, Workload, WorkloadId, WorkloadKind};
use super::{Cluster, Kind};
use crate::policies::card_quota::charges_cpu_and_memory;

impl Cluster {
    /// Takes what a `PodGroup` says.
    pub fn apply_group(&mut self, group: &PodGroup, now: Timestamp) {
        let metadata = &group.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return;
        };
        let request = metadata.annotations.as_ref().and_then(|all| all.get(CARD_REQUEST));
        let demand = read_demand(
            request.map(String::as_str),
            group.spec.min_resources.as_ref(),
            &mut self.names,
        );
        let phase = group.status.as_ref().and_then(|status| status.phase.as_deref());
        let queue = group.spec.queue.as_deref().filter(|queue| !queue.is_empty());
        let queue = self.queue_of_workload(namespace, queue);
        let claim = Claim {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            created: metadata.creation_timestamp.as_ref().map_or(now, |time| time.0),
            queue,
            min_member: group
                .spec
                .min_member
                .and_then(|least| usize::try_from(least).ok())
                .map_or(1, |least| least.max(1)),
            asks: request.is_some() || group.spec.min_resources.as_ref().is_some_and(|least| !least.is_empty()),
            problem: demand.as_ref().err().cloned(),
            demand: demand.unwrap_or_default(),
            said: match phase {
                None | Some("" | "Pending") => Said::Waiting,
                Some("Inqueue") => Said::LetIn,
                Some("Completed") => Said::Over,
                Some(_) => Said::Started,
            },
            phase: phase.map(Into::into),
        };
        self.apply_claim(WorkloadKind::PodGroup, namespace, name, claim);
    }

    /// Takes note of a `PodGroup` that can't be read at all: its pods wait until it is mended.
    pub fn apply_unreadable_group(&mut self, namespace: &str, name: &str, uid: &str, reason: &str) {
        let claim = Claim {
            uid: uid.into(),
            created: Timestamp::UNIX_EPOCH,
            queue: self.queue_of_workload(namespace, None),
            min_member: 1,
            demand: Demand::default(),
            asks: false,
            said: Said::Waiting,
            phase: None,
            problem: Some(reason.into()),
        };
        self.apply_claim(WorkloadKind::PodGroup, namespace, name, claim);
    }

    /// Forgets what a `PodGroup` said.
    pub fn remove_group(&mut self, namespace: &str, name: &str) {
        self.remove_claim(WorkloadKind::PodGroup, namespace, name);
    }

    /// Takes what a Job says; one that asks for no cards in advance is none of the operator's business.
    pub fn apply_job(&mut self, job: &crds::job::Job<Box<str>>, now: Timestamp) {
        let metadata = &job.metadata;
        let (Some(namespace), Some(name)) = (metadata.namespace.as_deref(), metadata.name.as_deref()) else {
            return;
        };
        let Some(request) = metadata.annotations.get(CARD_REQUEST) else {
            self.remove_job(namespace, name);
            return;
        };
        let demand = read_demand(Some(request), None, &mut self.names);
        // Where its pods will be charged.
        let template = &job.spec.template.metadata.annotations;
        let named = |key| template.get(key).filter(|name| !name.is_empty());
        let of_group = named(GROUP_NAME).and_then(|group| {
            let group = self.workload_named(WorkloadKind::PodGroup, namespace, group)?;
            let queue = self.workload(group).claim.as_ref()?.queue;
            Some(Arc::clone(&self.queue(queue).name))
        });
        let queue = self.queue_of_workload(namespace, named(QUEUE_NAME).or(of_group.as_deref()));
        let said = match (job.is_suspended(), metadata.annotations.contains_key(JOB_HELD)) {
            _ if job.is_finished() => Said::Over,
            (true, true) => Said::Waiting,
            (true, false) => Said::Over,
            (false, _) if job.has_ended_pods() => Said::Started,
            (false, _) => Said::LetIn,
        };
        let created = metadata.creation_timestamp.as_deref();
        let claim = Claim {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            created: created.and_then(|time| time.parse().ok()).unwrap_or(now),
            queue,
            // It asks for all of its pods, which are let in one by one: none of them is elastic.
            min_member: usize::MAX,
            asks: true,
            problem: demand.as_ref().err().cloned(),
            demand: demand.unwrap_or_default(),
            said,
            phase: None,
        };
        self.apply_claim(WorkloadKind::Job, namespace, name, claim);
    }

    /// Forgets what a Job said.
    pub fn remove_job(&mut self, namespace: &str, name: &str) {
        self.remove_claim(WorkloadKind::Job, namespace, name);
    }

    /// The queue that a workload names, else that of its namespace, else the default queue.
    fn queue_of_workload(&mut self, namespace: &str, named: Option<&str>) -> QueueId {
        let of_namespace = self.namespace(namespace).and_then(|namespace| namespace.queue.clone());
        let configuration = Arc::clone(&self.configuration);
        let queue = named.or(of_namespace.as_deref());
        self.queue_id(queue.unwrap_or(&configuration.cardgate.default_queue))
    }

    fn apply_claim(&mut self, kind: WorkloadKind, namespace: &str, name: &str, claim: Claim) {
        let id = self.workload_id(kind, namespace, name);
        let epoch = self.epoch(kind.watched());
        let workload = &mut self.workloads[id.index()];
        workload.epoch = epoch;
        if workload.claim.as_ref() == Some(&claim) {
            return;
        }
        let queue = claim.queue;
        let (said, uid) = (claim.said, Arc::clone(&claim.uid));
        // Somebody else has made it show something else.
        let shows = claim.phase.clone();
        let before = workload.claim.replace(claim);
        let changed = before.as_ref().is_some_and(|before| before.phase != shows);
        if changed && shows.as_deref() != workload.shown.map(|(phase, _)| phase.as_str()) {
            workload.shown = None;
        }
        let another = before.as_ref().is_some_and(|before| before.uid != uid);
        // A Job that is suspended again has given up its place; its pods are gone or going.
        let again = kind == WorkloadKind::Job
            && said == Said::Waiting
            && before.as_ref().is_some_and(|before| before.said != Said::Waiting);
        if another || again {
            workload.enqueued = false;
            workload.ran = false;
            workload.told = None;
            workload.shown = None;
        }
        workload.refused = None;
        workload.version += 1;
        self.queues[queue.index()].members += 1;
        self.unreserve(id);
        if let Some(before) = before {
            self.queues[before.queue.index()].members -= 1;
            self.forget_empty_queue(before.queue);
        }
        self.rebalance(id);
        self.settle(id);
    }

    fn remove_claim(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        let Some(id) = self.workload_named(kind, namespace, name) else {
            return;
        };
        let workload = &mut self.workloads[id.index()];
        let Some(claim) = workload.claim.take() else { return };
        workload.enqueued = false;
        workload.refused = None;
        workload.told = None;
        workload.shown = None;
        workload.version += 1;
        self.rebalance(id);
        self.settle(id);
        self.queues[claim.queue.index()].held.remove(&id);
        self.queues[claim.queue.index()].members -= 1;
        self.forget_empty_queue(claim.queue);
        self.forget_empty_workload(id);
    }

    /// Forgets what workloads of this kind said that a complete list has not named.
    pub(super) fn remove_unlisted_workloads(&mut self, kind: WorkloadKind, epoch: u64) {
        let stale = |workload: &&Workload| workload.kind == kind && workload.claim.is_some() && workload.epoch < epoch;
        let stale = self.workloads.iter().filter(stale);
        let names: Vec<_> = stale
            .map(|stale| (Arc::clone(&stale.namespace), Arc::clone(&stale.name)))
            .collect();
        for (namespace, name) in names {
            self.remove_claim(kind, &namespace, &name);
        }
    }

    /// The workload with this id.
    pub fn workload(&self, id: WorkloadId) -> &Workload {
        &self.workloads[id.index()]
    }

    /// The workload with this id, to be changed.
    pub(crate) fn workload_mut(&mut self, id: WorkloadId) -> &mut Workload {
        &mut self.workloads[id.index()]
    }

    /// The workload with this name.
    pub fn workload_named(&self, kind: WorkloadKind, namespace: &str, name: &str) -> Option<WorkloadId> {
        self.workload_ids.get(&*key(kind, namespace, name)).copied()
    }

    /// Every workload that is there or that pods name.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        let there = |workload: &Workload| workload.claim.is_some() || workload.named > 0;
        let ids = (0..).map(WorkloadId);
        ids.zip(&self.workloads).filter(move |(_, workload)| there(workload))
    }

    /// The id of a workload, whether it is there or only named by a pod.
    pub(super) fn workload_id(&mut self, kind: WorkloadKind, namespace: &str, name: &str) -> WorkloadId {
        let key = key(kind, namespace, name);
        if let Some(id) = self.workload_ids.get(&*key) {
            return *id;
        }
        self.arrivals += 1;
        let workload = Workload::new(kind, self.texts.get(namespace), name, self.arrivals);
        let id = if let Some(id) = self.free_workloads.pop() {
            self.workloads[id.index()] = workload;
            id
        } else {
            self.workloads.push(workload);
            WorkloadId(u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX))
        };
        self.workload_ids.insert(key, id);
        id
    }

    pub(super) fn forget_empty_workload(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id.index()];
        if workload.claim.is_none() && workload.named == 0 {
            let key = key(workload.kind, &workload.namespace, &workload.name);
            if self.workload_ids.remove(&*key).is_some() {
                self.free_workloads.push(id);
            }
        }
    }

    /// Lets a workload into its queue: what it asks for is kept for it until its pods take over.
    pub fn enqueue(&mut self, id: WorkloadId) {
        let workload = &mut self.workloads[id.index()];
        workload.enqueued = true;
        workload.refused = None;
        workload.version += 1;
        self.settle(id);
    }

    /// Remembers why a workload, or its pods together, were not let in.
    pub(crate) fn refuse_workload(&mut self, id: WorkloadId, refused: Option<(Step, Refused)>) {
        let workload = &mut self.workloads[id.index()];
        let reason = |refused: Option<(Step, Refused)>| refused.map(|(_, refused)| refused.reason);
        if reason(workload.refused) != reason(refused) {
            self.changes.workloads.insert(id);
        }
        workload.refused = refused;
    }

    /// Takes back that a workload is in its queue.
    pub fn dequeue(&mut self, id: WorkloadId) {
        self.workloads[id.index()].enqueued = false;
        self.settle(id);
    }

    /// The API server has refused to resume a Job: it is tried again after a while.
    pub fn refuse_resumption(&mut self, uid: &str, now: Timestamp) {
        let is_it = |workload: &Workload| workload.claim.as_ref().is_some_and(|claim| &*claim.uid == uid);
        let Some(id) = self.workloads().find(|(_, workload)| is_it(workload)).map(|(id, _)| id) else {
            return;
        };
        let until = Self::after_refused_write(now);
        self.workloads[id.index()].aside_until = until;
        self.workload_deadlines.extend(until.map(|until| (until, id)));
        self.dequeue(id);
    }

    /// Workloads that stood aside may try again.
    pub(super) fn advance_workloads(&mut self, now: Timestamp) {
        while let Some((time, id)) = self
            .workload_deadlines
            .first()
            .copied()
            .filter(|(time, _)| *time <= now)
        {
            self.workload_deadlines.remove(&(time, id));
            if self.workloads[id.index()].aside_until == Some(time) {
                self.workloads[id.index()].aside_until = None;
                self.settle(id);
            }
        }
    }

    /// Counts anew what is kept for every workload, when the configuration has changed.
    pub(super) fn resettle_workloads(&mut self) {
        for id in (0..self.workloads.len()).filter_map(|index| u32::try_from(index).ok().map(WorkloadId)) {
            self.unreserve(id);
            self.settle(id);
        }
    }

    /// Whether `PodGroup`s of this kind are enqueued by Cardgate.
    fn enqueues(&self, kind: WorkloadKind) -> bool {
        kind == WorkloadKind::Job || self.configuration.cardgate.enqueue
    }

    /// Reserves for a workload what should be, and puts it in line for its queue where it belongs there.
    fn settle(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id.index()];
        let Some(claim) = &workload.claim else {
            self.unreserve(id);
            self.note_incomplete(id);
            return;
        };
        let queue = claim.queue;
        let open = claim.asks
            && claim.problem.is_none()
            && claim.said != Said::Over
            && !workload.is_started()
            && self.enqueues(workload.kind);
        let held = open && !workload.is_enqueued() && workload.aside_until.is_none();
        if open && workload.is_enqueued() {
            if workload.reserved.is_none() {
                let demand = self.metered(&claim.demand);
                self.reserve_in(queue, &demand);
                self.changes.queues.insert(queue);
                self.workloads[id.index()].reserved = Some((queue, demand));
            }
        } else {
            self.unreserve(id);
        }
        let line = &mut self.queues[queue.index()].held;
        if held {
            line.insert(id);
        } else {
            line.remove(&id);
        }
        self.changes.workloads.insert(id);
        self.note_incomplete(id);
    }

    /// What of a demand counts: cards, each also as one of the resource that it is requested as; CPU and memory, unless cards
    /// stand for them; and every other resource, of which the plugin compares what it does.
    pub(crate) fn metered(&self, demand: &Demand) -> Demand {
        let counts = |(dimension, _): &(Dimension, i64)| self.is_metered(*dimension, !demand.cards.is_empty());
        let mut resources: BTreeMap<_, _> = demand.resources.iter().filter(counts).collect();
        let mut devices = BTreeMap::<Dimension, i64>::new();
        for (set, count) in &demand.cards {
            // All alternatives are of one resource.
            if let Some(resource) = set.iter().find_map(|card| self.resource_of(*card)) {
                let sum = devices.entry(Dimension::Resource(resource)).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        for (dimension, count) in devices {
            let sum = resources.entry(dimension).or_default();
            *sum = count.max(*sum);
        }
        Demand {
            resources: resources.into_iter().collect(),
            cards: demand.cards.clone(),
        }
    }

    /// Whether a resource counts for a workload.
    fn is_metered(&self, dimension: Dimension, names_cards: bool) -> bool {
        match dimension {
            Dimension::Resource(ResourceId::CPU | ResourceId::MEMORY) => {
                charges_cpu_and_memory(&self.configuration.capacity_card, names_cards)
            }
            _ => true,
        }
    }

    fn unreserve(&mut self, id: WorkloadId) {
        if let Some(queue) = self.workloads[id.index()].claim.as_ref().map(|claim| claim.queue) {
            self.queues[queue.index()].held.remove(&id);
        }
        let Some((queue, demand)) = self.workloads[id.index()].reserved.take() else {
            return;
        };
        self.release_in(queue, &demand);
        self.changes.queues.insert(queue);
    }

    /// A gang of which some pods hold quota and others wait goes before everything else.
    fn note_incomplete(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id.index()];
        if workload.admitted() > 0 && workload.missing() > 0 && !workload.line.is_empty() {
            self.incomplete.insert(id);
        } else {
            self.incomplete.remove(&id);
        }
    }

    /// Counts a pod in with its workloads.
    pub(super) fn join_workloads(&mut self, id: PodId) {
        let Some(pod) = self.pod(id).filter(|pod| pod.group.or(pod.job).is_some()) else {
            return;
        };
        let member = member(id, pod);
        let ran = matches!(pod.stage, Stage::Unbound { .. } | Stage::Bound);
        let place = pod
            .waits
            .as_ref()
            .filter(|waits| pod.stage == Stage::Waiting && waits.aside_until.is_none());
        let place = place.map(|waits| (std::cmp::Reverse(waits.shape.priority), waits.place));
        let group = pod.group;
        for workload in [pod.group, pod.job].into_iter().flatten() {
            let state = &mut self.workloads[workload.index()];
            state.ran |= ran;
            if let Some(member) = &member {
                state.extra.insert(member.clone());
                self.add_elastic(id, 1);
                self.rebalance(workload);
            }
            let state = &mut self.workloads[workload.index()];
            if let Some(place) = place.filter(|_| group == Some(workload)) {
                state.line.insert(place);
                if state.missing() > 0 {
                    state.version += 1;
                }
            }
            self.settle(workload);
        }
    }

    /// Counts a pod out with its workloads.
    pub(super) fn quit_workloads(&mut self, id: PodId) {
        let Some(pod) = self.pod(id).filter(|pod| pod.group.or(pod.job).is_some()) else {
            return;
        };
        let member = member(id, pod);
        let place = pod
            .waits
            .as_ref()
            .map(|waits| (std::cmp::Reverse(waits.shape.priority), waits.place));
        for workload in [pod.group, pod.job].into_iter().flatten() {
            let state = &mut self.workloads[workload.index()];
            if let Some(place) = place {
                state.line.remove(&place);
            }
            if let Some(member) = &member {
                if state.extra.remove(member) {
                    self.add_elastic(id, -1);
                } else {
                    state.core.remove(member);
                    self.rebalance(workload);
                }
                self.workloads[workload.index()].version += 1;
            }
            self.settle(workload);
        }
    }

    /// Keeps the first of a workload's pods that hold quota, up to its minimum, apart from those beyond it, which are
    /// elastic.
    fn rebalance(&mut self, id: WorkloadId) {
        let least = self.workloads[id.index()].min_member();
        loop {
            let workload = &mut self.workloads[id.index()];
            let out_of_order = workload.core.last() > workload.extra.first() && !workload.extra.is_empty();
            let is_lowered = workload.core.len() > least;
            if is_lowered || (out_of_order && workload.core.len() == least) {
                if let Some(member) = workload.core.pop_last() {
                    let pod = member.2;
                    workload.extra.insert(member);
                    self.add_elastic(pod, 1);
                    if let Some(queue) = self.pod(pod).and_then(|pod| pod.queue).filter(|_| is_lowered) {
                        self.room_grew(queue);
                    }
                }
            } else if workload.core.len() < least && !workload.extra.is_empty() {
                if let Some(member) = workload.extra.pop_first() {
                    let pod = member.2;
                    workload.core.insert(member);
                    self.add_elastic(pod, -1);
                }
            } else {
                return;
            }
        }
    }

    /// Counts what a pod holds in, or out, as elastic.
    fn add_elastic(&mut self, id: PodId, sign: i128) {
        let Some(pod) = self.pods[id.index()].take() else {
            return;
        };
        if let (Some(queue), Some(charge)) = (pod.queue, pod.charge) {
            let charged = pod.charged(charge);
            let charged: Vec<_> = charged
                .map(|(dimension, amount)| (dimension, sign * i128::from(amount)))
                .collect();
            self.change_elastic(queue, &charged);
        }
        self.pods[id.index()] = Some(pod);
    }

    /// What the first `count` pods of a line ask for in all, each with the alternatives that the cluster knows.
    pub(crate) fn demand_of(&self, pods: impl IntoIterator<Item = PodId>) -> Demand {
        let mut resources = BTreeMap::<Dimension, i64>::new();
        let mut cards = Vec::new();
        for pod in pods.into_iter().filter_map(|id| self.pod(id)) {
            let names_cards = !pod.task.cards.is_empty();
            let request = pod.task.request.iter();
            for (dimension, amount) in request.filter(|(dimension, _)| self.is_metered(*dimension, names_cards)) {
                let sum = resources.entry(dimension).or_default();
                *sum = sum.saturating_add(amount);
            }
            let known = pod
                .task
                .cards
                .iter()
                .copied()
                .filter(|card| self.resource_of(*card).is_some());
            let counts = known.map(|card| {
                (
                    card,
                    self.resource_of(card).map_or(0, |resource| pod.task.count(resource)),
                )
            });
            let known: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
            if let Some((_, count)) = known.first() {
                let set = known.iter().map(|(card, _)| *card).collect();
                cards.push((set, *count));
            }
        }
        Demand::new(resources.into_iter().collect(), cards)
    }
}

impl WorkloadKind {
    /// The kind under which objects of this kind are watched.
    const fn watched(self) -> Kind {
        match self {
            Self::PodGroup => Kind::PodGroup,
            Self::Job => Kind::Job,
        }
    }
}

/// The same text as a pod's controller has, where a Job makes its pods.
fn key(kind: WorkloadKind, namespace: &str, name: &str) -> Box<str> {
    [namespace, "/", kind.as_str(), "/", name].concat().into()
}

/// A pod that holds quota and is there to stay.
fn member(id: PodId, pod: &Pod) -> Option<Member> {
    (pod.charge.is_some() && pod.deleted.is_none()).then(|| (pod.created, Arc::clone(&pod.uid), id))
}

fn read_demand(
    cards: Option<&str>,
    resources: Option<&volcano::ResourceQuantities>,
    names: &mut Names,
) -> Result<Demand, Box<str>> {
    let cards = cards.map_or(Ok(CardRequest::default()), CardRequest::parse);
    let cards = cards.map_err(|error| format!("annotation {CARD_REQUEST}: {error}"))?;
    let resources = resources.map_or(Ok(crds::resources::ResourceVector::default()), volcano::resource_vector);
    let resources = resources.map_err(|error| format!("spec.minResources: {error}"))?;
    let amounts = resources.iter().map(|(name, amount)| (names.resource(name), amount));
    let amounts: Amounts = amounts
        .map(|(resource, amount)| (Dimension::Resource(resource), amount))
        .collect();
    let cards = cards.iter().map(|(names_text, count)| {
        let set = names_text.split(SEPARATOR).map(|name| names.card(name)).collect();
        (set, count)
    });
    Ok(Demand::new(amounts, cards.collect::<Vec<_>>()))
}
