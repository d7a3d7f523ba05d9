//! What classes provide as resources: what is charged for it, also where Cardgate can't say what it is.

use engine::decide::Action;

use super::*;

const ODD: &str = "deviceclass.resource.kubernetes.io/odd";
/// What Kubernetes evaluates, and Cardgate does not.
const NOT_EVALUATED: &str = "device.driver.replace('x', 'y') == 'gpu.nvidia.com'";

#[test]
fn what_a_class_provides_by_a_selector_that_is_not_evaluated_is_refused_and_not_free() {
    for resource in [ODD, "example.com/odd"] {
        let mut world = world();
        world.class("odd", NOT_EVALUATED, Some("example.com/odd"));
        world.pod(&pod("p1").requests(resource, "1"));
        let refusal = world.refusal();
        assert!(
            refusal.starts_with(&format!(
                "GetTaskRequestResourceFailed: resource {resource}: DeviceClass odd: selector \"{NOT_EVALUATED}\": Cardgate does not \
                 evaluate function replace"
            )),
            "{refusal}"
        );
        assert!(
            world.cluster.resources_of_cards().contains(resource),
            "the door is told"
        );
        // As soon as it can be said, the pod goes its way.
        world.class("odd", "device.driver == 'gpu.nvidia.com'", Some("example.com/odd"));
        assert_eq!(world.admit(), [admitted("p1", "A")]);
        // And so does who comes while it can't be said, and the class goes: nobody hands it out then.
        world.class("odd", NOT_EVALUATED, None);
        world.pod(&pod("p2").requests(ODD, "1"));
        assert_eq!(world.refusal_of("p2"), "GetTaskRequestResourceFailed");
        world.pod(&pod("p3").requests("example.com/odd", "1"));
        assert_eq!(world.refusal_of("p3"), "NoNodeFits");
    }
}

#[test]
fn who_waits_for_what_no_class_provided_is_listed_again_when_one_does() {
    let mut world = world();
    let waits = pod("p1").requests("example.com/later", "1");
    world.pod(&waits);
    world.pod(&pod("p2").requests("example.com/never", "1"));
    assert_eq!(world.refusal_of("p1"), "NoNodeFits");
    assert!(!world.cluster.take_pods_wanted(), "nothing is provided yet");
    world.class(
        "unrelated",
        "device.driver == 'gpu.nvidia.com'",
        Some("example.com/unrelated"),
    );
    assert!(!world.cluster.take_pods_wanted(), "nobody waits for that");
    world.class("later", "device.driver == 'gpu.nvidia.com'", Some("example.com/later"));
    assert!(world.cluster.take_pods_wanted());
    assert!(!world.cluster.take_pods_wanted(), "once");
    world.pod(&waits);
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    // From then on it is known.
    world.class("later", "false", Some("example.com/later"));
    world.class("later", "device.driver == 'gpu.nvidia.com'", Some("example.com/later"));
    assert!(!world.cluster.take_pods_wanted());
}

#[test]
fn a_class_that_is_not_evaluated_takes_device_plugins_cards_from_nobody() {
    let mut world = world();
    world.node(&node("n3").cards("A", 4));
    world.class(NVIDIA, NOT_EVALUATED, Some(GPU));
    world.pod(&pod("p1").asks("A", 2));
    let admissions = world.admissions();
    let [first] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(first.card.as_deref(), Some("A"));
    let room = world.known("p1").room.unwrap();
    assert_eq!(&*world.cluster.node(room).name, "n3");
    // Beside claims as well.
    world.class("other", "device.driver == 'gpu.nvidia.com'", None);
    world.claim(
        "p2-gpu",
        &json!([{"name": "r", "exactly": request("other", 1, Some("B"))}]),
        &json!({}),
    );
    world.pod(&claiming(pod("p2"), "p2-gpu"));
    assert_eq!(world.admit(), [admitted("p2", "B")]);
}

#[test]
fn of_several_classes_with_one_resource_the_scheduler_takes_one() {
    let mut world = world();
    let of = |product: &str| format!("device.attributes['{NVIDIA}'].productName == '{product}'");
    world.class("first", &of("A"), Some("example.com/odd"));
    world.class("second", &of("B"), Some("example.com/odd"));
    world.pod(&pod("p1").requests("example.com/odd", "1"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
}

/// A pod on a node with what its claim, made by the scheduler, says that it was given.
pub fn given(pod: Object, claim: &str, resource: &str, node: &str) -> Object {
    let mapping = json!({"containerName": "main", "resourceName": resource, "requestName": "r"});
    let status = json!({"resourceClaimName": claim, "requestMappings": [mapping]});
    pod.set(["status", "extendedResourceClaimStatus"], status).on(node)
}

fn let_in(name: &str) -> Object {
    bare_pod(name)
        .queue("team-a")
        .requests(ODD, "1")
        .annotation("volcano.sh/card.assigned", "A")
}

/// A world with a class of all whole cards, whatever their product.
fn of_all() -> World {
    let mut world = world();
    world.class("odd", "device.driver == 'gpu.nvidia.com'", None);
    world
}

fn charged(world: &World) -> [i128; 2] {
    ["A", "B"].map(|card| world.allocated("team-a", card))
}

#[test]
fn what_a_class_gave_is_charged_in_place_of_what_it_could_give() {
    let mut world = of_all();
    world.pod(&pod("p1").requests(ODD, "1"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.pod(&let_in("p1"));
    assert_eq!(charged(&world), [1, 0]);
    world.claim("p1-made", &exactly(1, None), &allocated("n2", &["gpu-0"]));
    world.pod(&given(let_in("p1"), "p1-made", ODD, "n2"));
    assert_eq!(charged(&world), [0, 1]);
    // By a class that nobody can read any more, too.
    world.class("odd", NOT_EVALUATED, None);
    assert_eq!(charged(&world), [0, 1]);
    // Devices that are no cards are nobody's business.
    world.slice("n2", "fpga.example.com", &json!([{"name": "f"}]));
    let fpga = json!({"request": "r", "driver": "fpga.example.com", "pool": "n2", "device": "f"});
    world.claim(
        "p1-made",
        &exactly(1, None),
        &json!({"allocation": {"devices": {"results": [fpga]}}}),
    );
    assert_eq!(charged(&world), [0, 0]);
}

#[test]
fn what_a_class_gave_is_held_while_nobody_says_what_it_is() {
    let away = |world: &mut World| {
        world.remove_slice("n1", NVIDIA);
        world.remove_slice("n2", NVIDIA);
    };
    // Let in, and not placed yet.
    let mut world = of_all();
    world.pod(&pod("p1").requests(ODD, "1"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    world.pod(&let_in("p1"));
    away(&mut world);
    assert_eq!(charged(&world), [1, 0]);
    // And placed, with the slices and the class away.
    world.claim("p1-made", &exactly(1, None), &allocated("n1", &["gpu-0"]));
    world.pod(&given(let_in("p1"), "p1-made", ODD, "n1"));
    assert_eq!(charged(&world), [1, 0]);
    world.remove_class("odd");
    assert_eq!(charged(&world), [1, 0]);
    world.remove_pod("p1");
    assert_eq!(charged(&world), [0, 0]);
    // Whoever begins meanwhile knows the card by what is written on the pod.
    let mut world = of_all();
    away(&mut world);
    world.claim("p1-made", &exactly(1, None), &allocated("n1", &["gpu-0"]));
    world.pod(&given(let_in("p1"), "p1-made", ODD, "n1"));
    assert_eq!(charged(&world), [1, 0]);
}

/// What has no device now may get some: who asks for it must not be free by then.
#[test]
fn what_a_class_without_devices_provides_is_waited_for_and_charged_when_they_come() {
    for resource in [ODD, "example.com/odd"] {
        let mut world = World::new();
        world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
        world.namespace("team", &[], Some("team-a"));
        world.class("odd", "device.driver == 'gpu.nvidia.com'", Some("example.com/odd"));
        assert!(
            world.cluster.resources_of_cards().contains(resource),
            "the door is told"
        );
        // Held at the door for its request alone, as for claims.
        let held = |name: &str| bare_pod(name).gates(&["card.volcano.sh/quota"]).requests(resource, "1");
        world.pods(["p1", "p2"].map(held));
        assert_eq!(world.admit(), []);
        assert_eq!(world.refusal_of("p1"), "NoDeviceSelected");
        world.node(&node("n1"));
        world.slice("n1", NVIDIA, &gpus("A", 2));
        assert_eq!(world.admit(), [admitted("p1", "A")]);
        assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
    }
}

/// Whose devices are no cards is nobody's business.
#[test]
fn what_a_class_of_other_devices_provides_is_let_in() {
    let mut world = world();
    world.slice("n2", "fpga.example.com", &json!([{"name": "f"}]));
    world.class("odd", "device.driver == 'fpga.example.com'", None);
    assert!(!world.cluster.resources_of_cards().contains(ODD));
    let held = bare_pod("p1").gates(&["card.volcano.sh/quota"]);
    world.pod(&held.requests(ODD, "1"));
    assert_eq!(world.admit(), [("p1".to_owned(), None)]);
}

/// Before the class is there, nobody knows what it will be of.
#[test]
fn what_names_a_class_that_is_not_there_waits_for_it() {
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    let held = bare_pod("p1").gates(&["card.volcano.sh/quota"]);
    world.pod(&held.requests(ODD, "1"));
    assert_eq!(world.refusal_of("p1"), "NoDeviceSelected");
    world.class("odd", "device.driver == 'gpu.nvidia.com'", None);
    assert_eq!(world.admit(), [admitted("p1", "A")]);
}

/// Some schedulers claim devices of their own for each init container, and a pod asks for no more than the largest of them.
#[test]
fn what_the_scheduler_claims_beyond_the_request_is_charged_and_evicts_where_there_is_no_quota_for_it() {
    for (resource, names_another) in [(GPU, false), (ODD, false), (ODD, true)] {
        for (quota, is_evicted) in [(3, false), (2, true)] {
            let mut world = of_all();
            world.class("nic", "device.driver == 'nic.example.com'", None);
            world.slice("n1", "nic.example.com", &json!([{"name": "nic-0"}]));
            let nic = json!([{"name": "r", "exactly": request("nic", 1, None)}]);
            world.claim("nic", &nic, &json!({}));
            let named = |pod: Object| if names_another { claiming(pod, "nic") } else { pod };
            world.queue(&queue("team-a").quota(&format!(r#"{{"A": {quota}}}"#)));
            let waits = |name: &str| pod(name).requests(resource, "1");
            world.pod(&named(waits("p1")));
            assert_eq!(world.admit(), [admitted("p1", "A")]);
            let let_in = bare_pod("p1")
                .queue("team-a")
                .requests(resource, "1")
                .annotation("volcano.sh/card.assigned", "A");
            let let_in = named(let_in);
            world.pod(&let_in);
            assert_eq!(charged(&world), [1, 0]);
            world.claim(
                "p1-made",
                &exactly(1, None),
                &allocated("n1", &["gpu-0", "gpu-1", "gpu-2"]),
            );
            let has_more = given(let_in, "p1-made", resource, "n1");
            world.pod(&has_more);
            assert_eq!(charged(&world), [3, 0], "{resource}");
            let evicted = world.decide().into_iter().filter_map(|action| match action {
                Action::SendBack { reason, message, .. } => Some((reason.as_str(), message)),
                _ => None,
            });
            let message = "let in for 1 A, and the scheduler claimed 3 A for it, which queue team-a has no quota for: it is evicted; \
                           some schedulers claim devices of their own for each init container: request cards in the other containers \
                           alone";
            let expected = is_evicted.then_some(("ResourceClaimChanged", message.to_owned()));
            assert_eq!(
                evicted.collect::<Vec<_>>(),
                Vec::from_iter(expected),
                "{resource} {quota}"
            );
            world.pod(&waits("p2"));
            assert_eq!(world.refusal_of("p2"), "InsufficientScalarQuota");
            // What there was quota for is the pod's, whatever becomes of the quota.
            if !is_evicted {
                world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
                world.pod(&has_more.label("another", "label"));
                world.wait(60);
                assert_eq!(world.decide(), [], "{resource}");
            }
        }
    }
}

/// It would be sent back as well, and is told what would help.
#[test]
fn whose_predecessor_was_given_too_much_is_told_so() {
    let mut world = of_all();
    world.queue(&queue("team-a").quota(r#"{"A": 3}"#));
    let waits = |name: &str| pod(name).controlled_by("ReplicaSet", "web").asks("A", 2);
    world.pod(&waits("p1"));
    assert_eq!(world.admit(), [admitted("p1", "A")]);
    let let_in = bare_pod("p1").queue("team-a").controlled_by("ReplicaSet", "web");
    let let_in = let_in.asks("A", 2).assigned("A");
    world.pod(&let_in);
    let four = allocated("n1", &["gpu-0", "gpu-1", "gpu-2", "gpu-3"]);
    world.claim("p1-made", &exactly(1, None), &four);
    world.pod(&given(let_in, "p1-made", GPU, "n1"));
    let actions = world.decide();
    let [Action::SendBack { message, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert!(
        message.starts_with("let in for 2 A, and the scheduler claimed 4 A for it"),
        "{message}"
    );
    world.remove_pod("p1");
    world.remove_claim("p1-made");
    world.pod(&waits("p2"));
    let notices = engine::explain::stand_aside(&mut world.cluster, 1);
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    for part in [
        "the scheduler claimed more for earlier pods",
        "request cards in no init container",
    ] {
        assert!(notice.message.contains(part), "{}", notice.message);
    }
}
