//! Pods that are being deleted, or are over.

use super::*;

fn deleted() -> World {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pods([gpu("p").on("n1").assigned("A"), gpu("q")]);
    assert_eq!(world.admit(), []);
    // Deleted now, with a grace period of 30 s.
    world.pod(&gpu("p").on("n1").assigned("A").deleted(40));
    world
}

#[test]
fn a_pod_holds_its_quota_until_it_is_gone() {
    let mut world = deleted();
    world.wait(100);
    assert_eq!(world.admit(), []);
    world.remove_pod("p");
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn a_pod_that_does_not_go_holds_its_quota_for_its_grace_period_and_terminating_timeout() {
    let mut world = deleted();
    world.now = at(40 + 300 - 1);
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.now = at(40 + 300);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.allocated("team-a", "A"), 1);
    // The node's room is held until it is gone.
    let n1 = world.cluster.node_named("n1").unwrap();
    assert_eq!(world.cluster.node(n1).pods.len(), 2);
    // Nothing is given back twice.
    world.pod(&gpu("p").on("n1").assigned("A").deleted(40).annotation("note", "x"));
    world.remove_pod("p");
    assert_eq!(world.allocated("team-a", "A"), 1);
    assert_eq!(world.cluster.node(n1).pods.len(), 1);
}

/// Kubelet 1.36: once it waits for a `preStop` hook, it does so for as long as it was told first, whatever is said later.
#[test]
fn a_shorter_grace_period_ends_no_charge_earlier_than_the_pod_may_run() {
    for (own, first, later) in [(3_600, 3_600, 1), (30, 3_600, 1), (3_600, 1, 0)] {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
        let running = || {
            gpu("p")
                .on("n1")
                .assigned("A")
                .set(["spec", "terminationGracePeriodSeconds"], own)
        };
        let deleted = |grace: i64| {
            let going = running().deleted(10 + grace);
            going.set(["metadata", "deletionGracePeriodSeconds"], grace)
        };
        world.pods([running(), gpu("q")]);
        world.now = at(10);
        assert_eq!(world.admit(), []);
        world.pod(&deleted(first));
        world.pod(&deleted(later));
        world.now = at(10 + 3_600 + 300 - 1);
        assert_eq!(world.admit(), [], "{own} {first} {later}");
        world.now = at(10 + 3_600 + 300);
        assert_eq!(world.admit_names(), ["q"]);
    }
}

/// A scheduler of its own, or a volume that is not there, keeps each without a node; and its maker's finalizer keeps it from being gone.
#[test]
fn who_is_deleted_before_it_has_a_node_keeps_no_room() {
    for pinned in [false, true] {
        let mut world = world();
        world.queue(&queue("team-b").quota(r#"{"A": 8}"#));
        for ghost in ["p", "q", "r", "s", "t", "u", "v", "w"] {
            let pinned = |pod: Object| if pinned { pod.pinned_to("n1") } else { pod };
            world.pod(&pinned(gpu(ghost)));
            assert_eq!(world.admit_names(), [ghost]);
            let let_in = || pinned(gpu(ghost).ungated().assigned("A"));
            world.pod(&let_in());
            let now = world.now.as_second();
            world.pod(&let_in().deleted(now));
            world.now = at(now + 299);
            assert_eq!(world.admit(), []);
            assert_eq!(
                world.allocated("team-a", "A"),
                1,
                "its quota it keeps for terminatingTimeout"
            );
            world.now = at(now + 300);
            world.admit();
            assert_eq!(world.allocated("team-a", "A"), 0);
        }
        let others: Vec<_> = (0..8).map(|index| format!("b{index}")).collect();
        world.pods(others.iter().map(|name| gpu(name).queue("team-b")));
        assert_eq!(world.admit_names(), others);
    }
}

#[test]
fn another_terminating_timeout_applies_to_pods_that_are_being_deleted() {
    let mut world = deleted();
    world.now = at(100);
    let now = world.now;
    world
        .cluster
        .set_configuration(configuration("", "terminatingTimeout: 10s"), now);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.allocated("team-a", "A"), 1);
    world
        .cluster
        .set_configuration(configuration("", "terminatingTimeout: 90s"), now);
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.now = at(130);
    assert_eq!(world.admit(), []);
    assert_eq!(world.allocated("team-a", "A"), 1);
}

#[test]
fn a_waiting_pod_that_is_deleted_is_not_let_in() {
    let mut world = world();
    world.pod(&gpu("p").deleted(40));
    assert_eq!(world.admit(), []);
    assert!(world.known_queue("team-a").waiting.is_empty());
    assert_eq!(world.notices(), []);
}

#[test]
fn a_pod_that_is_deleted_while_it_is_let_in_does_not_keep_quota_for_ever() {
    for confirmed in [false, true] {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
        world
            .cluster
            .set_configuration(configuration("", "terminatingTimeout: 5s"), world.now);
        world.pod(&gpu("p"));
        assert_eq!(world.admit_names(), ["p"]);
        if confirmed {
            world.confirm("p");
        }
        // The watch falls behind: this is the pod as it was before it was let in, but deleted.
        world.pod(&gpu("p").deleted(15));
        world.pod(&gpu("q"));
        world.now = at(15 + 5 - 1);
        assert_eq!(world.admit(), []);
        world.now = at(15 + 5);
        assert_eq!(world.admit_names(), ["q"], "confirmed: {confirmed}");
    }
}

#[test]
fn a_pod_that_is_deleted_before_its_admission_is_confirmed_does_not_keep_quota_for_ever() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&gpu("p"));
    assert_eq!(world.admit_names(), ["p"]);
    world.pod(&gpu("p").deleted(15));
    world.confirm("p");
    world.pod(&gpu("q"));
    // By then, the confirmation is long overdue.
    world.now = at(15 + 300 - 1);
    assert_eq!(world.admit(), []);
    world.now = at(15 + 300);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn terminal_pods_hold_nothing() {
    for phase in ["Succeeded", "Failed"] {
        let mut world = world();
        world.pod(&gpu("p").on("n1").assigned("A"));
        assert_eq!(world.allocated("team-a", "A"), 1);
        world.pod(&gpu("p").on("n1").assigned("A").phase(phase));
        assert_eq!(world.allocated("team-a", "A"), 0);
        assert_eq!(world.cluster.pods().count(), 0);
    }
}
