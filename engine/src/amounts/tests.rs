//! Amounts against a map, below and above the number of entries up to which they are scanned, and up to which sums are one list.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::names::Names;

/// Ten resources and ten cards.
fn dimensions() -> Vec<Dimension> {
    let mut names = Names::default();
    let resources: Vec<_> = (0..10).map(|index| names.resource(&format!("r{index}"))).collect();
    let cards: Vec<_> = (0..10).map(|index| names.card(&format!("c{index}"))).collect();
    let resources = resources.into_iter().map(Dimension::Resource);
    resources.chain(cards.into_iter().map(Dimension::Card)).collect()
}

#[test]
fn resources_stand_before_cards_each_by_id() {
    assert!(dimensions().is_sorted());
}

proptest! {
    #[test]
    fn sums_of_many_dimensions_are_those_of_few(changes in proptest::collection::vec((0..400_u32, -1..2_i128), 0..900)) {
        let mut names = Names::default();
        let (mut totals, mut map) = (Totals::default(), BTreeMap::new());
        // First there are many, then most of them go again.
        let grown = (0..400_u32).map(|place| (place, 1)).chain(changes);
        let shrunk = (0..400_u32).rev().map(|place| (place, -1));
        for (place, amount) in grown.chain(shrunk) {
            let dimension = Dimension::Resource(names.resource(&format!("r{place}")));
            totals.add(dimension, amount);
            *map.entry(dimension).or_insert(0) += amount;
            prop_assert_eq!(totals.get(dimension), map[&dimension]);
        }
        map.retain(|_, amount| *amount != 0);
        prop_assert!(totals.iter().eq(map.iter().map(|(dimension, amount)| (*dimension, *amount))));
        let mut anew = Totals::default();
        for (dimension, amount) in &map {
            anew.add(*dimension, *amount);
        }
        prop_assert_eq!(totals, anew);
    }

    #[test]
    fn every_dimension_is_found(changes in proptest::collection::vec((0..20_usize, -2..3_i128), 0..60)) {
        let dimensions = dimensions();
        let (mut totals, mut map) = (Totals::default(), BTreeMap::new());
        for (place, amount) in changes {
            totals.add(dimensions[place], amount);
            *map.entry(dimensions[place]).or_insert(0) += amount;
        }
        map.retain(|_, amount| *amount != 0);
        prop_assert!(totals.iter().eq(map.iter().map(|(dimension, amount)| (*dimension, *amount))));
        let bounds: Bounds = map.iter().map(|(dimension, amount)| (*dimension, i64::try_from(*amount).unwrap())).collect();
        for dimension in dimensions {
            let amount = map.get(&dimension).copied();
            prop_assert_eq!(totals.get(dimension), amount.unwrap_or(0));
            prop_assert_eq!(bounds.get(dimension).map(i128::from), amount);
        }
    }
}
