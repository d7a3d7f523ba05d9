//! Why a workload waits as a whole, and its pods with it.

use super::{pod, refusal_of_write};
use crate::cluster::Cluster;
use crate::cluster::pod::NotTaken;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::{Step, Workload, WorkloadTerms};
use crate::decide::census::Looks;
use crate::decide::enqueue::{asked_by_pods, could_ever_take, is_in_line, lack, lacks_still};
use crate::decide::line::{first_missing, line};
use crate::ids::{QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::lacking::Free;
use crate::reason::{About, Reason};
use crate::refs::WorkloadKind;
use crds::configuration::format_duration;

/// The most tasks that a message names.
const MOST_TASKS: usize = 8;

/// Whether a pod waits because its group does, and not by itself.
pub(super) fn speaks_for_its_pods(cluster: &Cluster, id: WorkloadId, reason: Reason) -> bool {
    let refused = cluster.workload(id).refused;
    reason.about() == About::Workload
        || cluster.workload(id).missing() > 0 && refused.is_some_and(|(_, refused)| refused.reason == reason)
}

/// Returns what is said of a group that does not exist.
pub(super) fn not_found(workload: &Workload) -> String {
    format!(
        "PodGroup {} does not exist in namespace {}",
        workload.name, workload.namespace
    )
}

/// Returns what is said of a workload that stands aside, because what its queue kept for it, or for another workload of its namespace, was
/// not used in time.
fn kept_in_vain(cluster: &Cluster, id: WorkloadId, terms: &WorkloadTerms) -> String {
    let workload = cluster.workload(id);
    let (kind, name, namespace) = (workload.kind.as_str(), &workload.name, &workload.namespace);
    let queue = &cluster.queue(terms.queue).name;
    let timeout = format_duration(cluster.configuration().cardgate.inqueue_timeout);
    let until = workload.aside_until().or_else(|| cluster.stands_aside_until(id));
    let until = until.map_or_else(|| "then".to_owned(), |until| until.to_string());
    if workload.was_kept_in_vain() {
        format!(
            "queue {queue} has kept what {kind} {name} asks for during {timeout} (inqueueTimeout), and none of its pods was let in: now it \
             waits again, behind the others of its priority, and until {until} nothing is kept there for any workload of \
             namespace {namespace}; make its pods sooner, or ask for less"
        )
    } else {
        format!(
            "queue {queue} keeps nothing for any workload of namespace {namespace} until {until}, so {kind} {name} waits: what it \
             kept for them was not used during {timeout} (inqueueTimeout) in all; make the pods of each sooner, or ask for less"
        )
    }
}

/// Returns what is said of a workload that waits for something it says or does itself; none where the reason is about amounts, its queue or
/// its pods.
pub(super) fn say(cluster: &Cluster, id: WorkloadId, terms: &WorkloadTerms, reason: Reason) -> Option<String> {
    let workload = cluster.workload(id);
    let name = &workload.name;
    let said = match reason {
        Reason::PodGroupNotFound => not_found(workload),
        Reason::PodGroupInvalid => format!(
            "{} {name} can't be used as it is: {}",
            workload.kind.as_str(),
            terms.problem.as_deref().unwrap_or("it can't be read")
        ),
        Reason::PodGroupIncomplete => {
            let (there, free) = those_there(cluster, id);
            incomplete(workload, &there, &free)
        }
        Reason::InqueueTimeout => kept_in_vain(cluster, id, terms),
        Reason::RefusedByApiServer => {
            let refused = workload.write_refused.as_ref();
            let (how, message) = refused.map_or((NotTaken::Refused, ""), |refused| (refused.how, &*refused.message));
            let what = format!("{} {name}", workload.kind.as_str());
            refusal_of_write(&what, how, message, workload.aside_until())
        }
        Reason::GetTaskRequestResourceFailed
        | Reason::EmptyQueueCapability
        | Reason::InsufficientCpuQuota
        | Reason::InsufficientMemoryQuota
        | Reason::InsufficientScalarQuota
        | Reason::NoCardQuota
        | Reason::CardNameMissing
        | Reason::SecondCardResource
        | Reason::ResourceClaimNotFound
        | Reason::ResourceClaimShared
        | Reason::SelectorsNotEvaluated
        | Reason::NoDeviceSelected
        | Reason::NoClaimForCard
        | Reason::TooManyAlternatives
        | Reason::ReservationTimeout
        | Reason::HeldByAnotherGate
        | Reason::QueueNotFound
        | Reason::QueueNotOpen
        | Reason::QueueInvalid
        | Reason::InnerQueue
        | Reason::NamespaceNotAllowed
        | Reason::NoNodeFits
        | Reason::NodesExcluded
        | Reason::CrossQuotaExceeded
        | Reason::InsufficientMgpu
        | Reason::NoMgpuNode
        | Reason::TooComplex => return None,
    };
    Some(said)
}

/// Returns what is said of a group with too few pods: how many there are, and which places are free beside them.
pub(super) fn incomplete(workload: &Workload, there: &str, free: &Free) -> String {
    // Only Volcano's Jobs are let in as a group.
    let (of_all, of_tasks) = match workload.kind {
        WorkloadKind::PodGroup => ("spec.minMember", "spec.minTaskMember"),
        WorkloadKind::Job => ("spec.minAvailable", "spec.tasks[].minAvailable"),
    };
    let (kind, name, least) = (workload.kind.as_str(), &workload.name, workload.min_member());
    if free.tasks.is_empty() {
        return format!(
            "{kind} {name} lets {least} pods in together ({of_all}), and {there}: the others are to be created"
        );
    }
    let tasks = free.tasks.iter().take(MOST_TASKS);
    let of_task = tasks.map(|(task, missing)| format!("{missing} of task {task}"));
    let others = (free.any > 0).then(|| format!("{} of any", free.any));
    let missing = of_task.chain(others).collect::<Vec<_>>().join(", ");
    let are = match (&*free.tasks, free.any) {
        ([(_, 1)], 0) => "is",
        _ => "are",
    };
    format!(
        "{kind} {name} lets {least} pods in together, of each task as many as it needs ({of_tasks}), and {there}: {missing} {are} to be \
         created"
    )
}

/// Returns how many pods of a group there are, and which places are free beside them.
fn those_there(cluster: &Cluster, id: WorkloadId) -> (String, Free) {
    let workload = cluster.workload(id);
    let mut there = match workload.admitted() + workload.succeeded() + workload.line.len() {
        1 => "1 is there".to_owned(),
        there => format!("{there} are there"),
    };
    let kept_out = workload.kept_out();
    if kept_out > 0 {
        let why = "sent back or refused just now, held by others' gates, or being deleted";
        there = format!("{there} besides {kept_out} that can't be let in at the moment ({why})");
    }
    let mut places = workload.lacking().places();
    for (_, shape) in line(cluster, id) {
        places.take(shape.task_spec.as_deref());
    }
    (there, places.free())
}

/// Whether a workload could be let in if others held nothing of what the reason is about. `told` is the shape of its pod that is told, where
/// one is.
pub(super) fn could_ever_be_let_in(cluster: &Cluster, id: WorkloadId, told: Option<&Shape>, reason: Reason) -> bool {
    let workload = cluster.workload(id);
    match (workload.refused, &workload.terms, reason.about()) {
        (Some((Step::Together, _)), _, _) => {
            let shape = shape_refused_for(cluster, workload, told, reason);
            shape.is_none_or(|shape| pod::could_ever_be_let_in(cluster, shape, reason))
        }
        (Some((Step::Enqueue, _)), Some(terms), About::Quota(_)) => {
            let (queue, demand) = asked_as_a_whole(cluster, id, terms.queue);
            let at = level_in_excess(cluster, id, queue, &demand);
            could_ever_take(cluster, id, (queue, &demand), at)
        }
        // The nodes were looked at as if nothing else were on them.
        (Some((Step::Enqueue, _)), _, About::Nodes | About::Mgpu) => false,
        (Some((Step::Enqueue | Step::GivenUp, _)) | None, _, _) => true,
    }
}

/// Returns what a workload asks for as a whole, and the queue that it asks.
pub(super) fn asked_as_a_whole(cluster: &Cluster, id: WorkloadId, queue: QueueId) -> (QueueId, Demand) {
    let workload = cluster.workload(id);
    let Some(terms) = &workload.terms else {
        return (queue, Demand::default());
    };
    let itself = || (queue, cluster.metered(workload, &terms.demand));
    if !terms.demand.cards.is_empty() || is_in_line(cluster, id) || workload.line.is_empty() {
        return itself();
    }
    // While the workload stands aside, it is judged as it is in line, and by its pods where that lets it in.
    let of_itself = workload.aside_until().map(|_| itself());
    // What the pods ask for is checked where they are charged.
    let first: Vec<_> = first_missing(cluster, id).into_iter().map(|(pod, _)| pod).collect();
    let mut asked: Vec<_> = of_itself.into_iter().chain(asked_by_pods(cluster, &first)).collect();
    let lacks = |(queue, demand): &(QueueId, Demand)| lack(cluster, id, *queue, demand).is_some();
    let place = asked.iter().position(lacks).unwrap_or(0);
    if asked.is_empty() {
        (queue, Demand::default())
    } else {
        asked.swap_remove(place)
    }
}

/// Returns what is said of a workload that stands aside once there is room for what it was refused for. Meanwhile its queue keeps nothing
/// for any workload of its namespace, whichever workload sent no pods there, and the workload is not looked at again before. Returns none
/// where it still lacks what it was refused for.
pub(super) fn only_stands_aside(
    cluster: &Cluster,
    id: WorkloadId,
    (queue, demand): (QueueId, &Demand),
    reason: Reason,
) -> Option<String> {
    let workload = cluster.workload(id);
    let until = workload.aside_until()?;
    let has_room = match lack(cluster, id, queue, demand) {
        None => "has room",
        Some(_) if lacks_still(cluster, id, queue, demand, reason) => return None,
        // If it lacks anything else, it is told when it is looked at again.
        Some(_) => "has room of what it lacked before",
    };
    Some(format!(
        "queue {} {has_room} for {} {} now, and keeps nothing for any workload of namespace {} until {until}: what it kept for one \
         of them was not used in time (inqueueTimeout)",
        cluster.queue(queue).name,
        workload.kind.as_str(),
        workload.name,
        workload.namespace,
    ))
}

/// Returns the level without room for what a workload asks for as a whole: its queue, a queue above it, or none for the cluster.
pub(super) fn level_in_excess(cluster: &Cluster, id: WorkloadId, queue: QueueId, demand: &Demand) -> Option<QueueId> {
    lack(cluster, id, queue, demand).map_or(Some(queue), |lack| lack.at)
}

/// Returns the shape of a workload's waiting pods of which this reason is told: the shape of the pod that is told, or the first shape that
/// lacks something itself, since all pods of a gang are refused for what one of them lacks. Where each pod has a place but not all together,
/// it is the first shape; also where there are more shapes than one message may look at.
pub(super) fn shape_refused_for<'c>(
    cluster: &'c Cluster,
    workload: &'c Workload,
    told: Option<&'c Shape>,
    reason: Reason,
) -> Option<&'c Shape> {
    let is_refused = |shape: &&Shape| {
        let waiting = &cluster.queue(shape.queue).waiting;
        let refused = waiting.peers_of(shape).and_then(|(_, peers)| peers.refused);
        refused.is_some_and(|refused| refused.reason == reason)
    };
    let mut last = None;
    let shapes = told.into_iter().chain(shapes_of(cluster, workload)).filter(is_refused);
    // Pods of one shape usually stand in line one behind the other.
    let looks = Looks::of_message();
    let mut shapes = shapes.take_while(|_| !looks.are_spent());
    let lacking =
        shapes.find(|shape| last.replace(*shape) != Some(*shape) && pod::lacks(cluster, shape, reason, &looks));
    lacking.or_else(|| shapes_of(cluster, workload).find(is_refused))
}

/// Whether all waiting pods of a workload are of this shape.
pub(super) fn are_all_like(cluster: &Cluster, workload: &Workload, shape: &Shape) -> bool {
    shapes_of(cluster, workload).all(|other| other == shape)
}

/// Returns the shapes of the workload's waiting pods, the first to be let in first.
pub(super) fn shapes_of<'c>(cluster: &'c Cluster, workload: &'c Workload) -> impl Iterator<Item = &'c Shape> {
    let line = workload.line.iter();
    line.filter_map(|(_, place)| Some(&*cluster.pod(place.pod)?.waits.as_ref()?.shape))
}

/// Returns what a workload is told that asks for more pods than could run at all.
pub(super) fn too_few_fit(cluster: &Cluster, id: WorkloadId) -> String {
    format!(
        "fewer than {} of its pods could run on any node, even if nothing else did",
        cluster.workload(id).missing()
    )
}
