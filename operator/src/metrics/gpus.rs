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

/// A metric of a card: its name, its help, its figure.
type GpuMetric = (&'static str, &'static str, fn(&GpuFigures) -> i64);

const GPU_METRICS: [GpuMetric; 4] = [
    (
        "cardgate_mgpu_card_core_used",
        "Compute in use of a card that is shared through mGPU, of 100",
        |card| card.core,
    ),
    (
        "cardgate_mgpu_card_memory_used_mebibytes",
        "Memory in use of a card that is shared through mGPU",
        |card| card.memory,
    ),
    (
        "cardgate_mgpu_card_memory_mebibytes",
        "Memory of a card that is shared through mGPU",
        |card| card.total_memory,
    ),
    (
        "cardgate_mgpu_card_containers",
        "Containers on a card that is shared through mGPU",
        |card| card.containers,
    ),
];

/// The cards of all nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Gpus(Arc<Mutex<Nodes>>);

impl Gpus {
    /// Replaces the cards of one node; none takes it out.
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
