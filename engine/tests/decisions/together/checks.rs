//! What must hold, counted from what the API server has.

use std::collections::{BTreeMap, BTreeSet};

use engine::decide::{Admission, Eviction};
use engine::reason::Reason;

use super::run::{Pod, Run};
use super::steps::{Ask, CARDS, GROUPS, MEMORY, NODES, Owner, QUEUES};
use crate::world::World;

/// Reasons that come and go with what others hold.
const OF_THE_MOMENT: [&str; 6] = [
    "InsufficientCPUQuota",
    "InsufficientMemoryQuota",
    "InsufficientScalarQuota",
    "InsufficientMGPU",
    "NoNodeFits",
    "NodesExcluded",
];

/// CPU, then each card.
const DIMENSIONS: usize = 1 + CARDS.len();
pub type Amounts = [i64; DIMENSIONS];

/// Whether a node has cards that the pattern of `CrossQuota` finds.
pub fn has_whole_cards(node: usize) -> bool {
    node < 2
}

/// What was there before a round.
pub struct Tally {
    queues: Vec<Amounts>,
    members: [[usize; 3]; GROUPS],
}

fn add(sum: &mut Amounts, amounts: Amounts) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum += amount;
    }
}

impl Run {
    fn parent(&self, queue: usize) -> Option<usize> {
        self.queues[queue]
            .parent
            .filter(|parent| self.setting.hierarchy && *parent < queue)
    }

    /// From the queue upwards.
    fn path(&self, queue: usize) -> Vec<usize> {
        std::iter::successors(Some(queue), |queue| self.parent(*queue)).collect()
    }

    fn is_inner(&self, queue: usize) -> bool {
        (0..QUEUES).any(|child| self.parent(child) == Some(queue))
    }

    /// What a pod comes to with a card. Who was let in for one counts for it, whatever is said later of those who name none.
    fn amounts(&self, pod: &Pod, card: Option<usize>) -> Amounts {
        let mut amounts = [0; DIMENSIONS];
        let is_charged = match pod.spec.ask {
            Ask::Cpu => false,
            Ask::Named(..) => true,
            Ask::Unnamed(_) | Ask::Share(..) => self.setting.unnamed == "charge" || pod.card.is_some(),
        };
        let count = match pod.spec.ask {
            Ask::Cpu => 0,
            Ask::Named(_, count) | Ask::Unnamed(count) => count,
            Ask::Share(core, _, containers) => core * i64::try_from(containers).unwrap(),
        };
        // An argument of this plugin alone.
        let is_unlimited = self.setting.unlimited && self.setting.plugin == "capacity-card";
        if !(is_unlimited && is_charged) {
            amounts[0] = pod.spec.cpu;
        }
        if let Some(card) = card.filter(|_| is_charged) {
            amounts[1 + card] = count;
        }
        amounts
    }

    /// What a pod holds that was let in.
    fn held(&self, pod: &Pod) -> Amounts {
        let named = pod
            .card
            .as_ref()
            .and_then(|card| CARDS.iter().position(|known| known == card));
        self.amounts(pod, named.or(pod.node.filter(|node| *node < CARDS.len())))
    }

    fn allocated(&self, queue: usize) -> Amounts {
        let mut sum = [0; DIMENSIONS];
        for pod in self.pods.values() {
            if !pod.gated && self.path(pod.spec.queue).contains(&queue) {
                add(&mut sum, self.held(pod));
            }
        }
        sum
    }

    /// What a queue's capability says of each dimension; none where nothing limits it.
    fn limits(&self, queue: usize) -> [Option<i64>; DIMENSIONS] {
        let says = &self.queues[queue];
        let named = [says.cpu, says.quota[0], says.quota[1], says.quota[2]];
        let is_strict = self.setting.plugin == "capacity-card" && !self.is_inner(queue);
        named.map(|named| named.or(is_strict.then_some(0)))
    }

    /// All of a group, then each task.
    fn members(&self, group: usize) -> [usize; 3] {
        let of_group = || {
            self.pods
                .values()
                .filter(|pod| !pod.gated && pod.spec.owner == Owner::Group(group))
        };
        let of_task = |task| of_group().filter(|pod| pod.spec.task == task).count();
        [of_group().count(), of_task(0), of_task(1)]
    }

    pub fn tally(&self) -> Tally {
        let mut members = [[0; 3]; GROUPS];
        (0..GROUPS).for_each(|group| members[group] = self.members(group));
        Tally {
            queues: (0..QUEUES).map(|queue| self.allocated(queue)).collect(),
            members,
        }
    }

    /// A pod is let in.
    pub fn check_admission(&self, uid: &str, admission: &Admission) {
        let pod = &self.pods[uid];
        let queue = pod.spec.queue;
        assert!(self.queues[queue].open, "{uid} is let into a queue that is closed");
        assert!(!self.is_inner(queue), "{uid} is let into an inner queue");
        let Some(node) = self.expected_on(uid) else {
            let is_share = matches!(pod.spec.ask, Ask::Share(..));
            assert!(
                self.setting.on_quota && (!is_share || self.setting.mgpu_extender),
                "{uid} is expected nowhere"
            );
            return;
        };
        assert!(self.ready[node], "{uid} is let in for a node that is not ready");
        let has_cards = match pod.spec.ask {
            Ask::Cpu => true,
            Ask::Named(cards, _) => {
                let is_asked = |card: &str| cards.iter().any(|known| CARDS[*known] == card);
                cards.contains(&node) && admission.card.as_deref().is_some_and(is_asked)
            }
            Ask::Unnamed(_) => node < 2,
            Ask::Share(.., containers) => {
                let written = if self.setting.mgpu_extender { 0 } else { containers };
                node == 2 && admission.mgpu_results.len() >= written
            }
        };
        assert!(has_cards, "{uid} is let in for n{node} with {admission:?}");
        // Shares are on no node that the pattern finds, and their pods can go nowhere else.
        let is_held = pod.spec.ask == Ask::Cpu && pod.spec.opted_in;
        if let Some(quota) = self.setting.cross_quota.filter(|_| is_held) {
            if has_whole_cards(node) {
                let pin = admission.pin.as_ref().map(|pin| &*pin.node);
                assert_eq!(pin, Some(&*format!("n{node}")), "{uid}");
                let used = self.cpu_without_gpu(node) + pod.spec.cpu;
                assert!(used <= quota, "pods without GPU have {used} CPUs of {quota} on n{node}");
            } else {
                assert!(admission.off_gpu_nodes.is_some(), "{uid} may go to a GPU node");
            }
        }
    }

    /// Where a pod that was let in is expected.
    pub fn expected_on(&self, uid: &str) -> Option<usize> {
        let room = self.world.known(uid).room?;
        Some(self.world.cluster.node(room).name[1..].parse().unwrap())
    }

    /// What the pods without GPU have of a node.
    fn cpu_without_gpu(&self, node: usize) -> i64 {
        let there = self
            .pods
            .values()
            .filter(|pod| pod.node == Some(node) && pod.is_without_gpu());
        there.map(|pod| pod.spec.cpu).sum()
    }

    /// A round is over.
    pub fn check(&self, before: &Tally) {
        for queue in 0..QUEUES {
            let (has, had, limits) = (self.allocated(queue), before.queues[queue], self.limits(queue));
            for dimension in 0..DIMENSIONS {
                assert!(
                    has[dimension] <= had[dimension] || limits[dimension].is_none_or(|limit| has[dimension] <= limit),
                    "q{queue} has {has:?} of {limits:?}, and had {had:?}"
                );
            }
        }
        self.check_guarantees(before);
        for node in 0..NODES {
            self.check_node(node);
        }
        for (index, shown) in &self.groups {
            let (is, was) = (self.members(*index), before.members[*index]);
            let [first, second] = shown.says.least_of_tasks();
            let is_whole = is[0] >= shown.says.least && is[1] >= first && is[2] >= second;
            assert!(
                is[0] <= was[0] || is_whole || self.torn.contains(index),
                "g{index} has {is:?} and had {was:?}: {:?}",
                shown.says
            );
        }
    }

    /// What is kept free for queues goes to nobody else: of whole cards, where no queue is part of another.
    fn check_guarantees(&self, before: &Tally) {
        if self.setting.hierarchy || self.setting.named_only {
            return;
        }
        // Without guarantees, only `capacity` limits by what there is, unless pods are let in that wait for further nodes:
        // docs/rules.md, **Queues**.
        let is_limited = |card: usize| {
            let is_at_all = self.setting.plugin == "capacity" && !self.setting.on_quota;
            is_at_all || self.queues.iter().any(|queue| queue.guarantee[card] > 0)
        };
        for card in (0..2).filter(|card| self.ready[*card] && is_limited(*card)) {
            let held = |allocated: &dyn Fn(usize) -> Amounts| -> i64 {
                let held = (0..QUEUES).map(|queue| allocated(queue)[1 + card].max(self.queues[queue].guarantee[card]));
                held.sum()
            };
            let (had, has) = (
                held(&|queue| before.queues[queue]),
                held(&|queue| self.allocated(queue)),
            );
            // Who is limited in the resource alone may get what others are guaranteed by name: docs/rules.md, **Card quota**.
            let is_anywhere =
                |pod: &Pod| matches!(pod.spec.ask, Ask::Unnamed(_)) && pod.card.is_none() && pod.node == Some(card);
            if self.setting.unnamed == "charge" && self.pods.values().any(is_anywhere) {
                continue;
            }
            assert!(
                has <= had || has <= 4,
                "{has} {} are in use or kept free, and were {had}",
                CARDS[card]
            );
        }
    }

    fn check_node(&self, node: usize) {
        let there: Vec<_> = self.pods.iter().filter(|(_, pod)| pod.node == Some(node)).collect();
        let cpu: i64 = there.iter().map(|(_, pod)| pod.spec.cpu).sum();
        assert!(cpu <= 8, "n{node} has {cpu} CPUs in use");
        let mut cards: i64 = 0;
        let mut shared = BTreeMap::<&str, (i64, i64)>::new();
        for (uid, pod) in there {
            match pod.spec.ask {
                Ask::Cpu => {}
                Ask::Named(_, count) | Ask::Unnamed(count) => cards += count,
                Ask::Share(core, memory, containers) => {
                    let lists = pod
                        .results
                        .iter()
                        .filter(|(key, _)| key.contains("gpu-index-container-"));
                    let lists: Vec<_> = lists.collect();
                    assert_eq!(lists.len(), containers, "{uid} has {lists:?}");
                    for (_, card) in lists {
                        let used = shared.entry(card).or_default();
                        *used = (used.0 + core, used.1 + memory);
                    }
                }
            }
        }
        assert!(cards <= 4, "n{node} has {cards} cards in use");
        for (card, (core, memory)) in shared {
            assert!(
                core <= 100 && memory <= MEMORY,
                "card {card} has {core} core and {memory} MiB in use"
            );
        }
    }

    /// Pods are taken back for a waiting one: only who may be, and only for who may have it.
    pub fn check_eviction(&self, eviction: &Eviction) {
        let claimant = &self.pods[&*eviction.waiting.uid];
        let claimed = self.path(claimant.spec.queue);
        assert!(!eviction.victims.is_empty() && claimant.gated);
        let mut taken = BTreeMap::<usize, Amounts>::new();
        for victim in &eviction.victims {
            let pod = &self.pods[&*victim.pod.uid];
            assert!(!pod.gated, "{} holds nothing", victim.pod.uid);
            let path = self.path(pod.spec.queue);
            if pod.spec.queue == claimant.spec.queue {
                assert!(self.setting.preempt && pod.spec.priority < claimant.spec.priority);
            } else {
                assert!(self.setting.reclaim);
            }
            for level in path.iter().filter(|level| !claimed.contains(level)) {
                assert!(self.queues[*level].reclaimable, "q{level} gives nothing back");
                add(taken.entry(*level).or_default(), self.held(pod));
            }
        }
        for (level, taken) in taken {
            for (dimension, taken) in taken.into_iter().enumerate() {
                let (has, keeps) = (self.allocated(level)[dimension], self.own_guarantee(level)[dimension]);
                let left = has - taken;
                assert!(
                    taken == 0 || left >= keeps.min(has),
                    "q{level} is guaranteed {keeps} of {dimension} and keeps {left}"
                );
            }
        }
        let cards: Vec<Option<usize>> = match claimant.spec.ask {
            Ask::Cpu => vec![None],
            Ask::Named(cards, _) => cards.iter().map(|card| Some(*card)).collect(),
            Ask::Unnamed(_) => vec![Some(0), Some(1), None],
            Ask::Share(..) => vec![Some(2)],
        };
        let is_entitled = cards.into_iter().any(|card| {
            let asks = self.amounts(claimant, card);
            claimed.iter().all(|level| {
                let says = &self.queues[*level];
                let has = self.allocated(*level);
                let deserved = [says.deserved_cpu, says.deserved[0], says.deserved[1], says.deserved[2]];
                (0..DIMENSIONS).all(|dimension| {
                    // What its own queue or department gives is taken for it within what they deserve.
                    let own = eviction.victims.iter().map(|victim| &self.pods[&*victim.pod.uid]);
                    let own = own.filter(|pod| self.path(pod.spec.queue).contains(level));
                    let given: i64 = own.map(|pod| self.held(pod)[dimension]).sum();
                    let guarantee = self.guaranteed(*level)[dimension];
                    let is_compared = !self.setting.named_only || self.limits(*level)[dimension].is_some();
                    asks[dimension] == 0
                        || !is_compared
                        || deserved[dimension]
                            .is_none_or(|deserved| has[dimension] - given + asks[dimension] <= deserved.max(guarantee))
                })
            })
        });
        assert!(is_entitled, "{} would borrow", eviction.waiting.uid);
    }

    fn own_guarantee(&self, queue: usize) -> Amounts {
        let says = &self.queues[queue];
        let [a, b, shares] = says.guarantee;
        [says.guarantee_cpu, a, b, shares]
    }

    fn guaranteed(&self, queue: usize) -> Amounts {
        let mut below = [0; DIMENSIONS];
        for child in (0..QUEUES).filter(|child| self.parent(*child) == Some(queue)) {
            add(&mut below, self.guaranteed(child));
        }
        let own = self.own_guarantee(queue);
        std::array::from_fn(|dimension| below[dimension].max(own[dimension]))
    }

    /// Whoever starts now decides nothing, and finds the same reasons.
    pub fn check_restart(&self) {
        // What the API server has refused, and where a pod is expected that no scheduler has placed, is only remembered.
        let is_remembered = |pod: &engine::cluster::pod::Pod| {
            let waits = pod.waits.as_ref();
            waits.is_some_and(|waits| waits.aside_until.is_some() || waits.write_refusals > 0)
        };
        let is_placed = |pod: &Pod| pod.gated || pod.node.is_some();
        if self.world.cluster.pods().any(is_remembered) || !self.pods.values().all(is_placed) {
            return;
        }
        let mut other = self.anew();
        let actions = other.decide();
        let enqueued = |world: &World| {
            let enqueued = world.cluster.workloads().filter(|(_, workload)| workload.is_enqueued());
            enqueued
                .map(|(_, workload)| workload.name.to_string())
                .collect::<BTreeSet<_>>()
        };
        let (before, now) = (enqueued(&self.world), enqueued(&other));
        // For whom a queue keeps something that it would not keep again (its quota was lowered since, or pods were let in beside),
        // who starts anew does not.
        if !before.is_subset(&now) {
            return;
        }
        assert_eq!(before, now, "workloads in their queues, before and after a restart");
        assert_eq!(actions, [], "after a restart");
        for (uid, pod) in self.pods.iter().filter(|(_, pod)| pod.gated) {
            let [known, again] = [&self.world, &other].map(|world| world.reason(uid).map(Reason::as_str));
            // Of several things that are lacking, the one that was found first is told until something better is possible.
            let of_the_moment = [known, again]
                .iter()
                .flatten()
                .all(|reason| OF_THE_MOMENT.contains(reason));
            assert!(
                known == again || of_the_moment,
                "{uid} waits for {known:?}, and for {again:?} after a restart: {:?}",
                pod.spec
            );
        }
    }
}
