//! A large cluster beside one of a tenth of its size: 5,000 nodes, 100,000 pods, 1,000 queues. What a start takes until the
//! first decision, what each event costs with the decisions that follow it, and how much memory a pod takes. What an event
//! costs is to be the same in both, whatever the cluster holds. One core, without the API server.
//!
//! `cargo bench -p cardgate-engine --bench scale` prints the table.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a scene that can't be set is to end the benchmark, which prints its table itself"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

use std::time::{Duration, Instant};

use engine::cluster::Kind;
use engine::cluster::pod::Stage;
use engine::decide::decide;
use engine::explain::notices;
use engine::{Observation, overview};

use world::{Object, World, bare_pod, node, pod, queue};

const NODES_OF_A_QUEUE: usize = 5;
const CARDS_OF_A_NODE: i64 = 8;
const CARD_PODS_OF_A_NODE: usize = 4;
const OTHER_PODS_OF_A_NODE: usize = 15;
/// Of two priorities.
const WAITING_PODS_OF_A_QUEUE: usize = 5;
/// How often each event is measured, each time somewhere else.
const TIMES: usize = 300;

/// A cluster of so many nodes: 20 pods for each, a queue for every five, each full and with pods that wait.
struct Scene {
    nodes: usize,
    world: World,
    /// How long the start took until the first decision was made, without reading the objects.
    start: Duration,
    /// What it holds, in bytes; of the first scene alone, since what follows uses what that gave back.
    memory: Option<usize>,
}

fn a_node(index: usize) -> Object {
    node(&format!("node-{index:05}")).cards("A100", CARDS_OF_A_NODE)
}

fn queue_of(node: usize) -> String {
    format!("queue-{:04}", node / NODES_OF_A_QUEUE)
}

fn a_queue(index: usize) -> Object {
    let cards = NODES_OF_A_QUEUE * CARD_PODS_OF_A_NODE;
    queue(&queue_of(index * NODES_OF_A_QUEUE)).quota(&format!("{{\"A100\": {cards}}}"))
}

fn a_card_pod(node: usize, index: usize) -> Object {
    let running = pod(&format!("card-{node:05}-{index:02}")).queue(&queue_of(node));
    let running = running.asks("A100", 1).assigned("A100");
    running.on(&format!("node-{node:05}")).phase("Running")
}

fn another_pod(node: usize, index: usize) -> Object {
    let running = bare_pod(&format!("pod-{node:05}-{index:02}")).requests("cpu", "100m");
    running.on(&format!("node-{node:05}")).phase("Running")
}

fn a_waiting_pod(queue: usize, index: usize) -> Object {
    let waiting = pod(&format!("waiting-{queue:04}-{index}")).queue(&queue_of(queue * NODES_OF_A_QUEUE));
    waiting.asks("A100", 1).priority(i32::try_from(index % 2).unwrap())
}

/// What the operating system says that this process holds.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    1024 * kilobytes.unwrap_or_default()
}

impl Scene {
    fn of(nodes: usize) -> Self {
        let before = memory();
        let mut scene = Self {
            nodes,
            world: World::new(),
            start: Duration::ZERO,
            memory: None,
        };
        for index in 0..nodes {
            scene.begin(Observation::Node(a_node(index).read()));
        }
        for index in 0..scene.queues() {
            scene.begin(Observation::Queue(a_queue(index).read()));
        }
        for pod in pods(nodes) {
            scene.begin(Observation::Pod(pod.read()));
        }
        let began = Instant::now();
        assert_eq!(scene.world.decide(), []);
        scene.start += began.elapsed();
        scene.memory = Some(memory().saturating_sub(before));
        scene.world.wait(10);
        scene.settle();
        scene
    }

    fn queues(&self) -> usize {
        self.nodes / NODES_OF_A_QUEUE
    }

    fn count(&self) -> usize {
        self.nodes * (CARD_PODS_OF_A_NODE + OTHER_PODS_OF_A_NODE) + self.queues() * WAITING_PODS_OF_A_QUEUE
    }

    fn begin(&mut self, observation: Observation) {
        let now = self.world.now;
        let began = Instant::now();
        self.world.cluster.apply(observation, now);
        self.start += began.elapsed();
    }

    /// Everything is told and shown that there is to tell.
    fn settle(&mut self) {
        self.world.decide();
        self.world.notices();
        self.world.shown();
    }

    /// One event, and what is decided then.
    fn event(&mut self, observation: Observation) -> Duration {
        let world = &mut self.world;
        let began = Instant::now();
        world.cluster.apply(observation, world.now);
        decide(&mut world.cluster, world.now, usize::MAX);
        began.elapsed()
    }

    /// What each of many such events takes, the one in the middle; `restore` undoes it.
    fn median(&mut self, event: impl Fn(&mut Self, usize) -> Duration, restore: impl Fn(&mut Self, usize)) -> Duration {
        let took = (0..TIMES).map(|time| {
            // Somewhere else each time.
            let place = time * 7919;
            let took = event(self, place);
            restore(self, place);
            took
        });
        let mut took: Vec<_> = took.collect();
        took.sort_unstable();
        took[took.len() / 2]
    }

    fn arrival(&mut self) -> Duration {
        let comes = |scene: &mut Self, place: usize| {
            let queue = queue_of(place % scene.nodes);
            scene.event(Observation::Pod(pod("comes").queue(&queue).asks("A100", 1).read()))
        };
        self.median(comes, |scene, _| {
            scene.event(Observation::PodGone("comes".into()));
            scene.settle();
        })
    }

    fn end(&mut self) -> Duration {
        let ends = |scene: &mut Self, place: usize| {
            let uid = format!("card-{:05}-00", place % scene.nodes);
            scene.event(Observation::PodGone(uid.into()))
        };
        self.median(ends, |scene, place| {
            // Whoever got in waits again, and all is as before.
            let (node, queue) = (place % scene.nodes, place % scene.nodes / NODES_OF_A_QUEUE);
            let mut waiting = (0..WAITING_PODS_OF_A_QUEUE).map(|index| (index, format!("waiting-{queue:04}-{index}")));
            let is_in = |(_, uid): &(usize, String)| matches!(scene.world.stage(uid), Stage::Admitting { .. });
            let (index, uid) = waiting.find(is_in).unwrap();
            scene.world.remove_pod(&uid);
            scene.world.pod(&a_card_pod(node, 0));
            scene.world.pod(&a_waiting_pod(queue, index));
            scene.settle();
        })
    }

    fn node_change(&mut self) -> Duration {
        let changes = |scene: &mut Self, place: usize| {
            let node = a_node(place % scene.nodes).cordoned();
            scene.event(Observation::Node(node.read()))
        };
        self.median(changes, |scene, place| {
            scene.event(Observation::Node(a_node(place % scene.nodes).read()));
            scene.settle();
        })
    }

    fn heartbeat(&mut self) -> Duration {
        let beats = |scene: &mut Self, place: usize| {
            let node = a_node(place % scene.nodes);
            scene.event(Observation::Node(node.read()))
        };
        self.median(beats, |_, _| ())
    }

    fn pod_without_news(&mut self) -> Duration {
        let says = |scene: &mut Self, place: usize| {
            let pod = a_card_pod(place % scene.nodes, 1);
            scene.event(Observation::Pod(pod.read()))
        };
        self.median(says, |_, _| ())
    }

    /// What is told and shown after one event.
    fn tick(&mut self) -> Duration {
        let tells = |scene: &mut Self, place: usize| {
            let uid = format!("pod-{:05}-00", place % scene.nodes);
            scene.event(Observation::PodGone(uid.into()));
            let world = &mut scene.world;
            let began = Instant::now();
            notices(&mut world.cluster, world.now, 10);
            let changes = world.cluster.take_changes();
            overview::changed(&world.cluster, changes);
            began.elapsed()
        };
        self.median(tells, |scene, place| {
            scene.world.pod(&another_pod(place % scene.nodes, 0));
            scene.settle();
        })
    }

    /// All pods are listed again, for each of them.
    fn relist(&mut self) -> Duration {
        let mut took = self.event(Observation::ListBegins(Kind::Pod));
        let now = self.world.now;
        for pod in pods(self.nodes) {
            let observation = Observation::Pod(pod.read());
            let began = Instant::now();
            self.world.cluster.apply(observation, now);
            took += began.elapsed();
        }
        took += self.event(Observation::ListEnds(Kind::Pod));
        took / u32::try_from(self.count()).unwrap()
    }
}

/// All pods of a cluster of so many nodes, those that run first.
fn pods(nodes: usize) -> impl Iterator<Item = Object> {
    let of_node = |node| {
        let cards = (0..CARD_PODS_OF_A_NODE).map(move |index| a_card_pod(node, index));
        cards.chain((0..OTHER_PODS_OF_A_NODE).map(move |index| another_pod(node, index)))
    };
    let of_queue = |queue| (0..WAITING_PODS_OF_A_QUEUE).map(move |index| a_waiting_pod(queue, index));
    let running = (0..nodes).flat_map(of_node);
    running.chain((0..nodes / NODES_OF_A_QUEUE).flat_map(of_queue))
}

/// A figure, what it is called, and how it is written.
type Row = (&'static str, fn(&mut Scene) -> String);

fn micros(took: Duration) -> String {
    format!("{:.2} µs", took.as_secs_f64() * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "to be read by people")]
fn megabytes(bytes: Option<usize>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("{:.1} MB", bytes as f64 / 1e6))
}

const ROWS: [Row; 13] = [
    ("nodes", |scene| scene.nodes.to_string()),
    ("pods", |scene| scene.count().to_string()),
    ("queues", |scene| scene.queues().to_string()),
    ("memory", |scene| megabytes(scene.memory)),
    ("memory for 1,000 pods", |scene| {
        megabytes(scene.memory.map(|memory| memory * 1000 / scene.count()))
    }),
    ("start until the first decision", |scene| format!("{:.0?}", scene.start)),
    ("a pod comes and waits", |scene| micros(scene.arrival())),
    ("a pod ends, another is let in", |scene| micros(scene.end())),
    ("a node is cordoned", |scene| micros(scene.node_change())),
    ("a heartbeat", |scene| micros(scene.heartbeat())),
    ("a pod without news", |scene| micros(scene.pod_without_news())),
    ("what is told and shown then", |scene| micros(scene.tick())),
    ("all pods listed again, for each", |scene| micros(scene.relist())),
];

fn main() {
    // The large one first: what the small one held would be used again by it.
    let mut large = Scene::of(5_000);
    let mut small = Scene::of(500);
    small.memory = None;
    for (name, figure) in ROWS {
        println!("{name:<34}{:>14}{:>14}", figure(&mut small), figure(&mut large));
    }
}
