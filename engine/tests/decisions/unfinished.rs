//! Gangs of which some pods hold quota and others wait go before everybody: for what they held, and at no more than it may cost.

use serde_json::json;

use crate::world::{Object, World, bare_pod, group, node, pod, queue};

/// A node with 8 cards, of which somebody's older pod of higher priority waits for all but what is left.
fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world
}

fn victim(cards: i64) -> Object {
    pod("older").created(-100).priority(10).asks("A100", cards)
}

/// A pod of group `a` without cards, and one with some.
fn small(name: &str) -> Object {
    pod(name).of("a")
}

fn large(name: &str) -> Object {
    small(name).asks("A100", 1)
}

/// A group's small pods run, and everything else is in use, of which one card comes free later.
fn running(least: i64, small_pods: &[&str]) -> World {
    let mut world = world();
    world.pod(&pod("other").asks("A100", 7));
    world.pod(&pod("ends").asks("A100", 1));
    world.group(&group("a", least));
    world.pods(small_pods.iter().map(|name| small(name)));
    assert_eq!(world.admit_names().len(), 2 + small_pods.len());
    world.pods(["other", "ends"].map(|name| {
        pod(name)
            .asks("A100", if name == "other" { 7 } else { 1 })
            .assigned("A100")
            .on("n1")
    }));
    world.pods(small_pods.iter().map(|name| small(name).on("n1")));
    assert_eq!(world.admit_names(), [""; 0]);
    world
}

/// Group `a` runs whole, with one card in each of its two pods, which is all that its queue has.
fn whole() -> World {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 2}"#));
    world.group(&group("a", 2));
    world.pods(["a-0", "a-1"].map(large));
    assert_eq!(world.admit_names(), ["a-0", "a-1"]);
    world.pods(["a-0", "a-1"].map(|name| large(name).assigned("A100").on("n1")));
    assert_eq!(world.admit_names(), [""; 0]);
    world
}

/// Who gets the card that comes free.
fn next(world: &mut World) -> Vec<String> {
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("ends");
    world.admit_names()
}

#[test]
fn who_raises_the_minimum_of_a_group_that_runs_goes_before_nobody() {
    let mut world = running(1, &["a-0"]);
    world.pod(&victim(1));
    world.pod(&large("a-1"));
    world.group(&group("a", 2));
    assert_eq!(next(&mut world), ["older"]);
}

#[test]
fn nor_does_who_makes_a_task_missing() {
    let mut world = running(1, &["a-0"]);
    world.pod(&victim(1));
    world.pod(&large("a-1").label("volcano.sh/task-spec", "gpu"));
    let task = json!({"spec": {"minTaskMember": {"gpu": 1}}});
    world.group(&group("a", 1).with(&task));
    assert_eq!(next(&mut world), ["older"]);
}

#[test]
fn nor_does_who_makes_a_large_pod_in_place_of_a_small_one() {
    let mut world = running(2, &["a-0", "a-1"]);
    world.pod(&victim(1));
    world.remove_pod("a-1");
    world.pod(&large("a-2"));
    assert_eq!(next(&mut world), ["older"]);
}

#[test]
fn nor_does_who_makes_the_group_anew() {
    let mut world = running(1, &["a-0"]);
    world.pod(&victim(1));
    world.pod(&large("a-1"));
    world.remove_group("team", "a");
    world.group(&group("a", 2).uid("another"));
    assert_eq!(next(&mut world), ["older"]);
}

#[test]
fn a_gang_that_loses_a_pod_gets_as_much_again_before_others() {
    let mut world = whole();
    world.pod(&victim(1));
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("a-1");
    world.pod(&large("a-2"));
    assert_eq!(world.admit_names(), ["a-2"]);
}

#[test]
fn what_a_gang_gets_in_its_turn_it_gets_again_before_others() {
    // The minimum was raised, and the pod that came for it waited as everybody does.
    let mut world = running(1, &["a-0"]);
    world.pod(&large("a-1"));
    world.group(&group("a", 2));
    assert_eq!(next(&mut world), ["a-1"]);
    // It can't be written, and the other one is older.
    world.refuse("a-1", world.now);
    world.pod(&victim(1));
    world.wait(6);
    assert_eq!(world.admit_names(), ["a-1"]);
}

/// A gang of two cards loses a pod, something happens, and the successor, made in this second, waits for the card beside an older pod.
fn next_when_made_at(seconds: i64, meanwhile: impl Fn(&mut World)) -> Vec<String> {
    let mut world = whole();
    world.remove_pod("a-1");
    world.pod(&pod("ends").asks("A100", 1).assigned("A100").on("n1"));
    assert_eq!(world.admit_names(), [""; 0]);
    world.pod(&victim(1));
    meanwhile(&mut world);
    world.pod(&large("a-2").created(seconds));
    world.wait(seconds);
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("ends");
    world.admit_names()
}

#[test]
fn what_a_gang_held_is_kept_before_others_for_no_longer_than_a_place() {
    // `reservationTimeout` is 5 minutes, and the pod is lost at second 10.
    assert_eq!(next_when_made_at(310, |_| ()), ["a-2"]);
    assert_eq!(next_when_made_at(311, |_| ()), ["older"]);
}

#[test]
fn nor_for_who_makes_the_group_anew_on_that_day() {
    let next = next_when_made_at(400, |world| {
        world.wait(200);
        world.remove_group("team", "a");
        assert_eq!(world.admit_names(), [""; 0]);
        world.group(&group("a", 2));
        assert_eq!(world.admit_names(), [""; 0]);
    });
    assert_eq!(next, ["older"]);
}

/// Its pods are gone while nothing says that it needs them.
#[test]
fn nor_for_who_deletes_the_group_first_and_then_pods() {
    let mut world = whole();
    world.remove_group("team", "a");
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("a-1");
    world.pod(&pod("ends").asks("A100", 1).assigned("A100").on("n1"));
    assert_eq!(world.admit_names(), [""; 0]);
    world.pod(&victim(1));
    world.wait(400);
    world.group(&group("a", 2).uid("another").created(400));
    world.pod(&large("a-2").created(401));
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("ends");
    assert_eq!(world.admit_names(), ["older"]);
}

/// Its own gate would keep a place for the day on which it is taken away.
#[test]
fn nor_by_a_pod_in_time_that_somebody_else_held() {
    for (seconds, next) in [(200, "a-2"), (400, "older")] {
        let mut world = whole();
        let spare = large("a-2").gates(&["card.volcano.sh/quota", "example.com/hold"]);
        world.pod(&spare);
        world.remove_pod("a-1");
        world.pod(&pod("ends").asks("A100", 1).assigned("A100").on("n1"));
        assert_eq!(world.admit_names(), [""; 0]);
        world.pod(&victim(1));
        world.wait(seconds);
        world.pod(&large("a-2"));
        assert_eq!(world.admit_names(), [""; 0]);
        world.remove_pod("ends");
        assert_eq!(world.admit_names(), [next]);
    }
}

#[test]
fn nor_by_pods_in_time_that_fit_nowhere() {
    let next = next_when_made_at(400, |world| {
        world.pod(&large("decoy").created(100).selects("zone", "nowhere"));
    });
    assert_eq!(next, ["older"]);
}

/// It was made while the door was away, or before Cardgate: with it the group has as many as it needs.
#[test]
fn a_gang_starts_when_a_pod_that_nobody_held_joins_it() {
    for is_placed in [false, true] {
        for in_queue in ["team-a", "team-b"] {
            let mut world = world();
            world.group(&group("a", 2));
            world.pod(&large("held"));
            assert_eq!(world.refusal_of("held"), "PodGroupIncomplete");
            let joins = bare_pod("joins").of("a").queue(in_queue);
            world.pod(&if is_placed { joins.on("n1") } else { joins });
            assert_eq!(world.admit_names(), ["held"], "placed: {is_placed}, in {in_queue}");
        }
    }
}
