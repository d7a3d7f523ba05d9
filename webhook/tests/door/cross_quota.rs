//! Which pods the door holds for `CrossQuota` (docs/rules.md, **CrossQuota**).

#![allow(clippy::unwrap_used, reason = "part of tests")]

use crds::configuration::Configuration;
use crds::keys::{
    CROSS_QUOTA_LABEL, DAEMON_SET_CONTROLLERS, GATE, MIRROR_POD, QUEUE_LABEL, QUEUE_NAME, SCORING_STRATEGY,
};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{NAMESPACE, Verdict, World, by_kubelet, namespace, pod, pod_review};

const GPU: &str = "nvidia.com/gpu";

/// A door with these arguments of the plugin, in front of a namespace that opted in.
fn world_with(arguments: &str, cardgate: &str) -> World {
    let conf = format!(
        "tiers: [{{plugins: [{{name: crossquota, arguments: {{gpu-resource-names: \"nvidia.com/gpu\"{arguments}}}}}]}}]"
    );
    let configuration = Configuration::parse(Some(&conf), Some(cardgate)).unwrap().configuration;
    let world = World::with_configuration(configuration);
    let opted_in = namespace(&[(CROSS_QUOTA_LABEL, "enabled")], None);
    world.knowledge.namespaces.set(NAMESPACE.into(), opted_in);
    world
}

fn world() -> World {
    world_with("", "")
}

#[track_caller]
fn is_held(verdict: &Verdict) -> bool {
    verdict.allowed();
    let gates = &verdict.object()["spec"]["schedulingGates"];
    let marked = verdict.object()["metadata"]["labels"][CROSS_QUOTA_LABEL] == "enabled";
    assert_eq!(*gates == json!([{"name": GATE}]), marked, "{verdict:?}");
    marked
}

fn owned_by(kind: &str) -> Value {
    let mut pod = pod(&[], &[("cpu", "1")]);
    pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": "x", "controller": true}]);
    pod
}

#[test]
fn a_pod_without_gpu_in_a_namespace_that_opted_in_is_held() {
    let verdict = world().create_pod(&pod(&[], &[("cpu", "1")]));
    assert!(is_held(&verdict));
    let metadata = &verdict.object()["metadata"];
    assert_eq!(metadata["labels"]["app"], "training", "what was there stays");
    assert_eq!(metadata["labels"][QUEUE_LABEL], Value::Null, "no queue is charged");
    let again = world().create_pod(verdict.object());
    assert_eq!(again.operations, 0);
}

#[test]
fn a_pod_without_labels_is_held_too() {
    let mut bare = pod(&[], &[]);
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    assert!(is_held(&world().create_pod(&bare)));
    let mut queued = pod(&[(QUEUE_NAME, "team-a")], &[("cpu", "1")]);
    queued["metadata"].as_object_mut().unwrap().remove("labels");
    let verdict = world().create_pod(&queued);
    assert!(is_held(&verdict));
    assert_eq!(verdict.object()["metadata"]["labels"][QUEUE_LABEL], "team-a");
}

#[test]
fn pods_with_gpu_are_not() {
    assert!(!is_held(&world().create_pod(&pod(&[], &[(GPU, "1")]))));
    // None is not one.
    assert!(is_held(&world().create_pod(&pod(&[], &[(GPU, "0")]))));
    assert!(is_held(&world().create_pod(&pod(&[], &[("example.com/fpga", "1")]))));
}

/// A claim may ask for a GPU, or for nothing: the operator says so, and until then the pod may be one without GPU.
#[test]
fn a_pod_that_claims_devices_is_held() {
    let world = world();
    let mut claiming = pod(&[], &[("cpu", "1")]);
    claiming["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimName": "c"}]);
    assert!(is_held(&world.create_pod(&claiming)));
    let of_a_queue = namespace(&[(CROSS_QUOTA_LABEL, "enabled")], Some("team-a"));
    world.knowledge.namespaces.set(NAMESPACE.into(), of_a_queue);
    assert!(is_held(&world.create_pod(&claiming)));
}

#[test]
fn what_must_run_everywhere_is_not() {
    let created = |by: &str, kind: &str| {
        let mut review = pod_review(&owned_by(kind));
        review["request"]["userInfo"]["username"] = json!(by);
        is_held(&world().verdict(Endpoint::Mutate, &review))
    };
    for controller in DAEMON_SET_CONTROLLERS {
        assert!(!created(controller, "DaemonSet"));
        assert!(created(controller, "ReplicaSet"));
    }
    // What anybody may write proves nothing.
    assert!(created("jane", "DaemonSet"));
    assert!(created(
        "system:serviceaccount:research:daemon-set-controller",
        "DaemonSet"
    ));
    // A node runs a mirror pod by itself; whoever else says so is held as everybody.
    let mirror = pod(&[(MIRROR_POD, "abc")], &[]);
    assert!(!is_held(&world().verdict(Endpoint::Mutate, &by_kubelet(&mirror))));
    assert!(is_held(&world().create_pod(&mirror)));
    let mut review = pod_review(&pod(&[], &[("cpu", "1")]));
    review["request"]["namespace"] = json!("kube-system");
    assert!(!is_held(&world().verdict(Endpoint::Mutate, &review)));
}

#[test]
fn other_namespaces_are_left_alone_after_the_api_server_was_asked() {
    let world = world();
    let elsewhere = namespace(&[(CROSS_QUOTA_LABEL, "disabled")], None);
    world.knowledge.namespaces.set(NAMESPACE.into(), elsewhere.clone());
    world.api.namespaces.lock().unwrap().insert(NAMESPACE.into(), elsewhere);
    assert!(!is_held(&world.create_pod(&pod(&[], &[("cpu", "1")]))));
    assert_eq!(world.asked(), [format!("namespace {NAMESPACE:?}")]);
}

#[test]
fn a_label_that_the_watch_has_not_delivered_yet_counts() {
    let world = world();
    let opted_in = world.knowledge.namespaces.get(NAMESPACE).unwrap();
    world.knowledge.namespaces.set(NAMESPACE.into(), namespace(&[], None));
    world.api.namespaces.lock().unwrap().insert(NAMESPACE.into(), opted_in);
    assert!(is_held(&world.create_pod(&pod(&[], &[("cpu", "1")]))));
}

/// Nor does it pass by them because it waits for a queue besides, where its namespace was made a moment ago.
#[test]
fn nor_has_a_namespace_to_be_known_for_a_pod_that_names_a_queue() {
    let world = world();
    let opted_in = world.knowledge.namespaces.get(NAMESPACE).unwrap();
    world.knowledge.namespaces.remove(NAMESPACE);
    world.api.namespaces.lock().unwrap().insert(NAMESPACE.into(), opted_in);
    assert!(is_held(
        &world.create_pod(&pod(&[(QUEUE_NAME, "team-a")], &[("cpu", "1")]))
    ));
}

#[test]
fn the_label_selector_restricts_which_pods_are_held() {
    let held = |selector: &str| {
        is_held(&world_with(&format!(", label-selector: \"{selector}\""), "").create_pod(&pod(&[], &[])))
    };
    assert!(held("app=training"));
    assert!(!held("app=serving"));
}

#[test]
fn a_queue_and_cross_quota_go_together() {
    let verdict = world().create_pod(&pod(&[(QUEUE_NAME, "team-a")], &[("cpu", "1")]));
    assert!(is_held(&verdict));
    assert_eq!(verdict.object()["metadata"]["labels"][QUEUE_LABEL], "team-a");
}

#[test]
fn under_an_extender_and_without_the_plugin_nothing_is_held() {
    assert!(!is_held(
        &world_with("", "enforceCrossQuota: extender").create_pod(&pod(&[], &[]))
    ));
    assert!(!is_held(&World::new().create_pod(&pod(&[], &[]))));
}

#[test]
fn an_unknown_strategy_and_a_node_by_name_are_refused() {
    // A scheduler that asks reads it too.
    let asked = world_with("", "enforceCrossQuota: extender");
    let verdict = asked.create_pod(&pod(&[(SCORING_STRATEGY, "random")], &[("cpu", "1")]));
    assert!(!verdict.allowed, "{verdict:?}");
    let verdict = world().create_pod(&pod(&[(SCORING_STRATEGY, "random")], &[("cpu", "1")]));
    assert!(
        !verdict.allowed && verdict.message.contains("\"random\" is no scoring strategy"),
        "{verdict:?}"
    );
    let mut named = pod(&[], &[("cpu", "1")]);
    named["spec"]["nodeName"] = json!("gpu-1");
    let verdict = world().create_pod(&named);
    assert!(!verdict.allowed && verdict.message.contains("gpu-1"), "{verdict:?}");
}

#[test]
fn a_mark_that_is_not_due_is_taken_away() {
    let mut marked = pod(&[(QUEUE_NAME, "team-a")], &[("cpu", "1")]);
    marked["metadata"]["labels"][CROSS_QUOTA_LABEL] = json!("enabled");
    let verdict = World::new().create_pod(&marked);
    assert_eq!(verdict.object()["metadata"]["labels"][CROSS_QUOTA_LABEL], Value::Null);
    assert_eq!(verdict.object()["spec"]["schedulingGates"], json!([{"name": GATE}]));
}
