//! Nodes that have cards of one resource both by a device plugin and as devices: what pods request there comes from the plugin, and what
//! they claim from the devices, and neither takes anything of the other.

use super::reclaim::{RECLAIM, claimed, go, run_both_ways, victims};
use super::*;
use crate::world::capacity;
use engine::overview::figures;

/// A node with two `A` by a device plugin, and four `B` as devices, of which its labels say nothing.
fn furnish(world: &mut World) {
    world.node(&node("n1").cards("A", 2));
    world.slice("n1", NVIDIA, &gpus("B", 4));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
}

fn furnished(settings: &str) -> World {
    let mut world = World::with(configuration("", settings));
    furnish(&mut world);
    world.queue(&queue("team-a").quota(r#"{"A": 8, "B": 8}"#));
    world
}

/// A pod that claims so many `B`, and requests so many cards, of which it names none.
fn asking(world: &mut World, name: &str, claims: i64, requests: i64) -> Object {
    claimed(world, name, "team-a", &exactly(claims, Some("B"))).requests(GPU, &requests.to_string())
}

/// A request for cards of any product, where two are there.
fn any_of_two(world: &mut World, count: i64) -> Value {
    world.node(&node("n2"));
    world.slice("n2", NVIDIA, &gpus("C", 1));
    exactly(count, None)
}

#[test]
fn who_claims_cards_and_requests_others_gets_those_from_the_plugin() {
    // By name; by the queue; for nothing.
    for (settings, names) in [("", true), ("", false), ("unnamedCards: free", false)] {
        let mut world = furnished(settings);
        world.pods(["p1", "p2"].map(|name| pod(name).asks("A", 1)));
        assert_eq!(world.admit_names(), ["p1", "p2"]);
        let pods = ["s1", "s2"].map(|name| {
            let pod = asking(&mut world, name, 1, 1);
            if names {
                pod.annotation("volcano.sh/card.name", "A")
            } else {
                pod
            }
        });
        world.pods(pods);
        assert_eq!(world.refusal_of("s1"), "NoNodeFits", "{settings} {names}");
        world.remove_pod("p1");
        assert_eq!(world.admit_names(), ["s1"], "{settings} {names}");
        assert_eq!(world.refusal_of("s2"), "NoNodeFits", "{settings} {names}");
        // And leaves the others what is left.
        world.remove_pod("p2");
        world.remove_pod("s2");
        world.pods(["p3", "p4"].map(|name| pod(name).asks("A", 1)));
        assert_eq!(world.admit_names(), ["p3"], "{settings} {names}");
        assert_eq!(world.refusal_of("p4"), "NoNodeFits", "{settings} {names}");
    }
}

#[test]
fn who_requests_more_than_the_plugin_has_beside_claims_is_told_so() {
    for settings in ["", "unnamedCards: free"] {
        let mut world = furnished(settings);
        let pod = asking(&mut world, "s", 1, 3);
        world.pod(&pod);
        assert_eq!(world.refusal_of("s"), "NoNodeFits", "{settings}");
        let told = world.refusal();
        assert!(told.contains("1 without enough room"), "{settings} {told}");
        assert!(told.contains("ask for less in one pod"), "{settings} {told}");
    }
}

#[test]
fn a_gang_that_claims_cards_gets_no_more_others_than_the_plugin_has() {
    for (members, let_in) in [(2, 2), (3, 0)] {
        let mut world = furnished("");
        world.group(&group("g", members));
        let pods: Vec<_> = (0..members)
            .map(|index| asking(&mut world, &format!("s{index}"), 1, 1).of("g"))
            .collect();
        world.pods(pods);
        assert_eq!(world.admit_names().len(), let_in);
    }
}

#[test]
fn what_is_requested_beside_claims_is_not_had_where_only_devices_are() {
    // By the configuration; by the queue.
    let uncharged = [
        (
            configuration("", "unnamedCards: free"),
            queue("team-a").quota(r#"{"B": 8}"#),
        ),
        (
            capacity("enqueue, allocate, backfill", ""),
            queue("team-a").capability(GPU, "8"),
        ),
    ];
    for (settings, queue) in uncharged {
        let mut world = World::with(settings);
        world.node(&node("d1"));
        world.slice("d1", NVIDIA, &gpus("B", 4));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        world.queue(&queue);
        let pod = asking(&mut world, "s", 1, 1);
        world.pod(&pod);
        assert_eq!(world.refusal_of("s"), "NodesExcluded");
        let told = world.refusal();
        assert!(
            told.contains("a card is handed out in another way than the pod asks for it"),
            "{told}"
        );
        furnish(&mut world);
        assert_eq!(world.admit_names(), ["s"]);
        let room = world.known("s").room.unwrap();
        assert_eq!(&*world.cluster.node(room).name, "n1");
    }
}

#[test]
fn what_the_plugin_hands_out_leaves_the_devices_to_those_who_claim_them() {
    // For the card that is claimed; for whichever the claim gets, on nobody's account.
    for is_open in [false, true] {
        let mut world = furnished("unnamedCards: free");
        world.pods(["p1", "p2"].map(|name| pod(name).asks("A", 1)));
        assert_eq!(world.admit_names(), ["p1", "p2"]);
        let requests = if is_open {
            any_of_two(&mut world, 3)
        } else {
            exactly(3, Some("B"))
        };
        let pods = ["c1", "c2"].map(|name| claimed(&mut world, name, "team-a", &requests));
        world.pods(pods);
        assert_eq!(world.admit_names(), ["c1"], "{is_open}");
        assert_eq!(world.refusal_of("c2"), "NoNodeFits", "{is_open}");
    }
}

/// The plugin's cards and the devices are most likely the same there.
#[test]
fn cards_that_a_node_has_in_both_ways_are_counted_once() {
    let mut world = World::with(configuration("", ""));
    world.node(&node("n1").cards("A", 4));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    world.pod(&pod("p1").asks("A", 2));
    assert_eq!(world.admit_names(), ["p1"]);
    let claims = |world: &mut World, name: &str, count| claimed(world, name, "team-a", &exactly(count, Some("A")));
    let pod = claims(&mut world, "c1", 3);
    world.pod(&pod);
    assert_eq!(world.refusal_of("c1"), "NoNodeFits");
    world.remove_pod("c1");
    let pod = claims(&mut world, "c2", 1).requests(GPU, "1");
    world.pod(&pod);
    assert_eq!(world.admit_names(), ["c2"]);
}

/// A queue that borrows: two `A` of the plugin's, and then two of the devices.
fn borrowed() -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    furnish(&mut world);
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 0, "B": 0}"#).deserved(GPU, "0"));
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 2, "B": 4}"#).deserved(GPU, "6"));
    run_both_ways(&mut world);
    world
}

#[test]
fn nobody_is_evicted_for_devices_that_are_free() {
    let mut world = borrowed();
    let pod = claimed(&mut world, "b-0", "b", &exactly(2, Some("B")));
    world.pod(&pod);
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// The younger ones have devices, of which enough are free.
#[test]
fn what_is_requested_beside_claims_is_taken_back_from_who_has_it_from_the_plugin() {
    let mut world = borrowed();
    let pod = claimed(&mut world, "b-0", "b", &exactly(1, Some("B"))).requests(GPU, "1");
    world.pod(&pod.annotation("volcano.sh/card.name", "A"));
    assert_eq!(victims(&mut world), ["a-1"]);
    go(&mut world, "a-1");
    assert_eq!(world.admit(), [admitted("b-0", r#"{"A":1,"B":1}"#)]);
}

/// The younger of those who have devices give one; those who have cards of the plugin's give none.
#[test]
fn what_is_claimed_is_taken_back_from_who_has_devices() {
    let mut world = borrowed();
    let youngest = pod("a-4").queue("a").asks("A", 1).created(9);
    world.remove_pod("a-1");
    world.pod(&youngest.assigned("A").on("n1"));
    let pod = claimed(&mut world, "b-0", "b", &exactly(3, Some("B")));
    world.pod(&pod);
    assert_eq!(victims(&mut world), ["a-3"]);
    go(&mut world, "a-3");
    assert_eq!(world.admit(), [admitted("b-0", r#"{"B":3}"#)]);
}

/// A pod whose request the class would meet takes that from the plugin where there is one.
#[test]
fn what_a_class_provides_too_is_taken_from_the_plugin_beside_claims_on_nobodys_account() {
    let mut world = furnished("unnamedCards: free");
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
    world.pods(["p1", "p2"].map(|name| pod(name).requests(GPU, "1")));
    assert_eq!(world.admit_names(), ["p1", "p2"]);
    let requests = any_of_two(&mut world, 2);
    let pods = ["s1", "s2"].map(|name| claimed(&mut world, name, "team-a", &requests).requests(GPU, "1"));
    world.pods(pods);
    assert_eq!(world.refusal_of("s1"), "NoNodeFits");
    world.remove_pod("p1");
    assert_eq!(world.admit_names(), ["s1"]);
    assert_eq!(world.refusal_of("s2"), "NoNodeFits");
}

/// The class that provides the resource has devices of two cards there, none of which the scheduler gives for a request.
#[test]
fn who_gets_a_card_from_the_plugin_is_left_no_choice_of_devices() {
    let mut world = furnished("");
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
    let mut other = gpus("C", 1)[0].clone();
    other["name"] = "gpu-c".into();
    let mut devices = gpus("B", 4);
    devices.as_array_mut().unwrap().push(other);
    world.slice("n1", NVIDIA, &devices);
    world.pod(&pod("p1").asks("A", 1));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
}

/// The plugin's card is another than the devices; the same; one that no label names.
#[test]
fn a_node_has_as_many_of_a_resource_as_its_plugin_and_its_other_cards_together() {
    let unnamed = |count: i64| node("n1").offers(GPU, &count.to_string());
    for (node, in_all) in [
        (node("n1").cards("A", 2), 6),
        (node("n1").cards("B", 2), 4),
        (unnamed(2), 4),
        (unnamed(5), 5),
    ] {
        let mut world = World::with(capacity("enqueue, allocate, backfill", ""));
        world.node(&node);
        world.slice("n1", NVIDIA, &gpus("B", 4));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        world.queue(&bare_queue("team-a").deserved(GPU, "1"));
        let figures = figures(&world.cluster);
        let standing = figures
            .iter()
            .find(|of| *of.queue == *"team-a")
            .unwrap()
            .standing
            .as_ref();
        let mut resources = standing.unwrap().resources.iter();
        let of_it = resources.find(|of| *of.resource == *GPU).unwrap();
        assert_eq!(of_it.real_capacity, Some(in_all), "{node:?}");
    }
}
