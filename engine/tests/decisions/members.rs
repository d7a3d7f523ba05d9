//! Members of a group that have succeeded: they count as if they were still there (docs/rules.md, **Enqueue**; Volcano's gangs).

use engine::Observation;
use engine::amounts::Dimension;
use engine::cluster::Kind;
use engine::cluster::workload::Phase;
use engine::explain::progress;
use engine::refs::WorkloadKind;
use serde_json::json;

use crate::world::{Object, World, at, group, node, pod, queue};

fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world
}

fn member(index: usize) -> Object {
    pod(&format!("a-{index}")).of("a").asks("A100", 1)
}

fn running(index: usize) -> Object {
    member(index).on("n1").assigned("A100")
}

fn succeeded(index: usize) -> Object {
    running(index).phase("Succeeded")
}

#[test]
fn one_that_replaces_a_failed_pod_does_not_wait_for_those_that_have_succeeded() {
    let mut world = world();
    world.group(&group("a", 4));
    world.pods((0..4).map(running));
    world.pods((0..3).map(succeeded));
    world.pod(&running(3).phase("Failed"));
    assert_eq!(world.allocated("team-a", "A100"), 0);
    world.pod(&member(4));
    assert_eq!(world.admit_names(), ["a-4"]);
}

#[test]
fn one_that_has_failed_does_not_count() {
    let mut world = world();
    world.group(&group("a", 3));
    world.pods((0..3).map(running));
    world.pod(&succeeded(0));
    world.pods((1..3).map(|index| running(index).phase("Failed")));
    world.pod(&member(3));
    assert_eq!(world.refusal_of("a-3"), "PodGroupIncomplete");
    world.wait(1);
    let told = world.notices();
    assert!(
        told[0]
            .message
            .contains("lets 3 pods in together (spec.minMember), and 2 are there"),
        "{told:?}"
    );
    world.pod(&member(4));
    assert_eq!(world.admit_names(), ["a-3", "a-4"]);
}

#[test]
fn they_count_after_a_restart_and_until_they_are_gone() {
    let mut world = world();
    world.begin_list(Kind::SucceededPod);
    world.pods((0..2).map(succeeded));
    world.end_list(Kind::SucceededPod, world.now);
    world.group(&group("a", 3));
    world.pod(&member(2));
    assert_eq!(world.admit_names(), ["a-2"]);
    world.pod(&member(2).phase("Failed"));
    world.forget_succeeded("a-0");
    world.pod(&member(3));
    assert_eq!(world.refusal_of("a-3"), "PodGroupIncomplete");
    // A list that names none of them: the last one is gone, too.
    world.pod(&member(4));
    assert_eq!(world.admit_names(), ["a-3", "a-4"]);
    world.pods((3..5).map(|index| member(index).phase("Failed")));
    world.begin_list(Kind::SucceededPod);
    world.end_list(Kind::SucceededPod, world.now);
    world.pods((5..7).map(member));
    assert_eq!(world.refusal_of("a-5"), "PodGroupIncomplete");
}

#[test]
fn what_was_written_before_the_end_and_comes_late_changes_nothing() {
    let mut world = world();
    world.group(&group("a", 2));
    world.pods((0..2).map(running));
    world.pod(&succeeded(0));
    world.pod(&running(0));
    assert_eq!(world.allocated("team-a", "A100"), 1);
    world.pod(&running(1).phase("Failed"));
    world.pod(&member(2));
    assert_eq!(
        world.admit_names(),
        ["a-2"],
        "one that has succeeded, and one that comes"
    );
}

#[test]
fn pods_of_an_earlier_group_of_the_same_name_do_not_count() {
    let mut world = world();
    world.pods((0..2).map(succeeded));
    world.group(&group("a", 2).created(100));
    world.pod(&member(2).created(101));
    assert_eq!(world.refusal_of("a-2"), "PodGroupIncomplete");
    // One that was created before its group, and ran after it.
    let late = succeeded(3).set(["status", "startTime"], at(102).to_string());
    world.pod(&late);
    assert_eq!(world.admit_names(), ["a-2"]);
}

#[test]
fn a_group_whose_members_have_succeeded_has_started() {
    let mut world = world();
    world.group(&group("a", 2).card_request(r#"{"A100": 8}"#));
    world.pods((0..2).map(succeeded));
    let mut other = group("b", 1).card_request(r#"{"A100": 8}"#);
    other = other.created(1);
    world.group(&other);
    assert_eq!(world.admit(), []);
    let id = |name: &str| world.cluster.workload_named(WorkloadKind::PodGroup, "team", name);
    let (a, b) = (id("a").unwrap(), id("b").unwrap());
    assert!(world.cluster.workload(a).reserved().is_none());
    assert!(world.cluster.workload(b).reserved().is_some());
    world.wait(1);
    let shown = progress(&mut world.cluster, world.now, 10);
    let phase = |name: &str| {
        shown
            .iter()
            .find(|shown| &*shown.workload.name == name)
            .and_then(|shown| shown.phase)
    };
    assert_eq!(phase("a"), Some(Phase::Running));
    assert_eq!(phase("b"), Some(Phase::Inqueue));
}

#[test]
fn nobody_is_a_member_of_a_group_twice() {
    // A tenant may write that the group itself made its pods. What is beyond its minimum would then count as elastic twice, and
    // once more with each pod that comes and goes: the queue would keep more for others than it has.
    let mut world = world();
    world.group(&group("a", 1));
    let claiming = |index| running(index).controlled_by("PodGroup", "a");
    world.pods((0..2).map(claiming));
    for index in 2..6 {
        world.pod(&claiming(index));
        world.pod(&claiming(index).phase("Failed"));
    }
    let card = world.cluster.names().known_card("A100").unwrap();
    let elastic = |world: &World| world.known_queue("team-a").elastic.get(Dimension::Card(card));
    assert_eq!((world.allocated("team-a", "A100"), elastic(&world)), (2, 1));
    world.pod(&claiming(1).phase("Failed"));
    assert_eq!((world.allocated("team-a", "A100"), elastic(&world)), (1, 0));
    // 1 + 8 > 8.
    world.group(&group("next", 1).card_request(r#"{"A100": 8}"#));
    assert_eq!(world.admit(), []);
    let next = world.cluster.workload_named(WorkloadKind::PodGroup, "team", "next");
    assert!(!world.cluster.workload(next.unwrap()).is_enqueued());
}

/// Whoever may write a group may write its minimum again and again, and it has as many pods as they like.
#[test]
fn pods_are_divided_by_a_minimum_once_however_often_it_is_written() {
    let mut world = world();
    world.group(&group("a", 8));
    world.pods((0..8).map(running));
    let card = Dimension::Card(world.cluster.names().known_card("A100").unwrap());
    let elastic = |world: &World| world.known_queue("team-a").elastic.get(card);
    let wakes = |world: &World| world.known_queue("team-a").version();
    assert_eq!(elastic(&world), 0);
    let before = wakes(&world);
    let written = [1, 8].into_iter().cycle().take(99);
    for least in written {
        let written = Observation::Group(group("a", least).read());
        world.cluster.apply_one_of_many(written, world.now);
    }
    // Meanwhile a pod goes and another comes.
    world
        .cluster
        .apply_one_of_many(Observation::PodGone("a-0".into()), world.now);
    world
        .cluster
        .apply_one_of_many(Observation::Pod(running(8).read()), world.now);
    world.cluster.read_again(world.now);
    assert_eq!((world.allocated("team-a", "A100"), elastic(&world)), (8, 7));
    assert!(wakes(&world) < before + 8, "{} times", wakes(&world) - before);
    // A group that is gone has a minimum of 1.
    world.group(&group("a", 8));
    assert_eq!(elastic(&world), 0);
    world.remove_group("team", "a");
    assert_eq!(elastic(&world), 7);
}

#[test]
fn of_a_group_no_more_is_kept_than_it_may_say() {
    // The definition of groups has no status of its own, and no bounds: a crowd of them would fill the memory.
    let long = "x".repeat(1_000_000);
    let mut world = world();
    let says = json!({"status": {"phase": long}, "spec": {"minTaskMember": {&long: 1}, "minResources": {format!("example.com/{long}"): 1}}});
    world.group(&group("a", 1).with(&says));
    let id = world
        .cluster
        .workload_named(WorkloadKind::PodGroup, "team", "a")
        .unwrap();
    let kept = format!("{:?}", world.cluster.workload(id));
    assert!(kept.len() < 4_000, "{} characters", kept.len());
    world.pod(&pod("a-0").of("a").asks("A100", 1));
    assert_eq!(world.refusal_of("a-0"), "PodGroupInvalid");
}
