//! What a list does not name is gone, once the list is complete.

use super::*;

fn running() -> World {
    let mut world = world();
    world.pods([
        gpu("p").on("n1").assigned("A"),
        gpu("q").on("n1").assigned("A"),
        gpu("r"),
    ]);
    assert_eq!(world.admit(), []);
    world
}

#[test]
fn a_pod_that_a_complete_list_does_not_name_is_gone() {
    let mut world = running();
    let now = world.now;
    world.begin_list(Kind::Pod);
    world.pods([gpu("p").on("n1").assigned("A"), gpu("r")]);
    assert_eq!(world.admit(), [], "the list is not complete");
    world.end_list(Kind::Pod, now);
    assert_eq!(world.admit_names(), ["r"]);
}

/// A list that has named p is broken off, and one begun that has named q and r.
fn broken_off() -> World {
    let mut world = running();
    world.begin_list(Kind::Pod);
    world.pods([gpu("p").on("n1").assigned("A")]);
    world.begin_list(Kind::Pod);
    world.pods([gpu("q").on("n1").assigned("A"), gpu("r")]);
    world
}

#[test]
fn a_list_that_is_broken_off_and_begun_again_forgets_nothing_that_the_second_names() {
    let mut world = broken_off();
    let now = world.now;
    world.pods([gpu("p").on("n1").assigned("A")]);
    world.end_list(Kind::Pod, now);
    assert_eq!(world.cluster.pods().count(), 3);
    assert_eq!(world.allocated("team-a", "A"), 2);
}

#[test]
fn what_only_the_first_half_of_a_broken_list_named_is_gone() {
    let mut world = broken_off();
    let now = world.now;
    world.end_list(Kind::Pod, now);
    assert_eq!(world.cluster.pod_with_uid("p"), None);
    assert_eq!(world.admit_names(), ["r"]);
}

#[test]
fn an_admission_under_way_survives_a_list_that_is_older() {
    let mut world = world();
    world.pod(&gpu("p"));
    assert_eq!(world.admit_names(), ["p"]);
    let now = world.now;
    world.begin_list(Kind::Pod);
    world.pod(&gpu("p"));
    world.end_list(Kind::Pod, now);
    assert!(matches!(world.stage("p"), Stage::Admitting { .. }));
    assert_eq!(world.admit(), []);
}

#[test]
fn nodes_queues_and_namespaces_that_a_list_does_not_name_are_gone() {
    let mut world = world();
    world.namespace("team", &[("private", "")], None);
    let now = world.now;
    for kind in [Kind::Node, Kind::Queue, Kind::Namespace] {
        world.begin_list(kind);
        world.end_list(kind, now);
    }
    assert_eq!(world.cluster.nodes_by_name(), []);
    assert_eq!(world.cluster.queues().count(), 0);
    assert!(world.cluster.namespace("team").is_none());
}
