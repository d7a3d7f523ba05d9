//! What the mind hears: what the API server shows, and the outcomes of actions.

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
    /// The API server shows a change.
    Observed(Observation),
    /// Another configuration is to be put in force; the sender is notified when it is.
    Configuration(Arc<Configuration>, oneshot::Sender<()>),
    /// The labels of a node have been written, or cannot be written for now.
    NodeLabelled {
        /// The node's name.
        node: Arc<str>,
        /// Its unique id.
        uid: Box<str>,
        /// The task that wrote them. By now another task may write other labels of the same node.
        writer: task::Id,
    },
    /// The label of a node is refused.
    NodeNotLabelled {
        /// The node's name.
        node: Arc<str>,
        /// Its unique id.
        uid: Box<str>,
        /// The refusal, in the API server's words.
        why: String,
    },
    /// The outcome of a decision.
    Outcome(Outcome),
    /// The outcome of a write that was not answered, found out later.
    FoundOut(Outcome),
    /// A Job is resumed, as was decided.
    Resumed(Resumption),
    /// A pod was evicted that could not be placed, or that has more than it was admitted for. Contains the reason and the message for the
    /// event.
    SentBack(PodRef, Happening, String),
    /// Such a pod may not be evicted. Contains the reason in the API server's words.
    NotSentBack(PodRef, String),
    /// The outcomes of evictions, one for each victim.
    Evictions(Box<Eviction>, Vec<EvictionOutcome>),
}
