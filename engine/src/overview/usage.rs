//! What the usage of a queue shows.

use std::collections::BTreeSet;

use crds::card_usage::{CardUsageStatus, OwnCards, QueueCard};

use super::line::{asked_as_wholes, asked_in, first_waiting, waiting_workloads};
use super::unsatisfiable::unsatisfiable;
use super::{status, to_i64};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::queue::Queue;
use crate::explain::{Subject, explain};
use crate::ids::QueueId;
use crate::names::{CardId, ResourceId};

/// The most cards without a node that a queue's usage shows.
const MOST_UNKNOWN: usize = 64;

/// Returns the status of a queue's usage.
pub(super) fn usage(cluster: &Cluster, id: QueueId) -> CardUsageStatus {
    let queue = cluster.queue(id);
    let against = |resource| {
        let dimension = Dimension::Resource(resource);
        let format = |amount| dimension.format(amount);
        let limit = limit(cluster, id, dimension);
        format!(
            "{} / {}",
            format(queue.allocated_in_all(dimension)),
            limit.map_or_else(|| "unlimited".to_owned(), format)
        )
    };
    let of_own_wholes = asked_in(cluster, [id]);
    let of_wholes = asked_as_wholes(cluster, id, &of_own_wholes);
    let cards = cards_of(cluster, queue).into_iter();
    let of_wholes_alone = of_wholes.keys().filter(|card| cluster.resource_of(**card).is_some());
    let of_wholes_alone = of_wholes_alone.map(|card| (cluster.names().card_name(*card), *card));
    let cards: BTreeSet<_> = cards.chain(of_wholes_alone).collect();
    let cards = cards.into_iter().map(|(name, card)| {
        let dimension = Dimension::Card(card);
        let allocated = queue.allocated_in_all(dimension);
        let requested = queue.request_in_all(dimension) + of_wholes.get(&card).copied().unwrap_or(0);
        let waits_itself = queue.waiting.requested().get(dimension) + of_own_wholes.get(&card).copied().unwrap_or(0);
        QueueCard {
            name: name.to_owned(),
            quota: limit(cluster, id, dimension).map(to_i64),
            allocated: to_i64(allocated),
            requested: to_i64(requested),
            waiting: to_i64(requested - allocated),
            own: Some(OwnCards {
                allocated: to_i64(queue.allocated.get(dimension)),
                waiting: to_i64(waits_itself),
            }),
        }
    });
    let wholes = cluster.wholes_in_line(queue);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let figures = CardUsageStatus {
        cards: cards.collect(),
        cpu: against(ResourceId::CPU),
        memory: against(ResourceId::MEMORY),
        admitted_pods: count(queue.holders.len()),
        waiting_pods: count(queue.waiting.len_in_all()),
        waiting: count(queue.waiting.len_in_all() + wholes.count()),
        waiting_workloads: count(waiting_workloads(cluster, queue)),
        share: cluster.share(id).to_string(),
        first_waiting: first_waiting(cluster, id),
        ..CardUsageStatus::default()
    };
    let problem = explain(cluster, Subject::Queue(id)).map(|why| (why.reason.as_str(), why.message()));
    let problem = problem.as_ref().map(|(reason, text)| (*reason, text.as_str()));
    let unsatisfiable = unsatisfiable(cluster, id);
    let unsatisfiable = unsatisfiable
        .as_ref()
        .map(|(reason, text)| (reason.as_str(), text.as_str()));
    let closed = queue.terms().and_then(|terms| terms.closed.as_deref());
    status::usage(figures, problem, unsatisfiable, closed)
}

/// Returns the most that a queue may have by its own capability; none where that limits nothing.
pub(super) fn limit(cluster: &Cluster, id: QueueId, dimension: Dimension) -> Option<i128> {
    match cluster.queue(id).quota() {
        Some(_) => cluster.capability(id, dimension),
        None => Some(0),
    }
}

/// Returns the cards that a queue, including the queues below it, may have, has or waits for, by name.
pub(super) fn cards_of<'a>(cluster: &'a Cluster, queue: &Queue) -> BTreeSet<(&'a str, CardId)> {
    let quota = queue.quota().into_iter().flat_map(|quota| quota.cards.iter().copied());
    let below = &queue.below;
    let allocated = [&queue.allocated, &below.allocated];
    let requested = [queue.waiting.requested(), &below.requested];
    let cards = |(dimension, _): (Dimension, i128)| dimension.card();
    let is_known = |card: &CardId| cluster.resource_of(*card).is_some();
    let sums = allocated.into_iter().chain(requested);
    let known = sums.flat_map(|sums| sums.iter().filter_map(cards)).filter(is_known);
    // What pods hold is shown even if no node has it, or has had it since the start. What pods wait for is not: a tenant can invent any
    // number of names, and could have some of them running where only quota is asked for.
    let held = allocated
        .into_iter()
        .flat_map(|sums| sums.iter().filter(|(_, amount)| *amount > 0).filter_map(cards));
    let held = held.filter(|card| !is_known(card)).take(MOST_UNKNOWN);
    quota
        .chain(known)
        .chain(held)
        .map(|card| (cluster.names().card_name(card), card))
        .collect()
}
