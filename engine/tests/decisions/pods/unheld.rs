//! Pods that Volcano's controllers gave a group when they were there already, and nobody let in.

use engine::refs::WorkloadKind;

use super::*;
use crate::world::{GPU, group};

/// A node, and a queue of four cores, to which the group of pod "large" belongs.
fn four_cores() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").capability("cpu", "4"));
    world.group(&group("podgroup-large", 1));
    world
}

/// Volcano's controllers give each pod that names their scheduler a group, and whose group it is, the pod says itself: without having waited
/// for quota, and without ever running, it would keep all others of that queue waiting.
#[test]
fn whom_nobody_has_let_in_holds_nothing_before_it_has_a_node() {
    let mut world = four_cores();
    let large = || bare_pod("large").requests("cpu", "100").of("podgroup-large");
    let waiting = |name: &str| pod(name).queue("team-a").requests("cpu", "1");
    world.pod(&large());
    world.pod(&waiting("first"));
    assert_eq!(world.admit_names(), ["first"]);
    // Who runs is charged.
    world.pod(&large().on("n1"));
    world.pod(&waiting("second"));
    assert_eq!(world.admit(), []);
    world.remove_pod("large");
    assert_eq!(world.admit_names(), ["second"]);
    // Of a group that was made for another, it came with its group.
    world.pod(&bare_pod("larger").requests("cpu", "100").of("podgroup-large"));
    world.pod(&waiting("third"));
    assert_eq!(world.admit(), []);
}

/// Else what is kept for its group would be another's before its pods are bound, and after a restart it would depend on what is listed first
/// whether the group has begun.
#[test]
fn whom_nobody_has_let_in_begins_its_group_with_its_node() {
    let asks = |group: Object, cores: &str| group.set(["spec", "minResources"], serde_json::json!({"cpu": cores}));
    let large = || bare_pod("large").requests("cpu", "3").of("podgroup-large");
    for is_listed_first in [true, false] {
        let mut world = four_cores();
        if is_listed_first {
            world.pod(&large());
        }
        world.group(&asks(group("podgroup-large", 1), "3"));
        world.pod(&large());
        assert_eq!(world.admit(), []);
        let id = world
            .cluster
            .workload_named(WorkloadKind::PodGroup, "team", "podgroup-large");
        let is_kept = |world: &World| world.cluster.workload(id.unwrap()).reserved().is_some();
        assert!(is_kept(&world));
        world.group(&asks(group("waits", 1), "2"));
        world.pod(&pod("waits").of("waits").requests("cpu", "2"));
        assert_eq!(world.admit(), []);
        world.pod(&large().on("n1"));
        assert_eq!(world.admit(), []);
        assert!(!is_kept(&world));
        world.remove_pod("large");
        assert_eq!(world.admit_names(), ["waits"]);
    }
}

/// Whoever the door would have held for its cards is counted from then on.
#[test]
fn whom_nobody_has_let_in_is_counted_where_its_namespace_comes_to_name_a_queue() {
    let mut world = four_cores();
    let large = bare_pod("large").requests("cpu", "4").requests(GPU, "1");
    world.pod(&large.of("podgroup-large"));
    world.namespace("team", &[], Some("team-a"));
    world.pod(&pod("waits").queue("team-a").requests("cpu", "1"));
    assert_eq!(world.admit(), []);
    world.namespace("team", &[], None);
    assert_eq!(world.admit_names(), ["waits"]);
}

/// Nor is it, where the claim that it names is not there, or has no devices.
#[test]
fn whom_nobody_has_let_in_holds_nothing_by_a_claim_without_devices() {
    let mut world = four_cores();
    let claims = serde_json::json!([{"name": "gpu", "resourceClaimName": "nothing"}]);
    let large = bare_pod("large").requests("cpu", "100").of("podgroup-large");
    world.pod(&large.set(["spec", "resourceClaims"], claims));
    world.pod(&pod("first").queue("team-a").requests("cpu", "1"));
    assert_eq!(world.admit_names(), ["first"]);
}

/// Nor does it keep room on a node.
#[test]
fn whom_nobody_has_let_in_keeps_no_room_on_the_node_that_it_wants() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world.group(&group("podgroup-large", 1));
    let large = bare_pod("large").requests(GPU, "8").of("podgroup-large");
    world.pod(&large.pinned_to("n1"));
    world.pod(&pod("first").asks("A", 8));
    assert_eq!(world.admit_names(), ["first"]);
}

/// Who had the gate has waited for quota, whoever gave it its group.
#[test]
fn who_was_held_is_charged_from_when_it_is_let_in() {
    let mut world = four_cores();
    let large = |pod: Object| pod.requests("cpu", "4").of("podgroup-large");
    world.pod(&large(bare_pod("large").gates(&[crds::keys::GATE])));
    world.pod(&pod("later").queue("team-a").requests("cpu", "1").created(5));
    assert_eq!(world.admit_names(), ["large"]);
    world.pod(&large(bare_pod("large")));
    assert_eq!(world.admit(), []);
}

/// And whoever begins to decide sees it by what was written on it then (found by the simulator, seed 630292).
#[test]
fn who_was_held_is_charged_after_a_restart_too() {
    let because = |status: &str, reason: &str| serde_json::json!([{"type": "card.volcano.sh/Admitted", "status": status, "reason": reason}]);
    let told = |status: &str| because(status, "InsufficientScalarQuota");
    let large = || bare_pod("large").requests("cpu", "4").of("podgroup-large");
    for (shown, is_charged) in [
        (large(), false),
        (large().assigned("A"), true),
        (large().set(["status", "conditions"], told("True")), true),
        // The condition is written later than the gate is taken off.
        (large().set(["status", "conditions"], told("False")), true),
        // Of another gate anybody was told once, who has a queue.
        (
            large().set(["status", "conditions"], because("False", "HeldByAnotherGate")),
            false,
        ),
    ] {
        let mut world = four_cores();
        world.pod(&shown);
        world.pod(&pod("later").queue("team-a").requests("cpu", "1"));
        assert_eq!(world.admit().is_empty(), is_charged, "{shown:?}");
    }
}

/// Nor need it have been told anything, or have a card: what lets it in says that it was held.
#[test]
fn who_is_let_in_without_a_card_just_before_a_restart_is_charged_after_it() {
    let large = || bare_pod("large").requests("cpu", "4").of("podgroup-large");
    let mut world = four_cores();
    world.pod(&large().gates(&[crds::keys::GATE]));
    let admissions = world.admissions();
    let results = admissions[0].results();
    let let_in = results.fold(large(), |pod, (key, value)| pod.annotation(key, value));
    let mut world = four_cores();
    world.pod(&let_in);
    world.pod(&pod("later").queue("team-a").requests("cpu", "1"));
    assert_eq!(world.admit(), []);
    world.remove_pod("large");
    assert_eq!(world.admit_names(), ["later"]);
}

/// Whoever's queue is written on it is charged anyhow, and who is for a card is marked by that.
#[test]
fn nobody_else_is_marked_as_held() {
    let mut world = four_cores();
    world.queue(&queue("team-a").capability("cpu", "4").quota(r#"{"A": 1}"#));
    for name in ["podgroup-named", "g", "podgroup-carded"] {
        world.group(&group(name, 1));
    }
    world.pod(&pod("named").queue("team-a").requests("cpu", "1").of("podgroup-named"));
    world.pod(&pod("member").requests("cpu", "1").of("g"));
    world.pod(&pod("carded").requests("cpu", "1").asks("A", 1).of("podgroup-carded"));
    let admissions = world.admissions();
    let written: Vec<_> = admissions
        .iter()
        .map(|let_in| (&*let_in.pod.name, let_in.assigned()))
        .collect();
    assert_eq!(written, [("named", None), ("member", None), ("carded", Some("A"))]);
}

/// Nor does it where it did, when its namespace comes to name no queue any more.
#[test]
fn whom_nobody_has_let_in_gives_its_room_back_where_nobody_would_have_held_it() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    world.group(&group("podgroup-large", 1));
    world.namespace("team", &[], Some("team-a"));
    let large = bare_pod("large").requests(GPU, "8").of("podgroup-large");
    world.pod(&large.pinned_to("n1"));
    world.pod(&pod("first").asks("A", 8));
    assert_eq!(world.admit(), []);
    world.namespace("team", &[], None);
    assert_eq!(world.admit_names(), ["first"]);
}

/// It may come into its group when another gate was seen on it already, as where it is for cards in a namespace that names a queue.
#[test]
fn who_comes_into_its_group_before_it_is_told_of_the_gates_of_others_is_told_nothing() {
    for joins in [true, false] {
        let mut world = four_cores();
        world.namespace("team", &[], Some("team-a"));
        let large = || bare_pod("large").requests(GPU, "1").gates(&["example.com/own"]);
        world.pod(&large());
        if joins {
            world.pod(&large().of("podgroup-large"));
        }
        world.wait(600);
        assert_eq!(world.notices().is_empty(), joins);
    }
}

/// It would look as if it had been held from then on, and be charged before it has a node.
#[test]
fn whom_nobody_would_hold_is_told_nothing_of_the_gates_of_others() {
    for (name, is_told) in [("podgroup-large", false), ("g", true)] {
        let mut world = four_cores();
        world.group(&group(name, 1));
        world.pod(
            &bare_pod("large")
                .requests("cpu", "4")
                .of(name)
                .gates(&["example.com/own"]),
        );
        assert_eq!(world.admit_names(), [""; 0]);
        world.wait(600);
        assert_eq!(!world.notices().is_empty(), is_told, "{name}");
    }
}
