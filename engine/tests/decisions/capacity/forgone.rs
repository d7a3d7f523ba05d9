//! Room on nodes that who waits for what comes free anyway keeps from others, and what of it not (docs/rules.md, **Queues**).

use engine::cluster::reclaims::EvictionOutcome;

use super::reclaim::{RECLAIM, victims};
use super::set_aside::let_in;
use crate::world::{Object, World, bare_queue, capacity, group, node, pod};

/// Ten years, as a pod's own `terminationGracePeriodSeconds` may say.
const LONG: i64 = 315_000_000;

/// Two nodes with a card each, and two queues that deserve one each and may have no more. The pod of the first queue takes its time to leave the first node.
fn one_is_leaving() -> World {
    let mut world = World::with(capacity(RECLAIM, ""));
    for name in ["n1", "n2"] {
        world.node(&node(name).cards("A", 1));
    }
    for name in ["evil", "good"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 1}"#).quota(r#"{"A": 1}"#));
    }
    let leaves = pod("e-0").queue("evil").asks("A", 1).assigned("A").on("n1");
    world.pod(&leaves);
    world.pod(&leaves.deleted(LONG));
    world
}

/// The next pod of that queue names the second node, whose card is the other queue's.
#[track_caller]
fn is_given_to_the_other(world: &mut World) {
    world.pod(&pod("e-1").queue("evil").asks("A", 1).pinned_to("n2"));
    assert_eq!(let_in(world), [""; 0]);
    world.wait(2);
    world.pod(&pod("g-0").queue("good").asks("A", 1));
    assert_eq!(let_in(world), ["g-0"]);
}

/// Who lacks quota alone, which a pod of its own on another node takes its time to give back, waits for nothing on the node that it names.
#[test]
fn a_queue_that_deserves_one_card_keeps_no_second_one_from_others() {
    is_given_to_the_other(&mut one_is_leaving());
}

/// Something without cards ends on the second node, too.
#[test]
fn a_tiny_pod_on_its_way_out_keeps_no_second_card_from_others() {
    let mut world = one_is_leaving();
    let tiny = pod("tiny").queue("evil").requests("cpu", "1m").on("n2");
    world.pod(&tiny);
    world.pod(&tiny.deleted(LONG));
    is_given_to_the_other(&mut world);
}

/// One of the cards that it waits for is free already, on the node where the other is given back: it would never get both, were that one given away.
#[test]
fn a_free_card_is_kept_for_who_waits_for_another_one_of_its_node() {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    world.node(&node("n1").cards("A", 3));
    for (name, cards) in [("a", 2), ("b", 1)] {
        world.queue(&bare_queue(name).deserved_cards(&format!(r#"{{"A": {cards}}}"#)));
    }
    world.pods(["l-0", "l-1"].map(|name| pod(name).queue("a").asks("A", 1).assigned("A").on("n1")));
    let leaves = pod("l-0").queue("a").asks("A", 1).assigned("A").on("n1");
    world.pod(&leaves.deleted(30));
    world.remove_pod("l-1");
    world.pod(&pod("a-0").queue("a").asks("A", 2).priority(1));
    world.pod(&pod("b-0").queue("b").asks("A", 1));
    assert_eq!(let_in(&mut world), ["b-0"], "of three cards one is left to it");
    world.wait(2);
    world.pod(&pod("b-1").queue("b").asks("A", 1).created(9));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.remove_pod("l-0");
    assert_eq!(let_in(&mut world), ["a-0"]);
}

/// The levels above the queues of a gang have quota for one of its pods alone: as a gang in one queue it keeps no free card from others, and in
/// two queues below the same one it does.
#[test]
fn a_gang_in_two_queues_below_one_keeps_no_second_card_from_others() {
    for second in ["b", "c"] {
        let mut world = World::with(capacity(RECLAIM, "enableHierarchy: true"));
        for name in ["n1", "n2", "n3"] {
            world.node(&node(name).cards("A", 1));
        }
        world.queue(&bare_queue("dept").deserved_cards(r#"{"A": 2}"#).quota(r#"{"A": 2}"#));
        for name in ["b", "c"] {
            world.queue(&bare_queue(name).parent("dept"));
        }
        world.queue(&bare_queue("good").deserved_cards(r#"{"A": 1}"#).quota(r#"{"A": 1}"#));
        let leaves = pod("l-0").queue("b").asks("A", 1).assigned("A").on("n1");
        world.pod(&leaves);
        world.pod(&leaves.deleted(LONG));
        world.group(&group("g", 2));
        world.pod(&pod("g-0").of("g").queue("b").asks("A", 1).pinned_to("n2"));
        world.pod(&pod("g-1").of("g").queue(second).asks("A", 1).pinned_to("n3"));
        assert_eq!(let_in(&mut world), [""; 0], "{second}");
        world.wait(2);
        assert_eq!(let_in(&mut world), [""; 0], "{second}");
        world.wait(2);
        world.pod(&pod("good-0").queue("good").asks("A", 1));
        assert_eq!(let_in(&mut world), ["good-0"], "{second}");
    }
}

/// A gang has quota for all of its pods and waits for a card of the first of its nodes: the card of the second one is kept for it,
/// unless others are evicted somewhere else for somebody else, as those and what is set aside of them count twice.
#[test]
fn what_a_gang_lacks_is_kept_while_others_are_evicted_for_somebody_else() {
    for evicting in [false, true] {
        let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
        for (name, cards) in [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 4)] {
            world.node(&node(name).cards("A", cards));
        }
        for (name, cards) in [("a", 2), ("b", 1), ("x", 4), ("y", 0)] {
            // Whose cards are compared with those that the cluster has.
            let queue = bare_queue(name).quota(r#"{"A": 7}"#);
            world.queue(&queue.deserved_cards(&format!(r#"{{"A": {cards}}}"#)));
        }
        let borrows = pod("y-0").queue("y").asks("A", 4).assigned("A").on("n4");
        world.pod(&borrows);
        let leaves = pod("l-0").queue("a").asks("A", 1).assigned("A").on("n1");
        world.pod(&leaves);
        if evicting {
            world.pod(&pod("x-0").queue("x").asks("A", 4).pinned_to("n4"));
            assert_eq!(victims(&mut world), ["y-0"]);
            let now = world.now;
            world.eviction_ended("y-0", EvictionOutcome::Evicted, now);
            world.pod(&borrows.deleted(600));
        }
        world.pod(&leaves.deleted(600));
        world.group(&group("g", 2).queue("a"));
        for (index, on) in ["n1", "n2"].into_iter().enumerate() {
            world.pod(&pod(&format!("g-{index}")).of("g").queue("a").asks("A", 1).pinned_to(on));
        }
        for _ in 0..3 {
            world.wait(2);
            assert_eq!(let_in(&mut world), [""; 0], "evicting: {evicting}");
        }
        world.pod(&pod("b-0").queue("b").asks("A", 1).pinned_to("n2"));
        assert_eq!(let_in(&mut world), [""; 0], "evicting: {evicting}");
        world.remove_pod("l-0");
        assert_eq!(let_in(&mut world), ["g-0", "g-1"], "evicting: {evicting}");
    }
}

/// Who has quota for a card that is free only without one that others were evicted for.
#[test]
fn who_lacks_quota_beside_an_evicted_for_one_keeps_no_second_card() {
    keep_no_second_card(|pod| pod);
}

/// Each of them may get in by itself: the group is whole.
#[test]
fn nor_does_who_names_the_same_group() {
    keep_no_second_card(|pod| pod.of("g"));
}

fn keep_no_second_card(of_group: impl Fn(Object) -> Object) {
    let mut world = World::with(capacity(RECLAIM, "reclaimInterval: 1"));
    for name in ["n1", "n2", "n3", "n4"] {
        world.node(&node(name).cards("A", 1));
    }
    world.queue(&bare_queue("evil").deserved_cards(r#"{"A": 2}"#).quota(r#"{"A": 2}"#));
    world.queue(&bare_queue("y").deserved_cards(r#"{"A": 0}"#));
    world.queue(&bare_queue("good").deserved_cards(r#"{"A": 2}"#).quota(r#"{"A": 2}"#));
    let leaves = pod("e-0").queue("evil").asks("A", 1).assigned("A").on("n1");
    let borrows = pod("y-0").queue("y").asks("A", 1).assigned("A").on("n2");
    world.pods([leaves.clone(), borrows.clone()]);
    world.group(&group("g", 1));
    world.pod(&of_group(pod("e-small").queue("evil").on("n1")));
    let first = pod("e-1").queue("evil").asks("A", 1).pinned_to("n2").priority(3);
    world.pod(&of_group(first));
    assert_eq!(victims(&mut world), ["y-0"]);
    let now = world.now;
    world.eviction_ended("y-0", EvictionOutcome::Evicted, now);
    world.pod(&borrows.deleted(LONG));
    world.pod(&leaves.deleted(LONG));
    world.pod(&of_group(pod("e-2").queue("evil").asks("A", 1).pinned_to("n3")));
    for _ in 0..3 {
        world.wait(2);
        assert_eq!(let_in(&mut world), [""; 0]);
    }
    world.pods(["good-0", "good-1"].map(|name| pod(name).queue("good").asks("A", 1)));
    assert_eq!(let_in(&mut world), ["good-0", "good-1"]);
}

/// Pods of its own queue come and go on the first of the nodes of a gang, and pods of another queue on the second one: the card that is free there
/// was kept for it when the other was given back.
#[test]
fn a_gang_over_two_nodes_gets_what_is_free_and_what_is_given_back() {
    let mut world = World::with(capacity(RECLAIM, ""));
    for name in ["n1", "n2", "n3"] {
        world.node(&node(name).cards("A", 1));
    }
    for (name, cards) in [("a", 2), ("b", 1)] {
        let cards = format!(r#"{{"A": {cards}}}"#);
        world.queue(&bare_queue(name).deserved_cards(&cards).quota(&cards));
    }
    let on = |name: &str, queue: &str, node: &str| pod(name).queue(queue).asks("A", 1).assigned("A").on(node);
    world.pod(&on("s-0", "a", "n1"));
    world.group(&group("g", 2).queue("a"));
    for (index, node) in ["n1", "n2"].into_iter().enumerate() {
        let member = pod(&format!("g-{index}")).of("g").queue("a").asks("A", 1);
        world.pod(&member.priority(1).pinned_to(node));
    }
    assert_eq!(let_in(&mut world), [""; 0]);
    let mut taken = 0;
    for index in 0..5 {
        let (own, other) = (format!("s-{index}"), format!("b-{index}"));
        world.pod(&on(&own, "a", "n1").deleted(LONG));
        for _ in 0..2 {
            world.wait(2);
            assert_eq!(let_in(&mut world), [""; 0]);
        }
        world.pod(&pod(&other).queue("b").asks("A", 1).pinned_to("n2"));
        if let_in(&mut world).is_empty() {
            world.remove_pod(&own);
            assert_eq!(let_in(&mut world), ["g-0", "g-1"]);
            break;
        }
        taken += 1;
        world.pod(&on(&other, "b", "n2"));
        world.remove_pod(&own);
        for _ in 0..2 {
            assert_eq!(let_in(&mut world), [""; 0]);
            world.wait(2);
        }
        let next = format!("s-{}", index + 1);
        world.pod(&pod(&next).queue("a").asks("A", 1).pinned_to("n1"));
        assert_eq!(let_in(&mut world), [&*next]);
        world.pod(&on(&next, "a", "n1"));
        world.remove_pod(&other);
        assert_eq!(let_in(&mut world), [""; 0]);
    }
    assert_eq!(taken, 0, "that often others took what it waits for");
}

/// Two cards are given back on the first node, where one is waited for: the other one is no card of the second node.
#[test]
fn what_is_given_back_beyond_what_is_waited_for_there_keeps_no_card_of_another_node() {
    let mut world = World::with(capacity(RECLAIM, ""));
    for (name, cards) in [("n1", 2), ("n2", 1)] {
        world.node(&node(name).cards("A", cards));
    }
    for (name, cards) in [("evil", 2), ("good", 1)] {
        let cards = format!(r#"{{"A": {cards}}}"#);
        world.queue(&bare_queue(name).deserved_cards(&cards).quota(&cards));
    }
    let leaves = pod("e-0").queue("evil").asks("A", 2).assigned("A").on("n1");
    world.pod(&leaves);
    world.pod(&leaves.deleted(LONG));
    for on in ["n1", "n2"] {
        world.pod(&pod(&format!("e-{on}")).queue("evil").asks("A", 1).pinned_to(on));
    }
    assert_eq!(let_in(&mut world), [""; 0]);
    world.wait(2);
    world.pod(&pod("good-0").queue("good").asks("A", 1));
    assert_eq!(let_in(&mut world), ["good-0"]);
    world.pod(&pod("good-0").queue("good").asks("A", 1).assigned("A").on("n2"));
    world.remove_pod("e-0");
    assert_eq!(let_in(&mut world), ["e-n1"]);
}

/// Each of those that wait takes the place of a pod of a queue beside its own that ends on the same node.
#[test]
fn what_another_queue_gives_back_is_counted_for_those_who_take_its_place() {
    let mut world = World::with(capacity(RECLAIM, "enableHierarchy: true"));
    for (name, cards) in [("n1", 1), ("n2", 2), ("n3", 1)] {
        world.node(&node(name).cards("A", cards));
    }
    world.queue(&bare_queue("dept").deserved_cards(r#"{"A": 3}"#).quota(r#"{"A": 3}"#));
    for name in ["b", "c"] {
        world.queue(&bare_queue(name).parent("dept"));
    }
    world.queue(&bare_queue("good").deserved_cards(r#"{"A": 1}"#).quota(r#"{"A": 1}"#));
    for on in ["n1", "n2"] {
        let leaves = pod(&format!("l-{on}")).queue("b").asks("A", 1).assigned("A").on(on);
        world.pod(&leaves);
        world.pod(&leaves.deleted(LONG));
    }
    world.pod(&pod("c-0").queue("c").asks("A", 1).pinned_to("n1"));
    world.pod(&pod("c-1").queue("c").asks("A", 2).pinned_to("n2").created(1));
    assert_eq!(let_in(&mut world), [""; 0]);
    world.wait(2);
    world.pod(&pod("good-0").queue("good").asks("A", 1).pinned_to("n2"));
    assert_eq!(let_in(&mut world), [""; 0]);
    for leaves in ["l-n1", "l-n2"] {
        world.remove_pod(leaves);
    }
    assert_eq!(let_in(&mut world), ["c-0", "c-1"]);
}

#[test]
fn to_find_out_what_is_forgone_costs_steps() {
    let mut world = World::with(capacity(RECLAIM, ""));
    world.node(&node("n1").cards("A", 32));
    world.queue(&bare_queue("a").deserved_cards(r#"{"A": 32}"#).quota(r#"{"A": 32}"#));
    let leaves = pod("leaves").queue("a").asks("A", 32).assigned("A").on("n1");
    world.pod(&leaves);
    world.pod(&leaves.deleted(LONG));
    world.pods((0..32).map(|index| pod(&format!("a-{index}")).queue("a").asks("A", 1)));
    let round = world.round();
    assert_eq!(round.actions, []);
    assert!(round.steps >= 32 * 128, "{} steps", round.steps);
}
