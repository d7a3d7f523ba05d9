//! Metrics of queues and cards, read from the newest picture at each scrape: what is gone from it is gone from `/metrics`.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::Reason;

/// One queue as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFigures {
    /// Its name.
    pub queue: Arc<str>,
    /// Its cards.
    pub cards: Vec<CardFigures>,
    /// How many pods wait in it, by reason; each reason at most once.
    pub waiting: Vec<(Reason, usize)>,
}

/// One card of a queue, in whole cards (Capacity Card, **Metrics and Observability**).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardFigures {
    /// The card's name.
    pub card: Arc<str>,
    /// What the queue should have of it.
    pub deserved: i64,
    /// What its pods hold.
    pub allocated: i64,
    /// What its pods hold and ask for.
    pub request: i64,
    /// What it may have at most.
    pub capacity: i64,
}

/// A metric of a card: its name, its help, its figure.
type CardMetric = (&'static str, &'static str, fn(&CardFigures) -> i64);

const CARD_METRICS: [CardMetric; 4] = [
    (
        "volcano_queue_card_deserved",
        "Deserved cards per queue, in whole cards",
        |card| card.deserved,
    ),
    (
        "volcano_queue_card_allocated",
        "Currently allocated cards per queue, in whole cards",
        |card| card.allocated,
    ),
    (
        "volcano_queue_card_request",
        "Requested cards per queue, in whole cards",
        |card| card.request,
    ),
    (
        "volcano_queue_card_capacity",
        "Card capacity per queue, in whole cards",
        |card| card.capacity,
    ),
];

#[derive(Debug)]
pub(super) struct Queues(pub(super) Arc<ArcSwap<Vec<QueueFigures>>>);

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.load();
        for (name, help, figure) in CARD_METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for queue in queues.iter() {
                for card in &queue.cards {
                    let labels = [("queue_name", &*queue.queue), ("card", &*card.card)];
                    metric.encode_family(&labels)?.encode_gauge(&figure(card))?;
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
        Ok(())
    }
}
