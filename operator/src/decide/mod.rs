//! What may: one round over the cluster, from what is known to what is to be done.
//!
//! A pure function of the cluster, its configuration and time: the same input gives the same actions, so the simulator,
//! the property tests and the live operator run the same code.

mod explain;
mod fit;
mod narrow;
mod verdict;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::cluster::constraints::NodeAffinity;
use crate::cluster::names::CardId;
use crate::cluster::node::NodeId;
use crate::cluster::pod::PodId;
use crate::cluster::queue::QueueId;
use crate::cluster::share::Share;
use crate::cluster::waiting::Place;
use crate::cluster::{Cluster, Due};
use crate::pod_ref::PodRef;
use crate::policies::Reason;

/// How long a pod waits before it is told why: one that gets in at once is spared the write.
const PATIENCE: SignedDuration = SignedDuration::from_millis(700);

/// A pod that is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The pod.
    pub pod: PodRef,
    /// Its queue.
    pub queue: Arc<str>,
    /// When it came to wait.
    pub arrived: Timestamp,
    /// The card it is charged for.
    pub card: Option<Box<str>>,
    /// Node labels that narrow it to that card, keys and values; without those that it has already.
    pub narrow: Vec<(String, String)>,
    /// Whether it has a node selector.
    pub has_node_selector: bool,
    /// The node that it is pinned to, where what is accounted for is accounted for node by node.
    pub pin: Option<Pin>,
    /// Whether it has annotations.
    pub has_annotations: bool,
    /// Whether it was told that it waits.
    pub was_told: bool,
}

/// The one node that a pod may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Name of the node.
    pub node: Arc<str>,
    /// What the pod's affinity says already, to which the name is added.
    pub affinity: NodeAffinity,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Let a pod in.
    Admit(Admission),
    /// Take an admitted pod back that the scheduler could not place: its controller makes another.
    SendBack {
        /// The pod.
        pod: PodRef,
        /// For the event: how long it had.
        message: String,
    },
    /// Say that an admitted pod without a controller could not be placed, and keeps its place.
    Unplaced {
        /// The pod.
        pod: PodRef,
        /// For the event.
        message: String,
    },
}

/// What one round has decided.
#[derive(Debug, Default)]
pub struct Round {
    /// What is to be done, in this order.
    pub actions: Vec<Action>,
    /// Whether there is more to decide at once.
    pub more: bool,
}

/// Decides what may be done now, and lets in at most `limit` pods. What is let in counts as such from here on.
pub fn decide(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Round {
    let mut round = Round::default();
    for due in cluster.advance(now) {
        let Due::Reservation(pod) = due;
        round.actions.extend(reservation_ran_out(cluster, pod, now));
    }
    let mut queues = Contest::new(cluster);
    while let Some((queue, group)) = queues.next() {
        if round.actions.len() >= limit {
            round.more = true;
            break;
        }
        match verdict::judge(cluster, queue, group) {
            Ok(grant) => {
                round.actions.extend(admit(cluster, queue, group, grant, now));
                queues.admitted(cluster, queue, group);
            }
            Err(refused) => {
                verdict::remember(cluster, queue, group, refused);
                queues.refused();
            }
        }
    }
    round
}

/// What a pod gets when it is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grant {
    card: Option<CardId>,
    node: Option<NodeId>,
    /// Whether the pod may go to that node alone.
    pinned: bool,
}

fn admit(cluster: &mut Cluster, queue: QueueId, group: u64, grant: Grant, now: Timestamp) -> Option<Action> {
    let group = cluster.queue(queue).waiting.group(group)?;
    let (id, shape) = (group.pods.first()?.pod, Arc::clone(&group.shape));
    let pod = cluster.pod(id)?;
    let labels = grant.card.and_then(|card| match grant.node {
        Some(node) => narrow::labels_on(cluster, node, card),
        None => narrow::labels_of(cluster, &shape, card),
    });
    let pin = grant.node.filter(|_| grant.pinned).map(|node| Pin {
        node: Arc::clone(&cluster.node(node).name),
        affinity: shape.constraints.affinity.clone(),
    });
    let missing = |(key, _): &&(String, String)| shape.constraints.node_selector.get(key).is_none();
    let admission = Admission {
        pod: pod_ref(pod),
        queue: Arc::clone(&cluster.queue(queue).name),
        arrived: pod.arrived(),
        card: grant.card.map(|card| cluster.names.card_name(card).into()),
        narrow: labels.into_iter().flatten().filter(missing).cloned().collect(),
        has_node_selector: !shape.constraints.node_selector.is_empty(),
        pin,
        has_annotations: pod.has_annotations,
        was_told: pod.told.is_some(),
    };
    cluster.admit(id, grant.card, grant.node, now);
    Some(Action::Admit(admission))
}

fn reservation_ran_out(cluster: &mut Cluster, id: PodId, now: Timestamp) -> Option<Action> {
    let timeout = cluster.configuration().cardgate.reservation_timeout;
    let pod = cluster.pod(id)?;
    let (pod_ref, controller, returns) = (pod_ref(pod), pod.controller.clone(), pod.returns);
    // Both outcomes are looked at again after another timeout: an eviction can be refused.
    cluster.renew_reservation(id, now);
    let waited = format!(
        "the scheduler has not placed the pod within {} s of its admission",
        timeout.as_secs()
    );
    Some(if let Some(controller) = controller {
        cluster.note_return(&controller, returns, now);
        let message = format!("{waited}: it is evicted, and its successor waits behind the others of its priority");
        Action::SendBack { pod: pod_ref, message }
    } else {
        let message = format!(
            "{waited}: no controller would replace it, so it keeps its quota; delete it, or make room on a node that it \
             may run on"
        );
        Action::Unplaced { pod: pod_ref, message }
    })
}

fn pod_ref(pod: &crate::cluster::pod::Pod) -> PodRef {
    PodRef {
        namespace: Arc::clone(&pod.namespace),
        name: Arc::clone(&pod.name),
        uid: Arc::clone(&pod.uid),
    }
}

/// What a waiting pod is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The pod.
    pub pod: PodRef,
    /// Its queue.
    pub queue: Arc<str>,
    /// Whether it was told another reason before.
    pub told_before: bool,
    /// The reason, in one word.
    pub reason: Reason,
    /// The reason, with the numbers of this moment.
    pub message: String,
}

/// What to tell waiting pods, at most `limit` of them, and remembers them as told. Pods that have waited for less than a
/// moment are passed over: they may yet get in at once.
pub fn notices(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Vec<Notice> {
    let mut untold = Vec::new();
    'queues: for (_, queue) in cluster.queues() {
        for (_, group) in queue.waiting.groups() {
            let Some(refused) = group.refused else { continue };
            for place in &group.untold {
                if untold.len() == limit {
                    break 'queues;
                }
                if now.duration_since(place.created) >= PATIENCE {
                    untold.push((place.pod, refused.reason, Arc::clone(&group.shape)));
                }
            }
        }
    }
    let mut notices = Vec::with_capacity(untold.len());
    for (id, reason, shape) in untold {
        let told = cluster.pod(id).and_then(|pod| pod.told);
        if told != Some(reason) {
            let message = explain::explain(cluster, &shape, reason);
            notices.extend(cluster.pod(id).map(|pod| Notice {
                pod: pod_ref(pod),
                queue: Arc::clone(&cluster.queue(shape.queue).name),
                told_before: told.is_some(),
                reason,
                message,
            }));
        }
        cluster.tell(id, reason);
    }
    notices
}

/// Groups by priority and the place of their first pod, first to go first.
type Turns = BinaryHeap<Reverse<(Reverse<i32>, Place, u64)>>;

/// Whose turn it is: queues by priority, then share, then age; in a queue by priority, then age. Groups whose last
/// refusal still stands take no part.
struct Contest {
    queues: BTreeSet<Standing>,
    /// The groups of each queue.
    groups: Vec<Turns>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    priority: Reverse<i32>,
    share: Share,
    created: Timestamp,
    name: Arc<str>,
    queue: QueueId,
    contest: usize,
}

impl Contest {
    fn new(cluster: &Cluster) -> Self {
        let mut contest = Self {
            queues: BTreeSet::new(),
            groups: Vec::new(),
        };
        for (id, queue) in cluster.queues().filter(|(_, queue)| !queue.waiting.is_empty()) {
            let due = queue.waiting.groups().filter(|(_, group)| {
                group
                    .refused
                    .is_none_or(|refused| !verdict::stands(cluster, queue, refused))
            });
            let groups: Turns = due
                .filter_map(|(group_id, group)| {
                    Some(Reverse((Reverse(group.shape.priority), *group.pods.first()?, group_id)))
                })
                .collect();
            if !groups.is_empty() {
                contest.queues.insert(Standing::of(cluster, id, contest.groups.len()));
                contest.groups.push(groups);
            }
        }
        contest
    }

    fn next(&self) -> Option<(QueueId, u64)> {
        let standing = self.queues.first()?;
        let Reverse((_, _, group)) = self.groups[standing.contest].peek()?;
        Some((standing.queue, *group))
    }

    /// The group is out for this round.
    fn refused(&mut self) {
        let Some(standing) = self.queues.first() else { return };
        let groups = &mut self.groups[standing.contest];
        groups.pop();
        if groups.is_empty() {
            self.queues.pop_first();
        }
    }

    /// The group's next pod takes the place of the one that was let in, and the queue's share has grown.
    fn admitted(&mut self, cluster: &Cluster, queue: QueueId, group: u64) {
        let Some(standing) = self.queues.pop_first() else {
            return;
        };
        let groups = &mut self.groups[standing.contest];
        groups.pop();
        if let Some(group_state) = cluster.queue(queue).waiting.group(group)
            && let Some(place) = group_state.pods.first()
        {
            groups.push(Reverse((Reverse(group_state.shape.priority), *place, group)));
        }
        if !groups.is_empty() {
            self.queues.insert(Standing::of(cluster, queue, standing.contest));
        }
    }
}

impl Standing {
    fn of(cluster: &Cluster, id: QueueId, contest: usize) -> Self {
        let queue = cluster.queue(id);
        let terms = queue.terms.as_ref();
        Self {
            priority: Reverse(terms.map_or(0, |terms| terms.priority)),
            share: queue.share(),
            created: terms.map_or(Timestamp::MAX, |terms| terms.created),
            name: Arc::clone(&queue.name),
            queue: id,
            contest,
        }
    }
}

/// Why the pods of a queue were refused, and how many of them, group by group.
pub fn refusals(cluster: &Cluster, queue: QueueId) -> impl Iterator<Item = (Reason, usize)> + '_ {
    let groups = cluster.queue(queue).waiting.groups();
    groups.filter_map(|(_, group)| Some((group.refused?.reason, group.pods.len())))
}
