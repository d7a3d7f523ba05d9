//! Why something waits, in words and numbers that a user can act on: what conditions, events and statuses say comes from here.

mod cross_quota;
mod holders;
mod notices;
mod pod;
mod progress;
mod queue;
mod refresh;
mod remedy;
mod review;
mod shortages;
mod workload;

use crds::bounds::{printable, told};
use jiff::{SignedDuration, Timestamp};

use crate::cluster::Cluster;
use crate::cluster::pod::Pod;
use crate::cluster::waiting::Shape;
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::{About, Outlook, Reason};
pub use notices::{Notice, notices, notices_watched, refused_write, stands_aside};
pub use progress::{Progress, progress};
pub use refresh::{Fresh, Refresher, Reminder};
pub use review::{Asked, Unknown, review};

/// How long a pod waits before it is told why: one that gets in at once is spared the write.
const PATIENCE: SignedDuration = SignedDuration::from_millis(700);

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
    /// A pod that others hold.
    HeldElsewhere,
    Workload(WorkloadId),
    Queue(&'c str),
}

/// Why something waits. Its texts are made when they are asked for, with the numbers of that moment.
#[derive(Debug, Clone, Copy)]
pub struct Explanation<'c> {
    cluster: &'c Cluster,
    case: Case<'c>,
    /// The pod, where it is one and is there.
    pod: Option<PodId>,
    /// The reason, in one word.
    pub reason: Reason,
}

/// Why something waits; none where nothing has been found in its way.
pub fn explain(cluster: &Cluster, subject: Subject) -> Option<Explanation<'_>> {
    let (case, reason) = match subject {
        Subject::Pod(id) if cluster.pod(id)?.is_held_elsewhere() => (Case::HeldElsewhere, Reason::HeldByAnotherGate),
        Subject::Pod(id) => {
            let shape = &*cluster.pod(id)?.waits.as_ref()?.shape;
            let (_, peers) = cluster.queue(shape.queue).waiting.peers_of(shape)?;
            (Case::Pod(shape), peers.refused?.reason)
        }
        Subject::Workload(id) => (Case::Workload(id), cluster.workload(id).refused?.1.reason),
        Subject::Queue(id) => (Case::Queue(cluster.queue(id).problem()?), Reason::QueueInvalid),
    };
    let pod = match subject {
        Subject::Pod(id) => Some(id),
        Subject::Workload(_) | Subject::Queue(_) => None,
    };
    Some(Explanation {
        cluster,
        case,
        pod,
        reason,
    })
}

impl Explanation<'_> {
    /// The reason, with its numbers; and what a user can't see from them: that waiting does not help, or that the pod waits for its
    /// own predecessor.
    pub fn message(&self) -> String {
        let said = self.in_numbers();
        let more = match self.replaced() {
            Some(old) => format!(
                "your own pod {} of the same Deployment holds some of it: {}",
                old.name,
                self.remedy()
            ),
            None if self.is_never_by_numbers() => format!("waiting can't help: {}", self.remedy()),
            None => return told(said),
        };
        told(format!("{said}; {more}"))
    }

    /// Whether only the numbers tell that it can never be.
    fn is_never_by_numbers(&self) -> bool {
        let by_numbers = matches!(
            self.reason,
            Reason::InsufficientCpuQuota
                | Reason::InsufficientMemoryQuota
                | Reason::InsufficientScalarQuota
                | Reason::NoNodeFits
                | Reason::CrossQuotaExceeded
        );
        by_numbers && self.outlook() == Outlook::Never
    }

    /// The pod that this one is to replace and that has what it lacks.
    fn replaced(&self) -> Option<&Pod> {
        let lacks_quota = matches!(self.reason.about(), About::Quota(_));
        let would_do = lacks_quota && self.outlook() == Outlook::NotYet;
        holders::old_replica(self.cluster, self.pod.filter(|_| would_do)?)
    }

    fn in_numbers(&self) -> String {
        match self.case {
            Case::Pod(shape) => match shape.group {
                Some(group) if workload::speaks_for_its_pods(self.cluster, group, self.reason) => {
                    workload::explain(self.cluster, group, self.reason)
                }
                _ => pod::explain(self.cluster, shape, self.reason),
            },
            Case::Workload(id) => workload::explain(self.cluster, id, self.reason),
            Case::Queue(problem) => problem.to_owned(),
            Case::HeldElsewhere => pod::HELD_ELSEWHERE.to_owned(),
        }
    }

    /// What is missing, in few words: who only lacks a node is told so without a look at every one.
    pub fn in_brief(&self) -> String {
        match self.case {
            Case::Pod(_) if self.reason == Reason::NoNodeFits => "no node has room for the pod now".to_owned(),
            Case::Pod(_) if self.reason == Reason::NodesExcluded => pod::ALL_EXCLUDED.to_owned(),
            Case::Pod(_) | Case::HeldElsewhere | Case::Workload(_) | Case::Queue(_) => self.message(),
        }
    }

    /// Whether waiting can help. It never does where the request is more than could be had if nobody else had anything.
    pub fn outlook(&self) -> Outlook {
        self.reason.outlook(|| match self.case {
            Case::Pod(shape) => pod::could_ever_be_let_in(self.cluster, shape, self.reason),
            Case::Workload(id) => workload::could_ever_be_let_in(self.cluster, id, self.reason),
            Case::HeldElsewhere => true,
            Case::Queue(_) => false,
        })
    }
}

/// What is told where the API server refuses to let something in.
fn refusal_of_write(what: &str, message: &str, until: Option<Timestamp>) -> String {
    // A policy's message may be as long as its author likes.
    const MOST: usize = 600;
    let message = printable(&message[..message.floor_char_boundary(MOST)]);
    let until = until.map_or_else(|| "later".to_owned(), |until| format!("at {until}"));
    format!(
        "the API server refuses to let {what} in: {message}; it holds nothing meanwhile, and is tried again {until}, later each \
         time: have whoever refuses it (a policy, a webhook, a rule of the API server) let it pass, or create it anew without what \
         they refuse"
    )
}
