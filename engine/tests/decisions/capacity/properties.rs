//! Random hierarchies and sequences of events: sums are as counted from scratch, limits hold, guarantees are served, and
//! evictions come to an end.

use std::collections::BTreeMap;

use engine::amounts::Dimension;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::{Action, Eviction};
use proptest::prelude::*;

use super::{plain, worker};
use crate::world::{Object, World, capacity, node};

pub(super) const QUEUES: usize = 5;
pub(super) const NODES: usize = 3;
pub(super) const CARDS: i64 = 4;

/// What a queue says.
#[derive(Debug, Clone)]
pub(super) struct Says {
    /// A queue before it in the list, where there are parents.
    pub(super) parent: Option<usize>,
    pub(super) capability: Option<i64>,
    pub(super) deserved: Option<i64>,
    pub(super) guarantee: i64,
    pub(super) reclaimable: bool,
    pub(super) priority: i32,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// So many pods come to a queue, with so many cards each.
    Come(usize, usize, i64),
    /// The first so many pods of a queue end.
    Go(usize, usize),
    Change(usize, Says),
    Node(usize, bool),
}

pub(super) fn says(parents: bool) -> impl Strategy<Value = Says> {
    let parent = prop::option::of(0..QUEUES);
    let limits = (prop::option::of(0..12_i64), prop::option::of(0..8_i64), 0..4_i64);
    (parent, limits, prop::bool::weighted(0.8), 0..2_i32).prop_map(move |(parent, limits, reclaimable, priority)| {
        let (capability, deserved, guarantee) = limits;
        Says {
            parent: parent.filter(|_| parents),
            capability,
            deserved,
            guarantee: capability.map_or(guarantee, |capability| guarantee.min(capability)),
            reclaimable,
            priority,
        }
    })
}

pub(super) fn steps(parents: bool, largest: i64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..QUEUES, 1..8_usize, 1..=largest).prop_map(|(queue, count, cards)| Step::Come(queue, count, cards)),
        3 => (0..QUEUES, 1..5_usize).prop_map(|(queue, count)| Step::Go(queue, count)),
        2 => (0..QUEUES, says(parents)).prop_map(|(queue, says)| Step::Change(queue, says)),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, ready)| Step::Node(node, ready)),
    ];
    prop::collection::vec(step, 1..12)
}

pub(super) fn name(queue: usize) -> String {
    format!("q{queue}")
}

/// The queue, as the API server has it.
pub(super) fn show(queue: usize, says: &Says) -> Object {
    let card = |count: i64| format!("{{\"A\": {count}}}");
    let mut object = plain(&name(queue))
        .guaranteed_cards(&card(says.guarantee))
        .set(["spec", "reclaimable"], says.reclaimable)
        .set(["spec", "priority"], says.priority);
    if let Some(capability) = says.capability {
        object = object.quota(&card(capability));
    }
    if let Some(deserved) = says.deserved {
        object = object.deserved_cards(&card(deserved));
    }
    // Any parent that is before it in the list: the door lets no cycle through.
    if let Some(parent) = says.parent.filter(|parent| *parent < queue) {
        object = object.parent(&name(parent));
    }
    object
}

struct Run {
    world: World,
    says: Vec<Says>,
    /// Pods as the API server has them.
    pods: BTreeMap<String, Object>,
    came: usize,
    /// Whether evicted pods take more than one round to go.
    slow: bool,
    /// Pods that are going, for whom.
    going: Vec<(Vec<String>, String)>,
    /// For whom all are gone that were to go.
    served: Vec<String>,
    /// Pods that come while others are going: their queues, and how many cards they ask for.
    intruders: Vec<(usize, i64)>,
}

impl Run {
    fn new(says: Vec<Says>, hierarchy: bool, slow: bool) -> Self {
        let arguments = format!("guaranteeThreshold: 100, reclaimInterval: 1, enableHierarchy: {hierarchy}");
        let world = World::with(capacity("enqueue, allocate, backfill, reclaim", &arguments));
        let mut run = Self {
            world,
            says: Vec::new(),
            pods: BTreeMap::new(),
            came: 0,
            slow,
            going: Vec::new(),
            served: Vec::new(),
            intruders: Vec::new(),
        };
        (0..NODES).for_each(|node| run.node(node, true));
        for (queue, says) in says.into_iter().enumerate() {
            run.says.push(says);
            run.show_queue(queue);
        }
        run
    }

    fn node(&mut self, index: usize, ready: bool) {
        let node = node(&format!("n{index}")).cards("A", CARDS).offers("pods", "1000");
        self.world.node(&if ready { node } else { node.not_ready() });
    }

    fn show_queue(&mut self, queue: usize) {
        self.world.queue(&show(queue, &self.says[queue]));
    }

    fn come(&mut self, queue: usize, cards: i64) {
        self.came += 1;
        let pod = worker(&name(queue), 0).asks("A", cards);
        let pod = pod
            .uid(&format!("p{}", self.came))
            .set(["metadata", "name"], format!("p{}", self.came));
        self.world.pod(&pod);
        self.pods.insert(format!("p{}", self.came), pod);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Come(queue, count, cards) => (0..*count).for_each(|_| self.come(*queue, *cards)),
            Step::Go(queue, count) => {
                let running = self.pods.keys().filter(|uid| {
                    let pod = self.world.known(uid);
                    pod.charge.is_some() && pod.queue == self.world.cluster.queue_named(&name(*queue))
                });
                for uid in running.take(*count).cloned().collect::<Vec<_>>() {
                    self.gone(&uid);
                }
            }
            Step::Change(queue, says) => {
                self.says[*queue] = says.clone();
                self.show_queue(*queue);
            }
            Step::Node(node, ready) => self.node(*node, *ready),
        }
    }

    fn gone(&mut self, uid: &str) {
        self.world.remove_pod(uid);
        self.pods.remove(uid);
    }

    fn card(&self) -> Dimension {
        Dimension::Card(self.world.cluster.names().known_card("A").unwrap())
    }

    /// What a queue and those below it have, counted from scratch, and what they hold.
    fn recount(&self, queue: usize, hierarchy: bool) -> (i128, i128) {
        let card = self.card();
        let cluster = &self.world.cluster;
        let id = cluster.queue_named(&name(queue));
        let of_pods = cluster.pods().filter(|pod| pod.queue == id).filter_map(|pod| {
            let charge = pod.charge.as_ref()?;
            charge.amounts.iter().find(|(dimension, _)| *dimension == card)
        });
        let own: i128 = of_pods.map(|(_, count)| i128::from(count)).sum();
        let (mut allocated, mut held) = (own, own);
        for child in (queue + 1..QUEUES).filter(|child| hierarchy && self.says[*child].parent == Some(queue)) {
            let (of_child, held_by_child) = self.recount(child, hierarchy);
            allocated += of_child;
            held += held_by_child;
        }
        (allocated, held.max(self.says[queue].guarantee.into()))
    }

    fn check(&self, hierarchy: bool) {
        let (card, cluster) = (self.card(), &self.world.cluster);
        let (mut all, mut all_held) = (0, 0);
        for queue in 0..QUEUES {
            let (allocated, held) = self.recount(queue, hierarchy);
            let known = self.world.known_queue(&name(queue));
            assert_eq!(known.allocated_in_all(card), allocated, "{} has", name(queue));
            let is_top = !hierarchy || self.says[queue].parent.is_none_or(|parent| parent >= queue);
            if is_top {
                (all, all_held) = (all + allocated, all_held + held);
            }
        }
        assert_eq!(cluster.top().below.allocated.get(card), all);
        assert_eq!(cluster.top().below.held.get(card), all_held);
    }

    /// One round, of which everything is carried out: evicted pods go and come back, and then whoever they were evicted for is in.
    fn round(&mut self, hierarchy: bool) -> usize {
        let before: Vec<_> = (0..QUEUES).map(|queue| self.recount(queue, hierarchy).0).collect();
        let actions = self.world.decide();
        for (queue, before) in before.into_iter().enumerate() {
            let (after, limit) = (self.recount(queue, hierarchy).0, self.says[queue].capability);
            let is_within = limit.is_none_or(|limit| after <= i128::from(limit)) || after <= before;
            assert!(is_within, "{} has {after} of {limit:?}", name(queue));
        }
        let count = actions.len();
        for action in actions {
            match action {
                Action::Admit(admission) => {
                    let uid = admission.pod.uid.to_string();
                    let known = self.world.known(&uid);
                    let node = self.world.cluster.node(known.room.unwrap()).name.to_string();
                    let pod = self.pods[&uid].clone().assigned("A").on(&node);
                    self.world.confirm(&uid);
                    self.world.pod(&pod);
                }
                Action::Evict(eviction) => {
                    self.check_floors(&eviction);
                    let victims = eviction.victims.iter().map(|victim| victim.pod.uid.to_string());
                    let victims: Vec<_> = victims.collect();
                    for uid in &victims {
                        let now = self.world.now;
                        self.world.eviction_ended(uid, EvictionOutcome::Evicted, now);
                    }
                    self.going.push((victims, eviction.waiting.uid.to_string()));
                }
                other => panic!("{other:?}"),
            }
        }
        for claimant in std::mem::take(&mut self.served) {
            let is_in = self.world.known(&claimant).charge.is_some();
            assert!(is_in, "others were evicted in vain for {claimant}");
        }
        if let Some((queue, cards)) = self.intruders.pop_if(|_| !self.going.is_empty()) {
            self.come(queue, cards);
        }
        self.go();
        self.check(hierarchy);
        count + self.going.len() + self.served.len()
    }

    /// Evicted pods are gone, and come back.
    fn go(&mut self) {
        let mut going = std::mem::take(&mut self.going);
        for (victims, _) in &mut going {
            let count = if self.slow {
                victims.len().div_ceil(2)
            } else {
                victims.len()
            };
            for uid in victims.drain(..count) {
                let pod = self.world.known(&uid);
                let queue = self.world.cluster.queue(pod.queue.unwrap()).name[1..].parse().unwrap();
                let cards = pod.charge.as_ref().unwrap().amounts.get(self.card());
                self.gone(&uid);
                self.come(queue, cards);
            }
        }
        // What is freed for a queue is for the first of it.
        let queue = |claimant: &str| self.world.known(claimant).queue;
        let waits = going.iter().filter(|(victims, _)| !victims.is_empty());
        let waits: Vec<_> = waits.map(|(_, claimant)| queue(claimant)).collect();
        let (going, gone) = going
            .into_iter()
            .partition(|(_, claimant)| waits.contains(&queue(claimant)));
        let gone: Vec<(Vec<String>, String)> = gone;
        self.served.extend(gone.into_iter().map(|(_, claimant)| claimant));
        self.going = going;
    }

    /// Without the victims, none of their queues and of those above them that others are to get it from has less than it
    /// deserves or is guaranteed.
    fn check_floors(&self, eviction: &Eviction) {
        let (cluster, card) = (&self.world.cluster, self.card());
        let claimant = cluster.queue_named(&eviction.queue).unwrap();
        let shared: Vec<_> = cluster.ancestry(claimant).collect();
        let mut taken = BTreeMap::<_, i128>::new();
        for victim in &eviction.victims {
            let pod = self.world.known(&victim.pod.uid);
            let cards = i128::from(pod.charge.as_ref().unwrap().amounts.get(card));
            let levels = cluster.ancestry(pod.queue.unwrap());
            for level in levels.filter(|level| !shared.contains(level)) {
                *taken.entry(level).or_default() += cards;
            }
        }
        for (level, cards) in taken {
            let (queue, deserved) = (cluster.queue(level), cluster.deserved_by_spec(level, card));
            let keeps = deserved.unwrap_or(0).max(queue.guarantee(card));
            let left = queue.allocated_in_all(card) - cards;
            assert!(left >= keeps, "{} has {left} and keeps {keeps}", queue.name);
        }
    }

    /// Rounds until nothing happens any more.
    fn settle(&mut self, hierarchy: bool) {
        let mut quiet = 0;
        for _ in 0..80 {
            let happened = self.round(hierarchy);
            self.world.wait(2);
            quiet = if happened == 0 { quiet + 1 } else { 0 };
            if quiet == 3 {
                return;
            }
        }
        panic!("evictions and admissions go on for ever");
    }

    /// Nobody waits for what he deserves or is guaranteed while others borrow enough of it. With one card a pod, each that is
    /// given back helps.
    fn check_given_back(&self) {
        let cluster = &self.world.cluster;
        let card = self.card();
        for queue in 0..QUEUES {
            let id = cluster.queue_named(&name(queue)).unwrap();
            let starving = cluster.queue(id);
            let next = starving.allocated.get(card) + 1;
            let limits = [cluster.deserved_by_spec(id, card), cluster.real_capability(id, card)];
            let is_entitled = limits.into_iter().flatten().all(|limit| next <= limit);
            if starving.waiting.is_empty() || !is_entitled {
                continue;
            }
            let others = (0..QUEUES).filter(|other| *other != queue && self.says[*other].reclaimable);
            let given: i128 = others.map(|other| self.could_give(other)).sum();
            assert!(
                given < self.missing(queue),
                "{} waits, and others borrow {given}",
                name(queue)
            );
        }
    }

    /// What a queue has beyond what it must keep, as far as it is on nodes that take pods.
    fn could_give(&self, queue: usize) -> i128 {
        let cluster = &self.world.cluster;
        let id = cluster.queue_named(&name(queue)).unwrap();
        let (queue, card) = (cluster.queue(id), self.card());
        let Some(deserved) = cluster.deserved_by_spec(id, card) else {
            return 0;
        };
        let on_ready = queue.holders.iter().filter(|pod| {
            let room = cluster.pod(*pod).and_then(|pod| pod.room);
            let offer = room.and_then(|room| cluster.node(room).offer());
            offer.is_some_and(|offer| offer.ready)
        });
        let beyond = queue.allocated.get(card) - deserved.max(queue.guarantee(card));
        beyond.min(i128::try_from(on_ready.count()).unwrap()).max(0)
    }

    /// How many cards must be given back so that one more pod of a queue gets in. What is within a guarantee is held
    /// already, so only what is really allocated stands against it.
    fn missing(&self, queue: usize) -> i128 {
        let (cluster, card) = (&self.world.cluster, self.card());
        let starving = self.world.known_queue(&name(queue));
        let is_within_guarantee = starving.allocated.get(card) < starving.guarantee(card);
        let below = &cluster.top().below;
        let taken = if is_within_guarantee {
            &below.allocated
        } else {
            &below.held
        };
        (taken.get(card) + 1 - cluster.top().total.get(card)).max(1)
    }
}

/// So many cases, or as many as `PROPTEST_CASES` says.
pub(super) fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(usual))
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn hierarchies_keep_their_sums_and_limits_and_come_to_rest(
        says in prop::collection::vec(says(true), QUEUES),
        steps in steps(true, 3),
        slow in any::<bool>(),
        intruders in prop::collection::vec((0..QUEUES, 1..3_i64), 0..8),
    ) {
        let mut run = Run::new(says, true, slow);
        run.intruders = intruders;
        for step in &steps {
            run.take(step);
            run.settle(true);
        }
    }

    #[test]
    fn nobody_waits_for_what_he_deserves_or_is_guaranteed_while_others_borrow_it(
        says in prop::collection::vec(says(false), QUEUES),
        steps in steps(false, 1),
        slow in any::<bool>(),
    ) {
        let mut run = Run::new(says, false, slow);
        for step in &steps {
            run.take(step);
            run.settle(false);
            run.check_given_back();
        }
    }
}
