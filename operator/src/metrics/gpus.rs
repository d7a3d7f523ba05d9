//! Metrics of the cards that nodes share through mGPU, read at each scrape: a node that is gone is gone from `/metrics`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use engine::overview::GpuFigures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// The cards of each node, by index.
pub(super) type Nodes = BTreeMap<Arc<str>, Vec<GpuFigures>>;

/// A metric of a card: its name, its help, and a function for its figure in the unit at the end of the name.
type GpuMetric = (&'static str, &'static str, fn(&GpuFigures) -> f64);

const GPU_METRICS: [GpuMetric; 4] = [
    (
        "cardgate_mgpu_card_compute_used_ratio",
        "Compute in use of a card that is shared through mGPU: 1 is all of it",
        |card| to_f64(card.core) / 100.0,
    ),
    (
        "cardgate_mgpu_card_memory_used_bytes",
        "Memory in use of a card that is shared through mGPU",
        |card| to_f64(card.memory) * MEBIBYTE,
    ),
    (
        "cardgate_mgpu_card_memory_bytes",
        "Memory of a card that is shared through mGPU",
        |card| to_f64(card.total_memory) * MEBIBYTE,
    ),
    (
        "cardgate_mgpu_card_containers",
        "Containers on a card that is shared through mGPU",
        |card| to_f64(card.containers),
    ),
];

/// The unit in which mGPU counts memory, in bytes.
const MEBIBYTE: f64 = 1_048_576.0;

#[expect(clippy::cast_precision_loss, reason = "no card has so much of anything")]
fn to_f64(figure: i64) -> f64 {
    figure as f64
}

/// The cards of all nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Gpus(Arc<Mutex<Nodes>>);

impl Gpus {
    /// Replaces the cards of one node; an empty list removes the node.
    pub(super) fn show(&self, node: &Arc<str>, cards: Vec<GpuFigures>) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cards.is_empty() {
            nodes.remove(node);
        } else {
            nodes.insert(Arc::clone(node), cards);
        }
    }
}

impl Collector for Gpus {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, figure) in GPU_METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (node, cards) in nodes.iter() {
                for (index, card) in cards.iter().enumerate() {
                    let labels = [("node", node.to_string()), ("card", index.to_string())];
                    metric.encode_family(&labels)?.encode_gauge(&figure(card))?;
                }
            }
        }
        Ok(())
    }
}
