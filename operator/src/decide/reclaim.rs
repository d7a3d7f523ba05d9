//! Reclaim and preempt: which pods are taken back for which waiting ones (the capacity document, **Reclaimable** and
//! **Preemptive**; semantics, **Queues**).
//!
//! What is on its way out already is counted as gone first. Only what is missing then is taken from others, and only if that
//! is sufficient: each plan is tried on the ledger itself, by the same verdict that will let the pod in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::configuration::AdmitOn;
use k8s_openapi::jiff::Timestamp;

use super::explain::{amount, dimension_name};
use super::{Action, fit, pod_ref, verdict};
use crate::cluster::Cluster;
use crate::cluster::amounts::{Amounts, Dimension};
use crate::cluster::names::CardId;
use crate::cluster::node::NodeId;
use crate::cluster::pod::{Pod, PodId, Stage};
use crate::cluster::queue::QueueId;
use crate::cluster::reclaims::Assumed;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::{Workload, WorkloadId};
use crate::pod_ref::PodRef;
use crate::policies::reclaim::{Candidate, cost, select};
use crate::policies::{Reason, capacity};

/// How many queues are looked at in one round: each look goes over many pods.
const QUEUES_PER_ROUND: usize = 4;
/// For how many pods of a queue something is taken back at once.
const PODS_PER_LOOK: usize = 32;
/// How many pods beside those on a node are considered for what is missing elsewhere than on the node.
const ELSEWHERE: usize = 64;

/// Pods that are taken back for a waiting one: all of them or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pods.
    pub victims: Vec<Victim>,
    /// The pod that waits.
    pub waiting: PodRef,
    /// Its queue.
    pub queue: Arc<str>,
}

/// A pod that is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The pod.
    pub pod: PodRef,
    /// `Reclaimed` or `Preempted`.
    pub reason: &'static str,
    /// Who needs what, with the numbers of this moment.
    pub message: String,
}

/// What may be taken back.
#[derive(Debug, Clone, Copy)]
struct Modes {
    reclaim: bool,
    preempt: bool,
}

/// Looks at queues that wait for what others have beyond what they deserve.
pub(super) fn look(cluster: &mut Cluster, now: Timestamp) -> Vec<Action> {
    let configuration = cluster.configuration();
    let modes = Modes {
        reclaim: configuration.has_action("reclaim") && configuration.capacity.reclaimable,
        preempt: configuration.has_action("preempt"),
    };
    for queue in cluster.reclaiming_queues() {
        if cluster.queue(queue).waiting.is_empty() || !(modes.reclaim || modes.preempt) {
            cluster.end_reclaim(queue, now);
        }
    }
    if !modes.reclaim && !modes.preempt {
        return Vec::new();
    }
    let waiting = cluster.queues().filter(|(_, queue)| !queue.waiting.is_empty());
    let due = waiting.filter(|(id, queue)| queue.quota().is_some() && cluster.is_reclaim_due(*id, now));
    let mut due: Vec<_> = due
        .map(|(id, queue)| {
            let priority = queue.terms.as_ref().map_or(0, |terms| terms.priority);
            (Reverse(priority), cluster.share(id), Arc::clone(&queue.name), id)
        })
        .collect();
    due.sort_unstable();
    due.truncate(QUEUES_PER_ROUND);
    let mut actions = Vec::new();
    for (.., queue) in due {
        actions.extend(look_at(cluster, queue, modes, now).into_iter().map(Action::Evict));
    }
    actions
}

/// Whether giving something back could help.
fn is_curable(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::InsufficientCpuQuota
            | Reason::InsufficientMemoryQuota
            | Reason::InsufficientScalarQuota
            | Reason::NoNodeFits
    )
}

fn look_at(cluster: &mut Cluster, queue: QueueId, modes: Modes, now: Timestamp) -> Vec<Eviction> {
    let sets = waiting_sets(cluster, queue);
    let leaving = cluster.leaving(now);
    cluster.take_out(&leaving);
    let mut look = Look {
        modes,
        now,
        may_evict: cluster.may_evict_for(queue, now),
        is_leaving: !leaving.is_empty(),
        taken: Vec::new(),
        assumed: Vec::new(),
        claim: BTreeSet::new(),
        evictions: Vec::new(),
        pool: None,
    };
    for set in sets {
        if look.assumed.len() >= PODS_PER_LOOK {
            break;
        }
        match set {
            Set::OneByOne(shape, pods) => {
                for pod in pods {
                    if look.assumed.len() >= PODS_PER_LOOK || !look.make_room(cluster, &shape, pod) {
                        break;
                    }
                }
            }
            Set::Together(pods) => look.make_room_for_all(cluster, &pods),
        }
    }
    look.forget_assumptions(cluster, 0);
    cluster.put_back(&look.taken);
    cluster.put_back(&leaving);
    if !look.taken.is_empty() {
        cluster.begin_evictions(queue, &look.taken, now);
    }
    cluster.looked_at(queue, look.claim.into_iter().collect(), now);
    look.evictions
}

/// Pods that wait.
enum Set {
    /// Pods of one shape, each by itself.
    OneByOne(Arc<Shape>, Vec<PodId>),
    /// A gang.
    Together(Vec<(PodId, Arc<Shape>)>),
}

/// What waits in a queue for something that others could give back, first to go first.
fn waiting_sets(cluster: &Cluster, queue: QueueId) -> Vec<Set> {
    let refused = cluster.queue(queue).waiting.groups().filter(|(_, group)| {
        let reason = group.refused.map(|refused| refused.reason);
        reason.is_some_and(is_curable)
    });
    let mut gangs = BTreeSet::new();
    let mut sets = Vec::new();
    for (_, group) in refused {
        let Some(first) = group.pods.first() else { continue };
        let gang = group.shape.group.map(|id| (id, cluster.workload(id)));
        let set = match gang.filter(|(_, workload)| workload.missing() > 0) {
            Some((id, _)) if !gangs.insert(id) => continue,
            Some((_, workload)) => {
                let line = workload.line.iter().take(workload.missing());
                let with_shape = |pod| Some((pod, Arc::clone(&cluster.pod(pod)?.waits.as_ref()?.shape)));
                let pods: Vec<_> = line.filter_map(|(_, place)| with_shape(place.pod)).collect();
                if pods.len() < workload.missing() {
                    continue;
                }
                Set::Together(pods)
            }
            None => {
                let pods = group.pods.iter().take(PODS_PER_LOOK).map(|place| place.pod);
                Set::OneByOne(Arc::clone(&group.shape), pods.collect())
            }
        };
        sets.push((Reverse(group.shape.priority), *first, set));
    }
    sets.sort_by_key(|(priority, place, _)| (*priority, *place));
    sets.into_iter().map(|(.., set)| set).collect()
}

/// One look at one queue.
struct Look {
    modes: Modes,
    now: Timestamp,
    may_evict: bool,
    is_leaving: bool,
    /// Pods that are taken back, counted as gone.
    taken: Vec<PodId>,
    /// Pods that get in by that, counted as there.
    assumed: Vec<Assumed>,
    claim: BTreeSet<Dimension>,
    evictions: Vec<Eviction>,
    /// Who may be taken back, kept from one pod to the next: to find them costs more than to choose among them.
    pool: Option<Pool>,
}

impl Look {
    /// Sees to it that a pod gets in, if it is entitled to; whether it will.
    fn make_room(&mut self, cluster: &mut Cluster, shape: &Shape, id: PodId) -> bool {
        if let Ok(grant) = verdict::judge(cluster, shape, None) {
            // A gang whose first pods have room waits for its others.
            let something_gives_way = self.is_leaving || !self.taken.is_empty() || shape.group.is_some();
            return something_gives_way
                && is_entitled(cluster, shape, id, grant.card)
                && self.assume(cluster, id, grant.card, grant.node);
        }
        if !self.may_evict {
            return false;
        }
        let Some(ranks) = self.plan(cluster, shape, id) else {
            return false;
        };
        let victims = self.pool.as_mut().map_or_else(Vec::new, |pool| pool.take(&ranks));
        let described = describe(cluster, shape, id, &victims);
        cluster.take_out(&victims);
        let grant = verdict::judge(cluster, shape, None);
        let entitled = grant.ok().filter(|grant| is_entitled(cluster, shape, id, grant.card));
        let (Some(grant), Some(eviction)) = (entitled, described) else {
            cluster.put_back(&victims);
            self.pool = None;
            return false;
        };
        self.taken.extend(victims);
        self.evictions.push(eviction);
        self.assume(cluster, id, grant.card, grant.node)
    }

    /// The same for all pods of a gang, or for none of them. What is taken back for it is taken back together.
    fn make_room_for_all(&mut self, cluster: &mut Cluster, pods: &[(PodId, Arc<Shape>)]) {
        let (taken, assumed, evictions) = (self.taken.len(), self.assumed.len(), self.evictions.len());
        let claim = self.claim.clone();
        if pods.iter().all(|(pod, shape)| self.make_room(cluster, shape, *pod)) {
            let mut together = self.evictions.drain(evictions..);
            if let Some(mut first) = together.next() {
                first.victims.extend(together.flat_map(|eviction| eviction.victims));
                self.evictions.push(first);
            }
            return;
        }
        self.forget_assumptions(cluster, assumed);
        let back: Vec<_> = self.taken.drain(taken..).collect();
        cluster.put_back(&back);
        self.pool = None;
        self.evictions.truncate(evictions);
        self.claim = claim;
    }

    /// The cheapest of the pool to take back, by their ranks, so that a pod of this shape gets in; none where nothing would be
    /// sufficient.
    fn plan(&mut self, cluster: &Cluster, shape: &Shape, id: PodId) -> Option<Vec<usize>> {
        let alternatives: Vec<_> = match &*shape.task.cards {
            [] => vec![None],
            cards => {
                let known = cards.iter().filter(|card| cluster.resource_of(**card).is_some());
                known.map(|card| Some(*card)).collect()
            }
        };
        alternatives.into_iter().find_map(|card| {
            let asked = asked(cluster, id, card);
            let key = (shape.priority, asked.iter().map(|(dimension, _)| *dimension).collect());
            if self.pool.as_ref().is_none_or(|pool| pool.key != key) {
                self.pool = Some(Pool::new(cluster, shape, &asked, key, self.modes, self.now));
            }
            self.pool.as_ref()?.cheapest(cluster, shape, card, &asked)
        })
    }

    /// Counts all but the first so many as waiting again.
    fn forget_assumptions(&mut self, cluster: &mut Cluster, keep: usize) {
        while self.assumed.len() > keep {
            if let Some(assumed) = self.assumed.pop() {
                cluster.no_longer_assume(assumed);
            }
        }
    }

    fn assume(&mut self, cluster: &mut Cluster, id: PodId, card: Option<CardId>, node: Option<NodeId>) -> bool {
        self.claim
            .extend(asked(cluster, id, card).into_iter().map(|(dimension, _)| dimension));
        let assumed = cluster.assume_admitted(id, card, node, self.now);
        let is_there = assumed.is_some();
        self.assumed.extend(assumed);
        is_there
    }
}

/// What a waiting pod would be charged that its queue compares.
fn asked(cluster: &Cluster, id: PodId, card: Option<CardId>) -> Vec<(Dimension, i128)> {
    let Some(pod) = cluster.pod(id) else { return Vec::new() };
    let Some(queue) = pod.queue.map(|queue| cluster.queue(queue)) else {
        return Vec::new();
    };
    let charged = pod.charged(cluster.charge(pod, card));
    charged
        .filter(|(dimension, amount)| *amount > 0 && cluster.compares(queue, *dimension))
        .map(|(dimension, amount)| (dimension, amount.into()))
        .collect()
}

/// Whether with this pod its queue, and everything above it, stays within what it deserves.
fn is_entitled(cluster: &Cluster, shape: &Shape, id: PodId, card: Option<CardId>) -> bool {
    let asked = asked(cluster, id, card);
    cluster.ancestry(shape.queue).all(|level| {
        asked.iter().all(|(dimension, amount)| {
            let deserved = cluster.deserved_by_spec(level, *dimension);
            deserved.is_none_or(|deserved| cluster.queue(level).allocated_in_all(*dimension) + amount <= deserved)
        })
    })
}

/// Where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the node.
    Node,
    /// At this level above the queue: 0 is the queue itself.
    Level(usize),
}

type Need = (Place, Dimension, i128);

/// A pod, or a whole gang, that may be taken back.
struct Candidacy {
    members: Vec<Member>,
    priority: i32,
    created: Timestamp,
    /// The lowest level above the waiting queue that it is part of.
    level: usize,
    charged: Vec<(Dimension, i128)>,
    takes: Vec<(usize, i128)>,
}

/// One pod of it.
struct Member {
    pod: PodId,
    uid: Arc<str>,
    node: Option<NodeId>,
    request: Arc<Amounts>,
}

impl Candidacy {
    /// What it gives on a node.
    fn gives_on(&self, node: Option<NodeId>, dimension: Dimension) -> i128 {
        let there = self.members.iter().filter(|member| member.node == node);
        there.map(|member| i128::from(member.request.get(dimension))).sum()
    }

    /// What it gives of what is missing, where the pod is to go to this node.
    fn gives(&self, (place, dimension, _): &Need, node: Option<NodeId>) -> i128 {
        match place {
            Place::Node => self.gives_on(node, *dimension),
            Place::Level(level) if self.level <= *level && !self.members.is_empty() => {
                let charged = self.charged.iter().find(|(charged, _)| charged == dimension);
                charged.map_or(0, |(_, amount)| *amount)
            }
            Place::Level(_) => 0,
        }
    }
}

type Cost = (Option<i32>, usize, Vec<usize>);

/// Who may be taken back for pods of one priority that are charged in the same dimensions.
struct Pool {
    key: (i32, Vec<Dimension>),
    /// By rank.
    candidates: Vec<Candidacy>,
    /// What those that they are part of have beyond what they must keep.
    slack: Vec<i128>,
    by_node: BTreeMap<NodeId, Vec<usize>>,
}

impl Pool {
    fn new(
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
    fn take(&mut self, ranks: &[usize]) -> Vec<PodId> {
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
    fn cheapest(
        &self,
        cluster: &Cluster,
        shape: &Shape,
        card: Option<CardId>,
        asked: &[(Dimension, i128)],
    ) -> Option<Vec<usize>> {
        let levels = missing_at_levels(cluster, shape.queue, asked);
        let gives_above = |candidate: &Candidacy| levels.iter().any(|need| candidate.gives(need, None) > 0);
        let elsewhere: Vec<_> = (0..self.candidates.len())
            .filter(|rank| gives_above(&self.candidates[*rank]))
            .take(ELSEWHERE)
            .collect();
        if cluster.configuration().cardgate.admit_on == AdmitOn::Quota {
            return self.cheapest_of(&elsewhere, &levels, None).map(|(_, ranks)| ranks);
        }
        let first_on = |node: &NodeId| self.by_node.get(node).and_then(|ranks| ranks.first().copied());
        let mut nodes: Vec<_> = fit::candidates(cluster, card).to_vec();
        nodes.sort_by_key(|node| first_on(node).unwrap_or(usize::MAX));
        let mut best: Option<(Cost, Vec<usize>)> = None;
        let mut has_roomy = false;
        for node in nodes {
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
                self.cheapest_of(&elsewhere, &levels, None)
            } else {
                let Some(there) = self.by_node.get(&node) else { continue };
                let missing = lacking.into_iter();
                let missing = missing.map(|(dimension, amount)| (Place::Node, dimension, amount));
                let needs: Vec<Need> = levels.iter().copied().chain(missing).collect();
                let mut ranks: Vec<_> = there.iter().chain(&elsewhere).copied().collect();
                ranks.sort_unstable();
                ranks.dedup();
                self.cheapest_of(&ranks, &needs, Some(node))
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
    fn cheapest_of(&self, ranks: &[usize], needs: &[Need], node: Option<NodeId>) -> Option<(Cost, Vec<usize>)> {
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
        let set = select(&numbers, &self.slack, &useful)?;
        let (priority, pods, _) = cost(&set, &useful);
        let mut set: Vec<_> = set.into_iter().map(|index| ranks[index]).collect();
        set.sort_unstable_by(|a, b| b.cmp(a));
        Some(((priority, pods, set.clone()), set))
    }
}

/// What is missing in the queue and at each level above it.
fn missing_at_levels(cluster: &Cluster, queue: QueueId, asked: &[(Dimension, i128)]) -> Vec<Need> {
    let mut needs = Vec::new();
    for (dimension, amount) in asked {
        let mut grows = *amount;
        for (place, (level, deserved)) in cluster.levels(queue, *dimension).into_iter().enumerate() {
            let within = |limit: i128| level.allocated + amount - limit;
            let mut missing = deserved.map_or(0, within);
            if let Some(limit) = level.limit {
                missing = missing.max(within(limit));
                if grows > 0 {
                    missing = missing.max(level.used + grows - limit);
                }
            }
            if missing > 0 {
                needs.push((Place::Level(place), *dimension, missing));
            }
            let held = |used| capacity::held(used, level.guarantee);
            grows = held(level.used + grows) - held(level.used);
        }
    }
    needs
}

/// Whoever may be taken back, by rank: lowest priority first, then youngest. `slack` gets what each queue that they are part
/// of has beyond what it must keep.
fn candidates(
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
            let Some(charge) = pod.charge.filter(|_| is_lower && is_evictable(cluster, pod, now)) else {
                continue;
            };
            let charged = pod
                .charged(charge)
                .map(|(dimension, amount)| (dimension, amount.into()));
            let charged: Vec<_> = charged.collect();
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
                charged,
            };
            match pod.group.filter(|group| cluster.workload(*group).min_member() > 1) {
                Some(group) => gangs.entry(group).or_default().push(candidacy),
                None => found.push(candidacy),
            }
        }
        for (group, members) in gangs {
            found.extend(of_gang(cluster.workload(group), members, floors.slack));
        }
    }
    found.sort_unstable_by(|a, b| {
        let key = |one: &Candidacy| (one.priority, Reverse(one.created), one.members.len());
        let uid = |one: &Candidacy| one.members.first().map(|member| Arc::clone(&member.uid));
        key(a).cmp(&key(b)).then_with(|| uid(a).cmp(&uid(b)))
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
fn of_gang(workload: &Workload, members: Vec<Candidacy>, slack: &mut Vec<i128>) -> Vec<Candidacy> {
    let surplus = workload.admitted().saturating_sub(workload.min_member());
    let place = slack.len();
    slack.push(i128::try_from(surplus).unwrap_or(i128::MAX));
    let mut found = Vec::new();
    // What some of its pods keep from being evicted can't go as a whole.
    if members.len() == workload.admitted() {
        let mut whole = Candidacy {
            members: Vec::new(),
            priority: i32::MIN,
            created: Timestamp::MAX,
            level: 0,
            charged: Vec::new(),
            takes: vec![(place, i128::try_from(surplus).unwrap_or(i128::MAX))],
        };
        for member in &members {
            whole.level = member.level;
            whole.priority = whole.priority.max(member.priority);
            whole.created = whole.created.min(member.created);
            add_up(&mut whole.charged, &member.charged);
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
            member.takes.push((place, 1));
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
    cluster.queue(id).terms.as_ref().is_none_or(|terms| terms.reclaimable)
}

/// What the queues that a pod is part of must keep.
struct Floors<'c, 's> {
    cluster: &'c Cluster,
    levels: Vec<QueueId>,
    places: Vec<((QueueId, Dimension), usize)>,
    slack: &'s mut Vec<i128>,
}

impl<'c, 's> Floors<'c, 's> {
    fn new(cluster: &'c Cluster, levels: Vec<QueueId>, slack: &'s mut Vec<i128>) -> Self {
        Self {
            cluster,
            levels,
            places: Vec::new(),
            slack,
        }
    }

    /// What a pod takes from what they have beyond that.
    fn takes(&mut self, charged: &[(Dimension, i128)]) -> Vec<(usize, i128)> {
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

    fn place(&mut self, level: QueueId, dimension: Dimension) -> Option<usize> {
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

/// The eviction, with what each of its victims is told.
fn describe(cluster: &Cluster, shape: &Shape, id: PodId, victims: &[PodId]) -> Option<Eviction> {
    let waiting = cluster.pod(id)?;
    let name = &cluster.queue(shape.queue).name;
    let of = |queue: QueueId, dimension| {
        let has = amount(dimension, cluster.queue(queue).allocated_in_all(dimension));
        let deserves = amount(dimension, cluster.deserved(queue, dimension));
        format!("has {has} and deserves {deserves}")
    };
    let all_asked = asked(cluster, id, shape.task.cards.first().copied());
    let asks = |(dimension, asked): &(Dimension, i128)| {
        format!("{} {}", amount(*dimension, *asked), dimension_name(cluster, *dimension))
    };
    let everything = all_asked.iter().map(asks).collect::<Vec<_>>().join(", ");
    let pod = pod_ref(waiting);
    let victims = victims.iter().filter_map(|victim| {
        let victim = cluster.pod(*victim)?;
        let queue = victim.queue?;
        let (reason, message) = if queue == shape.queue {
            let (own, priority) = (victim.priority, shape.priority);
            let message = format!(
                "evicted for pod {pod} of the same queue {name}, which has priority {priority}, more than {own}, and asks \
                 {everything}"
            );
            ("Preempted", message)
        } else {
            let borrowed = all_asked.iter().find(|(dimension, _)| {
                let deserved = cluster.deserved_by_spec(queue, *dimension);
                deserved.is_some_and(|deserved| cluster.queue(queue).allocated_in_all(*dimension) > deserved)
            });
            let borrowed = borrowed.or(all_asked.first())?;
            let (what, dimension) = (dimension_name(cluster, borrowed.0), borrowed.0);
            let message = format!(
                "evicted for pod {pod} of queue {name}, which asks {everything}; of {what}, queue {name} {}, and this pod's queue \
                 {} {}",
                of(shape.queue, dimension),
                cluster.queue(queue).name,
                of(queue, dimension),
            );
            ("Reclaimed", message)
        };
        Some(Victim {
            pod: pod_ref(victim),
            reason,
            message,
        })
    });
    Some(Eviction {
        victims: victims.collect(),
        waiting: pod.clone(),
        queue: Arc::clone(name),
    })
}
