//! Why a queue takes no pods.

use crds::keys::{CARD_QUOTA, QUEUE_NAMESPACES};

use crate::cluster::Cluster;
use crate::ids::QueueId;
use crate::reason::Reason;

/// Returns why a queue takes nothing from a namespace.
pub(super) fn say(cluster: &Cluster, id: QueueId, namespace: &str, reason: Reason) -> String {
    let queue = cluster.queue(id);
    let name = &queue.name;
    let terms = queue.terms();
    match reason {
        Reason::EmptyQueueCapability => {
            format!(
                "queue {name} has neither a card quota (annotation {CARD_QUOTA}) nor spec.capability, the quota of CPU and memory"
            )
        }
        Reason::QueueNotFound => format!("queue {name} does not exist"),
        Reason::QueueNotOpen => {
            let state = terms.and_then(|terms| terms.closed.as_deref()).unwrap_or("Open");
            format!("queue {name} is {state}, not Open: it takes no pods")
        }
        Reason::NamespaceNotAllowed => format!(
            "queue {name} is not for namespace {namespace}: its annotation {QUEUE_NAMESPACES} selects other namespaces"
        ),
        Reason::InnerQueue => format!("queue {name} has queues below it, and takes no pods itself"),
        Reason::QueueInvalid
        | Reason::GetTaskRequestResourceFailed
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
        | Reason::PodGroupNotFound
        | Reason::PodGroupInvalid
        | Reason::PodGroupIncomplete
        | Reason::InqueueTimeout
        | Reason::ReservationTimeout
        | Reason::HeldByAnotherGate
        | Reason::RefusedByApiServer
        | Reason::NoNodeFits
        | Reason::NodesExcluded
        | Reason::CrossQuotaExceeded
        | Reason::InsufficientMgpu
        | Reason::NoMgpuNode
        | Reason::TooComplex => unusable(cluster, id),
    }
}

fn unusable(cluster: &Cluster, id: QueueId) -> String {
    let bad = cluster.unusable(id).unwrap_or(id);
    let problem = cluster.queue(bad).problem().unwrap_or("it can't be read");
    let (queue, bad) = (&cluster.queue(id).name, &cluster.queue(bad).name);
    if queue == bad {
        format!("queue {queue} can't be used as it is: {problem}")
    } else {
        format!("queue {queue} can't be used, since queue {bad}, of which it is a part, can't be as it is: {problem}")
    }
}
