//! Hierarchical queues: a pod needs room in its queue and in every ancestor (**Multi-layer check**).

use engine::explain::{Subject, explain};
use engine::refs::WorkloadKind;

use super::{ACTIONS, admitted, cluster, plain, worker, workers};
use crate::world::{Object, World, bare_pod, group, node, pod, queue, queue_plugin};

const HIERARCHY: &str = "enableHierarchy: true";
const GPU: &str = "nvidia.com/gpu";

/// `name` below `parent`, with at most so many cards.
fn part(name: &str, parent: &str, cards: i64) -> Object {
    plain(name).parent(parent).quota(&format!("{{\"A\": {cards}}}"))
}

#[test]
fn three_levels_limit_together() {
    let mut world = cluster(20, HIERARCHY);
    world.queue(&plain("root").quota(r#"{"A": 9}"#));
    world.queue(&part("research", "root", 6));
    world.queue(&part("vision", "research", 5));
    world.queue(&part("speech", "research", 5));
    world.queue(&part("sales", "root", 8));
    workers(&mut world, "vision", 6);
    assert_eq!(admitted(&mut world), 5);
    assert_eq!(
        world.refusal_of("vision-5"),
        "InsufficientScalarQuota",
        "its own capability"
    );
    workers(&mut world, "speech", 2);
    assert_eq!(world.admit_names(), ["speech-0"]);
    let told: Vec<_> = world.notices().into_iter().map(|notice| notice.message).collect();
    assert_eq!(
        told,
        [
            "queue vision: A asked 1, used 5, quota 5",
            "queue research, of which queue speech is a part: A asked 1, used 6, quota 6"
        ]
    );
    workers(&mut world, "sales", 4);
    assert_eq!(admitted(&mut world), 3, "the root has 9");
    // What one gives back is there for any other that it is an ancestor's.
    world.remove_pod("sales-0");
    assert_eq!(world.admit_names(), ["sales-3"]);
    world.remove_pod("vision-0");
    assert_eq!(admitted(&mut world), 1);
}

#[test]
fn without_the_argument_parents_mean_nothing() {
    let mut world = cluster(8, "");
    world.queue(&part("research", "root", 1));
    world.queue(&part("vision", "research", 5));
    workers(&mut world, "vision", 3);
    workers(&mut world, "research", 1);
    assert_eq!(admitted(&mut world), 4);
}

#[test]
fn cards_have_hierarchical_quotas_under_the_capacity_card_plugin_too() {
    let mut world = World::with(queue_plugin("capacity-card", ACTIONS, HIERARCHY));
    world.node(&node("n1").cards("A", 20));
    world.queue(&plain("research").quota(r#"{"A": 3}"#));
    for name in ["vision", "speech"] {
        world.queue(&queue(name).parent("research").quota(r#"{"A": 2}"#));
        workers(&mut world, name, 3);
    }
    assert_eq!(admitted(&mut world), 3);
    // What an ancestor does not name it does not limit; what the queue itself does not name it has none of.
    world.queue(&plain("research").capability("cpu", "100"));
    assert_eq!(admitted(&mut world), 1);
    world.pod(&pod("p").queue("vision").asks("B", 1));
    world.node(&node("n2").cards("B", 2));
    assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
}

#[test]
fn a_guarantee_within_a_parent_is_kept_free_from_its_siblings_and_from_the_parents() {
    let mut world = cluster(10, HIERARCHY);
    world.queue(&plain("research").guaranteed_cards(r#"{"A": 6}"#));
    world.queue(&plain("vision").parent("research").guaranteed_cards(r#"{"A": 4}"#));
    world.queue(&plain("speech").parent("research"));
    world.queue(&plain("sales"));
    workers(&mut world, "speech", 10);
    assert_eq!(admitted(&mut world), 6, "all but the 4 of vision");
    for index in 2..6 {
        world.remove_pod(&format!("speech-{index}"));
    }
    for index in 6..10 {
        world.remove_pod(&format!("speech-{index}"));
    }
    // Research holds 6 for its own, of which speech uses 2 and vision is guaranteed 4.
    workers(&mut world, "sales", 10);
    assert_eq!(admitted(&mut world), 4);
    workers(&mut world, "vision", 5);
    assert_eq!(admitted(&mut world), 4);
}

#[test]
fn a_pod_in_an_inner_queue_waits_and_stops_nobody() {
    let mut world = cluster(8, HIERARCHY);
    world.queue(&plain("root"));
    world.queue(&part("research", "root", 6));
    world.queue(&part("vision", "research", 5));
    world.pods([worker("research", 0), worker("root", 0), worker("vision", 0)]);
    assert_eq!(world.admit_names(), ["vision-0"]);
    assert_eq!(world.refusal_of("research-0"), "InnerQueue");
    assert_eq!(world.refusal_of("root-0"), "InnerQueue");
    // A pod that ran there before counts in the queue and above it.
    let before = bare_pod("before").queue("research").asks("A", 3).on("n1");
    world.pod(&before);
    workers(&mut world, "vision", 5);
    assert_eq!(admitted(&mut world), 2);
    // Once nothing is part of it, it takes pods.
    for name in ["vision-0", "vision-1", "vision-2", "vision-3", "vision-4"] {
        world.remove_pod(name);
    }
    world.remove_queue("vision");
    assert_eq!(world.admit_names(), ["research-0"]);
}

#[test]
fn a_cycle_past_the_door_is_reported_on_its_queues_and_stops_no_other() {
    let mut world = cluster(8, HIERARCHY);
    world.queue(&part("a", "b", 8));
    world.queue(&part("b", "c", 8));
    world.queue(&part("c", "b", 8));
    world.queue(&plain("fine"));
    world.pods([worker("a", 0), worker("b", 0), worker("c", 0), worker("fine", 0)]);
    // Of a's own place nothing is wrong.
    let mut let_in = world.admit_names();
    let_in.sort_unstable();
    assert_eq!(let_in, ["a-0", "fine-0"]);
    let told: Vec<_> = world.notices().into_iter().map(|notice| notice.message).collect();
    assert!(
        told[0].starts_with("queue b can't be used as it is: spec.parent:"),
        "{told:?}"
    );
    assert!(
        told[0].contains("b -> c -> b") || told[0].contains("c -> b -> c"),
        "{told:?}"
    );
    world.queue(&part("b", "root", 8));
    assert_eq!(world.admit_names(), ["c-0"]);
    assert_eq!(world.refusal_of("b-0"), "InnerQueue");
}

#[test]
fn an_unknown_parent_is_reported_on_the_queue_until_it_comes() {
    let mut world = cluster(8, HIERARCHY);
    world.queue(&part("vision", "research", 8));
    world.pods([worker("vision", 0)]);
    assert_eq!(
        world.refusal(),
        "QueueInvalid: queue vision can't be used as it is: spec.parent: queue research does not exist: create it, \
         or name another queue; waiting can't help: have the queue's owner mend it"
    );
    world.queue(&plain("research"));
    assert_eq!(world.admit_names(), ["vision-0"]);
}

#[test]
fn what_an_ancestor_says_that_can_not_be_read_concerns_its_own_part_alone() {
    let mut world = cluster(8, HIERARCHY);
    world.queue(&plain("research").quota("[]"));
    world.queue(&plain("vision").parent("research"));
    world.queue(&plain("sales"));
    world.pods([worker("vision", 0), worker("sales", 0)]);
    assert_eq!(world.admit_names(), ["sales-0"]);
    let told = world.notices();
    assert!(
        told[0]
            .message
            .contains("since queue research, of which it is a part, can't be as it is"),
        "{told:?}"
    );
}

/// By what was mended nothing changes about what waits below, nor any number that kept it out.
#[test]
fn whoever_waits_below_a_queue_is_looked_at_again_when_that_is_mended() {
    let mut world = cluster(8, HIERARCHY);
    world.queue(&plain("research").quota("[]"));
    world.queue(&plain("vision").parent("research"));
    world.pod(&worker("vision", 0));
    let gang = group("g", 2).set(["spec", "queue"], "vision");
    world.group(&gang.card_request(r#"{"A": 1}"#));
    world.pods((1..3).map(|index| worker("vision", index).of("g")));
    assert_eq!(world.admit_names(), [""; 0]);
    world.queue(&plain("research").quota(r#"{"A": 8}"#));
    assert_eq!(world.admit_names().len(), 3);
}

#[test]
fn section_1_root_queue_has_another_name() {
    let mut world = cluster(8, "enableHierarchy: true, rootQueue: company");
    world.queue(&plain("company").quota(r#"{"A": 2}"#));
    world.queue(&plain("vision"));
    world.queue(&plain("root").parent("company"));
    workers(&mut world, "vision", 3);
    assert_eq!(admitted(&mut world), 2, "a queue without parent is part of the root");
    world.remove_pod("vision-0");
    world.remove_pod("vision-2");
    workers(&mut world, "root", 1);
    assert_eq!(
        world.admit_names(),
        ["root-0"],
        "and one called root is a queue like any other"
    );
}

/// Pods that name no card are read by what the queues above say, whenever these come to say it.
#[test]
fn a_card_that_a_queue_above_comes_to_name_is_asked_of_who_waits_below() {
    // A resource makes room for a card, or a quota that could not be read is mended.
    let first = [
        (plain("research").capability(GPU, "2"), 2),
        (plain("research").quota("[]"), 0),
    ];
    for (research, admitted) in first {
        let mut world = cluster(8, HIERARCHY);
        world.queue(&research);
        world.queue(&plain("vision").parent("research"));
        let unnamed = |index| pod(&format!("p{index}")).queue("vision").requests(GPU, "1");
        world.pods((0..6).map(unnamed));
        assert_eq!(world.admit_names().len(), admitted);
        world.pods((0..admitted).map(|index| unnamed(index).on("n1")));
        // As they are read when the conditions have been written that say why they wait.
        world.pods((admitted..6).map(unnamed));
        world.queue(&plain("research").quota(r#"{"A": 3}"#));
        assert_eq!(world.admit_names().len(), 3 - admitted);
        world.pods((0..3).map(|index| unnamed(index).on("n1")));
        // And as much less when it is gone.
        world.queue(&plain("research").quota(r#"{"A": 4, "B": 1}"#));
        assert_eq!(world.admit_names(), ["p3"]);
        world.remove_queue("research");
        assert_eq!(world.admit_names(), [""; 0], "a parent that is not there is waited for");
    }
}

/// What a group may have as a whole is what the parent has, whatever its queue names: neither nodes nor guarantees would help.
#[test]
fn who_is_bound_by_the_quota_of_a_parent_is_not_told_to_add_nodes() {
    let mut world = cluster(100, HIERARCHY);
    world.queue(&plain("root"));
    world.queue(&part("department", "root", 6));
    world.queue(&part("team-a", "department", 10));
    workers(&mut world, "team-a", 4);
    assert_eq!(admitted(&mut world), 4);
    world.group(&group("g", 1).queue("team-a").card_request(r#"{"A": 3}"#));
    assert_eq!(world.admit_names(), [""; 0]);
    let id = world
        .cluster
        .workload_named(WorkloadKind::PodGroup, "team", "g")
        .unwrap();
    let why = explain(&world.cluster, Subject::Workload(id)).unwrap();
    let told = (why.message(), why.remedy());
    assert!(
        told.0.ends_with("quota 6 of 10: a queue above it has no more"),
        "{told:?}"
    );
    assert!(told.1.ends_with("or have the quota raised"), "{told:?}");
}
