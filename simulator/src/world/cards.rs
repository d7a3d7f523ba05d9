//! The cards that nodes of these worlds can have, by name, and their resources.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::devices;
use crate::objects::{NODES, Objects, SLICES};

/// A card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// As quotas and pods name it.
    pub name: &'static str,
    /// What pods request.
    pub resource: &'static str,
    /// The product label of a node with the card, and its value.
    pub product: (&'static str, &'static str),
}

/// Whole cards of NVIDIA.
pub const GPU: &str = "nvidia.com/gpu";
/// Compute of shared cards.
pub const CORE: &str = "vke.volcengine.com/mgpu-core";
/// Memory of shared cards, in MiB.
pub const MEMORY: &str = "vke.volcengine.com/mgpu-memory";
/// GPU Feature Discovery's label.
pub const PRODUCT: &str = "nvidia.com/gpu.product";

/// All cards.
pub const CARDS: [Card; 8] = [
    card("NVIDIA-A100-SXM4-80GB", GPU, "NVIDIA-A100-SXM4-80GB"),
    card("NVIDIA-H100-80GB-HBM3", GPU, "NVIDIA-H100-80GB-HBM3"),
    card("NVIDIA-A100-PCIE-40GB", GPU, "NVIDIA-A100-PCIE-40GB"),
    card(
        "NVIDIA-A100-PCIE-40GB/mig-1g.5gb-mixed",
        "nvidia.com/mig-1g.5gb",
        "NVIDIA-A100-PCIE-40GB",
    ),
    card(
        "NVIDIA-A100-PCIE-40GB/mig-2g.10gb-mixed",
        "nvidia.com/mig-2g.10gb",
        "NVIDIA-A100-PCIE-40GB",
    ),
    card("Tesla-T4/mps-15g*1/4", "nvidia.com/gpu.shared", "Tesla-T4"),
    card("NVIDIA-L40S/mgpu", CORE, "NVIDIA-L40S"),
    Card {
        name: "Ascend-910B",
        resource: "huawei.com/ascend-910",
        product: ("huawei.com/ascend.product", "Ascend-910B"),
    },
];

/// Cards that nodes have only as devices, and that no label names.
pub const DEVICE_CARDS: [Card; 2] = [
    card("NVIDIA-A100-80GB-PCIe", GPU, ""),
    card("NVIDIA-A100-80GB-PCIe/mig-1g.10gb-mixed", "nvidia.com/mig-1g.10gb", ""),
];

const fn card(name: &'static str, resource: &'static str, product: &'static str) -> Card {
    Card {
        name,
        resource,
        product: (PRODUCT, product),
    }
}

impl Card {
    /// Whether the card is shared through mGPU.
    pub fn is_shared(&self) -> bool {
        self.resource == CORE
    }
}

/// Returns the cards of the existing nodes.
pub fn present(objects: &Objects) -> Vec<Card> {
    let has = |card: &Card| {
        let (label, product) = card.product;
        let is_of = |node: &Value| {
            node["metadata"]["labels"][label] == product && node["status"]["allocatable"][card.resource].is_string()
        };
        objects.list(&NODES).any(|(_, node)| is_of(node))
    };
    if !objects.has_devices {
        return CARDS.into_iter().filter(has).collect();
    }
    let slices = objects.list(&SLICES).map(|(_, slice)| &**slice);
    let by_devices: BTreeSet<_> = devices::complete(slices)
        .iter()
        .filter_map(|device| Some(device.card()?.0))
        .collect();
    let all = CARDS.into_iter().chain(DEVICE_CARDS);
    all.filter(|card| has(card) || by_devices.contains(card.name)).collect()
}
