//! Metrics of queues and cards, read from the newest picture at each scrape. What is gone from the picture is gone from `/metrics`.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use crds::resources::{CPU, MEMORY, PODS};
use engine::overview::{CardFigures, QueueFigures, ResourceFigures, StandingFigures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A metric of a card: its name, its help, and a function for its figure, which is none if the figure is unlimited.
type CardMetric = (&'static str, &'static str, fn(&CardFigures) -> Option<i64>);

const CARD_METRICS: [CardMetric; 4] = [
    (
        "volcano_queue_card_deserved",
        "Deserved cards per queue, in whole cards",
        |card| Some(card.deserved),
    ),
    (
        "volcano_queue_card_allocated",
        "Currently allocated cards per queue, in whole cards",
        |card| Some(card.allocated),
    ),
    (
        "volcano_queue_card_request",
        "Requested cards per queue, in whole cards",
        |card| Some(card.request),
    ),
    (
        "volcano_queue_card_capacity",
        "Card capacity per queue, in whole cards",
        |card| card.capacity,
    ),
];

/// A metric of a resource: the middle of its name, what it counts, and a function for its figure.
type ResourceMetric = (&'static str, &'static str, fn(&ResourceFigures) -> Option<i64>);

const RESOURCE_METRICS: [ResourceMetric; 6] = [
    ("allocated", "What the queue's pods have", |one| Some(one.allocated)),
    ("request", "What the queue's pods have and ask for", |one| {
        Some(one.request)
    }),
    (
        "inqueue",
        "What is kept for workloads that are in the queue and whose pods have not taken over",
        |one| Some(one.inqueue),
    ),
    ("deserved", "What the queue should have", |one| Some(one.deserved)),
    ("capacity", "What the queue may have at most", |one| one.capacity),
    (
        "real_capacity",
        "What the queue may have at most, less what is guaranteed to others",
        |one| one.real_capacity,
    ),
];

/// How Volcano names a resource in a metric: the end of the metric's name, its unit, and whether a label names the resource.
const RESOURCE_UNITS: [(&str, &str, bool); 3] = [
    ("milli_cpu", "CPU, in milli", false),
    ("memory_bytes", "memory, in bytes", false),
    ("scalar_resources", "other resources, in milli, and pods in whole", true),
];

fn unit_of(resource: &str) -> usize {
    match resource {
        CPU => 0,
        MEMORY => 1,
        _ => 2,
    }
}

/// Returns a figure in the unit of Volcano's own gauge of this name: scalars in milli, pods in whole.
fn in_volcanos_unit(resource: &str, figure: i64) -> i64 {
    if matches!(resource, CPU | MEMORY | PODS) {
        figure
    } else {
        figure.saturating_mul(1000)
    }
}

fn encode_resources(queues: &[QueueFigures], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (metric, what, figure) in RESOURCE_METRICS {
        for (unit, (suffix, of, has_label)) in RESOURCE_UNITS.into_iter().enumerate() {
            let name = format!("volcano_queue_{metric}_{suffix}");
            let mut gauge = encoder.encode_descriptor(&name, &format!("{what}: {of}"), None, MetricType::Gauge)?;
            for queue in queues {
                let resources = queue.standing.iter().flat_map(|standing| &standing.resources);
                for one in resources.filter(|one| unit_of(&one.resource) == unit) {
                    let Some(figure) = figure(one) else { continue };
                    let figure = in_volcanos_unit(&one.resource, figure);
                    let labels = [("queue_name", &*queue.queue), ("resource", &*one.resource)];
                    let labels = if has_label { &labels[..] } else { &labels[..1] };
                    gauge.encode_family(&labels)?.encode_gauge(&figure)?;
                }
            }
        }
    }
    let name = "volcano_queue_share";
    let help = "The largest part in use of anything that the queue deserves";
    let mut share = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (queue, standing) in standings(queues) {
        share
            .encode_family(&[("queue_name", queue)])?
            .encode_gauge(&standing.share)?;
    }
    let name = "volcano_queue_overused";
    let help = "1 if the queue uses more than it deserves of anything";
    let mut overused = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (queue, standing) in standings(queues) {
        let is_over = i64::from(standing.overused);
        overused
            .encode_family(&[("queue_name", queue)])?
            .encode_gauge(&is_over)?;
    }
    Ok(())
}

fn standings(queues: &[QueueFigures]) -> impl Iterator<Item = (&str, &StandingFigures)> {
    queues
        .iter()
        .filter_map(|queue| Some((&*queue.queue, queue.standing.as_ref()?)))
}

#[derive(Debug)]
pub(super) struct Queues(pub(super) Arc<ArcSwap<Vec<QueueFigures>>>);

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.load();
        encode_resources(&queues, &mut encoder)?;
        for (name, help, figure) in CARD_METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for queue in queues.iter().filter(|queue| queue.standing.is_some()) {
                for card in &queue.cards {
                    let labels = [("queue_name", &*queue.queue), ("card", &*card.card)];
                    if let Some(figure) = figure(card) {
                        metric.encode_family(&labels)?.encode_gauge(&figure)?;
                    }
                }
            }
        }
        let mut waiting = encoder.encode_descriptor(
            "cardgate_waiting_pods",
            "Pods that wait, by queue and reason",
            None,
            MetricType::Gauge,
        )?;
        for queue in queues.iter() {
            for (reason, pods) in &queue.waiting {
                let labels = [("queue", &*queue.queue), ("reason", reason.as_str())];
                let pods = i64::try_from(*pods).unwrap_or(i64::MAX);
                waiting.encode_family(&labels)?.encode_gauge(&pods)?;
            }
        }
        let mut oldest = encoder.encode_descriptor(
            "cardgate_oldest_waiting_timestamp",
            "When the pod was created that waits longest in the queue, in seconds since 1970; none where nobody waits",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for queue in queues.iter() {
            if let Some(created) = queue.oldest {
                let labels = [("queue", &*queue.queue)];
                oldest.encode_family(&labels)?.encode_gauge(&created.as_second())?;
            }
        }
        let mut unsatisfiable = encoder.encode_descriptor(
            "cardgate_queue_unsatisfiable",
            "1 while the queue says more than the cluster or a queue above it has, by reason: as condition Satisfiable of its CardUsage",
            None,
            MetricType::Gauge,
        )?;
        for queue in queues.iter() {
            if let Some(reason) = queue.unsatisfiable {
                let labels = [("queue", &*queue.queue), ("reason", reason.as_str())];
                unsatisfiable.encode_family(&labels)?.encode_gauge(&1_i64)?;
            }
        }
        Ok(())
    }
}
