//! Whatever users write: an answer, never a panic.

use crds::card::CardAlternatives;
use crds::card_counts::{CardQuota, CardRequest};
use crds::lean::Text;
use crds::node::Node;
use crds::pod::Pod;
use crds::pod_request::pod_request;
use crds::queue_access::QueueAccess;
use crds::scoring_strategy::ScoringStrategy;
use crds::{names, quantity, resources, slug, volcano};
use proptest::prelude::*;

/// Text near what the parsers expect, so that more than their first check is reached.
fn near_misses() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+.0-9a-zA-Z]{0,40}",
        r#"[{}\[\]:," \\|A-Z0-9e.+-]{0,40}"#,
        r"[a-z0-9./=!()<>, -]{0,40}",
        r#"\{("[A-Z |]{0,4}": ?-?[0-9.e]{0,22},? ?){0,3}\}"#,
    ]
}

fn read_everything(text: &str) {
    let _ = CardAlternatives::parse(text);
    let _ = CardQuota::parse(text);
    let _ = CardRequest::parse(text);
    let _ = QueueAccess::parse(Some(text));
    let _ = text.parse::<ScoringStrategy>();
    let _ = quantity::parse_units(text);
    let _ = quantity::parse_milli(text);
    let _ = resources::parse_amount("cpu", text);
    let _ = (
        names::is_object_name(text),
        names::is_label_key(text),
        names::is_label_value(text),
    );
    let _ = serde_json::from_str::<Pod<Text>>(text);
    let _ = serde_json::from_str::<Node<Text>>(text);
    let _ = serde_json::from_str::<volcano::Queue>(text);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2048,
        // Beside integration tests there is no src/ to keep failures in; the minimal input is printed.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_makes_a_parser_panic(text in near_misses()) {
        read_everything(&text);
    }

    #[test]
    fn no_card_name_yields_a_bad_object_name(card in near_misses()) {
        prop_assume!(!card.is_empty());
        let slug = slug::slug(&card);
        prop_assert!(names::is_object_name(&slug), "{slug}");
    }

    #[test]
    fn no_quantities_make_a_request_panic(
        quantities in prop::collection::vec(near_misses(), 6), large in any::<bool>(), sidecar in any::<bool>(),
    ) {
        // Large amounts in several places: sums that overflow.
        let quantity = |index: usize| if large { "9223372036854775807".to_owned() } else { quantities[index].clone() };
        let pod = serde_json::json!({"metadata": {}, "spec": {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": quantity(0)}, "limits": {"memory": quantity(1)}}},
                {"name": "b", "resources": {"requests": {"cpu": quantity(2)}}},
            ],
            "initContainers": [{
                "name": "c",
                "restartPolicy": if sidecar { "Always" } else { "Never" },
                "resources": {"requests": {"cpu": quantity(3)}},
            }],
            "overhead": {"cpu": quantity(4)},
            "resources": {"requests": {"memory": quantity(5)}},
        }}).to_string();
        let pod: Pod<Text> = serde_json::from_str(&pod).unwrap();
        let request = pod_request(&pod.spec);
        if large {
            prop_assert!(request.is_err());
        }
    }
}
