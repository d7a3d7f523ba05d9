//! Pods with shares of cards: how their annotations are read, and what results say is in use.

use serde_json::json;

use super::read;
use crate::world::{MGPU_CORE, MGPU_MEMORY, Object, World, bare_pod, configuration, node, pod, queue};

const POLICY: &str = "vke.volcengine.com/mgpu-compute-policy";
const NATIVE: &str = "native-burst-share";

fn world() -> World {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", "unnamedCards: free"));
    world.node(&node("g1").mgpu(4, 10_000, NATIVE));
    world.queue(&queue("team-a"));
    world
}

/// The pod's containers, with so much compute each, and memory where that is not all of a card's.
fn containers(pod: Object, shares: [(&str, i64, i64); 3]) -> Object {
    let containers = shares.map(|(name, core, memory)| {
        let resources = match memory {
            0 => json!({"requests": {MGPU_CORE: core.to_string()}}),
            _ => json!({"requests": {MGPU_CORE: core.to_string(), MGPU_MEMORY: memory.to_string()}}),
        };
        json!({"name": name, "resources": resources})
    });
    pod.with(&json!({"spec": {"containers": containers}}))
        .annotation(POLICY, NATIVE)
}

fn cores(world: &World) -> Vec<i64> {
    let node = world.cluster.node_named("g1").unwrap();
    world.cluster.node(node).gpus.iter().map(|card| card.core).collect()
}

/// mGPU, **A container shares multiple GPU cards**: "two GPU cards with each card being allocated 50%", "one full GPU card", "three GPU
/// cards with each card using 33.33%", of which 99 can be divided by 3.
#[test]
fn the_list_says_how_many_cards_each_container_is_on() {
    let mut world = world();
    let list = read(document!("mgpu/01-container-multiple-gpu.yaml"));
    world.pod(&containers(
        pod("p").with(&list),
        [("0", 100, 6000), ("1", 100, 0), ("2", 99, 6000)],
    ));
    let admissions = world.admissions();
    let lists: Vec<_> = admissions[0].mgpu_results[1..]
        .iter()
        .map(|(_, list)| list.split(',').count())
        .collect();
    assert_eq!(lists, [2, 1, 3]);
}

/// mGPU, **A container shares multiple GPU cards** and **Schedule Result**: the cards that results name are in use.
#[test]
fn results_say_which_cards_a_pod_is_on() {
    for (shown, containers_of, expected) in [
        (
            read(document!("mgpu/02-results-by-number.yaml")),
            [("0", 100, 6000), ("1", 100, 0), ("2", 99, 6000)],
            [83, 83, 100, 33],
        ),
        (
            read(document!("mgpu/03-schedule-result.yaml")),
            [("c1", 30, 1000), ("c2", 60, 2000), ("c3", 99, 6000)],
            [0, 63, 63, 63],
        ),
    ] {
        let mut world = world();
        let list = if containers_of[0].0 == "0" { "2,1,3" } else { "1,2,3" };
        let placed = bare_pod("p")
            .with(&shown)
            .queue("team-a")
            .annotation("vke.volcengine.com/container-multiple-gpu", list);
        world.pod(&containers(placed, containers_of).on("g1"));
        assert_eq!(cores(&world), expected);
    }
}
