//! `checkQueueDimensionsOnly`: the document's own test scenarios, and its use cases.

use super::{cluster, plain};
use crate::world::{GPU, World, bare_pod, pod};

/// One task of the document's test job: 1 GPU, and far more CPU and memory than is usual.
fn test_job(world: &mut World, cpu: &str) {
    let task = pod("test-job")
        .queue("test-gpu-queue")
        .requests("cpu", cpu)
        .requests(GPU, "1");
    world.pod(&task);
}

#[test]
fn test_scenario_2_default_behavior() {
    let mut world = cluster(8, "");
    world.queue(&plain("test-gpu-queue").capability(GPU, "2"));
    world.queue(&plain("other").guarantee("cpu", "60"));
    test_job(&mut world, "50");
    assert_eq!(
        world.refusal(),
        "InsufficientCPUQuota: the cluster, for queue test-gpu-queue: CPU asked 50, used 60, quota 64, 60 of them kept free \
         by guarantees; waiting can't help: ask for less, or have nodes added or other queues' guarantees lowered"
    );
}

#[test]
fn test_scenario_2_a_dimension_that_the_capability_names_is_checked_either_way() {
    for arguments in ["checkQueueDimensionsOnly: true", "checkQueueDimensionsOnly: false"] {
        let mut world = cluster(8, arguments);
        world.queue(&plain("test-gpu-queue").capability(GPU, "2").capability("cpu", "4"));
        test_job(&mut world, "50");
        assert_eq!(
            world.refusal(),
            "InsufficientCPUQuota: queue test-gpu-queue: CPU asked 50, used 0, quota 4; waiting can't help: ask for less, or have the quota raised",
            "{arguments}"
        );
    }
}

/// Dimensions, **Design Details**: the message lists the dimensions that are short.
#[test]
fn a_refusal_names_every_dimension_that_is_short() {
    let mut world = cluster(8, "checkQueueDimensionsOnly: true");
    let queue = plain("team-a").capability("cpu", "4").capability(GPU, "2");
    world.queue(&queue.capability("memory", "1Ti").quota(r#"{"A": 1}"#));
    world.pod(&pod("p").requests("cpu", "5").asks("A", 3));
    assert_eq!(
        world.refusal(),
        "InsufficientCPUQuota: queue team-a: CPU asked 5, used 0, quota 4; nvidia.com/gpu asked 3, used 0, quota 2; A asked 3, \
         used 0, quota 1; waiting can't help: ask for less, or have the quota raised"
    );
}

#[test]
fn a_dimension_set_to_0_is_named() {
    for arguments in ["checkQueueDimensionsOnly: true", ""] {
        let mut world = cluster(8, arguments);
        world.queue(&plain("team-a").capability("cpu", "0"));
        world.pod(&pod("p"));
        assert_eq!(world.refusal_of("p"), "InsufficientCPUQuota", "{arguments}");
    }
}

#[test]
fn an_empty_capability_limits_nothing_but_by_the_cluster() {
    let mut world = cluster(8, "");
    world.queue(&plain("team-a"));
    world.pods([pod("p").asks("A", 5), pod("q").asks("A", 5)]);
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(
        world.refusal(),
        "InsufficientScalarQuota: the cluster, for queue team-a: nvidia.com/gpu asked 5, used 5, quota 8; A asked 5, used 5, \
         quota 8"
    );
}

#[test]
fn a_queue_that_names_nothing_takes_nothing_that_is_guaranteed_beside_a_queue_above_it_that_does() {
    let mut world = cluster(8, "checkQueueDimensionsOnly: true, enableHierarchy: true");
    world.queue(&plain("research").capability(GPU, "8"));
    world.queue(&plain("vision").parent("research"));
    world.queue(&plain("sales").guarantee(GPU, "4"));
    for name in ["vision-0", "vision-1"] {
        world.pod(&pod(name).queue("vision").requests(GPU, "3").requests("cpu", "30"));
    }
    assert_eq!(world.admit_names(), ["vision-0"]);
    assert_eq!(
        world.refusal(),
        "InsufficientScalarQuota: the cluster, for queue vision: nvidia.com/gpu asked 3, used 7, quota 8, 4 of them kept free \
         by guarantees"
    );
    // Nobody names CPU, so it is not compared with what is guaranteed either.
    world.queue(&plain("sales").guarantee("cpu", "60"));
    assert_eq!(world.admit_names(), ["vision-1"]);
}

/// What it deserves is the most that it may have where nobody borrows.
#[test]
fn pods_is_a_dimension_also_of_what_a_queue_deserves() {
    let mut world = cluster(8, "enableOveruse: false");
    world.queue(&plain("team-a").deserved("pods", "2"));
    world.pods((0..3).map(|index| pod(&format!("a{index}"))));
    assert_eq!(world.admit_names(), ["a0", "a1"]);
    assert_eq!(world.refusal_of("a2"), "InsufficientScalarQuota");
}

/// Dimensions, **When Enabled**: only what the capability names.
#[test]
fn pods_are_compared_like_anything_else_where_only_the_capability_counts() {
    let arguments = "enableOveruse: false, checkQueueDimensionsOnly: true";
    for queue in [
        plain("team-a").deserved("pods", "2"),
        plain("team-a").guarantee("pods", "2"),
    ] {
        let mut world = cluster(8, arguments);
        world.queue(&queue);
        world.queue(&plain("team-b").guarantee("pods", "107"));
        world.pods((0..4).map(|index| pod(&format!("a{index}"))));
        assert_eq!(world.admit_names(), ["a0", "a1", "a2", "a3"]);
    }
    let mut world = cluster(8, arguments);
    world.queue(&plain("team-a").capability("pods", "3").deserved("pods", "2"));
    world.pods((0..4).map(|index| pod(&format!("a{index}"))));
    assert_eq!(world.admit_names(), ["a0", "a1"]);
}

#[test]
fn pods_is_a_dimension_only_where_a_queue_names_it() {
    let mut world = cluster(8, "");
    world.queue(&plain("team-a").capability("pods", "2"));
    world.queue(&plain("team-b"));
    // The cluster has 110 slots, of which pods that are not managed use nearly all.
    world.node(&crate::world::node("n1").offers("pods", "7"));
    world.pods((0..2).map(|index| bare_pod(&format!("x{index}")).on("n1")));
    world.pods((0..3).map(|index| pod(&format!("a{index}"))));
    assert_eq!(world.admit_names(), ["a0", "a1"]);
    assert_eq!(world.refusal_of("a2"), "InsufficientScalarQuota");
    world.pods((0..4).map(|index| pod(&format!("b{index}")).queue("team-b")));
    assert_eq!(world.admit_names(), ["b0", "b1", "b2"]);
    assert_eq!(world.refusal_of("b3"), "NoNodeFits");
}
