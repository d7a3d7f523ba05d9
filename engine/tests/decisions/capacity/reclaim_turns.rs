//! Each queue that claims has its turn, however many others claim in vain, and whatever happens meanwhile (docs/rules.md, **Queues**).

use engine::decide::Action;
use jiff::SignedDuration;

use super::reclaim::{RECLAIM, evictions};
use super::{plain, worker};
use crate::turns::lengthy_alone;
use crate::world::{Object, World, bare_pod, capacity, node, pod};

/// On one node `a` has what `b` deserves, and before `b` come forty queues that use nothing: a pod waits in each.
fn crowded(waiting: fn(&str) -> Object) -> World {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 8).label("zone", "shared"));
    world.node(&node("n2").cards("A", 1).label("zone", "full"));
    world.node(&node("n3").cards("A", 8).label("zone", "spare"));
    world.pod(&bare_pod("foreign").asks("A", 1).assigned("A").on("n2"));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.pods((0..7).map(|index| worker("a", index).assigned("A").on("n1")));
    world.pod(&worker("b", 0).assigned("A").on("n1"));
    world.pod(&worker("b", 1).selects("zone", "shared"));
    for index in 0..40 {
        let name = format!("idle-{index:02}");
        world.queue(&plain(&name).deserved_cards(r#"{"A": 1}"#));
        world.pod(&waiting(&name));
    }
    world
}

/// Whether others are evicted for `b` within so many rounds, in which a pod comes and goes each second.
fn is_served(world: &mut World, rounds: usize, waiting: fn(&str) -> Object) -> bool {
    (0..rounds).any(|round| {
        if round % 5 == 0 {
            world.pod(&waiting("idle-00").uid("passer-by"));
            world.remove_pod("passer-by");
        }
        is_served_now(world)
    })
}

fn is_served_now(world: &mut World) -> bool {
    world.now += SignedDuration::from_millis(200);
    let mut actions = world.decide().into_iter();
    actions.any(|action| matches!(action, Action::Evict(eviction) if &*eviction.queue == "b"))
}

/// Nothing that others could give back would help it.
fn excludes_all(queue: &str) -> Object {
    worker(queue, 0).selects("zone", "nowhere")
}

/// Others could help it, and none of those may be evicted.
fn claims_in_vain(queue: &str) -> Object {
    worker(queue, 0).selects("zone", "full")
}

#[test]
fn queues_in_which_nobody_claims_take_no_turn() {
    let mut world = crowded(excludes_all);
    assert!(is_served(&mut world, 1, excludes_all));
}

#[test]
fn those_that_claim_in_vain_have_no_second_turn_before_others_have_had_one() {
    let mut world = crowded(claims_in_vain);
    assert!(is_served(&mut world, 11, claims_in_vain));
}

#[test]
fn nobody_gets_ahead_by_pods_made_anew() {
    let mut world = crowded(claims_in_vain);
    let made_anew: Vec<_> = (0..8).map(|index| format!("idle-{index:02}")).collect();
    let is_served = (0..6).any(|_| {
        for queue in &made_anew {
            world.remove_pod(&format!("{queue}-0"));
        }
        let is_served = is_served_now(&mut world);
        world.pods(made_anew.iter().map(|queue| claims_in_vain(queue)));
        is_served || is_served_now(&mut world)
    });
    assert!(is_served);
}

/// A clock that ran ahead for a moment, as before it was set by the network.
#[test]
fn a_clock_that_is_set_back_keeps_nobody_from_what_others_borrow() {
    let mut world = World::with(capacity(RECLAIM, "guaranteeThreshold: 100"));
    world.node(&node("n1").cards("A", 8));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    world.pods((0..8).map(|index| worker("a", index).assigned("A").on("n1")));
    world.pod(&worker("b", 0));
    let right = world.now;
    world.now += SignedDuration::from_hours(24);
    let ahead = world.now;
    assert!(is_served_now(&mut world));
    world.now = right;
    assert!(!is_served_now(&mut world), "once in a minute");
    // Nothing came of it, and of the next one nothing either.
    for seconds in [60, 121, 182] {
        world.now = right + SignedDuration::from_secs(seconds);
        assert!(world.now < ahead);
        assert!(is_served_now(&mut world), "after {seconds} s");
    }
}

/// Whom nothing can be taken back for stands before another one, and says as much about nodes as it may.
#[test]
fn who_is_behind_those_that_spend_a_look_of_reclaim_has_the_next_one() {
    let mut world = World::with(capacity("allocate, reclaim", ""));
    world.queue(&plain("a").quota(r#"{"A": 200}"#).deserved_cards(r#"{"A": 100}"#));
    world.queue(&plain("b").quota(r#"{"A": 200}"#).deserved_cards(r#"{"A": 0}"#));
    for number in 0..200 {
        let name = format!("n-{number}");
        world.node(&node(&name).cards("A", 1));
        let runs = pod(&format!("b-{number}")).queue("b").asks("A", 1);
        world.pod(&runs.assigned("A").on(&name));
    }
    for number in 0..80 {
        world.pod(&lengthy_alone(&format!("p-{number}")).queue("a").asks("A", 1));
    }
    world.pod(&pod("behind").queue("a").asks("A", 1).created(1));
    let mut evicted = Vec::new();
    for _ in 0..4 {
        evicted.extend(evictions(&mut world));
        world.wait(2);
    }
    assert_eq!(evicted.len(), 1, "{evicted:?}");
}
