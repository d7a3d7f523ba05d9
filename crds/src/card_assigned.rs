//! The value of `volcano.sh/card.assigned`: the card that a pod is charged for, or several cards and how many of each.

use std::collections::BTreeMap;

use crate::card_counts::CardQuota;

/// The value for a pod without cards, if nothing else on the pod shows that it was held.
pub const NO_CARDS: &str = "{}";

/// The cards that a pod was let in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignedCards {
    /// One card, by its name. The pod's request says how many.
    One(String),
    /// Several cards and how many of each, by name, as JSON: `{"NVIDIA-A100":2,"NVIDIA-T4":1}`.
    Counted(Vec<(String, i64)>),
}

/// Whether the value means no cards.
pub fn says_none(text: &str) -> bool {
    text.is_empty() || text == NO_CARDS
}

impl AssignedCards {
    /// Reads the value. A text that is no object of cards and numbers is one name.
    pub fn parse(text: &str) -> Self {
        let counted = text.starts_with('{').then(|| CardQuota::parse(text).ok()).flatten();
        match counted {
            Some(counts) => Self::Counted(counts.iter().map(|(name, count)| (name.to_owned(), count)).collect()),
            None => Self::One(text.to_owned()),
        }
    }

    /// Writes cards and how many of each as the value.
    pub fn counted<'c>(counts: impl IntoIterator<Item = (&'c str, i64)>) -> String {
        let counts: BTreeMap<_, _> = counts.into_iter().collect();
        serde_json::to_string(&counts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_card_is_its_name() {
        for name in [
            "NVIDIA-A100",
            "NVIDIA-A100/mps-80g*1/8",
            "",
            "{\"A\":-1}",
            "{\"A|B\":1}",
        ] {
            assert_eq!(AssignedCards::parse(name), AssignedCards::One(name.to_owned()));
        }
    }

    #[test]
    fn none_are_none_of_each() {
        assert_eq!(AssignedCards::counted([]), NO_CARDS);
        assert_eq!(AssignedCards::parse(NO_CARDS), AssignedCards::Counted(Vec::new()));
        assert!(says_none(NO_CARDS) && says_none("") && !says_none("A") && !says_none("{\"A\":1}"));
    }

    #[test]
    fn several_are_written_by_name() {
        let text = AssignedCards::counted([("T4", 1), ("NVIDIA-A100", 2)]);
        assert_eq!(text, r#"{"NVIDIA-A100":2,"T4":1}"#);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(counts in prop::collection::btree_map("[A-Za-z\"\\\\/.-]{1,9}", 1..99_i64, 1..5)) {
            let counts: Vec<_> = counts.into_iter().collect();
            let text = AssignedCards::counted(counts.iter().map(|(name, count)| (name.as_str(), *count)));
            prop_assert_eq!(AssignedCards::parse(&text), AssignedCards::Counted(counts));
        }
    }
}
