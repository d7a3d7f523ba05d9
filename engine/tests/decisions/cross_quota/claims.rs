//! Pods that claim devices: those that a device is asked for are left alone, and a claim that asks for none leaves a pod without GPU
//! (docs/rules.md, **CrossQuota**).

use serde_json::{Value, json};

use super::*;
use crate::devices::{NVIDIA, allocated, claiming, gpus, request, sharing};
use crate::world::queue;

/// A node with GPUs that takes no pod with more than one core, and one with devices, of a class for cards and of one for others.
fn by_devices() -> World {
    let mut world = world("quota.cpu: 1");
    world.node(&gpu_node("gpu-1"));
    world.node(&node("n1"));
    world.slice("n1", NVIDIA, &gpus("A", 4));
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    world.class(NVIDIA, is_gpu, None);
    world.class("nic", "device.driver == 'nic.example.com'", None);
    // Nothing else is left of it.
    world.pod(&bare_pod("full").requests("cpu", "64").on("n1"));
    world
}

fn exactly(class: &str) -> Value {
    json!([{"name": "r", "exactly": request(class, 1, None)}])
}

/// Lets in what there is, which must be this pod alone, as one that goes where the scheduler wants.
#[track_caller]
fn is_left_alone(world: &mut World) {
    let admissions = world.admissions();
    let [admission] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert!(
        admission.pin.is_none() && admission.off_gpu_nodes.is_none(),
        "{admission:?}"
    );
}

/// It costs nothing to make one, and would take any pod out of the quotas.
#[test]
fn a_claim_that_asks_for_nothing_leaves_a_pod_without_gpu() {
    let mut world = by_devices();
    world.claim("empty", &json!([]), &json!({}));
    world.pod(&claiming(cpu("p", "2"), "empty"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.pod(&claiming(cpu("small", "1"), "empty"));
    assert_eq!(pinned(&mut world), "gpu-1");
}

#[test]
fn who_claims_a_card_or_another_device_is_left_alone() {
    for class in [NVIDIA, "nic"] {
        let mut world = by_devices();
        world.claim("c", &exactly(class), &json!({}));
        world.pod(&claiming(cpu("p", "2"), "c"));
        is_left_alone(&mut world);
    }
}

/// Nobody is charged for it, so that nobody need know what it is for.
#[test]
fn a_claim_that_can_not_be_read_keeps_nobody() {
    let mut world = by_devices();
    let mut form = request(NVIDIA, 1, None);
    form["selectors"] = json!([{"cel": {"expression": "device.driver.replace('a', 'b') == 'b'"}}]);
    world.claim("c", &json!([{"name": "r", "exactly": form}]), &json!({}));
    world.pod(&claiming(cpu("p", "2"), "c"));
    is_left_alone(&mut world);
}

/// Else whoever comes to have cards by it would have them past the quota of the namespace's queue.
#[test]
fn where_cards_are_charged_who_claims_what_is_not_known_waits() {
    let mut world = by_devices();
    world.set_configuration(configuration("quota.cpu: 1", "unqueuedCards: charge"), world.now);
    world.claim("c", &exactly("absent"), &json!({}));
    world.pod(&claiming(cpu("p", "2"), "c"));
    assert_eq!(world.refusal_of("p"), "NoDeviceSelected");
}

/// As before Kubernetes 1.34, where pods may claim by older versions.
#[test]
fn where_no_claims_are_to_be_seen_whoever_names_one_is_left_alone() {
    let mut world = by_devices();
    world.pod(&claiming(cpu("p", "2"), "c"));
    assert_eq!(world.refusal_of("p"), "ResourceClaimNotFound");
    let now = world.now;
    world.not_installed(engine::cluster::Kind::ResourceClaim, now);
    is_left_alone(&mut world);
}

/// It may ask for nothing, or for a GPU.
#[test]
fn a_claim_that_is_not_there_is_waited_for() {
    let mut world = by_devices();
    world.pod(&claiming(cpu("p", "1"), "c"));
    assert_eq!(world.refusal_of("p"), "ResourceClaimNotFound");
    world.claim("c", &exactly(NVIDIA), &json!({}));
    is_left_alone(&mut world);
}

/// As those are that run without the mark, whom nobody held.
#[test]
fn who_was_left_alone_and_has_cards_is_charged_once_cards_are_charged() {
    for by_namespace in [true, false] {
        let mut world = by_devices();
        world.queue(&queue("q").quota(r#"{"A": 4}"#));
        world.queue(&queue("default").quota(r#"{"A": 4}"#));
        let pods = [
            ("marked", cpu("marked", "2"), "gpu-0"),
            ("bare", bare_pod("bare"), "gpu-1"),
        ];
        for (name, made, device) in pods {
            world.claim(name, &exactly(NVIDIA), &allocated("n1", &[device]));
            world.pod(&claiming(made, name).on("n1"));
        }
        assert_eq!((world.allocated("q", "A"), world.allocated("default", "A")), (0, 0));
        if by_namespace {
            world.namespace("team", &[("card.volcano.sh/crossquota", "enabled")], Some("q"));
        } else {
            world.set_configuration(configuration("quota.cpu: 1", "unqueuedCards: charge"), world.now);
        }
        let charged = if by_namespace { "q" } else { "default" };
        assert_eq!(world.allocated(charged, "A"), 2);
    }
}

/// Whoever pays for the claim, and has the GPU as much as they have, does not count either.
#[test]
fn who_shares_a_gpu_that_another_pod_pays_for_is_no_pod_without_gpu() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.slice("gpu-1", NVIDIA, &gpus("A", 4));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    world.claim("shared", &exactly(NVIDIA), &allocated("gpu-1", &["gpu-0"]));
    let shares = |name: &str| sharing(bare_pod(name).requests("cpu", "3").queue("team-a"), "shared").on("gpu-1");
    world.pods(["p", "q", "r"].map(shares));
    assert_eq!(line(&world.cluster, "gpu-1").0, 0);
    world.remove_pod("p");
    assert_eq!(line(&world.cluster, "gpu-1").0, 0, "another one pays");
    world.pod(&cpu("without", "8"));
    assert_eq!(pinned(&mut world), "gpu-1");
}

/// As by a claim: the device may be on GPU nodes alone.
#[test]
fn who_requests_a_device_by_a_class_is_left_alone() {
    let of_class = "deviceclass.resource.kubernetes.io/nic";
    for (resource, are_any) in [("example.com/nic", true), (of_class, true), (of_class, false)] {
        let mut world = by_devices();
        world.class("nic", "device.driver == 'nic.example.com'", Some("example.com/nic"));
        if are_any {
            world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
        }
        world.pod(&cpu("p", "2").requests(resource, "1"));
        is_left_alone(&mut world);
    }
}
