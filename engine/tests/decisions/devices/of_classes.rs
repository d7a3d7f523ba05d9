//! What classes provide as resources: what is charged for it, also where Cardgate can't say what it is.

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
