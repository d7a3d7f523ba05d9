//! Queues: what the text says of how much they may have.

use serde_json::json;

use super::{queue, read};
use crate::world::{GPU, World, bare_queue, capacity, node, pod};

/// Capacity Card, **Queue Annotations for Card Quotas**.
#[test]
fn queue_a_has_its_quotas_and_none_of_any_other_card() {
    let mut world = World::new();
    world.node(
        &node("a")
            .cards("NVIDIA-A100", 16)
            .offers("cpu", "400")
            .offers("memory", "900Gi"),
    );
    world.node(&node("h").cards("NVIDIA-H200", 8));
    world.queue(&queue(document!("capacity-card/01-queue-a.yaml")));
    let worker = |index: usize| pod(&format!("p{index:02}")).queue("queue-a").asks("NVIDIA-A100", 1);
    world.pods((0..12).map(worker));
    assert_eq!(world.admit().len(), 10);
    assert_eq!(world.refusal_of("p10"), "InsufficientScalarQuota");
    // "Card types without quotas default to 0."
    world.pod(&pod("other").queue("queue-a").asks("NVIDIA-H200", 1));
    assert_eq!(world.refusal_of("other"), "InsufficientScalarQuota");
    // 10 of 100 CPU are in use; and other resources "are not limited".
    world.pod(&pod("large").queue("queue-a").requests("cpu", "91"));
    assert_eq!(world.refusal_of("large"), "InsufficientCPUQuota");
    world.node(&node("nic").offers("example.com/nic", "2"));
    world.pod(&pod("nic").queue("queue-a").requests("example.com/nic", "2"));
    assert_eq!(world.admit_names(), ["nic"]);
}

/// Dimensions, **When Enabled**, **Queue Definition** and the use cases 1 and 2: what the capability names is checked, and nothing else.
#[test]
fn queues_are_limited_in_what_they_name_alone() {
    let eight = bare_queue("eight").with(&json!({"spec": read(document!("dimensions/01-capability.yaml"))}));
    for (queue, name, resource, most) in [
        (eight, "eight", GPU, 8),
        (queue(document!("dimensions/03-gpu-queue.yaml")), "gpu-queue", GPU, 16),
        (
            queue(document!("dimensions/04-gpu-training.yaml")),
            "gpu-training",
            GPU,
            32,
        ),
        (
            queue(document!("dimensions/05-ml-workloads.yaml")),
            "ml-workloads",
            GPU,
            16,
        ),
        (
            queue(document!("dimensions/05-ml-workloads.yaml")),
            "ml-workloads",
            "hostdev",
            8,
        ),
    ] {
        let mut world = World::with(capacity("enqueue, allocate", "checkQueueDimensionsOnly: true"));
        world.node(&node("n").cards("A", 64).offers("cpu", "900").offers("hostdev", "64"));
        // Nearly all CPU is promised to others.
        world.queue(&bare_queue("others").guarantee("cpu", "899"));
        world.queue(&queue);
        let asks = |pod: &str, count: i64| {
            let pod = crate::world::pod(pod).queue(name).requests("cpu", "100");
            pod.requests(resource, &count.to_string())
        };
        world.pods([asks("p", most), asks("q", 1)]);
        assert_eq!(world.admit_names(), ["p"], "{name}");
        assert_eq!(
            world.refusal(),
            format!("InsufficientScalarQuota: queue {name}: {resource} asked 1, used {most}, quota {most}")
        );
    }
}

/// capacity, the queue's field `deserved`, with the document's slip in `memeory`: what is above it in CPU is given back.
#[test]
fn queue1_gives_back_what_it_has_beyond_what_it_deserves() {
    let mut world = World::with(capacity("enqueue, allocate, reclaim", ""));
    world.node(&node("n").offers("cpu", "4"));
    let queue1 = queue(document!("capacity/02-queue1.yaml"));
    world.queue(&queue1);
    world.queue(&queue1.uid("queue2").set(["metadata", "name"], "queue2"));
    world.pods((0..4).map(|index| pod(&format!("p{index}")).queue("queue1").on("n")));
    world.pods((0..3).map(|index| pod(&format!("q{index}")).queue("queue2")));
    let actions = world.decide();
    assert_eq!(actions.len(), 2, "half of it, and no more: {actions:?}");
}
