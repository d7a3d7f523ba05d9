//! Admitted pods that the scheduler can't place.

use engine::cluster::reclaims::EvictionOutcome;
use engine::explain::stand_aside;

use super::*;

/// Lets the pod in and shows it without its gate.
#[track_caller]
fn let_in(world: &mut World, pod: &Object, uid: &str) {
    world.pod(pod);
    assert_eq!(world.admit_names(), [uid]);
    world.seen_admitted(pod, uid, Some("A"));
}

fn names(actions: &[Action]) -> Vec<(&'static str, &str)> {
    let mut names = Vec::new();
    for action in actions {
        names.push(match action {
            Action::Resume(resumption) => panic!("there are no Jobs: {resumption:?}"),
            Action::Admit(admission) => ("admit", &*admission.pod.name),
            Action::SendBack { pod, .. } => ("send back", &*pod.name),
            Action::Evict(eviction) => ("evict for", &*eviction.waiting.name),
            Action::Unplaced { pod, .. } => ("unplaced", &*pod.name),
        });
    }
    names
}

#[test]
fn a_bare_pod_keeps_its_place_and_its_event_says_so() {
    let mut world = world();
    let_in(&mut world, &gpu("p"), "p");
    world.wait(299);
    assert_eq!(world.decide(), []);
    world.wait(1);
    let actions = world.decide();
    let [Action::Unplaced { pod, message }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(&*pod.name, "p");
    insta::assert_snapshot!(message, @"the scheduler has not placed the pod within 5m of its admission: no controller would replace it, so it keeps its quota; delete it, or make room on a node that it may run on");
    assert_eq!(world.allocated("team-a", "A"), 1);
    // Said again, after twice as long each time, and not in between: at last once an hour.
    for pause in [600, 1200, 2400, 3600, 3600] {
        world.wait(pause - 1);
        assert_eq!(world.decide(), [], "{pause}");
        world.wait(1);
        assert_eq!(names(&world.decide()), [("unplaced", "p")], "{pause}");
    }
}

/// Found by the simulator (seed 23651): Volcano's controllers make a group for a pod that names their scheduler, and write its name on the
/// pod that is there. Nobody has let it in, nor would its successor be held: it would be evicted every five minutes, for ever.
#[test]
fn who_came_into_a_group_without_being_let_in_is_not_sent_back() {
    for (group, is_sent_back) in [("podgroup-web", false), ("podgroup-other", true)] {
        let mut world = world();
        world.queue(&queue("default"));
        let plain = bare_pod("p").requests("cpu", "1").controlled_by("ReplicaSet", "web");
        world.pod(&plain);
        world.group(&crate::world::group(group, 1).set(["spec", "queue"], "default"));
        world.pod(&plain.annotation("scheduling.k8s.io/group-name", group));
        world.wait(300);
        let actions = world.decide();
        assert_eq!(names(&actions) == [("send back", "p")], is_sent_back, "{actions:?}");
    }
}

#[test]
fn a_controllers_pod_is_sent_back() {
    let mut world = world();
    let_in(&mut world, &gpu("p").controlled_by("ReplicaSet", "web"), "p");
    world.wait(300);
    let actions = world.decide();
    let [Action::SendBack { pod, message, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(&*pod.name, "p");
    insta::assert_snapshot!(message, @"the scheduler has not placed the pod within 5m of its admission: it is evicted, and its successor waits behind the others of its priority");
    // Until it is gone it holds its quota: an eviction can be refused. Then it is tried again.
    assert_eq!(world.allocated("team-a", "A"), 1);
    world.wait(300);
    assert_eq!(names(&world.decide()), [("send back", "p")]);
    world.remove_pod("p");
    assert_eq!(world.allocated("team-a", "A"), 0);
}

/// The scheduler can place it nowhere else.
#[test]
fn who_was_let_in_for_one_node_alone_is_sent_back_when_that_is_gone() {
    let mut world = world();
    world.node(&node("n2").cards("A", 8));
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", name);
    let_in(&mut world, &owned("p").pinned_to("n1"), "p");
    let_in(&mut world, &gpu("bare").pinned_to("n1"), "bare");
    world.wait(10);
    world.remove_node("n2", world.now);
    assert_eq!(world.decide(), []);
    world.remove_node("n1", world.now);
    let actions = world.decide();
    assert_eq!(names(&actions), [("send back", "p"), ("unplaced", "bare")]);
    let said = actions.iter().map(|action| match action {
        Action::SendBack { message, .. } | Action::Unplaced { message, .. } => &**message,
        other => panic!("{other:?}"),
    });
    for said in said {
        let gone = "node n1, which alone the pod was let in for, was removed: ";
        assert!(said.starts_with(gone), "{said}");
    }
    // That says nothing about its successor.
    world.pod(&owned("p").set(["metadata", "uid"], "successor").pinned_to("n1"));
    assert_eq!(stand_aside(&mut world.cluster, usize::MAX), []);
    world.remove_pod("successor");
    // Once; and tried again, as for a pod that is left alone.
    assert_eq!(world.decide(), []);
    world.wait(600);
    assert_eq!(world.decide().len(), 2);
    // Who is let in for a node that is back before anything is decided has the scheduler's time, as has who may run elsewhere.
    world.node(&node("n1").cards("A", 8));
    world.node(&node("n2").cards("A", 8));
    world.remove_pod("p");
    world.remove_pod("bare");
    let_in(&mut world, &owned("r").pinned_to("n1"), "r");
    world.remove_node("n1", world.now);
    world.node(&node("n1").cards("A", 8));
    assert_eq!(world.decide(), []);
    world.remove_pod("r");
    let_in(&mut world, &owned("q"), "q");
    let room = world.known("q").room.unwrap();
    let name = world.cluster.node(room).name.to_string();
    world.remove_node(&name, world.now);
    assert_eq!(world.decide(), []);
}

#[test]
fn a_pod_that_is_bound_in_time_is_left_alone() {
    let mut world = world();
    let owned = gpu("p").controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned, "p");
    world.wait(299);
    world.pod(&owned.on("n1").assigned("A"));
    world.wait(10_000);
    assert_eq!(world.decide(), []);
}

#[test]
fn another_reservation_timeout_applies_to_pods_that_are_let_in_already() {
    let mut world = world();
    let_in(&mut world, &gpu("p"), "p");
    let now = world.now;
    world
        .cluster
        .set_configuration(configuration("", "reservationTimeout: 30s"), now);
    world.wait(30);
    assert_eq!(names(&world.decide()), [("unplaced", "p")]);
}

#[test]
fn successors_stand_aside_at_doubling_intervals_up_to_an_hour() {
    let mut world = world();
    let mut aside = Vec::new();
    for round in 0..9 {
        let uid = format!("p{round}");
        let successor = pod(&uid).asks("A", 1).controlled_by("ReplicaSet", "web");
        world.pod(&successor);
        let mut waited = 0;
        while world.admit().is_empty() {
            world.wait(1);
            waited += 1;
        }
        aside.push(waited);
        world.seen_admitted(&successor, &uid, Some("A"));
        world.wait(300);
        assert_eq!(names(&world.decide()), [("send back", &*uid)]);
        world.remove_pod(&uid);
    }
    assert_eq!(aside, [0, 30, 60, 120, 240, 480, 960, 1920, 3600]);
}

#[test]
fn who_stands_aside_is_told_so() {
    let mut world = world();
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned("p"), "p");
    world.wait(300);
    assert_eq!(names(&world.decide()), [("send back", "p")]);
    world.remove_pod("p");
    world.pod(&owned("q"));
    assert_eq!(world.admit(), []);
    let notices = stand_aside(&mut world.cluster, usize::MAX);
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(
        (notice.reason, notice.told_before),
        (engine::reason::Reason::ReservationTimeout, false)
    );
    insta::assert_snapshot!(notice.message, @"the scheduler did not place earlier pods of the same controller in time, so this one lets others go first until 2027-01-15T08:05:40Z, and those after it longer each time: make room on a node that it may run on, or have it ask for less");
    // Once is enough, and afterwards it is a pod as others are.
    world.pod(&owned("q"));
    assert_eq!(stand_aside(&mut world.cluster, usize::MAX), []);
    world.wait(30);
    assert_eq!(world.admit_names(), ["q"]);
}

/// Who makes such pods by the thousand keeps nobody else from hearing anything.
#[test]
fn of_those_who_stand_aside_a_few_are_told_at_a_time_and_of_each_namespace() {
    let mut world = world();
    let owned = |name: &str, namespace: &str| gpu(name).namespace(namespace).controlled_by("ReplicaSet", "web");
    for (name, namespace) in [("p", "crowd"), ("q", "other")] {
        let pod = owned(name, namespace);
        let_in(&mut world, &pod, name);
    }
    world.wait(300);
    assert_eq!(world.decide().len(), 2);
    world.remove_pod("p");
    world.remove_pod("q");
    world.pods((0..20).map(|index| owned(&format!("c{index}"), "crowd")));
    world.pod(&owned("o", "other"));
    world.remove_pod("c0");
    assert_eq!(world.admit(), []);
    let told = |world: &mut World| {
        let notices = stand_aside(&mut world.cluster, 2).into_iter();
        let mut told: Vec<_> = notices.map(|notice| notice.pod.namespace.to_string()).collect();
        told.sort();
        told
    };
    assert_eq!(told(&mut world), ["crowd", "other"]);
    for _ in 0..9 {
        assert_eq!(told(&mut world), ["crowd", "crowd"]);
    }
    assert_eq!(told(&mut world), [""; 0], "who is gone is told nothing");
    // Nor is, that it stands aside, who does so no longer.
    world.pod(&owned("late", "other"));
    world.wait(30);
    assert!(world.admit_names().len() == 2);
    assert_eq!(told(&mut world), [""; 0]);
}

#[test]
fn pods_of_one_controller_that_come_back_together_count_once() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    for index in 0..8 {
        let name = format!("p{index}");
        let_in(&mut world, &owned(&name), &name);
    }
    world.wait(300);
    assert_eq!(world.decide().len(), 8);
    for index in 0..8 {
        world.remove_pod(&format!("p{index}"));
    }
    world.pod(&owned("q"));
    world.wait(29);
    assert_eq!(world.admit(), []);
    world.wait(1);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn pods_of_one_controller_that_come_back_one_after_the_other_count_each() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let names_of_wave = ["p0", "p1", "p2", "p3"];
    for name in names_of_wave {
        world.pod(&owned(name));
    }
    // They came together, and each is let in when the one before it has come back.
    for name in names_of_wave {
        assert_eq!(world.admit_names(), [name]);
        world.seen_admitted(&owned(name), name, Some("A"));
        world.wait(300);
        assert_eq!(names(&world.decide()), [("send back", name)]);
        world.remove_pod(name);
    }
    // So whoever comes then stands aside as after the fourth.
    world.pod(&owned("q"));
    world.wait(239);
    assert_eq!(world.admit(), []);
    world.wait(1);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn an_eviction_that_is_refused_does_not_lengthen_the_interval() {
    let mut world = world();
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned("p"), "p");
    for _ in 0..5 {
        world.wait(300);
        assert_eq!(names(&world.decide()), [("send back", "p")]);
    }
    world.remove_pod("p");
    world.pod(&owned("q"));
    world.wait(30);
    assert_eq!(world.admit_names(), ["q"]);
}

#[test]
fn an_eviction_of_which_the_watch_does_not_tell_is_tried_again_after_ever_longer_times() {
    let mut world = world();
    let owned = gpu("p").controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned, "p");
    for waits in [300, 600, 1200] {
        world.wait(waits - 1);
        assert_eq!(world.decide(), []);
        world.wait(1);
        assert_eq!(names(&world.decide()), [("send back", "p")]);
        let now = world.now;
        world.eviction_ended("p", EvictionOutcome::Evicted, now);
    }
}

#[test]
fn a_successor_waits_behind_the_others_of_its_priority() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned("p"), "p");
    world.pod(&gpu("waits-long").created(5));
    world.wait(300);
    assert_eq!(names(&world.decide()), [("send back", "p")]);
    // It claims to be older than everybody.
    world.pod(&owned("successor").created(-1000));
    world.wait(100);
    world.pods([gpu("young").created(400), gpu("lower").priority(-1)]);
    assert_eq!(world.admit(), []);
    world.remove_pod("p");
    for name in ["waits-long", "young", "successor", "lower"] {
        assert_eq!(world.admit_names(), [name]);
        world.remove_pod(name);
    }
}

#[test]
fn pods_that_waited_when_another_came_back_keep_their_place() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned("p"), "p");
    world.pod(&owned("sibling").created(1));
    world.pod(&gpu("stranger").created(2));
    world.wait(300);
    assert_eq!(names(&world.decide()), [("send back", "p")]);
    world.pod(&owned("sibling").created(1).told("InsufficientScalarQuota"));
    world.remove_pod("p");
    assert_eq!(world.admit_names(), ["sibling"]);
}

#[test]
fn what_came_back_long_ago_is_forgotten() {
    let mut world = world();
    let owned = |name: &str| gpu(name).controlled_by("ReplicaSet", "web");
    let_in(&mut world, &owned("p"), "p");
    world.wait(300);
    assert_eq!(names(&world.decide()), [("send back", "p")]);
    world.remove_pod("p");
    world.wait(3 * 3600);
    world.pod(&owned("q"));
    assert_eq!(world.admit_names(), ["q"]);
}
