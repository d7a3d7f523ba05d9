//! Reclaim on whole clusters beside an exhaustive reference that knows nothing of pools and floors: it tries every set of
//! running pods, counts all that the rule asks about anew from pods, queues and nodes, and takes the cheapest set that
//! suffices. In five dimensions at once: CPU, memory, cards, and the compute and memory of shared cards; with hierarchies.
//!
//! The set is sought for each node by itself. With some of it gone, the pod may get in on another node, without the rest: who is not
//! needed then is spared.

use std::cell::Cell;
use std::sync::Arc;

use crds::configuration::Configuration;
use engine::decide::Action;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::plain;
use super::properties::{cases, name};
use crate::world::{MGPU_CORE, MGPU_MEMORY, Object, World, node, pod};

const QUEUES: usize = 4;
/// CPU, memory in GiB, cards, and compute and memory in MiB of shared cards.
const DIMENSIONS: usize = 5;
const CARDS: usize = 2;
const SHARES: [usize; 2] = [3, 4];
/// What the nodes have: the first has whole cards, the second shares two.
const NODES: [Amounts; 2] = [[6, 8, 3, 0, 0], [6, 8, 0, 200, 16_000]];
/// What one shared card has.
const SHARED: [i64; 2] = [100, 8_000];

type Amounts = [i64; DIMENSIONS];

/// What a queue says.
#[derive(Debug, Clone)]
struct Says {
    /// A queue before it in the list.
    parent: Option<usize>,
    capability: [Option<i64>; DIMENSIONS],
    deserved: [Option<i64>; DIMENSIONS],
    guarantee: Amounts,
    reclaimable: bool,
}

#[derive(Debug, Clone)]
struct Worker {
    queue: usize,
    priority: i32,
    asks: Amounts,
    /// Its node, and its card there where it shares one.
    on: (usize, usize),
}

#[derive(Debug, Clone)]
struct Case {
    hierarchy: bool,
    preempt: bool,
    says: Vec<Says>,
    /// The younger, the later in the list.
    running: Vec<Worker>,
    claimant: Worker,
}

/// Amounts of each dimension, in the size that pods ask for.
fn scaled(amounts: [i64; DIMENSIONS]) -> Amounts {
    let [cpu, memory, cards, core, mgpu_memory] = amounts;
    [cpu, memory, cards, core * 20, mgpu_memory * 1_000]
}

fn says() -> impl Strategy<Value = Says> {
    let some = |most: i64, share: f64| {
        prop::array::uniform5(prop::option::weighted(share, 0..most)).prop_map(|amounts| {
            let all = scaled(amounts.map(Option::unwrap_or_default));
            std::array::from_fn(|dimension| amounts[dimension].map(|_| all[dimension]))
        })
    };
    let guarantee = prop::array::uniform5(prop_oneof![9 => Just(0), 1 => 1..3_i64]).prop_map(scaled);
    let parent = prop::option::of(0..QUEUES);
    let limits = (some(12, 0.05), some(5, 0.6), guarantee);
    (parent, limits, prop::bool::weighted(0.95)).prop_map(|(parent, (capability, deserved, guarantee), reclaimable)| {
        Says {
            parent,
            capability,
            deserved,
            guarantee: std::array::from_fn(|dimension| {
                capability[dimension].map_or(guarantee[dimension], |most: i64| most.min(guarantee[dimension]))
            }),
            reclaimable,
        }
    })
}

/// A pod that asks for this or up to that much more.
fn worker(queues: impl Strategy<Value = usize>, least: i64, more: i64) -> impl Strategy<Value = Worker> {
    let some = move || least..=least + more;
    let plain =
        (some(), some(), 0..2_usize).prop_map(|(cpu, memory, node)| (scaled([cpu, memory, 0, 0, 0]), (node, 0)));
    let on_cards =
        (1..3_i64, 1..3_i64, some()).prop_map(|(cpu, memory, cards)| (scaled([cpu, memory, cards, 0, 0]), (0, 0)));
    let shares =
        (some(), some(), 0..2_usize).prop_map(|(core, memory, card)| (scaled([1, 1, 0, core, memory]), (1, card)));
    let kind = prop_oneof![2 => plain, 2 => on_cards, 3 => shares];
    (queues, 0..3_i32, kind).prop_map(|(queue, priority, (asks, on))| Worker {
        queue,
        priority,
        asks,
        on,
    })
}

fn case() -> impl Strategy<Value = Case> {
    // Most of what runs is of others than the claimant's queue.
    let some = || prop_oneof![4 => 0..2_usize, 1 => 2..QUEUES];
    let pods = (
        prop::collection::vec(worker(some(), 1, 1), 8..13),
        worker(prop_oneof![1 => 0..2_usize, 4 => 2..QUEUES], 2, 2),
    );
    let queues = prop::collection::vec(says(), QUEUES);
    (any::<bool>(), any::<bool>(), queues, pods).prop_map(|(hierarchy, preempt, says, (running, claimant))| {
        let mut case = Case {
            hierarchy,
            preempt,
            says,
            running: Vec::new(),
            claimant,
        };
        for worker in running {
            case.running.push(worker);
            let (node, card) = case.running[case.running.len() - 1].on;
            let all = |_: &usize| true;
            let fits_node = (0..DIMENSIONS).all(|d| case.on_node(node, d, &all) <= NODES[node][d]);
            let fits_card = (0..2).all(|share| case.on_card(card, share, &all) <= SHARED[share]);
            if !(fits_node && fits_card) {
                case.running.pop();
            }
        }
        case
    })
}

/// The pods that are counted: all but those of a set.
type Counted<'a> = &'a dyn Fn(&usize) -> bool;

/// What a set of victims costs: the highest priority among them, how many they are, and who.
type Cost = (Option<i32>, usize, Vec<usize>);

impl Case {
    fn parent(&self, queue: usize) -> Option<usize> {
        let parent = self.says[queue].parent;
        parent.filter(|parent| self.hierarchy && *parent < queue)
    }

    fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..QUEUES).filter(move |queue| self.parent(*queue) == parent)
    }

    /// From the queue upwards.
    fn path(&self, queue: usize) -> Vec<usize> {
        std::iter::successors(Some(queue), |queue| self.parent(*queue)).collect()
    }

    fn workers<'a>(&'a self, counted: Counted<'a>) -> impl Iterator<Item = &'a Worker> + 'a {
        let indices = (0..self.running.len()).filter(counted);
        indices.map(|index| &self.running[index])
    }

    fn on_node(&self, node: usize, d: usize, counted: Counted<'_>) -> i64 {
        let there = self.workers(counted).filter(|worker| worker.on.0 == node);
        there.map(|worker| worker.asks[d]).sum()
    }

    fn on_card(&self, card: usize, share: usize, counted: Counted<'_>) -> i64 {
        let there = self.workers(counted).filter(|worker| worker.on == (1, card));
        there.map(|worker| worker.asks[SHARES[share]]).sum()
    }

    /// What pods have in a queue and below it.
    fn allocated(&self, queue: Option<usize>, d: usize, counted: Counted<'_>) -> i64 {
        let there = self.workers(counted);
        let there = there.filter(|worker| queue.is_none_or(|queue| self.path(worker.queue).contains(&queue)));
        there.map(|worker| worker.asks[d]).sum()
    }

    fn guaranteed(&self, queue: usize, d: usize) -> i64 {
        let below: i64 = self.children(Some(queue)).map(|child| self.guaranteed(child, d)).sum();
        below.max(self.says[queue].guarantee[d])
    }

    /// What must not be given to others on the account of a queue, with so much more for the claimant.
    fn held(&self, queue: usize, d: usize, counted: Counted<'_>, more: i64) -> i64 {
        self.used(Some(queue), d, counted, more)
            .max(self.says[queue].guarantee[d])
    }

    /// What a level's own pods have, and what its children hold.
    fn used(&self, level: Option<usize>, d: usize, counted: Counted<'_>, more: i64) -> i64 {
        let own = self.workers(counted).filter(|worker| Some(worker.queue) == level);
        let own: i64 = own.map(|worker| worker.asks[d]).sum();
        let children = self.children(level).map(|child| self.held(child, d, counted, more));
        let of_claimant = if Some(self.claimant.queue) == level { more } else { 0 };
        own + of_claimant + children.sum::<i64>()
    }

    fn total(d: usize) -> i64 {
        NODES.iter().map(|node| node[d]).sum()
    }

    fn real_capability(&self, queue: usize, d: usize) -> i64 {
        let parent = self.parent(queue);
        let available = parent.map_or_else(|| Self::total(d), |parent| self.real_capability(parent, d));
        let others = self.children(parent).filter(|other| *other != queue);
        let others: i64 = others.map(|other| self.guaranteed(other, d)).sum();
        let left = (available - others).max(self.guaranteed(queue, d)).max(0);
        self.says[queue].capability[d].map_or(left, |capability| capability.min(left))
    }

    /// What a queue deserves, where it says so.
    fn deserved(&self, queue: usize, d: usize) -> Option<i64> {
        let wanted = self.says[queue].deserved[d]?.max(self.guaranteed(queue, d));
        Some(wanted.min(self.real_capability(queue, d)))
    }

    /// The levels that have no room for the claimant in a dimension, or deserve less than with it; `None` is the cluster.
    fn levels_without_room(&self, d: usize, counted: Counted<'_>) -> Vec<Option<usize>> {
        let asked = self.claimant.asks[d];
        if asked == 0 {
            return Vec::new();
        }
        let path = self.path(self.claimant.queue).into_iter().map(Some);
        let lacks = |level: &Option<usize>| {
            let limit = level.map_or(Some(Self::total(d)), |queue| self.says[queue].capability[d]);
            let has = self.allocated(*level, d, counted) + asked;
            let (before, holds) = (self.used(*level, d, counted, 0), self.used(*level, d, counted, asked));
            let over_limit = limit.is_some_and(|limit| has > limit || (holds > before && holds > limit));
            over_limit || level.is_some_and(|queue| self.deserved(queue, d).is_some_and(|deserved| has > deserved))
        };
        path.chain([None]).filter(lacks).collect()
    }

    fn lacks_on_node(&self, node: usize, d: usize, counted: Counted<'_>) -> bool {
        let asked = self.claimant.asks[d];
        asked > 0 && self.on_node(node, d, counted) + asked > NODES[node][d]
    }

    fn lacks_cards(&self, node: usize, counted: Counted<'_>) -> bool {
        let shares = self.claimant.asks[SHARES[0]] > 0;
        let has_room = |card: usize| {
            (0..2).all(|share| self.on_card(card, share, counted) + self.claimant.asks[SHARES[share]] <= SHARED[share])
        };
        shares && !(node == 1 && (0..2).any(has_room))
    }

    /// Whether the claimant gets in on this node, and stays within what is said to be deserved.
    fn gets_in(&self, node: usize, counted: Counted<'_>) -> bool {
        let has_room =
            |d: usize| self.levels_without_room(d, counted).is_empty() && !self.lacks_on_node(node, d, counted);
        (0..DIMENSIONS).all(has_room) && !self.lacks_cards(node, counted)
    }

    /// Whether the claimant gets in on any node when just these are gone.
    fn gets_in_without(&self, set: &[usize]) -> bool {
        (0..NODES.len()).any(|node| self.gets_in(node, &|index| !set.contains(index)))
    }

    /// Whether these are those of a set that are needed: they are enough, and without any of them they are not.
    fn are_needed(&self, needed: &[usize], set: &[usize]) -> bool {
        let is_spared = |spared: &usize| {
            let others: Vec<_> = needed.iter().copied().filter(|index| index != spared).collect();
            self.gets_in_without(&others)
        };
        needed.iter().all(|index| set.contains(index)) && self.gets_in_without(needed) && !needed.iter().any(is_spared)
    }

    /// The levels of a worker's queue below the lowest that it has in common with the claimant's.
    fn part(&self, queue: usize) -> Vec<usize> {
        let shared = self.path(self.claimant.queue);
        let mut path = self.path(queue);
        path.retain(|level| !shared.contains(level));
        path
    }

    /// Whether the part that a queue belongs to has more than it deserves, and every queue in it that says what it deserves.
    fn borrows(&self, queue: usize, d: usize) -> bool {
        let part = self.part(queue);
        let is_above = |level: &usize| {
            let deserved = self.deserved(*level, d);
            deserved.map(|deserved| self.allocated(Some(*level), d, &|_| true) > deserved)
        };
        part.last().and_then(is_above) == Some(true) && part.iter().all(|level| is_above(level) != Some(false))
    }

    /// Whether a running pod may be taken back at all so that the claimant gets in on this node.
    fn is_due(&self, index: usize, node: usize) -> bool {
        let worker = &self.running[index];
        if worker.queue == self.claimant.queue {
            return self.preempt && worker.priority < self.claimant.priority;
        }
        let part = self.part(worker.queue);
        let all: Counted<'_> = &|_| true;
        let gives = |d: usize| {
            let of_levels = self.levels_without_room(d, all).into_iter();
            let mut of_levels =
                of_levels.filter(|level| level.is_none_or(|level| self.path(worker.queue).contains(&level)));
            let of_node = worker.on.0 == node && self.lacks_on_node(node, d, all);
            let of_cards = worker.on.0 == node && SHARES.contains(&d) && self.lacks_cards(node, all);
            worker.asks[d] > 0 && (of_levels.next().is_some() || of_node || of_cards)
        };
        part.iter().all(|level| self.says[*level].reclaimable)
            && (0..DIMENSIONS).any(|d| gives(d) && self.borrows(worker.queue, d))
    }

    fn lacks(&self, node: usize, d: usize) -> bool {
        let all: Counted<'_> = &|_| true;
        let of_cards = SHARES.contains(&d) && self.claimant.asks[d] > 0 && self.lacks_cards(node, all);
        !self.levels_without_room(d, all).is_empty() || self.lacks_on_node(node, d, all) || of_cards
    }

    /// Whether all from whom this set is taken keep what they must.
    fn keeps_floors(&self, set: &[usize], node: usize) -> bool {
        let left: Counted<'_> = &|index| !set.contains(index);
        let keeps = |level: usize, d: usize| {
            let taken = set.iter().any(|index| {
                let worker = &self.running[*index];
                worker.asks[d] > 0 && self.part(worker.queue).contains(&level)
            });
            let deserved = self.deserved(level, d).filter(|_| self.lacks(node, d));
            let floor = deserved.unwrap_or(0).max(self.guaranteed(level, d));
            let protects = deserved.is_some() || self.guaranteed(level, d) > 0;
            !taken || !protects || self.allocated(Some(level), d, left) >= floor
        };
        (0..QUEUES).all(|level| (0..DIMENSIONS).all(|d| keeps(level, d)))
    }

    /// The cheapest set that suffices, for any node.
    fn cheapest(&self) -> Option<Vec<usize>> {
        // Lowest priority first, then youngest.
        let mut by_rank: Vec<_> = (0..self.running.len()).collect();
        by_rank.sort_by_key(|index| (self.running[*index].priority, std::cmp::Reverse(*index)));
        let mut best: Option<(Cost, Vec<usize>)> = None;
        for (node, offers) in NODES.iter().enumerate() {
            if (0..DIMENSIONS).any(|d| self.claimant.asks[d] > offers[d]) {
                continue;
            }
            let due: Vec<_> = by_rank.iter().map(|index| self.is_due(*index, node)).collect();
            for bits in 1_u32..1 << by_rank.len() {
                let ranks: Vec<_> = (0..by_rank.len()).filter(|rank| bits & (1 << rank) != 0).collect();
                if !ranks.iter().all(|rank| due[*rank]) {
                    continue;
                }
                let set: Vec<_> = ranks.iter().map(|rank| by_rank[*rank]).collect();
                let priority = set.iter().map(|index| self.running[*index].priority).max();
                let cost = (priority, set.len(), ranks.into_iter().rev().collect());
                let is_better = best.as_ref().is_none_or(|(known, _)| cost < *known);
                if is_better && self.keeps_floors(&set, node) && self.gets_in(node, &|index| !set.contains(index)) {
                    best = Some((cost, set));
                }
            }
        }
        best.map(|(_, set)| set)
    }
}

/// The queue, as the API server has it.
fn show(case: &Case, queue: usize) -> Object {
    let says = &case.says[queue];
    let cards = |count: i64| format!("{{\"A\": {count}}}");
    let quantity = |d: usize, amount: i64| match d {
        1 => format!("{amount}Gi"),
        _ => amount.to_string(),
    };
    let resource = |d: usize| ["cpu", "memory", "", MGPU_CORE, MGPU_MEMORY][d];
    let mut object = plain(&name(queue)).set(["spec", "reclaimable"], says.reclaimable);
    for d in 0..DIMENSIONS {
        if let Some(most) = says.capability[d] {
            object = match d {
                CARDS => object.quota(&cards(most)),
                _ => object.capability(resource(d), &quantity(d, most)),
            };
        }
        if let Some(amount) = says.deserved[d] {
            object = match d {
                CARDS => object.deserved_cards(&cards(amount)),
                _ => object.deserved(resource(d), &quantity(d, amount)),
            };
        }
        if says.guarantee[d] > 0 {
            object = match d {
                CARDS => object.guaranteed_cards(&cards(says.guarantee[d])),
                _ => object.guarantee(resource(d), &quantity(d, says.guarantee[d])),
            };
        }
    }
    match case.parent(queue) {
        Some(parent) => object.parent(&name(parent)),
        None => object,
    }
}

fn show_worker(uid: &str, worker: &Worker) -> Object {
    let [cpu, memory, cards, core, mgpu_memory] = worker.asks;
    let pod = pod(uid).queue(&name(worker.queue)).priority(worker.priority);
    let pod = pod
        .requests("cpu", &cpu.to_string())
        .requests("memory", &format!("{memory}Gi"));
    match (cards, core) {
        (0, 0) => pod,
        (0, core) => pod.share(core, mgpu_memory),
        (cards, _) => pod.asks("A", cards),
    }
}

/// The pods that the engine has evicted for the claimant, by index; and whether it let that in.
fn engine(case: &Case) -> (Option<Vec<usize>>, bool) {
    let preempt = if case.preempt { ", preempt" } else { "" };
    let conf = format!(
        "actions: \"enqueue, allocate, reclaim{preempt}\"\ntiers: [{{plugins: [{{name: capacity, arguments: \
         {{enableHierarchy: {}}}}}]}}]",
        case.hierarchy
    );
    let cardgate = "{reservationTimeout: 1h, unnamedCards: free}";
    let parsed = Configuration::parse(Some(&conf), Some(cardgate)).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(
        &node("n0")
            .cards("A", NODES[0][2])
            .offers("cpu", "6")
            .offers("memory", "8Gi"),
    );
    world.node(
        &node("n1")
            .mgpu(2, SHARED[1], "fixed-share")
            .offers("cpu", "6")
            .offers("memory", "8Gi"),
    );
    (0..QUEUES).for_each(|queue| world.queue(&show(case, queue)));
    for (index, worker) in case.running.iter().enumerate() {
        let mut object = show_worker(&format!("p{index}"), worker).created(i64::try_from(index).unwrap());
        if worker.asks[CARDS] > 0 {
            object = object.assigned("A");
        }
        if worker.asks[SHARES[0]] > 0 {
            object = object.annotation("vke.volcengine.com/gpu-index-container-main", &worker.on.1.to_string());
        }
        world.pod(&object.on(&format!("n{}", worker.on.0)));
    }
    world.pod(&show_worker("claimant", &case.claimant).created(9));
    match &world.decide()[..] {
        [] => (None, false),
        [Action::Admit(_)] => (None, true),
        [Action::Evict(eviction)] => {
            let victims = eviction.victims.iter();
            let mut victims: Vec<usize> = victims.map(|victim| victim.pod.uid[1..].parse().unwrap()).collect();
            victims.sort_unstable();
            (Some(victims), false)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_is_evicted_is_who_exhaustive_search_finds() {
    let (evictions, of_more, on_cards) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let config: Config = cases(1_500);
    let number = config.cases;
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&case(), |case| {
        let is_inner = case.hierarchy && case.children(Some(case.claimant.queue)).next().is_some();
        let (evicted, is_let_in) = engine(&case);
        // Whoever needs nobody evicted is let in by another rule, or waits for something else.
        if is_inner || is_let_in {
            prop_assert_eq!(evicted, None);
            return Ok(());
        }
        let expected = case.cheapest();
        if let Some(set) = &expected {
            evictions.set(evictions.get() + 1);
            of_more.set(of_more.get() + u32::from(set.len() > 1));
            on_cards.set(on_cards.get() + u32::from(case.claimant.asks[SHARES[0]] > 0));
        }
        let is_right = match (&evicted, &expected) {
            (Some(evicted), Some(set)) => case.are_needed(evicted, set),
            (evicted, expected) => evicted == expected,
        };
        prop_assert!(is_right, "{evicted:?} of {expected:?}");
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    // The worlds are such that there is something to find.
    let found = [&evictions, &of_more, &on_cards].map(Cell::get);
    let [all, more, shares] = found;
    assert!(
        all >= number / 20 && more >= number / 150 && shares >= number / 50,
        "{found:?} of {number}"
    );
}
