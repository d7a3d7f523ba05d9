//! Figures for metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::to_i64;
use super::unsatisfiable::{Unsatisfiable, unsatisfiable};
use super::usage::{cards_of, limit};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::queue::Queue;
use crate::ids::QueueId;
use crate::reason::Reason;

/// The figures of one queue at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFigures {
    /// Name of the queue, as a label of its metrics.
    pub queue: Arc<str>,
    /// The cards that the queue's quota names and the cards that its pods hold.
    pub cards: Vec<CardFigures>,
    /// How many pods wait in the queue, by reason; each reason at most once.
    pub waiting: Vec<(Reason, usize)>,
    /// When the pod was created that has waited longest in the queue; none where no pod waits.
    pub oldest: Option<Timestamp>,
    /// The queue's resources, and how its use compares to what it deserves. None where Volcano's gauges, those of cards included, are
    /// switched off (`metricsEnabled`).
    pub standing: Option<StandingFigures>,
    /// Why not all that the queue's spec says can be had, as in its usage; none where all can be had.
    pub unsatisfiable: Option<Unsatisfiable>,
}

/// How a queue's use compares to what it deserves (the capacity document, **Resource monitoring metrics**).
#[derive(Debug, Clone, PartialEq)]
pub struct StandingFigures {
    /// One entry for each resource.
    pub resources: Vec<ResourceFigures>,
    /// The largest share in use, over everything that the queue deserves.
    pub share: f64,
    /// Whether the queue uses more than it deserves of anything.
    pub overused: bool,
}

/// One resource of a queue: CPU in millicores, everything else in whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFigures {
    /// Name of the resource, as a label of its metrics.
    pub resource: Arc<str>,
    /// How much of it the queue should have.
    pub deserved: i64,
    /// How much the queue's pods have.
    pub allocated: i64,
    /// How much the queue's pods have and ask for.
    pub request: i64,
    /// How much is kept for workloads in the queue and not yet taken over by their pods.
    pub inqueue: i64,
    /// The most that the queue may have; none where its spec does not say.
    pub capacity: Option<i64>,
    /// The same, less what is guaranteed to other queues; none where nothing limits it.
    pub real_capacity: Option<i64>,
}

/// One card of a queue, in whole cards (Capacity Card, **Metrics and Observability**).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardFigures {
    /// The card's name.
    pub card: Arc<str>,
    /// How much of it the queue should have.
    pub deserved: i64,
    /// How much the queue's pods hold.
    pub allocated: i64,
    /// How much the queue's pods hold and ask for.
    pub request: i64,
    /// The most that the queue may have; none where no quota of its own limits it.
    pub capacity: Option<i64>,
}

/// One card of a node that shares cards through mGPU, at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuFigures {
    /// Compute in use, in percent.
    pub core: i64,
    /// Memory in use, in MiB.
    pub memory: i64,
    /// Memory of the card, in MiB.
    pub total_memory: i64,
    /// How many containers share the card.
    pub containers: i64,
}

/// Returns the figures of every existing queue, for the metrics. Pods that wait in no queue, for `CrossQuota` alone, have an entry too.
pub fn figures(cluster: &Cluster) -> Vec<QueueFigures> {
    let there = cluster.queues().filter(|(_, queue)| {
        if queue.is_nameless() {
            queue.waiting.len_in_all() > 0
        } else {
            queue.terms().is_some() || !queue.holders.is_empty()
        }
    });
    there.map(|(id, queue)| queue_figures(cluster, id, queue)).collect()
}

fn queue_figures(cluster: &Cluster, id: QueueId, queue: &Queue) -> QueueFigures {
    let is_shown = cluster.configuration().capacity.metrics_enabled && !queue.is_nameless();
    let cards = cards_of(cluster, queue).into_iter().filter(|_| !queue.is_nameless());
    let cards = cards.map(|(name, card)| {
        let dimension = Dimension::Card(card);
        CardFigures {
            card: name.into(),
            deserved: to_i64(cluster.deserved(id, dimension)),
            allocated: to_i64(queue.allocated_in_all(dimension)),
            request: to_i64(queue.request_in_all(dimension)),
            capacity: limit(cluster, id, dimension).map(to_i64),
        }
    });
    let mut waiting = BTreeMap::<Reason, usize>::new();
    let mut oldest = None;
    for (_, peers) in queue.waiting.peers() {
        // The pods stand in the order of their creation, except for pods that came back.
        let has_returned = peers.pods.last().is_some_and(|last| last.returns > 0);
        let looked_at = if has_returned { peers.pods.len() } else { 1 };
        let created = peers.pods.iter().take(looked_at).map(|place| place.created).min();
        oldest = [oldest, created].into_iter().flatten().min();
        if let Some(refused) = peers.refused {
            *waiting.entry(refused.reason).or_default() += peers.pods.len();
        }
    }
    for (id, reason) in queue.waiting.aside() {
        let created = cluster.pod(id).map(|pod| pod.created);
        oldest = [oldest, created].into_iter().flatten().min();
        *waiting.entry(reason).or_default() += 1;
    }
    QueueFigures {
        queue: Arc::clone(&queue.name),
        cards: cards.collect(),
        waiting: waiting.into_iter().collect(),
        oldest,
        standing: is_shown.then(|| standing(cluster, id, queue)),
        unsatisfiable: unsatisfiable(cluster, id).map(|(reason, _)| reason),
    }
}

/// Returns how a queue's use compares to what it deserves, resource by resource.
fn standing(cluster: &Cluster, id: QueueId, queue: &Queue) -> StandingFigures {
    let named = queue.quota().into_iter().flat_map(|quota| {
        let bounds = quota.capability.iter().chain(quota.deserved.iter());
        bounds.chain(quota.guarantee.iter()).map(|(dimension, _)| dimension)
    });
    let requested = [queue.waiting.requested(), &queue.below.requested];
    let used = [&queue.allocated, &queue.below.allocated].into_iter().chain(requested);
    let used = used
        .into_iter()
        .flat_map(|totals| totals.iter().map(|(dimension, _)| dimension));
    let reserved = [&queue.inqueue, &queue.below.inqueue];
    let reserved_of = |dimension| reserved.iter().map(|inqueue| inqueue.resource(dimension)).sum();
    let kept = reserved.iter().flat_map(|inqueue| inqueue.resources());
    // Of what pods and groups ask for, only resources that the cluster has are shown: a tenant can invent any number of names.
    let asked = used.chain(kept).filter(|dimension| cluster.has(*dimension));
    let all: BTreeSet<_> = named.chain(asked).collect();
    let resources = all
        .iter()
        .filter_map(|dimension| Some((*dimension, cluster.names().resource_name(dimension.resource()?))));
    let resources = resources.map(|(dimension, name)| {
        let allocated = queue.allocated_in_all(dimension);
        let capability = queue.quota().and_then(|quota| quota.capability.get(dimension));
        ResourceFigures {
            resource: name.into(),
            deserved: to_i64(cluster.deserved(id, dimension)),
            allocated: to_i64(allocated),
            request: to_i64(queue.request_in_all(dimension)),
            inqueue: to_i64(reserved_of(dimension)),
            capacity: capability,
            real_capacity: cluster.real_capability(id, dimension).map(to_i64),
        }
    });
    let is_over = |dimension: &Dimension| {
        cluster.compares(queue, *dimension) && queue.allocated_in_all(*dimension) > cluster.deserved(id, *dimension)
    };
    StandingFigures {
        resources: resources.collect(),
        share: cluster.share(id).to_f64(),
        overused: all.iter().any(is_over),
    }
}
