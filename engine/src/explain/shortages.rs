//! What there is too little of, in numbers: where, and who has it.

use crds::card_review::{Place, Shortage};

use super::holders::holders;
use super::pod::lacking;
use super::workload::{Excess, excess, shape_refused_for};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Step;
use crate::ids::{QueueId, WorkloadId};
use crate::reason::{About, Reason};

/// What a pod of this shape lacks, where the reason is about amounts.
pub(super) fn shortages(cluster: &Cluster, shape: &Shape, reason: Reason, namespace: &str) -> Vec<Shortage> {
    match reason.about() {
        About::Quota(_) => {
            let lacking = lacking(cluster, shape, reason).into_iter();
            let named = lacking.filter(|(dimension, _)| dimension.shortage() == reason);
            named
                .map(|(dimension, asked)| of_quota(cluster, shape, dimension, asked, namespace))
                .collect()
        }
        About::Nodes | About::Mgpu => of_cards(cluster, shape, namespace),
        About::Request | About::Queue | About::Workload => Vec::new(),
    }
}

/// What a workload lacks that waits as a whole, or of each of its pods that are let in together.
pub(super) fn of_workload(cluster: &Cluster, id: WorkloadId, reason: Reason, namespace: &str) -> Vec<Shortage> {
    let workload = cluster.workload(id);
    let is_whole = !matches!(workload.refused, Some((Step::Together | Step::GivenUp, _)));
    let Some(claim) = workload.claim.as_ref().filter(|_| is_whole) else {
        let shape = shape_refused_for(cluster, workload, reason);
        return shape.map_or_else(Vec::new, |shape| shortages(cluster, shape, reason, namespace));
    };
    let Excess { queue, at, of } = excess(cluster, id, claim.queue, reason);
    let Some((dimensions, sums)) = of else {
        return Vec::new();
    };
    // What alternatives come to counts together; who holds them is told for each.
    let each = dimensions.into_iter().map(|dimension| Shortage {
        resource: dimension.name(cluster.names()).to_owned(),
        asked: dimension.format(sums.asked),
        used: dimension.format(sums.allocated + sums.inqueue - sums.elastic),
        limit: sums.quota.map(|quota| dimension.format(quota)),
        place: place(cluster, queue, at),
        holders: holders(cluster, at, dimension, namespace),
    });
    each.collect()
}

/// Where there is too little for what names this queue.
fn place(cluster: &Cluster, own: QueueId, at: Option<QueueId>) -> Place {
    let (kind, name) = match at {
        Some(id) if id == own => ("Queue", cluster.queue(id).name.to_string()),
        Some(id) => ("ParentQueue", cluster.queue(id).name.to_string()),
        None => ("Cluster", String::new()),
    };
    Place {
        kind: kind.to_owned(),
        name,
    }
}

fn of_quota(cluster: &Cluster, shape: &Shape, dimension: Dimension, asked: i64, namespace: &str) -> Shortage {
    let found = cluster.room_for(shape.queue, shape.priority, dimension, asked).err();
    let used = found.map_or_else(
        || cluster.queue(shape.queue).allocated_in_all(dimension),
        |found| found.used,
    );
    let limit = found.filter(|found| !found.is_for_betters || found.limit > 0);
    let at = found.map_or(Some(shape.queue), |found| found.queue);
    Shortage {
        resource: dimension.name(cluster.names()).to_owned(),
        asked: dimension.format(asked.into()),
        used: dimension.format(used),
        limit: limit.map(|found| dimension.format(found.limit)),
        place: place(cluster, shape.queue, at),
        holders: holders(cluster, at, dimension, namespace),
    }
}

/// The cards of all nodes, of each name that the pod may have.
fn of_cards(cluster: &Cluster, shape: &Shape, namespace: &str) -> Vec<Shortage> {
    let known = shape.task.cards.iter();
    let known = known.filter_map(|card| Some((*card, cluster.resource_of(*card)?)));
    known
        .filter_map(|(card, resource)| {
            let dimension = Dimension::Card(card);
            let tally = cluster.card(card)?.tallies.get(&resource)?;
            Some(Shortage {
                resource: cluster.names().card_name(card).to_owned(),
                asked: shape.task.count(resource).to_string(),
                used: tally.used.to_string(),
                limit: Some(tally.total.to_string()),
                place: place(cluster, shape.queue, None),
                holders: holders(cluster, None, dimension, namespace),
            })
        })
        .collect()
}
