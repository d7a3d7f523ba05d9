//! Why something waits, in words and numbers that a user can act on: the texts of conditions, events and statuses come from here.

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
use crate::cluster::pod::NotTaken;
use crate::cluster::waiting::Shape;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::Reason;
pub use allocated::got_others;
pub use explanation::Explanation;
pub use let_in::let_in;
pub use notices::{Notice, notices, notices_watched, refused_write, stand_aside};
pub use progress::{Progress, progress};
pub use refresh::{Fresh, Refresher, Reminder};
pub use review::{Asked, Unknown, review};

/// How long a pod waits before it is told why. A pod that gets in at once is spared the write.
const PATIENCE: SignedDuration = SignedDuration::from_millis(700);
/// An object whose creation time is further than this in the future was created before the clock was set back.
const AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// Whether an object has existed long enough to be told why it waits.
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
    /// A queue: why it takes no pods until it is repaired.
    Queue(QueueId),
}

/// What is explained.
#[derive(Debug, Clone, Copy)]
enum Case<'c> {
    Pod(&'c Shape),
    /// A pod that others hold, by scheduling gates of these names.
    HeldElsewhere(&'c str),
    Workload(WorkloadId),
    Queue(&'c str),
}

/// Returns why something waits; none where nothing has been found in its way.
pub fn explain(cluster: &Cluster, subject: Subject) -> Option<Explanation<'_>> {
    let (case, reason) = refusal(cluster, subject)?;
    let pod = match subject {
        Subject::Pod(id) => Some(id),
        Subject::Workload(_) | Subject::Queue(_) => None,
    };
    let found = explanation::find(cluster, case, pod, reason);
    Some(found.with_what_is_beyond(case))
}

/// Returns why something waits, in one word and a short text. For a pod that only lacks a node, this does not look at every node.
pub fn explain_in_brief(cluster: &Cluster, subject: Subject) -> Option<(Reason, String)> {
    let (case, reason) = refusal(cluster, subject)?;
    let said = match (case, reason) {
        (Case::Pod(_), Reason::NoNodeFits) => "no node has room for the pod now".to_owned(),
        (Case::Pod(_), Reason::NodesExcluded) => reason.message(pod::ALL_EXCLUDED),
        _ => explanation::find(cluster, case, None, reason).message(),
    };
    Some((reason, said))
}

/// Returns why something waits, in one word.
pub fn reason(cluster: &Cluster, subject: Subject) -> Option<Reason> {
    refusal(cluster, subject).map(|(_, reason)| reason)
}

/// Returns what is explained, and the reason.
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

/// Returns the message where the API server has not let something in.
fn refusal_of_write(what: &str, how: NotTaken, message: &str, until: Option<Timestamp>) -> String {
    // The length of a policy's message is up to its author.
    const MOST: usize = 600;
    let message = printable(&message[..message.floor_char_boundary(MOST)]);
    let until = until.map_or_else(|| "later".to_owned(), |until| format!("at {until}"));
    match how {
        NotTaken::Refused => format!(
            "the API server refuses to let {what} in: {message}; it holds nothing meanwhile, and is tried again {until}, later each time"
        ),
        NotTaken::Failed => format!(
            "the API server could not let {what} in, which may work later: {message}; it holds nothing meanwhile, and is tried again {until}"
        ),
    }
}
