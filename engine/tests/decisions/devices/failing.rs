//! Selectors that fail on some devices, since these lack what is asked for: the scheduler gives up on a pod that comes to such a device.

use super::*;

/// A whole card, and a part of another one.
fn whole_and_part() -> Value {
    let mut devices = gpus("A", 1);
    devices.as_array_mut().unwrap().push(part(1));
    devices
}

fn part(index: usize) -> Value {
    json!({"name": format!("gpu-{index}-mig"), "attributes": {"type": {"string": "mig"}, "productName": {"string": "A"},
        "profile": {"string": "1g"}, "parentUUID": {"string": format!("GPU-{index}")}}})
}

fn world_of_parts() -> World {
    let mut world = World::with(configuration("", "unnamedCards: charge"));
    for (node_name, devices) in [("n1", whole_and_part()), ("n2", json!([part(0), part(1)]))] {
        world.node(&node(node_name));
        world.slice(node_name, NVIDIA, &devices);
    }
    world.class("any", "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("team-a").quota(r#"{"A/mig-1g-mixed": 10}"#));
    world
}

fn ask(world: &mut World, name: &str, expression: &str) {
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "any", "selectors": [{"cel": {"expression": expression}}]}}]);
    world.claim(name, &requests, &json!({}));
    world.pod(&claiming(pod(name), name));
}

#[test]
fn nobody_is_let_in_to_a_node_where_a_selector_fails_on_another_device() {
    let mut world = world_of_parts();
    for name in ["p1", "p2", "p3"] {
        ask(&mut world, name, "device.attributes['gpu.nvidia.com'].profile == '1g'");
    }
    let admissions = world.admissions();
    let let_in: Vec<_> = admissions.iter().map(|admission| &*admission.pod.name).collect();
    assert_eq!(let_in, ["p1", "p2"]);
    // The labels of nodes don't say it.
    for admission in &admissions {
        assert_eq!(
            admission.pin.as_ref().map(|pin| &*pin.node),
            Some("n2"),
            "{admission:?}"
        );
    }
    assert_eq!(world.refusal_of("p3"), "NoNodeFits");
    let told = world.notices();
    let says = "1 with devices that lack an attribute which a selector of the pod's claims asks for";
    assert!(told.iter().any(|notice| notice.message.contains(says)), "{told:?}");
    // It fails on nothing any more.
    world.slice("n1", NVIDIA, &json!([part(1)]));
    assert_eq!(world.admit_names(), ["p3"]);
}

#[test]
fn who_asks_first_whether_it_is_there_may_go_anywhere() {
    let mut world = world_of_parts();
    let expression =
        "has(device.attributes['gpu.nvidia.com'].profile) && device.attributes['gpu.nvidia.com'].profile == '1g'";
    for name in ["p1", "p2", "p3"] {
        ask(&mut world, name, expression);
    }
    let admissions = world.admissions();
    assert_eq!(admissions.len(), 3);
    assert!(
        admissions.iter().all(|admission| admission.pin.is_none()),
        "{admissions:?}"
    );
}

/// A device comes on which it fails, after the pod was read.
#[test]
fn what_fails_on_devices_that_come_later_fails_there() {
    let mut world = world_of_parts();
    world.slice("n1", NVIDIA, &json!([part(1)]));
    world.queue(&queue("team-a").quota(r#"{"A/mig-1g-mixed": 0}"#));
    ask(&mut world, "p", "device.attributes['gpu.nvidia.com'].profile == '1g'");
    assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
    world.slice("n1", NVIDIA, &whole_and_part());
    world.slice("n2", NVIDIA, &whole_and_part());
    world.queue(&queue("team-a").quota(r#"{"A/mig-1g-mixed": 10}"#));
    assert_eq!(world.refusal_of("p"), "NodesExcluded");
}
