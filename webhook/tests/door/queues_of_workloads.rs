//! Who may use a queue for something as a whole: `PodGroup`s and Jobs of either kind.

use crds::keys::{CARD_REQUEST, QUEUE_NAME};
use serde_json::{Value, json};
use webhook::endpoint::Endpoint;

use crate::common::{self, World, review};

const GROUP: (&str, &str, &str) = ("scheduling.volcano.sh", "v1beta1", "PodGroup");
const VOLCANO_JOB: (&str, &str, &str) = ("batch.volcano.sh", "v1alpha1", "Job");
const JOB: (&str, &str, &str) = ("batch", "v1", "Job");
const KINDS: [(&str, &str, &str); 3] = [GROUP, VOLCANO_JOB, JOB];

/// An object of one of the kinds, with the queue that it names and the cards that it asks for.
fn object((group, ..): (&str, &str, &str), queue: &str, cards: Option<u32>) -> Value {
    let template = json!({"metadata": {"annotations": {QUEUE_NAME: queue}}, "spec": {"containers": []}});
    let mut object = json!({"metadata": {"name": "x"}, "spec": {"queue": queue}});
    if group == "batch" {
        object["spec"] = json!({"template": template});
    }
    if let Some(cards) = cards {
        object["metadata"]["annotations"] = json!({CARD_REQUEST: format!("{{\"NVIDIA-A100\": {cards}}}")});
    }
    object
}

fn judged(kind: (&str, &str, &str), operation: &str, object: &Value, old: &Value) -> common::Verdict {
    World::new().verdict(Endpoint::Validate, &review(kind, operation, object, old))
}

#[test]
fn nobody_creates_anything_in_a_queue_that_is_not_for_them() {
    for kind in KINDS {
        for cards in [None, Some(1000)] {
            let refused = judged(kind, "CREATE", &object(kind, "team-b", cards), &Value::Null).refused();
            assert!(refused.contains("403 QueueAccessDenied"), "{kind:?}: {refused}");
            for part in ["queue \"team-b\"", "\"team=b\"", "namespace \"research\""] {
                assert!(refused.contains(part), "{refused}");
            }
            let place = if kind == JOB { "of spec.template" } else { "spec.queue" };
            assert!(refused.contains(place), "{refused}");
        }
    }
}

#[test]
fn nobody_moves_to_such_a_queue_or_asks_for_more_there() {
    for kind in KINDS {
        let (own, foreign) = (object(kind, "team-a", Some(1)), object(kind, "team-b", Some(1)));
        let moved = judged(kind, "UPDATE", &foreign, &own).refused();
        assert!(moved.contains("QueueAccessDenied"), "{moved}");
        let more = judged(kind, "UPDATE", &object(kind, "team-b", Some(1000)), &foreign).refused();
        assert!(more.contains("QueueAccessDenied"), "{more}");
    }
    let mut least = object(GROUP, "team-b", None);
    let before = least.clone();
    least["spec"]["minResources"] = json!({"nvidia.com/gpu": "1000"});
    let more = judged(GROUP, "UPDATE", &least, &before).refused();
    assert!(more.contains("QueueAccessDenied"), "{more}");
}

#[test]
fn what_was_there_before_may_be_mended_and_left() {
    for kind in KINDS {
        let foreign = object(kind, "team-b", Some(1));
        let mut mended = foreign.clone();
        mended["metadata"]["finalizers"] = json!(["example.com/kept"]);
        mended["metadata"]["labels"] = json!({"team": "a"});
        judged(kind, "UPDATE", &mended, &foreign).allowed();
        judged(kind, "UPDATE", &object(kind, "team-a", Some(1)), &foreign).allowed();
        judged(kind, "CREATE", &object(kind, "team-a", Some(1)), &Value::Null).allowed();
    }
}

#[test]
fn a_queue_that_is_not_there_yet_is_worth_a_warning() {
    for kind in KINDS {
        let verdict = judged(kind, "CREATE", &object(kind, "absent", Some(1)), &Value::Null);
        let warned = verdict
            .allowed()
            .iter()
            .any(|warning| warning.contains("does not exist"));
        assert!(warned, "{:?}", verdict.warnings);
    }
}
