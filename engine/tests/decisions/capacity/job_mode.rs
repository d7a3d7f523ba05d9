//! **Job enqueueing check** under the capacity document: groups before their pods exist, in their queue and in every level
//! above it, and how they are served by reclaim.

use engine::decide::Action;
use engine::explain::progress;
use engine::refs::WorkloadKind;

use super::{plain, worker, workers};
use crate::world::{GPU, Object, World, capacity, group, held_job, node};

const RECLAIM: &str = "enqueue, allocate, backfill, reclaim";

fn group_of(name: &str, queue: &str, least: i64) -> Object {
    group(name, least).set(["spec", "queue"], queue)
}

/// A group that asks for so many GPUs before its pods exist.
fn asks(name: &str, queue: &str, gpus: i64) -> Object {
    group_of(name, queue, 1).set(["spec", "minResources", GPU], gpus.to_string())
}

fn is_enqueued(world: &World, name: &str) -> bool {
    let id = world
        .cluster
        .workload_named(WorkloadKind::PodGroup, "team", name)
        .unwrap();
    world.cluster.workload(id).is_enqueued()
}

/// What is said about this group now.
fn told(world: &mut World, name: &str) -> String {
    let told = progress(&mut world.cluster, world.now, usize::MAX).into_iter();
    let mut of_group = told.filter(|one| *one.workload.name == *name);
    let refused = of_group.find_map(|one| one.refused);
    refused.map_or_else(String::new, |(reason, message)| {
        format!("{}: {message}", reason.as_str())
    })
}

/// One node with 8 cards.
fn world(arguments: &str) -> World {
    let mut world = World::with(capacity(RECLAIM, arguments));
    world.node(&node("n1").cards("A", 8));
    world
}

#[test]
fn every_resource_of_min_resources_is_compared() {
    let mut world = world("");
    world.queue(&plain("team-a").capability(GPU, "2"));
    world.group(&asks("large", "team-a", 3));
    world.group(&asks("small", "team-a", 2).created(1));
    world.group(&asks("next", "team-a", 1).created(2));
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "large") && is_enqueued(&world, "small") && !is_enqueued(&world, "next"));
    assert_eq!(
        told(&mut world, "next"),
        "InsufficientScalarQuota: queue team-a can't take PodGroup next as a whole: nvidia.com/gpu asked 1, allocated 0, in \
         queue 2, elastic 0, quota 2"
    );
}

#[test]
fn test_scenario_1_for_enqueue_only_named_dimensions_are_compared() {
    for (arguments, expected) in [
        ("checkQueueDimensionsOnly: true", true),
        // Scenario 2.
        ("checkQueueDimensionsOnly: false", false),
    ] {
        let mut world = world(arguments);
        world.queue(&plain("test-gpu-queue").capability(GPU, "2"));
        world.queue(&plain("other").guarantee("cpu", "60"));
        let job = asks("test-job", "test-gpu-queue", 1);
        world.group(&job.set(["spec", "minResources", "cpu"], "100"));
        world.group(&asks("large", "test-gpu-queue", 3));
        assert_eq!(world.admit(), []);
        assert_eq!(is_enqueued(&world, "test-job"), expected, "{arguments}");
        assert!(!is_enqueued(&world, "large"), "{arguments}");
    }
}

#[test]
fn who_may_not_have_all_that_is_written_on_the_queue_is_told_why() {
    let mut world = world("");
    world.queue(&plain("team-a").quota(r#"{"A": 10}"#));
    world.queue(&plain("other").annotation("volcano.sh/card.guarantee", r#"{"A": 1}"#));
    world.group(&group_of("large", "team-a", 1).card_request(r#"{"A": 8}"#));
    assert_eq!(world.admit(), []);
    assert_eq!(
        told(&mut world, "large"),
        "InsufficientScalarQuota: queue team-a can't take PodGroup large as a whole: A asked 8, allocated 0, in queue 0, \
         elastic 0, quota 7 of 10: others are guaranteed the rest, or the cluster does not have it; \
         waiting can't help: ask for less, or have nodes added or other queues' guarantees lowered"
    );
}

#[test]
fn a_request_for_cards_is_one_for_their_resource_too() {
    let mut world = world("");
    world.queue(&plain("team-a").capability(GPU, "2"));
    world.group(&group_of("cards", "team-a", 1).card_request(r#"{"A": 3}"#));
    world.group(&group_of("few", "team-a", 1).card_request(r#"{"A": 2}"#).created(1));
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "cards") && is_enqueued(&world, "few"));
}

#[test]
fn a_group_waits_until_there_is_room_at_every_level_above_its_queue() {
    let mut world = world("enableHierarchy: true");
    world.queue(&plain("research").quota(r#"{"A": 4}"#));
    for name in ["vision", "speech"] {
        world.queue(&plain(name).parent("research").quota(r#"{"A": 4}"#));
    }
    let asks =
        |name: &str, queue: &str, cards: i64| group_of(name, queue, 1).card_request(&format!("{{\"A\": {cards}}}"));
    workers(&mut world, "speech", 1);
    assert_eq!(world.admit_names(), ["speech-0"]);
    world.group(&asks("first", "vision", 2));
    world.group(&asks("second", "speech", 2).created(1));
    world.group(&asks("third", "vision", 1).created(2));
    assert_eq!(world.admit(), []);
    assert!(is_enqueued(&world, "first") && is_enqueued(&world, "third"));
    assert!(!is_enqueued(&world, "second"), "1 + 2 + 1 + 2 > 4 of research");
    assert_eq!(
        told(&mut world, "second"),
        "InsufficientScalarQuota: queue research, of which queue speech is a part, can't take PodGroup second as a whole: A \
         asked 2, allocated 1, in queue 3, elastic 0, quota 4"
    );
    // A sibling's reservation ends.
    world.remove_group("team", "first");
    assert_eq!(world.admit(), []);
    assert!(is_enqueued(&world, "second"), "1 + 1 + 2 <= 4");
}

#[test]
fn the_cluster_is_the_root_of_a_hierarchy() {
    for (arguments, expected) in [("enableHierarchy: true", false), ("", true)] {
        let mut world = world(arguments);
        for name in ["a", "b"] {
            world.queue(&plain(name));
        }
        workers(&mut world, "a", 5);
        assert_eq!(world.admit().len(), 5);
        world.group(&asks("g", "b", 4));
        assert_eq!(world.admit(), []);
        // Without a hierarchy the document asks the queue alone.
        assert_eq!(is_enqueued(&world, "g"), expected, "{arguments}");
        world.remove_pod("a-0");
        assert_eq!(world.admit(), []);
        assert!(is_enqueued(&world, "g"));
    }
}

#[test]
fn a_node_that_joins_lets_groups_in_that_the_cluster_was_too_small_for() {
    for arguments in ["", "enableHierarchy: true"] {
        let mut world = world(arguments);
        world.queue(&plain("a"));
        world.group(&asks("g", "a", 12));
        assert_eq!(world.admit(), []);
        assert!(!is_enqueued(&world, "g"));
        world.node(&node("n2").cards("A", 8));
        assert_eq!(world.admit(), []);
        assert!(is_enqueued(&world, "g"), "{arguments}");
    }
}

#[test]
fn a_lower_minimum_makes_pods_elastic_and_lets_the_next_group_in() {
    let mut world = world("");
    world.queue(&plain("a").quota(r#"{"A": 4}"#));
    world.group(&group_of("g", "a", 3));
    world.pods((0..3).map(|index| worker("a", index).of("g")));
    assert_eq!(world.admit().len(), 3);
    world.group(&group_of("next", "a", 1).card_request(r#"{"A": 2}"#));
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "next"));
    world.group(&group_of("g", "a", 1));
    assert_eq!(world.admit(), []);
    assert!(is_enqueued(&world, "next"), "3 + 2 - 2 <= 4");
}

/// Research has 8 cards, of which vision has borrowed all; vision and speech deserve 4 each.
fn borrowed(arguments: &str) -> World {
    let mut world = world(&format!("enableHierarchy: true, guaranteeThreshold: 100{arguments}"));
    world.queue(&plain("root").quota(r#"{"A": 8}"#));
    let research = plain("research").parent("root").quota(r#"{"A": 8}"#);
    world.queue(&research.deserved_cards(r#"{"A": 8}"#));
    for name in ["vision", "speech"] {
        world.queue(&plain(name).parent("research").deserved_cards(r#"{"A": 4}"#));
    }
    workers(&mut world, "vision", 8);
    assert_eq!(world.admit().len(), 8);
    world.pods((0..8).map(|index| worker("vision", index).assigned("A").on("n1")));
    world
}

fn evicted(world: &mut World) -> usize {
    let actions = world.decide().into_iter();
    actions
        .map(|action| match action {
            Action::Evict(eviction) => eviction.victims.len(),
            other => panic!("{other:?}"),
        })
        .sum()
}

#[test]
fn a_group_below_deserved_is_served_though_its_parent_and_the_root_are_full_and_enqueue_comes_first() {
    let mut world = borrowed("");
    let request = r#"{"A": 4}"#;
    world.group(&group_of("g", "speech", 4).card_request(request));
    assert_eq!(world.admit(), [], "nothing is taken back for pods that are not there");
    assert!(is_enqueued(&world, "g"), "so that its pods are made");
    world.pods((0..4).map(|index| worker("speech", index).of("g")));
    assert_eq!(evicted(&mut world), 4);
    // Beyond what its queue deserves, nobody gives way, and a full parent is one.
    let mut world = borrowed("");
    world.group(&group_of("g", "speech", 5).card_request(r#"{"A": 5}"#));
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "g"));
    // Nor where nothing is taken back.
    let mut world = borrowed(", reclaimable: false");
    world.group(&group_of("g", "speech", 4).card_request(request));
    assert_eq!(world.admit(), []);
    assert!(!is_enqueued(&world, "g"));
}

#[test]
fn a_suspended_job_below_deserved_is_served_though_its_parent_is_full() {
    let mut world = borrowed("");
    let path = [
        "spec",
        "template",
        "metadata",
        "annotations",
        "scheduling.volcano.sh/queue-name",
    ];
    world.job(&held_job("j", r#"{"A": 2}"#).set(path, "speech"));
    let actions = world.decide();
    let [Action::Resume(resumption)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((&*resumption.job.name, &*resumption.queue), ("j", "speech"));
    world.pods((0..2).map(|index| worker("speech", index).controlled_by("Job", "j")));
    assert_eq!(evicted(&mut world), 2);
}

#[test]
fn claims_of_two_groups_count_together() {
    let mut world = borrowed("");
    world.group(&group_of("g", "speech", 3).card_request(r#"{"A": 3}"#));
    world.group(&group_of("h", "speech", 3).card_request(r#"{"A": 3}"#).created(1));
    assert_eq!(world.admit(), []);
    assert!(is_enqueued(&world, "g"));
    assert!(
        !is_enqueued(&world, "h"),
        "3 + 3 are more than the 4 that speech deserves"
    );
}
