//! What claims borrowed is taken back for claims (docs/rules.md, **Queues** and **Cards by Dynamic Resource Allocation**).

use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::Action;
use jiff::SignedDuration;

use super::*;
use crate::world::{MGPU_CORE, MGPU_MEMORY, bare_queue, capacity};

pub const IS_GPU: &str = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
pub const RECLAIM: &str = "enqueue, allocate, backfill, reclaim";

pub fn claimed(world: &mut World, name: &str, queue: &str, requests: &Value) -> Object {
    let claim = format!("{name}-gpu");
    world.claim(&claim, requests, &json!({}));
    claiming(pod(name).queue(queue), &claim)
}

/// A node with four cards by devices, of which two queues deserve two each, and the first has borrowed all.
pub fn borrowed() -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    world.class(NVIDIA, IS_GPU, Some(GPU));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 2}"#));
    }
    let pods: Vec<_> = (0..4)
        .map(|index| claimed(&mut world, &format!("a-{index}"), "a", &exactly(1, Some("A"))).created(index))
        .collect();
    world.pods(pods.iter().cloned());
    assert_eq!(world.admit().len(), 4);
    for (index, pod) in pods.into_iter().enumerate() {
        let device = format!("gpu-{index}");
        world.claim(
            &format!("a-{index}-gpu"),
            &exactly(1, Some("A")),
            &allocated("n1", &[&device]),
        );
        world.pod(&pod.assigned("A").on("n1"));
    }
    world
}

/// The pods that are evicted in one round, in which nothing else is decided.
#[track_caller]
pub fn victims(world: &mut World) -> Vec<String> {
    let names = world.decide().into_iter().flat_map(|action| match action {
        Action::Evict(eviction) => eviction.victims.into_iter().map(|victim| victim.pod.name.to_string()),
        other => panic!("not an eviction: {other:?}"),
    });
    names.collect()
}

/// A request for the device that `a-1` has.
pub fn the_second() -> Value {
    let mut form = request(NVIDIA, 1, None);
    form["selectors"] = json!([{"cel": {"expression": "device.attributes['gpu.nvidia.com'].index == 1"}}]);
    json!([{"name": "r", "exactly": form}])
}

pub fn go(world: &mut World, name: &str) {
    let now = world.now;
    world.eviction_ended(name, EvictionOutcome::Evicted, now);
    world.remove_pod(name);
    world.remove_claim(&format!("{name}-gpu"));
}

/// The pod that is evicted for the second queue, which asks for one of the cards.
#[track_caller]
fn the_youngest_taken_back() -> World {
    let mut world = borrowed();
    let claimant = claimed(&mut world, "b-0", "b", &exactly(1, Some("A")));
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-3"]);
    world
}

/// The same where it asks for the device of `a-1`, and another one is free.
#[track_caller]
fn the_second_taken_back_with_another_free() -> World {
    let mut world = borrowed();
    world.remove_pod("a-3");
    world.remove_claim("a-3-gpu");
    let claimant = claimed(&mut world, "b-0", "b", &the_second());
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-1"]);
    world
}

/// A pod comes in the place of one that was evicted, whose queue goes first by now.
fn goes_first(world: &mut World, name: &str, requests: &Value) {
    let queue = bare_queue("a").deserved_cards(r#"{"A": 2}"#);
    world.queue(&queue.set(["spec", "priority"], 9));
    let replacement = claimed(world, name, "a", requests);
    world.pod(&replacement);
}

#[test]
fn what_claims_borrowed_is_given_back_to_claims_the_youngest_first() {
    let mut world = the_youngest_taken_back();
    go(&mut world, "a-3");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// Kubernetes' controller gives a claim's devices back some time after the claim's pod is gone.
#[test]
fn nobody_else_is_evicted_while_the_claim_of_who_was_is_still_there() {
    let mut world = the_youngest_taken_back();
    let now = world.now;
    world.eviction_ended("a-3", EvictionOutcome::Evicted, now);
    world.remove_pod("a-3");
    for _ in 0..3 {
        world.wait(60);
        assert_eq!(world.decide(), []);
    }
    world.remove_claim("a-3-gpu");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

#[test]
fn the_device_that_a_selector_leaves_is_taken_from_whoever_has_it() {
    let mut world = borrowed();
    let claimant = claimed(&mut world, "b-0", "b", &the_second());
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-1"]);
    go(&mut world, "a-1");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// One is free, but not the one: whoever has that is borrowing, and gives it back.
#[test]
fn a_device_is_taken_back_though_others_are_free() {
    let mut world = the_second_taken_back_with_another_free();
    go(&mut world, "a-1");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// Of the card there is one free, which whoever comes back does not want: it would have been evicted again and again.
#[test]
fn a_device_is_kept_for_whom_it_is_taken_back_though_others_are_free() {
    let mut world = the_second_taken_back_with_another_free();
    goes_first(&mut world, "a-4", &the_second());
    go(&mut world, "a-1");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// The pod is gone, and its claim is still there: by then nobody leaves, and what was set aside went to whoever came first.
#[test]
fn a_device_is_kept_until_the_claim_of_whom_it_was_taken_back_from_is_gone_too() {
    let mut world = the_youngest_taken_back();
    goes_first(&mut world, "a-4", &exactly(1, Some("A")));
    let now = world.now;
    world.eviction_ended("a-3", EvictionOutcome::Evicted, now);
    world.remove_pod("a-3");
    for _ in 0..3 {
        world.now += SignedDuration::from_secs(2);
        assert_eq!(world.admit_names(), [""; 0]);
    }
    world.remove_claim("a-3-gpu");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

#[test]
fn nobody_gives_back_a_device_within_what_they_deserve() {
    let mut world = borrowed();
    for name in ["a-3", "a-2"] {
        world.remove_pod(name);
        world.remove_claim(&format!("{name}-gpu"));
    }
    let claimant = claimed(&mut world, "b-0", "b", &the_second());
    world.pod(&claimant);
    assert_eq!(victims(&mut world), [""; 0]);
}

/// A node with eight cards by devices, below a parent that may have four of them, and one queue that has borrowed all four: two pods that share
/// a claim for two, and two more with one each, older than those.
fn borrowed_by_sharers(share: impl Fn(i64, Object) -> Object) -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100, enableHierarchy: true"));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 8));
    world.class(NVIDIA, IS_GPU, Some(GPU));
    world.queue(&bare_queue("team").quota(r#"{"A": 4}"#));
    for name in ["a", "b", "c"] {
        world.queue(&bare_queue(name).parent("team").deserved_cards(r#"{"A": 2}"#));
    }
    world.claim("shared", &exactly(2, Some("A")), &allocated("n1", &["gpu-2", "gpu-3"]));
    for index in 0..2 {
        let device = format!("gpu-{index}");
        let pod = claimed(&mut world, &format!("a-{index}"), "a", &exactly(1, Some("A"))).created(index);
        world.claim(
            &format!("a-{index}-gpu"),
            &exactly(1, Some("A")),
            &allocated("n1", &[&device]),
        );
        world.pod(&pod.assigned("A").on("n1"));
    }
    for index in 2..4 {
        let pod = sharing(pod(&format!("a-{index}")).queue("a"), "shared").created(index);
        world.pod(&share(index, pod).assigned("A").on("n1"));
    }
    assert_eq!(world.allocated("a", "A"), 4);
    world
}

/// With one of them gone the other would pay, and whoever is made anew in its place would share for nothing: so by turns, for ever.
#[test]
fn all_that_share_give_it_back_together() {
    let mut world = borrowed_by_sharers(|_, pod| pod);
    let claimant = claimed(&mut world, "b-0", "b", &exactly(2, Some("A")));
    world.pod(&claimant);
    let mut found = victims(&mut world);
    found.sort();
    assert_eq!(found, ["a-2", "a-3"]);
    let now = world.now;
    for name in found {
        world.eviction_ended(&name, EvictionOutcome::Evicted, now);
        world.remove_pod(&name);
    }
    world.remove_claim("shared");
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// Else one idle pod that names the claims of many would keep all but one of them from being taken back.
#[test]
fn who_shares_with_several_goes_with_all_of_them() {
    let mut world = borrowed();
    for index in 0..4 {
        let name = format!("a-{index}");
        world.remove_pod(&name);
        world.remove_claim(&format!("{name}-gpu"));
        let device = format!("gpu-{index}");
        let claim = format!("c-{index}");
        world.claim(&claim, &exactly(1, Some("A")), &allocated("n1", &[&device]));
        let pod = sharing(pod(&name).queue("a"), &claim).created(index);
        world.pod(&pod.assigned("A").on("n1"));
    }
    let named: Vec<_> = (2..4)
        .map(|index| json!({"name": format!("c{index}"), "resourceClaimName": format!("c-{index}")}))
        .collect();
    let idle = pod("idle")
        .queue("a")
        .created(9)
        .set(["spec", "resourceClaims"], json!(named));
    world.pod(&idle.assigned("A").on("n1"));
    assert_eq!(world.allocated("a", "A"), 4);
    let claimant = claimed(&mut world, "b-0", "b", &exactly(2, Some("A")));
    world.pod(&claimant);
    let found = victims(&mut world);
    // Two by themselves are fewer than three together; both give what is asked for.
    assert_eq!(found.len(), 2, "{found:?}");
    for name in ["a-0", "a-1"] {
        world.remove_pod(name);
        world.remove_claim(&format!("c-{}", &name[2..]));
    }
    world.remove_pod("b-0");
    world.remove_claim("b-0-gpu");
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 0}"#));
    world.queue(&bare_queue("b").deserved_cards(r#"{"A": 4}"#));
    world.wait(60);
    let claimant = claimed(&mut world, "b-1", "b", &exactly(4, Some("A")));
    world.pod(&claimant);
    let mut found = victims(&mut world);
    found.sort();
    assert_eq!(found, ["a-2", "a-3", "idle"]);
}

/// A pod gives what it has once, also where it may go by itself and with the one that pays for its claim: 2 and 2 CPU are no 6.
#[test]
fn who_shares_is_no_victim_twice() {
    for (asked, expected) in [("6", &[][..]), ("4", &["a-0", "a-1"])] {
        let conf = capacity("enqueue, allocate, backfill, preempt", "guaranteeThreshold: 100");
        let mut world = World::with(conf);
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &gpus("A", 8));
        world.class(NVIDIA, IS_GPU, Some(GPU));
        world.queue(
            &queue("a")
                .capability("cpu", "8")
                .deserved("cpu", "8")
                .quota(r#"{"A": 4}"#),
        );
        world.claim("shared", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
        for index in 0..2 {
            let pod = sharing(pod(&format!("a-{index}")).queue("a"), "shared").requests("cpu", "2");
            world.pod(&pod.created(index).assigned("A").on("n1"));
        }
        world.pod(&pod("x").queue("a").requests("cpu", "4").priority(10).on("n1"));
        world.pod(&pod("claimant").queue("a").requests("cpu", asked).priority(10));
        let mut found = victims(&mut world);
        found.sort();
        assert_eq!(found, expected, "{asked}");
    }
}

/// Where less is enough, and others give it, those that share stay.
#[test]
fn fewer_pods_are_taken_back_than_all_that_share() {
    let mut world = borrowed_by_sharers(|_, pod| pod);
    let claimant = claimed(&mut world, "b-0", "b", &exactly(1, Some("A")));
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-1"]);
    go(&mut world, "a-1");
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// Else an idle pod in another queue, that names the same claim, would shield what was borrowed.
#[test]
fn who_pays_goes_alone_where_a_sharer_is_in_another_queue() {
    let mut world = borrowed_by_sharers(|index, pod| if index == 3 { pod.queue("c") } else { pod });
    let claimant = claimed(&mut world, "b-0", "b", &exactly(2, Some("A")));
    world.pod(&claimant);
    assert_eq!(victims(&mut world), ["a-2"]);
}

/// A node with two cards, of which a queue that deserves it has one: that is kept from new pods by a taint; and one that has borrowed all CPU.
/// Another node has cards enough for the quotas, and no CPU.
fn with_taint(tainted: &[usize]) -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1").offers("cpu", "4"));
    world.slice("n1", NVIDIA, &gpus("A", 2));
    world.class(NVIDIA, IS_GPU, Some(GPU));
    for name in ["a", "b"] {
        let deserves = bare_queue(name).deserved_cards(r#"{"A": 1}"#);
        world.queue(&deserves.deserved("cpu", "2"));
    }
    world.queue(&bare_queue("borrows").deserved("cpu", "0"));
    world.node(&node("n2").offers("cpu", "0"));
    world.slice("n2", NVIDIA, &gpus("A", 2));
    let holds = claimed(&mut world, "holds", "a", &exactly(1, Some("A")));
    world.claim("holds-gpu", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
    world.pod(&holds.requests("cpu", "1").assigned("A").on("n1"));
    world.pod(&pod("lends").queue("borrows").requests("cpu", "3").on("n1"));
    let mut devices = gpus("A", 2);
    for index in tainted {
        devices[*index]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    }
    world.slice("n1", NVIDIA, &devices);
    world
}

#[test]
fn a_tainted_device_that_is_held_hides_no_other_from_who_would_have_something_else_given_back() {
    for tainted in [&[0][..], &[0, 1]] {
        let mut world = with_taint(tainted);
        let mut form = request(NVIDIA, 1, Some("A"));
        form["tolerations"] = json!([{"operator": "Exists"}]);
        let claimant = claimed(&mut world, "b-0", "b", &json!([{"name": "r", "exactly": form}]));
        world.pod(&claimant.requests("cpu", "2"));
        assert_eq!(victims(&mut world), ["lends"], "{tainted:?}");
    }
}

/// Half of each card is borrowed, so neither has room: as the pod claims a device too, nobody was asked for shares.
#[test]
fn shares_are_taken_back_for_who_claims_devices_too() {
    for is_device_free in [true, false] {
        are_shares_taken_back(is_device_free);
    }
}

#[track_caller]
fn are_shares_taken_back(is_device_free: bool) {
    let mut world = World::with(capacity(RECLAIM, ""));
    let mgpu_node = node("n1").cards("L", 1).offers(GPU, "0");
    world.node(&mgpu_node.mgpu(2, 10_000, "fixed-share"));
    world.slice("n1", NVIDIA, &gpus("A", 1));
    world.class(NVIDIA, IS_GPU, None);
    for (name, core, memory) in [("a", "0", "0"), ("b", "200", "20000")] {
        let deserves = bare_queue(name).deserved(MGPU_CORE, core);
        world.queue(&deserves.deserved(MGPU_MEMORY, memory).deserved_cards(r#"{"A": 1}"#));
    }
    for index in 0..2 {
        let borrower = pod(&format!("a-{index}")).queue("a").share(60, 1000).on("n1");
        let on = ("vke.volcengine.com/gpu-index-container-main", index.to_string());
        world.pod(&borrower.annotation(on.0, &on.1).created(index));
    }
    if !is_device_free {
        world.claim("a-2-gpu", &exactly(1, Some("A")), &allocated("n1", &["gpu-0"]));
        let holder = claiming(pod("a-2").queue("c"), "a-2-gpu").created(2);
        world.queue(&bare_queue("c").deserved_cards(r#"{"A": 0}"#));
        world.pod(&holder.assigned("A").on("n1"));
    }
    let claimant = claimed(&mut world, "b-0", "b", &exactly(1, Some("A")));
    world.pod(&claimant.share(50, 1000));
    let mut evicted = victims(&mut world);
    evicted.sort();
    assert_eq!(evicted, if is_device_free { &["a-1"][..] } else { &["a-1", "a-2"] });
    for name in &evicted {
        go(&mut world, name);
    }
    assert_eq!(world.admit_names(), ["b-0"]);
}

/// The untainted ones are all in use, and were missed where a tainted one is as good.
#[test]
fn nobody_gives_anything_back_for_who_may_get_a_tainted_device_that_is_free() {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1"));
    let mut devices = gpus("A", 3);
    devices[2]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    world.slice("n1", NVIDIA, &devices);
    world.class(NVIDIA, IS_GPU, Some(GPU));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 1}"#));
    }
    for (index, name) in ["a-0", "a-1"].into_iter().enumerate() {
        let holds = claimed(&mut world, name, "a", &exactly(1, Some("A")));
        let device = format!("gpu-{index}");
        world.claim(
            &format!("{name}-gpu"),
            &exactly(1, Some("A")),
            &allocated("n1", &[&device]),
        );
        world.pod(&holds.assigned("A").on("n1"));
    }
    let mut tolerating = exactly(1, Some("A"));
    tolerating[0]["exactly"]["tolerations"] = json!([{"operator": "Exists"}]);
    let claimant = claimed(&mut world, "b-0", "b", &tolerating);
    world.pod(&claimant);
    assert_eq!(world.admit(), [admitted("b-0", "A")]);
}

/// Pods of queue `a` that run on `n1`: two with `A` of the device plugin, and two younger ones with `B` that they claim.
pub fn run_both_ways(world: &mut World) {
    for (index, name) in (0..).zip(["a-0", "a-1"]) {
        let pod = pod(name).queue("a").asks("A", 1).created(index);
        world.pod(&pod.assigned("A").on("n1"));
    }
    for (index, name) in (0..).zip(["a-2", "a-3"]) {
        let pod = claimed(world, name, "a", &exactly(1, Some("B"))).created(2 + index);
        let device = format!("gpu-{index}");
        let claim = format!("{name}-gpu");
        world.claim(&claim, &exactly(1, Some("B")), &allocated("n1", &[&device]));
        world.pod(&pod.assigned("B").on("n1"));
    }
}
