//! What Cardgate shows: the reporter writes inventories, card types, usages, pod conditions and events to the API.
//!
//! The deciding thread sends [`Report`]s and never waits. The reporter keeps the newest report for each object and compares it with what
//! the API server has. It writes the differences within a budget of its own, which admissions do not share: conditions and discoveries
//! first, then events, then usage numbers once things are quiet, those of nodes last.

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
pub use writer::{LAST_EVENTS, Reporter};

/// Something that should be readable in the API. The newest report for an object replaces an older report that is not written yet. The
/// reporter sets the times in conditions: the transition time of a condition stays while its status does.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// What is shown about a node, a card or a queue.
    Shown(Box<Shown>),
    /// The state of a pod.
    Pod {
        /// The pod that has the condition.
        pod: PodRef,
        /// What the condition says.
        condition: PodReport,
        /// Whether an event says it too.
        event: bool,
    },
    /// The progress of a group.
    Group {
        /// The group that has the status.
        group: WorkloadRef,
        /// The phase that it is to show.
        phase: Phase,
        /// Why the group is not further, in one word and in a message with numbers.
        refused: Option<(Reason, String)>,
    },
    /// A pod is gone or was admitted: messages about it that are not written yet never will be.
    ForgetPod {
        /// The pod's unique id.
        uid: Arc<str>,
    },
    /// Something happened to an object.
    Event {
        /// The object. Events of an object without namespace are kept in the namespace `default`.
        regarding: Box<ObjectReference>,
        /// Whether the event is good or bad.
        kind: EventKind,
        /// Why, in one word.
        reason: Cause,
        /// Why, in a sentence.
        message: String,
    },
    /// Everything that exists has been reported once. Whatever the API has beyond it belongs to nodes, cards and queues that are gone, and
    /// is removed.
    Synced,
}

/// The condition `card.volcano.sh/Admitted` of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReport {
    /// Whether the pod was admitted.
    pub status: bool,
    /// Whether the pod already has the condition with this status, so that its transition time stays.
    pub same_status: bool,
    /// Why, in one word.
    pub reason: Cause,
    /// Why, in a message with numbers.
    pub message: String,
}

/// The sending end for reports. Sending never waits. The channel needs no bound, since the reporter takes reports in without waiting for
/// its own writes.
#[derive(Debug, Clone)]
pub struct Reports(mpsc::UnboundedSender<Report>);

/// The receiving end for reports.
pub type Inbox = mpsc::UnboundedReceiver<Report>;

/// Returns both ends of the channel to the reporter.
pub fn channel() -> (Reports, Inbox) {
    let (sender, inbox) = mpsc::unbounded_channel();
    (Reports(sender), inbox)
}

impl Reports {
    /// Sends a report. The reporter ends when the program does; then the report is dropped.
    pub fn send(&self, report: Report) {
        if self.0.send(report).is_err() {
            tracing::debug!("the reporter has ended");
        }
    }
}
