//! Why a workload waits as a whole, and its pods with it.

use super::{pod, queue as of_queue, refusal_of_write};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::{Step, Workload};
use crate::decide::enqueue::{check_at, lack};
use crate::decide::gang::MOST_TRIES;
use crate::decide::line::{first_missing, line};
use crate::ids::{QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::policies::job_mode::{JobCheck, Sums};
use crate::reason::{About, Reason};
use crate::refs::WorkloadKind;

/// How many tasks a message names.
const MOST_TASKS: usize = 8;

/// Whether a pod waits because its group does, and not by itself.
pub(super) fn speaks_for_its_pods(cluster: &Cluster, id: WorkloadId, reason: Reason) -> bool {
    let refused = cluster.workload(id).refused;
    reason.about() == About::Workload
        || cluster.workload(id).missing() > 0 && refused.is_some_and(|(_, refused)| refused.reason == reason)
}

/// The message for the refusal of a workload, with the numbers of this moment.
pub(super) fn explain(cluster: &Cluster, id: WorkloadId, reason: Reason) -> String {
    let workload = cluster.workload(id);
    let name = &workload.name;
    let not_found = || {
        format!(
            "PodGroup {name} does not exist in namespace {}: create it, or leave the pod's group out",
            workload.namespace
        )
    };
    let Some(claim) = &workload.claim else {
        return not_found();
    };
    match reason {
        Reason::PodGroupNotFound => not_found(),
        Reason::PodGroupInvalid => format!(
            "{} {name} can't be used until it is mended: {}",
            workload.kind.as_str(),
            claim.problem.as_deref().unwrap_or("it can't be read")
        ),
        Reason::PodGroupIncomplete => format!(
            "PodGroup {name} lets {} pods in together (spec.minMember), and {} are there: {} to be created",
            claim.min_member,
            workload.admitted() + workload.succeeded() + workload.line.len(),
            to_be_created(cluster, id)
        ),
        Reason::InqueueTimeout => format!(
            "queue {} has kept what {} {name} asks for during {} s (inqueueTimeout), and none of its pods was let in: now it \
             waits again, behind the others of its priority, and until {} nothing is kept there for any workload of \
             namespace {}; make its pods sooner, or ask for less",
            cluster.queue(claim.queue).name,
            workload.kind.as_str(),
            cluster.configuration().cardgate.inqueue_timeout.as_secs(),
            workload
                .aside_until()
                .map_or_else(|| "then".to_owned(), |until| until.to_string()),
            workload.namespace
        ),
        Reason::RefusedByApiServer => {
            let message = workload.write_refused.as_ref().map_or("", |(_, message)| &**message);
            let what = format!("{} {name}", workload.kind.as_str());
            refusal_of_write(&what, message, workload.aside_until())
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
        | Reason::NoDeviceSelected
        | Reason::NoClaimForCard
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
        | Reason::TooComplex => match workload.refused {
            Some((Step::Together | Step::GivenUp, _)) => together(cluster, workload, reason),
            Some((Step::Enqueue, _)) | None => as_a_whole(cluster, id, claim.queue, reason),
        },
    }
}

/// Which pods of a group do not exist yet.
fn to_be_created(cluster: &Cluster, id: WorkloadId) -> String {
    let lacking = cluster.workload(id).lacking();
    let line = line(cluster, id);
    let waiting = |task: &str| {
        line.iter()
            .filter(|(_, shape)| shape.task_spec.as_deref() == Some(task))
            .count()
    };
    let tasks = lacking.tasks().filter_map(|(task, missing)| {
        let missing = missing.checked_sub(waiting(task)).filter(|missing| *missing > 0)?;
        Some(format!("{missing} of task {task}"))
    });
    match tasks.take(MOST_TASKS).collect::<Vec<_>>() {
        tasks if tasks.is_empty() => "the others are".to_owned(),
        tasks => format!("{} (spec.minTaskMember) are", tasks.join(", ")),
    }
}

/// Whether a workload could be let in if others held nothing of what the reason is about.
pub(super) fn could_ever_be_let_in(cluster: &Cluster, id: WorkloadId, reason: Reason) -> bool {
    let workload = cluster.workload(id);
    match (workload.refused, &workload.claim, reason.about()) {
        (Some((Step::Together, _)), _, _) => {
            let shape = shape_refused_for(cluster, workload, reason);
            shape.is_none_or(|shape| pod::could_ever_be_let_in(cluster, shape, reason))
        }
        (Some((Step::Enqueue, _)), Some(claim), About::Quota(_)) => {
            let (queue, demand) = asked_as_a_whole(cluster, id, claim.queue);
            let at = lack(cluster, id, queue, &demand).map_or(Some(queue), |lack| lack.at);
            let check = JobCheck {
                loads: Vec::new(),
                own: None,
                ..check_at(cluster, id, queue, at)
            };
            check.check(&demand).is_ok()
        }
        // Its nodes were looked at as if nothing else were on them.
        (Some((Step::Enqueue, _)), _, About::Nodes | About::Mgpu) => false,
        (Some((Step::Enqueue | Step::GivenUp, _)) | None, _, _) => true,
    }
}

/// What a workload asks for as a whole, and of which queue.
fn asked_as_a_whole(cluster: &Cluster, id: WorkloadId, queue: QueueId) -> (QueueId, Demand) {
    let workload = cluster.workload(id);
    // While it stands in line, it is judged by what it asks for itself.
    let in_line = workload
        .claim
        .as_ref()
        .map(|claim| cluster.queue(claim.queue).in_line().contains(&id));
    let by_pods = workload
        .claim
        .as_ref()
        .is_none_or(|claim| claim.demand.cards.is_empty() && in_line != Some(true) && !workload.line.is_empty());
    let pods = || first_missing(cluster, id).into_iter().map(|(pod, _)| pod);
    // What its pods ask for is checked where they are charged.
    let first = pods().find_map(|pod| cluster.pod(pod)?.queue);
    let queue = first.filter(|_| by_pods).unwrap_or(queue);
    let demand = match &workload.claim {
        Some(claim) if !by_pods => cluster.metered(workload, &claim.demand),
        _ => cluster.demand_of(pods()),
    };
    (queue, demand)
}

/// What a workload lacks as a whole.
pub(super) struct Excess {
    /// The queue that it is judged by.
    pub queue: QueueId,
    /// Who has no room: that queue, one above it, or the cluster.
    pub at: Option<QueueId>,
    /// Of what, and the numbers; cards that it may have in place of one another count together. None where there is room by now.
    pub of: Option<(Vec<Dimension>, Sums)>,
}

/// What a queue lacks for a workload as a whole, where the reason is about quota (**Job Enqueueable Check**).
pub(super) fn excess(cluster: &Cluster, id: WorkloadId, queue: QueueId, reason: Reason) -> Excess {
    let (queue, demand) = asked_as_a_whole(cluster, id, queue);
    let at = lack(cluster, id, queue, &demand).map_or(Some(queue), |lack| lack.at);
    let check = check_at(cluster, id, queue, at);
    let is_it = |(dimension, _): &(Dimension, Sums)| dimension.shortage() == reason;
    let of = match reason.about() {
        About::Quota(Some(resource)) => {
            let dimension = Dimension::Resource(resource);
            Some((vec![dimension], check.resource(&demand, dimension)))
        }
        About::Quota(None) => match check.resources_in_excess(&demand).find(is_it) {
            Some((scalar, sums)) => Some((vec![scalar], sums)),
            None => check.first_excess(&demand).map(|(set, sums)| {
                let dimensions = set.iter().copied().map(Dimension::Card);
                (dimensions.collect(), sums)
            }),
        },
        About::Nodes | About::Mgpu | About::Request | About::Queue | About::Workload => None,
    };
    Excess { queue, at, of }
}

/// The same in a sentence.
fn as_a_whole(cluster: &Cluster, id: WorkloadId, queue: QueueId, reason: Reason) -> String {
    let workload = cluster.workload(id);
    let Excess { queue, at, of } = excess(cluster, id, queue, reason);
    let state = cluster.queue(queue);
    let who = match at {
        Some(at) if at == queue => format!("queue {}", state.name),
        Some(at) => format!(
            "queue {}, of which queue {} is a part,",
            cluster.queue(at).name,
            state.name
        ),
        None => format!("the cluster, for queue {},", state.name),
    };
    let lead = format!(
        "{who} can't take {} {} as a whole",
        workload.kind.as_str(),
        workload.name
    );
    // Without this, who wrote 10 on a queue and reads 7 has to guess.
    let cut = |dimensions: &[Dimension], sums: Sums| {
        let written: Option<i128> = dimensions
            .iter()
            .map(|dimension| cluster.capability(at?, *dimension))
            .sum();
        let written = written.filter(|written| Some(*written) != sums.quota)?;
        let written = dimensions.first()?.format(written);
        Some(format!(
            " of {written}: others are guaranteed the rest, or the cluster does not have it"
        ))
    };
    let numbers = |dimensions: &[Dimension], sums: Sums| {
        let format = |number| {
            dimensions
                .first()
                .map_or_else(String::new, |dimension| dimension.format(number))
        };
        let names: Vec<_> = dimensions
            .iter()
            .map(|dimension| dimension.name(cluster.names()))
            .collect();
        format!(
            "{lead}: {} asked {}, allocated {}, in queue {}, elastic {}, quota {}{}",
            names.join("|"),
            format(sums.asked),
            format(sums.allocated),
            format(sums.inqueue),
            format(sums.elastic),
            sums.quota.map_or_else(|| "unlimited".to_owned(), format),
            cut(dimensions, sums).unwrap_or_default()
        )
    };
    match reason.about() {
        About::Quota(_) => match of {
            Some((dimensions, sums)) => numbers(&dimensions, sums),
            None => format!("{lead}: there is room by now, and it is looked at again"),
        },
        About::Nodes | About::Mgpu => format!(
            "{lead}: fewer than {} of its pods could run on any node, even if nothing else did",
            workload.missing()
        ),
        About::Request | About::Queue | About::Workload => {
            of_queue::explain(cluster, queue, &workload.namespace, reason)
        }
    }
}

/// The first waiting pod of a workload that was refused for this reason.
pub(super) fn shape_refused_for<'c>(cluster: &'c Cluster, workload: &'c Workload, reason: Reason) -> Option<&'c Shape> {
    let mut shapes = workload
        .line
        .iter()
        .filter_map(|(_, place)| Some(&*cluster.pod(place.pod)?.waits.as_ref()?.shape));
    shapes.find(|shape| {
        let waiting = &cluster.queue(shape.queue).waiting;
        let refused = waiting.peers_of(shape).and_then(|(_, peers)| peers.refused);
        refused.is_some_and(|refused| refused.reason == reason)
    })
}

/// What the pods lack that are let in together.
fn together(cluster: &Cluster, workload: &Workload, reason: Reason) -> String {
    let each = shape_refused_for(cluster, workload, reason)
        .map_or_else(String::new, |shape| pod::explain(cluster, shape, reason));
    let missing = workload.missing();
    let pods = if workload.admitted() > 0 {
        "missing pods"
    } else {
        "pods"
    };
    let kind = if workload.kind == WorkloadKind::PodGroup {
        "PodGroup"
    } else {
        "Job"
    };
    let given_up = if matches!(workload.refused, Some((Step::GivenUp, _))) {
        format!(
            "; the search for places for all of them was given up after {MOST_TRIES} tries, so there may be some: pods of \
             fewer kinds are searched for to the end"
        )
    } else {
        String::new()
    };
    format!(
        "the {missing} {pods} of {kind} {} are let in together; of each, {each}{given_up}",
        workload.name
    )
}
