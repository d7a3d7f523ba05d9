//! `admitOn: quota`, and a card that nodes have by different labels: no pod can be narrowed to more than one set of them, so pods are
//! narrowed to those of the nodes that have room.

use std::collections::BTreeMap;

use serde_json::json;

use crate::devices::{NVIDIA, gpus};
use crate::world::{GPU, Object, PRODUCT, World, configuration, group, node, pod, queue};

const MEMORY: &str = "nvidia.com/gpu.memory";
const SHARED: &str = "nvidia.com/gpu.shared";
const LABEL_OF_A: &str = "device.card.volcano.sh/a-c40bf6cc";

/// Two nodes with two `A` each as devices, which are first by name, and two with two each by a device plugin.
fn both_ways() -> World {
    let mut world = World::with(configuration("", "admitOn: quota"));
    for name in ["d1", "d2"] {
        world.node(&node(name));
        world.slice(name, NVIDIA, &gpus("A", 2));
    }
    for name in ["p1", "p2"] {
        world.node(&node(name).cards("A", 2));
    }
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    world
}

/// A node whose card has so much memory, in MiB, and is shared by two pods.
fn shares(name: &str, memory: &str) -> Object {
    let node = node(name).label(PRODUCT, "P").label("nvidia.com/gpu.count", "1");
    node.label(MEMORY, memory)
        .label("nvidia.com/gpu.replicas", "2")
        .offers(SHARED, "2")
}

/// How many pods are let in in one round, by the label that is written on them.
fn narrowed(world: &mut World, key: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for admission in world.admissions() {
        let label = admission.narrow.iter().find(|(known, _)| known == key);
        let value = label.map_or("", |(_, value)| value);
        *counts.entry(value.to_owned()).or_default() += 1;
    }
    counts
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(label, count)| (label.to_owned(), count)).into()
}

fn asking(name: &str) -> Object {
    pod(name).asks("A", 1)
}

/// A pod that was let in, as the scheduler has placed it.
fn placed(name: &str, node: &str) -> Object {
    asking(name).assigned("A").on(node)
}

#[test]
fn pods_are_narrowed_to_cards_in_both_ways_while_there_is_room() {
    let mut world = both_ways();
    world.pods((0..8).map(|index| asking(&format!("w{index}"))));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("", 4), ("A", 4)]));
    // An autoscaler sees the others.
    world.pods((0..2).map(|index| asking(&format!("x{index}"))));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("A", 2)]));
}

/// Also those that come while others were not placed yet, or when some have gone.
#[test]
fn pods_that_come_one_after_the_other_are_narrowed_alike() {
    let mut world = both_ways();
    let mut labels = Vec::new();
    for index in 0..6 {
        world.pod(&asking(&format!("w{index}")));
        labels.extend(narrowed(&mut world, PRODUCT).into_keys());
    }
    assert_eq!(labels, ["A", "A", "A", "A", "", ""]);
    for (index, node) in [(0, "p1"), (1, "p1"), (2, "p2"), (3, "p2")] {
        world.pod(&placed(&format!("w{index}"), node));
    }
    world.pod(&asking("next"));
    assert_eq!(narrowed(&mut world, LABEL_OF_A), counts([("true", 1)]));
    world.remove_pod("w2");
    world.pod(&asking("last"));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("A", 1)]));
    // One whose admission was not written leaves its place to others.
    world.remove_pod("w3");
    let now = world.now;
    world.pod(&asking("refused"));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("A", 1)]));
    world.refuse("refused", now);
    world.pod(&asking("another"));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("A", 1)]));
}

#[test]
fn a_gang_is_narrowed_to_cards_in_both_ways() {
    let mut world = both_ways();
    world.group(&group("g", 8));
    world.pods((0..8).map(|index| asking(&format!("w{index}")).of("g")));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("", 4), ("A", 4)]));
}

/// Memory is rounded in the name of a card.
#[test]
fn shares_of_cards_whose_memory_differs_are_all_used() {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.node(&shares("n1", "40536"));
    world.node(&shares("n2", "40960"));
    world.queue(&queue("team-a").quota(r#"{"P/mps-40g*1/2": 8}"#));
    let asking = |name: &str| pod(name).requests(SHARED, "1");
    world.pods(["w0", "w1", "w2", "w3"].map(asking));
    assert_eq!(narrowed(&mut world, MEMORY), counts([("40536", 2), ("40960", 2)]));
    // One that selects a node by itself is not led elsewhere.
    world.pod(&asking("own").selects(MEMORY, "40960"));
    assert_eq!(narrowed(&mut world, MEMORY), counts([("", 1)]));
}

/// Where no node has room, those count where the pod may run once there is any.
#[test]
fn no_pod_is_narrowed_to_nodes_that_take_none_while_there_are_others() {
    let mut world = both_ways();
    for name in ["p1", "p2"] {
        world.node(&node(name).cards("A", 2).cordoned());
    }
    world.pods((0..5).map(|index| asking(&format!("w{index}"))));
    assert_eq!(narrowed(&mut world, LABEL_OF_A), counts([("true", 5)]));
    // The pod's own constraints count too, and where none of the nodes would do, an autoscaler is to see it all the same.
    for name in ["p1", "p2"] {
        world.node(&node(name).cards("A", 2).taint("team", "NoSchedule"));
    }
    world.pod(&asking("other"));
    assert_eq!(narrowed(&mut world, LABEL_OF_A), counts([("true", 1)]));
    world.pod(&asking("own").tolerates("team"));
    assert_eq!(narrowed(&mut world, PRODUCT), counts([("A", 1)]));
    let zone = json!({"zone": "z"});
    world.pod(&asking("nowhere").set(["spec", "nodeSelector"], zone));
    assert_eq!(world.admit_names(), ["nowhere"]);
}
