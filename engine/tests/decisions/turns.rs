//! What one round may cost, whatever the gangs of a tenant are made like: a queue's turn ends, and names that no queue has share one.

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::decide::decide;
use engine::refs::WorkloadKind;
use serde_json::json;

use crate::world::{Object, World, bare_pod, group, node, pod, queue, queue_plugin};

/// Pods that each say as much about nodes as they may, none of which is one for them.
fn lengthy(name: &str, group: &str) -> Object {
    lengthy_alone(name).of(group)
}

/// The same of no group.
pub fn lengthy_alone(name: &str) -> Object {
    says_much(pod(name), name)
}

fn says_much(pod: Object, name: &str) -> Object {
    let values: Vec<_> = (0..1000).map(|value| format!("nowhere-{name}-{value}")).collect();
    pod.for_products(&values)
}

/// What one round may cost at most: two turns of a queue, each of which the last question in it may exceed.
const ROUND: u64 = 2 * (12_000_000 + 10_500_000);

fn wide_world() -> World {
    let mut world = World::new();
    for number in 0..200 {
        world.node(&node(&format!("n-{number}")).cards("A100", 8));
    }
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world
}

/// Twenty gangs run there, of one pod without cards each.
fn world_of_small_gangs() -> World {
    let mut world = wide_world();
    for number in 0..20 {
        let group_name = format!("g-{number}");
        world.group(&group(&group_name, 1));
        world.pod(&pod(&format!("{group_name}-runs")).of(&group_name));
    }
    assert_eq!(world.admit_names().len(), 20);
    world
}

#[test]
fn many_gangs_that_miss_pods_cost_no_more_than_their_queues_turn() {
    let mut world = world_of_small_gangs();
    for number in 0..20 {
        let group_name = format!("g-{number}");
        world.group(&group(&group_name, 21));
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name)));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty() && round.more);
    assert!(round.steps < ROUND, "{}", round.steps);
    assert!(round.gangs_judged < 10, "{}", round.gangs_judged);
}

/// Such gangs are judged before all others, and those left over in their queues' turns. Both count toward one budget of the namespace.
#[test]
fn what_gangs_that_miss_pods_cost_counts_toward_their_namespaces_turn() {
    let mut world = world_of_small_gangs();
    world.queue(&queue("team-b"));
    for number in 0..20 {
        let group_name = format!("g-{number}");
        let queue_name = if number % 2 == 0 { "team-a" } else { "team-b" };
        world.group(&group(&group_name, 21).set(["spec", "queue"], queue_name));
        let pods = (0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name).queue(queue_name));
        world.pods(pods);
    }
    for queue_name in ["team-a", "team-b"] {
        let others = (0..40).map(|number| lengthy_alone(&format!("{queue_name}-{number}")));
        world.pods(others.map(|pod| pod.queue(queue_name).created(1)));
        world.pod(
            &pod(&format!("honest-{queue_name}"))
                .namespace("other")
                .queue(queue_name)
                .created(2),
        );
    }
    let (mut rounds, mut let_in) = (0, 0);
    loop {
        let round = decide(&mut world.cluster, world.now, usize::MAX);
        assert!(round.steps < ROUND, "{}", round.steps);
        let_in += round.actions.len();
        rounds += 1;
        assert!(rounds < 100, "every round ends with some that are judged");
        if !round.more {
            break;
        }
    }
    assert_eq!(let_in, 2, "another namespace has a turn in these queues");
}

/// A turn of any shape is a turn of the whole gang, in which all its shapes are gone through.
#[test]
fn a_gang_of_many_shapes_has_one_turn_while_nothing_changes_and_pays_for_each_shape() {
    const PODS: u64 = 2_000;
    let mut world = World::new();
    world.queue(&queue("team-a"));
    world.group(&group("g", 1 + i64::try_from(PODS).unwrap()));
    let pods = (0..PODS).map(|number| pod(&format!("g-{number}")).of("g").queue(&format!("nowhere-{number}")));
    world.pods(pods);
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty() && !round.more);
    let each = round.steps / PODS;
    assert!((128..250).contains(&each), "{each} steps for each pod");
    assert_eq!(world.refusal_of("g-0"), "PodGroupIncomplete");
    assert_eq!(world.refusal_of("g-1999"), "PodGroupIncomplete");
}

#[test]
fn gangs_with_a_pod_in_a_queue_that_is_not_there_are_no_way_past_a_queues_turn() {
    let mut world = wide_world();
    for number in 0..20 {
        let group_name = format!("g-{number}");
        // One pod more than it needs: else the queue that is not there is seen before anything is searched for.
        world.group(&group(&group_name, 20));
        world.pod(
            &pod(&format!("{group_name}-elsewhere"))
                .of(&group_name)
                .queue(&format!("nowhere-{number}")),
        );
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name)));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty() && round.more);
    assert!(round.steps < ROUND, "{}", round.steps);
    let mut rounds = 1;
    while decide(&mut world.cluster, world.now, usize::MAX).more {
        rounds += 1;
        assert!(rounds < 100, "every round ends with some that are judged");
    }
}

#[test]
fn gangs_whose_pods_are_all_in_queues_that_are_not_there_share_one_turn() {
    let mut world = wide_world();
    for number in 0..20 {
        let group_name = format!("g-{number}");
        world.group(&group(&group_name, 20).card_request(r#"{"A100": 1}"#));
        let nowhere = format!("nowhere-{number}");
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name).queue(&nowhere)));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty() && round.more);
    assert!(round.steps < ROUND, "{}", round.steps);
}

/// Each set of alternatives is compared with all that are reserved which share a card with it.
#[test]
fn groups_that_reserve_many_sets_of_cards_end_their_queues_turn() {
    const GROUPS: usize = 49;
    let mut world = World::with(queue_plugin("capacity-card", "enqueue, allocate", ""));
    world.node(&node("n1").cards("A100", 8));
    let quota = (0..255).map(|card| format!("c-{card}")).chain(["x".to_owned()]);
    let quota = serde_json::Value::Object(quota.map(|name| (name, json!(10_000))).collect());
    world.queue(&queue("team-a").quota(&quota.to_string()));
    for number in 0..GROUPS {
        let cards = 5 * number..5 * number + 8;
        let pairs = cards
            .clone()
            .flat_map(|one| cards.clone().map(move |other| (one, other)));
        let pairs = pairs.filter(|(one, other)| one < other).take(21);
        let sets = pairs.map(|(one, other)| (format!("x|c-{one}|c-{other}"), json!(1)));
        let request = serde_json::Value::Object(sets.collect()).to_string();
        world.group(&group(&format!("g-{number}"), 1).card_request(&request));
    }
    let enqueued = |world: &World| {
        let is_enqueued = |number: &usize| world.is_enqueued(WorkloadKind::PodGroup, &format!("g-{number}"));
        (0..GROUPS).filter(is_enqueued).count()
    };
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.steps < ROUND, "{}", round.steps);
    let first = enqueued(&world);
    assert!(
        round.more && first > 0 && first < GROUPS,
        "{first}, {} steps",
        round.steps
    );
    for _ in 0..GROUPS {
        decide(&mut world.cluster, world.now, usize::MAX);
    }
    assert_eq!(enqueued(&world), GROUPS, "the others have turns after it");
}

/// Also of gangs that have begun, and are moved there.
#[test]
fn gangs_that_no_queue_takes_any_more_share_one_turn() {
    let mut world = world_of_small_gangs();
    for number in 0..20 {
        let (group_name, nowhere) = (format!("g-{number}"), format!("nowhere-{number}"));
        world.group(&group(&group_name, 21).set(["spec", "queue"], &*nowhere));
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name).queue(&nowhere)));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.actions.is_empty());
    assert!(round.steps < ROUND, "{}", round.steps);
}

/// Pods that were made before their queue was for others only.
#[test]
fn nobody_spends_the_turn_of_a_queue_that_is_for_others() {
    let mut world = wide_world();
    world.namespace("other", &[("team", "other")], None);
    let theirs = queue("theirs").quota(r#"{"A100": 8}"#);
    world.queue(&theirs.annotation("card.volcano.sh/namespaces", "team=other"));
    for number in 0..4 {
        let group_name = format!("g-{number}");
        world.group(&group(&group_name, 20));
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name)));
        world.pod(
            &pod(&format!("{group_name}-late"))
                .of(&group_name)
                .queue("theirs")
                .created(1),
        );
    }
    world.pod(
        &pod("honest")
            .namespace("other")
            .queue("theirs")
            .asks("A100", 1)
            .created(2),
    );
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert_eq!(round.actions.len(), 1, "{:?}", round.actions);
}

#[test]
fn what_an_earlier_leader_has_let_in_is_looked_at_in_no_more_than_a_question() {
    let mut world = wide_world();
    for number in 0..20 {
        let group_name = format!("g-{number}");
        let least = json!({"spec": {"minResources": {"cpu": "1m"}}});
        world.group(&group(&group_name, 20).with(&least).phase("Inqueue"));
        world.pods((0..20).map(|index| lengthy(&format!("{group_name}-{index}"), &group_name)));
    }
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.steps < ROUND + 10_500_000, "{}", round.steps);
}

/// Nodes whose quota is used up are asked whether they would do, which is not for nothing.
#[test]
fn pods_that_no_gpu_node_has_quota_for_end_their_turn() {
    let conf = "tiers: [{plugins: [{name: capacity-card}, \
                {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: 8}}]}]";
    let parsed = Configuration::parse(Some(conf), None).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    for number in 0..200 {
        world.node(
            &node(&format!("n-{number}"))
                .cards("A100", 8)
                .label("card.volcano.sh/gpu-node", "true"),
        );
    }
    let pods = (0..100).map(|number| format!("p-{number}"));
    let pods = pods.map(|name| {
        says_much(
            bare_pod(&name).gates(&["card.volcano.sh/quota"]).requests("cpu", "9"),
            &name,
        )
    });
    let pods = pods.map(|pod| pod.label("card.volcano.sh/crossquota", "enabled"));
    world.pods(pods);
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert!(round.steps > 200 * 1000 && round.steps < ROUND, "{}", round.steps);
    assert!(round.more);
}

/// Queues are for everybody unless they say for whom they are.
#[test]
fn a_namespace_does_not_have_a_turn_in_each_queue() {
    let mut world = wide_world();
    for queue_name in ["q-0", "q-1", "q-2", "q-3"] {
        world.queue(&queue(queue_name));
        world.pods((0..70).map(|number| lengthy_alone(&format!("{queue_name}-{number}")).queue(queue_name)));
    }
    world.pod(&pod("honest").namespace("other").queue("q-3").created(1));
    let round = decide(&mut world.cluster, world.now, usize::MAX);
    assert_eq!(round.actions.len(), 1, "{:?}", round.actions);
    assert!(round.steps < 2 * 12_000_000 + 3_500_000, "{}", round.steps);
    let mut rounds = 1;
    while decide(&mut world.cluster, world.now, usize::MAX).more {
        rounds += 1;
        assert!(rounds < 100, "every round ends with some that are judged");
    }
    assert!(rounds > 1);
}
