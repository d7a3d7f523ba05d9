//! Whether a workload is let into its queue as a whole (Capacity Card, **Job Enqueueable Check**), before its pods exist or
//! before the first of them is let in.

use std::collections::BTreeMap;

use crds::configuration::QueuePlugin;

use super::gang;
use super::verdict::{admits, refusal_in};
use crate::cluster::Cluster;
use crate::cluster::amounts::Dimension;
use crate::cluster::inqueue::Demand;
use crate::cluster::pod::PodId;
use crate::cluster::queue::QueueId;
use crate::cluster::waiting::Refused;
use crate::cluster::workload::{Step, WorkloadId};
use crate::policies::Reason;
use crate::policies::job_mode::JobCheck;

/// Lets a workload into its queue, or remembers why not.
pub(super) fn let_in(cluster: &mut Cluster, id: WorkloadId) -> Result<(), ()> {
    match judge(cluster, id) {
        Ok(()) => {
            cluster.enqueue(id);
            Ok(())
        }
        Err(refused) => {
            cluster.refuse_workload(id, Some((Step::Enqueue, refused)));
            Err(())
        }
    }
}

/// Whether a workload's queue can take what it asks for as a whole.
fn judge(cluster: &Cluster, id: WorkloadId) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let Some(claim) = &workload.claim else {
        return Ok(());
    };
    let because = |reason| refusal_in(cluster, claim.queue, Some(id), reason);
    if claim.problem.is_some() {
        return Err(because(Reason::PodGroupInvalid));
    }
    check(cluster, id, claim.queue, &workload.namespace, &claim.demand).map_err(because)?;
    // What can never run keeps no quota from what can.
    if gang::could_ever_fit(cluster, id) {
        Ok(())
    } else {
        Err(because(Reason::NoNodeFits))
    }
}

/// Whether a group's pods may be looked at one beside the other: from the first that is let in they may. Before, the group
/// is judged as a whole: by what it asks for where it says that, and otherwise by the pods that it would let in together.
pub(super) fn before_pods(cluster: &mut Cluster, id: WorkloadId) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let Some(claim) = workload.claim.as_ref().filter(|_| !workload.is_started()) else {
        return Ok(());
    };
    let queue = claim.queue;
    let because = |reason| refusal_in(cluster, queue, Some(id), reason);
    if cluster.queue(queue).held.contains(&id) {
        return let_in(cluster, id).map_err(|()| {
            let refused = cluster.workload(id).refused;
            refused.map_or_else(
                || refusal_in(cluster, queue, Some(id), Reason::QueueNotFound),
                |(_, refused)| refused,
            )
        });
    }
    if !claim.demand.cards.is_empty() {
        // Beside Volcano nothing is reserved; what the group asks for is checked all the same.
        return if workload.reserved().is_some() {
            Ok(())
        } else {
            check(cluster, id, queue, &workload.namespace, &claim.demand).map_err(because)
        };
    }
    let mut pods = BTreeMap::<QueueId, Vec<PodId>>::new();
    for (_, place) in workload.line.iter().take(workload.missing()) {
        if let Some(queue) = cluster.pod(place.pod).and_then(|pod| pod.queue) {
            pods.entry(queue).or_default().push(place.pod);
        }
    }
    for (queue, pods) in pods {
        let demand = cluster.demand_of(pods);
        check(cluster, id, queue, &workload.namespace, &demand)
            .map_err(|reason| refusal_in(cluster, queue, Some(id), reason))?;
    }
    Ok(())
}

/// Whether a queue takes the workload at all, and has room for a demand besides what is reserved for others.
fn check(cluster: &Cluster, id: WorkloadId, queue: QueueId, namespace: &str, demand: &Demand) -> Result<(), Reason> {
    admits(cluster, queue, namespace)?;
    job_check(cluster, id, queue).map_or(Err(Reason::QueueInvalid), |check| check.check(demand))
}

/// What a workload is checked against in a queue; none where the queue's quota can't be read.
pub(super) fn job_check(
    cluster: &Cluster,
    id: WorkloadId,
    queue: QueueId,
) -> Option<JobCheck<'_, impl Fn(Dimension) -> Option<i128> + '_>> {
    let state = cluster.queue(queue);
    let limit = move |dimension| {
        let limit = cluster.real_capability(queue, dimension);
        limit.filter(|_| cluster.compares(state, dimension))
    };
    let configuration = cluster.configuration();
    let own = cluster
        .workload(id)
        .claim
        .as_ref()
        .is_some_and(|claim| claim.queue == queue);
    Some(JobCheck {
        arguments: &configuration.capacity_card,
        is_empty: state.quota()?.is_empty && configuration.queue_plugin == QueuePlugin::CapacityCard,
        limit,
        allocated: &state.allocated,
        inqueue: &state.inqueue,
        elastic: &state.elastic,
        own: cluster.workload(id).reserved().filter(|_| own),
    })
}
