//! Which pods may be taken back.
//!
//! A pod is looked at only when it is asked for: when its rank comes up, or when its node is looked at. A gang is looked at with
//! the first of its pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use super::Modes;
use super::candidacy::{Candidacy, Member, Rank, of_gang, push_surplus};
use super::kinds::{Kept, Kinds, View};
use super::needs::{Lack, Need};
use super::slack::{Floors, Slack};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::device_cards::without_devices;
use crate::cluster::pod::{Pod, Stage};
use crate::cluster::waiting::Shape;
use crate::decide::effort::{Effort, LOOK_AT_NODE};
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};

/// The most pods that share claims and are taken back together. Where there are more, each is taken back by itself.
const MOST_SHARERS: usize = 65;

/// A queue whose pods may be taken back.
#[derive(PartialEq)]
struct Source {
    is_own: bool,
    /// The lowest level above the waiting queue that it is part of.
    level: usize,
    /// The queue itself, and the levels above it that the waiting queue is no part of.
    below: Vec<QueueId>,
    /// What those levels have more of than they deserve.
    borrowed: Rc<[Dimension]>,
}

/// The ways in which a pod may be taken back, given by places in the list of candidates.
#[derive(Clone, Copy, Default)]
pub(super) struct Ways {
    /// By itself.
    pub(super) alone: Option<usize>,
    /// With all pods of its gang, or with all pods that share its claims.
    pub(super) whole: Option<usize>,
}

/// The pods that may be taken back for waiting pods of one priority, for what these may lack.
pub(super) struct Victims {
    sources: Rc<BTreeMap<QueueId, Source>>,
    /// Pods of the same queue may be taken back below this priority.
    priority: i32,
    /// The gang of the waiting pods that others are taken back for.
    gang: Option<WorkloadId>,
    now: Timestamp,
    /// The kinds of pods that there are to choose from; none before they are asked for.
    kinds: Option<Kinds>,
    /// How many pods are counted as gone in the whole look.
    gone: usize,
    /// The candidates that have been looked at.
    known: Vec<Candidacy>,
    ways: HashMap<PodId, Ways>,
    /// For pods that are candidates in several ways: the place of the slack that lets each be taken in only one of them.
    once: HashMap<PodId, usize>,
    /// For gangs: the first of the places of the slack for what each has beyond its minimum, in all queues.
    surplus: HashMap<WorkloadId, usize>,
    /// Pods that share claims with others and can't go together with all of them.
    not_together: HashSet<PodId>,
    floors: Floors,
}

impl Victims {
    /// Collects the queues that have pods to take back. Each queue costs steps for each of its levels and each missing dimension.
    pub(super) fn new(
        cluster: &Cluster,
        shape: &Shape,
        missing: &[Dimension],
        (modes, now): (Modes, Timestamp),
        gone: usize,
        effort: &Effort,
    ) -> Self {
        let path: Vec<_> = cluster.ancestry(shape.queue).collect();
        let mut sources = BTreeMap::new();
        for (id, queue) in cluster.queues() {
            let is_own = id == shape.queue;
            if queue.holders.is_empty() || (is_own && !modes.preempt) || (!is_own && !modes.reclaim) {
                continue;
            }
            let own_path: Vec<_> = cluster.ancestry(id).collect();
            effort.spend(own_path.len() + missing.len());
            let level = path.iter().position(|level| own_path.contains(level));
            let below = own_path.iter().copied().take_while(|level| !path.contains(level));
            let below: Vec<_> = below.collect();
            let borrowed = missing.iter().copied();
            let borrowed: Rc<[Dimension]> = borrowed
                .filter(|dimension| cluster.borrows(&below, *dimension))
                .collect();
            if !is_own && (borrowed.is_empty() || !below.iter().all(|level| is_reclaimable(cluster, *level))) {
                continue;
            }
            let source = Source {
                is_own,
                level: level.unwrap_or(path.len()),
                below,
                borrowed,
            };
            sources.insert(id, source);
        }
        let priority = shape.preempts_below();
        Self::of(Rc::new(sources), priority, gang_of(cluster, shape), now, gone)
    }

    /// Whether both draw on the same queues, and these may give the same.
    pub(super) fn are_of_queues_of(&self, other: &Self) -> bool {
        self.sources == other.sources
    }

    /// Returns the victims for pods of another gang, where the queues have as much as they had. `gone` pods are counted as gone
    /// by now.
    pub(super) fn of_another_gang(self, gang: Option<WorkloadId>, gone: usize) -> Self {
        let kinds = if self.gone == gone {
            self.kinds
        } else {
            self.kinds.and_then(|kinds| kinds.after_putting_back(gone))
        };
        Self {
            kinds,
            ..Self::of(self.sources, self.priority, gang, self.now, gone)
        }
    }

    fn of(
        sources: Rc<BTreeMap<QueueId, Source>>,
        priority: i32,
        gang: Option<WorkloadId>,
        now: Timestamp,
        gone: usize,
    ) -> Self {
        Self {
            sources,
            priority,
            gang,
            now,
            kinds: None,
            gone,
            known: Vec::new(),
            ways: HashMap::new(),
            once: HashMap::new(),
            surplus: HashMap::new(),
            not_together: HashSet::new(),
            floors: Floors::default(),
        }
    }

    pub(super) fn get(&self, place: usize) -> &Candidacy {
        &self.known[place]
    }

    /// Returns what the queues and gangs of the candidates have beyond what they must keep.
    pub(super) fn slack(&self) -> &[Slack] {
        &self.floors.slack
    }

    /// Returns the kinds of pods that there are to choose from.
    pub(super) fn kinds(&mut self, cluster: &Cluster) -> &mut Kinds {
        self.kinds
            .get_or_insert_with(|| Kinds::find(cluster, &view(&self.sources, self.priority), self.gone))
    }

    /// Returns the kinds that were found, for others with the same view.
    pub(super) fn into_kinds(self) -> Option<Kinds> {
        self.kinds
    }

    /// Takes over the kinds that others with the same view have found.
    pub(super) fn know(&mut self, kept: &mut Kept) {
        self.kinds = kept.take(&view(&self.sources, self.priority));
    }

    /// Marks these pods as gone, though they may still be listed.
    pub(super) fn note_gone(&mut self, gone: &[PodId]) {
        self.ways.extend(gone.iter().map(|pod| (*pod, Ways::default())));
    }

    /// Returns, for each need and from each queue, as many candidates as give all of it, those that give most first, as far as
    /// the steps last.
    pub(super) fn who_give_most(&mut self, lack: &Lack<'_>, effort: &Effort) -> Vec<usize> {
        let mut found = Vec::new();
        for need @ (place, dimension, amount) in lack.needs {
            let givers = self.kinds(lack.cluster).givers((*place, *dimension), effort);
            for kinds in givers.iter() {
                let mut missing = *amount;
                for (each, kind) in kinds {
                    if missing <= 0 || effort.is_spent() {
                        break;
                    }
                    let pods = self.kinds(lack.cluster).get(*kind).turns(lack.cluster);
                    for pod in pods.map(|turn| turn.pod) {
                        if missing <= 0 || effort.is_spent() {
                            break;
                        }
                        effort.spend(LOOK_AT_NODE);
                        let ways = self.ways(lack.cluster, pod, effort);
                        let before = found.len();
                        found.extend([ways.alone, ways.whole].into_iter().flatten().filter(|place| {
                            let candidate = self.get(*place);
                            candidate.gives(need, lack.node) > 0 && candidate.is_due(lack)
                        }));
                        if found.len() > before {
                            missing -= i128::from(*each);
                        }
                    }
                }
            }
        }
        found
    }

    /// Returns how many pods at least it takes to give all `needs`. None where nobody gives one of them.
    pub(super) fn fewest(&mut self, cluster: &Cluster, needs: &[Need], effort: &Effort) -> Option<usize> {
        let mut fewest = 0;
        for (place, dimension, amount) in needs {
            let most = self.kinds(cluster).most_charged((*place, *dimension), effort);
            fewest = fewest.max(pods_for(*amount, Some(most))?);
        }
        Some(fewest)
    }

    /// Returns the most that one pod gives on its node of each of these dimensions.
    pub(super) fn most_on_node(
        &mut self,
        cluster: &Cluster,
        dimensions: &[Dimension],
        effort: &Effort,
    ) -> BTreeMap<Dimension, i64> {
        let kinds = self.kinds(cluster);
        let most = dimensions.iter();
        most.map(|dimension| (*dimension, kinds.most_requested(*dimension, effort)))
            .collect()
    }

    /// Returns the candidates on a node, by rank.
    pub(super) fn on_node(&mut self, cluster: &Cluster, node: NodeId, effort: &Effort) -> Vec<usize> {
        let mut places = Vec::new();
        for pod in &cluster.node(node).pods {
            let ways = self.ways(cluster, *pod, effort);
            places.extend([ways.alone, ways.whole].into_iter().flatten());
        }
        self.sort(&mut places);
        places
    }

    /// Sorts candidates by rank, keeps each once, and leaves out those that are taken.
    pub(super) fn sort(&self, places: &mut Vec<usize>) {
        places.retain(|place| !self.known[*place].members.is_empty());
        places.sort_unstable_by_key(|place| (&self.known[*place].rank, *place));
        places.dedup();
    }

    /// Returns in which ways a pod may be taken back. Finding that out costs steps, for all pods of its gang at once.
    pub(super) fn ways(&mut self, cluster: &Cluster, id: PodId, effort: &Effort) -> Ways {
        if let Some(ways) = self.ways.get(&id) {
            return *ways;
        }
        let Some((queue, pod)) = cluster.pod(id).and_then(|pod| Some((pod.queue?, pod))) else {
            return Ways::default();
        };
        let known = self.ways.len();
        match pod.group.filter(|group| cluster.workload(*group).is_gang()) {
            Some(group) => self.look_at_gang(cluster, queue, group),
            None => self.look_at_pod(cluster, queue, id),
        }
        let found = self.ways.len().saturating_sub(known).max(1);
        effort.spend(found.saturating_mul(LOOK_AT_NODE));
        // A pod that is no candidate is recorded too, so that it is not looked at again.
        *self.ways.entry(id).or_default()
    }

    /// Looks at a pod of no gang. It gives back what it has together with all pods that share its claims: otherwise the charge
    /// would only pass to the next of these. Where one of them can't go with it, the pod is taken by itself. It is not spared
    /// then, or an idle pod of another queue would shield all that it has.
    fn look_at_pod(&mut self, cluster: &Cluster, queue: QueueId, id: PodId) {
        let Some(alone) = self.candidacy(cluster, queue, id) else {
            return;
        };
        let together = if !self.not_together.contains(&id) && cluster.pays_for_others(id) {
            self.together(cluster, queue, id)
        } else {
            None
        };
        let place = self.known.len();
        let Some((all, pods)) = together else {
            self.known.push(alone);
            let alone = Some(place);
            self.ways.insert(id, Ways { alone, whole: None });
            return;
        };
        self.known.push(all);
        let whole = Some(place);
        for pod in pods.into_iter().filter(|pod| cluster.pays_for_others(*pod)) {
            self.ways.insert(pod, Ways { alone: None, whole });
        }
    }

    /// Returns a pod together with all pods that share claims with it as one candidate, and these pods. None where the pod shares
    /// with nobody, where too many share, or where one of them can't go.
    fn together(&mut self, cluster: &Cluster, queue: QueueId, id: PodId) -> Option<(Candidacy, Vec<PodId>)> {
        let pods = match cluster.all_sharing_with(id, MOST_SHARERS) {
            Ok(pods) => pods,
            Err(some) => {
                self.not_together.extend(some);
                return None;
            }
        };
        if pods.len() < 2 || !pods.iter().all(|pod| self.may_go_along(cluster, queue, *pod)) {
            // The same holds for each of these pods.
            self.not_together.extend(pods);
            return None;
        }
        for pod in &pods {
            self.limit_to_once(*pod);
        }
        let members = pods.iter().filter_map(|pod| self.candidacy(cluster, queue, *pod));
        let all = Candidacy::all_of(&members.collect::<Vec<_>>())?;
        // If one of the pods holds what its queue must keep, that would else shield what the others have.
        let mut takes = all.takes.iter();
        let fits = takes.all(|(place, amount)| *amount <= self.floors.slack[*place].most());
        if !fits {
            self.not_together.extend(pods);
            return None;
        }
        Some((all, pods))
    }

    /// Whether a pod that shares a claim may be taken back with the pod that pays for it.
    fn may_go_along(&mut self, cluster: &Cluster, queue: QueueId, id: PodId) -> bool {
        let pod = cluster.pod(id).filter(|pod| pod.queue == Some(queue));
        let is_of_gang = |pod: &Pod| pod.group.is_some_and(|group| cluster.workload(group).is_gang());
        pod.is_some_and(|pod| !is_of_gang(pod)) && self.candidacy(cluster, queue, id).is_some()
    }

    /// Limits a pod to giving what it has once: it may be a candidate by itself, and with the pods that share claims with it.
    fn limit_to_once(&mut self, id: PodId) {
        if self.once.contains_key(&id) {
            return;
        }
        let place = self.floors.slack.len();
        self.floors.slack.push(Slack::of_pods(1));
        self.once.insert(id, place);
        if let Some(alone) = self.ways.get(&id).and_then(|ways| ways.alone) {
            self.known[alone].takes.push((place, 1));
        }
    }

    fn look_at_gang(&mut self, cluster: &Cluster, queue: QueueId, group: WorkloadId) {
        let workload = cluster.workload(group);
        let is_one = |id: &PodId| {
            cluster
                .pod(*id)
                .is_some_and(|pod| pod.group == Some(group) && pod.queue == Some(queue))
        };
        let mut pods: Vec<_> = workload.members().filter(is_one).collect();
        pods.sort_unstable();
        // All pods of the gang are recorded at once, also those that are no candidates: asking for one of these would else add
        // the other pods as candidates again.
        for pod in &pods {
            self.ways.entry(*pod).or_default();
        }
        let in_queue = pods.len();
        let members = pods.into_iter();
        let members: Vec<_> = members.filter_map(|id| self.candidacy(cluster, queue, id)).collect();
        let pods: Vec<_> = members.iter().map(|member| member.members[0].pod).collect();
        let slack = &mut self.floors.slack;
        let shared = self.surplus.entry(group);
        let shared = *shared.or_insert_with(|| push_surplus(workload, slack));
        let (whole, alone) = of_gang(cluster, workload, in_queue, members, shared, slack);
        // A gang is not taken back as a whole for one of its own pods: its remaining pods would wait for the others to come
        // again.
        let whole = whole.filter(|_| self.gang != Some(group)).map(|whole| {
            self.known.push(whole);
            self.known.len() - 1
        });
        let first = self.known.len();
        let is_alone = !alone.is_empty();
        self.known.extend(alone);
        for (place, pod) in pods.into_iter().enumerate() {
            let alone = is_alone.then_some(first + place);
            self.ways.insert(pod, Ways { alone, whole });
        }
    }

    /// Returns a pod by itself as a candidate, where it may be taken back.
    fn candidacy(&mut self, cluster: &Cluster, queue: QueueId, id: PodId) -> Option<Candidacy> {
        let source = self.sources.get(&queue)?;
        let pod = cluster.pod(id)?;
        let is_lower = !source.is_own || pod.priority < self.priority;
        let is_one = is_lower && is_evictable(cluster, pod, self.now);
        let charge = pod.charge.as_ref().filter(|_| is_one)?;
        let amounts = charge.amounts.iter();
        let charged: Vec<_> = amounts.map(|(dimension, amount)| (dimension, amount.into())).collect();
        let mut takes = self.floors.takes(cluster, &source.below, &charged);
        takes.extend(self.once.get(&id).map(|place| (*place, 1)));
        Some(Candidacy {
            rank: Rank {
                priority: pod.priority,
                created: Reverse(pod.created),
                pods: 1,
                uid: Arc::clone(&pod.uid),
            },
            takes,
            members: vec![Member {
                pod: id,
                node: pod.room,
                request: Arc::clone(pod.request()),
                without_devices: without_devices(cluster, pod),
                is_on_cards: pod.task.mgpu.is_some() || pod.task.claimed.is_some(),
                is_without_gpu: cluster.counts_without_gpu(pod),
            }],
            by_node: vec![0],
            level: source.level,
            usable: if cluster.gives_to_others(pod.room) {
                charged.clone()
            } else {
                Vec::new()
            },
            charged,
            borrowed: (!source.is_own).then(|| Rc::clone(&source.borrowed)),
        })
    }

    /// Takes candidates out of the list, and returns their pods.
    pub(super) fn take(&mut self, places: &[usize]) -> Vec<PodId> {
        let pods = self.pods(places);
        self.gone += pods.len();
        for place in places {
            for (slack, amount) in &self.known[*place].takes {
                self.floors.slack[*slack].shrink(*amount);
            }
        }
        // A pod may be a candidate by itself and as part of a whole.
        let taken: HashSet<_> = pods.iter().collect();
        for candidate in &mut self.known {
            if candidate.members.iter().any(|member| taken.contains(&member.pod)) {
                candidate.members.clear();
            }
        }
        pods
    }

    /// Returns the pods of candidates.
    pub(super) fn pods(&self, places: &[usize]) -> Vec<PodId> {
        let members = places.iter().flat_map(|place| &self.known[*place].members);
        members.map(|member| member.pod).collect()
    }
}

/// Returns the view of the kinds of pods in these queues, for waiting pods of this priority.
fn view(sources: &BTreeMap<QueueId, Source>, priority: i32) -> View {
    let seen = sources.iter();
    let seen = seen.map(|(id, source)| (*id, source.level, source.is_own.then_some(priority)));
    seen.collect()
}

/// Returns the gang of pods of this shape, where other pods of the gang hold anything. Gangs of which no pod holds anything share
/// a pool.
pub(super) fn gang_of(cluster: &Cluster, shape: &Shape) -> Option<WorkloadId> {
    let gang = shape.group.filter(|group| cluster.workload(*group).is_gang())?;
    cluster.workload(gang).members().next().map(|_| gang)
}

fn is_evictable(cluster: &Cluster, pod: &Pod, now: Timestamp) -> bool {
    matches!(pod.stage, Stage::Bound | Stage::Unbound { .. })
        && pod.deleted.is_none()
        // The pod that comes in its place would be evicted again and again.
        && !cluster.comes_back_unheld(pod)
        && !cluster.is_leaving(pod, now)
        && pod.eviction.spared_until.is_none_or(|until| until <= now)
}

/// Returns how many pods it takes to give `amount`, where each gives at most `most`. None where nobody gives any.
pub(super) fn pods_for(amount: i128, most: Option<i64>) -> Option<usize> {
    let most = most.map(i128::from).filter(|most| *most > 0)?;
    Some(usize::try_from((amount + most - 1) / most).unwrap_or(usize::MAX))
}

fn is_reclaimable(cluster: &Cluster, id: QueueId) -> bool {
    cluster.queue(id).terms().is_none_or(|terms| terms.reclaimable)
}
