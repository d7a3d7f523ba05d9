//! Pods behind gates, and pods that are none of Cardgate's business.

use super::*;

#[test]
fn a_pod_with_another_gate_holds_no_quota_until_that_is_gone() {
    let mut world = world();
    world.pods([
        gpu("p").gates(&["card.volcano.sh/quota", "example.com/later"]),
        gpu("q"),
    ]);
    assert_eq!(world.admit_names(), ["q"]);
    assert_eq!(world.allocated("team-a", "A"), 1);
    assert!(world.known_queue("team-a").waiting.is_empty());
    world.pod(&gpu("p"));
    assert_eq!(world.admit_names(), ["p"]);
}

#[test]
fn a_pod_with_only_another_gate_is_held_and_then_counted() {
    let mut world = world();
    world.pod(&gpu("p").gates(&["example.com/later"]));
    assert_eq!(world.stage("p"), Stage::Blocked);
    assert_eq!(world.allocated("team-a", "A"), 0);
    world.pod(&gpu("p").ungated());
    assert_eq!(world.allocated("team-a", "A"), 1);
}

#[test]
fn what_cardgate_does_not_manage_is_never_admitted_and_never_charged() {
    let mut world = world();
    world.pods([
        bare_pod("p").gates(&["card.volcano.sh/quota", "example.com/later"]),
        gpu("system").namespace("kube-system"),
        gpu("own").namespace("cardgate-system"),
        gpu("static").annotation("kubernetes.io/config.mirror", "x"),
    ]);
    assert_eq!(world.admit(), []);
    assert!(
        world
            .cluster
            .pods()
            .all(|pod| pod.queue.is_none() && pod.charge.is_none())
    );
}

/// Its maker wrote the gate while the door was away, which takes it off: nobody else would.
#[test]
fn who_waits_for_nothing_of_cardgates_is_let_in_once_its_gate_alone_holds_it() {
    let mut world = world();
    let own = |name: &str| bare_pod(name).requests("nvidia.com/gpu", "9");
    world.pod(&own("p").gates(&["card.volcano.sh/quota", "example.com/later"]));
    assert_eq!(world.admit(), []);
    world.pod(&own("p").gates(&["card.volcano.sh/quota"]));
    assert_eq!(world.admit(), [("p".to_owned(), None)]);
    world.seen_admitted(&own("p"), "p", None);
    assert!(world.known("p").queue.is_none() && world.known("p").charge.is_none());
    // Who is being deleted goes nowhere any more.
    world.pod(&bare_pod("gone").gates(&["card.volcano.sh/quota"]).deleted(1000));
    assert_eq!(world.admit(), []);
    // And who asks for cards where those are charged waits for them.
    world.namespace("team", &[], Some("team-a"));
    world.pod(&own("charged").gates(&["card.volcano.sh/quota"]));
    assert_eq!(world.refusal_of("charged"), "InsufficientScalarQuota");
}

#[test]
fn what_a_pod_may_say_about_nodes_is_bounded_wherever_its_queue_comes_from() {
    // It names neither queue nor card, and brings the gate itself: only its namespace makes it Cardgate's business.
    let mut world = world();
    world.namespace("team", &[], Some("team-a"));
    let values: Vec<_> = (0..100_000).map(|index| format!("node-{index}")).collect();
    let name = serde_json::json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": values});
    let required = serde_json::json!({"nodeSelectorTerms": [{"matchExpressions": [name]}]});
    let greedy = bare_pod("greedy")
        .requests("nvidia.com/gpu", "1")
        .gates(&["card.volcano.sh/quota"]);
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    world.pod(&greedy.set(path, required));
    assert_eq!(world.refusal_of("greedy"), "GetTaskRequestResourceFailed");
    world.wait(1);
    let told = world.notices();
    assert!(told[0].message.contains("and 1024 are allowed"), "{told:?}");
}
