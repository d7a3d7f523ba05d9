//! What the mind hears: what the API server shows, and what became of what was done.

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::{Eviction, Resumption};
use engine::happening::Happening;
use engine::refs::PodRef;
use engine::{Observation, Outcome};
use tokio::sync::oneshot;
use tokio::task;

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// The API server shows something else than before.
    Observed(Observation),
    /// Another configuration is to be put in force; who sent it is told when it is.
    Configuration(Arc<Configuration>, oneshot::Sender<()>),
    /// The labels of a node have been written, or could not be for now.
    NodeLabelled {
        /// The node's name.
        node: Arc<str>,
        /// Its unique id.
        uid: Box<str>,
        /// Which task wrote them: another one may write others of the same node by now.
        writer: task::Id,
    },
    /// The label of a node is refused: why, in the API server's words.
    NodeNotLabelled {
        /// The node's name.
        node: Arc<str>,
        /// Its unique id.
        uid: Box<str>,
        /// The refusal.
        why: String,
    },
    /// What became of something that was decided.
    Outcome(Outcome),
    /// What became of a write that had not been answered, found out later.
    FoundOut(Outcome),
    /// A Job is resumed, as was decided.
    Resumed(Resumption),
    /// A pod is evicted that could not be placed, or has more than it was let in for: for the event, why, and in which words.
    SentBack(PodRef, Happening, String),
    /// Such a pod may not be evicted either: why, in the API server's words.
    NotSentBack(PodRef, String),
    /// What became of evictions, victim by victim.
    Evictions(Box<Eviction>, Vec<EvictionOutcome>),
}
