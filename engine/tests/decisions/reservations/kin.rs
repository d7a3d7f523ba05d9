//! A Job that is taken as a whole, and the group that its pods are of: what is kept for the one is kept for the pods of both.

use k8s_openapi::jiff::SignedDuration;

use super::*;

fn held(name: &str, cards: i64, group: &str) -> Object {
    let template =
        json!({"annotations": {"scheduling.volcano.sh/queue-name": "team-a", "scheduling.k8s.io/group-name": group}});
    held_job(name, &format!(r#"{{"A100": {cards}}}"#)).set(["spec", "template", "metadata"], template)
}

/// As users see it once it is resumed.
fn resumed(job: Object) -> Object {
    let annotations = json!({"volcano.sh/card.request": r#"{"A100": 5}"#});
    job.set(["spec", "suspend"], false)
        .set(["metadata", "annotations"], annotations)
}

fn member(job: &str, index: i64, group: &str) -> Object {
    let name = format!("{job}-{index}");
    pod(&name).asks("A100", 1).of(group).controlled_by("Job", job)
}

/// What is kept for the Job kept out its own pods, for as long as it was kept.
#[test]
fn a_group_takes_what_is_kept_for_the_job_of_its_pods() {
    let mut world = world();
    world.group(&group("g", 5));
    world.job(&held("j", 5, "g"));
    assert_eq!(world.resume(), ["j"]);
    assert_eq!(world.kept("team-a"), 5);
    world.job(&resumed(held("j", 5, "g")));
    // Others don't.
    world.group(&group("h", 5));
    world.pods((0..5).map(|index| pod(&format!("h-{index}")).asks("A100", 1).of("h")));
    assert_eq!(world.admit(), []);
    world.pods((0..5).map(|index| member("j", index, "g")));
    assert_eq!(world.admit().len(), 5);
    assert_eq!(world.kept("team-a"), 0);
}

/// Volcano's controllers make a group for pods that name its scheduler and none, after the Job was resumed: it, too, is of the same pods.
#[test]
fn a_group_that_is_made_for_the_pods_of_a_job_takes_what_is_kept_for_it() {
    let made = "podgroup-j";
    for asks in [false, true] {
        for is_group_first in [false, true] {
            let mut world = world();
            let job = held_job("j", r#"{"A100": 5}"#);
            world.job(&job);
            assert_eq!(world.resume(), ["j"]);
            world.job(&resumed(job.clone()));
            let group = if asks { asking(made, 5) } else { group(made, 5) };
            let members: Vec<_> = (0..5).map(|index| member("j", index, made)).collect();
            if is_group_first {
                world.group(&group);
                world.pods(members.clone());
            } else {
                // As they are before the controllers have written it on them.
                world.pods((0..4).map(|index| pod(&format!("j-{index}")).asks("A100", 1).controlled_by("Job", "j")));
                world.pods(members.clone());
                world.group(&group);
            }
            assert_eq!(world.admit().len(), 5, "{asks} {is_group_first}");
            assert_eq!(world.kept("team-a"), 0, "{asks} {is_group_first}");
            // One of the same name that is made anew has pods, and a group, of its own.
            for index in 0..5 {
                world.remove_pod(&format!("j-{index}"));
            }
            world.remove_group("team", made);
            world.job(&job.clone().set(["metadata", "uid"], "k"));
            assert_eq!(world.resume(), ["j"]);
            assert_eq!(world.kept("team-a"), 5);
        }
    }
}

/// What was kept for the group kept out the Job that makes its pods: nobody ever got in.
#[test]
fn a_group_and_its_job_are_let_in_beside_each_other() {
    for is_group_first in [true, false] {
        let mut world = world();
        let (asking, held) = (asking("g", 5), held("j", 5, "g"));
        if is_group_first {
            world.group(&asking);
        } else {
            world.job(&held);
        }
        world.resume();
        world.group(&asking);
        world.job(&held);
        world.resume();
        for (kind, name) in [(WorkloadKind::PodGroup, "g"), (WorkloadKind::Job, "j")] {
            let id = world.cluster.workload_named(kind, "team", name).unwrap();
            assert!(world.cluster.workload(id).is_enqueued(), "{name} {is_group_first}");
        }
        world.job(&resumed(held));
        world.pods((0..5).map(|index| member("j", index, "g")));
        assert_eq!(world.admit().len(), 5);
        assert_eq!(world.kept("team-a"), 0);
    }
}

/// By one group any number of Jobs would have been let in, and each kept its cards when the group was gone.
#[test]
fn jobs_of_one_group_count_against_each_other() {
    for is_kept in [true, false] {
        let mut world = world();
        world.group(&asking("g", if is_kept { 5 } else { 100 }));
        for index in 0..3 {
            world.job(&held(&format!("j{index}"), 5, "g").created(index));
        }
        assert_eq!(world.resume(), ["j0"]);
        world.job(&resumed(held("j0", 5, "g")));
        world.remove_group("team", "g");
        assert_eq!(world.resume(), [""; 0]);
        assert_eq!(world.kept("team-a"), 5);
    }
}

/// Whoever has many groups, each with few Jobs, would otherwise have all of these moved in each round.
#[test]
fn the_jobs_of_a_namespace_with_many_groups_follow_them_now_and_then() {
    const GROUPS: usize = 20;
    let mut world = world();
    for name in ["none", "nothing"] {
        world.queue(&queue(name));
    }
    let move_to = |world: &mut World, queue: &str| {
        for index in 0..GROUPS {
            world.group(&group(&format!("g{index}"), 1).set(["spec", "queue"], queue));
        }
    };
    move_to(&mut world, "none");
    for index in 0..GROUPS {
        let annotations = json!({"scheduling.k8s.io/group-name": format!("g{index}")});
        let job = held_job(&format!("j{index}"), r#"{"A100": 1}"#);
        world.job(&job.set(["spec", "template", "metadata"], json!({ "annotations": annotations })));
    }
    assert_eq!(world.resume(), [""; 0]);
    move_to(&mut world, "nothing");
    assert_eq!(world.resume(), [""; 0]);
    move_to(&mut world, "team-a");
    // 20 Jobs stay for six milliseconds.
    world.now += SignedDuration::from_millis(5);
    assert_eq!(world.resume(), [""; 0]);
    world.now += SignedDuration::from_millis(1);
    assert_eq!(world.resume().len(), 5);
}
