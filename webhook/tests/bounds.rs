//! What a request may cost that is as long as requests can be: an answer that says what is too much, and is short.

#![allow(clippy::unwrap_used, reason = "part of tests")]

mod common;

use crds::keys::{CARD_ASSIGNED, MGPU_INDEX_PREFIX, QUEUE_NAME};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use common::{World, pod, pod_review, review};

/// What the API server passes on of all warnings of an answer.
const PASSED_ON: usize = 4096;

/// A pod that brings along so many results of an admission.
fn with_results(count: usize, queue: Option<&str>) -> Value {
    let mut pod = pod(&[], &[]);
    let annotations = &mut pod["metadata"]["annotations"];
    for index in 0..count {
        annotations[format!("{MGPU_INDEX_PREFIX}{index:04}")] = json!("");
    }
    if let Some(queue) = queue {
        annotations[QUEUE_NAME] = json!(queue);
    }
    pod
}

#[test]
fn a_pod_brings_along_no_more_results_than_can_be_taken_off() {
    for queue in [None, Some("team-a")] {
        let let_in = World::new().create_pod(&with_results(64, queue));
        let annotations = let_in.object()["metadata"]["annotations"].as_object().unwrap();
        assert!(!annotations.keys().any(|key| key.starts_with(MGPU_INDEX_PREFIX)));
        let refused = World::new().create_pod(&with_results(65, queue)).refused();
        for part in [
            "403 PodBoundExceeded: annotation vke.volcengine.com/gpu-index-container-0000: ",
            "the pod has 65 results of an admission, and 64 are allowed",
            "create it without them",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    let long = pod_review(&with_results(60_000, Some("team-a"))).to_string();
    let reply = World::new().answer(Endpoint::Mutate, long.as_bytes());
    assert!(reply.body.len() < 4096, "{} bytes", reply.body.len());
}

#[test]
fn an_answer_has_as_many_warnings_as_are_passed_on_and_says_how_many_more_there_are() {
    for (count, shown, last) in [
        (15, 15, "was removed"),
        (16, 16, "was removed"),
        (17, 16, "2 more like these are not shown: mend these first"),
        (64, 16, "49 more like these are not shown: mend these first"),
    ] {
        let verdict = World::new().create_pod(&with_results(count, None));
        let warnings = verdict.allowed();
        assert_eq!(warnings.len(), shown, "{warnings:?}");
        assert!(warnings.last().unwrap().contains(last), "{warnings:?}");
        assert!(warnings.concat().len() <= PASSED_ON);
    }
}

#[test]
fn a_binding_is_refused_in_few_words_however_much_it_carries() {
    let index = |index| (format!("{MGPU_INDEX_PREFIX}{index}{}", "x".repeat(1000)), json!("0"));
    let annotations: serde_json::Map<_, _> = (0..1000)
        .map(index)
        .chain([(CARD_ASSIGNED.to_owned(), json!("x"))])
        .collect();
    let binding = json!({"metadata": {"name": "worker", "annotations": annotations}});
    let mut review = review(("", "v1", "Binding"), "CREATE", &binding, &Value::Null);
    review["request"]["subResource"] = json!("binding");
    let refused = World::new().verdict(Endpoint::Mutate, &review).refused();
    assert!(refused.contains("x..., ..., which would replace"), "{refused}");
}
