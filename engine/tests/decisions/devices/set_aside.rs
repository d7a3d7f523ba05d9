//! Devices that are set aside for claims that others were evicted for (docs/rules.md, **Queues**).

use engine::cluster::reclaims::EvictionOutcome;

use super::reclaim::{IS_GPU, RECLAIM, borrowed, claimed, go, the_second, victims};
use super::*;
use crate::world::{bare_pod, bare_queue, capacity, group};

/// Two nodes with one device each, of which `a` has borrowed the first, and a queue that goes first and can't be made to give anything back.
fn one_each() -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    for name in ["n1", "n2"] {
        world.node(&node(name));
        world.slice(name, NVIDIA, &gpus("A", 1));
    }
    world.class(NVIDIA, IS_GPU, Some(GPU));
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 0}"#));
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 1}"#));
    world.queue(&bare_queue("c").set(["spec", "priority"], 9));
    let holder = claimed(&mut world, "a-0", "a", &exactly(1, Some("A")));
    world.claim("a-0-gpu", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
    world.pod(&holder.assigned("A").on("n1"));
    world
}

/// The first of them is taken back for `b`, which asks for it.
#[track_caller]
fn taken_back() -> World {
    let mut world = one_each();
    let claimant = asks_on("n1", &mut world, "b-0", "b");
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-0"]);
    world
}

/// A pod that claims the device of a node.
fn asks_on(node: &str, world: &mut World, name: &str, queue: &str) -> Object {
    claimed(world, name, queue, &exactly(1, Some("A"))).pinned_to(node)
}

/// Quota there is for both, and the other device is no use.
#[test]
fn a_device_that_is_set_aside_is_given_to_nobody_else() {
    let mut world = taken_back();
    let other = asks_on("n1", &mut world, "c-0", "c");
    world.pod(&other);
    // The device of the other node is free for whoever comes, and what is set aside is in no number of cards.
    let elsewhere = asks_on("n2", &mut world, "c-1", "c");
    world.pod(&elsewhere);
    assert_eq!(world.admit(), [admitted("c-1", "A")]);
    let card = world.cluster.names().known_card("A").unwrap();
    let tallies = world.cluster.card(card).unwrap().tallies.values();
    let numbers: Vec<_> = tallies.map(|tally| (tally.total, tally.used, tally.free)).collect();
    assert_eq!(numbers, [(2, 2, 0)]);
    go(&mut world, "a-0");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// Nobody is let in for some rounds.
#[track_caller]
fn rest(world: &mut World) {
    for _ in 0..3 {
        world.wait(2);
        assert_eq!(world.admit_names(), [""; 0]);
    }
}

/// The same, where the pod that it is taken back from is on its way out.
#[track_caller]
fn taken_back_from_who_leaves() -> World {
    let mut world = taken_back();
    let leaves = claiming(pod("a-0").queue("a"), "a-0-gpu").assigned("A").on("n1");
    world.pod(&leaves.deleted(30));
    world
}

/// Whoever else wants it, nobody gets it while that pod is there, or its claim, which ends later; then this pod does.
#[track_caller]
fn goes_to(world: &mut World, name: &str) {
    let other = asks_on("n1", world, "c-0", "c");
    world.pod(&other);
    rest(world);
    let now = world.now;
    world.eviction_ended("a-0", EvictionOutcome::Evicted, now);
    world.remove_pod("a-0");
    rest(world);
    world.remove_claim("a-0-gpu");
    assert_eq!(world.admit(), [admitted(name, "A")]);
}

/// Who comes in between goes before the pod that the other one was evicted for, and takes its place with all that goes with it.
#[test]
fn a_device_is_kept_for_who_takes_over_until_the_claim_of_whom_it_was_taken_back_from_is_gone() {
    let mut world = taken_back_from_who_leaves();
    let urgent = asks_on("n1", &mut world, "b-1", "b");
    world.pod(&urgent.priority(10));
    goes_to(&mut world, "b-1");
}

/// One is free already, and of the other one it is waited that it is given back: by then the free one would be gone.
#[test]
fn a_free_device_is_kept_for_who_waits_for_another_one_beside_it() {
    let mut world = one_each();
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 2}"#));
    world.slice("n1", NVIDIA, &gpus("A", 2));
    let claimant = claimed(&mut world, "b-0", "b", &exactly(2, Some("A")));
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-0"]);
    let other = asks_on("n1", &mut world, "c-0", "c");
    world.pod(&other);
    assert_eq!(world.admit_names(), [""; 0]);
    go(&mut world, "a-0");
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// The pod is gone, and so is its reservation: no controller takes back what was allocated to a claim that is reserved for nobody.
#[test]
fn a_device_of_a_claim_that_is_reserved_for_nobody_is_not_waited_for() {
    let mut world = borrowed();
    for name in ["a-0", "a-1", "a-2", "a-3"] {
        go(&mut world, name);
    }
    let mut left = allocated("n1", &["gpu-1"]);
    left["reservedFor"] = json!([]);
    world.claim("left", &exactly(1, Some("A")), &left);
    let waits = claimed(&mut world, "b-0", "b", &the_second());
    world.pod(&waits);
    let leaves = bare_pod("leaves").queue("b").ungated().on("n1");
    world.pod(&leaves);
    assert_eq!(world.admit_names(), [""; 0]);
    world.pod(&leaves.deleted(30));
    for _ in 0..2 {
        world.wait(2);
        assert_eq!(world.admit_names(), [""; 0]);
    }
    let borrowers: Vec<_> = (0..3)
        .map(|index| claimed(&mut world, &format!("new-{index}"), "a", &exactly(1, Some("A"))).created(index))
        .collect();
    world.pods(borrowers);
    assert_eq!(world.admit().len(), 3, "all but what nobody gives back");
}

/// A gang that can never get in goes before it and is looked at first: it took over what it then gave up, and nobody had it.
#[test]
fn a_gang_that_is_given_up_takes_nothing_over() {
    let mut world = taken_back_from_who_leaves();
    world.group(&group("g", 2).queue("b"));
    for name in ["g-0", "g-1"] {
        let member = asks_on("n1", &mut world, name, "b");
        world.pod(&member.of("g").priority(5));
    }
    goes_to(&mut world, "b-0");
}

/// Whether twelve of them differ in their lane, of which there are eleven, no search says in time.
#[test]
fn who_claims_more_than_can_be_searched_gets_no_device_that_is_set_aside() {
    let mut world = one_each();
    let mut lanes = gpus("A", 24);
    for (index, device) in lanes.as_array_mut().unwrap().iter_mut().enumerate() {
        device["attributes"]["lane"] = json!({"int": index % 11});
    }
    world.slice("n1", NVIDIA, &lanes);
    let mut first = request(NVIDIA, 1, None);
    first["selectors"] = json!([{"cel": {"expression": "device.attributes['gpu.nvidia.com'].index == 0"}}]);
    let claimant = claimed(&mut world, "b-0", "b", &json!([{"name": "r", "exactly": first}]));
    world.pod(&claimant.pinned_to("n1"));
    assert_eq!(victims(&mut world), ["a-0"]);
    let claim = json!({
        "requests": exactly(12, Some("A")),
        "constraints": [{"distinctAttribute": "gpu.nvidia.com/lane"}],
    });
    world.claim_with("c-0-gpu", &claim, &json!({}));
    let other = claiming(pod("c-0").queue("c"), "c-0-gpu").pinned_to("n1");
    world.pod(&other);
    assert_eq!(world.admit_names(), [""; 0]);
    go(&mut world, "a-0");
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// Twenty of them that differ in their lane can be found alone. Beside a pod that was let in for the one device of a lane no search says in time
/// that they can't: who asks for another device, which is free, is not kept out by that.
#[test]
fn who_is_hard_to_place_beside_others_keeps_no_free_device_from_who_is_not() {
    let mut world = one_each();
    let mut lanes = gpus("A", 40);
    for (index, device) in lanes.as_array_mut().unwrap().iter_mut().enumerate() {
        let lane = if index == 39 { 19 } else { index % 19 };
        device["attributes"]["lane"] = json!({ "int": lane });
    }
    world.slice("n1", NVIDIA, &lanes);
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 20}"#));
    let the_one = |index: usize| {
        let mut form = request(NVIDIA, 1, None);
        let expression = format!("device.attributes['gpu.nvidia.com'].index == {index}");
        form["selectors"] = json!([{"cel": {"expression": expression}}]);
        json!([{"name": "r", "exactly": form}])
    };
    let held: Vec<_> = (0..20).map(|index| format!("gpu-{index}")).collect();
    let held: Vec<_> = held.iter().map(String::as_str).collect();
    world.claim("a-0-gpu", &exactly(20, Some("A")), &allocated("n1", &held));
    let expected = claimed(&mut world, "c-0", "c", &the_one(39));
    world.pod(&expected.assigned("A").on("n1"));
    let claim = json!({
        "requests": exactly(20, Some("A")),
        "constraints": [{"distinctAttribute": "gpu.nvidia.com/lane"}],
    });
    world.claim_with("b-0-gpu", &claim, &json!({}));
    world.pod(&claiming(pod("b-0").queue("b"), "b-0-gpu").pinned_to("n1"));
    assert_eq!(victims(&mut world), ["a-0"]);
    let other = claimed(&mut world, "c-1", "c", &the_one(20));
    world.pod(&other.pinned_to("n1"));
    assert_eq!(world.admit_names(), ["c-1"]);
}

/// Who lacks quota alone, which a pod of its own takes its time to give back, keeps no device of another node from others.
#[test]
fn a_queue_that_deserves_one_device_keeps_no_second_one_from_others() {
    let mut world = one_each();
    go(&mut world, "a-0");
    for name in ["a", "b"] {
        let queue = bare_queue(name).deserved_cards(r#"{"A": 1}"#);
        world.queue(&queue.quota(r#"{"A": 1}"#));
    }
    let leaves = claimed(&mut world, "a-1", "a", &exactly(1, Some("A")));
    world.claim("a-1-gpu", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
    let leaves = leaves.assigned("A").on("n1");
    world.pod(&leaves);
    world.pod(&leaves.deleted(315_000_000));
    let waits = asks_on("n2", &mut world, "a-2", "a");
    world.pod(&waits);
    assert_eq!(world.admit_names(), [""; 0]);
    world.wait(2);
    let other = claimed(&mut world, "b-0", "b", &exactly(1, Some("A")));
    world.pod(&other);
    assert_eq!(world.admit_names(), ["b-0"]);
}
