//! Admissions under way: seen late, refused, or never answered.

use super::*;

#[test]
fn quota_and_room_are_held_from_the_decision_on() {
    let mut world = world();
    world.pods([gpu("p"), gpu("q"), gpu("r")]);
    assert_eq!(world.admit_names(), ["p", "q"]);
    assert_eq!(world.admit(), []);
    let n1 = world.cluster.node_named("n1").unwrap();
    assert_eq!(world.cluster.node(n1).pods.len(), 2);
}

#[test]
fn events_older_than_the_decision_change_nothing() {
    let mut world = world();
    world.pod(&gpu("p"));
    assert_eq!(world.admit_names(), ["p"]);
    world.pod(&gpu("p").annotation("note", "older"));
    world.confirm("p");
    world.pod(&gpu("p").annotation("note", "older still"));
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.pod(&gpu("p").ungated().assigned("A"));
    assert_eq!(
        world.stage("p"),
        Stage::Unbound {
            since: world.now,
            looks: 0
        }
    );
    assert_eq!(world.allocated("team-a", "A"), 1);
}

#[test]
fn a_refused_write_gives_everything_back_and_is_tried_again_after_5_seconds() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pods([gpu("p"), gpu("q")]);
    assert_eq!(world.admit_names(), ["p"]);
    let now = world.now;
    world.refuse("p", now);
    assert_eq!(world.allocated("team-a", "A"), 0);
    // It stands aside, and another goes first.
    assert_eq!(world.admit_names(), ["q"]);
    world.remove_pod("q");
    world.wait(4);
    assert_eq!(world.admit(), []);
    world.wait(1);
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn what_was_written_on_the_pod_while_its_admission_was_under_way_counts_if_that_is_refused() {
    let mut world = world();
    world.pods([gpu("p"), gpu("q")]);
    assert_eq!(world.admit_names(), ["p", "q"]);
    world.pod(&gpu("p").selects("zone", "z"));
    world.pod(&gpu("q").deleted(20));
    assert_eq!(world.allocated("team-a", "A"), 2);
    let now = world.now;
    world.refuse("p", now);
    world.refuse("q", now);
    world.wait(5);
    assert_eq!(world.admit(), []);
    assert_eq!(world.refusal_of("p"), "NodesExcluded");
    assert_eq!(world.stage("q"), Stage::Blocked);
}

#[test]
fn an_outcome_is_awaited_however_far_the_clock_on_the_wall_jumps() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pods([gpu("p"), gpu("q")]);
    assert_eq!(world.admit_names(), ["p"]);
    world.wait(86_400);
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
    let now = world.now;
    world.refuse("p", now);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn an_admission_that_is_written_is_never_taken_back_however_late_it_is_seen() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pods([gpu("p"), gpu("q")]);
    assert_eq!(world.admit_names(), ["p"]);
    world.confirm("p");
    world.wait(3600);
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.remove_pod("p");
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn outcomes_of_pods_that_are_gone_or_that_wait_change_nothing() {
    let mut world = world();
    world.pod(&gpu("p"));
    let now = world.now;
    for uid in ["p", "unknown"] {
        world.confirm(uid);
        world.refuse(uid, now);
    }
    assert_eq!(world.stage("p"), Stage::Waiting);
    assert_eq!(world.admit_names(), ["p"]);
    world.remove_pod("p");
    world.refuse("p", now);
    assert_eq!(world.allocated("team-a", "A"), 0);
}

#[test]
fn a_pod_with_the_name_of_another_is_another_pod() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&gpu("p").uid("first"));
    assert_eq!(world.admit_names(), ["p"]);
    world.pod(&gpu("p").uid("second"));
    assert_eq!(world.refusal_of("second"), "InsufficientScalarQuota");
    world.remove_pod("first");
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(world.allocated("team-a", "A"), 1);
}
