//! Who has what somebody lacks: also those that no queue is charged for, and those that claim devices.

use super::*;
use crate::devices::{NVIDIA, claiming, gpus, request};
use crate::world::{GPU, bare_pod, configuration};

/// Of what a node lacks for a pod: how much each queue's pods hold, how many of these are this namespace's, and how many others'.
fn on_node(world: &mut World, name: &str) -> Vec<(String, String, i64, i64)> {
    let status = about(world, name);
    assert!(!format!("{status:?}").contains("secret"), "{status:?}");
    let shortages = status.blocks.iter().flat_map(|block| &block.shortages);
    let short = shortages.filter(|short| short.place.kind == "Node").collect::<Vec<_>>();
    let [short] = short.as_slice() else {
        panic!("{status:?}")
    };
    let held = short.holders.iter().map(|holder| {
        let pods = &holder.pods;
        (holder.queue.clone(), holder.amount.clone(), pods.own_count, pods.others)
    });
    held.collect()
}

#[test]
fn who_is_in_no_queue_is_told_among_those_who_hold_a_node() {
    let mut world = World::with(configuration("", "unqueuedCards: count"));
    world.node(&node("n1").cards("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    world.pod(&pod("mine").asks("A100", 1).ungated().on("n1"));
    let unqueued = |name: &str| bare_pod(name).requests(GPU, "1").on("n1");
    world.pods([unqueued("free"), unqueued("secret").namespace("other")]);
    world.pod(&pod("p").asks("A100", 3));
    assert_eq!(world.admit(), []);
    let text = |text: &str| text.to_owned();
    assert_eq!(
        on_node(&mut world, "p"),
        [(text("team-a"), text("1"), 1, 0), (String::new(), text("2"), 1, 1)]
    );
}

#[test]
fn who_claims_devices_is_told_among_those_who_hold_a_node() {
    let mut world = World::new();
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A100", 4));
    world.queue(&queue("team-a").quota(r#"{"A100": 8}"#));
    let times = json!({
        "spec": { "activeDeadlineSeconds": 100, "terminationGracePeriodSeconds": 10 },
        "status": { "startTime": at(0).to_string() },
    });
    let requests = json!([{"name": "r", "exactly": request(NVIDIA, 3, Some("A100"))}]);
    world.claim("c", &requests, &json!({}));
    let holder = claiming(pod("mine"), "c").with(&times);
    world.pod(&holder);
    assert_eq!(world.admit_names(), ["mine"]);
    world.confirm("mine");
    let allocated = crate::devices::allocated("n1", &["gpu-0", "gpu-1", "gpu-2"]);
    world.claim("c", &requests, &allocated);
    world.pod(&holder.ungated().assigned("A100").on("n1"));
    world.pod(&pod("p").asks("A100", 2));
    assert_eq!(world.admit(), []);
    assert_eq!(on_node(&mut world, "p"), [("team-a".to_owned(), "3".to_owned(), 1, 0)]);
    // And when it is over.
    let estimate = about(&mut world, "p").estimate.unwrap();
    assert_eq!(world.now + SignedDuration::from_secs(estimate.seconds), at(110));
}

/// They are in no total of the cluster, and were in no number here, though the pod may have them.
#[test]
fn who_tolerates_the_taint_of_devices_is_told_how_many_there_are() {
    let mut world = World::with(configuration("", ""));
    world.node(&node("n1"));
    let mut devices = gpus("A", 2);
    for device in devices.as_array_mut().unwrap() {
        device["taints"] = json!([{"key": "mine", "effect": "NoSchedule"}]);
    }
    world.slice("n1", NVIDIA, &devices);
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    let mut tolerating = request(NVIDIA, 1, Some("A"));
    tolerating["tolerations"] = json!([{"operator": "Exists"}]);
    for name in ["p1", "p2", "p3"] {
        world.claim(name, &json!([{"name": "r", "exactly": tolerating}]), &json!({}));
        world.pod(&claiming(pod(name), name));
    }
    assert_eq!(world.admit_names(), ["p1", "p2"]);
    let status = about(&mut world, "p3");
    let shortages = status.blocks.iter().flat_map(|block| &block.shortages);
    let on_node = shortages.filter(|short| short.place.kind == "Node");
    let numbers: Vec<_> = on_node
        .map(|short| (&*short.asked, &*short.used, short.limit.as_deref()))
        .collect();
    assert!(!numbers.is_empty(), "{status:?}");
    assert!(
        numbers.iter().all(|numbers| *numbers == ("1", "2", Some("2"))),
        "{numbers:?}"
    );
}
