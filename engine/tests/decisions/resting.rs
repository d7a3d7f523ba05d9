//! Queues that refuse all that waits in them are not looked at until something changes that their refusals depend on: each
//! such thing wakes them. That nothing else could is asserted in every round of every test: no queue that rests has anything
//! to judge.

use engine::decide::Action;
use serde_json::json;

use crate::world::{
    GPU, Object, World, bare_queue, capacity, configuration, group, held_job, node, pod, queue, queue_plugin,
};

const HIERARCHY: &str = "enableHierarchy: true";

/// Nothing is decided any more: whoever may rest does.
#[track_caller]
fn rest(world: &mut World) {
    for _ in 0..3 {
        assert_eq!(world.decide(), []);
    }
}

/// A queue with one card, and two pods that want it. `b` waits.
fn full() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&pod("a").asks("A", 1));
    assert_eq!(world.admit_names(), ["a"]);
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    world
}

/// Two departments of a company, of which `vision` is a part of `research`: what is `limited` has three cards, and `b` waits in
/// `vision` for the fourth.
fn full_above(limited: &str) -> World {
    let mut world = World::with(queue_plugin("capacity", "enqueue, allocate", HIERARCHY));
    world.node(&node("n1").cards("A", 8));
    for (name, parent) in [
        ("root", None),
        ("research", Some("root")),
        ("sales", Some("root")),
        ("vision", Some("research")),
        ("speech", Some("research")),
    ] {
        world.queue(&level(name, parent, if name == limited { 3 } else { 8 }));
    }
    for name in ["vision", "speech"] {
        world.pod(&pod(name).queue(name).asks("A", 1));
    }
    world.pod(
        &pod("sales")
            .queue(if limited == "root" { "sales" } else { "speech" })
            .asks("A", 1),
    );
    assert_eq!(world.admit_names().len(), 3);
    world.pod(&pod("b").queue("vision").asks("A", 1));
    rest(&mut world);
    world
}

fn level(name: &str, parent: Option<&str>, cards: i64) -> Object {
    let level = bare_queue(name)
        .capability("cpu", "100")
        .capability("memory", "1Ti")
        .quota(&json!({ "A": cards }).to_string());
    parent.into_iter().fold(level, Object::parent)
}

#[test]
fn what_its_own_pods_give_back() {
    let mut world = full();
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn what_the_queue_says() {
    let mut world = full();
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn a_pod_that_comes() {
    let mut world = full();
    world.pod(&pod("c"));
    assert_eq!(world.admit_names(), ["c"]);
}

#[test]
fn a_queue_that_is_made() {
    let mut world = full();
    world.pod(&pod("c").queue("later").asks("A", 1));
    rest(&mut world);
    world.queue(&queue("later").quota(r#"{"A": 1}"#));
    assert_eq!(world.admit_names(), ["c"]);
}

#[test]
fn what_a_sibling_gives_back() {
    for limited in ["research", "root"] {
        let mut world = full_above(limited);
        world.remove_pod("speech");
        assert_eq!(world.admit_names(), ["b"], "{limited}");
    }
}

#[test]
fn what_a_level_above_says() {
    for (limited, parent) in [("research", Some("root")), ("root", None)] {
        let mut world = full_above(limited);
        world.queue(&level(limited, parent, 4));
        assert_eq!(world.admit_names(), ["b"], "{limited}");
    }
}

#[test]
fn what_the_cluster_has() {
    let mut world = World::with(capacity("enqueue, allocate", ""));
    world.node(&node("n1").cards("A", 2));
    for (name, cards) in [("team-a", 4), ("team-b", 4)] {
        world.queue(&level(name, None, cards));
    }
    world.pods([pod("a").asks("A", 1), pod("other").queue("team-b").asks("A", 1)]);
    assert_eq!(world.admit_names().len(), 2);
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    // What somebody else has given back, and what a node brings.
    world.remove_pod("other");
    assert_eq!(world.admit_names(), ["b"]);
    world.pod(&pod("c").asks("A", 1));
    rest(&mut world);
    world.node(&node("n2").cards("A", 1));
    assert_eq!(world.admit_names(), ["c"]);
}

#[test]
fn a_guarantee_that_is_given_up() {
    let mut world = World::with(capacity("enqueue, allocate", ""));
    world.node(&node("n1").cards("A", 2));
    world.queue(&level("owner", None, 2).guaranteed_cards(r#"{"A": 2}"#));
    world.queue(&level("team-a", None, 2));
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    world.queue(&level("owner", None, 2).guaranteed_cards(r#"{"A": 1}"#));
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn a_node_with_room() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    world.node(&node("n1").cards("A", 1));
    world.pods([pod("a").asks("A", 1), pod("b").asks("A", 1)]);
    assert_eq!(world.admit_names(), ["a"]);
    rest(&mut world);
    world.node(&node("n2").cards("A", 1));
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn what_a_pod_of_another_queue_gives_back_of_a_node() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 1));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.queue(&queue("team-b").quota(r#"{"A": 1}"#));
    world.pods([pod("a").queue("team-b").asks("A", 1)]);
    assert_eq!(world.admit_names(), ["a"]);
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn shares_of_cards_that_are_given_back() {
    let mut world = World::with(configuration("", "unnamedCards: free"));
    world.node(&node("n1").mgpu(1, 1000, "fixed-share"));
    for name in ["team-a", "team-b"] {
        world.queue(&queue(name));
    }
    world.pod(&pod("a").queue("team-b").share(60, 600));
    let admitted = world.admit_names();
    assert_eq!(admitted, ["a"], "{:?}", world.notices());
    world.pod(&pod("b").share(60, 600));
    rest(&mut world);
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn what_a_group_says() {
    let mut world = full();
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    assert_eq!(world.admit_names(), ["b"]);
    world.pod(&pod("c").of("g").asks("A", 1));
    rest(&mut world);
    world.group(&group("g", 1));
    assert_eq!(world.admit_names(), ["c"]);
}

#[test]
fn a_member_that_comes_to_another_queue() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    for name in ["team-a", "team-b"] {
        world.queue(&queue(name).quota(r#"{"A": 2}"#));
    }
    world.group(&group("g", 2));
    world.pod(&pod("c-0").of("g").asks("A", 1));
    rest(&mut world);
    world.pod(&pod("c-1").queue("team-b").of("g").asks("A", 1));
    assert_eq!(world.admit_names().len(), 2);
}

#[test]
fn a_member_that_succeeds_elsewhere() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    for name in ["team-a", "team-b"] {
        world.queue(&queue(name).quota(r#"{"A": 2}"#));
    }
    world.group(&group("g", 2));
    world.pod(&pod("c-0").of("g").queue("team-b").asks("A", 1));
    rest(&mut world);
    world.pod(&pod("c-1").of("g").asks("A", 1).ungated().phase("Succeeded"));
    assert_eq!(world.admit_names(), ["c-0"]);
}

#[test]
fn a_job_that_waits_for_what_others_give_back() {
    let mut world = full();
    world.job(&held_job("job", r#"{"A": 1}"#));
    rest(&mut world);
    world.remove_pod("b");
    world.remove_pod("a");
    assert!(matches!(world.decide()[..], [Action::Resume(_)]));
}

#[test]
fn what_the_configuration_says() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#).capability("cpu", "1"));
    world.pod(&pod("b").asks("A", 1).requests("cpu", "2"));
    rest(&mut world);
    let now = world.now;
    world.set_configuration(configuration("cardUnlimitedCpuMemory: true", ""), now);
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn what_the_namespace_says() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    let of_blue = queue("team-a").quota(r#"{"A": 1}"#);
    world.queue(&of_blue.annotation("card.volcano.sh/namespaces", "color in (blue)"));
    world.namespace("team", &[], None);
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    world.namespace("team", &[("color", "blue")], None);
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn what_a_card_is_requested_as() {
    let mut world = World::new();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&pod("b").asks("A", 1));
    rest(&mut world);
    world.node(&node("n1").cards("A", 1));
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn a_pod_whose_time_aside_is_over() {
    let mut world = full();
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["b"]);
    let now = world.now;
    world.refuse("b", now);
    rest(&mut world);
    world.wait(600);
    assert_eq!(world.admit_names(), ["b"]);
}

#[test]
fn unnamed_cards_of_a_resource() {
    let mut world = full();
    world.pod(&pod("c").requests(GPU, "1"));
    rest(&mut world);
    world.remove_pod("b");
    world.remove_pod("a");
    assert_eq!(world.admit_names(), ["c"]);
}
