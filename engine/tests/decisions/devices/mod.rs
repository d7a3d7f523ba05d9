//! Cards by Dynamic Resource Allocation: who is let in for what they claim, and what they are charged.

mod beside_plugin;
mod both_ways;
mod by_class;
mod choice;
mod effort;
mod evaluating;
mod failing;
mod gangs;
pub mod imagined;
mod of_classes;
mod reclaim;
mod remade;
mod room;
mod set_aside;
mod several_nodes;
mod sharers;
mod taints;
mod uncharged;
mod unclear;
mod unqueued;

use serde_json::{Value, json};

use crate::world::{GPU, Object, World, bare_pod, bare_queue, configuration, group, node, pod, queue, queue_plugin};

pub const NVIDIA: &str = "gpu.nvidia.com";
const LABEL_OF_A: &str = "device.card.volcano.sh/a-c40bf6cc";

/// Whole cards of one product, as NVIDIA's driver publishes them.
pub fn gpus(product: &str, count: usize) -> Value {
    let device = |index| {
        json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"},
            "productName": {"string": product}, "index": {"int": index}}})
    };
    (0..count).map(device).collect()
}

pub fn request(class: &str, count: i64, product: Option<&str>) -> Value {
    let selector = |product: &str| json!([{"cel": {"expression": format!("device.attributes['{NVIDIA}'].productName == '{product}'")}}]);
    json!({"deviceClassName": class, "count": count, "selectors": product.map_or(json!([]), selector)})
}

/// A request for whole cards, of one product or any.
fn exactly(count: i64, product: Option<&str>) -> Value {
    json!([{"name": "r", "exactly": request(NVIDIA, count, product)}])
}

/// A request for the first of these that can be had, each so many of a card.
fn first_of(forms: &[(i64, &str)]) -> Value {
    let forms = forms.iter().enumerate().map(|(place, (count, card))| {
        let mut form = request(NVIDIA, *count, Some(card));
        form["name"] = format!("f{place}").into();
        form
    });
    json!([{"name": "r", "firstAvailable": forms.collect::<Value>()}])
}

pub fn claiming(pod: Object, claim: &str) -> Object {
    pod.set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]),
    )
    .set(
        ["status", "resourceClaimStatuses"],
        json!([{"name": "gpu", "resourceClaimName": claim}]),
    )
}

pub fn sharing(pod: Object, claim: &str) -> Object {
    pod.set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimName": claim}]),
    )
}

pub fn allocated(node: &str, devices: &[&str]) -> Value {
    let result = |device: &&str| json!({"request": "r", "driver": NVIDIA, "pool": node, "device": device});
    let user = json!({"resource": "pods", "name": "user", "uid": "1"});
    json!({"allocation": {"devices": {"results": devices.iter().map(result).collect::<Value>()}}, "reservedFor": [user]})
}

/// A node with four `A` by devices, and one with two `B`.
fn world() -> World {
    set("unnamedCards: charge")
}

fn set(settings: &str) -> World {
    let mut world = World::with(configuration("", settings));
    world.node(&node("n1"));
    world.node(&node("n2"));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    world.slice("n2", NVIDIA, &gpus("B", 2));
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    world.class(NVIDIA, is_gpu, Some(GPU));
    world.queue(&queue("team-a").quota(r#"{"A": 3, "B": 1}"#));
    world
}

fn admitted(name: &str, card: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(card.to_owned()))
}

#[test]
fn a_pod_is_charged_for_the_card_that_its_claim_selects() {
    let mut world = world();
    world.claim("p1-gpu", &exactly(2, Some("A")), &json!({}));
    world.claim("p2-gpu", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    world.pod(&claiming(pod("p2"), "p2-gpu"));
    let admissions = world.admissions();
    let [first] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!((&*first.pod.name, first.card.as_deref()), ("p1", Some(r#"{"A":2}"#)));
    assert_eq!(first.narrow, [(LABEL_OF_A.to_owned(), "true".to_owned())]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    // What its claim got goes when it goes.
    world.remove_pod("p1");
    world.remove_claim("p1-gpu");
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":2}"#)]);
}

#[test]
fn a_claim_that_is_not_there_yet_is_waited_for() {
    let mut world = world();
    let waits = pod("p1").set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]),
    );
    world.pod(&waits);
    assert_eq!(world.refusal_of("p1"), "ResourceClaimNotFound");
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.admit_names(), [""; 0]);
    world.claim("p1-gpu", &exactly(1, Some("A")), &json!({}));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
}

#[test]
fn nothing_is_let_in_for_devices_that_are_not_there() {
    let mut world = world();
    world.claim("p1-gpu", &exactly(1, Some("C")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.refusal_of("p1"), "NoDeviceSelected");
    world.queue(&queue("team-a").quota(r#"{"C": 1}"#));
    world.node(&node("n3"));
    world.slice("n3", NVIDIA, &gpus("C", 1));
    assert_eq!(world.admit(), [admitted("p1", "C")]);
}

#[test]
fn several_cards_are_chosen_by_the_annotation_by_the_claims_order_or_by_the_queue() {
    let mut world = world();
    for claim in ["p1-gpu", "p2-gpu", "p3-gpu"] {
        world.claim(claim, &exactly(1, None), &json!({}));
    }
    world.pod(&claiming(pod("p1").annotation("volcano.sh/card.name", "B|A"), "p1-gpu"));
    assert_eq!(world.admit(), [admitted("p1", "B")]);
    world.pod(&claiming(pod("p2"), "p2-gpu"));
    assert_eq!(world.admit(), [admitted("p2", "A")], "most free quota first");
    world.claim("p3-gpu", &exactly(1, Some("A")), &json!({}));
    world.pod(&claiming(pod("p3").annotation("volcano.sh/card.name", "B"), "p3-gpu"));
    assert_eq!(world.refusal_of("p3"), "NoClaimForCard");
    let forms = json!([request(NVIDIA, 1, Some("B")), request(NVIDIA, 1, Some("A"))]);
    world.claim("p4-gpu", &json!([{"name": "r", "firstAvailable": forms}]), &json!({}));
    world.pod(&claiming(pod("p4"), "p4-gpu"));
    assert_eq!(world.admit(), [admitted("p4", "A")], "the quota of B is used");
}

#[test]
fn cards_that_claims_name_are_charged_where_unnamed_ones_are_free() {
    let mut world = set("unnamedCards: free");
    world.claim("p1-gpu", &exactly(4, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.refusal_of("p1"), "InsufficientScalarQuota");
    world.claim("p2-gpu", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p2"), "p2-gpu"));
    assert_eq!(world.admit(), [admitted("p2", r#"{"A":2}"#)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    // In order: the first that there is quota for.
    let forms = json!([request(NVIDIA, 2, Some("A")), request(NVIDIA, 1, Some("B"))]);
    world.claim("p3-gpu", &json!([{"name": "r", "firstAvailable": forms}]), &json!({}));
    world.pod(&claiming(pod("p3"), "p3-gpu"));
    assert_eq!(world.admit(), [admitted("p3", "B")]);
    // Which of several it gets, it does not say.
    world.claim("p4-gpu", &exactly(1, None), &json!({}));
    world.pod(&claiming(pod("p4"), "p4-gpu"));
    assert_eq!(world.admit_names(), ["p4"]);
    assert_eq!((world.allocated("team-a", "A"), world.allocated("team-a", "B")), (2, 1));
}

#[test]
fn claims_of_pods_that_nothing_names_a_queue_for_are_only_counted_as_unqueued_cards_says() {
    for (unqueued, charged) in [("count", 0), ("charge", 2)] {
        let mut world = set(&format!("unnamedCards: free\nunqueuedCards: {unqueued}"));
        world.queue(&queue("default").quota(r#"{"A": 2}"#));
        world.claim("p1-gpu", &exactly(2, Some("A")), &json!({}));
        world.group(&group("g", 1).set(["spec", "queue"], ""));
        world.pod(&claiming(
            bare_pod("p1").of("g").gates(&["card.volcano.sh/quota"]),
            "p1-gpu",
        ));
        assert_eq!(world.admit_names(), ["p1"], "{unqueued}");
        assert_eq!(world.allocated("default", "A"), charged, "{unqueued}");
    }
}

#[test]
fn resources_that_classes_provide_are_the_same_cards() {
    let mut world = world();
    world.pod(&pod("p1").annotation("volcano.sh/card.name", "B").requests(GPU, "1"));
    world.pod(&pod("p2").requests("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "1"));
    let mut names = world.admit();
    names.sort();
    assert_eq!(names, [admitted("p1", "B"), admitted("p2", "A")]);
    // Without the class nobody hands them out.
    world.claim("none", &exactly(1, Some("A")), &json!({}));
    let mut without = World::with(configuration("", ""));
    without.node(&node("n1"));
    without.slice("n1", NVIDIA, &gpus("A", 4));
    without.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    without.pod(&pod("p1").annotation("volcano.sh/card.name", "A").requests(GPU, "1"));
    assert_eq!(without.admit_names(), [""; 0]);
}

#[test]
fn both_worlds_share_one_quota_and_not_their_nodes() {
    let mut world = world();
    world.node(&node("n3").cards("A", 4));
    world.claim("p1-gpu", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.pod(&pod("p2").asks("A", 2));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    // Six more are free on the node with a device plugin, and none for claims.
    world.queue(&queue("team-a").quota(r#"{"A": 30}"#));
    world.claim("p3-gpu", &exactly(3, Some("A")), &json!({}));
    world.pod(&claiming(pod("p3"), "p3-gpu"));
    assert_eq!(world.admit(), [admitted("p2", "A")]);
    assert_eq!(world.refusal_of("p3"), "NoNodeFits");
}

#[test]
fn what_others_claims_got_is_not_free() {
    let mut world = world();
    world.claim(
        "other-gpu",
        &exactly(3, None),
        &allocated("n1", &["gpu-0", "gpu-1", "gpu-2"]),
    );
    world.pod(&claiming(bare_pod("other"), "other-gpu").on("n1"));
    world.claim("p1-gpu", &exactly(2, Some("A")), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    // Kubernetes takes the claim after the pod.
    world.remove_pod("other");
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    world.remove_claim("other-gpu");
    assert_eq!(world.admit(), [admitted("p1", r#"{"A":2}"#)]);
}

#[test]
fn what_was_allocated_is_charged_in_place_of_what_was_asked_for() {
    let mut world = world();
    world.claim("p1-gpu", &exactly(1, None), &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.claim("p1-gpu", &exactly(1, None), &allocated("n2", &["gpu-0"]));
    assert_eq!((world.allocated("team-a", "A"), world.allocated("team-a", "B")), (0, 1));
}

#[test]
fn what_a_pod_runs_on_is_held_while_nobody_says_what_it_is() {
    let mut world = world();
    let runs = |name: &str| {
        let pod = bare_pod(name)
            .queue("team-a")
            .annotation("volcano.sh/card.assigned", "A");
        claiming(pod, &format!("{name}-gpu")).on("n1")
    };
    let two = allocated("n1", &["gpu-0", "gpu-1"]);
    world.claim("p1-gpu", &exactly(2, Some("A")), &two);
    world.pod(&runs("p1"));
    assert_eq!(world.allocated("team-a", "A"), 2);
    // The driver begins anew.
    world.remove_slice("n1", NVIDIA);
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.slice("n1", NVIDIA, &gpus("A", 4));
    // Somebody takes the claim away from under the pod.
    world.remove_claim("p1-gpu");
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.pod(&runs("p1"));
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.remove_pod("p1");
    assert_eq!(world.allocated("team-a", "A"), 0);

    // Whoever begins while the slices are away knows the card by what is written on the pod.
    world.remove_slice("n1", NVIDIA);
    world.claim("p2-gpu", &exactly(2, Some("A")), &two);
    world.pod(&runs("p2"));
    assert_eq!(world.allocated("team-a", "A"), 2);
}

#[test]
fn devices_that_are_no_cards_are_nobodys_business() {
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    world.class("fpga", "device.driver == 'fpga.example.com'", None);
    world.slice("n2", "fpga.example.com", &json!([{"name": "f"}]));
    world.claim(
        "p1-fpga",
        &json!([{"name": "r", "exactly": {"deviceClassName": "fpga"}}]),
        &json!({}),
    );
    let held = |name: &str| bare_pod(name).gates(&["card.volcano.sh/quota"]);
    world.pod(&claiming(held("p1"), "p1-fpga"));
    assert_eq!(world.admit(), [("p1".to_owned(), None)]);
    assert_eq!(world.allocated_cpu("team-a"), 0);
    // The same for cards is the namespace's queue's.
    world.claim("p2-gpu", &exactly(2, Some("B")), &json!({}));
    world.pod(&claiming(held("p2"), "p2-gpu"));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    // And what nobody knows yet may be cards.
    world.pod(&claiming(held("p3"), "p3-gpu"));
    assert_eq!(world.admit_names(), [""; 0]);
    world.claim("p3-gpu", &exactly(1, Some("B")), &json!({}));
    assert_eq!(world.admit(), [admitted("p3", "B")]);
}

#[test]
fn what_only_looks_at_devices_is_charged_nothing() {
    let mut world = world();
    let admin =
        json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "adminAccess": true, "allocationMode": "All"}}]);
    world.claim("p1-gpu", &admin, &json!({}));
    world.pod(&claiming(pod("p1"), "p1-gpu"));
    assert_eq!(world.admit(), [("p1".to_owned(), None)]);
    assert_eq!(world.allocated("team-a", "A"), 0);
}

#[test]
fn devices_of_other_drivers_are_cards_as_soon_as_the_configuration_says_so() {
    let mut world = world();
    world.node(&node("n3"));
    let npu = json!([{"name": "npu-0", "attributes": {"product": {"string": "Great NPU"}}}]);
    world.slice("n3", "npu.example.com", &npu);
    world.class("npu", "device.driver == 'npu.example.com'", None);
    world.queue(&queue("team-a").quota(r#"{"Great-NPU": 1}"#));
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "npu"}}]);
    world.claim("p1-npu", &requests, &json!({}));
    world.claim("p2-npu", &requests, &json!({}));
    world.pod(&claiming(pod("p1"), "p1-npu"));
    let now = world.now;
    world.set_configuration(
        configuration("", "cardDrivers: [{driver: npu.example.com, product: product}]"),
        now,
    );
    world.pod(&claiming(pod("p2"), "p2-npu"));
    assert_eq!(world.admit(), [admitted("p1", "Great-NPU")]);
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
}

#[test]
fn a_cluster_without_these_kinds_has_none_of_it() {
    use engine::cluster::Kind;
    let mut world = world();
    for kind in [
        Kind::ResourceSlice,
        Kind::DeviceClass,
        Kind::DeviceTaintRule,
        Kind::ResourceClaim,
    ] {
        world.not_installed(kind, world.now);
    }
    world.pod(&pod("p1").annotation("volcano.sh/card.name", "A").requests(GPU, "1"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.cluster.device_labels_to_set().count(), 0);
}
