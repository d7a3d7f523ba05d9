//! The configuration: the documents' `volcano-scheduler.conf` and Cardgate's own `cardgate.yaml`.

use std::time::Duration;

/// Everything that can be configured, with the documents' defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Arguments of the `capacity-card` plugin.
    pub capacity_card: CapacityCard,
    /// Cardgate's own settings.
    pub cardgate: Settings,
}

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

/// When a waiting pod is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitOn {
    /// When its quota allows it and some node can take it now.
    Fit,
    /// When its quota allows it: for clusters whose autoscaler must see unschedulable pods.
    Quota,
}

/// Cardgate's own settings, from `cardgate.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Queue of pods that name none, in namespaces that name none.
    pub default_queue: String,
    /// When a waiting pod is let in.
    pub admit_on: AdmitOn,
    /// How long the scheduler may take to place an admitted pod before its reservation is given back.
    pub reservation_timeout: Duration,
    /// How long a deleted pod may hold its quota beyond its grace period.
    pub terminating_timeout: Duration,
    /// Deny a pod that requests card resources without naming its card.
    pub require_card_name: bool,
    /// Card resources, whose request without a card name is warned about or denied: exact names, or prefixes that end in
    /// `*`.
    pub card_resources: Vec<String>,
}
