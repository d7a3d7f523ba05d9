//! Whom a port turned away, as a metric.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why somebody was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The connection did nothing for longest when there were too many.
    Idle,
    /// The connection was being answered for longest when there were too many, and most were.
    Busy,
    /// The body took too long.
    Slow,
    /// The body had taken room for longest when others needed it, or there was none.
    Crowded,
    /// The body is longer than any may be, or holds more values.
    TooLarge,
    /// Neither a certificate nor a token that is believed.
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
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "port_refusals",
            "Connections and requests that a port turned away before anybody looked into them, by port and reason",
            self.0.clone(),
        );
    }

    /// Somebody was turned away.
    pub fn count(&self, port: &'static str, reason: Reason) {
        self.0.get_or_create(&Labels { port, reason }).inc();
    }
}
