//! What the random worlds have found, and what a hostile tenant would try of it.

use std::sync::Arc;
use std::time::Instant;

use engine::decide::{Action, Eviction};
use engine::explain::progress;
use engine::refs::WorkloadKind;
use engine::{Answer, Outcome};
use serde_json::json;

use crate::world::{Object, World, bare_queue, capacity, group, node, pod, queue_plugin};

/// Two queues that deserve two CPUs each, of which the first has all four.
fn borrowed() -> World {
    let mut world = World::with(capacity("enqueue, allocate, reclaim", "reclaimInterval: 1"));
    world.node(&node("n1").offers("cpu", "4"));
    for name in ["a", "b"] {
        world.queue(&bare_queue(name).deserved("cpu", "2"));
    }
    world.pods((0..4).map(borrower));
    world
}

fn borrower(index: usize) -> Object {
    pod(&format!("a-{index}")).queue("a").on("n1")
}

#[track_caller]
fn evictions(world: &mut World) -> Vec<Eviction> {
    let actions = world.decide().into_iter();
    let evictions = actions.map(|action| match action {
        Action::Evict(eviction) => eviction,
        other => panic!("not an eviction: {other:?}"),
    });
    evictions.collect()
}

#[test]
fn a_group_that_was_only_tried_has_not_started() {
    // Nobody can be preempted for it; but trying counted its first pod as let in, so that what it asks for as a whole was
    // never looked at again, and its phase said that it was in its queue.
    let mut world = World::with(queue_plugin("capacity-card", "enqueue, allocate, preempt", ""));
    world.node(&node("n1").offers("cpu", "8"));
    world.queue(&bare_queue("team-a").quota(r#"{"A": 0}"#));
    let other = bare_queue("team-b").capability("cpu", "2").capability("memory", "4Ti");
    world.queue(&other);
    world.group(&group("g", 2).set(["spec", "minResources"], json!({"cpu": "1"})));
    world.pods((0..2).map(|index| pod(&format!("g-{index}")).of("g").queue("team-b").requests("cpu", "2")));
    for _ in 0..3 {
        assert_eq!(world.decide(), []);
        world.wait(2);
        let shown = progress(&mut world.cluster, world.now, usize::MAX);
        let phases: Vec<_> = shown.iter().filter_map(|shown| Some(shown.phase?.as_str())).collect();
        assert!(phases.iter().all(|phase| *phase == "Pending"), "{phases:?}");
        let id = world
            .cluster
            .workload_named(WorkloadKind::PodGroup, "team", "g")
            .unwrap();
        assert!(!world.cluster.workload(id).is_started());
    }
    world.queue(&other.capability("cpu", "4"));
    assert_eq!(
        world.decide(),
        [],
        "its own queue still has none of what it asks for as a whole"
    );
}

#[test]
fn nobody_is_evicted_for_a_group_that_its_queue_does_not_take_as_a_whole() {
    // The queue of its pods would have room for them; its own has none of what it asks for.
    let mut world = borrowed();
    world.queue(&bare_queue("team-a").capability("cpu", "0"));
    world.group(&group("g", 1).set(["spec", "minResources"], json!({"cpu": "1"})));
    world.pod(&pod("g-0").of("g").queue("b"));
    assert_eq!(evictions(&mut world), []);
    assert_eq!(
        world.reason("g-0").map(engine::reason::Reason::as_str),
        Some("InsufficientCPUQuota")
    );
    world.queue(&bare_queue("team-a").capability("cpu", "1"));
    world.wait(2);
    assert_eq!(evictions(&mut world), [], "first the group is enqueued");
    assert_eq!(evictions(&mut world).len(), 1);
}

#[test]
fn nobody_is_evicted_again_for_a_pod_that_the_api_server_refuses() {
    let mut world = borrowed();
    world.pod(&pod("claimant").queue("b"));
    let victim = evictions(&mut world).remove(0).victims.remove(0).pod.uid;
    world.remove_pod(&victim);
    assert_eq!(world.admit_names(), ["claimant"]);
    let answer = Outcome::Admission("claimant".into(), Answer::Refused(Arc::from("no")));
    world.hear(&answer, world.now);
    // Whoever was evicted is back, in the place that the pod could not take.
    world.pod(&borrower(4));
    for _ in 0..20 {
        world.wait(60);
        assert_eq!(evictions(&mut world), []);
    }
    // It still gets in where there is room, and one in its place is served as any other.
    world.wait(2);
    world.pod(&pod("other").queue("b").created(1));
    assert_eq!(evictions(&mut world)[0].waiting.name.as_ref(), "other");
    world.remove_pod("other");
    world.remove_pod("a-4");
    world.wait(3600);
    assert_eq!(world.admit_names(), ["claimant"]);
}

fn claimant(name: &str) -> Object {
    pod(name).queue("b").controlled_by("ReplicaSet", "web")
}

/// The first pod of a controller was let in for somebody who was evicted, and the scheduler has not placed it.
fn with_unplaced() -> World {
    let mut world = borrowed();
    world.pod(&claimant("first").created(0));
    let victim = evictions(&mut world).remove(0).victims.remove(0).pod.uid;
    world.remove_pod(&victim);
    assert_eq!(world.admit_names(), ["first"]);
    world.seen_admitted(&claimant("first").created(0), "first", None);
    world
}

/// What keeps it from every node may be what only the scheduler sees: its affinity to other pods, its volumes.
#[test]
fn nobody_is_evicted_again_for_a_controller_whose_pod_the_scheduler_did_not_place() {
    let mut world = with_unplaced();
    // One that waits by then, and one that comes after it.
    world.pod(&claimant("second").requests("cpu", "2").created(1));
    assert_eq!(evictions(&mut world), []);
    world.wait(3600);
    let actions = world.decide();
    assert!(matches!(&actions[..], [Action::SendBack { .. }]), "{actions:?}");
    world.remove_pod("first");
    // Whoever was evicted is back, in the place where the pod could not go.
    world.pod(&borrower(4));
    world.pod(&claimant("third").created(2));
    for _ in 0..100 {
        world.wait(60);
        assert_eq!(evictions(&mut world), []);
    }
    // It still gets in where there is room.
    world.remove_pod("a-4");
    assert_eq!(world.admit_names(), ["third"]);
    world.remove_pod("third");
    world.pod(&borrower(4));
    assert_eq!(evictions(&mut world), []);
    // After two hours the cluster is another one.
    world.wait(1230);
    assert_eq!(evictions(&mut world)[0].waiting.name.as_ref(), "second");
}

#[test]
fn others_are_evicted_again_for_a_controller_of_which_a_pod_is_placed_that_was_let_in_since() {
    let mut world = with_unplaced();
    world.pod(&claimant("earlier").created(0));
    world.remove_pod("a-1");
    assert_eq!(world.admit_names(), ["earlier"]);
    world.seen_admitted(&claimant("earlier").created(0), "earlier", None);
    world.wait(3600);
    world.decide();
    world.pod(&claimant("earlier").on("n1"));
    world.remove_pod("first");
    world.pod(&borrower(4));
    world.pod(&claimant("second").created(1));
    world.wait(60);
    assert_eq!(evictions(&mut world), [], "the one that is placed was let in before");
    world.remove_pod("a-4");
    assert_eq!(world.admit_names(), ["second"]);
    world.seen_admitted(&claimant("second").created(1), "second", None);
    world.remove_pod("earlier");
    world.pod(&borrower(4));
    world.pod(&claimant("third").created(2));
    world.wait(60);
    assert_eq!(evictions(&mut world), []);
    world.pod(&claimant("second").on("n1"));
    world.wait(2);
    assert_eq!(evictions(&mut world)[0].waiting.name.as_ref(), "third");
}

/// The watch was dead when its hour was over.
#[test]
fn others_are_evicted_again_where_all_that_were_to_be_sent_back_have_a_node_after_all() {
    let mut world = with_unplaced();
    let late = || claimant("late").created(0);
    world.pod(&late());
    world.remove_pod("a-1");
    assert_eq!(world.admit_names(), ["late"]);
    world.seen_admitted(&late(), "late", None);
    world.wait(3700);
    let actions = world.decide();
    assert!(
        matches!(&actions[..], [Action::SendBack { .. }, Action::SendBack { .. }]),
        "{actions:?}"
    );
    world.pod(&claimant("first").on("n1"));
    world.remove_pod("first");
    world.pod(&borrower(4));
    world.pod(&claimant("second").created(1));
    world.wait(60);
    assert_eq!(evictions(&mut world), [], "one of them has no node yet");
    world.pod(&claimant("late").on("n1"));
    world.wait(60);
    assert_eq!(evictions(&mut world)[0].waiting.name.as_ref(), "second");
}

/// One that was let in as early as the first, and can't be placed either, says nothing new.
#[test]
fn a_further_pod_of_the_same_wave_does_not_take_back_that_one_was_placed() {
    let mut world = with_unplaced();
    let late = || claimant("late").created(0);
    world.wait(100);
    world.pod(&late());
    world.remove_pod("a-1");
    assert_eq!(world.admit_names(), ["late"]);
    world.seen_admitted(&late(), "late", None);
    world.wait(3500);
    world.decide();
    world.remove_pod("first");
    world.pod(&claimant("second").created(1));
    world.wait(40);
    assert_eq!(world.admit_names(), ["second"]);
    world.pod(&claimant("second").on("n1"));
    world.wait(60);
    let actions = world.decide();
    assert!(matches!(&actions[..], [Action::SendBack { .. }]), "{actions:?}");
    world.remove_pod("late");
    world.pod(&borrower(4));
    world.pod(&claimant("third").created(2));
    world.wait(60);
    assert_eq!(evictions(&mut world)[0].waiting.name.as_ref(), "third");
}

/// Else he would have gone in vain.
#[test]
fn what_was_given_back_for_a_pod_is_kept_though_another_of_its_controller_comes_back() {
    let mut world = with_unplaced();
    world.wait(3590);
    world.pod(&claimant("second").created(1));
    let victim = evictions(&mut world).remove(0).victims.remove(0).pod.uid;
    world.wait(10);
    let actions = world.decide();
    assert!(matches!(&actions[..], [Action::SendBack { .. }]), "{actions:?}");
    world.wait(2);
    assert_eq!(evictions(&mut world), []);
    // Of a queue that would go first.
    world.queue(&bare_queue("c").set(["spec", "priority"], 9));
    world.pod(&pod("other").queue("c").created(0));
    world.remove_pod(&victim);
    assert_eq!(world.admit_names(), ["second"]);
}

#[test]
fn who_is_evicted_is_told_no_names_of_other_namespaces() {
    let mut world = borrowed();
    world.pod(&pod("secret-project").queue("b").namespace("others"));
    let message = evictions(&mut world).remove(0).victims.remove(0).message;
    assert!(
        message.starts_with("evicted for a pod of queue b, which asks 1 CPU"),
        "{message}"
    );
    assert!(
        !message.contains("secret-project") && !message.contains("others"),
        "{message}"
    );
}

#[test]
fn pods_that_succeeded_are_not_counted_once_for_each_task() {
    // A group of 256 tasks, thousands of whose pods have succeeded: each event of another of its pods cost as much as both
    // together, and the rounds of everybody with it.
    let took = |tasks: usize| {
        let mut world = World::new();
        world.node(&node("n1"));
        world.queue(&bare_queue("team-a").capability("cpu", "1"));
        let least: serde_json::Map<_, _> = (0..tasks).map(|task| (format!("t{task}"), json!(1))).collect();
        world.group(&group("g", 100_000).set(["spec", "minTaskMember"], least));
        let member = |index: usize| pod(&format!("p{index}")).of("g").label("volcano.sh/task-spec", "t0");
        world.pods((0..3000).map(|index| member(index).on("n1").phase("Succeeded")));
        let began = Instant::now();
        world.pods((3000..3040).map(member));
        began.elapsed()
    };
    let (few, many) = (took(1), took(256));
    assert!(many < few * 8, "{few:?} with one task, {many:?} with 256");
}
