//! Who may be taken back, and the cheapest of them that give what is missing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crds::configuration::AdmitOn;
use jiff::Timestamp;

use super::{ELSEWHERE, Modes};
use crate::amounts::{Amounts, Dimension};
use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Workload;
use crate::decide::effort::Effort;
use crate::decide::fit;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::names::CardId;
use crate::policies::capacity;
use crate::policies::reclaim::{Candidate, cost, select};

/// Where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On the node.
    Node,
    /// At this level above the queue: 0 is the queue itself.
    Level(usize),
    /// In the cluster.
    Cluster,
}

pub(super) type Need = (Place, Dimension, i128);

/// A pod, or a whole gang, that may be taken back.
pub(super) struct Candidacy {
    pub(super) members: Vec<Member>,
    pub(super) priority: i32,
    pub(super) created: Timestamp,
    /// The lowest level above the waiting queue that it is part of.
    pub(super) level: usize,
    pub(super) charged: Vec<(Dimension, i128)>,
    /// What of that others in the cluster could have: nothing on nodes that take no pods.
    pub(super) usable: Vec<(Dimension, i128)>,
    pub(super) takes: Vec<(usize, i128)>,
}

/// One pod of it.
pub(super) struct Member {
    pub(super) pod: PodId,
    pub(super) uid: Arc<str>,
    pub(super) node: Option<NodeId>,
    pub(super) request: Arc<Amounts>,
}

impl Candidacy {
    fn first_uid(&self) -> Option<&str> {
        self.members.first().map(|member| &*member.uid)
    }

    /// What it gives on a node.
    pub(super) fn gives_on(&self, node: Option<NodeId>, dimension: Dimension) -> i128 {
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
}

pub(super) type Cost = (Option<i32>, usize, Vec<usize>);

/// Who may be taken back for pods of one priority that are charged in the same dimensions.
pub(super) struct Pool {
    pub(super) key: (i32, Vec<Dimension>),
    pub(super) candidates: Vec<Candidacy>,
    /// What those that they are part of have beyond what they must keep.
    pub(super) slack: Vec<i128>,
    pub(super) by_node: BTreeMap<NodeId, Vec<usize>>,
}

impl Pool {
    pub(super) fn new(
        cluster: &Cluster,
        shape: &Shape,
        asked: &[(Dimension, i128)],
        key: (i32, Vec<Dimension>),
        modes: Modes,
        now: Timestamp,
    ) -> Self {
        let mut slack = Vec::new();
        let candidates = candidates(cluster, shape, asked, modes, now, &mut slack);
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (rank, candidate) in candidates.iter().enumerate() {
            for node in candidate.members.iter().filter_map(|member| member.node) {
                let ranks = by_node.entry(node).or_default();
                if ranks.last() != Some(&rank) {
                    ranks.push(rank);
                }
            }
        }
        Self {
            key,
            candidates,
            slack,
            by_node,
        }
    }

    /// Takes candidates out of the pool, and returns their pods.
    pub(super) fn take(&mut self, ranks: &[usize]) -> Vec<PodId> {
        let mut pods = Vec::new();
        for rank in ranks {
            for (place, amount) in &self.candidates[*rank].takes {
                self.slack[*place] -= amount;
            }
            pods.extend(self.candidates[*rank].members.iter().map(|member| member.pod));
        }
        // A pod of a gang may be there by itself and as part of the whole.
        let is_gone = |member: &Member| pods.contains(&member.pod);
        let gone: Vec<_> = (0..self.candidates.len())
            .filter(|rank| self.candidates[*rank].members.iter().any(is_gone))
            .collect();
        for ranks in self.by_node.values_mut() {
            ranks.retain(|rank| !gone.contains(rank));
        }
        for rank in gone {
            self.candidates[rank].members.clear();
        }
        pods
    }

    /// The cheapest set for any node, by ranks.
    pub(super) fn cheapest(
        &self,
        cluster: &Cluster,
        shape: &Shape,
        card: Option<CardId>,
        asked: &[(Dimension, i128)],
        effort: &Effort,
    ) -> Option<Vec<usize>> {
        let levels = missing_at_levels(cluster, shape.queue, asked);
        let gives_above = |candidate: &Candidacy| levels.iter().any(|need| candidate.gives(need, None) > 0);
        let elsewhere: Vec<_> = (0..self.candidates.len())
            .filter(|rank| gives_above(&self.candidates[*rank]))
            .take(ELSEWHERE)
            .collect();
        if cluster.configuration().cardgate.admit_on == AdmitOn::Quota {
            return self
                .cheapest_of(&elsewhere, &levels, None, effort)
                .map(|(_, ranks)| ranks);
        }
        let first_on = |node: &NodeId| self.by_node.get(node).and_then(|ranks| ranks.first().copied());
        let mut nodes: Vec<_> = fit::nodes_for(cluster, card).to_vec();
        nodes.sort_by_key(|node| first_on(node).unwrap_or(usize::MAX));
        let mut best: Option<(Cost, Vec<usize>)> = None;
        let mut has_roomy = false;
        for node in nodes {
            // The best so far, or nobody, when all nodes together have cost what they may.
            if effort.is_spent() {
                break;
            }
            effort.look_at_node(shape);
            // Nobody can do better on this node than its first candidate alone.
            let bound = first_on(&node).map(|first| (Some(self.candidates[first].priority), 1, vec![first]));
            let is_beaten = best
                .as_ref()
                .zip(bound)
                .is_some_and(|((cost, _), bound)| *cost <= bound);
            let lacking = fit::lacking(cluster, shape, card, node);
            let Some(lacking) = lacking.filter(|lacking| lacking.is_empty() || !is_beaten) else {
                continue;
            };
            let found = if lacking.is_empty() {
                // Whichever node has room, the same is missing elsewhere.
                if std::mem::replace(&mut has_roomy, true) {
                    continue;
                }
                self.cheapest_of(&elsewhere, &levels, None, effort)
            } else {
                let Some(there) = self.by_node.get(&node) else { continue };
                let missing = lacking.into_iter();
                let missing = missing.map(|(dimension, amount)| (Place::Node, dimension, amount));
                let needs: Vec<Need> = levels.iter().copied().chain(missing).collect();
                let mut ranks: Vec<_> = there.iter().chain(&elsewhere).copied().collect();
                ranks.sort_unstable();
                ranks.dedup();
                self.cheapest_of(&ranks, &needs, Some(node), effort)
            };
            if let Some(found) = found
                && best.as_ref().is_none_or(|(cost, _)| found.0 < *cost)
            {
                best = Some(found);
            }
        }
        best.map(|(_, ranks)| ranks)
    }

    /// The cheapest set of these candidates that gives all needs.
    pub(super) fn cheapest_of(
        &self,
        ranks: &[usize],
        needs: &[Need],
        node: Option<NodeId>,
        effort: &Effort,
    ) -> Option<(Cost, Vec<usize>)> {
        let useful = ranks.iter().filter_map(|rank| {
            let candidate = &self.candidates[*rank];
            let amounts = needs.iter().map(|need| candidate.gives(need, node)).enumerate();
            let gives: Vec<_> = amounts.filter(|(_, amount)| *amount > 0).collect();
            let of_policy = Candidate {
                priority: candidate.priority,
                pods: candidate.members.len(),
                gives,
                takes: candidate.takes.clone(),
            };
            (!of_policy.gives.is_empty()).then_some((*rank, of_policy))
        });
        let (ranks, useful): (Vec<_>, Vec<_>) = useful.unzip();
        let numbers: Vec<_> = needs.iter().map(|(.., amount)| *amount).collect();
        let set = select(&numbers, &self.slack, &useful, effort.common())?;
        let (priority, pods, _) = cost(&set, &useful);
        let mut set: Vec<_> = set.into_iter().map(|index| ranks[index]).collect();
        set.sort_unstable_by(|a, b| b.cmp(a));
        Some(((priority, pods, set.clone()), set))
    }
}

/// What is missing in the queue and at each level above it.
pub(super) fn missing_at_levels(cluster: &Cluster, queue: QueueId, asked: &[(Dimension, i128)]) -> Vec<Need> {
    let mut needs = Vec::new();
    for (dimension, amount) in asked {
        let mut grows = *amount;
        let levels = cluster.levels(queue, *dimension);
        let top = levels.len() - 1;
        for (place, (level, deserved)) in levels.into_iter().enumerate() {
            let within = |limit: i128| level.allocated + amount - limit;
            let mut missing = deserved.map_or(0, within);
            if let Some(limit) = level.limit {
                missing = missing.max(within(limit));
                if grows > 0 {
                    missing = missing.max(level.used + grows - limit);
                }
            }
            if missing > 0 {
                let place = if place == top {
                    Place::Cluster
                } else {
                    Place::Level(place)
                };
                needs.push((place, *dimension, missing));
            }
            let held = |used| capacity::held(used, level.guarantee);
            grows = held(level.used + grows) - held(level.used);
        }
    }
    needs
}

/// Whoever may be taken back, by rank: lowest priority first, then youngest. `slack` gets what each queue that they are part
/// of has beyond what it must keep.
pub(super) fn candidates(
    cluster: &Cluster,
    shape: &Shape,
    asked: &[(Dimension, i128)],
    modes: Modes,
    now: Timestamp,
    slack: &mut Vec<i128>,
) -> Vec<Candidacy> {
    let path: Vec<_> = cluster.ancestry(shape.queue).collect();
    let mut found: Vec<Candidacy> = Vec::new();
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
        let borrows = |dimension: &Dimension| {
            let deserved = cluster.deserved_by_spec(id, *dimension);
            deserved.is_some_and(|deserved| queue.allocated_in_all(*dimension) > deserved)
        };
        let above: Vec<_> = asked.iter().map(|(dimension, _)| *dimension).filter(borrows).collect();
        if !is_own && (above.is_empty() || !below.iter().all(|level| is_reclaimable(cluster, *level))) {
            continue;
        }
        let mut floors = Floors::new(cluster, below, slack);
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
            if !is_own && !charged.iter().any(|(dimension, _)| above.contains(dimension)) {
                continue;
            }
            let candidacy = Candidacy {
                takes: floors.takes(&charged),
                members: vec![Member {
                    pod: *pod_id,
                    uid: Arc::clone(&pod.uid),
                    node: pod.room,
                    request: Arc::clone(&pod.task.request),
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

pub(super) fn is_evictable(cluster: &Cluster, pod: &Pod, now: Timestamp) -> bool {
    matches!(pod.stage, Stage::Bound | Stage::Unbound { .. })
        && pod.deleted.is_none()
        && !cluster.is_leaving(pod, now)
        && pod.eviction.spared_until.is_none_or(|until| until <= now)
}

/// How a gang may be taken back: as many single pods as it has beyond its minimum, or all of it.
pub(super) fn of_gang(
    cluster: &Cluster,
    workload: &Workload,
    members: Vec<Candidacy>,
    slack: &mut Vec<i128>,
) -> Vec<Candidacy> {
    let count = |number: usize| i128::try_from(number).unwrap_or(i128::MAX);
    let (surplus, of_tasks) = workload.surplus();
    let place = slack.len();
    // One place for all of its pods, and one more for those of each task.
    slack.push(count(surplus));
    slack.extend(of_tasks.iter().map(|(_, surplus)| count(*surplus)));
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
            takes: (place..).zip(slack[place..].iter().copied()).collect(),
        };
        for member in &members {
            whole.level = member.level;
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
pub(super) fn add_up<K: PartialEq + Copy>(sums: &mut Vec<(K, i128)>, amounts: &[(K, i128)]) {
    for (key, amount) in amounts {
        match sums.iter_mut().find(|(known, _)| known == key) {
            Some((_, sum)) => *sum += amount,
            None => sums.push((*key, *amount)),
        }
    }
}

pub(super) fn is_reclaimable(cluster: &Cluster, id: QueueId) -> bool {
    cluster.queue(id).terms.as_ref().is_none_or(|terms| terms.reclaimable)
}

/// What the queues that a pod is part of must keep.
pub(super) struct Floors<'c, 's> {
    pub(super) cluster: &'c Cluster,
    pub(super) levels: Vec<QueueId>,
    pub(super) places: Vec<((QueueId, Dimension), usize)>,
    pub(super) slack: &'s mut Vec<i128>,
}

impl<'c, 's> Floors<'c, 's> {
    pub(super) fn new(cluster: &'c Cluster, levels: Vec<QueueId>, slack: &'s mut Vec<i128>) -> Self {
        Self {
            cluster,
            levels,
            places: Vec::new(),
            slack,
        }
    }

    /// What a pod takes from what they have beyond that.
    pub(super) fn takes(&mut self, charged: &[(Dimension, i128)]) -> Vec<(usize, i128)> {
        let mut takes = Vec::new();
        for level in self.levels.clone() {
            for (dimension, amount) in charged {
                if let Some(place) = self.place(level, *dimension) {
                    takes.push((place, *amount));
                }
            }
        }
        takes
    }

    pub(super) fn place(&mut self, level: QueueId, dimension: Dimension) -> Option<usize> {
        let floor = self.cluster.floor(level, dimension)?;
        if let Some((_, place)) = self.places.iter().find(|(known, _)| *known == (level, dimension)) {
            return Some(*place);
        }
        let place = self.slack.len();
        self.slack
            .push(self.cluster.queue(level).allocated_in_all(dimension) - floor);
        self.places.push(((level, dimension), place));
        Some(place)
    }
}
