//! Arguments of the `capacity-card` plugin (Capacity Card, **Plugin Configuration**).

use super::ConfigurationError;
use super::capacity::{self, Capacity};
use super::yaml::Section;

/// The plugin's name.
pub(super) const PLUGIN: &str = "capacity-card";

const CARD_UNLIMITED_CPU_MEMORY: &str = "cardUnlimitedCpuMemory";
const NODE_ORDER_WEIGHT: &str = "nodeOrderWeight";

/// Arguments of the `capacity-card` plugin (Capacity Card, **Plugin Configuration**).
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityCard {
    /// Pods that request cards are neither checked nor charged for CPU and memory.
    pub card_unlimited_cpu_memory: bool,
    /// Scales the scores of nodes; positive and finite.
    pub node_order_weight: f64,
}

impl Default for CapacityCard {
    fn default() -> Self {
        Self {
            card_unlimited_cpu_memory: false,
            node_order_weight: 1.0,
        }
    }
}

/// Reads the plugin's own arguments, and those that it has in common with the `capacity` plugin.
pub(super) fn read(
    mut arguments: Section,
    warnings: &mut Vec<String>,
) -> Result<(CapacityCard, Capacity), ConfigurationError> {
    let mut read = CapacityCard::default();
    if let Some(field) = arguments.take(CARD_UNLIMITED_CPU_MEMORY) {
        read.card_unlimited_cpu_memory = field.boolean()?;
    }
    if let Some(field) = arguments.take(NODE_ORDER_WEIGHT) {
        read.node_order_weight = field.positive_number()?;
    }
    let shared = capacity::read_shared(&mut arguments)?;
    let own = [CARD_UNLIMITED_CPU_MEMORY, NODE_ORDER_WEIGHT];
    let known: Vec<_> = own.into_iter().chain(capacity::SHARED_ARGUMENTS).collect();
    arguments.warn_unknown("the arguments of capacity-card", &known, warnings);
    Ok((read, shared))
}
