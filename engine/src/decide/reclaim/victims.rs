//! Who may be taken back, and what those must keep whom it is taken from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use super::Modes;
use super::needs::{Lack, Need, Place};
use crate::amounts::{Amounts, Dimension};
use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Workload;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};

/// A pod, or a whole gang, that may be taken back.
pub(super) struct Candidacy {
    pub(super) members: Vec<Member>,
    pub(super) priority: i32,
    created: Timestamp,
    /// The lowest level above the waiting queue that it is part of.
    level: usize,
    charged: Vec<(Dimension, i128)>,
    /// What of that others in the cluster could have: nothing on nodes that take no pods.
    usable: Vec<(Dimension, i128)>,
    /// What it takes from those who must keep some, by the place of the slack.
    pub(super) takes: Vec<(usize, i128)>,
    /// What its queue has more of than it deserves, where it is of another queue.
    borrowed: Option<Rc<[Dimension]>>,
}

/// One pod of it.
pub(super) struct Member {
    pub(super) pod: PodId,
    uid: Arc<str>,
    pub(super) node: Option<NodeId>,
    request: Arc<Amounts>,
    /// Whether it has shares of cards.
    is_on_cards: bool,
}

impl Candidacy {
    fn first_uid(&self) -> Option<&str> {
        self.members.first().map(|member| &*member.uid)
    }

    /// What it gives on a node.
    fn gives_on(&self, node: Option<NodeId>, dimension: Dimension) -> i128 {
        let there = self.members.iter().filter(|member| member.node == node);
        there.map(|member| i128::from(member.request.get(dimension))).sum()
    }

    /// What it gives of what is missing, where the pod is to go to this node.
    pub(super) fn gives(&self, (place, dimension, _): &Need, node: Option<NodeId>) -> i128 {
        let of = |amounts: &[(Dimension, i128)]| {
            let amount = amounts.iter().find(|(known, _)| known == dimension);
            amount.map_or(0, |(_, amount)| *amount)
        };
        match place {
            _ if self.members.is_empty() => 0,
            Place::Node => self.gives_on(node, *dimension),
            Place::Level(level) if self.level <= *level => of(&self.charged),
            Place::Level(_) => 0,
            Place::Cluster => of(&self.usable),
        }
    }

    /// Whether it gives shares of the cards of a node.
    pub(super) fn gives_cards_on(&self, node: Option<NodeId>) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.is_on_cards && member.node == node)
    }

    /// Whether it is to give back anything that is missing: what its queue borrows.
    pub(super) fn is_due(&self, lack: &Lack<'_>) -> bool {
        let Some(borrowed) = &self.borrowed else { return true };
        let mut needs = lack.needs.iter().filter(|need| self.gives(need, lack.node) > 0);
        let borrows = |dimension: Dimension| borrowed.iter().any(|borrowed| lack.is_same(*borrowed, dimension));
        needs.any(|(_, dimension, _)| borrows(*dimension))
            || (lack.of_cards.iter().any(|dimension| borrows(*dimension)) && self.gives_cards_on(lack.node))
    }
}

/// Whoever may be taken back for what may be missing, by rank: lowest priority first, then youngest. `slack` gets what each
/// queue that they are part of has beyond what it must keep.
pub(super) fn candidates(
    cluster: &Cluster,
    shape: &Shape,
    missing: &[Dimension],
    modes: Modes,
    now: Timestamp,
    slack: &mut Vec<Slack>,
) -> Vec<Candidacy> {
    let path: Vec<_> = cluster.ancestry(shape.queue).collect();
    let mut found: Vec<Candidacy> = Vec::new();
    // Queues that are parts of another take from what that one has, together.
    let mut floors = Floors::new(cluster, slack);
    for (id, queue) in cluster.queues() {
        let is_own = id == shape.queue;
        if queue.holders.is_empty() || (is_own && !modes.preempt) || (!is_own && !modes.reclaim) {
            continue;
        }
        let own_path: Vec<_> = cluster.ancestry(id).collect();
        let level = path.iter().position(|level| own_path.contains(level));
        let level = level.unwrap_or(path.len());
        let below = own_path.iter().copied().take_while(|level| !path.contains(level));
        let below: Vec<_> = below.collect();
        let borrowed = missing.iter().copied();
        let borrowed: Rc<[Dimension]> = borrowed
            .filter(|dimension| cluster.borrows(&below, *dimension))
            .collect();
        if !is_own && (borrowed.is_empty() || !below.iter().all(|level| is_reclaimable(cluster, *level))) {
            continue;
        }
        let mut gangs: BTreeMap<WorkloadId, Vec<Candidacy>> = BTreeMap::new();
        for pod_id in &queue.holders {
            let Some(pod) = cluster.pod(*pod_id) else { continue };
            let is_lower = !is_own || pod.priority < shape.priority;
            let Some(charge) = pod
                .charge
                .as_ref()
                .filter(|_| is_lower && is_evictable(cluster, pod, now))
            else {
                continue;
            };
            let amounts = charge.amounts.iter();
            let charged: Vec<_> = amounts.map(|(dimension, amount)| (dimension, amount.into())).collect();
            let candidacy = Candidacy {
                takes: floors.takes(&below, &charged),
                members: vec![Member {
                    pod: *pod_id,
                    uid: Arc::clone(&pod.uid),
                    node: pod.room,
                    request: Arc::clone(&pod.task.request),
                    is_on_cards: pod.task.mgpu.is_some(),
                }],
                priority: pod.priority,
                created: pod.created,
                level,
                usable: if cluster.gives_to_others(pod.room) {
                    charged.clone()
                } else {
                    Vec::new()
                },
                charged,
                borrowed: (!is_own).then(|| Rc::clone(&borrowed)),
            };
            match pod.group.filter(|group| cluster.workload(*group).min_member() > 1) {
                Some(group) => gangs.entry(group).or_default().push(candidacy),
                None => found.push(candidacy),
            }
        }
        for (group, members) in gangs {
            found.extend(of_gang(cluster, cluster.workload(group), members, floors.slack));
        }
    }
    found.sort_unstable_by(|a, b| {
        let key = |one: &Candidacy| (one.priority, Reverse(one.created), one.members.len());
        key(a).cmp(&key(b)).then_with(|| a.first_uid().cmp(&b.first_uid()))
    });
    found
}

fn is_evictable(cluster: &Cluster, pod: &Pod, now: Timestamp) -> bool {
    matches!(pod.stage, Stage::Bound | Stage::Unbound { .. })
        && pod.deleted.is_none()
        && !cluster.is_leaving(pod, now)
        && pod.eviction.spared_until.is_none_or(|until| until <= now)
}

/// How a gang may be taken back: as many single pods as it has beyond its minimum, or all of it.
fn of_gang(cluster: &Cluster, workload: &Workload, members: Vec<Candidacy>, slack: &mut Vec<Slack>) -> Vec<Candidacy> {
    let count = |number: usize| i128::try_from(number).unwrap_or(i128::MAX);
    let (surplus, of_tasks) = workload.surplus();
    let place = slack.len();
    // One place for all of its pods, and one more for those of each task.
    let surpluses = std::iter::once(surplus).chain(of_tasks.iter().map(|(_, surplus)| *surplus));
    let surpluses: Vec<_> = surpluses.map(count).collect();
    slack.extend(surpluses.iter().copied().map(Slack::of_pods));
    let beyond = |task: Option<&str>| {
        let task = of_tasks.iter().position(|(known, _)| Some(&**known) == task);
        [Some(place), task.map(|task| place + 1 + task)].into_iter().flatten()
    };
    let mut found = Vec::new();
    // What some of its pods keep from being evicted can't go as a whole.
    if members.len() == workload.admitted() {
        let mut whole = Candidacy {
            members: Vec::new(),
            priority: i32::MIN,
            created: Timestamp::MAX,
            level: 0,
            charged: Vec::new(),
            usable: Vec::new(),
            takes: (place..).zip(surpluses).collect(),
            borrowed: None,
        };
        for member in &members {
            whole.level = member.level;
            whole.borrowed.clone_from(&member.borrowed);
            whole.priority = whole.priority.max(member.priority);
            whole.created = whole.created.min(member.created);
            add_up(&mut whole.charged, &member.charged);
            add_up(&mut whole.usable, &member.usable);
            add_up(&mut whole.takes, &member.takes);
            whole.members.extend(member.members.iter().map(|one| Member {
                pod: one.pod,
                uid: Arc::clone(&one.uid),
                node: one.node,
                request: Arc::clone(&one.request),
                is_on_cards: one.is_on_cards,
            }));
        }
        found.push(whole);
    }
    if surplus > 0 {
        found.extend(members.into_iter().map(|mut member| {
            let task = member
                .members
                .first()
                .and_then(|one| cluster.pod(one.pod)?.task_spec.as_deref());
            member.takes.extend(beyond(task).map(|place| (place, 1)));
            member
        }));
    }
    found
}

/// Adds amounts to those of the same key.
fn add_up<K: PartialEq + Copy>(sums: &mut Vec<(K, i128)>, amounts: &[(K, i128)]) {
    for (key, amount) in amounts {
        match sums.iter_mut().find(|(known, _)| known == key) {
            Some((_, sum)) => *sum += amount,
            None => sums.push((*key, *amount)),
        }
    }
}

fn is_reclaimable(cluster: &Cluster, id: QueueId) -> bool {
    cluster.queue(id).terms().is_none_or(|terms| terms.reclaimable)
}

/// What somebody has beyond what he must keep.
pub(super) struct Slack {
    /// Of this; none where it is pods of a gang.
    dimension: Option<Dimension>,
    /// Where it is missing: beyond what is deserved and what is guaranteed.
    where_missing: i128,
    /// Where others lack something else, and only take it along: beyond what is guaranteed.
    elsewhere: i128,
}

impl Slack {
    /// So many pods of a gang.
    fn of_pods(count: i128) -> Self {
        Self {
            dimension: None,
            where_missing: count,
            elsewhere: count,
        }
    }

    /// What may be taken for what a pod lacks.
    pub(super) fn when(&self, lack: &Lack<'_>) -> i128 {
        if self.dimension.is_some_and(|dimension| lack.has(dimension)) {
            self.where_missing
        } else {
            self.elsewhere
        }
    }

    /// So much was taken.
    pub(super) fn shrink(&mut self, amount: i128) {
        self.where_missing -= amount;
        self.elsewhere -= amount;
    }
}

/// What the queues that a pod is part of must keep.
struct Floors<'c, 's> {
    cluster: &'c Cluster,
    /// Where the slack of a queue is; none where it need not keep any.
    places: HashMap<(QueueId, Dimension), Option<usize>>,
    slack: &'s mut Vec<Slack>,
}

impl<'c, 's> Floors<'c, 's> {
    fn new(cluster: &'c Cluster, slack: &'s mut Vec<Slack>) -> Self {
        Self {
            cluster,
            places: HashMap::new(),
            slack,
        }
    }

    /// What a pod takes from what they have beyond that.
    fn takes(&mut self, levels: &[QueueId], charged: &[(Dimension, i128)]) -> Vec<(usize, i128)> {
        let mut takes = Vec::new();
        for level in levels {
            for (dimension, amount) in charged {
                if let Some(place) = self.place(*level, *dimension) {
                    takes.push((place, *amount));
                }
            }
        }
        takes
    }

    fn place(&mut self, level: QueueId, dimension: Dimension) -> Option<usize> {
        if let Some(place) = self.places.get(&(level, dimension)) {
            return *place;
        }
        let place = self.cluster.floor(level, dimension).map(|floor| {
            let queue = self.cluster.queue(level);
            let (has, guarantee) = (queue.allocated_in_all(dimension), queue.guaranteed_in_all(dimension));
            self.slack.push(Slack {
                dimension: Some(dimension),
                where_missing: has - floor,
                elsewhere: if guarantee > 0 { has - guarantee } else { i128::MAX },
            });
            self.slack.len() - 1
        });
        self.places.insert((level, dimension), place);
        place
    }
}
