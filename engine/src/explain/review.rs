//! Answers users' questions about what waits: everything that stands in the way, which pods come first, and what would help.
//!
//! An answer names only pods of the asking namespace. Other pods are counted, and of a queue that is not for this namespace they are not
//! even counted. The work is bounded: each node is looked at once for each card that the pod may name, and each waiting pod of the queue and
//! each holder at most once.

use std::borrow::Cow;
use std::cmp::Reverse;

use crds::bounds::printable;
use crds::card_review::{CardReviewStatus, Estimate, Reviewed};
use crds::made::Made;
use jiff::Timestamp;
use thiserror::Error;

use super::before::{before, before_workload, line_up, line_up_workload};
use super::estimate::estimate;
use super::holders::{is_of, is_of_job};
use super::imagined::of_imagined;
use super::in_the_way::{blocks, of_shape, of_shape_besides, summed_up};
use super::pod::held_elsewhere;
use super::workload::shape_refused_for;
use super::{Subject, explain, reason as refused_for};
use crate::cluster::Cluster;
use crate::cluster::place::LAST;
use crate::cluster::pod::{Pod, Stage};
use crate::cluster::workload::Said;
use crate::decide::verdict::check_queue_takes;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::{Outlook, Reason};
use crate::refs::WorkloadKind;

/// What is asked about is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unknown {
    /// Nothing of this kind in the namespace has the name.
    #[error(
        "{kind} {name:?} is not known in namespace {namespace}: is the name right, was it created, and has it not ended?"
    )]
    InNamespace {
        /// The kind that was asked about.
        kind: String,
        /// Its name.
        name: String,
        /// The namespace in which it was looked for.
        namespace: String,
    },
    /// Controllers are known only by their pods, and this one has none.
    #[error(
        "{kind} {name:?} has no pods in namespace {namespace}, as far as is known: is the name right, was it created, and is it not scaled to 0? \
         Ask kubectl -n {namespace} get for it"
    )]
    NoPods {
        /// The kind that was asked about.
        kind: String,
        /// Its name.
        name: String,
        /// The namespace in which its pods were looked for.
        namespace: String,
    },
    /// The object makes no pods itself.
    #[error(
        "CronJob {name:?} makes no pods itself: ask about one of its Jobs, job/NAME (kubectl -n {namespace} get cronjobs,jobs shows whether it is \
         there, and they are)"
    )]
    OfJobs {
        /// Its name.
        name: String,
        /// The namespace in which it would be.
        namespace: String,
    },
    /// No queue has the name. Queues are in no namespace.
    #[error("queue {0:?} is not known: kubectl get queues lists those that there are")]
    Queue(String),
}

/// The question, after it was read.
#[derive(Debug)]
pub enum Asked {
    /// About something that exists.
    Existing(Reviewed),
    /// About something that need not exist.
    Imagined(Box<Made>),
}

/// Answers a question of a user who may read the pods of this namespace.
pub fn review(
    cluster: &mut Cluster,
    namespace: &str,
    asked: Asked,
    now: Timestamp,
) -> Result<CardReviewStatus, Unknown> {
    let asked = match asked {
        Asked::Existing(asked) => asked,
        Asked::Imagined(made) => return Ok(of_imagined(cluster, namespace, *made, now)),
    };
    let cluster = &*cluster;
    let short = |name: &str| name.chars().take(MOST_NAME).collect::<String>();
    let unknown = |kind: &str, name: &str| Unknown::InNamespace {
        kind: printable(&short(kind)).into_owned(),
        name: short(name),
        namespace: namespace.to_owned(),
    };
    let no_pods = |kind: &str, name: &str| match kind {
        "CronJob" => Unknown::OfJobs {
            name: short(name),
            namespace: namespace.to_owned(),
        },
        kind => Unknown::NoPods {
            kind: printable(&short(kind)).into_owned(),
            name: short(name),
            namespace: namespace.to_owned(),
        },
    };
    let of_pods = |wanted: &dyn Fn(&Pod) -> bool| first_pod(cluster, namespace, wanted);
    match asked {
        Reviewed::Pod(name) => of_pods(&|pod| *pod.name == *name)
            .map(|id| of_pod(cluster, namespace, id, now))
            .ok_or_else(|| unknown("Pod", &name)),
        Reviewed::Workload(workload) if workload.kind == "Job" => {
            of_job(cluster, namespace, &workload.name, now).ok_or_else(|| unknown("Job", &workload.name))
        }
        Reviewed::Workload(workload) => of_pods(&|pod| is_of(pod, &workload.kind, &workload.name))
            .map(|id| of_pod(cluster, namespace, id, now))
            .ok_or_else(|| no_pods(&workload.kind, &workload.name)),
        Reviewed::Job(name) => of_job(cluster, namespace, &name, now).ok_or_else(|| unknown("Job", &name)),
        Reviewed::PodGroup(name) => {
            let id = cluster.workload_named(WorkloadKind::PodGroup, namespace, &name);
            id.map(|id| of_workload(cluster, namespace, id, now))
                .ok_or_else(|| unknown("PodGroup", &name))
        }
        Reviewed::Queue(name) => {
            let id = cluster
                .queue_named(&name)
                .filter(|id| !cluster.queue(*id).is_nameless());
            id.map(|id| of_queue(cluster, namespace, id))
                .ok_or_else(|| Unknown::Queue(short(&name)))
        }
        // The caller has read manifests already, so none is left here.
        Reviewed::Manifest(_) => Err(unknown("Pod", "")),
    }
}

/// The most characters of an unknown name that are repeated.
const MOST_NAME: usize = 64;

/// Returns the first waiting one of these pods; if none waits, any of them.
fn first_pod(cluster: &Cluster, namespace: &str, wanted: &dyn Fn(&Pod) -> bool) -> Option<PodId> {
    let pods = cluster.pods_by_id();
    let own = pods.filter(|(_, pod)| *pod.namespace == *namespace && wanted(pod));
    own.min_by_key(|(id, pod)| {
        // For pods that are being let in, it is still known how they waited.
        let rank = match pod.stage {
            Stage::Waiting => 0,
            Stage::Blocked => 1,
            Stage::Admitting { .. } | Stage::Unbound { .. } | Stage::Bound => 2,
        };
        (rank, pod.waits.as_ref().map(|waits| waits.place), *id)
    })
    .map(|(id, _)| id)
}

fn of_job(cluster: &Cluster, namespace: &str, name: &str, now: Timestamp) -> Option<CardReviewStatus> {
    let job = cluster.workload_named(WorkloadKind::Job, namespace, name);
    let is_refused = |id: &WorkloadId| cluster.workload(*id).refused.is_some();
    let as_a_whole = |id| of_workload(cluster, namespace, id, now);
    let by_its_pods = || first_pod(cluster, namespace, &|pod| is_of_job(pod, name));
    let refused = job.filter(is_refused).map(as_a_whole);
    let of_pods = refused.or_else(|| by_its_pods().map(|id| of_pod(cluster, namespace, id, now)));
    // A Job that asks for its cards in advance is known before it has pods, and after they are gone.
    of_pods.or_else(|| job.filter(|id| cluster.workload(*id).terms.is_some()).map(as_a_whole))
}

/// Says where a pod is, and if it waits, why.
fn of_pod(cluster: &Cluster, namespace: &str, id: PodId, now: Timestamp) -> CardReviewStatus {
    let Some(pod) = cluster.pod(id) else {
        return CardReviewStatus::default();
    };
    let queue = pod.queue.map(|queue| cluster.queue(queue).name.to_string());
    let queue = queue.filter(|name| !name.is_empty());
    let let_in = |message: &str| CardReviewStatus {
        admitted: true,
        message: format!("pod {} {message}", pod.name),
        queue: queue.clone(),
        ..CardReviewStatus::default()
    };
    let waits = match (&pod.stage, &pod.waits) {
        (Stage::Bound, _) => return let_in("is let in and has its node"),
        (Stage::Unbound { .. }, _) if pod.queue.is_none() => {
            return let_in("names neither queue nor card: Cardgate does not hold it");
        }
        (Stage::Unbound { .. }, _) if pod.charge.is_none() && cluster.is_let_in_by_nobody(pod) => {
            return let_in("is held by nobody, and waits for its scheduler: it is charged once it has a node");
        }
        (Stage::Unbound { .. }, _) => return let_in("is let in, and waits for the scheduler to choose its node"),
        (Stage::Admitting { .. }, _) => return let_in("is being let in at this moment"),
        (Stage::Blocked, _) => return blocked(cluster, id, pod, queue),
        (Stage::Waiting, None) => return let_in("is held by nobody"),
        (Stage::Waiting, Some(waits)) => waits,
    };
    let shape = &*waits.shape;
    let first = refused_for(cluster, Subject::Pod(id));
    let aside = waits.aside_until.filter(|until| *until > now);
    let aside_reason = aside.and_then(|_| waits.aside_reason());
    let place = (Reverse(shape.priority), waits.place);
    let found = of_shape(cluster, shape, Some(id), aside_reason.or(first));
    let mut status = CardReviewStatus {
        queue,
        blocks: blocks(&found, namespace),
        estimate: match aside {
            Some(until) => Some(stands_aside(until, now)),
            None => estimate(cluster, &found, &before(cluster, shape, place), now),
        },
        ..CardReviewStatus::default()
    };
    summed_up(&mut status, &format!("pod {}", pod.name));
    line_up(cluster, namespace, shape.queue, place, &mut status);
    status
}

fn stands_aside(until: Timestamp, now: Timestamp) -> Estimate {
    Estimate {
        seconds: until.duration_since(now).as_secs(),
        basis: "at the earliest: it stands aside until then, and is looked at again".to_owned(),
    }
}

/// What is said of a pod with Cardgate's gate where Cardgate leaves pods alone. Anywhere else Cardgate takes the gate off.
const OWN_GATE: &str = "it was created with the scheduling gate card.volcano.sh/quota, where Cardgate leaves pods alone: nobody takes the gate off";

fn blocked(cluster: &Cluster, id: PodId, pod: &Pod, queue: Option<String>) -> CardReviewStatus {
    let mut status = CardReviewStatus {
        queue,
        ..CardReviewStatus::default()
    };
    if let Some(why) = explain(cluster, Subject::Pod(id)) {
        status.blocks.push(why.block(&pod.namespace));
        summed_up(&mut status, &format!("pod {}", pod.name));
    } else if pod.deleted.is_none() {
        let (why, lets_in) = match pod.other_gates.as_deref() {
            Some(gates) => {
                let remedy = Reason::HeldByAnotherGate.remedy(Outlook::NotYet, true);
                (Cow::Owned(held_elsewhere(gates)), remedy)
            }
            None => (Cow::Borrowed(OWN_GATE), "create it anew without the gate"),
        };
        status.message = format!("pod {}: {why}", pod.name);
        lets_in.clone_into(&mut status.lets_in);
    } else {
        status.message = format!("pod {} is being deleted", pod.name);
        "create it anew, if it is to run".clone_into(&mut status.lets_in);
    }
    status
}

fn of_workload(cluster: &Cluster, namespace: &str, id: WorkloadId, now: Timestamp) -> CardReviewStatus {
    let workload = cluster.workload(id);
    let who = format!("{} {}", workload.kind.as_str(), workload.name);
    let queue = workload
        .terms
        .as_ref()
        .map(|terms| cluster.queue(terms.queue).name.to_string());
    if let Some(why) = explain(cluster, Subject::Workload(id)) {
        let first = why.reason;
        let mut found = vec![why];
        if let Some(shape) = shape_refused_for(cluster, workload, None, first) {
            found.extend(of_shape_besides(cluster, shape, None, Some(first)));
        }
        let mut status = CardReviewStatus {
            queue,
            blocks: blocks(&found, namespace),
            ..CardReviewStatus::default()
        };
        status.estimate = match workload.aside_until().filter(|until| *until > now) {
            Some(until) => Some(stands_aside(until, now)),
            None => before_workload(cluster, id).and_then(|before| estimate(cluster, &found, &before, now)),
        };
        summed_up(&mut status, &who);
        line_up_workload(cluster, namespace, id, &mut status);
        return status;
    }
    if let Some((_, place)) = workload.line.first() {
        return of_pod(cluster, namespace, place.pod, now);
    }
    let message = if workload.admitted() > 0 || workload.is_enqueued() {
        let admitted = workload.admitted();
        format!(
            "{who} is let in: {admitted} of its pods {} quota",
            verb(admitted == 1, "holds", "hold")
        )
    } else if workload.terms.as_ref().is_some_and(|terms| terms.said == Said::Over) {
        let over = match workload.kind {
            WorkloadKind::Job => "has ended, is being deleted, or was suspended by somebody else than Cardgate",
            WorkloadKind::PodGroup => "is completed, or is being deleted",
        };
        format!("{who} {over}: Cardgate does not hold it")
    } else {
        format!("{who} has no pods yet, and waits for nothing")
    };
    CardReviewStatus {
        admitted: true,
        message,
        queue,
        ..CardReviewStatus::default()
    }
}

/// Returns a verb in the singular or the plural.
fn verb(is_one: bool, one: &'static str, several: &'static str) -> &'static str {
    if is_one { one } else { several }
}

fn of_queue(cluster: &Cluster, namespace: &str, id: QueueId) -> CardReviewStatus {
    let queue = cluster.queue(id);
    let name = queue.name.to_string();
    let mut status = CardReviewStatus {
        queue: Some(name.clone()),
        ..CardReviewStatus::default()
    };
    let last = (Reverse(i32::MIN), LAST);
    line_up(cluster, namespace, id, last, &mut status);
    status.position = None;
    if let Err(reason) = check_queue_takes(cluster, id, namespace) {
        let said = super::queue::say(cluster, id, namespace, reason);
        status.blocks.push(reason.block(&said));
        summed_up(&mut status, &format!("what asks for queue {name}"));
    } else {
        status.admitted = true;
        let (holders, waiting) = (queue.holders.len(), status.waiting.unwrap_or_default());
        status.message = format!(
            "queue {name} takes pods: {holders} {} quota, {waiting} {}",
            verb(holders == 1, "holds", "hold"),
            verb(waiting == 1, "waits", "wait")
        );
    }
    status
}
