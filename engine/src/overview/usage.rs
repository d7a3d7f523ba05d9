//! What the usage of a queue shows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crds::card_usage::{CardUsageStatus, QueueCard, WaitingWorkload};
use crds::configuration::QueuePlugin;

use super::{status, to_i64};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::queue::{Queue, Quota};
use crate::explain::{Subject, explain};
use crate::ids::QueueId;
use crate::names::{CardId, ResourceId};
use crate::refs::WorkloadKind;

/// How many of a queue's waiting pods its usage shows.
const FIRST_WAITING: usize = 5;

/// What a queue's usage says.
pub(super) fn usage(cluster: &Cluster, id: QueueId) -> CardUsageStatus {
    let queue = cluster.queue(id);
    let quota = |dimension| queue.quota().map_or(0, |quota| quota.limit(dimension));
    let against = |resource| {
        let dimension = Dimension::Resource(resource);
        let format = |amount| dimension.format(amount);
        let limit = match queue.quota() {
            Some(_) => cluster.capability(id, dimension),
            None => Some(0),
        };
        format!(
            "{} / {}",
            format(queue.allocated_in_all(dimension)),
            limit.map_or_else(|| "unlimited".to_owned(), format)
        )
    };
    let cards = cards_of(cluster, queue).into_iter().map(|(name, card)| {
        let dimension = Dimension::Card(card);
        let (allocated, requested) = (queue.allocated_in_all(dimension), queue.request_in_all(dimension));
        QueueCard {
            name: name.to_owned(),
            quota: quota(dimension),
            allocated: to_i64(allocated),
            requested: to_i64(requested),
            waiting: to_i64(requested - allocated),
        }
    });
    let jobs = queue
        .in_line()
        .iter()
        .filter(|job| cluster.workload(**job).kind == WorkloadKind::Job);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let figures = CardUsageStatus {
        cards: cards.collect(),
        cpu: against(ResourceId::CPU),
        memory: against(ResourceId::MEMORY),
        admitted_pods: count(queue.holders.len()),
        waiting_pods: count(queue.waiting.len()),
        waiting: count(queue.waiting.len() + jobs.count()),
        share: cluster.share(id).to_string(),
        first_waiting: first_waiting(cluster, id),
        ..CardUsageStatus::default()
    };
    let problem = explain(cluster, Subject::Queue(id)).map(|why| (why.reason.as_str(), why.message()));
    let problem = problem.as_ref().map(|(reason, text)| (*reason, text.as_str()));
    let unsatisfiable = unsatisfiable(cluster, id);
    let unsatisfiable = unsatisfiable.as_ref().map(|(reason, text)| (*reason, text.as_str()));
    status::usage(figures, problem, unsatisfiable)
}

/// The pods of a queue that are next, and what they wait for.
fn first_waiting(cluster: &Cluster, id: QueueId) -> Vec<WaitingWorkload> {
    let all = cluster.queue(id).waiting.peers();
    let mut first: Vec<_> = all
        .flat_map(|(_, peers)| {
            let priority = Reverse(peers.shape.priority);
            let places = peers.pods.iter().take(FIRST_WAITING);
            places.map(move |place| (priority, *place))
        })
        .collect();
    first.sort_unstable();
    first.truncate(FIRST_WAITING);
    let described = first.into_iter().enumerate().filter_map(|(index, (_, place))| {
        let pod = cluster.pod(place.pod)?;
        let why = explain(cluster, Subject::Pod(place.pod));
        Some(WaitingWorkload {
            position: i64::try_from(index).unwrap_or(i64::MAX) + 1,
            name: format!("{}/{}", pod.namespace, pod.name),
            reason: why.map_or_else(String::new, |why| why.reason.as_str().to_owned()),
            missing: why.map_or_else(String::new, |why| why.in_brief()),
        })
    });
    described.collect()
}

/// What a queue says that can't all be had, whoever asks for it: in one word and in a sentence.
fn unsatisfiable(cluster: &Cluster, id: QueueId) -> Option<(&'static str, String)> {
    let quota = cluster
        .queue(id)
        .quota()
        .filter(|_| cluster.configuration().queue_plugin != QueuePlugin::Off)?;
    if let Some(above) = above_what_is_above(cluster, id, quota) {
        return Some(("CapabilityAboveParent", above));
    }
    let top = cluster.top();
    let own = quota.capability.iter();
    let own = own.map(|(dimension, said)| ("CapabilityAboveCluster", dimension, i128::from(said)));
    let guaranteed = quota.guarantee.iter().map(|(dimension, _)| dimension);
    let guaranteed =
        guaranteed.map(|dimension| ("GuaranteesAboveCluster", dimension, top.below.guaranteed.get(dimension)));
    let deserved = quota.deserved.iter().map(|(dimension, _)| dimension);
    let deserved = deserved.map(|dimension| ("DeservedAboveCluster", dimension, top.below.deserved.get(dimension)));
    let mut said = own.chain(guaranteed).chain(deserved);
    let (reason, dimension, said) = said.find(|(_, dimension, said)| *said > top.total.get(*dimension))?;
    let (all, rest) = match reason {
        "CapabilityAboveCluster" => ("the queue may have", ""),
        "GuaranteesAboveCluster" => ("all queues together are guaranteed", ""),
        _ => ("all queues together deserve", ": not all can have it at once"),
    };
    let (said, has) = (dimension.format(said), dimension.format(top.total.get(dimension)));
    let name = dimension.name(cluster.names());
    Some((
        reason,
        format!("{all} {said} {name}, and the cluster has {has} at the moment{rest}"),
    ))
}

/// Whether a queue says that there is more of anything than this: what can't all be had, or could not.
pub(super) fn says_more(cluster: &Cluster, queue: &Queue, least: &BTreeMap<Dimension, i128>) -> bool {
    let Some(quota) = queue.quota() else { return false };
    let below = &cluster.top().below;
    let is_more = |dimension, said| least.get(&dimension).is_some_and(|least| said > *least);
    let mut own = quota.capability.iter();
    let mut guaranteed = quota.guarantee.iter().map(|(dimension, _)| dimension);
    let mut deserved = quota.deserved.iter().map(|(dimension, _)| dimension);
    own.any(|(dimension, said)| is_more(dimension, said.into()))
        || guaranteed.any(|dimension| is_more(dimension, below.guaranteed.get(dimension)))
        || deserved.any(|dimension| is_more(dimension, below.deserved.get(dimension)))
}

/// Of what a queue may have, more than the nearest queue above it that says how much of that may be had: the door was not
/// there when one of them was written.
fn above_what_is_above(cluster: &Cluster, id: QueueId, quota: &Quota) -> Option<String> {
    quota.capability.iter().find_map(|(dimension, said)| {
        let mut above = cluster.ancestry(id).skip(1).filter_map(|above| {
            let above = cluster.queue(above);
            Some((&above.name, above.quota()?.capability.get(dimension)?))
        });
        let (above, limit) = above.next().filter(|(_, limit)| said > *limit)?;
        let (said, limit) = (dimension.format(said.into()), dimension.format(limit.into()));
        let name = dimension.name(cluster.names());
        Some(format!(
            "the queue may have {said} {name}, and queue {above}, which it is a part of, {limit}: lower it, or raise that"
        ))
    })
}

/// The cards that a queue, with all that is below it, may have, has or waits for, by name.
pub(super) fn cards_of<'a>(cluster: &'a Cluster, queue: &Queue) -> BTreeSet<(&'a str, CardId)> {
    let quota = queue.quota().into_iter().flat_map(|quota| quota.cards.iter().copied());
    let below = &queue.below;
    let sums = [
        &queue.allocated,
        &below.allocated,
        queue.waiting.requested(),
        &below.requested,
    ];
    // Of what pods wait for, only cards that some node has, or had: a tenant can make up any number of names.
    let known = sums
        .into_iter()
        .flat_map(|sums| sums.iter().filter_map(|(dimension, _)| dimension.card()))
        .filter(|card| cluster.resource_of(*card).is_some());
    quota
        .chain(known)
        .map(|card| (cluster.names().card_name(card), card))
        .collect()
}
