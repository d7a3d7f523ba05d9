//! What the usage of a queue shows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crds::card_usage::{CardUsageStatus, QueueCard, WaitingWorkload};

use super::unsatisfiable::unsatisfiable;
use super::{status, to_i64};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::queue::Queue;
use crate::explain::{Subject, explain, explain_in_brief};
use crate::ids::QueueId;
use crate::names::{CardId, ResourceId};

/// How many of what waits in a queue its usage shows.
const FIRST_WAITING: usize = 5;

/// How many cards that no node has its usage shows.
const MOST_UNKNOWN: usize = 64;

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
    let of_jobs = asked_by_jobs(cluster, id);
    let cards = cards_of(cluster, queue).into_iter();
    let of_jobs_alone = of_jobs.keys().filter(|card| cluster.resource_of(**card).is_some());
    let of_jobs_alone = of_jobs_alone.map(|card| (cluster.names().card_name(*card), *card));
    let cards: BTreeSet<_> = cards.chain(of_jobs_alone).collect();
    let cards = cards.into_iter().map(|(name, card)| {
        let dimension = Dimension::Card(card);
        let allocated = queue.allocated_in_all(dimension);
        let requested = queue.request_in_all(dimension) + of_jobs.get(&card).copied().unwrap_or(0);
        QueueCard {
            name: name.to_owned(),
            quota: quota(dimension),
            allocated: to_i64(allocated),
            requested: to_i64(requested),
            waiting: to_i64(requested - allocated),
        }
    });
    let jobs = cluster.jobs_in_line(queue);
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
    let unsatisfiable = unsatisfiable
        .as_ref()
        .map(|(reason, text)| (reason.as_str(), text.as_str()));
    status::usage(figures, problem, unsatisfiable)
}

/// What the Jobs in line of a queue, and of those below it, ask for; of alternatives the first, by name.
fn asked_by_jobs(cluster: &Cluster, id: QueueId) -> BTreeMap<CardId, i128> {
    let is_below = |queue: &QueueId| *queue == id || cluster.ancestry(*queue).any(|above| above == id);
    let below: Vec<_> = if cluster.is_inner(id) {
        let all = cluster.queues().filter(|(_, queue)| !queue.in_line().is_empty());
        all.map(|(queue, _)| queue).filter(is_below).collect()
    } else {
        vec![id]
    };
    let jobs = below
        .iter()
        .flat_map(|queue| cluster.jobs_in_line(cluster.queue(*queue)));
    let claims = jobs.filter_map(|(_, job)| job.claim.as_ref());
    let mut asked = BTreeMap::new();
    for (set, count) in claims.flat_map(|claim| &claim.demand.cards) {
        let first = set.iter().min_by_key(|card| cluster.names().card_name(**card));
        if let Some(card) = first {
            *asked.entry(*card).or_default() += i128::from(*count);
        }
    }
    asked
}

/// The pods and Jobs of a queue that are next, and what they wait for.
fn first_waiting(cluster: &Cluster, id: QueueId) -> Vec<WaitingWorkload> {
    let queue = cluster.queue(id);
    let pods = queue.waiting.first(FIRST_WAITING).into_iter();
    let pods = pods.map(|(place, peers)| (Reverse(peers.shape.priority), place, Subject::Pod(place.pod)));
    let jobs = cluster.jobs_in_line(queue);
    let jobs = jobs.map(|(id, job)| (Reverse(job.priority()), job.place(), Subject::Workload(id)));
    let mut first: Vec<_> = pods.chain(jobs).collect();
    first.sort_unstable_by_key(|(priority, place, _)| (*priority, *place));
    first.truncate(FIRST_WAITING);
    let described = first.into_iter().enumerate().filter_map(|(index, (_, _, subject))| {
        let (kind, namespace, name) = match subject {
            Subject::Pod(id) => {
                let pod = cluster.pod(id)?;
                ("Pod", &pod.namespace, &pod.name)
            }
            Subject::Workload(id) => {
                let workload = cluster.workload(id);
                (workload.kind.as_str(), &workload.namespace, &workload.name)
            }
            Subject::Queue(_) => return None,
        };
        let why = explain_in_brief(cluster, subject);
        Some(WaitingWorkload {
            position: i64::try_from(index).unwrap_or(i64::MAX) + 1,
            kind: kind.to_owned(),
            name: format!("{namespace}/{name}"),
            reason: why
                .as_ref()
                .map_or_else(String::new, |(reason, _)| reason.as_str().to_owned()),
            missing: why.map_or_else(String::new, |(_, said)| said),
        })
    });
    described.collect()
}

/// The cards that a queue, with all that is below it, may have, has or waits for, by name.
pub(super) fn cards_of<'a>(cluster: &'a Cluster, queue: &Queue) -> BTreeSet<(&'a str, CardId)> {
    let quota = queue.quota().into_iter().flat_map(|quota| quota.cards.iter().copied());
    let below = &queue.below;
    let allocated = [&queue.allocated, &below.allocated];
    let requested = [queue.waiting.requested(), &below.requested];
    let cards = |(dimension, _): (Dimension, i128)| dimension.card();
    let is_known = |card: &CardId| cluster.resource_of(*card).is_some();
    let sums = allocated.into_iter().chain(requested);
    let known = sums.flat_map(|sums| sums.iter().filter_map(cards)).filter(is_known);
    // What pods hold is shown though no node has it, or has had it since the start; not what they wait for: a tenant can make
    // up any number of names, and could let some run where nothing but quota is asked for.
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
