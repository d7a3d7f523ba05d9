//! The door for mGPU pods: each case of the document's webhook section, through whole reviews.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Write as _;

use crds::keys::{
    GATE, MGPU_ASSUMED, MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_INDEX_PREFIX, MGPU_MEMORY, MGPU_POLICY, QUEUE_NAME,
};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{NAMESPACE, World, pod_review, review};

/// A container that requests compute and memory, as written.
fn container(name: &str, core: Option<&str>, memory: Option<&str>) -> Value {
    let mut resources = json!({});
    for (resource, quantity) in [(MGPU_CORE, core), (MGPU_MEMORY, memory)] {
        if let Some(quantity) = quantity {
            resources["requests"][resource] = json!(quantity);
            resources["limits"][resource] = json!(quantity);
        }
    }
    json!({"name": name, "image": "training:latest", "resources": resources})
}

fn pod(annotations: &Value, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker", "annotations": annotations},
        "spec": {"containers": containers},
    })
}

/// One container on so many cards.
fn single(list: Option<&str>, core: &str, memory: Option<&str>) -> Value {
    let annotations = list.map_or(
        json!({}),
        |list| json!({MGPU_CONTAINER_CARDS: list, MGPU_POLICY: "native-burst-share"}),
    );
    pod(&annotations, &[container("main", Some(core), memory)])
}

/// A pod that the document shows, as the API server sends it: with quantities in quotes.
macro_rules! document {
    ($file:literal) => {
        shown(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../crds/documents/",
            $file
        )))
    };
}

fn shown(text: &str) -> Value {
    let mut pod: Value = serde_saphyr::from_str(text).unwrap();
    for kind in ["requests", "limits"] {
        let quantities = pod["spec"]["containers"][0]["resources"][kind].as_object_mut();
        for quantity in quantities.into_iter().flat_map(|quantities| quantities.values_mut()) {
            if quantity.is_number() {
                *quantity = quantity.to_string().into();
            }
        }
    }
    pod
}

/// The document's cases, in its own manifests; where it shows none, by its own numbers.
fn cases_of_the_document() -> Vec<(&'static str, Value)> {
    let multiple = pod(
        &json!({MGPU_CONTAINER_CARDS: "1"}),
        &[container("main", Some("120"), Some("6k"))],
    );
    vec![
        ("Normal MGPU Pod 1", document!("mgpu/04-normal-1.yaml")),
        ("Normal MGPU Pod 2", document!("mgpu/05-normal-2.yaml")),
        ("Normal MGPU Pod 2, below a card", single(None, "99", Some("128"))),
        ("Normal MGPU Pod 3", document!("mgpu/06-normal-3.yaml")),
        ("Normal MGPU Pod 4", document!("mgpu/07-normal-4.yaml")),
        ("Multiple MGPU Pod 1", document!("mgpu/08-multiple-1.yaml")),
        ("Multiple MGPU Pod 2", document!("mgpu/09-multiple-2.yaml")),
        ("Multiple MGPU Pod 3", document!("mgpu/10-multiple-3.yaml")),
        ("Multiple MGPU Pod 4.1", single(Some("3"), "99", Some("765"))),
        ("Multiple MGPU Pod 4.2", document!("mgpu/11-multiple-4.yaml")),
        ("Multiple MGPU Pod 4.3", multiple),
    ]
}

#[test]
fn every_case_of_the_webhook_section_is_refused_with_container_value_and_rule() {
    let world = World::new();
    let mut text = String::new();
    let init = |resource: &str| {
        let mut pod = single(None, "50", Some("512"));
        pod["spec"]["initContainers"] = json!([{"name": "init", "resources": {"limits": {resource: "50"}}}]);
        pod
    };
    let mut disagreeing = single(None, "50", Some("512"));
    disagreeing["spec"]["containers"][0]["resources"]["limits"][MGPU_CORE] = json!("60");
    let other = [
        ("memory alone", pod(&json!({}), &[container("main", None, Some("6k"))])),
        ("requests and limits disagree", disagreeing),
        ("a fraction", single(None, "99.5", Some("6k"))),
        ("an init container", init(MGPU_CORE)),
        ("a list that is none", single(Some("two"), "50", Some("512"))),
        (
            "no cards for a container that asks",
            single(Some("0"), "50", Some("512")),
        ),
        (
            "cards for a container that does not",
            pod(
                &json!({MGPU_CONTAINER_CARDS: "1,1"}),
                &[
                    container("main", Some("50"), Some("512")),
                    container("sidecar", None, None),
                ],
            ),
        ),
        (
            "an unknown policy",
            pod(&json!({MGPU_POLICY: "burst"}), &[container("main", Some("100"), None)]),
        ),
    ];
    for (what, pod) in cases_of_the_document().into_iter().chain(other) {
        let refused = world.create_pod(&pod).refused();
        assert!(
            refused.starts_with("403 MgpuRequestInvalid: mGPU: "),
            "{what}: {refused}"
        );
        writeln!(text, "{what}\n  {refused}").unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_correct_neighbours_of_each_case_are_gated() {
    let world = World::new();
    for pod in [
        single(None, "20", Some("6k")),
        single(None, "1", Some("256")),
        single(None, "99", Some("256")),
        single(None, "100", None),
        single(None, "200", None),
        single(Some("2"), "200", None),
        single(Some("3"), "99", Some("768")),
        single(Some("3"), "132", Some("6k")),
        single(Some("2"), "198", Some("6k")),
        single(Some("1"), "50", Some("512")),
    ] {
        let mut pod = pod;
        pod["metadata"]["annotations"][QUEUE_NAME] = json!("team-a");
        let verdict = world.create_pod(&pod);
        assert_eq!(verdict.allowed(), [""; 0], "{pod}");
        assert_eq!(
            verdict.object()["spec"]["schedulingGates"],
            json!([{"name": GATE}]),
            "{pod}"
        );
    }
}

#[test]
fn a_pod_is_judged_whoever_schedules_it_and_not_outside_cardgates_namespaces() {
    let world = World::new();
    let mut wrong = single(None, "120", None);
    wrong["spec"]["schedulerName"] = json!("volcano");
    assert!(!world.create_pod(&wrong).allowed);
    let mut review = pod_review(&wrong);
    review["request"]["namespace"] = json!("kube-system");
    assert!(world.verdict(Endpoint::Mutate, &review).allowed);
}

#[test]
fn other_pods_are_not_affected_by_the_annotation_whatever_it_says() {
    let world = World::new();
    for list in ["2", "-1,2", "", "nonsense"] {
        let pod = |queue: Value| {
            let annotations = json!({MGPU_CONTAINER_CARDS: list, QUEUE_NAME: queue});
            pod(&annotations, &[container("main", None, None)])
        };
        let verdict = world.create_pod(&pod(json!("team-a")));
        let warning = format!("annotation {MGPU_CONTAINER_CARDS} has no effect: no container requests mGPU");
        assert_eq!(verdict.allowed(), [warning]);
    }
}

#[test]
fn several_cards_under_another_policy_than_native_burst_share_are_warned_about() {
    let world = World::new();
    for (policy, said) in [
        (json!("fixed-share"), "fixed-share"),
        (json!("guaranteed-burst-share"), "guaranteed-burst-share"),
    ] {
        let annotations = json!({MGPU_CONTAINER_CARDS: "2", MGPU_POLICY: policy, QUEUE_NAME: "team-a"});
        let verdict = world.create_pod(&pod(&annotations, &[container("main", Some("100"), Some("512"))]));
        let [warning] = verdict.allowed() else {
            panic!("{:?}", verdict.warnings);
        };
        assert!(
            warning.contains(said) && warning.contains("native-burst-share alone"),
            "{warning}"
        );
    }
}

#[test]
fn results_that_come_along_are_dropped() {
    let annotations = json!({MGPU_ASSUMED: "true", format!("{MGPU_INDEX_PREFIX}main"): "0", QUEUE_NAME: "team-a"});
    let verdict = World::new().create_pod(&pod(&annotations, &[container("main", Some("100"), None)]));
    assert_eq!(verdict.allowed().len(), 2);
    let left = verdict.object()["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(left.keys().collect::<Vec<_>>(), [QUEUE_NAME]);
}

#[test]
fn the_pod_templates_of_jobs_are_judged_by_the_same_rules() {
    let template = single(None, "120", None);
    let job = json!({"spec": {"tasks": [{"name": "worker", "template": template}]}});
    let job = review(("batch.volcano.sh", "v1alpha1", "Job"), "CREATE", &job, &Value::Null);
    let refused = World::new().verdict(Endpoint::Validate, &job).refused();
    assert!(
        refused.starts_with(
            "403 MgpuRequestInvalid: spec.tasks[\"worker\"].template: mGPU: container \"main\" requests 120"
        ),
        "{NAMESPACE}: {refused}"
    );
}
