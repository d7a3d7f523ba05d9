//! What `PodGroup`s and Jobs say of themselves.

use std::sync::Arc;

use crds::bounds::excerpt;
use crds::card::SEPARATOR;
use crds::card_counts::CardRequest;
use crds::keys::{CARD_REQUEST, GROUP_NAME, JOB_HELD, QUEUE_NAME};
use crds::made::Whole;
use crds::names::as_object_name;
use crds::volcano::{self, PodGroupStatus, WatchedGroup};
use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::times::latest_end;
use super::workload::{QueueNaming, Said, Workload, WorkloadTerms};
use crate::amounts::{Amounts, Dimension};
use crate::ids::{QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::names::Names;
use crate::reason::Reason;
use crate::refs::WorkloadKind;

/// The key of a workload that is asked about and does not exist. No existing workload has this key.
const IMAGINED: &str = "imagined";

/// For how long something that Volcano's scheduler has written shows that it runs.
const VOLCANO_MEMORY: SignedDuration = SignedDuration::from_mins(10);

impl Cluster {
    /// Takes in what a `PodGroup` says.
    pub(crate) fn apply_group(&mut self, group: &WatchedGroup, now: Timestamp) {
        let metadata = &group.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return;
        };
        let request = metadata.annotations.get(CARD_REQUEST);
        let created = metadata.creation_timestamp.as_deref();
        let demand = read_demand(request, group.spec.min_resources.as_ref(), &mut self.names);
        let tasks = group.spec.least_of_tasks().map(|tasks| self.task_names(&tasks));
        let tasks = tasks.map_err(|error| format!("spec.minTaskMember: {error}").into());
        let phase = group.status.as_ref().and_then(|status| status.phase.as_deref());
        // What Volcano's scheduler wrote long ago says nothing about whether it runs.
        let is_fresh = |time: &str| {
            let written = time.parse::<Timestamp>();
            let age = written.map(|written| now.duration_since(written));
            // Anybody may write a time in the future, and it would count as fresh for ever.
            age.is_ok_and(|age| age < VOLCANO_MEMORY && age > -VOLCANO_MEMORY)
        };
        let by_volcano = group
            .status
            .as_ref()
            .is_some_and(|status| status.scheduled_by_volcano().any(is_fresh));
        self.changes.volcano_schedules |= by_volcano && self.configuration.cardgate.enqueue;
        let mut reasons = group.status.iter().flat_map(PodGroupStatus::reasons);
        let told = reasons.find_map(Reason::from_word);
        let queue = group.spec.queue.as_deref().filter(|queue| !queue.is_empty());
        let naming = QueueNaming {
            queue: queue.map(|name| as_object_name(name).into()),
            group: None,
        };
        let queue = self.queue_of_workload(namespace, &naming);
        let terms = WorkloadTerms {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            created: created.and_then(|time| time.parse().ok()).unwrap_or(now),
            naming,
            queue,
            min_member: group
                .spec
                .min_member
                .and_then(|least| usize::try_from(least).ok())
                .map_or(1, |least| least.max(1)),
            problem: demand.as_ref().err().or(tasks.as_ref().err()).cloned(),
            tasks: tasks.unwrap_or_default(),
            asks: request.is_some() || group.spec.min_resources.as_ref().is_some_and(|least| !least.is_empty()),
            demand: demand.unwrap_or_default(),
            said: match phase {
                _ if metadata.deletion_timestamp.is_some() => Said::Over,
                None | Some("" | "Pending") => Said::Waiting,
                Some("Inqueue") => Said::Enqueued,
                Some("Completed") => Said::Over,
                Some(_) => Said::Started,
            },
            ends: None,
            // No real phase is longer than the excerpt. Anybody who may change the group may write anything.
            phase: phase.map(|phase| excerpt(phase).into()),
        };
        self.apply_terms(WorkloadKind::PodGroup, namespace, name, terms, told, now);
    }

    fn task_names(&mut self, tasks: &[(&str, usize)]) -> Box<[(Arc<str>, usize)]> {
        tasks
            .iter()
            .map(|(task, least)| (self.texts.get(task), *least))
            .collect()
    }

    /// Notes a `PodGroup` that can't be read at all. Its pods wait until it is mended.
    pub(crate) fn apply_unreadable_group(
        &mut self,
        namespace: &str,
        name: &str,
        uid: &str,
        reason: &str,
        now: Timestamp,
    ) {
        let terms = WorkloadTerms {
            uid: uid.into(),
            created: Timestamp::UNIX_EPOCH,
            naming: QueueNaming::default(),
            queue: self.queue_of_workload(namespace, &QueueNaming::default()),
            min_member: 1,
            tasks: Box::default(),
            demand: Demand::default(),
            asks: false,
            said: Said::Waiting,
            ends: None,
            phase: None,
            problem: Some(reason.into()),
        };
        self.apply_terms(WorkloadKind::PodGroup, namespace, name, terms, None, now);
    }

    /// Forgets what a `PodGroup` said.
    pub(crate) fn remove_group(&mut self, namespace: &str, name: &str) {
        self.remove_terms(WorkloadKind::PodGroup, namespace, name);
    }

    /// Takes in what a Job says. A Job that asks for no cards in advance does not concern the operator.
    pub(crate) fn apply_job(&mut self, job: &crds::job::Job<Box<str>>, now: Timestamp) {
        let metadata = &job.metadata;
        let (Some(namespace), Some(name)) = (metadata.namespace.as_deref(), metadata.name.as_deref()) else {
            return;
        };
        let Some(request) = metadata.annotations.get(CARD_REQUEST) else {
            self.remove_job(namespace, name);
            return;
        };
        let demand = read_demand(Some(request), None, &mut self.names);
        let naming = naming_of(&job.spec.template.metadata);
        let queue = self.queue_of_workload(namespace, &naming);
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let said = match (job.is_suspended(), metadata.annotations.contains_key(JOB_HELD)) {
            _ if job.is_finished() || metadata.deletion_timestamp.is_some() => Said::Over,
            (true, true) => Said::Waiting,
            (true, false) => Said::Over,
            // Pods that ended before the Job was suspended and held have nothing to do with what is kept for it now.
            (false, _) if job.has_ended_pods() && !self.waits_for_pods(namespace, name, uid) => Said::Started,
            (false, _) => Said::Enqueued,
        };
        let created = metadata.creation_timestamp.as_deref();
        let terms = WorkloadTerms {
            uid: uid.into(),
            created: created.and_then(|time| time.parse().ok()).unwrap_or(now),
            naming,
            queue,
            // A Job asks for all of its pods, and they are let in one by one. None of them is elastic.
            min_member: usize::MAX,
            tasks: Box::default(),
            asks: true,
            problem: demand.as_ref().err().cloned(),
            demand: demand.unwrap_or_default(),
            said,
            ends: latest_end(
                job.spec.active_deadline_seconds,
                job.spec.template.spec.termination_grace_period_seconds,
                job.status.start_time.as_deref(),
            ),
            phase: None,
        };
        self.apply_terms(WorkloadKind::Job, namespace, name, terms, None, now);
    }

    /// Whether a Job was seen to be held, or to be let into its queue, and none of its pods has taken over since.
    fn waits_for_pods(&self, namespace: &str, name: &str, uid: &str) -> bool {
        let known = self.workload_named(WorkloadKind::Job, namespace, name);
        known.map(|id| self.workload(id)).is_some_and(|known| {
            let terms = known.terms.as_ref().filter(|terms| *terms.uid == *uid);
            terms.is_some_and(|terms| matches!(terms.said, Said::Waiting | Said::Enqueued)) && !known.is_started()
        })
    }

    /// Forgets what a Job said.
    pub(crate) fn remove_job(&mut self, namespace: &str, name: &str) {
        self.remove_terms(WorkloadKind::Job, namespace, name);
    }

    /// Adds a Job that does not exist but is taken as a whole, and whose pods say this of themselves, until
    /// [`Self::forget_imagined_whole`]. Nothing is kept for it, and it stands in no line.
    pub(crate) fn imagine_whole(
        &mut self,
        namespace: &str,
        whole: &Whole,
        pods: &crds::pod::Metadata<Box<str>>,
    ) -> WorkloadId {
        let demand = read_demand(whole.card_request.as_deref(), None, &mut self.names);
        let naming = naming_of(pods);
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let tasks = whole.tasks.iter().filter(|(_, least)| **least > 0);
        // As with a group, the minima of tasks count only where the minimum of the whole is at least their sum.
        let sum = whole
            .tasks
            .values()
            .fold(0, |sum: u64, least| sum.saturating_add(*least));
        let tasks = tasks.filter(|_| sum <= whole.min_member);
        let terms = WorkloadTerms {
            uid: Arc::default(),
            created: self.now,
            queue: self.queue_of_workload(namespace, &naming),
            naming,
            min_member: size(whole.min_member).max(1),
            tasks: tasks
                .map(|(task, least)| (self.texts.get(task), size(*least)))
                .collect(),
            asks: false,
            problem: demand.as_ref().err().cloned(),
            demand: demand.unwrap_or_default(),
            said: Said::Enqueued,
            ends: None,
            phase: None,
        };
        let namespace = self.texts.get(namespace);
        let mut workload = Workload::new(WorkloadKind::Job, namespace, &whole.name, u64::MAX);
        workload.say(terms, self.now);
        self.workloads.insert(IMAGINED.into(), workload)
    }

    /// Removes an imagined Job again, once nobody asks about it any more.
    pub(crate) fn forget_imagined_whole(&mut self, id: WorkloadId) {
        let terms = self.workloads[id].fall_silent();
        self.workloads.remove(IMAGINED);
        if let Some(terms) = terms {
            let cards = terms.demand.cards.iter().map(|(set, _)| set.len());
            self.names.gone(cards.sum(), 0);
            self.forget_empty_queue(terms.queue);
        }
    }

    /// Returns the queue that a workload names, else its group's queue, else its namespace's queue, else the default
    /// queue.
    pub(super) fn queue_of_workload(&mut self, namespace: &str, naming: &QueueNaming) -> QueueId {
        let group = naming.group.as_deref().filter(|_| naming.queue.is_none());
        let group = group.and_then(|group| self.workload_named(WorkloadKind::PodGroup, namespace, group));
        if let Some(terms) = group.and_then(|group| self.workload(group).terms.as_ref()) {
            return terms.queue;
        }
        let of_namespace = self.namespace(namespace).and_then(|namespace| namespace.queue.clone());
        let queue = naming.queue.clone().or(of_namespace);
        let queue = queue.unwrap_or_else(|| self.configuration.cardgate.default_queue.as_str().into());
        self.queue_id(&queue)
    }

    /// Determines anew the queues of workloads that name none themselves, where their namespace or the configuration names
    /// the queue.
    pub(super) fn find_queues(&mut self, concerned: impl Fn(&Workload) -> bool, now: Timestamp) {
        let found = self.workloads().filter(|(_, workload)| concerned(workload));
        for id in found.map(|(id, _)| id).collect::<Vec<_>>() {
            self.find_queue(id, now);
        }
    }

    /// Determines anew the queue of a workload that names none itself.
    pub(super) fn find_queue(&mut self, id: WorkloadId, now: Timestamp) {
        let workload = self.workload(id);
        let terms = workload.terms.clone().filter(|terms| terms.naming.queue.is_none());
        let Some(mut terms) = terms else { return };
        let namespace = workload.namespace.to_string();
        terms.queue = self.queue_of_workload(&namespace, &terms.naming);
        self.change_terms(id, terms, now);
    }
}

/// Returns how pods of this kind name their queue, which will be charged for them.
fn naming_of(pods: &crds::pod::Metadata<Box<str>>) -> QueueNaming {
    let named = |key| {
        let name = pods.annotations.get(key).filter(|name| !name.is_empty());
        name.map(|name| as_object_name(name).into())
    };
    QueueNaming {
        queue: named(QUEUE_NAME),
        group: named(GROUP_NAME),
    }
}

fn read_demand(
    cards: Option<&str>,
    resources: Option<&volcano::ResourceQuantities>,
    names: &mut Names,
) -> Result<Demand, Box<str>> {
    let cards = cards.map_or(Ok(CardRequest::default()), CardRequest::parse);
    let cards = cards.map_err(|error| format!("annotation {CARD_REQUEST}: {error}"))?;
    let resources = resources.map_or(Ok(crds::resources::ResourceVector::default()), volcano::min_resources);
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
