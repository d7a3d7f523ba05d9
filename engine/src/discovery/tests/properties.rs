//! What holds for any node.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

type Entries = Vec<(String, String)>;

/// Distinct keys, in any order, twice.
fn in_two_orders(entry: impl Strategy<Value = (String, String)>) -> impl Strategy<Value = (Entries, Entries)> {
    let entries = prop::collection::vec(entry, 0..12);
    let unique = entries.prop_map(|entries| entries.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect());
    unique.prop_flat_map(|entries: Entries| (Just(entries.clone()).prop_shuffle(), Just(entries).prop_shuffle()))
}

/// Keys and values that come close to what discovery looks for, and others.
fn label() -> impl Strategy<Value = (String, String)> {
    let stems = vec![
        "nvidia.com/gpu",
        "nvidia.com/x",
        "a.com/gpu",
        "a.com/npu",
        "nvidia.com/mig-1g.5gb",
        "a.com/gpu-1",
    ];
    let suffixes = vec![PRODUCT, PRODUCT, COUNT, COUNT, MEMORY, MEMORY, REPLICAS, ".family"];
    let key = (prop::sample::select(stems), prop::sample::select(suffixes));
    let values = vec!["", "0", "1", "2", "8", "81559", "P", "Q"];
    let likely = (key, prop::sample::select(values));
    prop_oneof![
        9 => likely.prop_map(|((stem, suffix), value)| (format!("{stem}{suffix}"), value.to_owned())),
        1 => ("\\PC{0,8}/?\\PC{0,8}(\\.product)?", "\\PC{0,8}"),
    ]
}

fn quantity() -> impl Strategy<Value = (String, String)> {
    let names = vec![
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/hostdev",
        "nvidia.com/x-1",
        "a.com/gpu",
        "a.com/gpu-1",
        "a.com/gpu-2",
        "cpu",
    ];
    let likely = (
        prop::sample::select(names),
        prop::sample::select(vec!["0", "1", "2", "8", "-1", "x"]),
    );
    prop_oneof![
        9 => likely.prop_map(|(name, quantity)| (name.to_owned(), quantity.to_owned())),
        1 => ("\\PC{0,8}/?\\PC{0,8}", "\\PC{0,8}"),
    ]
}

proptest! {
    #[test]
    fn any_node_yields_cards_that_can_be_counted((labels, relabelled) in in_two_orders(label()),
                                                 (resources, reordered) in in_two_orders(quantity())) {
        let (labels, resources): (TextMap<_>, TextMap<_>) =
            (labels.into_iter().collect(), resources.into_iter().collect());
        let found = discover(&labels, &resources);
        prop_assert_eq!(&found, &discover(&relabelled.into_iter().collect(), &reordered.into_iter().collect()));

        let mut counted = BTreeSet::new();
        for card in &found.cards {
            prop_assert!(card.count > 0);
            let allocatable = resources.get(&card.resource).and_then(|text| crds::quantity::parse_units(text).ok());
            prop_assert_eq!(allocatable, Some(card.count));
            prop_assert!(counted.insert(&card.resource), "{} is counted twice", card.resource);
            prop_assert!(!card.labels.is_empty());
            prop_assert!(card.labels.iter().all(|(key, value)| labels.get(key) == Some(value)));
        }
        prop_assert!(found.cards.is_sorted_by(|a, b| a.name < b.name), "names are unique and in order");
        prop_assert!(found.problems.iter().all(|problem| !problem.to_string().is_empty()));
    }
}
