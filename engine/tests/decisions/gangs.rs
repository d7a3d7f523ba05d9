//! Gangs: the first `minMember` pods of a group are let in together, or none of them is; the rest follow one by one.

use engine::cluster::pod::Stage;
use engine::decide::decide;
use serde_json::json;

use crate::world::{GPU, Object, PRODUCT, World, configuration, group, node, pod, queue};

/// Two nodes with 4 cards each, and a queue that may have them all.
fn world() -> World {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 4));
    world.node(&node("n2").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world
}

fn members(group: &str, count: usize) -> impl Iterator<Item = Object> {
    let group = group.to_owned();
    (0..count).map(move |index| pod(&format!("{group}-{index}")).of(&group).asks("A100", 1))
}

fn is_let_in(world: &World, uid: &str) -> bool {
    matches!(world.stage(uid), Stage::Admitting { .. })
}

#[test]
fn two_groups_of_6_are_not_both_let_in_on_4_and_4() {
    let mut world = world();
    world.group(&group("a", 6));
    world.group(&group("b", 6));
    world.pods(members("a", 6).chain(members("b", 6)));
    assert_eq!(world.admit_names(), ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5"]);
    assert_eq!(world.allocated("team-a", "A100"), 6);
    assert_eq!(world.refusal_of("b-0"), "InsufficientScalarQuota");
    // Quota for both does not help: 8 cards are there.
    world.queue(&queue("team-a").quota(r#"{"A100": 12}"#));
    assert_eq!(world.refusal_of("b-5"), "NoNodeFits");
    for pod in members("a", 6).enumerate() {
        world.remove_pod(&format!("a-{}", pod.0));
    }
    assert_eq!(world.admit_names().len(), 6);
}

#[test]
fn a_gang_waits_until_all_of_it_is_there() {
    let mut world = world();
    world.group(&group("a", 4));
    world.pods(members("a", 3));
    assert_eq!(world.refusal_of("a-0"), "PodGroupIncomplete");
    assert_eq!(world.allocated("team-a", "A100"), 0);
    world.pods(members("a", 4).skip(3));
    assert_eq!(world.admit_names().len(), 4);
}

#[test]
fn beyond_the_minimum_pods_follow_one_by_one() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 5}"#));
    world.group(&group("a", 3));
    world.pods(members("a", 7));
    assert_eq!(world.admit_names(), ["a-0", "a-1", "a-2", "a-3", "a-4"]);
    assert_eq!(world.refusal_of("a-5"), "InsufficientScalarQuota");
    world.remove_pod("a-1");
    assert_eq!(world.admit_names(), ["a-5"]);
}

#[test]
fn the_round_limit_does_not_cut_a_gang_in_two() {
    let mut world = world();
    world.group(&group("a", 6));
    world.pods(members("a", 6));
    let round = decide(&mut world.cluster, world.now, 2);
    assert_eq!(round.actions.len(), 6);
}

#[test]
fn the_parts_of_a_gang_use_different_cards() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 2));
    world.node(&node("n2").cards("H100", 2));
    world.queue(&queue("team-a").quota(r#"{"A100": 4, "H100": 2}"#));
    world.group(&group("a", 4));
    let either = |index: i32| pod(&format!("a-{index}")).of("a").asks("A100|H100", 1);
    world.pods((0..3).map(either));
    assert_eq!(world.admit(), []);
    world.pod(&either(3));
    let cards: Vec<_> = world.admit().into_iter().filter_map(|(_, card)| card).collect();
    assert_eq!(cards, ["A100", "A100", "H100", "H100"]);
}

#[test]
fn a_gang_gives_up_a_preference_where_one_of_it_has_none() {
    // Alone, the first would take the one A100 that the second needs.
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 1));
    world.node(&node("n2").cards("H100", 1));
    world.queue(&queue("team-a").quota(r#"{"A100": 1, "H100": 1}"#));
    world.group(&group("a", 2));
    world.pod(&pod("a-0").of("a").asks("A100|H100", 1));
    world.pod(&pod("a-1").of("a").asks("A100", 1));
    let admitted = world.admit();
    assert_eq!(
        admitted,
        [("a-0".into(), Some("H100".into())), ("a-1".into(), Some("A100".into()))]
    );
}

#[test]
fn a_gang_is_packed_where_spreading_it_would_not_do() {
    // One after the other, the two small ones would go to a node each, and leave none for the large one.
    let mut world = world();
    world.group(&group("a", 3));
    for (name, count) in [("a-0", 2), ("a-1", 2), ("a-2", 4)] {
        world.pod(&pod(name).of("a").asks("A100", count));
    }
    assert_eq!(world.admit_names(), ["a-0", "a-1", "a-2"]);
    let room = |uid: &str| world.known(uid).room;
    assert_eq!(room("a-0"), room("a-1"));
    assert_ne!(room("a-0"), room("a-2"));
}

#[test]
fn who_can_never_fit_is_passed_over_where_others_are_enough() {
    let mut world = world();
    world.group(&group("a", 2));
    world.pod(&pod("a-0").of("a").asks("A100", 1).selects(PRODUCT, "V100"));
    world.pods(members("a", 3).skip(1));
    assert_eq!(world.admit_names(), ["a-1", "a-2"]);
}

#[test]
fn a_gang_that_can_never_fit_blocks_nobody() {
    let mut world = world();
    world.group(&group("huge", 2));
    world.pods((0..2).map(|index| pod(&format!("huge-{index}")).of("huge").asks("A100", 5)));
    world.group(&group("a", 8));
    world.pods(members("a", 8));
    assert_eq!(world.admit_names().len(), 8);
    assert_eq!(world.refusal_of("huge-0"), "InsufficientScalarQuota");
}

#[test]
fn a_refused_gang_leaves_no_trace() {
    let mut world = world();
    world.group(&group("a", 6));
    world.group(&group("b", 6));
    world.pods(members("a", 6).chain(members("b", 6)));
    world.admit();
    let version = world.known_queue("team-a").version();
    let changes = world.cluster.node_change_count();
    world.queue(&queue("team-a").quota(r#"{"A100": 20}"#));
    assert_eq!(world.refusal_of("b-0"), "NoNodeFits");
    assert_eq!(world.cluster.node_change_count(), changes);
    assert_eq!(
        world.known_queue("team-a").version(),
        version + 1,
        "that of the new quota"
    );
    assert_eq!(world.allocated("team-a", "A100"), 6);
    assert!(
        members("b", 6)
            .enumerate()
            .all(|(index, _)| !is_let_in(&world, &format!("b-{index}")))
    );
}

#[test]
fn a_refused_write_keeps_the_place_of_a_gangs_pod() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 4}"#));
    world.group(&group("a", 4));
    world.pods(members("a", 4));
    assert_eq!(world.admit_names().len(), 4);
    for (index, member) in members("a", 3).enumerate() {
        world.seen_admitted(&member, &format!("a-{index}"), Some("A100"));
    }
    world.refuse("a-3", world.now);
    world.pod(&pod("thief").asks("A100", 1));
    assert_eq!(world.admit_names(), [""; 0], "what the gang needs is not given away");
    world.wait(6);
    assert_eq!(world.admit_names(), ["a-3"]);
}

#[test]
fn a_gang_that_a_crash_cut_in_two_is_completed_first() {
    // As after a restart: two of four are seen without their gates, the other two wait; and so does an older pod.
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 4}"#));
    world.group(&group("a", 4).created(5));
    world.pod(&pod("older").asks("A100", 1).created(-100).priority(10));
    let mut members = members("a", 4);
    world.pods(members.by_ref().take(2).map(|member| member.ungated().assigned("A100")));
    world.pods(members);
    assert_eq!(world.admit_names(), ["a-2", "a-3"]);
    assert_eq!(world.refusal_of("older"), "InsufficientScalarQuota");
}

#[test]
fn a_gang_that_can_not_be_completed_is_judged_again_when_something_changes() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 3}"#));
    world.group(&group("a", 4));
    let mut members = members("a", 4);
    world.pods(members.by_ref().take(2).map(|member| member.ungated().assigned("A100")));
    world.pods(members);
    assert_eq!(world.round().gangs_judged, 1);
    for _ in 0..3 {
        let round = world.round();
        assert_eq!((round.gangs_judged, round.actions), (0, vec![]));
    }
    world.queue(&queue("team-a").quota(r#"{"A100": 4}"#));
    assert_eq!(world.admit_names(), ["a-2", "a-3"]);
}

#[test]
fn pods_on_their_way_out_are_no_members() {
    let mut world = world();
    world.group(&group("a", 4));
    world.pods(members("a", 4).map(|member| member.on("n1").assigned("A100")));
    assert_eq!(world.admit_names(), [""; 0]);
    // All of them are deleted; of those that replace them only three fit beside them.
    world.pods(members("a", 4).map(|member| member.on("n1").assigned("A100").deleted(100)));
    world.queue(&queue("team-a").quota(r#"{"A100": 7}"#));
    world.pods((4..8).map(|index| pod(&format!("a-{index}")).of("a").asks("A100", 1)));
    assert_eq!(world.refusal_of("a-4"), "InsufficientScalarQuota");
    assert_eq!(world.allocated("team-a", "A100"), 4);
    world.remove_pod("a-0");
    assert_eq!(world.admit_names().len(), 4);
}

#[test]
fn a_group_that_does_not_exist_holds_its_pods() {
    let mut world = world();
    world.pods(members("a", 2));
    assert_eq!(world.refusal_of("a-0"), "PodGroupNotFound");
    world.group(&group("a", 2));
    assert_eq!(world.admit_names(), ["a-0", "a-1"]);
    world.pods(members("b", 1));
    assert_eq!(world.refusal_of("b-0"), "PodGroupNotFound");
    // Without the kind there are no groups to wait for.
    world.not_installed(engine::cluster::Kind::PodGroup, world.now);
    assert_eq!(world.admit_names(), ["b-0"]);
}

#[test]
fn a_group_that_cannot_be_read_holds_its_pods() {
    let mut world = world();
    world.group(&group("a", 1).card_request("[]"));
    world.pods(members("a", 1));
    assert_eq!(world.refusal_of("a-0"), "PodGroupInvalid");
    world.group(&group("a", 1));
    assert_eq!(world.admit_names(), ["a-0"]);
}

#[test]
fn a_raised_minimum_counts_from_then_on() {
    let mut world = world();
    world.group(&group("a", 2));
    world.pods(members("a", 2));
    assert_eq!(world.admit_names().len(), 2);
    world.group(&group("a", 4));
    world.pods(members("a", 3).skip(2));
    assert_eq!(world.refusal_of("a-2"), "PodGroupIncomplete");
    world.group(&group("a", 3));
    assert_eq!(world.admit_names(), ["a-2"]);
}

#[test]
fn admission_on_quota_lets_gangs_in_without_nodes() {
    let mut world = World::with(configuration("", "admitOn: quota"));
    world.node(&node("n1").cards("A100", 1));
    world.queue(&queue("team-a").quota(r#"{"A100": 6}"#));
    world.group(&group("a", 4));
    world.group(&group("b", 4));
    world.pods(members("a", 4).chain(members("b", 4)));
    assert_eq!(world.admit_names(), ["a-0", "a-1", "a-2", "a-3"]);
}

#[test]
fn a_gang_may_span_queues() {
    let mut world = world();
    world.queue(&queue("team-b").quota(r#"{"A100": 1}"#));
    world.group(&group("a", 3));
    world.pods(members("a", 2));
    world.pod(&pod("a-2").of("a").queue("team-b").asks("A100", 2));
    assert_eq!(world.refusal_of("a-0"), "InsufficientScalarQuota");
    world.queue(&queue("team-b").quota(r#"{"A100": 2}"#));
    assert_eq!(world.admit_names(), ["a-0", "a-1", "a-2"]);
}

#[test]
fn cpu_is_counted_for_all_of_a_gang() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#).capability("cpu", "3"));
    world.group(&group("a", 4));
    world.pods((0..4).map(|index| pod(&format!("a-{index}")).of("a").requests(GPU, "0")));
    assert_eq!(world.refusal_of("a-0"), "InsufficientCPUQuota");
    world.group(&group("a", 3));
    assert_eq!(world.admit_names().len(), 3);
}

#[test]
fn a_gang_of_which_no_two_pods_are_alike_is_judged_once() {
    // They differ in the last of all that they say, and no node is what they ask for.
    const PODS: i64 = 200;
    let mut world = World::new();
    for number in 0..3 {
        world.node(&node(&format!("n-{number}")).cards("A100", 8));
    }
    world.queue(&queue("team-a").quota(r#"{"A100": 1000}"#));
    world.group(&group("a", PODS));
    let mut values: Vec<_> = (0..300).map(|value| format!("nowhere-{value}")).collect();
    for number in 0..PODS {
        values.push(format!("differs-{number}"));
        let terms = json!([{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]}]);
        values.pop();
        let affinity = [
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ];
        let member = pod(&format!("a-{number}")).of("a").asks("A100", 1);
        world.pod(&member.set(affinity, json!({ "nodeSelectorTerms": terms })));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty());
    // Each pod with itself and with every node, twice; were the gang judged in the turn of each, a hundred times as much.
    assert!(round.steps < 2_000_000, "{}", round.steps);
}

/// Waiting helps a gang that needs the pod no more than it helps the pod: nobody is to look for what others could give back.
#[test]
fn what_only_a_change_of_a_pod_helps_is_told_before_what_others_may_give_back() {
    for (least, reason) in [(3, "NoCardQuota"), (2, "InsufficientScalarQuota")] {
        let mut world = world();
        world.queue(&queue("team-b").capability("cpu", "8"));
        world.group(&group("g", least));
        world.pods((0..7).map(|index| pod(&format!("other-{index}")).asks("A100", 1).on("n1")));
        let without_name = pod("g-2").of("g").queue("team-b").requests(GPU, "1");
        world.pods(members("g", 2).chain([without_name]));
        assert_eq!(world.admit_names(), [""; 0]);
        assert_eq!(world.refusal_of("g-0"), reason, "{least} of 3 are needed");
    }
}
