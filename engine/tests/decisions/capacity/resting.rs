//! A queue for which nothing can be taken back is not looked at until something changes, or time does: each such thing wakes it.
//! That nothing else could is asserted at every look of every test: for no queue that rests anything is taken back.

use engine::cluster::reclaims::EvictionOutcome;
use serde_json::json;

use super::reclaim::{RECLAIM, gone, victims};
use super::{plain, worker};
use crate::world::{Object, World, bare_pod, capacity, group, node, pod};

/// A full node of 8 cards, of which two queues deserve 4 each, and `a` has so many.
fn shared(interval: u32, of_a: usize) -> World {
    let mut world = World::with(capacity(RECLAIM, &format!("reclaimInterval: {interval}")));
    world.node(&node("n1").cards("A", 8));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.pods((0..of_a).map(|index| worker("a", index).assigned("A").on("n1")));
    world.pods((of_a..8).map(|index| worker("b", index).assigned("A").on("n1")));
    world
}

/// Nothing can be taken back for `b-9`: each has what it deserves.
fn fair() -> World {
    let mut world = shared(1, 4);
    world.pod(&worker("b", 9));
    rest(&mut world);
    world
}

/// After a few looks, none is needed any more.
#[track_caller]
fn rest(world: &mut World) {
    for _ in 0..3 {
        assert_eq!(world.decide(), []);
        world.wait(1);
    }
    assert_eq!(looks(world), 0);
}

/// How many queues are looked at a second later, in vain.
#[track_caller]
fn looks(world: &mut World) -> usize {
    world.wait(1);
    let round = world.round();
    assert_eq!(round.actions, []);
    round.looks
}

#[test]
fn an_unchanged_world_is_not_looked_at() {
    let mut world = fair();
    for _ in 0..10 {
        assert_eq!(looks(&mut world), 0);
    }
}

#[test]
fn a_gang_that_was_tried_in_vain_is_not_looked_at_either() {
    let mut world = shared(1, 5);
    world.group(&group("g", 2));
    world.pods(["g-0", "g-1"].map(|name| pod(name).queue("b").of("g").asks("A", 1)));
    rest(&mut world);
}

/// It was judged anew after each look, for as long as those of its pods took to go that were counted out and in there.
#[test]
fn a_gang_of_which_pods_are_on_their_way_out_rests() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 7));
    world.node(&node("n2").cards("H", 8));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.queue(&plain("c").quota(r#"{"H": 1}"#));
    world.group(&group("g", 3));
    let member = |name: &str, queue: &str, card: &str| pod(name).queue(queue).of("g").asks(card, 1).created(9);
    world.pods(["g-0", "g-1"].map(|name| member(name, "a", "A").assigned("A").on("n1")));
    world.pods((0..4).map(|index| worker("a", index).priority(5).assigned("A").on("n1")));
    world.pod(&worker("b", 0).assigned("A").on("n1"));
    world.pod(&pod("c-0").queue("c").asks("H", 1).assigned("H").on("n2"));
    // Its queue has a quota of one card, which is in use.
    world.pod(&member("g-2", "c", "H"));
    world.pod(&worker("b", 1));
    assert_eq!(victims(&mut world).len(), 2);
    // Nothing is set aside for anybody any more, and who waits now waits for more than comes free.
    world.remove_pod("b-1");
    world.pod(&pod("b-2").queue("b").asks("A", 5));
    looks(&mut world);
    for _ in 0..5 {
        world.wait(1);
        let round = world.round();
        assert_eq!((round.actions, round.gangs_judged), (Vec::new(), 0));
        assert!(round.looks > 0);
    }
    world.remove_pod("c-0");
    assert_eq!(world.round().gangs_judged, 1);
}

#[test]
fn what_a_queue_says() {
    let mut world = fair();
    world.queue(&plain("a").deserved_cards(r#"{"A": 3}"#));
    assert_eq!(looks(&mut world), 1);
    world.wait(1);
    world.queue(&plain("b").deserved_cards(r#"{"A": 5}"#));
    assert_eq!(victims(&mut world).len(), 1);
}

#[test]
fn a_pod_of_no_queue() {
    let mut world = fair();
    world.pod(&bare_pod("x").on("n1"));
    assert_eq!(looks(&mut world), 1);
    rest(&mut world);
}

fn idle(name: &str, node: &str) -> Object {
    pod(name)
        .queue("a")
        .set(["spec", "containers"], json!([{"name": "main"}]))
        .ungated()
        .on(node)
}

/// Whoever has a finalizer on such pods keeps them for as long as they like, by the thousand.
#[test]
fn pods_that_hold_nothing_keep_nobody_awake_while_they_are_deleted() {
    let mut world = fair();
    world.pods((0..20).map(|index| idle(&format!("idle-{index}"), "n1")));
    world.pods((0..20).map(|index| idle(&format!("idle-{index}"), "n1").deleted(100)));
    rest(&mut world);
    // What another one holds could help somebody.
    let holds = || idle("holds", "n1").requests("cpu", "1");
    world.pods([holds(), holds().deleted(100)]);
    for _ in 0..3 {
        assert_eq!(looks(&mut world), 1);
    }
}

/// The slot of a pod on its node is all that the node lacks: nobody else is evicted meanwhile.
#[test]
fn the_last_slot_of_a_node_is_waited_for() {
    let mut world = shared(1, 5);
    world.node(&node("n2").cards("A", 1).offers("pods", "1"));
    world.pods([idle("idle", "n2"), idle("idle", "n2").deleted(100)]);
    world.pod(&worker("b", 9));
    for _ in 0..3 {
        assert_eq!(looks(&mut world), 1);
    }
    world.remove_pod("idle");
    assert_eq!(world.admit_names(), ["b-9"]);
}

#[test]
fn a_node_that_goes() {
    let mut world = shared(1, 4);
    world.node(&node("n2").cards("A", 2).cordoned());
    world.pod(&worker("b", 9));
    rest(&mut world);
    let now = world.now;
    world.remove_node("n2", now);
    assert_eq!(looks(&mut world), 1);
}

#[test]
fn a_node_that_takes_pods_again() {
    let mut world = shared(1, 5);
    world.node(&node("n1").cards("A", 8).cordoned());
    world.pod(&worker("b", 9));
    rest(&mut world);
    world.wait(1);
    world.node(&node("n1").cards("A", 8));
    assert_eq!(victims(&mut world).len(), 1);
}

#[test]
fn what_a_group_says() {
    let mut world = shared(1, 5);
    world.group(&group("g", 5));
    let of_group = |index| worker("a", index).of("g").assigned("A").on("n1");
    world.pods((0..5).map(of_group));
    world.pod(&worker("b", 9));
    rest(&mut world);
    world.wait(1);
    world.group(&group("g", 4));
    assert_eq!(victims(&mut world).len(), 1);
}

#[test]
fn an_eviction_that_may_be_tried_again() {
    let mut world = shared(1, 5);
    world.pod(&worker("b", 9));
    for _ in 0..5 {
        let refused = victims(&mut world);
        assert_eq!(refused.len(), 1);
        let now = world.now;
        world.eviction_ended(&refused[0], EvictionOutcome::Refused, now);
    }
    rest(&mut world);
    world.wait(30);
    assert_eq!(victims(&mut world).len(), 1);
}

#[test]
fn pods_may_be_evicted_for_the_queue_again() {
    let mut world = shared(1_000, 6);
    world.pod(&worker("b", 8));
    let evicted = victims(&mut world);
    gone(&mut world, &evicted);
    assert_eq!(world.admit_names(), ["b-8"]);
    world.pods([worker("b", 8).assigned("A").on("n1"), worker("b", 9)]);
    rest(&mut world);
    world.wait(1_000);
    assert_eq!(victims(&mut world).len(), 1);
}

#[test]
fn an_eviction_of_which_it_is_heard_late_that_it_was_not_tried() {
    let mut world = shared(1_000, 5);
    world.pod(&worker("b", 9));
    let evicted = victims(&mut world);
    world.wait(61);
    rest(&mut world);
    let now = world.now;
    world.eviction_ended(&evicted[0], EvictionOutcome::NotTried, now);
    assert_eq!(victims(&mut world).len(), 1);
}
