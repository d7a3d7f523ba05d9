//! Pods that are asked about and do not exist.

use std::sync::Arc;

use crds::bounds::CLAIMS;
use crds::configuration::Enforcement;
use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL};
use crds::managed::{is_of_daemon_set, is_subject_to_cross_quota};
use crds::pod::{PodSpec, PodStatus};
use jiff::Timestamp;

use crate::cluster::claiming::claims_excess;
use crate::cluster::place::LAST;
use crate::cluster::pod::{Evicting, Pod, Stage, Waits};
use crate::cluster::reading::{self, task_spec};
use crate::cluster::reading_claims::NOBODY;
use crate::cluster::waiting::{Shape, Traits};
use crate::cluster::{Cluster, Namespace};
use crate::devices::TURN;
use crate::ids::{PodId, WorkloadId};
use crate::refs::WorkloadKind;
use crate::steps::Steps;

/// What a question may still cost in claims, however many templates its manifest has. All of them together may cost as
/// much as one pod.
#[derive(Debug)]
pub(crate) struct Allowance {
    steps: Steps,
    claims: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            steps: Steps::new(TURN),
            claims: CLAIMS,
        }
    }
}

impl Allowance {
    /// Returns the complaint about a pod that names more claims than may still be looked at.
    fn excess(&mut self, spec: &PodSpec<Box<str>>) -> Option<Box<str>> {
        let excess = claims_excess(spec).or_else(|| {
            (spec.resource_claims.len() > self.claims).then(|| {
                format!(
                    "the pods of the manifest name more than {CLAIMS} claims, and no more are looked at: ask about fewer of its templates"
                )
                .into()
            })
        });
        self.claims = self.claims.saturating_sub(spec.resource_claims.len());
        excess
    }
}

impl Cluster {
    /// Returns how a pod would wait that is created now; none where Cardgate would not hold it. The pod belongs to the
    /// group that it names, else to `whole`. Its names count as in use until [`Self::forget_imagined`].
    pub(crate) fn imagine(
        &mut self,
        mut pod: crds::pod::Pod<Box<str>>,
        namespace: &str,
        whole: Option<WorkloadId>,
        allowance: &mut Allowance,
    ) -> Option<Shape> {
        let namespace = self.texts.get(namespace);
        let priority = pod.spec.priority.unwrap_or(0);
        // Nothing has come of the pod yet, whatever it says: neither claims that were made for it nor a node.
        pod.status = PodStatus::default();
        self.mark_as_the_door_does(&mut pod, &namespace);
        let mut reading = reading::read(&mut pod, &namespace, &mut self.names);
        let named = match allowance.excess(&pod.spec) {
            None => self.imagine_claims(&mut reading, &pod, &namespace, &allowance.steps),
            Some(excess) => {
                self.put_excess(&mut reading, excess);
                Vec::new()
            }
        };
        self.meet_resources();
        if self.asks_for_charged_cards(&reading, &namespace, None) {
            (reading.managed, reading.in_no_queue) = (true, false);
        }
        // The caller asks once about what claims are for that are made from templates with the pod.
        let mut claims = pod.spec.resource_claims.iter();
        let by_template = claims.any(|claim| claim.resource_claim_template_name.is_some());
        if !by_template && self.is_held_for_its_claims(&reading, &namespace) {
            (reading.managed, reading.in_no_queue) = (true, true);
        }
        if !reading.managed {
            self.forget_names(reading.task.cards().count(), reading.task.request.iter().len());
            return None;
        }
        let (queue, unqueued) = self.queue_of_pod(&reading, &namespace, None);
        reading.task.unqueued = unqueued;
        self.check_payers(&mut reading.task, &namespace, NOBODY, Some(queue), &named);
        self.name_cards(&mut reading.task, Some(queue));
        let group = reading.group.as_deref();
        let group = group.and_then(|group| self.workload_named(WorkloadKind::PodGroup, &namespace, group));
        let group = group.or(whole);
        let task_spec = task_spec(&pod.metadata).filter(|_| group.is_some());
        let task_spec = task_spec.map(|task| self.texts.get(task));
        Some(Shape::from(Traits {
            queue,
            namespace: Arc::clone(&namespace),
            group,
            task_spec,
            priority,
            preempts: reading.preempts,
            task: reading.task,
            constraints: reading.constraints,
            cross_quota: reading.cross_quota,
        }))
    }

    /// Marks a pod for `CrossQuota` where the webhook would, and otherwise takes the mark off.
    fn mark_as_the_door_does(&self, pod: &mut crds::pod::Pod<Box<str>>, namespace: &str) {
        let arguments = self.configuration.cross_quota.as_ref();
        let gating = self.configuration.cardgate.enforce_cross_quota == Enforcement::Gating;
        let opted_in = || self.namespace(namespace).is_some_and(Namespace::opts_in_to_cross_quota);
        let is_subject = arguments.is_some_and(|arguments| is_subject_to_cross_quota(pod, arguments));
        if gating && is_subject && !is_of_daemon_set(pod) && opted_in() {
            pod.metadata
                .labels
                .insert(CROSS_QUOTA_LABEL.into(), CROSS_QUOTA_ENABLED.into());
        } else {
            pod.metadata.labels.retain(|key| key != CROSS_QUOTA_LABEL);
        }
    }

    /// Forgets a pod that nobody asks about any more.
    pub(crate) fn forget_imagined(&mut self, shape: &Shape) {
        self.forget_names(shape.task.cards().count(), shape.task.request.iter().len());
        self.forget_empty_queue(shape.queue);
    }

    /// Puts pods of these shapes of a group among the waiting pods, one for each shape, behind all others, until
    /// [`Self::take_stand_ins`]. Nobody is told anything about them.
    pub(crate) fn put_stand_ins(&mut self, group: WorkloadId, shapes: &[Arc<Shape>]) -> Vec<PodId> {
        let put = |(number, shape): (usize, &Arc<Shape>)| self.put_stand_in(group, shape, number);
        shapes.iter().enumerate().map(put).collect()
    }

    fn put_stand_in(&mut self, group: WorkloadId, shape: &Arc<Shape>, number: usize) -> PodId {
        // No existing pod has a slash in its unique id.
        let uid: Arc<str> = format!("imagined/{number}").into();
        let mut pod = Pod {
            name: Arc::clone(&uid),
            uid,
            namespace: Arc::clone(&shape.namespace),
            created: Timestamp::MAX,
            seen: self.now,
            queue: Some(shape.queue),
            queue_is_settled: true,
            task: shape.task.clone(),
            stage: Stage::Waiting,
            charge: None,
            priority: shape.priority,
            eviction: Evicting::default(),
            room: None,
            deleted: None,
            ends: None,
            assigned: None,
            group: Some(group),
            task_spec: shape.task_spec.clone(),
            job: None,
            job_uid: None,
            binding: false,
            has_one_node: false,
            gpus: None,
            gpus_are_written: false,
            controller: None,
            returns: 0,
            reachable: true,
            charged_for_cards: false,
            has_group_made_for_it: false,
            was_held: false,
            has_annotations: true,
            claims_other_devices: false,
            other_gates: None,
            waits: None,
            told: None,
            shown_as_waiting: false,
            epoch: u64::MAX,
        };
        pod.waits = Some(Waits {
            shape: Arc::clone(shape),
            place: LAST,
            since: Timestamp::MAX,
            asked: self.charge(&pod, pod.task.alternatives.first()),
            aside_until: None,
            write_refusals: 0,
            write_failed: false,
        });
        self.put_pod(None, pod)
    }

    /// Takes these stand-ins out again.
    pub(crate) fn take_stand_ins(&mut self, pods: &[PodId]) {
        for id in pods {
            if let Some(uid) = self.pod(*id).map(|pod| Arc::clone(&pod.uid)) {
                self.take_pod(&uid);
            }
        }
    }

    /// Notes that one pod fewer names this many cards and resources.
    fn forget_names(&mut self, cards: usize, resources: usize) {
        // CPU, memory and the pod's slot are names that are never forgotten.
        self.names.gone(cards, resources.saturating_sub(3));
    }
}
