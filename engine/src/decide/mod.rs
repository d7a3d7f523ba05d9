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
mod returns;
mod spread;
pub(crate) mod verdict;

use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Said;
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

/// Decides what may be done now. Lets nobody else in once the round has `limit` actions; but what time has brought, and the rest of gangs
/// that are let in partly, comes first whatever the limit, and no gang is cut in two for it. Pods that are let in count as such from here on.
pub fn decide(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Round {
    decide_watched(cluster, now, limit, &())
}

/// Does the same as [`decide`], and tells `trail` what is being judged.
pub fn decide_watched(cluster: &mut Cluster, now: Timestamp, limit: usize, trail: &dyn Trail) -> Round {
    debug_assert!(
        cluster.is_ready_to_decide(),
        "`read_again` has to be called before anything is decided"
    );
    let mut round = Round {
        actions: returns::advance(cluster, now),
        ..Round::default()
    };
    cluster.forget_unused_names_in_time();
    cluster.forget_kept_away();
    let postponed = enqueue::review(cluster, &mut round, trail);
    let mut judging = Judging {
        aside: reclaim::Aside::begin(cluster, now),
        round,
        postponed,
        spending: Spending::before_turns(),
        refusals: gang::Refusals::default(),
        spread: spread::Spread::default(),
        trail,
    };
    judging.complete_gangs(cluster);
    let is_rest_checked = cluster.take_rest_check(now);
    judging.hold_contest(cluster, limit, is_rest_checked);
    let Judging {
        mut round,
        aside,
        refusals,
        postponed,
        ..
    } = judging;
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

/// A round while pods and workloads are judged in their turn.
struct Judging<'t> {
    /// What was decided so far.
    round: Round,
    /// What the judgements have cost, by namespace and queue.
    spending: Spending,
    /// What is set aside for pods that others were evicted for.
    aside: reclaim::Aside,
    /// What gangs were refused for in this round.
    refusals: gang::Refusals,
    /// Which labels those get that are let in without a node.
    spread: spread::Spread,
    /// Whether somebody was put off to the next round.
    postponed: bool,
    /// Told what is being judged.
    trail: &'t dyn Trail,
}

/// How a contest goes on after a turn.
enum After {
    /// Who had its turn is done.
    Done,
    /// Pods of this queue alone were let in, and others of its line may follow.
    Admitted(QueueId),
    /// Pods of other queues were let in too: the queues are ranked anew.
    AdmittedElsewhere,
}

impl Judging<'_> {
    /// Lets in what is missing of gangs that are let in partly, before anybody else gets what they need. What that costs is no part
    /// of the turn that their queues have then, and takes no more than half of the steps of their namespace: while anything is set
    /// aside, these gangs are judged in each round, and others would never have a turn.
    fn complete_gangs(&mut self, cluster: &mut Cluster) {
        let (spending, aside) = (&mut self.spending, &mut self.aside);
        let (mut admissions, steps) = gang::complete(cluster, &mut self.refusals, spending, aside, self.trail);
        spending.begin_turns();
        let effort = Effort::of_gang();
        self.spread.narrow(cluster, &mut admissions, &effort);
        self.round.actions.extend(admissions.into_iter().map(Action::Admit));
        self.round.steps += steps + effort.spent();
    }

    /// Gives queues their turns, until nobody is left or the round has `limit` actions.
    fn hold_contest(&mut self, cluster: &mut Cluster, limit: usize, is_rest_checked: bool) {
        let mut contest = Contest::new(cluster, is_rest_checked);
        while let Some((queue, turn)) = contest.next(cluster) {
            if self.round.actions.len() >= limit {
                self.round.more = true;
                return;
            }
            let after = match turn {
                Turn::Workload(id) => self.judge_workload(cluster, queue, id),
                Turn::Pods(peers) => self.judge_pods(cluster, queue, peers),
            };
            match after {
                After::Done => contest.done(),
                After::Admitted(queue) => contest.admitted(cluster, queue),
                After::AdmittedElsewhere => contest = Contest::new(cluster, is_rest_checked),
            }
        }
    }

    /// Judges a workload that is let in as a whole.
    fn judge_workload(&mut self, cluster: &mut Cluster, queue: QueueId, id: WorkloadId) -> After {
        let payers = [Some(queue)].into();
        if self.spending.is_over_for(&cluster.workload(id).namespace, &payers) {
            self.postponed = true;
            return After::Done;
        }
        trail_workload(cluster, id, self.trail);
        let effort = Effort::of_gang();
        self.aside.open_for_group(cluster, id);
        let enqueued = enqueue::enqueue(cluster, id, &effort);
        self.aside.close(cluster, &effort);
        if enqueued.is_ok() {
            self.round.actions.extend(resumption(cluster, id));
            self.round.more |= enqueue::pods_wait_elsewhere(cluster, id);
        }
        self.spending.add(&cluster.workload(id).namespace, &payers, &effort);
        self.round.steps += effort.spent();
        After::Done
    }

    /// Judges the first of pods that wait alike, or the gang that they are part of.
    fn judge_pods(&mut self, cluster: &mut Cluster, queue: QueueId, peers: u64) -> After {
        if self.spending.is_over(Some(queue)) {
            self.postponed = true;
            return After::Done;
        }
        let peers = cluster.queue(queue).waiting.get(peers);
        let Some((shape, first)) = peers.map(|peers| (Arc::clone(&peers.shape), peers.pods.first().copied())) else {
            return After::Done;
        };
        let gang = gang::judged_as_one(cluster, &shape);
        if gang.is_some_and(|gang| self.refusals.stand_for(cluster, gang, &shape)) {
            return After::Done;
        }
        let payers = gang.map_or_else(
            || Some(Rc::new([Some(queue)].into())),
            |gang| self.refusals.turn(cluster, gang),
        );
        let payers = payers.as_deref();
        let have_spent = payers.is_some_and(|payers| self.spending.is_over_for(&shape.namespace, payers));
        let first = first.map(|place| place.pod);
        let is_later = have_spent || self.refusals.is_to_be_read(cluster, gang, first);
        self.postponed |= is_later;
        let Some(payers) = payers.filter(|_| !is_later) else {
            return After::Done;
        };
        trail_pod(cluster, first, queue, self.trail);
        self.aside.open_for(cluster, &shape, gang);
        let (mut admissions, effort) = match gang {
            Some(gang) => gang::admit_together(cluster, gang, &mut self.refusals),
            None => admit(cluster, &shape),
        };
        self.aside.close(cluster, &effort);
        self.spread.narrow(cluster, &mut admissions, &effort);
        self.spending.add(&shape.namespace, payers, &effort);
        self.round.steps += effort.spent();
        let is_of_queue = |admission: &Admission| admission.queue == cluster.queue(queue).name;
        let after = if admissions.is_empty() {
            After::Done
        } else if admissions.iter().all(is_of_queue) {
            After::Admitted(queue)
        } else {
            After::AdmittedElsewhere
        };
        self.round.actions.extend(admissions.into_iter().map(Action::Admit));
        after
    }
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
