//! Devices that somebody keeps from pods by a taint: they are for those that tolerate it.

use serde_json::{Value, json};

use super::room::{FIRST, OF_A, ask, free, roomy, with};
use super::*;

#[test]
fn a_tainted_device_is_for_those_that_tolerate_it() {
    let mut world = roomy();
    let mut devices = gpus("A", 2);
    devices[0]["taints"] = json!([{"key": "sick", "value": "yes", "effect": "NoSchedule"}]);
    world.slice("n1", NVIDIA, &devices);
    ask(&mut world, "p1", &with(2, &[OF_A]));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    let tolerating = |toleration: Value| {
        let mut requests = with(2, &[OF_A]);
        requests[0]["exactly"]["tolerations"] = json!([toleration]);
        requests
    };
    for (name, toleration) in [
        ("p2", json!({"key": "sick", "operator": "Equal", "value": "no"})),
        ("p3", json!({"key": "sick", "value": "yes", "effect": "NoExecute"})),
        ("p4", json!({"key": "other", "operator": "Exists"})),
    ] {
        ask(&mut world, name, &tolerating(toleration));
        assert_eq!(world.refusal_of(name), "NoNodeFits", "{name}");
    }
    ask(&mut world, "p5", &tolerating(json!({"operator": "Exists"})));
    assert_eq!(world.admit(), [admitted("p5", r#"{"A":2}"#)]);
}

/// As by a driver: Kubernetes 1.37 has `DeviceTaintRule`s on.
#[test]
fn a_device_that_a_rule_taints_is_for_those_that_tolerate_it() {
    let mut world = roomy();
    let first = json!({"driver": NVIDIA, "pool": "n1", "device": "gpu-0"});
    world.taint_rule("sick", &first, "NoSchedule");
    assert_eq!(free(&world, "n1"), 3);
    ask(&mut world, "p1", &with(1, &[OF_A, FIRST]));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    let mut tolerating = with(1, &[OF_A, FIRST]);
    tolerating[0]["exactly"]["tolerations"] = json!([{"key": "sick", "value": "yes", "effect": "NoSchedule"}]);
    ask(&mut world, "p2", &tolerating);
    assert_eq!(world.admit(), [admitted("p2", "A")]);
    world.remove_pod("p2");
    world.remove_claim("p2-gpu");
    // Published anew, and with another taint beside: it is tainted by the rule still.
    let mut devices = gpus("A", 4);
    devices[1]["taints"] = json!([{"key": "other", "effect": "NoExecute"}]);
    world.slice("n1", NVIDIA, &devices);
    assert_eq!(free(&world, "n1"), 2);
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    // One that only informs, one that selects nothing, and one of another driver's devices.
    world.taint_rule("sick", &first, "None");
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.taint_rule("nothing", &json!(null), "NoExecute");
    world.taint_rule("elsewhere", &json!({"driver": "npu.example.com"}), "NoExecute");
    assert_eq!(free(&world, "n1"), 2);
    world.taint_rule("all", &json!({}), "NoExecute");
    assert_eq!(free(&world, "n1"), 0);
    world.remove_taint_rule("all");
    assert_eq!(free(&world, "n1"), 2);
}

#[test]
fn rules_that_no_list_names_taint_nothing_any_more() {
    use engine::cluster::Kind;
    let mut world = roomy();
    world.taint_rule("a", &json!({"device": "gpu-0"}), "NoSchedule");
    world.taint_rule("b", &json!({"device": "gpu-1"}), "NoSchedule");
    assert_eq!(free(&world, "n1"), 2);
    world.begin_list(Kind::DeviceTaintRule);
    world.taint_rule("b", &json!({"device": "gpu-1"}), "NoSchedule");
    world.end_list(Kind::DeviceTaintRule, world.now);
    assert_eq!(free(&world, "n1"), 3);
    world.not_installed(Kind::DeviceTaintRule, world.now);
    assert_eq!(free(&world, "n1"), 4);
}

/// Whoever may have one of several cards, too.
#[test]
fn devices_that_are_tainted_and_held_leave_the_others_free() {
    let mut world = world();
    for index in 0..2 {
        let (name, claim) = (format!("h{index}"), format!("h{index}-gpu"));
        let device = format!("gpu-{index}");
        world.claim(&claim, &exactly(1, Some("A")), &allocated("n1", &[&device]));
        let holder = bare_pod(&name).queue("team-a").assigned("A");
        world.pod(&claiming(holder, &claim).on("n1"));
    }
    let mut devices = gpus("A", 4);
    for device in devices.as_array_mut().unwrap().iter_mut().take(2) {
        device["taints"] = json!([{"key": "sick", "effect": "NoSchedule"}]);
    }
    world.slice("n1", NVIDIA, &devices);
    world.queue(&queue("team-a").quota(r#"{"A": 8, "B": 8}"#));
    for (name, count, card) in [("p1", 2, r#"{"A":2}"#), ("p2", 1, "B")] {
        world.claim(&format!("{name}-gpu"), &exactly(count, None), &json!({}));
        let pod = pod(name).annotation("volcano.sh/card.name", "A|B");
        world.pod(&claiming(pod, &format!("{name}-gpu")));
        assert_eq!(world.admit(), [admitted(name, card)]);
    }
}

/// Such are the devices of a node that somebody keeps for himself. What the cluster has is counted without them, and hid them.
#[test]
fn tainted_devices_are_for_those_that_tolerate_them_also_where_there_are_no_others() {
    let mut world = World::with(crate::world::capacity("enqueue, allocate, backfill", ""));
    world.node(&node("n1"));
    let mut devices = gpus("A", 2);
    for device in devices.as_array_mut().unwrap() {
        device["taints"] = json!([{"key": "mine", "effect": "NoSchedule"}]);
    }
    world.slice("n1", NVIDIA, &devices);
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", Some(GPU));
    world.queue(&bare_queue("team-a"));
    ask(&mut world, "others", &with(1, &[OF_A]));
    assert_eq!(world.refusal_of("others"), "NoNodeFits");
    let mut tolerating = with(2, &[OF_A]);
    tolerating[0]["exactly"]["tolerations"] = json!([{"key": "mine", "operator": "Exists"}]);
    ask(&mut world, "mine", &tolerating);
    assert_eq!(world.admit(), [admitted("mine", r#"{"A":2}"#)]);
    // There are no more than these, also when they are in use.
    world.claim("mine-gpu", &tolerating, &allocated("n1", &["gpu-0", "gpu-1"]));
    world.pod(
        &claiming(bare_pod("mine").queue("team-a"), "mine-gpu")
            .assigned(r#"{"A":2}"#)
            .on("n1"),
    );
    tolerating[0]["exactly"]["count"] = json!(1);
    ask(&mut world, "late", &tolerating);
    assert_eq!(world.refusal_of("late"), "InsufficientScalarQuota");
    // A guarantee rests on what everybody can get.
    world.queue(&bare_queue("owner").guaranteed_cards(r#"{"A": 1}"#));
    world.remove_pod("mine");
    world.remove_claim("mine-gpu");
    assert_eq!(world.refusal_of("late"), "InsufficientScalarQuota");
    world.queue(&bare_queue("owner"));
    assert_eq!(world.admit(), [admitted("late", "A")]);
    // A node that takes no pods has none to give.
    ask(&mut world, "next", &tolerating);
    world.node(&node("n2"));
    world.node(&node("n1").cordoned());
    assert_eq!(world.refusal_of("next"), "InsufficientScalarQuota");
}
