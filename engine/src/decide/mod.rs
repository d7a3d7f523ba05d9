//! What may be done now: one round of decisions over the cluster.
//!
//! A round is a pure function of the cluster, its configuration and time: the same input gives the same actions, so the
//! simulator, the property tests and the live operator run the same code.

pub(crate) mod census;
mod choice;
mod contest;
pub(crate) mod cross_quota;
pub(crate) mod effort;
pub(crate) mod enqueue;
pub mod extender;
pub(crate) mod fit;
pub(crate) mod gang;
mod grant;
pub(crate) mod line;
pub(crate) mod mgpu;
mod narrow;
pub mod node_order;
pub(crate) mod obstacles;
mod reclaim;
pub(crate) mod verdict;

use std::rc::Rc;
use std::sync::Arc;

use crds::configuration::{AdmitOn, format_duration};
use jiff::Timestamp;

use crate::alternative::Alternative;
use crate::cluster::deadlines::Cause;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Said;
use crate::cluster::{Cluster, Due};
use crate::happening::Happening;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::{Cure, Reason};
use crate::refs::{PodRef, WorkloadKind, WorkloadRef};
use crate::trail::{Trail, Work};
use contest::{Contest, Turn};
use effort::{Effort, Spending};
pub use grant::{Admission, Avoid, Pin};
use grant::{Grant, admission, count_in};
pub use reclaim::{Eviction, Victim};

/// What is said of a pod that is sent back, for whatever reason.
pub const SENT_BACK: &str = "it is evicted";

/// A Job that is let into its queue: its pods may be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumption {
    /// The Job that is resumed.
    pub job: WorkloadRef,
    /// The queue that keeps room for it.
    pub queue: Arc<str>,
}

/// One thing that is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Let a pod in.
    Admit(Admission),
    /// Resume a Job that Cardgate suspended.
    Resume(Resumption),
    /// Evict an admitted pod that the scheduler could not place, so that its controller makes another; or an admitted pod that
    /// has more than it was let in for.
    SendBack {
        /// The pod that is evicted.
        pod: PodRef,
        /// The event's reason.
        reason: Happening,
        /// For the event: how much time the pod had.
        message: String,
    },
    /// Evict pods for a waiting pod: all of them or none.
    Evict(Eviction),
    /// Say that an admitted pod without a controller could not be placed and keeps its place.
    Unplaced {
        /// The pod that its event is about.
        pod: PodRef,
        /// The message of the event.
        message: String,
    },
}

/// What one round has decided.
#[derive(Debug, Default)]
pub struct Round {
    /// What is to be done, in this order.
    pub actions: Vec<Action>,
    /// Whether there is more to decide at once.
    pub more: bool,
    /// How many gangs were judged by themselves: gangs that wait alike share a verdict.
    pub gangs_judged: usize,
    /// How many queues were looked at for what other queues are to give back.
    pub looks: usize,
    /// How many steps the searches took: looks at nodes and cards, the same on every machine.
    pub steps: u64,
}

impl Round {
    fn add(&mut self, looked: reclaim::Looked) {
        self.actions.extend(looked.evictions.into_iter().map(Action::Evict));
        self.looks = looked.queues;
        self.steps += looked.steps;
    }

    /// Returns the unique ids of the pods that are let in.
    fn let_in(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| match action {
            Action::Admit(admission) => Some(&*admission.pod.uid),
            Action::Resume(_) | Action::SendBack { .. } | Action::Evict(_) | Action::Unplaced { .. } => None,
        })
    }
}

/// Decides what may be done now. Lets in at most `limit` pods, more only where a gang would be cut in two otherwise. Pods that
/// are let in count as such from here on.
pub fn decide(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Round {
    decide_watched(cluster, now, limit, &())
}

/// Does the same as [`decide`], and tells `trail` what is being judged.
pub fn decide_watched(cluster: &mut Cluster, now: Timestamp, limit: usize, trail: &dyn Trail) -> Round {
    debug_assert!(
        cluster.is_all_read(),
        "pods have to be read anew before anything is decided"
    );
    let mut round = Round {
        actions: sent_back(cluster, now),
        ..Round::default()
    };
    cluster.forget_unused_names_in_time();
    cluster.forget_kept_away();
    let mut postponed = enqueue::review(cluster, &mut round, trail);
    let mut aside = reclaim::Aside::begin(cluster, now);
    let mut refusals = gang::Refusals::default();
    // Gangs that are let in partly go first, before anything else gets what they need.
    let (admissions, steps) = gang::complete(cluster, &mut refusals, &mut aside, trail);
    round.actions.extend(admissions.into_iter().map(Action::Admit));
    round.steps += steps;
    let mut spending = Spending::default();
    let is_rest_checked = cluster.take_rest_check(now);
    let mut contest = Contest::new(cluster, is_rest_checked);
    while let Some((queue, turn)) = contest.next(cluster) {
        if round.actions.len() >= limit {
            round.more = true;
            break;
        }
        let is_over = match turn {
            Turn::Workload(id) => spending.is_over_for(&cluster.workload(id).namespace, &[Some(queue)].into()),
            Turn::Pods(_) => spending.is_over(Some(queue)),
        };
        match turn {
            _ if is_over => {
                postponed = true;
                contest.done();
            }
            Turn::Workload(id) => {
                trail_workload(cluster, id, trail);
                let effort = Effort::of_gang();
                aside.open_for_group(cluster, id);
                let enqueued = enqueue::enqueue(cluster, id, &effort);
                aside.close(cluster, &effort);
                if enqueued.is_ok() {
                    round.actions.extend(resumption(cluster, id));
                    round.more |= enqueue::pods_wait_elsewhere(cluster, id);
                }
                spending.add(&cluster.workload(id).namespace, &[Some(queue)].into(), &effort);
                round.steps += effort.spent();
                contest.done();
            }
            Turn::Pods(peers) => {
                let peers = cluster.queue(queue).waiting.get(peers);
                let Some((shape, first)) = peers.map(|peers| (Arc::clone(&peers.shape), peers.pods.first().copied()))
                else {
                    contest.done();
                    continue;
                };
                let gang = gang::judged_as_one(cluster, &shape);
                let payers = gang.map_or_else(
                    || Some(Rc::new([Some(queue)].into())),
                    |gang| refusals.turn(cluster, gang),
                );
                let payers = payers.as_deref();
                let is_over = payers.is_some_and(|payers| spending.is_over_for(&shape.namespace, payers));
                let is_later = is_over || refusals.is_to_be_read(cluster, gang, first.map(|place| place.pod));
                postponed |= is_later;
                let Some(payers) = payers.filter(|_| !is_later) else {
                    contest.done();
                    continue;
                };
                trail_pod(cluster, first.map(|place| place.pod), queue, trail);
                aside.open_for(cluster, &shape, gang);
                let (admissions, effort) = match gang {
                    Some(gang) => gang::admit_together(cluster, gang, &mut refusals),
                    None => admit(cluster, &shape),
                };
                aside.close(cluster, &effort);
                spending.add(&shape.namespace, payers, &effort);
                round.steps += effort.spent();
                if admissions.is_empty() {
                    contest.done();
                } else if admissions
                    .iter()
                    .all(|admission| admission.queue == cluster.queue(queue).name)
                {
                    contest.admitted(cluster, queue);
                } else {
                    contest = Contest::new(cluster, is_rest_checked);
                }
                round.actions.extend(admissions.into_iter().map(Action::Admit));
            }
        }
    }
    aside.end(cluster);
    cluster.note_let_in(round.let_in());
    cluster.measure_groups();
    round.gangs_judged = refusals.judged;
    if !round.more {
        round.add(reclaim::look(cluster, now, is_rest_checked, trail));
    }
    trail.over();
    round.more |= postponed || refusals.gave_back;
    round
}

/// Takes note of what time has brought. Returns what is to be done about admitted pods that were not placed in time, and about
/// pods that have more than they were let in for.
fn sent_back(cluster: &mut Cluster, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    for due in cluster.advance(now) {
        let Due::Reservation(pod) = due;
        actions.extend(reservation_ran_out(cluster, pod, now));
    }
    cluster.grow_tree();
    actions.extend(overdrawing(cluster, now));
    actions
}

/// Tells the trail that a pod is judged, on behalf of all pods of its shape.
fn trail_pod(cluster: &Cluster, pod: Option<PodId>, queue: QueueId, trail: &dyn Trail) {
    if let Some(pod) = pod.and_then(|pod| cluster.pod(pod)) {
        trail.at(Work {
            doing: "judging",
            object: pod.to_ref().into(),
            queue: Some(Arc::clone(&cluster.queue(queue).name)),
        });
    }
}

/// Tells the trail that a workload is judged.
fn trail_workload(cluster: &Cluster, id: WorkloadId, trail: &dyn Trail) {
    let workload = cluster.workload(id);
    if let Some(terms) = &workload.terms {
        trail.at(Work {
            doing: "judging",
            object: workload.to_ref(terms).into(),
            queue: Some(Arc::clone(&cluster.queue(terms.queue).name)),
        });
    }
}

/// Lets in the first waiting pod of a shape, or lets in none and remembers why. Also returns what that has cost.
fn admit(cluster: &mut Cluster, shape: &Arc<Shape>) -> (Vec<Admission>, Effort) {
    let group = shape.group.filter(|_| !cluster.groups_are_absent());
    let judged = match group.map(|id| &cluster.workload(id).terms) {
        Some(None) => Err(Reason::PodGroupNotFound),
        Some(Some(terms)) if terms.problem.is_some() => Err(Reason::PodGroupInvalid),
        Some(Some(_)) | None => Ok(()),
    };
    let (earlier, first) = match cluster.queue(shape.queue).waiting.peers_of(shape) {
        Some((_, peers)) => (peers.refused, peers.pods.first().map(|place| place.pod)),
        None => (None, None),
    };
    let effort = match earlier.map(|refused| refused.reason.cure()) {
        Some(Cure::Search) if shape.task.mgpu.is_some() => Effort::of_complex_pod(),
        Some(Cure::Search | Cure::Eviction | Cure::Release | Cure::Change) | None => Effort::of_pod(),
    };
    let judged = judged.map_err(|reason| verdict::refusal(cluster, shape, reason));
    let judged = judged.and_then(|()| verdict::judge(cluster, shape, earlier, &effort));
    let admissions = match (judged, first) {
        (Ok(grant), Some(pod)) => {
            let admission = admission(cluster, pod, &grant, &effort);
            count_in(cluster, pod, grant);
            admission.into_iter().collect()
        }
        (Ok(_), None) => Vec::new(),
        (Err(refused), _) => {
            cluster.remember_refusal(shape, refused);
            Vec::new()
        }
    };
    (admissions, effort)
}

/// Returns what is done for a workload that is let into its queue: a Job is resumed.
fn resumption(cluster: &Cluster, id: WorkloadId) -> Option<Action> {
    let workload = cluster.workload(id);
    let terms = workload.terms.as_ref().filter(|_| workload.kind == WorkloadKind::Job)?;
    // A Job that runs already is not resumed: only what is kept for it is judged.
    if terms.said != Said::Waiting {
        return None;
    }
    Some(Action::Resume(Resumption {
        job: workload.to_ref(terms),
        queue: Arc::clone(&cluster.queue(terms.queue).name),
    }))
}

/// Evicts admitted pods whose claims have become larger than what they were let in for, where their queue has no quota for that.
fn overdrawing(cluster: &mut Cluster, now: Timestamp) -> Vec<Action> {
    let overdrawing = cluster.overdrawing(now);
    // Nobody has changed anything: a successor would be let in for as little, and be given as much.
    for given in overdrawing.iter().filter(|overdrawing| overdrawing.by_scheduler) {
        let pod = cluster.pod(given.pod);
        if let Some((controller, returns)) = pod.and_then(|pod| Some((pod.controller.clone()?, pod.returns))) {
            cluster.note_return(&controller, returns, Cause::GivenBeyond, now);
        }
    }
    let sent_back = overdrawing.into_iter().filter_map(|overdrawing| {
        let pod = cluster.pod(overdrawing.pod)?;
        let names = cluster.names();
        let said = |alternative: Option<&Alternative>| alternative.map_or_else(|| "no cards".to_owned(), |own| own.said(names));
        let charged = pod.charge.as_ref()?.alternative.as_ref();
        let (let_in, has) = (said(overdrawing.let_in.as_ref()), said(charged));
        let queue = &cluster.queue(pod.queue?).name;
        let message = if overdrawing.by_scheduler {
            format!(
                "let in for {let_in}, and the scheduler claimed {has} for it, which queue {queue} has no quota for: {SENT_BACK}; some \
                 schedulers claim devices of their own for each init container: request cards in the other containers alone"
            )
        } else {
            format!(
                "let in for {let_in}, and its resource claims are others now, for {has}, which queue {queue} has no quota for: \
                 {SENT_BACK}; leave claims as they are while their pods wait to be scheduled"
            )
        };
        Some(Action::SendBack {
            pod: pod.to_ref(),
            reason: Happening::ResourceClaimChanged,
            message,
        })
    });
    sent_back.collect()
}

fn reservation_ran_out(cluster: &mut Cluster, id: PodId, now: Timestamp) -> Option<Action> {
    let timeout = cluster.configuration().cardgate.reservation_timeout;
    let pod = cluster.pod(id)?;
    let (pod_ref, controller, returns) = (pod.to_ref(), pod.controller.clone(), pod.returns);
    let lost = cluster.lost_node(pod);
    let is_lost = lost.is_some();
    // No node is asked for an autoscaler, nor for pods that only `CrossQuota` held and that ask for devices.
    let is_left_alone = || pod.task.asks_for_devices() && pod.queue.is_none_or(|id| cluster.queue(id).is_nameless());
    let asks_nodes = cluster.configuration().cardgate.admit_on == AdmitOn::Fit && !is_left_alone();
    let waited = match lost {
        Some(node) => format!("node {}, which alone the pod was let in for, was removed", node.name),
        None => format!(
            "the scheduler has not placed the pod within {} of its admission",
            format_duration(timeout)
        ),
    };
    // The pod is looked at again after either outcome: an eviction can be refused.
    cluster.renew_reservation(id, controller.is_none() || is_lost, now);
    Some(if let Some(controller) = controller {
        // That a node was removed says nothing about what the scheduler makes of the successor. But where no node is asked for that, it
        // could be let in for the same one, and be sent back at once, again and again.
        let message = if is_lost && asks_nodes {
            format!("{waited}: {SENT_BACK}")
        } else {
            cluster.note_return(&controller, returns, Cause::Unplaced, now);
            format!("{waited}: {SENT_BACK}, and its successor waits behind the others of its priority")
        };
        let reason = Happening::ReservationTimeout;
        Action::SendBack {
            pod: pod_ref,
            reason,
            message,
        }
    } else {
        let message = format!(
            "{waited}: no controller would replace it, so it keeps its quota; delete it, or make room on a node that it \
             may run on"
        );
        Action::Unplaced { pod: pod_ref, message }
    })
}
