//! Reclaim on whole clusters (docs/rules.md, **Queues**).

use std::collections::BTreeMap;

use engine::cluster::reclaims::EvictionOutcome;
use engine::decide::{Action, Eviction};

use super::{plain, worker, workers};
use crate::world::{Object, World, capacity, node, pod, queue, queue_plugin};

pub(super) const RECLAIM: &str = "enqueue, allocate, backfill, reclaim";
pub(super) const BORROW: &str = "guaranteeThreshold: 100";

/// A cluster of one node with 8 cards, of which two queues deserve 4 each, and the first borrows all.
fn borrowed(arguments: &str) -> World {
    let mut world = World::with(capacity(RECLAIM, &format!("{BORROW}{arguments}")));
    world.node(&node("n1").cards("A", 8));
    for name in ["a", "b"] {
        world.queue(&plain(name).deserved_cards(r#"{"A": 4}"#));
    }
    workers(&mut world, "a", 8);
    assert_eq!(world.admit().len(), 8);
    settle(&mut world, 8, worker_a);
    world
}

pub(super) fn worker_a(index: usize) -> Object {
    worker("a", index)
}

/// Lets pods run that were let in.
pub(super) fn settle(world: &mut World, count: usize, pod: impl Fn(usize) -> Object) {
    world.pods((0..count).map(|index| pod(index).assigned("A").on("n1")));
}

/// The evictions of one round, in which nothing else is decided.
#[track_caller]
pub(super) fn evictions(world: &mut World) -> Vec<Eviction> {
    let actions = world.decide().into_iter();
    let evictions = actions.map(|action| match action {
        Action::Evict(eviction) => eviction,
        other => panic!("not an eviction: {other:?}"),
    });
    evictions.collect()
}

/// The names of the pods that are evicted in one round.
#[track_caller]
pub(super) fn victims(world: &mut World) -> Vec<String> {
    let evictions = evictions(world).into_iter();
    let names = evictions.flat_map(|eviction| eviction.victims.into_iter().map(|victim| victim.pod.name.to_string()));
    names.collect()
}

/// The API server has evicted pods, which are gone at once.
pub(super) fn gone(world: &mut World, pods: &[String]) {
    for pod in pods {
        let now = world.now;
        world.eviction_ended(pod, EvictionOutcome::Evicted, now);
        world.remove_pod(pod);
    }
}

#[test]
fn what_is_borrowed_is_given_back_youngest_first_and_only_as_much_as_is_missing() {
    let mut world = borrowed("");
    world.remove_pod("a-3");
    world.pod(&worker("a", 3).assigned("A").on("n1").created(9));
    world.pod(&worker("b", 0));
    let [eviction] = &evictions(&mut world)[..] else {
        panic!("one")
    };
    assert_eq!(eviction.victims.len(), 1);
    assert_eq!(
        (&*eviction.victims[0].pod.name, eviction.victims[0].reason.as_str()),
        ("a-3", "Reclaimed")
    );
    assert_eq!(
        eviction.victims[0].message,
        "evicted for pod team/b-0 of queue b, which asks 1 nvidia.com/gpu, 1 A, 1 CPU, 1Gi memory; of A, queue b has 0 and \
         deserves 4, and this pod's queue a has 8 and deserves 4"
            .replace("1 nvidia.com/gpu, 1 A, 1 CPU, 1Gi memory", &asks(&eviction.victims[0].message))
    );
    gone(&mut world, &["a-3".to_owned()]);
    assert_eq!(world.admit_names(), ["b-0"]);
}

#[test]
fn of_a_queue_that_names_nothing_that_it_deserves_that_is_said() {
    let mut world = borrowed("");
    world.node(&node("n2").cards("H", 1));
    world.queue(&plain("c").deserved_cards(r#"{"H": 1}"#));
    world.pod(&pod("c-h").queue("c").asks("H", 1).assigned("H").on("n2"));
    world.pod(&pod("c-0").queue("c").asks("H|A", 1));
    let evictions = evictions(&mut world);
    let message = &evictions[0].victims[0].message;
    assert!(
        message.ends_with(
            "; of A, queue c has 0 and names nothing that it deserves, and this pod's queue a has 8 and deserves 4"
        ),
        "{message}"
    );
}

#[test]
fn a_grace_period_that_overflows_gives_nothing_back() {
    let mut world = borrowed("");
    // The API server adds 9,223,372,037 seconds to now, in nanoseconds: that is long ago. Kubelets do the same, and never end the pod.
    let ends = |index| {
        let pod = worker_a(index).assigned("A").on("n1");
        let pod = pod.set(["metadata", "deletionTimestamp"], "1734-05-12T00:00:00Z");
        pod.set(["metadata", "deletionGracePeriodSeconds"], 9_223_372_037_i64)
    };
    world.pods((0..8).map(ends));
    world.pod(&worker("b", 0));
    world.wait(3600);
    assert!(
        world.decide().is_empty(),
        "all cards are in use, and their pods are being deleted already"
    );
}

#[test]
fn who_is_evicted_for_a_queue_of_others_is_told_nothing_of_what_it_uses() {
    let mut world = World::with(capacity(RECLAIM, BORROW));
    world.node(&node("n1").cards("A", 8));
    world.namespace("team", &[("team", "a")], None);
    world.namespace("other", &[("team", "b")], None);
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#));
    let own = plain("b").deserved_cards(r#"{"A": 4}"#);
    world.queue(&own.annotation("card.volcano.sh/namespaces", "team=b"));
    world.pods((0..7).map(|index| worker_a(index).assigned("A").on("n1")));
    world.pod(&worker("b", 0).namespace("other").assigned("A").on("n1"));
    world.pod(&worker("b", 1).namespace("other"));
    let evictions = evictions(&mut world);
    assert_eq!(
        evictions[0].victims[0].message,
        "evicted for a pod of queue b, which has less A than it deserves; this pod's queue a has 7 and deserves 4"
    );
}

#[test]
fn who_makes_room_is_told_of_the_card_that_it_gives_and_not_of_the_one_that_was_preferred() {
    let mut world = borrowed("");
    world.node(&node("n2").cards("H", 1));
    world.pod(&pod("b-h").queue("b").asks("H", 1).assigned("H").on("n2"));
    world.pod(&pod("b-0").queue("b").asks("H|A", 1));
    let evictions = evictions(&mut world);
    let message = &evictions[0].victims[0].message;
    assert!(message.contains(" 1 A") && !message.contains(" 1 H"), "{message}");
    assert!(
        message.ends_with("; of A, queue b has 0 and deserves 4, and this pod's queue a has 8 and deserves 4"),
        "{message}"
    );
}

/// What stands between "asks" and the numbers, in whatever order.
fn asks(message: &str) -> String {
    let (_, rest) = message.split_once("which asks ").unwrap();
    let (asks, _) = rest.split_once("; of A").unwrap();
    for part in ["1 nvidia.com/gpu", "1 A", "1 CPU", "1Gi memory"] {
        assert!(asks.contains(part), "{asks}");
    }
    asks.to_owned()
}

#[test]
fn several_waiting_pods_are_served_by_one_look_and_never_below_what_is_deserved() {
    let mut world = borrowed("");
    workers(&mut world, "b", 6);
    let names = victims(&mut world);
    assert_eq!(names.len(), 4, "{names:?}");
    gone(&mut world, &names);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, |index| worker("b", index));
    world.wait(3600);
    assert_eq!(
        victims(&mut world),
        [""; 0],
        "both have what they deserve: a fixed point"
    );
}

#[test]
fn section_4_reclaim_interval_is_the_least_time_between_evictions_for_one_queue() {
    let mut world = borrowed(", reclaimInterval: 30");
    world.pod(&worker("b", 0));
    let first = victims(&mut world);
    assert_eq!(first.len(), 1);
    gone(&mut world, &first);
    assert_eq!(world.admit_names(), ["b-0"]);
    world.pod(&worker("b", 1));
    for _ in 0..29 {
        assert_eq!(victims(&mut world), [""; 0]);
        world.wait(1);
    }
    world.wait(1);
    assert_eq!(victims(&mut world).len(), 1);
}

/// A victim that one queue does not get is no reason for another to have more of them at once.
#[test]
fn an_eviction_that_is_refused_is_tried_elsewhere_by_its_own_queue_alone() {
    let mut world = borrowed(", reclaimInterval: 60");
    world.queue(&plain("c").deserved_cards(r#"{"A": 4}"#));
    world.pod(&worker("b", 0));
    let first = victims(&mut world);
    gone(&mut world, &first);
    assert_eq!(world.admit_names(), ["b-0"]);
    world.pod(&worker("c", 0));
    let of_c = victims(&mut world);
    assert_eq!(of_c.len(), 1);
    world.pod(&worker("b", 1));
    let now = world.now;
    world.eviction_ended(&of_c[0], EvictionOutcome::Refused, now);
    let waiting: Vec<_> = evictions(&mut world)
        .iter()
        .map(|one| one.waiting.name.to_string())
        .collect();
    assert_eq!(waiting, ["c-0"]);
}

#[test]
fn section_1_reclaimable_false_and_actions_without_reclaim_take_nothing_back() {
    let mut world = borrowed(", reclaimable: false");
    world.pod(&worker("b", 0));
    assert_eq!(victims(&mut world), [""; 0]);

    let mut world = borrowed("");
    let now = world.now;
    world.set_configuration(capacity(super::ACTIONS, BORROW), now);
    world.pod(&worker("b", 0));
    assert_eq!(victims(&mut world), [""; 0]);
}

#[test]
fn a_queue_that_is_not_reclaimable_keeps_what_it_borrows() {
    let mut world = borrowed("");
    world.queue(
        &plain("a")
            .deserved_cards(r#"{"A": 4}"#)
            .set(["spec", "reclaimable"], false),
    );
    world.pod(&worker("b", 0));
    assert_eq!(victims(&mut world), [""; 0]);
}

#[test]
fn nothing_is_taken_for_a_queue_that_would_borrow_itself() {
    let mut world = borrowed("");
    world.queue(&plain("b").deserved_cards(r#"{"A": 1}"#));
    world.pod(&pod("big").queue("b").asks("A", 2));
    assert_eq!(victims(&mut world), [""; 0]);
}

#[test]
fn nothing_is_taken_where_it_would_not_be_sufficient() {
    let mut world = borrowed("");
    // More than the queue that borrows has beyond what it deserves.
    world.queue(&plain("a").deserved_cards(r#"{"A": 6}"#));
    world.pod(&pod("big").queue("b").asks("A", 3));
    assert_eq!(victims(&mut world), [""; 0]);
    // A guarantee protects like what is deserved.
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#).guaranteed_cards(r#"{"A": 6}"#));
    world.wait(60);
    assert_eq!(victims(&mut world), [""; 0]);
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#).guaranteed_cards(r#"{"A": 5}"#));
    world.wait(60);
    assert_eq!(victims(&mut world).len(), 3);
}

#[test]
fn one_is_evicted_where_one_is_enough_and_none_that_gives_nothing_that_is_missing() {
    let mut world = World::with(capacity(RECLAIM, BORROW));
    world.node(&node("n1").cards("A", 4));
    world.node(&node("n2").cards("A", 4));
    world.queue(&plain("a").deserved_cards(r#"{"A": 1}"#));
    world.queue(&plain("b").deserved_cards(r#"{"A": 4}"#));
    // On n1 four small pods, on n2 one large and older one; and one without cards, the youngest of all.
    world.pods((0..4).map(|index| worker("a", index).assigned("A").on("n1").created(5)));
    world.pod(&pod("large").queue("a").asks("A", 4).assigned("A").on("n2"));
    world.pod(&pod("cpu").queue("a").on("n2").created(9));
    world.pod(&pod("big").queue("b").asks("A", 3));
    assert_eq!(victims(&mut world), ["large"]);
}

#[test]
fn lower_priorities_go_first() {
    let mut world = borrowed("");
    world.remove_pod("a-5");
    world.pod(&worker("a", 5).assigned("A").on("n1").priority(-5));
    world.pod(&worker("b", 0));
    assert_eq!(victims(&mut world), ["a-5"]);
}

#[test]
fn what_is_on_its_way_out_already_is_waited_for() {
    let mut world = borrowed("");
    world.pod(&worker("a", 2).assigned("A").on("n1").deleted(40));
    world.pod(&worker("b", 0));
    assert_eq!(victims(&mut world), [""; 0]);
    // What comes free is not borrowed again meanwhile, also after a restart: nothing of this is only remembered.
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#).set(["spec", "priority"], 9));
    world.pod(&worker("a", 20));
    world.remove_pod("a-2");
    assert_eq!(world.admit_names(), ["b-0"]);
}

#[test]
fn the_minute_in_which_an_eviction_is_to_show_begins_when_it_is_answered() {
    let mut world = borrowed("");
    world.pod(&worker("b", 0));
    let evicted = victims(&mut world);
    assert_eq!(evicted.len(), 1);
    world.wait(50);
    world.eviction_ended(&evicted[0], EvictionOutcome::Evicted, world.now);
    world.wait(50);
    assert_eq!(victims(&mut world), [""; 0]);
    world.wait(10);
    assert_eq!(victims(&mut world), evicted);
}

#[test]
fn no_ping_pong_what_was_evicted_is_not_let_in_again_into_the_same_shortage() {
    let mut world = borrowed("");
    // The queue that borrows would be first by its priority.
    world.queue(&plain("a").deserved_cards(r#"{"A": 4}"#).set(["spec", "priority"], 9));
    world.pod(&pod("big").queue("b").asks("A", 4));
    let mut names = victims(&mut world);
    assert_eq!(names.len(), 4);
    // One by one they go, and come back.
    for (index, name) in names.drain(..).enumerate() {
        gone(&mut world, &[name]);
        world.pod(&worker("a", 100 + index));
        let expected: &[&str] = if index == 3 { &["big"] } else { &[] };
        assert_eq!(world.admit_names(), expected, "{index}");
        world.wait(2);
    }
    world.pod(&pod("big").queue("b").asks("A", 4).assigned("A").on("n1"));
    for _ in 0..5 {
        world.wait(60);
        assert_eq!(world.decide(), []);
    }
}

#[test]
fn when_an_eviction_is_refused_another_set_is_taken_or_none() {
    let mut world = borrowed("");
    world.pod(&worker("b", 0));
    let mut refused = Vec::new();
    for _ in 0..8 {
        let names = victims(&mut world);
        assert_eq!(names.len(), 1, "after {refused:?}");
        assert!(!refused.contains(&names[0]), "{names:?} again");
        let now = world.now;
        world.eviction_ended(&names[0], EvictionOutcome::Refused, now);
        refused.extend(names);
    }
    assert_eq!(victims(&mut world), [""; 0], "all have been refused");
    world.wait(120);
    assert_eq!(victims(&mut world).len(), 1, "and are asked again later");
}

#[test]
fn a_pod_that_may_not_be_evicted_is_asked_ever_more_seldom() {
    let mut world = borrowed("");
    world.pod(&worker("b", 0));
    let mut times = BTreeMap::<String, Vec<i64>>::new();
    for second in 0..7_200 {
        while let Some(name) = victims(&mut world).pop() {
            let now = world.now;
            world.eviction_ended(&name, EvictionOutcome::Refused, now);
            times.entry(name).or_default().push(second);
        }
        world.wait(1);
    }
    assert_eq!(times.len(), 8);
    for (name, times) in times {
        let between: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(between, [30, 60, 120, 240, 480, 960, 1_920], "{name}");
    }
}

#[test]
fn a_queue_below_deserved_is_served_though_its_parent_and_the_root_are_full() {
    let mut world = World::with(capacity(RECLAIM, &format!("{BORROW}, enableHierarchy: true")));
    world.node(&node("n1").cards("A", 20));
    world.queue(&plain("root").quota(r#"{"A": 8}"#));
    world.queue(
        &plain("research")
            .parent("root")
            .quota(r#"{"A": 8}"#)
            .deserved_cards(r#"{"A": 8}"#),
    );
    world.queue(&plain("vision").parent("research").deserved_cards(r#"{"A": 4}"#));
    world.queue(&plain("speech").parent("research").deserved_cards(r#"{"A": 4}"#));
    workers(&mut world, "vision", 8);
    assert_eq!(world.admit().len(), 8);
    settle(&mut world, 8, |index| worker("vision", index));
    workers(&mut world, "speech", 2);
    let names = victims(&mut world);
    assert_eq!(names.len(), 2, "{names:?}");
    gone(&mut world, &names);
    assert_eq!(world.admit_names(), ["speech-0", "speech-1"]);
}

#[test]
fn a_department_takes_back_from_another_and_not_from_one_within_what_it_deserves() {
    let mut world = World::with(capacity(RECLAIM, &format!("{BORROW}, enableHierarchy: true")));
    world.node(&node("n1").cards("A", 8));
    for (name, deserved) in [("research", 4), ("sales", 4)] {
        world.queue(&plain(name).deserved_cards(&format!("{{\"A\": {deserved}}}")));
    }
    world.queue(&plain("vision").parent("research").deserved_cards(r#"{"A": 4}"#));
    world.queue(&plain("east").parent("sales").deserved_cards(r#"{"A": 0}"#));
    world.queue(&plain("west").parent("sales").deserved_cards(r#"{"A": 2}"#));
    // East borrows within sales; sales as a whole has what it deserves.
    workers(&mut world, "east", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, |index| worker("east", index));
    workers(&mut world, "vision", 5);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, |index| worker("vision", index));
    assert_eq!(victims(&mut world), [""; 0], "vision would borrow");
    // Within sales west takes back from east.
    workers(&mut world, "west", 1);
    assert!(victims(&mut world)[0].starts_with("east"));
}

#[test]
fn cards_are_taken_back_under_the_capacity_card_plugin_too() {
    let mut world = World::with(queue_plugin("capacity-card", RECLAIM, BORROW));
    world.node(&node("n1").cards("A", 4));
    for name in ["a", "b"] {
        world.queue(&queue(name).quota(r#"{"A": 4}"#).deserved_cards(r#"{"A": 2}"#));
    }
    workers(&mut world, "a", 4);
    assert_eq!(world.admit().len(), 4);
    settle(&mut world, 4, worker_a);
    workers(&mut world, "b", 3);
    assert_eq!(victims(&mut world).len(), 2);
}
