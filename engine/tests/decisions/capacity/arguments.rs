//! Section 3 of the capacity document, argument by argument, and the formulas behind the metrics.

use engine::amounts::Dimension;
use engine::names::ResourceId;
use engine::refs::WorkloadKind;

use super::{ACTIONS, admitted, cluster, plain, workers};
use crate::world::{World, group, node, pod, queue, queue_plugin};

const CPU: Dimension = Dimension::Resource(ResourceId::CPU);

#[test]
fn section_2_enable_overuse_false_caps_a_queue_at_what_it_deserves() {
    for (arguments, expected) in [
        ("enableOveruse: false", 2),
        ("enableOveruse: true, guaranteeThreshold: 100", 6),
    ] {
        let mut world = cluster(8, arguments);
        world.queue(&plain("a").quota(r#"{"A": 6}"#).deserved_cards(r#"{"A": 2}"#));
        workers(&mut world, "a", 8);
        assert_eq!(admitted(&mut world), expected, "{arguments}");
    }
}

/// It was let into its queue for what its pods could never have there, and kept that from others.
#[test]
fn section_2_enable_overuse_false_caps_what_a_queue_takes_as_a_whole() {
    for (arguments, is_taken) in [("enableOveruse: false", false), ("enableOveruse: true", true)] {
        let mut world = cluster(8, arguments);
        world.queue(&plain("a").quota(r#"{"A": 6}"#).deserved_cards(r#"{"A": 2}"#));
        world.group(&group("two", 1).card_request(r#"{"A": 2}"#).set(["spec", "queue"], "a"));
        world.group(
            &group("three", 1)
                .card_request(r#"{"A": 3}"#)
                .set(["spec", "queue"], "a")
                .created(1),
        );
        assert_eq!(admitted(&mut world), 0);
        let taken = ["two", "three"].map(|name| world.is_enqueued(WorkloadKind::PodGroup, name));
        assert_eq!(taken, [true, is_taken], "{arguments}");
    }
}

#[test]
fn section_2_enable_overuse_false_leaves_a_dimension_without_deserved_as_it_is() {
    let mut world = cluster(8, "enableOveruse: false");
    world.queue(&plain("a").deserved("cpu", "3"));
    workers(&mut world, "a", 8);
    assert_eq!(admitted(&mut world), 3);
    world.queue(&plain("a").deserved("memory", "4Gi"));
    assert_eq!(admitted(&mut world), 1);
}

#[test]
fn capability_absent_is_0_under_capacity_card_and_unlimited_under_capacity() {
    for (plugin, expected) in [("capacity-card", 0), ("capacity", 1)] {
        let mut world = World::with(queue_plugin(plugin, ACTIONS, ""));
        world.node(&node("n1").cards("A", 8));
        world.queue(&plain("team-a").capability("cpu", "4"));
        world.pod(&pod("p"));
        assert_eq!(admitted(&mut world), expected, "{plugin}");
    }
}

#[test]
fn dynamic_resource_calculation_of_a_running_cluster() {
    let mut world = cluster(8, "");
    world.queue(&plain("a").capability("cpu", "40").deserved("cpu", "10"));
    world.queue(&plain("b").guarantee("cpu", "30"));
    world.queue(&plain("c"));
    world.pods((0..3).map(|index| pod(&format!("c{index}")).queue("c").requests("cpu", "20")));
    assert_eq!(admitted(&mut world), 1);
    let cluster = &world.cluster;
    let of = |queue: &str| {
        let id = cluster.queue_named(queue).unwrap();
        (cluster.real_capability(id, CPU), cluster.deserved(id, CPU))
    };
    // 64 CPU in all, 30 of them guaranteed to b.
    assert_eq!(of("a"), (Some(34_000), 10_000));
    assert_eq!(of("b"), (Some(64_000), 30_000));
    assert_eq!(of("c"), (Some(34_000), 34_000), "min(realCapability, request)");
}

#[test]
fn resource_tracking_share_orders_queues_by_what_they_deserve() {
    let mut world = cluster(8, "guaranteeThreshold: 100");
    world.queue(&plain("a").deserved_cards(r#"{"A": 6}"#));
    world.queue(&plain("b").deserved_cards(r#"{"A": 2}"#));
    workers(&mut world, "a", 8);
    workers(&mut world, "b", 8);
    assert_eq!(admitted(&mut world), 8);
    assert_eq!((world.allocated("a", "A"), world.allocated("b", "A")), (6, 2));
}

#[test]
fn queues_go_by_priority_then_share_then_age() {
    let mut world = cluster(3, "guaranteeThreshold: 100");
    let created = |name: &str, seconds| plain(name).created(seconds).deserved_cards(r#"{"A": 4}"#);
    world.queue(&created("young", 5));
    world.queue(&created("old", 1));
    world.queue(&created("first", 9).set(["spec", "priority"], 1));
    for name in ["young", "old"] {
        workers(&mut world, name, 1);
    }
    workers(&mut world, "first", 1);
    assert_eq!(world.admit_names(), ["first-0", "old-0", "young-0"]);
}

#[test]
fn a_capability_above_the_present_cluster_stops_nobody() {
    let mut world = cluster(4, "");
    world.queue(&plain("greedy").quota(r#"{"A": 100}"#).deserved_cards(r#"{"A": 90}"#));
    world.queue(&plain("other").deserved_cards(r#"{"A": 90}"#));
    workers(&mut world, "greedy", 2);
    workers(&mut world, "other", 2);
    assert_eq!(admitted(&mut world), 4);
}

#[test]
fn another_configuration_changes_what_is_compared_at_once() {
    let mut world = cluster(8, "");
    world.queue(&queue("research").quota(r#"{"A": 2}"#));
    world.queue(&plain("vision").parent("research"));
    workers(&mut world, "vision", 4);
    let now = world.now;
    let hierarchy = crate::world::capacity(ACTIONS, "enableHierarchy: true");
    world.set_configuration(hierarchy, now);
    assert_eq!(admitted(&mut world), 2);
    world
        .cluster
        .set_configuration(crate::world::capacity(ACTIONS, ""), now);
    assert_eq!(admitted(&mut world), 2);
}
