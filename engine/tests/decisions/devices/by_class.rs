//! Resources that are on no node, since classes hand the devices out, and devices that any number of claims may have: what
//! queues and groups may have of them under the capacity document.

use engine::refs::WorkloadKind;

use super::of_classes::given;
use super::*;
use crate::world::capacity;

const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/mig.nvidia.com";
const EXTENDED: &str = "example.com/mig";
const NIC: &str = "example.com/nic";

/// One node with four slices of a card, and a NIC; both are handed out by classes.
fn world() -> World {
    let mut world = World::with(capacity("enqueue, allocate, backfill", ""));
    world.node(&node("n1"));
    let mig = |index| {
        json!({"name": format!("mig-{index}"), "attributes": {"type": {"string": "mig"}, "profile": {"string": "1g.5gb"},
            "productName": {"string": "A"}}})
    };
    world.slice("n1", NVIDIA, &(0..4).map(mig).collect());
    world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
    let is_mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'";
    world.class("mig.nvidia.com", is_mig, Some(EXTENDED));
    world.class("nic", "device.driver == 'nic.example.com'", Some(NIC));
    world.queue(&bare_queue("team-a"));
    world
}

#[test]
fn a_group_may_ask_as_a_whole_for_what_classes_hand_out() {
    for resource in [OF_CLASS, EXTENDED, NIC] {
        let mut world = world();
        let asks = group("g", 2).set(["spec", "queue"], "team-a");
        world.group(&asks.set(["spec", "minResources", resource], "2"));
        assert_eq!(world.admit(), []);
        assert!(world.is_enqueued(WorkloadKind::PodGroup, "g"), "{resource}");
    }
}

#[test]
fn a_queue_limits_its_pods_in_the_resource_that_they_request() {
    for resource in [OF_CLASS, EXTENDED] {
        let mut world = world();
        world.queue(&bare_queue("team-a").capability(resource, "2"));
        world.pods(["p1", "p2", "p3"].map(|name| pod(name).requests(resource, "1")));
        assert_eq!(world.admit_names(), ["p1", "p2"], "{resource}");
        assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota");
        // And in the resource by which the cards are counted.
        world.queue(&bare_queue("team-a").capability("nvidia.com/mig-1g.5gb", "2"));
        assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota");
        world.queue(&bare_queue("team-a"));
        assert_eq!(world.admit_names(), ["p3"]);
    }
}

/// Which nodes have devices that are no cards, and whether any are left, is for the scheduler to say.
#[test]
fn devices_that_are_no_cards_limit_no_node() {
    for (resource, settings) in [(NIC, 4), ("deviceclass.resource.kubernetes.io/nic", 2)] {
        let mut world = world();
        let asks = |name: &str| pod(name).requests(EXTENDED, "1").requests(resource, "1");
        world.pods(["p1", "p2", "p3"].map(asks));
        world.queue(&bare_queue("team-a").capability(resource, &settings.to_string()));
        assert_eq!(world.admit_names().len(), settings.min(3), "{resource}");
    }
}

/// What it was given is no card, and the queue's all the same.
#[test]
fn a_pod_counts_by_such_a_resource_also_when_it_was_given_its_devices() {
    let mut world = world();
    world.queue(&bare_queue("team-a").capability(NIC, "1"));
    let asks = |pod: Object| pod.requests(EXTENDED, "1").requests(NIC, "1");
    world.pod(&asks(pod("p1")));
    assert_eq!(world.admit_names(), ["p1"]);
    let nic = json!({"request": "r", "driver": "nic.example.com", "pool": "n1", "device": "nic-0"});
    let of_nic = json!([{"name": "r", "exactly": request("nic", 1, None)}]);
    world.claim("made", &of_nic, &json!({"allocation": {"devices": {"results": [nic]}}}));
    let let_in = asks(bare_pod("p1").queue("team-a"));
    world.pod(&given(let_in, "made", NIC, "n1"));
    world.pod(&asks(pod("p2")));
    assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    world.remove_pod("p1");
    assert_eq!(world.admit_names(), ["p2"]);
}

/// The pod waits from before the class is there: nobody hands the resource out then.
#[test]
fn who_waits_for_devices_that_are_no_cards_is_listed_again_when_a_class_hands_them_out() {
    let mut world = world();
    world.remove_class("nic");
    let waits = pod("p1").requests(EXTENDED, "1").requests(NIC, "1");
    world.pod(&waits);
    assert_eq!(world.admit_names(), [""; 0]);
    world.class("nic", "device.driver == 'nic.example.com'", Some(NIC));
    world.pod(&waits);
    assert_eq!(world.admit_names(), ["p1"]);
}

/// The scheduler judges what is left of such a device.
#[test]
fn any_number_of_pods_may_have_a_device_that_is_shared() {
    for plugin in ["capacity", "capacity-card"] {
        let mut world = World::with(queue_plugin(plugin, "enqueue, allocate, backfill", ""));
        world.node(&node("n1"));
        world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
        let mut devices = gpus("A", 1);
        devices[0]["allowMultipleAllocations"] = json!(true);
        world.slice("n1", NVIDIA, &devices);
        world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
        world.queue(&queue("owner").quota(r#"{"A": 1}"#).guaranteed_cards(r#"{"A": 1}"#));
        for index in 0..4 {
            world.claim(&format!("c{index}"), &exactly(1, Some("A")), &json!({}));
            world.pod(&claiming(pod(&format!("p{index}")), &format!("c{index}")));
        }
        assert_eq!(world.admit_names(), ["p0", "p1", "p2"], "{plugin}");
        assert_eq!(
            world.refusal_of("p3"),
            "InsufficientScalarQuota",
            "by the queue's own quota"
        );
        // A device that one claim has is by number again.
        world.slice("n1", NVIDIA, &gpus("A", 1));
        world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
        assert_eq!(world.admit_names(), [""; 0]);
    }
}

/// Whichever is seen first, the class or the node: by a device plugin it counts cards.
#[test]
fn a_resource_that_a_node_comes_to_have_cards_of_counts_them() {
    const VENDOR: &str = "vendor.com/gpu";
    let labels = ["product=V", "count=2", "memory=81920"].map(|label| label.split_once('=').unwrap());
    let with_plugin = labels
        .into_iter()
        .fold(node("n2").offers(VENDOR, "2"), |node, (key, value)| {
            node.label(&format!("{VENDOR}.{key}"), value)
        });
    for is_configured in [false, true] {
        let mut world = World::with(configuration("", ""));
        world.queue(&queue("team-a").quota(r#"{"V": 1}"#));
        world.class("other", "device.driver == 'other.vendor.com'", Some(VENDOR));
        world.slice("n1", "other.vendor.com", &json!([{"name": "d"}]));
        let asks = |name: &str| pod(name).requests(VENDOR, "1");
        world.pods([
            asks("p1"),
            asks("p2"),
            asks("p3").annotation("volcano.sh/card.name", "V"),
        ]);
        if is_configured {
            world.set_configuration(configuration("", &format!("cardResources: [{VENDOR}]")), world.now);
        }
        world.node(&with_plugin);
        assert_eq!(world.admit(), [admitted("p1", "V")], "{is_configured}");
        assert_eq!(world.allocated("team-a", "V"), 1);
        assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
        assert_eq!(world.refusal_of("p3"), "InsufficientScalarQuota");
    }
}

/// The class has nothing but a NIC left meanwhile, which is not what the pod runs on.
#[test]
fn who_was_let_in_for_cards_stays_charged_while_their_slice_is_away() {
    let mut world = World::with(configuration("", ""));
    world.node(&node("n1"));
    world.class("both", "true", Some(EXTENDED));
    world.slice("n1", NVIDIA, &gpus("A", 2));
    world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
    world.queue(&queue("team-a").quota(r#"{"A": 2}"#));
    let asks = pod("p1").requests(EXTENDED, "2");
    world.pod(&asks);
    let card = world.admissions()[0].card.clone();
    world.pod(
        &asks
            .gates(&[])
            .annotation("volcano.sh/card.assigned", card.as_deref().unwrap()),
    );
    assert_eq!(world.allocated("team-a", "A"), 2);
    world.remove_slice("n1", NVIDIA);
    assert_eq!(world.allocated("team-a", "A"), 2);
}
