//! Why something waits, in words and numbers that a user can act on: what conditions, events and statuses say comes from here.

mod allocated;
mod answer;
mod before;
mod beyond;
mod cross_quota;
mod estimate;
mod explanation;
mod found;
mod holders;
mod imagined;
mod in_the_way;
mod joined;
mod let_in;
mod nodes;
mod notices;
mod pod;
mod progress;
mod queue;
mod refresh;
mod remedy;
mod review;
mod short;
mod turns;
mod words;
mod workload;

use crds::bounds::printable;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::Reason;
pub use allocated::got_others;
pub use explanation::Explanation;
pub use let_in::let_in;
pub use notices::{Notice, notices, notices_watched, refused_write, stands_aside};
pub use progress::{Progress, progress};
pub use refresh::{Fresh, Refresher, Reminder};
pub use review::{Asked, Unknown, review};

/// How long a pod waits before it is told why: one that gets in at once is spared the write.
const PATIENCE: SignedDuration = SignedDuration::from_millis(700);
/// Who was created so much later than now was created by a clock that has been set back since.
const AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// Whether somebody has been there for long enough to be told why he waits.
fn has_been_patient(created: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(created);
    age >= PATIENCE || age < -AHEAD
}

/// What waits, or keeps others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A waiting pod.
    Pod(PodId),
    /// A `PodGroup` or a Job.
    Workload(WorkloadId),
    /// A queue: why it takes no pods until it is mended.
    Queue(QueueId),
}

/// What is explained.
#[derive(Debug, Clone, Copy)]
enum Case<'c> {
    Pod(&'c Shape),
    /// A pod that others hold, by these gates.
    HeldElsewhere(&'c str),
    Workload(WorkloadId),
    Queue(&'c str),
}

/// Why something waits; none where nothing has been found in its way.
pub fn explain(cluster: &Cluster, subject: Subject) -> Option<Explanation<'_>> {
    let (case, reason) = refusal(cluster, subject)?;
    let pod = match subject {
        Subject::Pod(id) => Some(id),
        Subject::Workload(_) | Subject::Queue(_) => None,
    };
    let found = explanation::find(cluster, case, pod, reason);
    Some(found.with_what_is_beyond(case))
}

/// The same in one word and few others: who only lacks a node is told so without a look at every one.
pub fn explain_in_brief(cluster: &Cluster, subject: Subject) -> Option<(Reason, String)> {
    let (case, reason) = refusal(cluster, subject)?;
    let said = match (case, reason) {
        (Case::Pod(_), Reason::NoNodeFits) => "no node has room for the pod now".to_owned(),
        (Case::Pod(_), Reason::NodesExcluded) => reason.message(pod::ALL_EXCLUDED),
        _ => explanation::find(cluster, case, None, reason).message(),
    };
    Some((reason, said))
}

/// Why something waits, in one word.
pub fn reason(cluster: &Cluster, subject: Subject) -> Option<Reason> {
    refusal(cluster, subject).map(|(_, reason)| reason)
}

/// What is explained, and the reason.
fn refusal(cluster: &Cluster, subject: Subject) -> Option<(Case<'_>, Reason)> {
    Some(match subject {
        Subject::Pod(id) => {
            let pod = cluster.pod(id)?;
            if pod.is_held_elsewhere() {
                let gates = pod.other_gates.as_deref().unwrap_or_default();
                return Some((Case::HeldElsewhere(gates), Reason::HeldByAnotherGate));
            }
            let shape = &*pod.waits.as_ref()?.shape;
            let (_, peers) = cluster.queue(shape.queue).waiting.peers_of(shape)?;
            (Case::Pod(shape), peers.refused?.reason)
        }
        Subject::Workload(id) => (Case::Workload(id), cluster.workload(id).refused?.1.reason),
        Subject::Queue(id) => (Case::Queue(cluster.queue(id).problem()?), Reason::QueueInvalid),
    })
}

/// What is told where the API server refuses to let something in.
fn refusal_of_write(what: &str, message: &str, until: Option<Timestamp>) -> String {
    // A policy's message may be as long as its author likes.
    const MOST: usize = 600;
    let message = printable(&message[..message.floor_char_boundary(MOST)]);
    let until = until.map_or_else(|| "later".to_owned(), |until| format!("at {until}"));
    format!(
        "the API server refuses to let {what} in: {message}; it holds nothing meanwhile, and is tried again {until}, later each time"
    )
}
