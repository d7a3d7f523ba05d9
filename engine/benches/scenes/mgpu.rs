//! Clusters whose cards are shared through mGPU, for the benchmarks of both crates.

use std::sync::Arc;

use crds::configuration::Configuration;

use crate::world::{World, node, pod, queue};

/// Memory of a card, in MiB.
pub const MEMORY: i64 = 81_559;

/// Nodes with eight cards each, of which as many as asked for are in use: `held` says how much compute and memory of which
/// node's which card.
pub fn nodes_in_use(
    configuration: Arc<Configuration>,
    nodes: usize,
    cards: i64,
    held: impl Fn(i64, i64) -> (i64, i64),
) -> World {
    let mut world = World::with(configuration);
    world.queue(
        &queue("team-a")
            .capability("cpu", "1000000")
            .capability("memory", "1000Ti"),
    );
    for (index, number) in (0..nodes).zip(0..) {
        let name = format!("node-{index:04}");
        world.node(&node(&name).mgpu(8, MEMORY, "fixed-share"));
        for card in 0..cards {
            let (core, memory) = held(number, card);
            let running = pod(&format!("{name}-{card}")).share(core, memory);
            let running = running.annotation("vke.volcengine.com/gpu-index-container-main", &card.to_string());
            world.pod(&running.on(&name));
        }
    }
    world
}

/// Nodes of which three cards are in use, each differently, and a pod that takes a part of one.
pub fn cluster(configuration: Arc<Configuration>, nodes: usize) -> World {
    let mut world = nodes_in_use(configuration, nodes, 3, |index, card| {
        let core = 1 + (index * 7 + card * 31) % 60;
        (core, 1000 + core)
    });
    world.pod(&pod("asks").share(30, 3000));
    world
}
