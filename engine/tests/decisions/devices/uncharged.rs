//! Pods that request cards and are charged for none: they get them from device plugins, as others do that name a card.

use super::reclaim::{RECLAIM, claimed, go, run_both_ways, victims};
use super::*;
use crate::world::capacity;

/// One node with two `A` by a device plugin, both in use, and one with two `A` as devices.
fn one_of_each(mut world: World, extended: Option<&str>) -> World {
    world.node(&node("p1").cards("A", 2));
    world.pod(&bare_pod("holder").requests(GPU, "2").on("p1"));
    world.node(&node("d1"));
    world.slice("d1", NVIDIA, &gpus("A", 2));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", extended);
    world.queue(&queue("team-a").capability(GPU, "8"));
    world
}

/// Where nobody is charged for a card, by the queue or by the configuration.
fn settings() -> [World; 2] {
    [
        World::with(capacity("enqueue, allocate, backfill", "")),
        World::with(configuration("", "unnamedCards: free")),
    ]
}

#[test]
fn what_can_only_be_claimed_is_not_for_those_who_request() {
    for world in settings() {
        let mut world = one_of_each(world, None);
        world.pod(&pod("p").requests(GPU, "1"));
        assert_eq!(world.refusal_of("p"), "NoNodeFits");
        let told = world.refusal();
        assert!(
            told.contains("handed out in another way than the pod asks for it"),
            "{told}"
        );
        world.remove_pod("holder");
        assert_eq!(world.admit_names(), ["p"]);
    }
}

#[test]
fn devices_that_a_class_provides_are_for_pods_that_request_them() {
    for world in settings() {
        let mut world = one_of_each(world, Some(GPU));
        world.pods(["p", "q"].map(|name| pod(name).requests(GPU, "2")));
        assert_eq!(world.admit_names(), ["p"]);
        assert_eq!(world.refusal_of("q"), "NoNodeFits");
    }
}

/// The scheduler takes it from the plugin there, whatever a class provides.
#[test]
fn a_plugin_gives_no_more_than_it_has_beside_devices() {
    for (extended, named) in [(None, false), (Some(GPU), false), (None, true), (Some(GPU), true)] {
        let mut world = World::with(configuration("", if named { "" } else { "unnamedCards: free" }));
        // Of the devices, the labels of the node say nothing.
        world.node(&node("n1").cards("A", 2));
        world.slice("n1", NVIDIA, &gpus("B", 4));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", extended);
        world.queue(&queue("team-a").quota(r#"{"A": 8, "B": 8}"#));
        let asks = |name: &str| {
            let pod = pod(name).requests(GPU, "1");
            if named {
                pod.annotation("volcano.sh/card.name", "A")
            } else {
                pod
            }
        };
        // What is claimed there leaves the plugin what it has.
        world.claim("c", &exactly(3, Some("B")), &json!({}));
        world.pod(&claiming(pod("c"), "c"));
        assert_eq!(world.admit_names(), ["c"], "{extended:?}");
        world.pods(["p1", "p2", "p3"].map(asks));
        assert_eq!(world.admit_names(), ["p1", "p2"], "{extended:?} {named}");
        assert_eq!(world.refusal_of("p3"), "NoNodeFits", "{extended:?} {named}");
        world.remove_pod("p1");
        assert_eq!(world.admit_names(), ["p3"], "{extended:?} {named}");
    }
}

#[test]
fn a_plugin_gives_a_gang_no_more_than_it_has_beside_devices() {
    for (members, let_in) in [(2, 2), (3, 0)] {
        let mut world = World::with(configuration("", "unnamedCards: free"));
        world.node(&node("n1").cards("A", 2));
        world.slice("n1", NVIDIA, &gpus("B", 4));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        world.queue(&queue("team-a"));
        world.group(&group("g", members));
        world.pods((0..members).map(|index| pod(&format!("p{index}")).of("g").requests(GPU, "1")));
        assert_eq!(world.admit_names().len(), let_in);
    }
}

/// A node with four `A` as devices, all claimed by a queue that deserves two, and a pod of another queue that requests one of the two
/// cards, whichever these are, that its queue deserves.
fn borrowed_from_who_requests(extended: Option<&str>) -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", extended);
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 2}"#).deserved(GPU, "2"));
    world.queue(&bare_queue("b").deserved(GPU, "2"));
    for index in 0..4 {
        let name = format!("a-{index}");
        let pod = claimed(&mut world, &name, "a", &exactly(1, Some("A"))).created(index);
        world.pod(&pod);
        assert_eq!(world.admit_names(), [&*name]);
        let device = format!("gpu-{index}");
        world.claim(
            &format!("{name}-gpu"),
            &exactly(1, Some("A")),
            &allocated("n1", &[&device]),
        );
        world.pod(&pod.assigned("A").on("n1"));
    }
    world.pod(&pod("b-0").queue("b").requests(GPU, "1"));
    world
}

#[test]
fn nobody_is_evicted_for_who_could_not_have_it() {
    let mut world = borrowed_from_who_requests(None);
    assert_eq!(victims(&mut world), [""; 0]);
}

/// Pods that have devices of a node give nothing of what its device plugin hands out, also where they are the youngest.
#[test]
fn what_a_plugin_hands_out_is_taken_back_from_pods_that_have_it_from_there() {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 2).label("only", "here"));
    world.node(&node("n2").cards("A", 4));
    world.slice("n1", NVIDIA, &gpus("B", 2));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 1, "B": 1}"#).deserved(GPU, "2"));
    world.queue(&bare_queue("b").deserved(GPU, "2"));
    run_both_ways(&mut world);
    let waiting = pod("b-0").queue("b").requests(GPU, "1");
    world.pod(&waiting.set(["spec", "nodeSelector"], json!({"only": "here"})));
    assert_eq!(victims(&mut world), ["a-1"]);
    go(&mut world, "a-1");
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// The scheduler gives it any of the devices, so any of them may be what is missing.
#[test]
fn what_a_class_provides_is_taken_back_for_who_requests_it() {
    let mut world = borrowed_from_who_requests(Some(GPU));
    assert_eq!(victims(&mut world), ["a-3"]);
    go(&mut world, "a-3");
    assert_eq!(world.admit_names(), ["b-0"]);
    // Its queue gets no more than it deserves.
    world.pods(["b-1", "b-2"].map(|name| pod(name).queue("b").requests(GPU, "1")));
    world.wait(60);
    assert_eq!(victims(&mut world), ["a-2"]);
}
