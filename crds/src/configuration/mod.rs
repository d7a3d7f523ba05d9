//! The configuration: the documents' `volcano-scheduler.conf` and Cardgate's own `cardgate.yaml`.
//!
//! Both are YAML and both are optional. One module for each plugin reads that plugin's arguments. The settings of Volcano's
//! other plugins do not concern Cardgate and are skipped.

mod capacity;
mod capacity_card;
mod card_drivers;
mod cross_quota;
mod duration;
mod mgpu;
mod patterns;
mod scheduler;
mod settings;
#[cfg(test)]
mod tests;
mod yaml;

use thiserror::Error;

use crate::bounds::excerpt;

pub use capacity::{Capacity, LogLevel};
pub use capacity_card::CapacityCard;
pub use card_drivers::{CardDriver, KNOWN_DRIVERS};
pub use cross_quota::{CrossQuota, GpuResources, QuotaResource};
pub use duration::format_duration;
pub use mgpu::{CardStrategy, Mgpu, ScheduleMode};
pub use settings::{AdmitOn, Enforcement, Settings, UnnamedCards, UnqueuedCards};

/// Key of the `ConfigMap` with the documents' plugin configuration.
pub const SCHEDULER_CONF: &str = "volcano-scheduler.conf";
/// Key of the `ConfigMap` with Cardgate's own settings.
pub const CARDGATE_YAML: &str = "cardgate.yaml";

/// Returns warnings about keys of the `ConfigMap` that nobody reads.
pub fn unknown_keys<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<String> {
    let unknown = keys
        .into_iter()
        .filter(|key| ![SCHEDULER_CONF, CARDGATE_YAML].contains(key));
    let warning = |key| {
        let key = excerpt(key);
        format!("key {key:?} is not known and has no effect: write {CARDGATE_YAML} or {SCHEDULER_CONF}")
    };
    unknown.take(MOST_WARNINGS).map(warning).collect()
}

/// Returns a number for the texts of both keys. It is the same for the same texts in every replica of every program, and
/// differs for other texts. It is at most 2^52, which metrics hold exactly.
pub fn generation(volcano_scheduler_conf: Option<&str>, cardgate_yaml: Option<&str>) -> i64 {
    // FNV-1a. The separators distinguish "a" and "" from "" and "a", and an absent key from an empty one.
    let texts = [volcano_scheduler_conf, cardgate_yaml];
    let bytes = texts.into_iter().flat_map(|text| {
        let separator = [0xff, u8::from(text.is_some())];
        text.unwrap_or_default().bytes().chain(separator)
    });
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::try_from(hash >> 12).unwrap_or_default()
}

/// A configuration that can't be put in force. The message names the key of the `ConfigMap`, the place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum ConfigurationError {
    /// Not YAML, or YAML that says a key twice.
    #[error("{file}: this is no valid YAML: {reason}")]
    Syntax { file: &'static str, reason: String },
    /// A value of the wrong type, or out of range.
    #[error("{file}: {path} is {found}: write {expected}")]
    Value {
        file: &'static str,
        path: String,
        found: String,
        expected: &'static str,
    },
    /// One plugin twice, each time with other arguments.
    #[error(
        "{file}: {path} names the plugin {plugin} a second time, with other arguments: name it once, with all its arguments"
    )]
    PluginTwice {
        file: &'static str,
        path: String,
        plugin: String,
    },
    /// Two plugins that rule the same queues (Capacity Card, **Plugin Compatibility**).
    #[error(
        "{file}: the plugins {first} and {second} are both enabled, and each would decide about queues: remove one"
    )]
    Incompatible {
        file: &'static str,
        first: &'static str,
        second: &'static str,
    },
}

/// The plugin, and so the document, that rules queues (docs/rules.md, **Queues**).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueuePlugin {
    /// `capacity-card`: what a queue's capability and card quota do not name, it has none of.
    #[default]
    CapacityCard,
    /// `capacity`: what a queue's capability does not name is limited by the cluster alone.
    Capacity,
    /// Plugins are listed, and neither of these: what is not listed is off, as in Volcano, so queues limit nothing.
    Off,
}

impl QueuePlugin {
    /// The plugin, as configurations name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CapacityCard => "capacity-card",
            Self::Capacity => "capacity",
            Self::Off => "none",
        }
    }
}

/// Everything that can be configured, with the documents' defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Volcano's actions, in the order in which they are named.
    pub actions: Vec<String>,
    /// The plugin that rules queues.
    pub queue_plugin: QueuePlugin,
    /// Arguments of the `capacity` plugin, and those of `capacity-card` that are the same.
    pub capacity: Capacity,
    /// Arguments of the `capacity-card` plugin.
    pub capacity_card: CapacityCard,
    /// Arguments of the `crossquota` plugin; none where it is not enabled.
    pub cross_quota: Option<CrossQuota>,
    /// mGPU arguments of the `predicates` plugin.
    pub mgpu: Mgpu,
    /// Cardgate's own settings.
    pub cardgate: Settings,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            actions: scheduler::default_actions(),
            queue_plugin: QueuePlugin::default(),
            capacity: Capacity::default(),
            capacity_card: CapacityCard::default(),
            cross_quota: None,
            mgpu: Mgpu::default(),
            cardgate: Settings::default(),
        }
    }
}

/// How many warnings of a configuration are reported.
const MOST_WARNINGS: usize = 100;

/// A configuration that can be put in force, and what its author should know about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// What is to be in force.
    pub configuration: Configuration,
    /// What has no effect, each naming the key of the `ConfigMap` and the place.
    pub warnings: Vec<String>,
}

impl Configuration {
    /// Whether `actions` names this action.
    pub fn has_action(&self, action: &str) -> bool {
        self.actions.iter().any(|named| named == action)
    }

    /// Whether what queues borrow is taken back: `actions` names `reclaim`, and the plugin's argument `reclaimable` allows it.
    pub fn reclaims(&self) -> bool {
        self.queue_plugin != QueuePlugin::Off && self.has_action("reclaim") && self.capacity.reclaimable
    }

    /// Reads the two keys of the `ConfigMap`. A key that is absent, empty or has only comments leaves the defaults.
    pub fn parse(
        volcano_scheduler_conf: Option<&str>,
        cardgate_yaml: Option<&str>,
    ) -> Result<Parsed, ConfigurationError> {
        let mut parsed = Parsed::default();
        if let Some(text) = volcano_scheduler_conf {
            scheduler::read(text, &mut parsed)?;
        }
        if let Some(text) = cardgate_yaml {
            parsed.configuration.cardgate = settings::read(text, &mut parsed.warnings)?;
        }
        bound(&mut parsed.warnings);
        Ok(parsed)
    }
}

/// Keeps the first warnings, and says how many more there are: nobody mends hundreds at once.
fn bound(warnings: &mut Vec<String>) {
    let more = warnings.len().saturating_sub(MOST_WARNINGS);
    if more > 0 {
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!("and {more} more: mend these first"));
    }
}
