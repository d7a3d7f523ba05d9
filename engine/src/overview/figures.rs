//! Figures for metrics.

use std::sync::Arc;

use crate::reason::Reason;

/// One queue as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFigures {
    /// Its name.
    pub queue: Arc<str>,
    /// Its cards.
    pub cards: Vec<CardFigures>,
    /// How many pods wait in it, by reason; each reason at most once.
    pub waiting: Vec<(Reason, usize)>,
    /// Its resources, and how it stands to what it deserves; none where these metrics are switched off.
    pub standing: Option<StandingFigures>,
}

/// How a queue stands to what it deserves (the capacity document, **Resource monitoring metrics**).
#[derive(Debug, Clone, PartialEq)]
pub struct StandingFigures {
    /// Resource by resource.
    pub resources: Vec<ResourceFigures>,
    /// The largest part in use of anything that it deserves.
    pub share: f64,
    /// Whether it uses more than it deserves of anything.
    pub overused: bool,
}

/// One resource of a queue: CPU in milli, everything else in whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFigures {
    /// Its name.
    pub resource: Arc<str>,
    /// What the queue should have of it.
    pub deserved: i64,
    /// What its pods have.
    pub allocated: i64,
    /// What its pods have and ask for.
    pub request: i64,
    /// What is kept for workloads that are in it and whose pods have not taken over.
    pub inqueue: i64,
    /// What it may have at most; none where it does not say.
    pub capacity: Option<i64>,
    /// The same, less what is guaranteed to others; none where nothing limits it.
    pub real_capacity: Option<i64>,
}

/// One card of a queue, in whole cards (Capacity Card, **Metrics and Observability**).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardFigures {
    /// The card's name.
    pub card: Arc<str>,
    /// What the queue should have of it.
    pub deserved: i64,
    /// What its pods hold.
    pub allocated: i64,
    /// What its pods hold and ask for.
    pub request: i64,
    /// What it may have at most.
    pub capacity: i64,
}

/// One card of a node that shares cards through mGPU, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuFigures {
    /// Compute in use, of 100.
    pub core: i64,
    /// Memory in use, in MiB.
    pub memory: i64,
    /// Memory that the card has, in MiB.
    pub total_memory: i64,
    /// How many containers share it.
    pub containers: i64,
}
