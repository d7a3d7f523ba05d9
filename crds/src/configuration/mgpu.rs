//! The mGPU arguments of the `predicates` plugin (mGPU, **Volcano Plugin Config**).

use super::yaml::Section;
use super::{ConfigurationError, SCHEDULER_CONF};

/// The plugin's name.
pub(super) const PLUGIN: &str = "predicates";
/// The prefix of its mGPU arguments; the others are Volcano's own.
const PREFIX: &str = "predicate.MGPU";

const ENABLE: &str = "predicate.MGPUEnable";
const POLICY: &str = "predicate.MGPUPolicy";
const WEIGHT_OF_CORE: &str = "predicate.MGPUWeightOfCore";
const SCHEDULE_MODE: &str = "predicate.MGPUScheduleMode";
const MAX_CONTAINERS_PER_CARD: &str = "predicate.MGPUMaxContainersPerCard";

/// Which cards of a node go first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CardStrategy {
    /// Those that are fullest afterwards.
    #[default]
    Binpack,
    /// Those that are emptiest afterwards.
    Spread,
}

/// How the result of scheduling names cards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScheduleMode {
    /// By their index on the node.
    #[default]
    Index,
    /// By their device id.
    Id,
}

/// The mGPU arguments of the `predicates` plugin. The defaults are the values of the document's own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mgpu {
    /// Whether mGPU pods are placed on cards at all; otherwise they are let in like any other pod.
    pub enable: bool,
    /// Which cards go first.
    pub policy: CardStrategy,
    /// The weight of compute against memory in the score of a card, in percent.
    pub weight_of_core: u8,
    /// How results name cards.
    pub schedule_mode: ScheduleMode,
    /// How many containers may share a card.
    pub max_containers_per_card: u32,
}

impl Default for Mgpu {
    fn default() -> Self {
        Self {
            enable: true,
            policy: CardStrategy::default(),
            weight_of_core: 20,
            schedule_mode: ScheduleMode::default(),
            max_containers_per_card: 16,
        }
    }
}

pub(super) fn read(mut arguments: Section, warnings: &mut Vec<String>) -> Result<Mgpu, ConfigurationError> {
    let mut read = Mgpu::default();
    if let Some(field) = arguments.take(ENABLE) {
        read.enable = field.boolean()?;
    }
    if let Some(field) = arguments.take(POLICY) {
        // The document writes both `binpack` and `Binpack`.
        let named = [("binpack", CardStrategy::Binpack), ("spread", CardStrategy::Spread)];
        read.policy = field.one_of(named, str::eq_ignore_ascii_case, "binpack or spread")?;
    }
    if let Some(field) = arguments.take(WEIGHT_OF_CORE) {
        read.weight_of_core = field.integer(0..=100, "a whole number from 0 to 100, in percent")?;
    }
    if let Some(field) = arguments.take(SCHEDULE_MODE) {
        let named = [("index", ScheduleMode::Index), ("id", ScheduleMode::Id)];
        read.schedule_mode = field.one_of(named, str::eq_ignore_ascii_case, "index or id")?;
    }
    if let Some(field) = arguments.take(MAX_CONTAINERS_PER_CARD) {
        read.max_containers_per_card = field.integer(1..=u32::MAX, "a whole number, at least 1")?;
    }
    let unknown = arguments.keys().filter(|key| key.starts_with(PREFIX));
    warnings.extend(unknown.map(|key| {
        format!(
            "{SCHEDULER_CONF}: {} is unknown and has no effect: the mGPU arguments of {PLUGIN} are {}",
            arguments.path_of(key),
            [ENABLE, POLICY, WEIGHT_OF_CORE, SCHEDULE_MODE, MAX_CONTAINERS_PER_CARD].join(", ")
        )
    }));
    Ok(read)
}
