//! Pods, Deployments and Volcano's Jobs, whose controllers are played here: what is let in, and on which cards.

use std::collections::BTreeMap;

use engine::refs::WorkloadKind;
use serde_json::{Value, json};

use super::configurations::{self, of_config_map};
use super::{queue, read};
use crate::world::{GPU, Object, World, bare_queue, configuration, group, node, pod};

/// The pods of a Deployment.
fn pods_of(deployment: &Value) -> Vec<Object> {
    let name = deployment["metadata"]["name"].as_str().unwrap();
    replicas(name, &deployment["spec"])
}

/// So many pods of a template, in the form that the door gives them.
fn replicas(name: &str, of: &Value) -> Vec<Object> {
    let count = of["replicas"].as_i64().unwrap();
    let replica = |index: i64| pod(&format!("{name}-{index}")).with(&of["template"]);
    (0..count).map(replica).collect()
}

/// The group that Volcano's controller makes of a Job, and the Job's pods, which it makes when the group has been let in.
fn group_and_pods(job: &Value) -> (Object, Vec<Object>) {
    let (metadata, spec) = (&job["metadata"], &job["spec"]);
    let name = metadata["name"].as_str().unwrap();
    let least = spec["minAvailable"].as_i64().unwrap_or(1);
    let of_job = json!({"metadata": {"annotations": metadata["annotations"]}, "spec": {"queue": spec["queue"]}});
    let tasks = spec["tasks"].as_array().unwrap().iter().enumerate();
    let pods = tasks.flat_map(|(index, task)| {
        let task_name = task["name"].as_str().map_or(format!("default{index}"), str::to_owned);
        let pods = replicas(&format!("{name}-{task_name}"), task).into_iter();
        pods.map(move |pod| pod.of(name).annotation("volcano.sh/task-spec", &task_name))
    });
    let pods = match spec["queue"].as_str() {
        Some(queue) => pods.map(|pod| pod.queue(queue)).collect(),
        None => pods.collect(),
    };
    (group(name, least).with(&of_job), pods)
}

/// Makes a Job's group, and where that is let in, the Job's pods: how many of each card they get, if the group is.
fn submit(world: &mut World, job: &Value) -> Option<BTreeMap<String, usize>> {
    let (group, pods) = group_and_pods(job);
    world.group(&group);
    assert_eq!(world.admit(), []);
    let name = job["metadata"]["name"].as_str().unwrap();
    if !world.is_enqueued(WorkloadKind::PodGroup, name) {
        return None;
    }
    world.pods(pods);
    Some(by_card(world))
}

/// How many pods one round lets in on each card.
fn by_card(world: &mut World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (_, card) in world.admit() {
        *counts.entry(card.unwrap_or_default()).or_default() += 1;
    }
    counts
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.map(|(card, count)| (card.to_owned(), count)).into()
}

fn renamed(mut job: Value, name: &str) -> Value {
    job["metadata"]["name"] = name.into();
    job
}

/// Capacity Card, **Job Annotations for Card Requests**, **Job Resource Card Requests** and **Node Selection**: the blocks are one pod's.
#[test]
fn a_pod_names_its_card_requests_its_resource_and_selects_its_nodes() {
    let mut world = World::new();
    world.node(&node("h").cards("NVIDIA-H100", 8));
    world.queue(&queue(document!("capacity-card/01-queue-a.yaml")));
    let resources = read(document!("capacity-card/04-resources.yaml"));
    let trainer = pod("p")
        .with(&read(document!("capacity-card/02-card-name.yaml")))
        .with(&json!({"spec": {"containers": [{"name": "trainer", "resources": resources["resources"]}]}}))
        .with(&read(document!("capacity-card/05-node-selection.yaml")))
        .queue("queue-a");
    world.pod(&trainer);
    assert_eq!(world.refusal_of("p"), "GetTaskRequestResourceFailed");
    world.node(&node("a").cards("NVIDIA-A100", 8));
    assert_eq!(by_card(&mut world), counts([("NVIDIA-A100", 1)]));
    assert_eq!(world.allocated("queue-a", "NVIDIA-A100"), 1);
}

/// Capacity Card, **Job Annotations for Card Requests**: it keeps a group out "of `Inqueue` state", and "if `Pods` have already been
/// created, `volcano.sh/card.request` will not take effect".
#[test]
fn a_card_request_counts_until_pods_have_been_let_in() {
    let request = read(document!("capacity-card/03-card-request.yaml"));
    let mut world = World::new();
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.queue(&bare_queue("team-a").quota(r#"{"NVIDIA-A100": 7}"#));
    world.group(&group("g", 1).with(&request));
    assert_eq!(world.admit(), []);
    assert!(!world.is_enqueued(WorkloadKind::PodGroup, "g"), "8 > 7");

    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.queue(&bare_queue("team-a").quota(r#"{"NVIDIA-A100": 7}"#));
    world.pods((0..7).map(|index| pod(&format!("p{index}")).of("g").asks("NVIDIA-A100", 1).on("a")));
    world.group(&group("g", 1).with(&request));
    world.pod(&pod("p7").of("g").asks("NVIDIA-A100", 1));
    assert_eq!(world.refusal_of("p7"), "InsufficientScalarQuota", "judged by itself");
    world.remove_pod("p0");
    assert_eq!(world.admit_names(), ["p7"]);
}

/// Capacity Card, **Volcano Job Example**: all of its eight workers in queue-a, and no second Job beside them.
#[test]
fn the_training_job_is_let_in_as_a_whole() {
    let mut world = World::new();
    world.node(&node("a").cards("NVIDIA-A100", 16));
    world.queue(&queue(document!("capacity-card/01-queue-a.yaml")));
    let job = read(document!("capacity-card/06-volcano-job.yaml"));
    assert_eq!(submit(&mut world, &job), Some(counts([("NVIDIA-A100", 8)])));
    assert_eq!(world.allocated("queue-a", "NVIDIA-A100"), 8);
    // 8 + 8 - 7 <= 10, with what the first holds beyond its `minAvailable`; of its pods those get in for which there is quota.
    assert_eq!(
        submit(&mut world, &renamed(job.clone(), "second")),
        Some(counts([("NVIDIA-A100", 2)]))
    );
    let mut whole = renamed(job, "whole");
    whole["spec"]["minAvailable"] = 8.into();
    world.remove_group("team", "second");
    world.queue(&queue(document!("capacity-card/01-queue-a.yaml")).quota(r#"{"NVIDIA-A100": 8}"#));
    assert_eq!(submit(&mut world, &whole), None, "10 + 8 - 7 > 8");
}

/// Capacity Card, **Single-Instance Multi-Card Request Example**: "to use either `NVIDIA-A100` or `NVIDIA-H100`".
#[test]
fn the_training_job_of_two_cards_uses_either() {
    let job = read(document!("capacity-card/08-volcano-job-of-two-cards.yaml"));
    for (a100, h100) in [(8, 0), (4, 4), (3, 5)] {
        let mut world = World::new();
        world.node(&node("a").cards("NVIDIA-A100", a100));
        world.node(&node("h").cards("NVIDIA-H100", 8));
        world.queue(&queue(document!("capacity-card/01-queue-a.yaml")));
        let expected =
            [("NVIDIA-A100", a100), ("NVIDIA-H100", h100)].map(|(card, count)| (card, usize::try_from(count).unwrap()));
        let expected = expected.into_iter().filter(|(_, count)| *count > 0);
        let expected: BTreeMap<_, _> = expected.map(|(card, count)| (card.to_owned(), count)).collect();
        assert_eq!(submit(&mut world, &job), Some(expected));
    }
}

/// Capacity Card, **Deployment Example**: pods, that no `card.request` holds back.
#[test]
fn the_pods_of_the_inference_deployment_are_charged_for_the_card_that_they_name() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.queue(&bare_queue("cr-queue1").quota(r#"{"NVIDIA-A100": 1}"#));
    world.pods(pods_of(&read(document!("capacity-card/07-deployment.yaml"))));
    assert_eq!(world.admit_names(), ["inference-deployment-0"]);
    assert_eq!(world.allocated("cr-queue1", "NVIDIA-A100"), 1);
    assert_eq!(world.refusal_of("inference-deployment-1"), "InsufficientScalarQuota");
}

/// Capacity Card, **Single-Instance Multi-Card Request Example**: "to use either `NVIDIA-A100` or `NVIDIA-H100`".
#[test]
fn the_pods_of_the_inference_deployment_of_two_cards_get_either() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.node(&node("h").cards("NVIDIA-H100", 8));
    world.queue(&bare_queue("cr-queue1").quota(r#"{"NVIDIA-A100": 1, "NVIDIA-H100": 1}"#));
    world.pods(pods_of(&read(document!(
        "capacity-card/09-deployment-of-two-cards.yaml"
    ))));
    assert_eq!(by_card(&mut world), counts([("NVIDIA-A100", 1), ("NVIDIA-H100", 1)]));
}

/// The cluster and the queue of **Example 1**, where the Job of the example runs.
fn example_1() -> World {
    let mut world = World::new();
    for name in ["n1", "n2"] {
        world.node(&node(name).cards("NVIDIA-A100", 4));
    }
    world.queue(&queue(document!("capacity-card/15-example-1-queue.yaml")));
    let job = read(document!("capacity-card/16-example-1-job.yaml"));
    assert_eq!(submit(&mut world, &job), Some(counts([("NVIDIA-A100", 4)])));
    world
}

/// Capacity Card, **Example 1: Basic Card Quota**: "Job successfully enqueues (4 <= 5) and schedules tasks".
#[test]
fn example_1_basic_card_quota() {
    let mut world = example_1();
    let job = renamed(read(document!("capacity-card/16-example-1-job.yaml")), "next");
    assert_eq!(submit(&mut world, &job), None, "4 + 4 > 5");
    // Eight cards are there, and five are the queue's.
    world.remove_group("team", "next");
    world.pods(["a", "b"].map(|name| pod(name).asks("NVIDIA-A100", 1)));
    assert_eq!(world.admit_names(), ["a"]);
    assert_eq!(
        world.refusal(),
        "InsufficientScalarQuota: queue team-a: NVIDIA-A100 asked 1, used 5, quota 5"
    );
}

/// Capacity Card, **Example 2: Multi-Card Selection**: "will try to allocate A100 first; if quota is exhausted, will try H100".
#[test]
fn example_2_multi_card_selection() {
    let mut world = example_1();
    world.node(&node("h").cards("NVIDIA-H100", 8));
    let team_a = queue(document!("capacity-card/15-example-1-queue.yaml"));
    world.queue(&team_a.quota(r#"{"NVIDIA-A100": 5, "NVIDIA-H100": 8}"#));
    let job = read(document!("capacity-card/17-example-2-job.yaml"));
    let expected = counts([("NVIDIA-A100", 1), ("NVIDIA-H100", 3)]);
    assert_eq!(submit(&mut world, &job), Some(expected));
}

/// Capacity Card, **Example 3: MPS Shared GPU**: "16 inference Pods share 4 A100 GPUs via MPS". The queue and the Job are shown in part.
#[test]
fn example_3_mps_shared_gpu() {
    let share = "NVIDIA-A100/mps-80g*1/8";
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    let labels = read(document!("capacity-card/18-example-3-node-labels.yaml"));
    let shared = node("n1").with(&json!({"metadata": {"labels": labels}}));
    world.node(&shared.with(&read(document!("capacity-card/19-example-3-node-status.yaml"))));
    world.queue(&bare_queue("team-a").with(&read(document!("capacity-card/20-example-3-queue.yaml"))));
    let mut job = renamed(read(document!("capacity-card/21-example-3-job.yaml")), "inference");
    job["spec"]["queue"] = "team-a".into();
    assert_eq!(submit(&mut world, &job), Some(counts([(share, 16)])));
    assert_eq!(world.allocated("team-a", share), 16);
    assert_eq!(world.allocated("team-a", "NVIDIA-A100"), 0);
    assert_eq!(
        submit(&mut world, &renamed(job.clone(), "second")),
        Some(counts([(share, 16)]))
    );
    assert_eq!(
        submit(&mut world, &renamed(job, "third")),
        Some(counts([])),
        "all shares are in use"
    );
}

/// Capacity Card, **Example 4: Node Ordering Configuration**: "prefers A100 nodes when resources are available, then H100, finally T4".
#[test]
fn example_4_node_ordering_configuration() {
    let mut world = configurations::world(of_config_map(document!(
        "capacity-card/22-example-4-configuration.yaml"
    )));
    for (name, card) in [("n1", "NVIDIA-T4"), ("n2", "NVIDIA-H100"), ("n3", "NVIDIA-A100")] {
        world.node(&node(name).cards(card, if card == "NVIDIA-A100" { 1 } else { 2 }));
    }
    world.queue(&bare_queue("team-a").quota(r#"{"NVIDIA-A100": 9, "NVIDIA-H100": 9, "NVIDIA-T4": 9}"#));
    let job = read(document!("capacity-card/23-example-4-job.yaml"));
    let expected = counts([("NVIDIA-A100", 1), ("NVIDIA-H100", 2), ("NVIDIA-T4", 1)]);
    assert_eq!(submit(&mut world, &job), Some(expected));
}

/// Dimensions, **Test Scenario 1** and **2**: the Job "is enqueued and scheduled even if CPU/memory exceed normal limits", and without the
/// feature it is rejected.
#[test]
fn the_test_job_is_checked_in_gpus_alone_or_in_all_that_it_asks_for() {
    for (arguments, is_let_in) in [("checkQueueDimensionsOnly: true", true), ("", false)] {
        let mut world = World::with(crate::world::capacity("enqueue, allocate, backfill", arguments));
        world.node(&node("n1").cards("A", 8).offers("cpu", "128"));
        world.queue(&queue(document!("dimensions/10-test-queue.yaml")));
        // Of the CPU, others are guaranteed so much that less than the Job asks for is left.
        world.queue(&bare_queue("others").guarantee("cpu", "60"));
        let job = read(document!("dimensions/11-test-job.yaml"));
        let (group, pods) = group_and_pods(&job);
        world.group(&group);
        assert_eq!(world.admit(), []);
        world.pods(pods);
        if is_let_in {
            assert_eq!(world.admit_names(), ["test-job-default0-0"]);
            world.pod(&pod("next").queue("test-gpu-queue").requests(GPU, "2"));
            assert_eq!(
                world.refusal(),
                "InsufficientScalarQuota: queue test-gpu-queue: nvidia.com/gpu asked 2, used 1, quota 2"
            );
        } else {
            assert_eq!(world.refusal_of("test-job-default0-0"), "InsufficientCPUQuota");
        }
    }
}
