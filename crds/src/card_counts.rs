//! Cards and how many of them, as JSON: `volcano.sh/card.quota` of a queue and `volcano.sh/card.request` of a workload.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{self, MapAccess, Visitor};
use thiserror::Error;

use crate::bounds::{self, BoundError, cut};
use crate::card::{self, CardAlternatives, CardNameError, SEPARATOR};
use crate::keys::{CARD_QUOTA, CARD_REQUEST};
use crate::lean::Text;

/// JSON that is no valid card count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum CardCountsError {
    /// More than is allowed.
    #[error("{0}")]
    Bound(#[from] BoundError),
    #[error("{text:?} is not a JSON object of card names and whole numbers, such as {{\"NVIDIA-A100\": 8}}: {reason}")]
    Json { text: String, reason: String },
    #[error("the key {key:?}: {source}")]
    Name { key: String, source: CardNameError },
    #[error("the key {0:?} names alternatives: a quota is set for each card by itself")]
    Alternatives(String),
    #[error("the key {0:?} appears twice: give every card one number")]
    Duplicate(String),
    #[error(
        "the key {key:?} has the value {value}: write a whole number from 0 to 9223372036854775807, without quotes"
    )]
    Value { key: String, value: String },
}

/// The quota of a queue: card names and how many of each, sorted by name. The quota of a card that is not named is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardQuota {
    counts: Vec<(String, i64)>,
}

impl CardQuota {
    /// Reads the JSON of `volcano.sh/card.quota` (Capacity Card, **Queue Annotations for Card Quotas**).
    pub fn parse(text: &str) -> Result<Self, CardCountsError> {
        let most = (bounds::QUOTA_ENTRIES, bounds::annotation_length(CARD_QUOTA));
        let counts = parse_counts(text, most, |key| {
            let name = if key.contains(SEPARATOR) {
                CardAlternatives::parse(key).map(|_| None)
            } else {
                card::parse_name(key).map(Some)
            };
            match name {
                Ok(Some(name)) => Ok(name.to_owned()),
                Ok(None) => Err(CardCountsError::Alternatives(cut(key))),
                Err(source) => Err(CardCountsError::Name { key: cut(key), source }),
            }
        })?;
        Ok(Self { counts })
    }

    /// Returns card names and counts, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, i64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// Whether no card is named.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns how many of `card`; 0 where the quota does not name it.
    pub fn get(&self, card: &str) -> i64 {
        let found = self.counts.binary_search_by(|(name, _)| name.as_str().cmp(card));
        found.map_or(0, |index| self.counts[index].1)
    }
}

/// What a workload asks for in all: cards or alternatives, and how many of each, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardRequest {
    counts: Vec<(String, i64)>,
}

impl CardRequest {
    /// Reads the JSON of `volcano.sh/card.request` (Capacity Card, **Job Annotations for Card Requests**).
    pub fn parse(text: &str) -> Result<Self, CardCountsError> {
        let most = (bounds::REQUEST_CARDS, bounds::annotation_length(CARD_REQUEST));
        let counts = parse_counts(text, most, |key| {
            CardAlternatives::parse(key)
                .map(|names| names.to_string())
                .map_err(|source| CardCountsError::Name { key: cut(key), source })
        })?;
        Ok(Self { counts })
    }

    /// Returns alternatives (as `A|B`, without spaces) and counts, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, i64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

/// What to do if there are too many cards.
const REMEDY: &str = "leave out the cards that are not needed";

/// Reads the entries of a text. The text has a longest length, and names at most so many cards, counting each alternative.
fn parse_counts(
    text: &str,
    (most, length): (usize, usize),
    canonical: impl Fn(&str) -> Result<String, CardCountsError>,
) -> Result<Vec<(String, i64)>, CardCountsError> {
    BoundError::length(text, length, REMEDY)?;
    // The visitor can report only serde_json's error type. An error that names a key is passed around it.
    let mut refused = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer
        .deserialize_map(CountsVisitor {
            canonical,
            most,
            refused: &mut refused,
        })
        .and_then(|counts| deserializer.end().map(|()| counts));
    match (refused, read) {
        (Some(error), _) => Err(error),
        (None, Ok(counts)) => Ok(counts),
        (None, Err(error)) => Err(CardCountsError::Json {
            text: cut(text),
            reason: bounds::json_error(&error),
        }),
    }
}

struct CountsVisitor<'r, F> {
    canonical: F,
    most: usize,
    refused: &'r mut Option<CardCountsError>,
}

impl<F: Fn(&str) -> Result<String, CardCountsError>> CountsVisitor<'_, F> {
    fn add(
        &self,
        counts: &mut Vec<(String, i64)>,
        names: &mut usize,
        key: &str,
        value: &serde_json::Value,
    ) -> Result<(), CardCountsError> {
        let name = (self.canonical)(key)?;
        *names += name.split(SEPARATOR).count();
        let count = value.as_i64().filter(|count| *count >= 0);
        let count = count.ok_or_else(|| CardCountsError::Value {
            key: cut(key),
            value: bounds::shown(&value.to_string()),
        })?;
        BoundError::count(|| "the object".to_owned(), "cards", *names, self.most, REMEDY)?;
        match counts.binary_search_by(|(known, _)| known.as_str().cmp(&name)) {
            Ok(_) => Err(CardCountsError::Duplicate(cut(key))),
            // There are few enough entries to move the others.
            Err(place) => {
                counts.insert(place, (name, count));
                Ok(())
            }
        }
    }
}

impl<'de, F: Fn(&str) -> Result<String, CardCountsError>> Visitor<'de> for CountsVisitor<'_, F> {
    type Value = Vec<(String, i64)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut counts, mut names) = (Vec::new(), 0);
        while let Some(key) = map.next_key::<Text>()? {
            let value = map.next_value::<serde_json::Value>()?;
            if let Err(error) = self.add(&mut counts, &mut names, key.as_ref(), &value) {
                *self.refused = Some(error);
                return Err(de::Error::custom("refused"));
            }
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_annotations_for_card_quotas() {
        let quota =
            CardQuota::parse(r#"{"NVIDIA-A100": 10, "NVIDIA-H100": 5, "NVIDIA-A100/mps-80g*1/8": 16}"#).unwrap();
        assert_eq!(quota.get("NVIDIA-A100"), 10);
        assert_eq!(quota.get("NVIDIA-H100"), 5);
        assert_eq!(quota.get("NVIDIA-A100/mps-80g*1/8"), 16);
        assert_eq!(quota.get("NVIDIA-V100"), 0, "card types without quotas default to 0");
        assert!(CardQuota::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn job_annotations_for_card_requests() {
        let request = CardRequest::parse(r#"{"NVIDIA-A100 | NVIDIA-H100": 8}"#).unwrap();
        assert_eq!(request.iter().collect::<Vec<_>>(), [("NVIDIA-A100|NVIDIA-H100", 8)]);
    }

    #[test]
    fn refusals_name_the_key_and_the_value() {
        for (text, part) in [
            (r#"{"A": 1, "A": 2}"#, r#"the key "A" appears twice"#),
            (r#"{"A": 1, " A": 2}"#, r#"the key " A" appears twice"#),
            (r#"{"A": -1}"#, r#"the key "A" has the value -1"#),
            (r#"{"A": 1.5}"#, r#"the key "A" has the value 1.5"#),
            (r#"{"A": "8"}"#, r#"the key "A" has the value "8""#),
            (r#"{"A": null}"#, r#"the key "A" has the value null"#),
            (r#"{"A": {"B": 1}}"#, r#"the key "A" has the value {"B":1}"#),
            (r#"{"A": 9223372036854775808}"#, "has the value 9223372036854775808"),
            (r#"{"A": 1e3}"#, "has the value 1000.0"),
            (r#"{"": 1}"#, "empty card name"),
            (r#"{" ": 1}"#, "empty card name"),
            (r#"{"A|B": 1}"#, "names alternatives"),
            ("", "is not a JSON object"),
            ("[]", "is not a JSON object"),
            ("null", "is not a JSON object"),
            (r#"{"A": 1"#, "is not a JSON object"),
            (r#"{"A": 1} x"#, "is not a JSON object"),
            (r#"{"A": 99999999999999999999999999}"#, "has the value"),
        ] {
            let error = CardQuota::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn there_is_a_bound_to_the_number_of_cards() {
        let text = |count: usize| {
            let entries: Vec<_> = (0..count).rev().map(|index| format!("\"C{index}\": 1")).collect();
            format!("{{{}}}", entries.join(","))
        };
        assert_eq!(CardQuota::parse(&text(256)).unwrap().iter().len(), 256);
        assert_eq!(CardRequest::parse(&text(64)).unwrap().iter().len(), 64);
        for error in [
            CardQuota::parse(&text(257)).unwrap_err().to_string(),
            CardRequest::parse(&text(65)).unwrap_err().to_string(),
        ] {
            assert!(
                error.starts_with("the object has ")
                    && error.ends_with("allowed: leave out the cards that are not needed"),
                "{error}"
            );
        }
        // Each alternative counts.
        let ways = |key: usize| {
            (0..32)
                .map(|index| format!("C{key}-{index}"))
                .collect::<Vec<_>>()
                .join("|")
        };
        let entries = |count: usize| {
            let all: Vec<_> = (0..count).map(|key| format!("\"{}\": 1", ways(key))).collect();
            format!("{{{}}}", all.join(","))
        };
        assert!(CardRequest::parse(&entries(2)).is_ok());
        let error = CardRequest::parse(&entries(3)).unwrap_err().to_string();
        assert!(
            error.starts_with("the object has 96 cards, and 64 are allowed"),
            "{error}"
        );
        let error = CardQuota::parse(&text(100_000)).unwrap_err().to_string();
        assert!(error.contains("bytes, and 32768 are allowed"), "{error}");
    }
}
