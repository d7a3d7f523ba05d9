//! Quotas and requests are read as they were written.

use std::collections::BTreeMap;

use crds::card_counts::{CardCountsError, CardQuota, CardRequest};
use proptest::prelude::*;

/// Names with everything that cards and JSON have: slashes, asterisks, quotes, other scripts.
fn card() -> impl Strategy<Value = String> {
    r#"[a-zA-Z0-9/*."\\é卡-]([a-zA-Z0-9/*. "\\é卡-]{0,12}[a-zA-Z0-9/*."\\é卡-])?"#
}

fn counts() -> impl Strategy<Value = BTreeMap<String, i64>> {
    prop::collection::btree_map(card(), prop_oneof![0i64..20, 0..=i64::MAX], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        // Beside integration tests there is no src/ to keep failures in; the minimal input is printed.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_quota_is_read_as_it_was_written(counts in counts(), order in any::<prop::sample::Index>()) {
        let mut entries: Vec<_> = counts.iter().collect();
        entries.rotate_left(order.index(counts.len().max(1)));
        let text = entries
            .iter()
            .map(|(card, count)| format!("{}: {count}", serde_json::to_string(card).unwrap()))
            .collect::<Vec<_>>()
            .join(", ");
        let quota = CardQuota::parse(&format!("{{{text}}}")).unwrap();
        let expected: Vec<_> = counts.iter().map(|(card, count)| (card.as_str(), *count)).collect();
        prop_assert_eq!(quota.iter().collect::<Vec<_>>(), expected);
        for (card, count) in &counts {
            prop_assert_eq!(quota.get(card), *count);
        }
        prop_assert_eq!(quota.get("not among them, since it ends in a space "), 0);
    }

    #[test]
    fn a_request_is_read_as_it_was_written(
        names in prop::collection::btree_set(card(), 1..5), count in 0..=i64::MAX, spaces in " {0,2}",
    ) {
        let alternatives: Vec<_> = names.iter().map(String::as_str).collect();
        let key = serde_json::to_string(&alternatives.join(&format!("{spaces}|{spaces}"))).unwrap();
        let request = CardRequest::parse(&format!("{{{key}: {count}}}")).unwrap();
        let canonical = alternatives.join("|");
        prop_assert_eq!(request.iter().collect::<Vec<_>>(), [(canonical.as_str(), count)]);
    }

    #[test]
    fn a_name_that_stands_twice_is_refused_wherever(counts in counts(), again in any::<prop::sample::Index>()) {
        prop_assume!(!counts.is_empty());
        let twice = counts.keys().nth(again.index(counts.len())).unwrap();
        let all = serde_json::to_string(&counts).unwrap();
        let text = format!("{},{}: 1}}", &all[..all.len() - 1], serde_json::to_string(twice).unwrap());
        prop_assert_eq!(CardQuota::parse(&text), Err(CardCountsError::Duplicate(twice.clone())));
    }
}
