//! `admitOn: quota`, and a card that nodes have by different labels: no pod can be narrowed to more than one set of them, so pods are
//! narrowed to those of the nodes that have room.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::configuration::Configuration;
use engine::decide::{Action, Round};
use proptest::prelude::*;
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
    labels(&world.round(), key)
}

/// The same, of what a round has decided.
#[track_caller]
fn labels(round: &Round, key: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for action in &round.actions {
        let Action::Admit(admission) = action else {
            panic!("not an admission: {action:?}")
        };
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

/// The nodes are looked at once for all pods that are alike, not once for each of them: not where they are all full, nor where devices
/// alone are free, nor for pods of several groups.
#[test]
fn pods_that_are_alike_are_narrowed_in_one_search() {
    const PODS: i64 = 400;
    for (with_room, members) in [(0, PODS), (100, PODS), (100, 4), (0, 1)] {
        let mut world = World::with(configuration("", "admitOn: quota"));
        for index in 0..1000 {
            let device = format!("d{index:04}");
            let cores = if index < with_room { "64" } else { "0" };
            world.node(&node(&device).offers("cpu", cores));
            world.slice(&device, NVIDIA, &gpus("A", 2));
            world.node(&node(&format!("p{index:04}")).cards("A", 2).offers("cpu", "0"));
        }
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
        world.queue(&queue("team-a").quota(r#"{"A": 400}"#));
        for index in 0..PODS / members {
            world.group(&group(&format!("g{index}"), members));
        }
        world.pods((0..PODS).map(|index| asking(&format!("w{index}")).of(&format!("g{}", index / members))));
        let round = world.round();
        let on_devices = 2 * with_room;
        let expected = [("", on_devices), ("A", 400 - on_devices)].map(|(label, count)| (label.to_owned(), count));
        let expected: BTreeMap<_, _> = expected.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(labels(&round, PRODUCT), expected, "{with_room} {members}");
        // One look at a node is 16 steps, and for each pod there are a few.
        assert!(round.steps < 300_000, "{with_room} {members}: {} steps", round.steps);
    }
}

/// A node of a model in which each pod looks at all nodes.
#[derive(Debug, Clone)]
struct Modelled {
    has_devices: bool,
    is_cordoned: bool,
    /// What is left of its cards and cores.
    left: (i64, i64),
}

impl Modelled {
    fn object(&self, name: &str) -> Object {
        let (cards, cores) = self.left;
        let node = node(name).offers("cpu", &cores.to_string());
        let node = if self.is_cordoned { node.cordoned() } else { node };
        if self.has_devices { node } else { node.cards("A", cards) }
    }
}

/// Whether a pod is narrowed to devices, where it asks for so many cards and cores.
fn goes_to_devices(nodes: &mut [Modelled], (cards, cores): (i64, i64)) -> bool {
    let has_room = |node: &Modelled| !node.is_cordoned && node.left.0 >= cards && node.left.1 >= cores;
    let rank = |node: &Modelled| (!has_room(node), node.is_cordoned, node.has_devices);
    let best = nodes.iter_mut().min_by_key(|node| rank(node)).unwrap();
    if has_room(best) {
        best.left = (best.left.0 - cards, best.left.1 - cores);
    }
    best.has_devices
}

fn modelled() -> impl Strategy<Value = Modelled> {
    let node = (any::<bool>(), prop::bool::weighted(0.2), (2..5_i64, 0..5_i64));
    node.prop_map(|(has_devices, is_cordoned, left)| Modelled {
        has_devices,
        is_cordoned,
        left,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn each_pod_is_narrowed_as_if_all_nodes_were_looked_at_for_it(
        mut nodes in prop::collection::vec(modelled(), 1..8),
        rounds in prop::collection::vec(prop::collection::vec((1..3_i64, 0..3_i64), 0..8), 1..4),
    ) {
        let mut world = World::with(configuration("", "admitOn: quota"));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
        world.queue(&queue("team-a").quota(r#"{"A": 100}"#));
        for (index, modelled) in nodes.iter().enumerate() {
            let name = format!("n{index}");
            world.node(&modelled.object(&name));
            if modelled.has_devices {
                world.slice(&name, NVIDIA, &gpus("A", usize::try_from(modelled.left.0).unwrap()));
            }
        }
        for (round, asked) in rounds.iter().enumerate() {
            for (index, (cards, cores)) in asked.iter().enumerate() {
                world.pod(&pod(&format!("{round}-{index}")).asks("A", *cards).requests("cpu", &cores.to_string()));
            }
            let admissions = world.admissions();
            prop_assert_eq!(admissions.len(), asked.len());
            for admission in admissions {
                let (_, index) = admission.pod.name.split_once('-').unwrap();
                let asked = asked[index.parse::<usize>().unwrap()];
                let is_to_devices = admission.narrow == [(LABEL_OF_A.to_owned(), "true".to_owned())];
                prop_assert_eq!(is_to_devices, goes_to_devices(&mut nodes, asked), "{}", admission.pod.name);
            }
        }
    }
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

/// `CrossQuota` keeps pods without GPU off GPU nodes whose quotas are used up, and off nodes with the label of GPU nodes.
#[test]
fn pods_that_are_kept_off_gpu_nodes_are_narrowed_to_the_labels_of_no_gpu_node() {
    const CONF: &str = "tiers: [{plugins: [{name: capacity-card}, \
                        {name: crossquota, arguments: {gpu-resource-names: amd.com/gpu, quota.cpu: 0}}]}]";
    for has_gpu in [true, false] {
        let parsed = Configuration::parse(Some(CONF), Some("admitOn: quota")).unwrap();
        let mut world = World::with(Arc::new(parsed.configuration));
        // It is first by name, and only it has room.
        let gpu_node = shares("gpu-1", "40536").label("card.volcano.sh/gpu-node", "true");
        world.node(&gpu_node.offers("amd.com/gpu", if has_gpu { "1" } else { "0" }));
        world.node(&shares("n2", "40960"));
        world.queue(&queue("team-a").quota(r#"{"P/mps-40g*1/2": 8}"#));
        let asking = |name: &str, shares: &str| pod(name).requests(SHARED, shares);
        world.pod(&asking("runs", "2").assigned("P/mps-40g*1/2").on("n2"));
        let without_gpu = |name: &str| asking(name, "1").label("card.volcano.sh/crossquota", "enabled");
        world.pods(["w0", "w1"].map(without_gpu));
        assert_eq!(narrowed(&mut world, MEMORY), counts([("40960", 2)]), "{has_gpu}");
        // Others are not kept off.
        world.pod(&asking("other", "1"));
        assert_eq!(narrowed(&mut world, MEMORY), counts([("40536", 1)]), "{has_gpu}");
    }
}
