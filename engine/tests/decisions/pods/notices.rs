//! What waiting pods are told, and when.

use super::*;

#[test]
fn every_waiting_pod_is_told_once_and_again_when_the_reason_changes() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 0}"#));
    world.pods((0..700).map(|index| gpu(&format!("p{index}"))));
    assert_eq!(world.admit(), []);
    assert_eq!(world.notices().len(), 700);
    assert_eq!(world.notices(), []);
    // Other numbers are no reason to write again.
    world.queue(&queue("team-a").quota(r#"{"A": 0, "B": 1}"#));
    assert_eq!(world.admit(), []);
    assert_eq!(world.notices(), []);
    world.remove_queue("team-a");
    assert_eq!(world.admit(), []);
    let told = world.notices();
    assert_eq!(told.len(), 700);
    assert!(told.iter().all(|notice| notice.told_before));
}

#[test]
fn a_limit_spreads_notices_and_forgets_nobody() {
    let mut world = world();
    world.pods((0..25).map(|index| gpu(&format!("p{index}"))));
    assert_eq!(world.admit().len(), 2);
    let mut told = Vec::new();
    for expected in [10, 10, 3, 0] {
        let now = world.now;
        let notices = engine::explain::notices(&mut world.cluster, now, 10);
        assert_eq!(notices.len(), expected);
        told.extend(notices.into_iter().map(|notice| notice.pod.name));
    }
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 23);
}

#[test]
fn a_pod_that_has_only_just_come_is_spared() {
    let mut world = world();
    world.now = at(0);
    world.pod(&gpu("p").asks("A", 3));
    assert_eq!(world.admit(), []);
    assert_eq!(world.notices(), []);
    world.wait(1);
    assert_eq!(world.notices().len(), 1);
}

#[test]
fn what_the_condition_says_already_is_not_told_again_after_a_restart() {
    let mut world = world();
    world.pod(&gpu("p").asks("A", 3).told("InsufficientScalarQuota"));
    world.pod(&gpu("q").asks("A", 3).told("NoNodeFits"));
    assert_eq!(world.admit(), []);
    let told = world.notices();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(&*told[0].pod.name, "q");
}
