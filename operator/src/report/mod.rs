//! What Cardgate shows: the reporter writes inventories, card types, usages, pod conditions and events to the API.
//!
//! Whoever decides sends [`Report`]s and never waits. The reporter keeps the newest for each object, compares it with what
//! the API server already has, and writes what differs within a budget that admissions do not share: conditions and
//! discoveries first, then events, then numbers of use once things are quiet.

mod api;
mod event;
mod message;
mod objects;
mod queue;
mod shelf;
mod shown;
pub mod status;
mod taken;
mod writer;

use std::sync::Arc;

use crds::card_inventory::CardInventoryStatus;
use crds::card_type::{CardTypeSpec, CardTypeStatus};
use crds::card_usage::CardUsageStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

use crate::cluster::workload::Phase;
use crate::pod_ref::{PodRef, WorkloadRef};
use crate::policies::Reason;
pub use event::EventKind;
pub use writer::Reporter;

/// Something that should be readable in the API. The newest report for an object replaces an older one that is not written
/// yet. Times in conditions are set by the reporter: the transition time of a condition stays while its status does.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The cards of one node.
    Inventory {
        /// Name of the node, and of the inventory.
        node: Arc<str>,
        /// Its unique id: the node owns the inventory.
        node_uid: Box<str>,
        /// What it has; none removes the inventory.
        status: Option<CardInventoryStatus>,
        /// Whether anything but the use of its cards has changed: then it is written at once.
        prompt: bool,
    },
    /// One card name.
    CardType {
        /// The card name.
        card: Arc<str>,
        /// What it stands for and how many there are; none removes it.
        content: Option<(CardTypeSpec, CardTypeStatus)>,
        /// Whether anything but the use of the cards has changed: then it is written at once.
        prompt: bool,
    },
    /// What one queue has.
    Usage {
        /// Name of the queue, and of the usage.
        queue: Arc<str>,
        /// Its unique id: the queue owns the usage.
        queue_uid: Box<str>,
        /// What it has; none removes the usage.
        status: Option<CardUsageStatus>,
    },
    /// What no queue is charged for. While a queue has the name of the object, the object is the queue's.
    Unaccounted {
        /// What that is; none removes the object.
        status: Option<CardUsageStatus>,
    },
    /// How a pod stands.
    Pod {
        /// The pod.
        pod: PodRef,
        /// What its condition says.
        condition: PodReport,
        /// Whether to say it in an event too.
        event: bool,
    },
    /// How far a group is.
    Group {
        /// The group.
        group: WorkloadRef,
        /// Its phase.
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
        reason: String,
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
    pub reason: &'static str,
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
