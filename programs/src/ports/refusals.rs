//! The requests and connections that a port refused, as a metric.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a request or connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There were too many connections, and this one had been idle for longest.
    Idle,
    /// There were too many connections, most were being answered, and this one for longest.
    Busy,
    /// The body took too long.
    Slow,
    /// Other bodies needed the room, and this one had been taking it for longest; or there was no room.
    Crowded,
    /// The body is longer than any may be, or holds more values.
    TooLarge,
    /// The caller had neither a certificate nor a token that is accepted.
    Unknown,
}

impl EncodeLabelValue for Reason {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        use std::fmt::Write as _;
        encoder.write_str(match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Slow => "slow",
            Self::Crowded => "crowded",
            Self::TooLarge => "too-large",
            Self::Unknown => "unknown",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    port: &'static str,
    reason: Reason,
}

/// Counts refusals by port and reason. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Family<Labels, Counter>);

impl Refusals {
    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "port_refusals",
            "Connections and requests that a port turned away before anybody looked into them, by port and reason",
            self.0.clone(),
        );
    }

    /// Counts a refusal.
    pub fn count(&self, port: &'static str, reason: Reason) {
        self.0.get_or_create(&Labels { port, reason }).inc();
    }
}
