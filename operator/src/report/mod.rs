//! What Cardgate shows: the reporter writes inventories, card types, usages, pod conditions and events to the API.
//!
//! Whoever decides sends [`Report`]s and never waits. The reporter keeps the newest for each object, compares it with what
//! the API server already has, and writes what differs within a budget that admissions do not share: conditions and
//! discoveries first, then events, then numbers of use once things are quiet, those of nodes last.

mod api;
mod event;
mod message;
mod objects;
mod queue;
mod shelf;
mod shelves;
mod shown;
mod taken;
mod unwritten;
mod writer;

use std::sync::Arc;

use engine::cluster::workload::Phase;
use engine::happening::Cause;
use engine::overview::Shown;
use engine::reason::Reason;
use engine::refs::{PodRef, WorkloadRef};
pub use event::EventKind;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
pub use writer::Reporter;

/// Something that should be readable in the API. The newest report for an object replaces an older one that is not written
/// yet. Times in conditions are set by the reporter: the transition time of a condition stays while its status does.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// What there is to see of a node, a card or a queue.
    Shown(Box<Shown>),
    /// How a pod stands.
    Pod {
        /// Whose condition it is.
        pod: PodRef,
        /// What its condition says.
        condition: PodReport,
        /// Whether to say it in an event too.
        event: bool,
    },
    /// How far a group is.
    Group {
        /// Whose status it is.
        group: WorkloadRef,
        /// The phase that it is to show.
        phase: Phase,
        /// Why it is not further, in one word and with the numbers.
        refused: Option<(Reason, String)>,
    },
    /// A pod is gone or let in: what is not written about it yet never will be.
    ForgetPod {
        /// Its unique id.
        uid: Arc<str>,
    },
    /// Something happened to an object.
    Event {
        /// The object. Events of an object without namespace are kept in the namespace `default`.
        regarding: Box<ObjectReference>,
        /// Whether it is good or bad.
        kind: EventKind,
        /// Why, in one word.
        reason: Cause,
        /// Why, in a sentence.
        message: String,
    },
    /// Everything there is has been reported once: what the API has beyond it belongs to nodes, cards and queues that are
    /// gone, and is removed.
    Synced,
}

/// The condition `card.volcano.sh/Admitted` of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReport {
    /// Whether the pod was let in.
    pub status: bool,
    /// Whether the pod already has the condition with this status, so that its transition time stays.
    pub same_status: bool,
    /// Why, in one word.
    pub reason: Cause,
    /// Why, with the numbers.
    pub message: String,
}

/// Where reports are sent. Sending never waits: the reporter takes in what is sent without waiting for what it writes, so
/// the channel needs no bound.
#[derive(Debug, Clone)]
pub struct Reports(mpsc::UnboundedSender<Report>);

/// What the reporter takes reports from.
pub type Inbox = mpsc::UnboundedReceiver<Report>;

/// Both ends of the way to the reporter.
pub fn channel() -> (Reports, Inbox) {
    let (sender, inbox) = mpsc::unbounded_channel();
    (Reports(sender), inbox)
}

impl Reports {
    /// Sends a report. Once the reporter has ended, as it does when the program does, nobody is left to read it.
    pub fn send(&self, report: Report) {
        if self.0.send(report).is_err() {
            tracing::debug!("the reporter has ended");
        }
    }
}
