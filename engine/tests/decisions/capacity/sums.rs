//! Sums over what is below each queue: kept event by event, they are those counted anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::configuration::Configuration;
use engine::cluster::below::Below;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Action;
use proptest::prelude::*;

use super::plain;
use super::properties::cases;
use super::reclaim::RECLAIM;
use crate::world::{Object, World, at, capacity, group, held_job, node, pod};

const QUEUES: usize = 5;
const GROUPS: usize = 4;
/// Of each node.
const CARDS: i64 = 3;

#[derive(Debug, Clone)]
enum Step {
    /// A queue comes or says something else of its place, or goes.
    Queue(usize, Option<usize>, bool),
    /// A group that asks for so many cards before its pods exist, in a queue, with a minimum; or it goes.
    Group(usize, usize, i64, Option<i64>),
    /// A Job does.
    Job(usize, usize, Option<i64>),
    /// A pod of a group, or of none, comes to a queue, for so many cards.
    Pod(usize, Option<usize>, i64),
    /// The pod with this number goes.
    Gone(usize),
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let asks = || prop::option::weighted(0.7, 1..5_i64);
    prop_oneof![
        1 => (0..QUEUES, prop::option::of(0..QUEUES), prop::bool::weighted(0.9))
            .prop_map(|(queue, parent, there)| Step::Queue(queue, parent, there)),
        3 => (0..GROUPS, 0..QUEUES, 1..4_i64, asks()).prop_map(|(id, queue, least, asks)| Step::Group(id, queue, least, asks)),
        1 => (0..GROUPS, 0..QUEUES, asks()).prop_map(|(id, queue, asks)| Step::Job(id, queue, asks)),
        8 => (0..QUEUES, prop::option::weighted(0.3, 0..GROUPS), 1..3_i64)
            .prop_map(|(queue, group, cards)| Step::Pod(queue, group, cards)),
        2 => (0..40_usize).prop_map(Step::Gone),
        6 => Just(Step::Decide),
    ]
}

fn name(queue: usize) -> String {
    format!("q{queue}")
}

struct Run {
    world: World,
    came: usize,
    /// Pods as users made them, with the cards that they ask for, by uid.
    pods: BTreeMap<String, (Object, i64)>,
    /// What is free of each node.
    free: BTreeMap<&'static str, i64>,
    /// Who runs where.
    runs: BTreeMap<String, &'static str>,
}

fn configuration() -> Arc<Configuration> {
    capacity(RECLAIM, "enableHierarchy: true, reclaimInterval: 1")
}

impl Run {
    fn new() -> Self {
        let mut world = World::with(configuration());
        let free = BTreeMap::from(["n1", "n2", "n3", "n4"].map(|name| (name, CARDS)));
        for name in free.keys() {
            world.node(&node(name).cards("A", CARDS));
        }
        let mut run = Self {
            world,
            came: 0,
            pods: BTreeMap::new(),
            free,
            runs: BTreeMap::new(),
        };
        (0..QUEUES).for_each(|queue| run.queue(queue, None));
        run
    }

    fn queue(&mut self, queue: usize, parent: Option<usize>) {
        let guarantee = format!("{{\"A\": {}}}", queue % 4);
        let object = plain(&name(queue))
            .guaranteed_cards(&guarantee)
            .deserved_cards(&format!("{{\"A\": {}}}", queue % 4));
        let parent = parent.filter(|parent| *parent < queue);
        let object = parent
            .into_iter()
            .fold(object, |object, parent| object.parent(&name(parent)));
        self.world.queue(&object);
    }

    fn take(&mut self, step: &Step) {
        let asked = |object: Object, asks: i64| object.card_request(&format!("{{\"A\": {asks}}}"));
        match step {
            Step::Queue(queue, parent, true) => self.queue(*queue, *parent),
            Step::Queue(queue, _, false) => self.world.remove_queue(&name(*queue)),
            Step::Group(id, queue, least, Some(asks)) => {
                let group = group(&format!("g{id}"), *least).set(["spec", "queue"], name(*queue));
                self.world.group(&asked(group, *asks));
            }
            Step::Group(id, ..) => self.world.remove_group("team", &format!("g{id}")),
            Step::Job(id, queue, Some(asks)) => {
                let key = "scheduling.volcano.sh/queue-name";
                let path = ["spec", "template", "metadata", "annotations", key];
                let job = held_job(&format!("j{id}"), &format!("{{\"A\": {asks}}}"));
                self.world.job(&job.set(path, name(*queue)));
            }
            Step::Job(id, ..) => self.world.remove_job("team", &format!("j{id}")),
            Step::Pod(queue, group, cards) => {
                self.came += 1;
                let uid = format!("p{}", self.came);
                let pod = pod(&uid).queue(&name(*queue)).asks("A", *cards);
                let pod = group.iter().fold(pod, |pod, group| pod.of(&format!("g{group}")));
                self.world.pod(&pod);
                self.pods.insert(uid, (pod, *cards));
            }
            Step::Gone(number) => {
                let uid = format!("p{number}");
                self.world.remove_pod(&uid);
                if let Some(node) = self.runs.remove(&uid) {
                    *self.free.get_mut(node).unwrap() += self.pods[&uid].1;
                }
            }
            Step::Decide => self.decide(),
        }
        self.world.cluster.grow_tree();
    }

    /// Who is let in runs on the first node that has room for it; who is evicted is on its way out.
    fn decide(&mut self) {
        for action in self.world.decide() {
            match action {
                Action::Admit(admission) => {
                    let uid = admission.pod.name.to_string();
                    let (pod, cards) = &self.pods[&uid];
                    if let Some((node, free)) = self.free.iter_mut().find(|(_, free)| **free >= *cards) {
                        self.world.pod(&pod.clone().assigned("A").on(node));
                        *free -= cards;
                        self.runs.insert(uid, node);
                    }
                }
                Action::Evict(eviction) => {
                    for victim in eviction.victims {
                        let now = self.world.now;
                        self.world
                            .eviction_ended(&victim.pod.uid, EvictionOutcome::Evicted, now);
                    }
                }
                _ => {}
            }
        }
        self.world.wait(1);
    }

    fn sums(&self) -> Vec<(String, Below)> {
        let cluster = &self.world.cluster;
        let of_queues = cluster
            .queues()
            .map(|(_, queue)| (queue.name.to_string(), queue.below.clone()));
        of_queues
            .chain([(String::new(), cluster.top().below.clone())])
            .collect()
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn sums_kept_event_by_event_are_those_counted_anew(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        for step in &steps {
            run.take(step);
        }
        let kept = run.sums();
        // The same configuration again: everything is counted anew.
        run.world.set_configuration(configuration(), at(100));
        run.world.cluster.grow_tree();
        prop_assert_eq!(kept, run.sums());
    }
}
