//! Groups and Jobs as Volcano's controllers, or people who use them, make them.

mod properties;
mod tasks;

use engine::explain::progress;
use engine::refs::WorkloadKind;

use crate::world::{Object, World, at, bare_queue, configuration, group, held_job, node, pod, queue, queue_plugin};

fn is_enqueued(world: &World, name: &str) -> bool {
    world.is_enqueued(WorkloadKind::PodGroup, name)
}

/// `minResources` as Volcano's controllers write it: what pods ask for, and the same again as keys of a quota.
fn min_resources(pods: i64, cpu: i64, cards: Option<i64>) -> serde_json::Value {
    let (cpu, memory, cards) = (
        cpu.to_string(),
        format!("{pods}Gi"),
        cards.map(|cards| cards.to_string()),
    );
    let mut least = serde_json::json!({
        "count/pods": pods.to_string(), "pods": pods.to_string(), "cpu": cpu, "memory": memory,
        "requests.cpu": cpu, "requests.memory": memory, "limits.cpu": cpu, "limits.memory": memory,
    });
    for key in ["nvidia.com/gpu", "requests.nvidia.com/gpu", "limits.nvidia.com/gpu"] {
        if let Some(cards) = &cards {
            least[key] = cards.as_str().into();
        }
    }
    least
}

#[test]
fn what_a_quota_would_count_keeps_no_group_out() {
    // Semantics of the groups that Volcano's controllers make: `count/pods` and its like are limited by no queue.
    for plugin in ["capacity", "capacity-card"] {
        let mut world = World::with(queue_plugin(plugin, "enqueue, allocate", ""));
        world.node(&node("n1").cards("A100", 8));
        world.queue(
            &queue("team-a")
                .quota(r#"{"A100": 5}"#)
                .capability("nvidia.com/gpu", "5"),
        );
        world.group(&group("a", 2).set(["spec", "minResources"], min_resources(2, 2, Some(4))));
        assert_eq!(world.admit(), []);
        assert!(is_enqueued(&world, "a"), "{plugin}");
        world.group(
            &group("b", 2)
                .created(1)
                .set(["spec", "minResources"], min_resources(2, 2000, Some(1))),
        );
        assert_eq!(world.admit(), []);
        assert!(
            !is_enqueued(&world, "b"),
            "{plugin}: 2000 CPUs are more than the queue has"
        );
    }
}

#[test]
fn a_group_that_uses_cards_in_any_way_is_not_limited_in_cpu_and_memory() {
    // **Story 3**, for groups: by the resource of its cards, or by the pods that it has.
    let new_world = || {
        let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
        world.node(&node("n1").cards("A100", 8));
        world.queue(&bare_queue("team-a").quota(r#"{"A100": 5}"#));
        world
    };
    let mut world = new_world();
    world.group(&group("a", 2).set(["spec", "minResources"], min_resources(2, 2, Some(2))));
    assert_eq!(world.admit(), []);
    assert!(is_enqueued(&world, "a"), "by its cards");

    let mut world = new_world();
    world.group(&group("a", 2).set(["spec", "minResources"], min_resources(2, 2, None)));
    world.wait(2);
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "a"), "nothing says that it uses cards");
    world.pod(&pod("cpu").of("a"));
    assert_eq!(world.admit(), []);
    let told = progress(&mut world.cluster, world.now, 1);
    let told = told[0]
        .refused
        .as_ref()
        .map(|(_, message)| &**message)
        .unwrap_or_default();
    assert!(
        told.contains("CPU asked 2, allocated 0, in queue 0, elastic 0, quota 0"),
        "{told:?}"
    );
    world.pods((0..2).map(|index| pod(&format!("a-{index}")).of("a").asks("A100", 1)));
    assert_eq!(world.admit().len(), 2, "by its pods");
}

#[test]
fn who_names_another_queue_stands_in_the_line_of_no_other() {
    // Seen: let in again every round, each time with a write.
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 16));
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.queue(&queue("team-b").quota(r#"{"A100": 3}"#));
    let of = |object: Object, queue: &str| {
        object.set(
            [
                "spec",
                "template",
                "metadata",
                "annotations",
                "scheduling.volcano.sh/queue-name",
            ],
            queue,
        )
    };
    world.job(&held_job("job", r#"{"A100": 9}"#));
    world.group(&group("g", 1).card_request(r#"{"A100": 9}"#));
    assert_eq!(world.resume(), [""; 0]);
    world.job(&of(held_job("job", r#"{"A100": 2}"#), "team-b"));
    world.group(
        &group("g", 1)
            .card_request(r#"{"A100": 1}"#)
            .set(["spec", "queue"], "team-b"),
    );
    assert_eq!(world.known_queue("team-a").in_line().len(), 0);
    assert_eq!(world.resume(), ["job"]);
    for _ in 0..3 {
        assert_eq!(world.resume(), [""; 0]);
    }
    // And back, while it is kept something.
    world.job(&of(held_job("job", r#"{"A100": 2}"#), "team-a"));
    assert_eq!(world.resume(), ["job"]);
    let kept: i128 = world
        .known_queue("team-b")
        .inqueue
        .cards()
        .map(|(_, count)| count)
        .sum();
    assert_eq!(kept, 1, "the group's");
    assert_eq!(world.resume(), [""; 0]);
}

#[test]
fn volcanos_scheduler_is_known_by_what_it_alone_writes() {
    let by_volcano = |seconds: i64| {
        let written = at(seconds).to_string();
        let condition = serde_json::json!([
            {"type": "Unschedulable", "status": "True", "transitionID": "7", "lastTransitionTime": written, "reason": "NotEnoughResources"}
        ]);
        group("g", 1).set(["status", "conditions"], condition)
    };
    let own =
        serde_json::json!([{"type": "Unschedulable", "status": "True", "lastTransitionTime": at(1000).to_string()}]);
    for (group, enqueue, expected) in [
        (by_volcano(1000), true, true),
        (by_volcano(1000), false, false),
        // It may be gone since.
        (by_volcano(300), true, false),
        // Nobody writes what is yet to come, but who wants it to be fresh for ever.
        (by_volcano(100_000), true, false),
        (group("g", 1).set(["status", "conditions"], own), true, false),
        (group("g", 1), true, false),
    ] {
        let mut world = World::with(configuration("", &format!("enqueue: {enqueue}")));
        world.now = at(1010);
        world.group(&group);
        assert_eq!(world.cluster.take_changes().volcano_schedules, expected, "{group:?}");
    }
}
