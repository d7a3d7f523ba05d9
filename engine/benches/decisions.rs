//! What a quota check, a decision and an event cost, as the cluster grows. One core, without the API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;

use divan::Bencher;
use engine::Observation;
use engine::cluster::pod::Stage;
use engine::decide::{Action, decide};
use engine::explain::notices;
use engine::policies::card_quota::Check;

use world::{Object, World, at, bare_pod, node, pod, queue};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const CARDS_OF_A_NODE: usize = 8;

/// The quota check of one pod by itself: CPU, memory, and every alternative. Where the first two of three are used up,
/// the third is taken.
#[divan::bench(args = ["A100", "H100|L40S|A100"])]
fn quota_check(bencher: Bencher<'_, '_>, cards: &str) {
    let mut world = World::new();
    for card in ["A100", "H100", "L40S"] {
        world.node(&node(card).cards(card, 8));
    }
    world.queue(&queue("team-a").quota(r#"{"A100": 10, "H100": 0, "L40S": 0}"#));
    world.pod(&pod("asks").asks(cards, 1));
    let task = &world.known("asks").task;
    let team = world.cluster.queue_named("team-a").unwrap();
    let check = Check {
        asks_all: false,
        plugin: world.cluster.configuration().queue_plugin,
        arguments: &world.cluster.configuration().capacity_card,
        queue_is_empty: false,
        task,
        resource_of: |card| world.cluster.resource_of(card),
        has_room: |dimension, asked| world.cluster.room(team, dimension, asked).is_ok(),
    };
    assert!(check.alternatives_with_quota().next().is_some());
    bencher.bench_local(|| {
        let check = black_box(&check);
        check.before_cards().map(|()| check.alternatives_with_quota().next())
    });
}

/// A full queue, and pods of 20 shapes that wait for it.
struct Backlog {
    world: World,
    running: VecDeque<String>,
    let_in: Option<String>,
    created: usize,
}

impl Backlog {
    const SHAPES: usize = 20;
    const RUNNING: usize = 64;

    fn of(waiting: usize) -> Self {
        let mut world = World::new();
        for index in 0..100 {
            world.node(&node(&format!("node-{index:03}")).cards("A100", 8));
        }
        let full = format!(r#"{{"A100": {}}}"#, Self::RUNNING);
        world.queue(
            &queue("team-a")
                .quota(&full)
                .capability("cpu", "1000000")
                .capability("memory", "1000Ti"),
        );
        let mut backlog = Self {
            world,
            running: VecDeque::new(),
            let_in: None,
            created: 0,
        };
        for index in 0..Self::RUNNING {
            let name = format!("running-{index}");
            let on = format!("node-{:03}", index / CARDS_OF_A_NODE);
            backlog.world.pod(&pod(&name).asks("A100", 1).assigned("A100").on(&on));
            backlog.running.push_back(name);
        }
        for _ in 0..waiting {
            backlog.create();
        }
        assert_eq!(backlog.world.decide(), []);
        backlog
    }

    /// Another pod comes to wait, of the shape whose turn it is.
    fn create(&mut self) {
        let shape = i32::try_from(self.created % Self::SHAPES).unwrap();
        let name = format!("waiting-{}", self.created);
        self.world.pod(&pod(&name).asks("A100", 1).priority(shape));
        self.created += 1;
    }

    /// The pod that was let in last runs, another one comes, and the oldest that runs ends.
    fn go_on(&mut self) {
        if let Some(name) = self.let_in.take() {
            let room = self.world.known(&name).room.unwrap();
            let on = self.world.cluster.node(room).name.to_string();
            self.world.pod(&pod(&name).asks("A100", 1).assigned("A100").on(&on));
            self.running.push_back(name);
            self.create();
        }
        let ended = self.running.pop_front().unwrap();
        self.world.remove_pod(&ended);
    }

    /// Freed quota is given away: all shapes are judged anew, and one pod gets in.
    fn decide(&mut self) {
        let mut actions = self.world.decide();
        let Some(Action::Admit(admission)) = actions.pop() else {
            panic!("nobody was let in")
        };
        assert_eq!(actions, [], "quota for one");
        self.let_in = Some(admission.pod.name.to_string());
    }
}

/// One decision in a backlog: quota of one card was freed, 20 shapes want it.
#[divan::bench(args = [10, 1_000, 100_000], sample_count = 1000, sample_size = 1)]
fn decision(bencher: Bencher<'_, '_>, waiting: usize) {
    let backlog = RefCell::new(Backlog::of(waiting));
    bencher
        .with_inputs(|| backlog.borrow_mut().go_on())
        .bench_local_values(|()| backlog.borrow_mut().decide());
}

/// A round in which nothing has changed.
#[divan::bench(args = [10, 1_000, 100_000])]
fn decision_without_news(bencher: Bencher<'_, '_>, waiting: usize) {
    let mut backlog = Backlog::of(waiting);
    bencher.bench_local(|| decide(&mut backlog.world.cluster, at(10), usize::MAX).actions.len());
}

/// How large a cluster is: nodes, and 20 pods on each.
const SIZES: [usize; 3] = [50, 500, 5_000];
const PODS_OF_A_NODE: usize = 20;

fn a_node(index: usize) -> Object {
    node(&format!("node-{index:05}")).cards("A100", 8)
}

/// Pods of a card in a queue, and others that Cardgate does not manage.
fn a_pod(node: usize, index: usize) -> Object {
    let name = format!("pod-{node:05}-{index:02}");
    let pod = if index < CARDS_OF_A_NODE / 2 {
        pod(&name).asks("A100", 1).assigned("A100")
    } else {
        bare_pod(&name).requests("cpu", "100m")
    };
    pod.on(&format!("node-{node:05}"))
}

/// Nodes full of pods; in the queue of half of them, pods of 20 shapes wait.
fn cluster(nodes: usize) -> World {
    let mut world = World::new();
    for index in 0..nodes {
        world.node(&a_node(index));
    }
    let full = format!(r#"{{"A100": {}}}"#, nodes * CARDS_OF_A_NODE / 2);
    world.queue(
        &queue("team-a")
            .quota(&full)
            .capability("cpu", "1000000")
            .capability("memory", "1000Ti"),
    );
    for node in 0..nodes {
        for index in 0..PODS_OF_A_NODE {
            world.pod(&a_pod(node, index));
        }
    }
    for shape in 0..20 {
        world.pod(&pod(&format!("waiting-{shape}")).asks("A100", 1).priority(shape));
    }
    assert_eq!(world.decide(), []);
    world.wait(10);
    world.notices();
    world.shown();
    world
}

/// What follows an event: decisions, and on the tick what is told and shown.
fn follow_up(world: &mut World) -> usize {
    let decided = decide(&mut world.cluster, world.now, usize::MAX).actions.len();
    let told = notices(&mut world.cluster, world.now, 10).len();
    decided + told + world.shown().len()
}

/// A heartbeat: the node says what it said before.
#[divan::bench(args = SIZES)]
fn node_heartbeat(bencher: Bencher<'_, '_>, nodes: usize) {
    let node = a_node(nodes / 2);
    let world = RefCell::new(cluster(nodes));
    bencher
        .with_inputs(|| Observation::Node(node.read()))
        .bench_local_values(|node| {
            let mut world = world.borrow_mut();
            world.cluster.apply(black_box(node), at(10));
            decide(&mut world.cluster, at(10), usize::MAX).actions.len()
        });
}

/// A node is cordoned or comes back, and everything that follows.
#[divan::bench(args = SIZES)]
fn node_changes(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = RefCell::new(cluster(nodes));
    let says = RefCell::new([a_node(nodes / 2).cordoned(), a_node(nodes / 2)]);
    let next = || {
        let mut says = says.borrow_mut();
        says.swap(0, 1);
        Observation::Node(says[0].read())
    };
    bencher.with_inputs(next).bench_local_values(|node| {
        let mut world = world.borrow_mut();
        world.cluster.apply(black_box(node), at(10));
        follow_up(&mut world)
    });
}

/// A running pod says something that concerns nobody.
#[divan::bench(args = SIZES)]
fn pod_without_news(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = RefCell::new(cluster(nodes));
    let pod = a_pod(nodes / 2, 0).phase("Running");
    bencher
        .with_inputs(|| Observation::Pod(pod.read()))
        .bench_local_values(|pod| {
            let mut world = world.borrow_mut();
            world.cluster.apply(pod, at(10));
            decide(&mut world.cluster, at(10), usize::MAX).actions.len()
        });
}

/// A running pod ends, another of its queue is let in, and everything that follows; then that one ends and the first is
/// back, not measured.
#[divan::bench(args = SIZES, sample_count = 500, sample_size = 1)]
fn pod_ends_and_another_is_let_in(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = RefCell::new(cluster(nodes));
    let running = a_pod(nodes / 2, 0);
    let waiting = pod("waiting-19").asks("A100", 1).priority(19);
    let uid = format!("pod-{:05}-00", nodes / 2);
    let restore = || {
        let mut world = world.borrow_mut();
        if matches!(world.stage("waiting-19"), Stage::Admitting { .. }) {
            world.remove_pod("waiting-19");
            world.pod(&running);
            world.pod(&waiting);
            assert_eq!(world.decide(), []);
            world.wait(10);
            world.notices();
            world.shown();
        }
    };
    bencher.with_inputs(restore).bench_local_values(|()| {
        let mut world = world.borrow_mut();
        world.remove_pod(&uid);
        follow_up(&mut world)
    });
}

/// All pods of a cluster are listed, as on a start. The memory that is left is what the operator holds.
#[divan::bench(args = SIZES, sample_count = 3, sample_size = 1)]
fn start(bencher: Bencher<'_, '_>, nodes: usize) {
    let observations = || -> Vec<_> {
        let nodes_there = (0..nodes).map(|index| Observation::Node(a_node(index).read()));
        let team_a = Observation::Queue(queue("team-a").read());
        let pods = (0..nodes).flat_map(|node| (0..PODS_OF_A_NODE).map(move |index| a_pod(node, index)));
        let pods = pods.map(|pod| Observation::Pod(pod.read()));
        nodes_there.chain([team_a]).chain(pods).collect()
    };
    bencher.with_inputs(observations).bench_local_values(|observations| {
        let mut world = World::new();
        for observation in observations {
            world.cluster.apply(observation, at(10));
        }
        world
    });
}
