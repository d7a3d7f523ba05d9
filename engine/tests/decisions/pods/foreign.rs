//! Pods that came to run without Cardgate.

use super::*;
use crate::world::group;

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

/// Also where it has none of those that they name: they have what is there, and leave the others to those who can have them.
#[test]
fn pods_bound_before_where_there_is_no_card_of_theirs_are_charged_for_what_is_there() {
    let mut world = world();
    world.node(&node("n2").cards("B", 8));
    world.pod(&gpu("p").on("n2"));
    let charged = |world: &World| (world.allocated("team-a", "A"), world.allocated("team-a", "B"));
    assert_eq!(charged(&world), (0, 1));
    // Who was let in for a card keeps it, whatever the node is said to have later.
    world.pod(&gpu("q").annotation("volcano.sh/card.assigned", "A").on("n2"));
    assert_eq!(charged(&world), (1, 1));
    // Where nothing is known of the node, what it names.
    world.remove_node("n2", world.now);
    assert_eq!(charged(&world), (2, 0));
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
