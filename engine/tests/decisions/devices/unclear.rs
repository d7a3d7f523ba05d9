//! Claims of which can't be said what they are for: nobody's way past a quota, and told where and what it is.

use engine::explain::let_in;

use super::*;

/// No selector that Cardgate evaluates.
const NOT_EVALUATED: &str = "device.attributes['gpu.nvidia.com'].productName.replace(' ', '') == 'A'";
const GATE: [&str; 1] = ["card.volcano.sh/quota"];

fn selecting(class: &str, expression: &str) -> Value {
    json!([{"name": "r", "exactly": {"deviceClassName": class, "count": 1, "selectors": [{"cel": {"expression": expression}}]}}])
}

/// A pod that the door holds for its claims alone: it names neither queue nor card.
fn held(name: &str, claim: &str) -> Object {
    claiming(bare_pod(name).gates(&GATE), claim)
}

#[test]
fn a_claim_that_is_not_evaluated_is_no_way_past_the_queue_of_its_namespace() {
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    world.queue(&queue("team-a").quota(r#"{"A": 0}"#));
    world.claim("c", &selecting(NVIDIA, NOT_EVALUATED), &json!({}));
    world.pod(&held("p", "c"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("p"), "GetTaskRequestResourceFailed");
    let told = world.notices();
    assert!(
        told[0]
            .message
            .starts_with("claim gpu (c), request r: selector \"device."),
        "{told:?}"
    );
    // Its claim is made anew, and is charged as any other.
    world.claim("c", &exactly(1, Some("A")), &json!({}));
    assert_eq!(world.refusal_of("p"), "InsufficientScalarQuota");
}

/// After a restart, where no more is known than what was written: others were let in by its quota.
#[test]
fn who_was_let_in_holds_what_is_written_on_it_where_its_claim_is_not_evaluated() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.claim("c", &selecting(NVIDIA, NOT_EVALUATED), &json!({}));
    let let_in = bare_pod("p")
        .queue("team-a")
        .annotation("volcano.sh/card.assigned", "A");
    world.pod(&claiming(let_in, "c"));
    world.claim("d", &exactly(1, Some("A")), &json!({}));
    world.pod(&claiming(pod("q"), "d"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("q"), "InsufficientScalarQuota");
}

#[test]
fn devices_that_several_nodes_reach_are_no_way_past_it_either() {
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    world.slice_of(
        "fabric",
        &json!({"driver": NVIDIA, "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
            "allNodes": true, "devices": gpus("F", 2)}),
    );
    world.claim("c", &exactly(1, Some("F")), &json!({}));
    world.pod(&held("p", "c"));
    assert_eq!(world.admit_names(), [""; 0]);
    assert_eq!(world.refusal_of("p"), "GetTaskRequestResourceFailed");
}

#[test]
fn what_is_not_evaluated_of_other_devices_concerns_nobody() {
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    world.class("nic", "device.driver == 'nic.example.com'", None);
    world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
    world.claim("c", &selecting("nic", NOT_EVALUATED), &json!({}));
    world.pod(&held("p", "c"));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn where_nobody_is_charged_nobody_waits_for_it() {
    let mut world = world();
    world.claim("c", &selecting(NVIDIA, NOT_EVALUATED), &json!({}));
    world.pod(&held("p", "c"));
    assert_eq!(world.admit_names(), ["p"]);
}

/// Who comes now is held by nobody: so who was held while cards were charged waits for nothing either.
#[test]
fn who_was_held_for_claims_that_are_charged_to_nobody_now_is_let_in() {
    for class in ["absent", NVIDIA] {
        let mut world = world();
        world.set_configuration(configuration("", "unqueuedCards: charge"), world.now);
        world.claim(
            "c",
            &json!([{"name": "r", "exactly": request(class, 1, Some("AA"))}]),
            &json!({}),
        );
        world.pod(&held("p", "c"));
        world.pod(&held("q", "not-there"));
        assert_eq!(world.refusal_of("p"), "NoDeviceSelected");
        assert_eq!(world.refusal_of("q"), "ResourceClaimNotFound");
        world.set_configuration(configuration("", "unqueuedCards: count"), world.now);
        assert!(world.cluster.take_pods_wanted());
        world.pod(&held("p", "c"));
        world.pod(&held("q", "not-there"));
        assert_eq!(world.admit_names(), ["p", "q"]);
    }
}

#[test]
fn what_a_claim_lacks_is_told_with_its_name() {
    let mut world = world();
    world.claim("typo", &exactly(1, Some("AA")), &json!({}));
    world.claim(
        "class",
        &json!([{"name": "r", "exactly": request("gpu.nvidia.co", 1, None)}]),
        &json!({}),
    );
    for (claim, says) in [
        (
            "typo",
            "claim gpu, request r: no device of DeviceClass gpu.nvidia.com satisfies selector \
             \"device.attributes['gpu.nvidia.com'].productName == 'AA'\"",
        ),
        (
            "class",
            "claim gpu, request r: DeviceClass gpu.nvidia.co does not exist",
        ),
    ] {
        world.pod(&claiming(pod(claim), claim));
        assert_eq!(world.refusal_of(claim), "NoDeviceSelected");
        let told = world.notices();
        assert!(told[0].message.starts_with(says), "{told:?}");
    }
    world.pod(&sharing(pod("named"), "mine"));
    assert_eq!(world.refusal_of("named"), "ResourceClaimNotFound");
    let told = world.notices();
    assert!(
        told[0]
            .message
            .starts_with("claim gpu: there is no ResourceClaim mine in the pod's namespace yet"),
        "{told:?}"
    );
}

#[test]
fn who_shares_a_claim_is_told_with_whom() {
    let mut world = world();
    world.queue(&queue("team-a").quota(r#"{"A": 0}"#));
    world.claim("shared", &exactly(1, Some("A")), &json!({}));
    world.pod(&sharing(pod("first"), "shared"));
    world.pod(&sharing(pod("second"), "shared"));
    assert_eq!(world.refusal_of("second"), "ResourceClaimShared");
    let told = world.notices();
    let said = "the pod shares ResourceClaim shared with pod first of its namespace";
    assert!(told.iter().any(|notice| notice.message.starts_with(said)), "{told:?}");
}

/// Without the gate it is nobody's business any more: it said for ever that it waits.
#[test]
fn who_was_held_for_claims_that_are_for_no_cards_is_told_that_it_is_let_in() {
    let mut world = world();
    world.set_configuration(configuration("", "unqueuedCards: charge"), world.now);
    world.pod(&held("p", "c"));
    assert_eq!(world.refusal_of("p"), "ResourceClaimNotFound");
    world.class("nic", "device.driver == 'nic.example.com'", None);
    world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
    world.claim(
        "c",
        &json!([{"name": "r", "exactly": request("nic", 1, None)}]),
        &json!({}),
    );
    assert_eq!(world.admit_names(), ["p"]);
    world.cluster.take_changes();
    world.pod(&claiming(bare_pod("p"), "c").told("ResourceClaimNotFound"));
    assert_eq!(world.cluster.take_changes().shown_as_waiting, ["p".into()]);
    let said = let_in(&world.cluster, world.known("p"));
    assert_eq!(said, "let in: nothing that the pod asks for is charged to a queue");
}

/// Whether what may come are cards, the class says by the devices that it has, also by those that the claim does not select.
#[test]
fn who_waits_for_what_may_be_cards_is_judged_anew_when_its_class_has_other_devices() {
    let mut world = world();
    for class in ["accel", "fpga"] {
        world.class(class, &format!("device.driver == '{class}.example.com'"), None);
    }
    world.slice("n2", "fpga.example.com", &json!([{"name": "f"}]));
    let selectors = json!([{"cel": {"expression": "device.attributes['accel.example.com'].model == 'X'"}}]);
    let forms = json!([{"name": "a", "deviceClassName": "accel", "selectors": selectors}, {"name": "f", "deviceClassName": "fpga"}]);
    world.claim("c", &json!([{"name": "r", "firstAvailable": forms}]), &json!({}));
    world.pod(&claiming(pod("p"), "c"));
    assert_eq!(world.refusal_of("p"), "NoDeviceSelected");
    let other = json!([{"name": "y", "attributes": {"model": {"string": "Y"}}}]);
    world.slice("n1", "accel.example.com", &other);
    assert_eq!(world.admit(), [("p".to_owned(), None)]);
}
