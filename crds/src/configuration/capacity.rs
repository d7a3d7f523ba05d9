//! Arguments of the `capacity` plugin (the capacity document, section 3; `checkQueueDimensionsOnly` has a document of its
//! own). All but the last also apply to queues with cards, so the `capacity-card` plugin takes them too.

use std::time::Duration;

use super::ConfigurationError;
use super::yaml::{Field, Section};
use crate::names::is_object_name;

/// The plugin's name.
pub(super) const PLUGIN: &str = "capacity";

const ROOT_QUEUE: &str = "rootQueue";
const RECLAIMABLE: &str = "reclaimable";
const ENABLE_OVERUSE: &str = "enableOveruse";
const ENABLE_HIERARCHY: &str = "enableHierarchy";
const LOG_LEVEL: &str = "logLevel";
const METRICS_ENABLED: &str = "metricsEnabled";
const RECLAIM_INTERVAL: &str = "reclaimInterval";
const GUARANTEE_THRESHOLD: &str = "guaranteeThreshold";
const CHECK_QUEUE_DIMENSIONS_ONLY: &str = "checkQueueDimensionsOnly";

/// The arguments that both plugins for queues have.
pub(super) const SHARED_ARGUMENTS: [&str; 8] = [
    ROOT_QUEUE,
    RECLAIMABLE,
    ENABLE_OVERUSE,
    ENABLE_HIERARCHY,
    LOG_LEVEL,
    METRICS_ENABLED,
    RECLAIM_INTERVAL,
    GUARANTEE_THRESHOLD,
];

/// Longest [`Capacity::reclaim_interval`], in seconds: a day.
const MAX_RECLAIM_INTERVAL: u64 = 86_400;

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Every single step, much of it.
    Trace,
    /// What helps to find out why.
    Debug,
    /// What is worth knowing.
    Info,
    /// What is odd.
    Warn,
    /// What went wrong.
    Error,
}

impl LogLevel {
    /// The level, as log filters name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    fn read(field: &Field) -> Result<Self, ConfigurationError> {
        const EXPECTED: &str = "trace, debug, info, warn or error";
        let level = match field.text(EXPECTED)?.to_ascii_lowercase().as_str() {
            "trace" => Self::Trace,
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" | "warning" => Self::Warn,
            "error" => Self::Error,
            _ => return Err(field.refuse(EXPECTED)),
        };
        Ok(level)
    }
}

/// Arguments of the `capacity` plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the document's switches, each by its own name"
)]
pub struct Capacity {
    /// The queue that has no parent, under [`Self::enable_hierarchy`].
    pub root_queue: String,
    /// Whether anything is taken back from queues that use more than they deserve.
    pub reclaimable: bool,
    /// Whether a queue may use more than it deserves while others leave it free.
    pub enable_overuse: bool,
    /// Whether queues have parents, in whose limits they are.
    pub enable_hierarchy: bool,
    /// What is logged; none leaves what the program was started with.
    pub log_level: Option<LogLevel>,
    /// Whether the metrics of queues are shown.
    pub metrics_enabled: bool,
    /// The least time between two attempts to take something back for one queue.
    pub reclaim_interval: Duration,
    /// Above so many percent in use of a dimension, queues below their guarantee go first.
    pub guarantee_threshold: u32,
    /// Compare only the dimensions that a queue's capability names.
    pub check_queue_dimensions_only: bool,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            root_queue: "root".to_owned(),
            reclaimable: true,
            enable_overuse: true,
            enable_hierarchy: false,
            log_level: None,
            metrics_enabled: true,
            reclaim_interval: Duration::from_mins(1),
            guarantee_threshold: 80,
            check_queue_dimensions_only: false,
        }
    }
}

/// Reads all arguments of the `capacity` plugin.
pub(super) fn read(mut arguments: Section, warnings: &mut Vec<String>) -> Result<Capacity, ConfigurationError> {
    let mut read = read_shared(&mut arguments)?;
    if let Some(field) = arguments.take(CHECK_QUEUE_DIMENSIONS_ONLY) {
        read.check_queue_dimensions_only = field.boolean()?;
    }
    let known: Vec<_> = SHARED_ARGUMENTS
        .into_iter()
        .chain([CHECK_QUEUE_DIMENSIONS_ONLY])
        .collect();
    arguments.warn_unknown("the arguments of capacity", &known, warnings);
    Ok(read)
}

/// Takes the arguments that both plugins have.
pub(super) fn read_shared(arguments: &mut Section) -> Result<Capacity, ConfigurationError> {
    let mut read = Capacity::default();
    if let Some(field) = arguments.take(ROOT_QUEUE) {
        const EXPECTED: &str =
            "the name of a queue, in quotes where it is a number: lower case letters, digits, - and .";
        let name = field.text(EXPECTED)?;
        if !is_object_name(name) {
            return Err(field.refuse(EXPECTED));
        }
        name.clone_into(&mut read.root_queue);
    }
    for (key, value) in [
        (RECLAIMABLE, &mut read.reclaimable),
        (ENABLE_OVERUSE, &mut read.enable_overuse),
        (ENABLE_HIERARCHY, &mut read.enable_hierarchy),
        (METRICS_ENABLED, &mut read.metrics_enabled),
    ] {
        if let Some(field) = arguments.take(key) {
            *value = field.boolean()?;
        }
    }
    if let Some(field) = arguments.take(LOG_LEVEL) {
        read.log_level = Some(LogLevel::read(&field)?);
    }
    if let Some(field) = arguments.take(RECLAIM_INTERVAL) {
        let seconds = field.integer(1..=MAX_RECLAIM_INTERVAL, "a whole number of seconds from 1 to 86400")?;
        read.reclaim_interval = Duration::from_secs(seconds);
    }
    if let Some(field) = arguments.take(GUARANTEE_THRESHOLD) {
        let percent = field.integer(0..=100_u32, "a whole number of percent from 0 to 100, such as 80")?;
        read.guarantee_threshold = percent;
    }
    Ok(read)
}
