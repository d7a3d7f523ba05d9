//! Adversarial sizes: whatever its length, no text costs more than reading it once or twice.
//!
//! Where parsers compare or move what they have read, the bounds keep that small; beyond them nothing is read at all. So what
//! is counted here is what comes out: no parser gives more than its bound, and no message is as long as what it is about.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use std::fmt::Display;

use crds::bounds;
use crds::card::CardAlternatives;
use crds::card_counts::{CardQuota, CardRequest};
use crds::cross_quota::{Percentage, parse_quota};
use crds::keys::{CARD_NAME, CARD_QUOTA, CARD_REQUEST};
use crds::label_selector::LabelSelector;
use crds::lean::Text;
use crds::mgpu::{ComputePolicy, MgpuRequest};
use crds::pod::Pod;
use crds::pod_bounds;
use crds::pod_request::pod_request;
use crds::queue_access::QueueAccess;
use crds::scoring_strategy::ScoringStrategy;
use crds::volcano::{ResourceQuantities, resource_vector};
use crds::{quantity, volcano};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A megabyte of text in the form of `one`, and what separates two of them.
fn many(one: impl Fn(usize) -> String, separator: &str, count: usize) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(separator)
}

/// The longest message that a refusal needs: names, values and remedies, each once.
const LONGEST_MESSAGE: usize = 12_000;

/// What a refusal says is short, however long the text was.
fn refused<T, E: Display>(what: &str, result: Result<T, E>) {
    let Err(error) = result else { panic!("{what} is read") };
    let length = error.to_string().len();
    assert!(length <= LONGEST_MESSAGE, "{what}: a message of {length} bytes");
}

#[test]
fn no_size_is_too_large_to_be_refused() {
    for count in [20_000, 40_000, 200_000] {
        let names = many(|index| format!("A{index}"), "|", count);
        refused("alternatives", CardAlternatives::parse(&names));
        refused("one name", crds::card::parse_name(&names));
        let ascending = format!("{{{}}}", many(|index| format!("\"C{index:07}\":1"), ",", count));
        let descending = format!(
            "{{{}}}",
            many(|index| format!("\"C{:07}\":1", count - index), ",", count)
        );
        for counts in [&ascending, &descending] {
            refused("a quota", CardQuota::parse(counts));
            refused("a request", CardRequest::parse(counts));
        }
        refused(
            "a quota's value",
            CardQuota::parse(&format!("{{\"A\": [{}]}}", many(|_| "1".to_owned(), ",", count))),
        );
        for selector in [
            format!("team in ({})", many(|index| format!("t{index}"), ",", count)),
            many(|index| format!("l{index}=a"), ",", count),
            " ".repeat(count),
            "(".repeat(count),
            format!("a{}", "=".repeat(count)),
        ] {
            refused("a selector", LabelSelector::parse(&selector));
            refused("the access to a queue", QueueAccess::parse(Some(&selector)));
        }
        for digits in ["9", "0", ".", "1e9", "-", "9."] {
            let digits = digits.repeat(count);
            let quantity = quantity::parse_milli(&digits);
            assert!(quantity.is_err() || quantity == Ok(0), "{digits:.10}");
            assert!(quantity.map_or_else(|error| error.to_string().len(), |_| 0) < LONGEST_MESSAGE);
            refused("a percentage", Percentage::parse(&format!("1{digits}")));
            let quota = parse_quota("cpu", &format!("-1{digits}"));
            assert!(quota.map_or_else(|error| error.to_string().len(), |_| 0) < LONGEST_MESSAGE);
        }
        refused("a strategy", "most-allocated".repeat(count).parse::<ScoringStrategy>());
        refused("a policy", "fixed-share".repeat(count).parse::<ComputePolicy>());
        let resources: ResourceQuantities = (0..count)
            .map(|index| (format!("example.com/r{index}"), volcano::QuantityText("1".to_owned())))
            .collect();
        refused("resources", resource_vector(&resources));
    }
}

/// A pod of one container with these limits, in the main list or before it.
fn pod(requests: &Value, limits: &Value, annotations: &Value) -> String {
    let container = json!({"name": "a", "resources": {"requests": requests, "limits": limits}});
    let first = json!({"name": "b", "resources": {"requests": requests}});
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container], "initContainers": [first]}})
        .to_string()
}

fn read(text: &str) -> Pod<Text<'_>> {
    serde_json::from_str(text).unwrap()
}

#[test]
fn no_pod_is_too_large_to_be_judged() {
    let resources = |from: usize, count: usize, amount: &str| -> Value {
        let all = (from..from + count).map(|index| (format!("example.com/r{index}"), json!(amount)));
        Value::Object(all.collect())
    };
    for count in [10_000, 20_000, 40_000] {
        let many = pod(&resources(0, count, "1"), &resources(count, count, "1"), &json!({}));
        refused("a pod's resources", pod_request(&read(&many).spec));
        // Zeros ask for nothing: such a pod runs, so what it has besides has to be counted.
        let mut zeros = resources(0, count, "0");
        zeros["nvidia.com/gpu"] = json!("8");
        let many_zeros = pod(&zeros, &resources(0, count, "0"), &json!({}));
        let many_zeros = read(&many_zeros);
        let request = pod_request(&many_zeros.spec).unwrap();
        assert_eq!(request.iter().collect::<Vec<_>>(), [("nvidia.com/gpu", 8)]);

        let containers: Vec<_> = (0..count)
            .map(|index| json!({"name": format!("c{index}"), "resources": {"requests": resources(index, 1, "1")}}))
            .collect();
        let spread = json!({"spec": {"containers": containers}}).to_string();
        refused("resources of many containers", pod_request(&read(&spread).spec));

        let shares: Vec<_> = (0..count)
            .map(|index| {
                json!({"name": format!("c{index}"), "resources": {"limits": {
                "vke.volcengine.com/mgpu-core": "3", "vke.volcengine.com/mgpu-memory": "300"}}})
            })
            .collect();
        let shares = json!({"spec": {"containers": shares}}).to_string();
        refused("containers with shares", MgpuRequest::read(&read(&shares)));

        let list = json!({"vke.volcengine.com/container-multiple-gpu": "1,".repeat(count)});
        let limits = json!({"vke.volcengine.com/mgpu-core": "3", "vke.volcengine.com/mgpu-memory": "300"});
        refused(
            "a list of cards",
            MgpuRequest::read(&read(&pod(&limits, &limits, &list))),
        );

        let tolerations = vec![json!({"operator": "Exists"}); count];
        let tolerant = json!({"spec": {"tolerations": tolerations}}).to_string();
        refused("tolerations", pod_bounds::check(&read(&tolerant)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        // Beside integration tests there is no src/ to keep failures in; the minimal input is printed.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What is read is within its bounds, whatever the size; and what is within them is read.
    #[test]
    fn what_is_read_is_within_its_bounds(count in 1_usize..600, length in 1_usize..40) {
        let name = |index: usize| format!("{index:0length$}");
        let text = many(name, "|", count);
        let fits = count <= bounds::ALTERNATIVES && text.len() <= bounds::annotation_length(CARD_NAME);
        let read = CardAlternatives::parse(&text).map(|names| names.as_slice().len());
        prop_assert_eq!(read.clone().ok(), fits.then_some(count), "{:?}", read);

        let text = format!("{{{}}}", many(|index| format!("\"{}\":1", name(index)), ",", count));
        let fits = |most: usize, key: &str| {
            (count <= most && text.len() <= bounds::annotation_length(key)).then_some(count)
        };
        prop_assert_eq!(CardQuota::parse(&text).ok().map(|all| all.iter().len()), fits(bounds::QUOTA_ENTRIES, CARD_QUOTA));
        prop_assert_eq!(CardRequest::parse(&text).ok().map(|all| all.iter().len()), fits(bounds::REQUEST_CARDS, CARD_REQUEST));
    }
}
