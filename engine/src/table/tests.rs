use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Table;
use crate::ids::{Id as _, PodId};

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u8, u32),
    Change(u8, u32),
    Remove(u8),
}

fn step() -> impl Strategy<Value = Step> {
    // So few keys that they come again, and so many that places do.
    let key = 0_u8..12;
    prop_oneof![
        (key.clone(), any::<u32>()).prop_map(|(key, thing)| Step::Insert(key, thing)),
        (key.clone(), any::<u32>()).prop_map(|(key, thing)| Step::Change(key, thing)),
        key.prop_map(Step::Remove),
    ]
}

proptest! {
    /// The same things as in a map by key, each in a place that nothing else has; what is gone stays until its place is taken,
    /// and no place is made while one is free.
    #[test]
    fn a_table_is_a_map_whose_things_stay_in_their_places(steps in vec(step(), 0..200)) {
        let mut table = Table::<PodId, u32>::default();
        let mut by_key = BTreeMap::<String, PodId>::new();
        let mut by_place = BTreeMap::<usize, u32>::new();
        let mut most = 0;
        for step in steps {
            match step {
                Step::Insert(key, thing) => {
                    let key = key.to_string();
                    let id = table.insert(key.as_str().into(), thing);
                    if let Some(known) = by_key.insert(key, id) {
                        prop_assert_eq!(known, id);
                    }
                    by_place.insert(id.index(), thing);
                }
                Step::Change(key, thing) => {
                    if let Some(id) = table.id(&key.to_string()) {
                        table[id] = thing;
                        by_place.insert(id.index(), thing);
                    }
                }
                Step::Remove(key) => {
                    prop_assert_eq!(table.remove(&key.to_string()), by_key.remove(&key.to_string()));
                }
            }
            most = most.max(by_key.len());
            for (key, id) in &by_key {
                prop_assert_eq!(table.id(key), Some(*id));
            }
            let mut ids: Vec<_> = table.ids().collect();
            ids.sort_unstable();
            let mut known: Vec<_> = by_key.values().copied().collect();
            known.sort_unstable();
            prop_assert_eq!(&ids, &known);
            known.dedup();
            prop_assert_eq!(known.len(), by_key.len(), "two things in one place");
            let places: Vec<_> = table.iter().map(|(id, thing)| (id.index(), *thing)).collect();
            prop_assert_eq!(places, by_place.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(table.places().count(), most);
            prop_assert_eq!(table.get(PodId::of(most)), None);
        }
    }
}
