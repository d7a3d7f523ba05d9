//! What many queues in a hierarchy cost, and what it costs to plan a reclaim. One core, without the API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

use std::cell::RefCell;

use divan::Bencher;
use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Action;

use world::{World, bare_queue, group, node, pod, queue_plugin};

fn main() {
    divan::main();
}

const HIERARCHY: &str = "enableHierarchy: true, cardUnlimitedCpuMemory: true, guaranteeThreshold: 100";

/// 1,000 queues in 4 levels with the root (10, 90 and 900 leaves), each leaf with a quota of two cards, and 10,000 waiting
/// gangs of two pods that nothing has judged yet.
fn hierarchy() -> World {
    let mut world = World::with(queue_plugin("capacity-card", "enqueue, allocate", HIERARCHY));
    for index in 0..1_000 {
        world.node(&node(&format!("node-{index:04}")).cards("A", 2));
    }
    let level = |index: usize| match index {
        0..10 => format!("a{index}"),
        10..100 => format!("b{index}"),
        _ => format!("c{index}"),
    };
    for index in 0..1_000 {
        let parent = match index {
            0..10 => "root".to_owned(),
            10..100 => level(index % 10),
            _ => level(10 + index % 90),
        };
        let quota = match index {
            0..10 => 200,
            10..100 => 20,
            _ => 2,
        };
        let quota = format!("{{\"A\": {quota}}}");
        world.queue(&bare_queue(&level(index)).parent(&parent).quota(&quota));
    }
    for index in 0..10_000 {
        let (name, queue) = (format!("g{index}"), level(100 + index % 900));
        let priority = i32::try_from(index / 900).unwrap();
        world.group(&group(&name, 2).set(["spec", "queue"], queue.as_str()));
        for member in ["a", "b"] {
            let pod = pod(&format!("{name}-{member}")).queue(&queue).of(&name);
            world.pod(&pod.asks("A", 1).priority(priority));
        }
    }
    world
}

/// One round: 900 groups are let in, of which each needs room on four levels.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn a_round_over_a_hierarchy(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(hierarchy).bench_local_values(|mut world| {
        let admitted = world.decide().len();
        assert_eq!(admitted, 1_800);
        world
    });
}

/// Full nodes with 10 pods each of a queue that deserves half of what it has.
fn borrowed(pods: usize) -> World {
    let arguments = "cardUnlimitedCpuMemory: true, guaranteeThreshold: 100, reclaimInterval: 1";
    let mut world = World::with(queue_plugin("capacity-card", "reclaim", arguments));
    for index in 0..pods / 10 {
        world.node(&node(&format!("node-{index:04}")).cards("A", 10));
    }
    for name in ["a", "b"] {
        let quota = bare_queue(name).quota(&format!(r#"{{"A": {pods}}}"#));
        world.queue(&quota.deserved_cards(&format!(r#"{{"A": {}}}"#, pods / 2)));
    }
    for index in 0..pods {
        let on = format!("node-{:04}", index / 10);
        let age = i64::try_from(index % 1_000).unwrap();
        let running = pod(&format!("a{index}")).queue("a").asks("A", 1).created(age);
        world.pod(&running.assigned("A").on(&on));
    }
    world.pod(&pod("waits").queue("b").asks("A", 4));
    world
}

/// The plan for one pod that needs four cards on one node, among so many pods: it costs what it looks at, not what there is.
#[divan::bench(args = [5_000, 50_000], sample_count = 5, sample_size = 1)]
fn reclaim_planning(bencher: Bencher<'_, '_>, pods: usize) {
    bencher.with_inputs(|| borrowed(pods)).bench_local_values(|mut world| {
        let actions = world.decide();
        let [Action::Evict(eviction)] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(eviction.victims.len(), 4);
        for victim in &eviction.victims {
            let now = world.now;
            world
                .cluster
                .eviction_ended(&victim.pod.uid, EvictionOutcome::Evicted, now);
        }
        world
    });
}

/// So many gangs of two pods that wait for a full queue, and one that runs.
struct LongLine {
    world: World,
    running: String,
}

impl LongLine {
    fn of(waiting: usize) -> Self {
        let mut world = World::with(queue_plugin(
            "capacity-card",
            "enqueue, allocate",
            "cardUnlimitedCpuMemory: true",
        ));
        world.node(&node("node").cards("A", 8));
        world.queue(&bare_queue("queue").quota(r#"{"A": 2}"#));
        for index in 0..=waiting {
            let name = format!("g{index}");
            world.group(&group(&name, 2).set(["spec", "queue"], "queue"));
            for member in ["a", "b"] {
                let pod = pod(&format!("{name}-{member}")).queue("queue").of(&name);
                world.pod(&pod.asks("A", 1).created(i64::try_from(index).unwrap()));
            }
        }
        let mut line = Self {
            world,
            running: String::new(),
        };
        line.decide();
        line
    }

    /// The pods of the gang that was let in run and end.
    fn end(&mut self) {
        for member in ["a", "b"] {
            let name = format!("{}-{member}", self.running);
            let ran = pod(&name).queue("queue").of(&self.running).asks("A", 1);
            self.world.pod(&ran.assigned("A").on("node").phase("Succeeded"));
        }
    }

    /// The next gang is let in.
    fn decide(&mut self) {
        let actions = self.world.decide();
        let [Action::Admit(first), Action::Admit(_)] = &actions[..] else {
            panic!("{actions:?}")
        };
        let (gang, _) = first.pod.name.rsplit_once('-').unwrap();
        gang.clone_into(&mut self.running);
    }
}

/// One decision: quota for one gang was freed, and so many gangs of its like want it.
#[divan::bench(args = [100, 1_000, 10_000, 50_000], sample_count = 20, sample_size = 1)]
fn a_gang_of_many(bencher: Bencher<'_, '_>, waiting: usize) {
    let line = RefCell::new(LongLine::of(waiting));
    bencher
        .with_inputs(|| line.borrow_mut().end())
        .bench_local_values(|()| line.borrow_mut().decide());
}
