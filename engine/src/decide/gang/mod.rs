//! Gangs: the first `minMember` pods of a group are let in together, or none of them is.
//!
//! The pods are let in one by one in the ledger, so that each is judged beside those before it. They are taken back where not all
//! of them can be let in. First each pod gets what it would get alone; only where that does not suffice, other cards and other
//! nodes are tried.

mod alike;
mod joined;
mod search;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub(super) use self::alike::Refusals;
use self::alike::{Likeness, Refusal};
pub(crate) use self::joined::{Hindrance, check_alone, check_group};
use self::search::{Found, WaySearch};
pub(crate) use self::search::{MOST_TRIES, STEPS_OF_QUOTA};
pub(super) use self::unfinished::complete;
use super::effort::{Effort, Payer};
use super::line::{InLine, chosen, could_ever_fit, line};
use super::verdict::{self, refusal};
use super::{Admission, Grant, admission, count_in, enqueue};
use crate::cluster::waiting::{Refused, Shape};
use crate::cluster::workload::Step;
use crate::cluster::{Bookmark, Cluster};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::lacking::{Lacking, Places};
use crate::reason::{About, Reason};

/// The number of steps that each waiting pod of a gang costs in a turn, whatever it asks for: they are gone through, one by one.
const STEPS_OF_MEMBER: usize = 32;
/// The number of steps that it costs to have the pods of one shape remember why their gang is refused.
const STEPS_OF_SHAPE: usize = 128;

/// Returns the gang that pods of this shape are let in with, where there is one: then a turn of the shape is a turn of the gang.
pub(super) fn judged_as_one(cluster: &Cluster, shape: &Shape) -> Option<WorkloadId> {
    let id = shape.group.filter(|_| !cluster.groups_are_absent())?;
    let group = cluster.workload(id);
    let is_readable = group.terms.as_ref().is_some_and(|terms| terms.problem.is_none());
    (is_readable && group.missing() > 0).then_some(id)
}

/// Lets in the missing pods of a group whose turn it is. Also returns what that has cost.
pub(super) fn admit_together(
    cluster: &mut Cluster,
    id: WorkloadId,
    refusals: &mut Refusals,
) -> (Vec<Admission>, Effort) {
    let effort = Effort::of_gang();
    (admit(cluster, id, refusals, &effort), effort)
}

/// Returns who pays for what a group costs: the queues in which its pods wait, and its own queue, as far as they take anything
/// from its namespace. A group does not spend the turn of a queue that is for others.
fn payers(cluster: &Cluster, id: WorkloadId) -> BTreeSet<Payer> {
    let workload = cluster.workload(id);
    let of_pods = line(cluster, id).into_iter().map(|(_, shape)| shape.queue);
    let queues = of_pods.chain(workload.terms.as_ref().map(|terms| terms.queue));
    let takes = |queue: &QueueId| {
        cluster.queue(*queue).is_nameless() || verdict::check_queue_takes(cluster, *queue, &workload.namespace).is_ok()
    };
    let payers: BTreeSet<_> = queues.filter(takes).map(Some).collect();
    if payers.is_empty() { [None].into() } else { payers }
}

/// Lets in all missing pods of a group and returns the admissions; or lets in none, and all its waiting pods remember why.
fn admit(cluster: &mut Cluster, id: WorkloadId, refusals: &mut Refusals, effort: &Effort) -> Vec<Admission> {
    match judge(cluster, id, refusals, effort) {
        Ok(admissions) => {
            cluster.refuse_workload(id, None);
            admissions
        }
        Err((step, cause)) => {
            // While the group itself stands in line, it remembers already why it is not let in.
            let is_in_line = enqueue::is_in_line(cluster, id);
            let mut known = HashSet::new();
            let shapes = line(cluster, id).into_iter().map(|(_, shape)| shape);
            let shapes = shapes.filter(|shape| known.insert(Arc::clone(shape)));
            for (index, shape) in shapes.enumerate() {
                effort.count_beside(STEPS_OF_SHAPE);
                let shape = &shape;
                let refused = Refused {
                    nodes_matter: cause.nodes_matter,
                    searched: if index == cause.kind { cause.searched } else { 0 },
                    none_would_do: index == cause.kind && cause.none_would_do,
                    ..refusal(cluster, shape, cause.reason)
                };
                let refused = refused.with_levels(cluster, shape.queue, cause.levels);
                cluster.remember_refusal(shape, refused);
                if !is_in_line {
                    cluster.refuse_workload(id, Some((step, refused)));
                }
            }
            Vec::new()
        }
    }
}

/// Whether a group that is partly let in was refused, and is refused still. False while anything is set aside for any pod: then
/// what was found in the turn of another shape of the group says nothing here.
fn rests(cluster: &Cluster, id: WorkloadId) -> bool {
    !cluster.sets_aside() && line(cluster, id).iter().all(|(_, shape)| stands(cluster, id, shape))
}

/// Whether the last refusal of pods of this shape, which belong to this group, still stands.
fn stands(cluster: &Cluster, id: WorkloadId, shape: &Shape) -> bool {
    let peers = cluster.queue(shape.queue).waiting.peers_of(shape);
    let refused = peers.and_then(|(_, peers)| peers.refused);
    refused.is_some_and(|refused| verdict::stands(cluster, shape.queue, Some(id), refused))
}

/// Why a gang was refused.
#[derive(Debug, Clone, Copy)]
struct Cause {
    reason: Reason,
    nodes_matter: bool,
    /// How many levels, from the queue upwards, the refusal depends on.
    levels: usize,
    /// Which of the gang's shapes, in order of appearance, was searched for in vain on every node while no pod of the gang was on
    /// any node.
    kind: usize,
    searched: u64,
    /// Whether none of those nodes would do, whatever came free there.
    none_would_do: bool,
}

impl Cause {
    fn of(reason: Reason) -> Self {
        Self {
            reason,
            nodes_matter: reason.is_woken_by_nodes(),
            levels: 1,
            kind: 0,
            searched: 0,
            none_would_do: false,
        }
    }

    /// Adds what keeps other pods out. Where the queue can't take the pods that come first, others of the gang may get in in
    /// their place, so what keeps these out matters too. If the only reason is that the queue can't take them as a whole either,
    /// it is not known which nodes would let in others of the gang that the queue could take, so every node matters.
    fn beside(self, others: Option<Self>) -> Self {
        Self {
            nodes_matter: others.is_none_or(|others| others.nodes_matter),
            levels: self.levels.max(others.map_or(1, |others| others.levels)),
            ..self
        }
    }

    /// Returns the cause where its queue, or one above it, can't take the gang as a whole.
    fn as_a_whole(refused: Refused) -> (Step, Self) {
        let (levels, nodes_matter) = (refused.levels, refused.nodes_matter);
        let cause = Self {
            nodes_matter,
            levels,
            ..Self::of(refused.reason)
        };
        (Step::Enqueue, cause)
    }
}

fn judge(
    cluster: &mut Cluster,
    id: WorkloadId,
    refusals: &mut Refusals,
    effort: &Effort,
) -> Result<Vec<Admission>, (Step, Cause)> {
    let line = line(cluster, id);
    let lacking = cluster.workload(id).lacking();
    if line.is_empty() {
        return Ok(Vec::new());
    }
    // What its pods say about nodes is compared and remembered, pod by pod.
    for (_, shape) in &line {
        effort.count_beside(STEPS_OF_MEMBER);
        effort.look_at_node(shape);
    }
    enqueue::enqueue_if_in_line(cluster, id, effort).map_err(Cause::as_a_whole)?;
    if chosen(lacking.clone(), &line).len() < lacking.count() {
        return Err((Step::Together, Cause::of(Reason::PodGroupIncomplete)));
    }
    let likeness = Likeness::of(cluster, id, lacking, &line);
    let refusal = if let Some(known) = refusals.of(cluster, &likeness) {
        known
    } else {
        refusals.judged += 1;
        let (step, cause) = match judge_pods(cluster, id, &line, effort) {
            Ok(admissions) => return Ok(admissions),
            Err(refusal) => refusal,
        };
        let never_fits = step != Step::Enqueue && !could_ever_fit(cluster, id, effort);
        let refusal = Refusal {
            step,
            cause,
            never_fits,
        };
        refusals.remember(cluster, likeness, refusal);
        refusal
    };
    if refusal.never_fits {
        refusals.gave_back |= cluster.workload(id).is_enqueued();
        cluster.dequeue_in_vain(id);
    }
    Err((refusal.step, refusal.cause))
}

/// Judges the pods that are there: as many as are missing are let in, or none.
fn judge_pods(
    cluster: &mut Cluster,
    id: WorkloadId,
    line: &[InLine],
    effort: &Effort,
) -> Result<Vec<Admission>, (Step, Cause)> {
    let lacking = cluster.workload(id).lacking();
    check_requests(cluster, &lacking, line)?;
    let first: Vec<_> = chosen(lacking.clone(), line).into_iter().map(|(pod, _)| *pod).collect();
    let whole = enqueue::check_pods_together(cluster, id, &first, effort);
    let whole = whole.map_err(Cause::as_a_whole);
    if line.len() == first.len() {
        // What only a change of a pod helps is told before what others may give back.
        let mut in_vain = line
            .iter()
            .filter_map(|(_, shape)| verdict::why_not_charged(cluster, shape));
        if let Some(reason) = in_vain.find(|reason| reason.about() == About::Request) {
            return Err((Step::Together, Cause::of(reason)));
        }
        whole?;
    }
    let bookmark = cluster.bookmark(line.iter().map(|(pod, _)| *pod));
    let mut gang = Gang {
        cluster,
        places: lacking.places(),
        admitted: BTreeMap::new(),
        effort: effort.clone(),
    };
    let alone = gang.each_as_if_alone(line);
    let admitted: Vec<_> = gang.admitted.keys().copied().collect();
    let of_first: HashSet<_> = first.into_iter().collect();
    let are_first = whole.is_ok() && admitted.iter().all(|pod| of_first.contains(pod));
    if alone.is_ok() && (are_first || gang.is_accepted(id, &bookmark)) {
        return Ok(gang.admissions(line));
    }
    gang.take_back(&admitted, &bookmark);
    let choices = line
        .iter()
        .any(|(_, shape)| *shape != line[0].1 || shape.task.alternatives.len() > 1);
    let mut step = Step::Together;
    if effort.is_spent() {
        step = Step::GivenUp;
    } else if choices {
        match WaySearch::new(&mut gang, id, line, &bookmark).run(&of_first, whole.is_ok()) {
            Found::Way => return Ok(gang.admissions(line)),
            Found::GivenUp => step = Step::GivenUp,
            Found::NoWay => {}
        }
        let admitted: Vec<_> = gang.admitted.keys().copied().collect();
        gang.take_back(&admitted, &bookmark);
    }
    if let Err((step, whole)) = whole {
        return Err((step, whole.beside(alone.err())));
    }
    // Some pods could get in together, but not as a whole: the queue has too little.
    let cause = alone.err().unwrap_or(Cause::of(Reason::InsufficientScalarQuota));
    Err((step, cause))
}

/// Whether only a change of the pod, or of what its queue takes, helps.
fn is_in_vain(reason: Reason) -> bool {
    matches!(reason.about(), About::Request | About::Queue)
}

/// Refuses a gang that can't do without pods that wait in vain. This is told before what others may give back, which would not help the
/// gang.
fn check_requests(cluster: &Cluster, lacking: &Lacking, line: &[InLine]) -> Result<(), (Step, Cause)> {
    let judge = |shape: &Shape| {
        let takes = || verdict::check_queue_takes(cluster, shape.queue, &shape.namespace);
        let is_asked = !cluster.queue(shape.queue).is_nameless();
        let refused = is_asked.then(takes).and_then(Result::err);
        refused
            .or_else(|| verdict::why_not_charged(cluster, shape))
            .filter(|reason| is_in_vain(*reason))
    };
    // Pods of one shape share it.
    let mut known = HashMap::new();
    let mut why_not = |(_, shape): &InLine| *known.entry(Arc::as_ptr(shape)).or_insert_with(|| judge(shape));
    let Some(reason) = line.iter().find_map(&mut why_not) else {
        return Ok(());
    };
    let able: Vec<_> = line.iter().filter(|pod| why_not(pod).is_none()).cloned().collect();
    if chosen(lacking.clone(), &able).len() < lacking.count() {
        Err((Step::Together, Cause::of(reason)))
    } else {
        Ok(())
    }
}

/// A gang that is being let in.
struct Gang<'c> {
    cluster: &'c mut Cluster,
    /// The places of the missing pods, without those of `admitted`.
    places: Places,
    admitted: BTreeMap<PodId, (Grant, Admission)>,
    effort: Effort,
}

impl Gang<'_> {
    /// Returns the admissions, in the order of the line.
    fn admissions(mut self, line: &[InLine]) -> Vec<Admission> {
        let admitted = line.iter().filter_map(|(pod, _)| self.admitted.remove(pod));
        admitted.map(|(_, admission)| admission).collect()
    }

    fn is_complete(&self) -> bool {
        self.places.are_taken()
    }

    fn task_of(&self, pod: PodId) -> Option<Arc<str>> {
        self.cluster.pod(pod)?.task_spec.clone()
    }

    fn admit(&mut self, pod: PodId, grant: Grant) {
        if let Some(admission) = admission(self.cluster, pod, &grant, &self.effort) {
            self.places.take(self.task_of(pod).as_deref());
            self.admitted.insert(pod, (grant.clone(), admission));
            count_in(self.cluster, pod, grant);
        }
    }

    /// Whether the queues take the pods that are in as a whole.
    fn is_accepted(&mut self, id: WorkloadId, bookmark: &Bookmark) -> bool {
        let admitted = std::mem::take(&mut self.admitted);
        let pods: Vec<_> = admitted.keys().copied().collect();
        self.cluster.take_back(&pods, bookmark);
        let accepted = enqueue::check_pods_together(self.cluster, id, &pods, &self.effort).is_ok();
        for (pod, (grant, _)) in &admitted {
            count_in(self.cluster, *pod, grant.clone());
        }
        self.admitted = admitted;
        accepted
    }

    fn take_back(&mut self, pods: &[PodId], bookmark: &Bookmark) {
        for pod in pods {
            if self.admitted.remove(pod).is_some() {
                self.places.give_back(self.task_of(*pod).as_deref());
            }
        }
        self.cluster.take_back(pods, bookmark);
    }

    /// Gives each pod what it would get alone beside those before it. A pod that gets nothing is passed over.
    fn each_as_if_alone(&mut self, line: &[InLine]) -> Result<(), Cause> {
        let mut refused: Vec<Refused> = Vec::new();
        let mut known = HashSet::new();
        let mut cause = Cause::of(Reason::NoNodeFits);
        for (index, (pod, shape)) in line.iter().enumerate() {
            if self.is_complete() {
                return Ok(());
            }
            if self.effort.is_spent() {
                break;
            }
            if known.contains(shape) || self.places.free_for(shape.task_spec.as_deref()) == 0 {
                continue;
            }
            let queue = &self.cluster.queue(shape.queue).waiting;
            let earlier = queue
                .peers_of(shape)
                .and_then(|(_, peers)| peers.refused)
                .filter(|_| index == 0);
            match verdict::judge(self.cluster, shape, earlier, &self.effort) {
                Ok(grant) => self.admit(*pod, grant),
                Err(refusal) => {
                    if index == 0 {
                        cause.searched = refusal.searched;
                        cause.none_would_do = refusal.none_would_do;
                    }
                    known.insert(shape);
                    refused.push(refusal);
                }
            }
        }
        if self.is_complete() {
            return Ok(());
        }
        // What only a change of a pod helps is told before what others may give back.
        let in_vain = refused.iter().find(|refused| refused.reason.about() == About::Request);
        cause.reason = in_vain
            .or(refused.first())
            .map_or(cause.reason, |refused| refused.reason);
        cause.nodes_matter = refused.iter().any(|refused| refused.nodes_matter);
        cause.levels = refused.iter().map(|refused| refused.levels).max().unwrap_or(1);
        Err(cause)
    }
}
