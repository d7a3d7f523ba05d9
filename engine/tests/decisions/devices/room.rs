//! Room by device: a pod goes where the devices that its claims select are free, and nowhere else.

use serde_json::{Value, json};

use super::*;

/// A request for so many devices of which all of this holds.
pub(super) fn with(count: i64, expressions: &[&str]) -> Value {
    let selectors: Vec<_> = expressions
        .iter()
        .map(|text| json!({"cel": {"expression": text}}))
        .collect();
    json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "count": count, "selectors": selectors}}])
}

pub(super) const OF_A: &str = "device.attributes['gpu.nvidia.com'].productName == 'A'";
pub(super) const FIRST: &str = "device.attributes['gpu.nvidia.com'].index == 0";

/// A queue with quota for everything.
pub(super) fn roomy() -> World {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100}"#));
    world
}

pub(super) fn ask(world: &mut World, name: &str, requests: &Value) {
    let claim = format!("{name}-gpu");
    world.claim(&claim, requests, &json!({}));
    world.pod(&claiming(pod(name), &claim));
}

#[test]
fn a_device_that_a_selector_leaves_alone_is_given_once() {
    let mut world = roomy();
    ask(&mut world, "p1", &with(1, &[OF_A, FIRST]));
    ask(&mut world, "p2", &with(1, &[OF_A, FIRST]));
    ask(&mut world, "p3", &with(3, &[OF_A]));
    ask(&mut world, "p4", &with(1, &[OF_A]));
    assert_eq!(world.admit(), [admitted("p1", "A"), admitted("p3", r#"{"A":3}"#)]);
    // What was let in is counted before it is allocated, and all four are expected.
    assert_eq!(
        (world.refusal_of("p2"), world.refusal_of("p4")),
        ("NoNodeFits", "NoNodeFits")
    );
    world.claim("p1-gpu", &with(1, &[OF_A, FIRST]), &allocated("n1", &["gpu-0"]));
    assert_eq!(world.admit_names(), [""; 0]);
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    assert_eq!(world.admit(), [admitted("p2", "A")]);
}

#[test]
fn a_pod_that_has_devices_has_room_beside_them_before_it_is_bound_after_a_restart_too() {
    let mut world = roomy();
    // Of 64 cores that the node has.
    let large = |pod: Object| pod.requests("cpu", "40");
    world.claim("p1-gpu", &with(1, &[OF_A]), &allocated("n1", &["gpu-0"]));
    let let_in = bare_pod("p1")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", "A");
    world.pod(&claiming(large(let_in), "p1-gpu"));
    world.claim("p2-gpu", &with(1, &[OF_A]), &json!({}));
    world.pod(&claiming(large(pod("p2")), "p2-gpu"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    world.remove_pod("p1");
    assert_eq!(world.admit_names(), ["p2"]);
}

#[test]
fn a_pod_that_takes_any_leaves_the_one_device_that_another_asks_for() {
    let mut world = roomy();
    ask(&mut world, "any", &with(3, &[OF_A]));
    ask(&mut world, "first", &with(1, &[OF_A, FIRST]));
    assert_eq!(world.admit(), [admitted("any", r#"{"A":3}"#), admitted("first", "A")]);
}

#[test]
fn of_its_alternatives_a_pod_that_is_expected_takes_as_many_as_it_is_charged_for() {
    let mut world = roomy();
    let all_or_one = first_of(&[(4, "A"), (1, "A")]);
    ask(&mut world, "large", &all_or_one);
    assert_eq!(world.admit(), [admitted("large", r#"{"A":4}"#)]);
    // Where the scheduler came to this one first, the other would find fewer than it is charged for.
    ask(&mut world, "small", &with(1, &[OF_A]));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("small"), "NoNodeFits");
    // It was given fewer than that after all.
    world.claim("large-gpu", &all_or_one, &allocated("n1", &["gpu-0"]));
    assert_eq!(world.admit(), [admitted("small", "A")]);
}

#[test]
fn devices_of_claims_that_no_pod_of_cardgates_has_are_not_free() {
    let mut world = roomy();
    // Made by hand, in another namespace, without a pod.
    world.claim_in(
        "elsewhere",
        "by-hand",
        &with(3, &[OF_A]),
        &allocated("n1", &["gpu-0", "gpu-1", "gpu-2"]),
    );
    ask(&mut world, "p1", &with(2, &[OF_A]));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    assert_eq!(free(&world, "n1"), 1);
    ask(&mut world, "p2", &with(1, &[OF_A, FIRST]));
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    world.remove_claim_in("elsewhere", "by-hand");
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#), admitted("p2", "A")]);
    assert_eq!(free(&world, "n1"), 1);
}

#[test]
fn what_only_looks_at_devices_holds_none() {
    let mut world = roomy();
    let mut status = allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    for result in status["allocation"]["devices"]["results"].as_array_mut().unwrap() {
        result["adminAccess"] = json!(true);
    }
    world.claim("monitor", &with(4, &[OF_A]), &status);
    ask(&mut world, "p1", &with(4, &[OF_A]));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":4}"#)]);
}

#[test]
fn devices_that_have_to_be_alike_are_on_one_node_or_nowhere() {
    let mut world = roomy();
    let mut devices = gpus("A", 4);
    for (index, numa) in [0, 0, 0, 1].into_iter().enumerate() {
        devices[index]["attributes"]["numaNode"] = json!({"int": numa});
    }
    world.slice("n1", NVIDIA, &devices);
    let alike = |world: &mut World, name: &str, count: i64, constraint: &str| {
        let claim = format!("{name}-gpu");
        let requests = with(count, &[OF_A]);
        world.claim_with(
            &claim,
            &json!({"requests": requests, "constraints": [{constraint: "gpu.nvidia.com/numaNode"}]}),
            &json!({}),
        );
        world.pod(&claiming(pod(name), &claim));
    };
    alike(&mut world, "p1", 4, "matchAttribute");
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    let told = world.notices();
    assert!(told[0].message.contains("without free devices"), "{told:?}");
    assert!(told[0].message.contains("waiting can't help"), "{told:?}");
    alike(&mut world, "p2", 2, "distinctAttribute");
    alike(&mut world, "p3", 2, "matchAttribute");
    assert_eq!(
        world.admit(),
        [admitted("p2", r#"{"A":2}"#), admitted("p3", r#"{"A":2}"#)]
    );
    // Nothing has this attribute.
    let claim = json!({"requests": with(1, &[OF_A]), "constraints": [{"matchAttribute": "example.com/none"}]});
    world.claim_with("p4-gpu", &claim, &json!({}));
    world.remove_pod("p2");
    world.remove_claim("p2-gpu");
    world.pod(&claiming(pod("p4"), "p4-gpu"));
    assert_eq!(world.refusal_of("p4"), "NoNodeFits");
}

/// One card with two halves, and a whole one that takes both.
fn partitionable(world: &mut World) {
    let device = |name: &str, of: Value, slices: i64| {
        let mut attributes = json!({"productName": {"string": "P"}, "parentUUID": {"string": "GPU-1"}});
        for (key, value) in of.as_object().unwrap() {
            attributes[key] = json!({"string": value});
        }
        json!({"name": name, "attributes": attributes,
            "consumesCounters": [{"counterSet": "gpu-0", "counters": {"slices": {"value": slices.to_string()}}}]})
    };
    let half = json!({"type": "mig", "profile": "1g.5gb"});
    let devices = json!([
        device("gpu-0", json!({"type": "gpu"}), 2),
        device("mig-0", half.clone(), 1),
        device("mig-1", half, 1)
    ]);
    let pool = json!({"name": "n3", "generation": 1, "resourceSliceCount": 2});
    world.node(&node("n3"));
    world.slice_of(
        "n3-counters",
        &json!({"driver": NVIDIA, "nodeName": "n3", "pool": pool,
        "sharedCounters": [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]}),
    );
    world.slice_of(
        "n3-devices",
        &json!({"driver": NVIDIA, "nodeName": "n3", "pool": pool, "devices": devices}),
    );
    let is_mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'";
    world.class("mig.nvidia.com", is_mig, None);
    world.queue(&queue("team-a").quota(r#"{"P": 9, "P/mig-1g.5gb-mixed": 9}"#));
}

#[test]
fn a_whole_card_and_its_parts_are_not_there_at_once() {
    let mut world = roomy();
    partitionable(&mut world);
    let whole = json!([{"name": "r", "exactly": request(NVIDIA, 1, Some("P"))}]);
    let halves = |count: i64| json!([{"name": "r", "exactly": {"deviceClassName": "mig.nvidia.com", "count": count}}]);
    let half = "P/mig-1g.5gb-mixed";
    ask(&mut world, "p1", &halves(1));
    assert_eq!(world.admit(), [admitted("p1", half)]);
    ask(&mut world, "p2", &whole);
    assert_eq!(world.refusal_of("p2"), "NoNodeFits", "before it is allocated");
    world.claim("p1-gpu", &halves(1), &allocated("n3", &["mig-1"]));
    assert_eq!(world.refusal_of("p2"), "NoNodeFits", "and after");
    assert_eq!((free_of(&world, "n3", "P"), free_of(&world, "n3", half)), (0, 1));
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    assert_eq!(world.admit(), [admitted("p2", "P")]);
    world.claim("p2-gpu", &whole, &allocated("n3", &["gpu-0"]));
    assert_eq!((free_of(&world, "n3", "P"), free_of(&world, "n3", half)), (0, 0));
    ask(&mut world, "p3", &halves(1));
    assert_eq!(world.refusal_of("p3"), "NoNodeFits");
}

#[test]
fn resources_that_classes_provide_take_devices_too() {
    let mut world = roomy();
    world.pod(&pod("p1").annotation("volcano.sh/card.name", "A").requests(GPU, "4"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    ask(&mut world, "p2", &with(1, &[OF_A, FIRST]));
    assert_eq!(
        world.refusal_of("p2"),
        "NoNodeFits",
        "let in, and nothing allocated yet"
    );
    // The scheduler makes a claim of its own, and binds the pod.
    let bound = bare_pod("p1")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", "A")
        .requests(GPU, "4")
        .on("n1");
    let named = json!({"resourceClaimName": "p1-extended"});
    world.pod(&bound.clone().set(["status", "extendedResourceClaimStatus"], named));
    assert_eq!(world.refusal_of("p2"), "NoNodeFits", "its claim has not been seen yet");
    world.claim(
        "p1-extended",
        &with(4, &[OF_A]),
        &allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]),
    );
    assert_eq!(world.refusal_of("p2"), "NoNodeFits");
    assert_eq!(free(&world, "n1"), 0);
    world.remove_pod("p1");
    assert_eq!(world.refusal_of("p2"), "NoNodeFits", "the claim is still there");
    world.remove_claim("p1-extended");
    assert_eq!(world.admit(), [admitted("p2", "A")]);
}

#[test]
fn all_means_all_that_a_node_has_and_none_in_use() {
    let mut world = roomy();
    let all = json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All",
        "selectors": [{"cel": {"expression": OF_A}}]}}]);
    world.claim_in("elsewhere", "by-hand", &with(1, &[OF_A]), &allocated("n1", &["gpu-3"]));
    ask(&mut world, "p1", &all);
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    world.remove_claim_in("elsewhere", "by-hand");
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":4}"#)]);
}

/// Who tolerates what keeps others from a device is given it with all others.
#[test]
fn all_is_with_what_is_kept_from_others_where_that_is_tolerated() {
    let mut world = world();
    let tainted = |count: usize| {
        let mut devices = gpus("A", 4);
        for device in devices.as_array_mut().unwrap().iter_mut().take(count) {
            device["taints"] = json!([{"key": "sick", "effect": "NoSchedule"}]);
        }
        devices
    };
    world.slice("n1", NVIDIA, &tainted(2));
    let mut all = request(NVIDIA, 1, Some("A"));
    all["allocationMode"] = "All".into();
    all["tolerations"] = json!([{"operator": "Exists"}]);
    ask(&mut world, "p1", &json!([{"name": "r", "exactly": all}]));
    assert_eq!(
        world.refusal_of("p1"),
        "InsufficientScalarQuota",
        "four, and a quota of three"
    );
    // Be they tainted or not.
    world.slice("n1", NVIDIA, &tainted(4));
    assert_eq!(world.refusal_of("p1"), "InsufficientScalarQuota");
    world.queue(&queue("team-a").quota(r#"{"A": 4}"#));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":4}"#)]);
}

/// How many all are is judged anew where a node's number changes, and nobody else has to come.
#[test]
fn all_is_as_many_as_nodes_have_by_now() {
    let mut world = world();
    let all = |card: &str| {
        let selectors = request(NVIDIA, 1, Some(card))["selectors"].clone();
        json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All", "selectors": selectors}}])
    };
    ask(&mut world, "p1", &all("A"));
    assert_eq!(
        world.refusal_of("p1"),
        "InsufficientScalarQuota",
        "four, and a quota of three"
    );
    // One is taken away, and none comes that is not like the others.
    world.slice("n1", NVIDIA, &gpus("A", 3));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":3}"#)]);
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    // Where another node has more, whoever goes anywhere may get that many.
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &gpus("A", 2));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    ask(&mut world, "p3", &all("A"));
    assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota");
    world.slice("n3", NVIDIA, &gpus("A", 6));
    world.queue(&queue("team-a").quota(r#"{"A": 5}"#));
    assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota", "six");
    world.slice("n3", NVIDIA, &gpus("A", 2));
    assert_eq!(world.admit(), [admitted("p3", r#"{"A":4}"#)]);
}

/// Whoever makes a claim anew that no device of the node satisfies, where its pod was let in to go, keeps nobody else from that.
#[test]
fn who_can_not_be_given_its_devices_keeps_nobody_else_from_a_node() {
    let mut world = roomy();
    world.claim("mine", &with(1, &[OF_A]), &json!({}));
    world.pod(&sharing(pod("p1"), "mine"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.pod(&sharing(
        bare_pod("p1")
            .queue("team-a")
            .annotation("volcano.sh/card.assigned", "A"),
        "mine",
    ));
    world.remove_claim("mine");
    let tied =
        json!({"requests": with(1, &[OF_A]), "constraints": [{"matchAttribute": "gpu.nvidia.com/nobodyHasThis"}]});
    world.claim_with("mine", &tied, &json!({}));
    ask(&mut world, "p2", &with(3, &[OF_A]));
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":3}"#)]);
    // Who can be given them still is before others.
    ask(&mut world, "p3", &with(2, &[OF_A]));
    assert_eq!(world.refusal_of("p3"), "NoNodeFits");
}

#[test]
fn a_claim_that_is_allocated_already_is_had_on_its_node_alone() {
    let mut world = roomy();
    world.node(&node("n4"));
    world.slice("n4", NVIDIA, &gpus("A", 4));
    world.claim("shared", &with(1, &[OF_A]), &allocated("n4", &["gpu-1"]));
    world.pod(&sharing(pod("p1").pinned_to("n1"), "shared"));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    world.pod(&sharing(pod("p2"), "shared"));
    assert_eq!(world.refusal_of("p2"), "ResourceClaimShared");
}

#[test]
fn a_gang_gets_devices_for_each_of_its_pods_or_none() {
    let mut world = roomy();
    world.group(&group("g", 2));
    for name in ["p1", "p2"] {
        let claim = format!("{name}-gpu");
        world.claim(&claim, &with(1, &[OF_A, FIRST]), &json!({}));
        world.pod(&claiming(pod(name).of("g"), &claim));
    }
    assert_eq!(world.admit_names(), [""; 0], "there is one of that number");
    world.node(&node("n4"));
    world.slice("n4", NVIDIA, &gpus("A", 1));
    assert_eq!(world.admit_names().len(), 2);
}

/// How many cards of a node are free, as its inventory says.
pub(super) fn free(world: &World, node: &str) -> i128 {
    free_of(world, node, "A")
}

fn free_of(world: &World, node: &str, card: &str) -> i128 {
    let cluster = &world.cluster;
    let node = cluster.node(cluster.node_named(node).unwrap());
    let card = node.card(cluster.names().known_card(card).unwrap()).unwrap();
    node.use_of(card).1
}

/// Whoever has shares of cards was let in to any node with room on its cards.
#[test]
fn who_has_shares_of_cards_too_waits_for_the_devices_that_it_claims() {
    let mut world = World::with(configuration("", "unnamedCards: free"));
    let mgpu_node = node("n1").cards("L", 1).offers("nvidia.com/gpu", "0");
    world.node(&mgpu_node.mgpu(2, 10_000, "fixed-share"));
    world.slice("n1", NVIDIA, &gpus("A", 1));
    world.class(
        NVIDIA,
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
        None,
    );
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    for name in ["p1", "p2"] {
        world.claim(name, &with(1, &[OF_A]), &json!({}));
        world.pod(&claiming(pod(name).share(30, 1000), name));
    }
    assert_eq!(world.admit_names(), ["p1"]);
    assert_eq!(world.refusal_of("p2"), "InsufficientMGPU");
    let told = world.refusal();
    assert!(told.contains("1 without free devices as the pod claims them"), "{told}");
    world.remove_pod("p1");
    world.remove_claim("p1");
    assert_eq!(world.admit_names(), ["p2"]);
}
