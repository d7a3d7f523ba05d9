//! Pods that came to run without Cardgate.

use super::*;
use crate::world::{GPU, group};

fn either(name: &str) -> Object {
    pod(name).asks("A|B", 1)
}

#[test]
fn pods_bound_before_are_charged_for_the_card_of_their_node() {
    let mut world = world();
    world.node(&node("n2").cards("B", 8));
    world.pods([either("p").on("n1"), either("q").on("n2"), either("r").ungated()]);
    // Unbound, it counts for what it prefers.
    assert_eq!(world.allocated("team-a", "A"), 2);
    assert_eq!(world.allocated("team-a", "B"), 1);
}

#[test]
fn pods_bound_before_their_node_is_known_are_charged_anew_when_it_comes() {
    let mut world = world();
    // The cluster knows B already, so nothing but the pod's own node says anything new.
    world.node(&node("n3").cards("B", 8));
    world.pod(&either("p").on("n2"));
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.node(&node("n2").cards("B", 8));
    assert_eq!(world.allocated("team-a", "A"), 0);
    assert_eq!(world.allocated("team-a", "B"), 1);
    // And when its labels are mended.
    world.node(&node("n2").cards("A", 8));
    assert_eq!(world.allocated("team-a", "A"), 1);
    assert_eq!(world.allocated("team-a", "B"), 0);
}

#[test]
fn pods_bound_before_are_charged_to_the_queue_of_their_group_else_of_their_namespace() {
    let mut world = world();
    world.namespace("team", &[], Some("team-b"));
    world.group(&group("gang", 2));
    let unnamed = |name: &str| bare_pod(name).asks("A", 1).on("n1");
    world.pods([unnamed("p").of("gang"), unnamed("q"), unnamed("r").of("gone")]);
    assert_eq!(world.allocated("team-a", "A"), 1);
    assert_eq!(world.allocated("team-b", "A"), 2);
    // A later change elsewhere does not move a charge.
    world.group(&group("gang", 2).set(["spec", "queue"], "team-b"));
    world.pod(&unnamed("p").of("gang").annotation("note", "changed"));
    assert_eq!(world.allocated("team-a", "A"), 1);
}

#[test]
fn they_may_exceed_the_quota_and_nobody_is_let_in_until_they_are_below() {
    let mut world = world();
    world.pods((0..5).map(|index| gpu(&format!("p{index}")).on("n1")));
    world.pod(&gpu("q"));
    assert_eq!(world.allocated("team-a", "A"), 5);
    assert_eq!(world.refusal_of("q"), "InsufficientScalarQuota");
    for index in 0..4 {
        world.remove_pod(&format!("p{index}"));
    }
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn a_pod_whose_card_no_node_ever_had_counts_by_the_most_of_any_extended_resource() {
    let mut world = world();
    world.pod(&pod("p").asks("Z", 3).requests("example.com/nic", "1").on("n9"));
    assert_eq!(world.allocated("team-a", "Z"), 3);
    world.node(&node("n9").cards("Z", 8));
    assert_eq!(world.allocated("team-a", "Z"), 3);
}

/// As after a restart while the node is away: 35000 MiB are not so many cards.
#[test]
fn memory_of_shared_cards_is_none_of_them_where_no_node_ever_had_the_card() {
    let mut world = world();
    world.pod(&pod("p").share(100, 35000).assigned("Z/mgpu").on("n9"));
    assert_eq!(world.allocated("team-a", "Z/mgpu"), 100);
    world.node(&node("n9").cards("Z", 8).mgpu(8, 48000, "native-burst-share"));
    assert_eq!(world.allocated("team-a", "Z/mgpu"), 100);
}

#[test]
fn pods_on_a_node_that_is_not_there_yet_use_its_room_when_it_comes() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    world.remove_node("n1", at(10));
    world.pod(&gpu("p").asks("A", 7).on("late"));
    // Whatever is heard of the pod in between.
    world.pod(&gpu("p").asks("A", 7).on("late").deleted(1000));
    world.node(&node("late").cards("A", 8));
    world.pods([gpu("q"), gpu("r")]);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.refusal_of("r"), "NoNodeFits");
    let late = world.cluster.node_named("late").unwrap();
    assert_eq!(world.cluster.node(late).pods.len(), 2);
}

#[test]
fn a_node_that_leaves_and_comes_back_still_has_its_pods() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 20}"#));
    world.pod(&gpu("p").asks("A", 7).on("n1").assigned("A"));
    world.remove_node("n1", at(10));
    assert_eq!(world.allocated("team-a", "A"), 7);
    world.set_configuration(configuration("", ""), at(10));
    world.node(&node("n1").cards("A", 8));
    world.pods([gpu("q"), gpu("r")]);
    assert_eq!(world.admit_names(), ["q"]);
}

/// Volcano's controllers give each pod that names their scheduler a group, and whose group it is, the pod says itself: without having waited
/// for quota, and without ever running, it would keep all others of that queue waiting.
#[test]
fn whom_nobody_has_let_in_holds_nothing_before_it_has_a_node() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").capability("cpu", "4"));
    world.group(&group("podgroup-large", 1));
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

/// Whoever the door would have held for its cards is counted from then on.
#[test]
fn whom_nobody_has_let_in_is_counted_where_its_namespace_comes_to_name_a_queue() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").capability("cpu", "4"));
    world.group(&group("podgroup-large", 1));
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
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").capability("cpu", "4"));
    world.group(&group("podgroup-large", 1));
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
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(&queue("team-a").capability("cpu", "4"));
    world.group(&group("podgroup-large", 1));
    let large = |pod: Object| pod.requests("cpu", "4").of("podgroup-large");
    world.pod(&large(bare_pod("large").gates(&[crds::keys::GATE])));
    world.pod(&pod("later").queue("team-a").requests("cpu", "1").created(5));
    assert_eq!(world.admit_names(), ["large"]);
    world.pod(&large(bare_pod("large")));
    assert_eq!(world.admit(), []);
}
