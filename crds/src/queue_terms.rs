//! What a Queue says of itself: its limits, its place among the others, and who may use it.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::card_counts::{CardCountsError, CardQuota};
use crate::format::format_amount;
use crate::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA, QUEUE_NAMESPACES};
use crate::queue_access::{QueueAccess, QueueAccessError};
use crate::volcano::{QueueSpec, ResourceQuantities, ResourceQuantityError, resource_vector};

/// What can be limited: a Kubernetes resource, or a card by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A Kubernetes resource: CPU in milli, everything else in whole units.
    Resource(Box<str>),
    /// A card name, in whole cards.
    Card(Box<str>),
}

impl Item {
    /// Formats an amount of the item as people write it.
    pub fn format(&self, amount: i128) -> String {
        match self {
            Self::Resource(name) => format_amount(name, amount),
            Self::Card(_) => amount.to_string(),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) | Self::Card(name) => f.write_str(name),
        }
    }
}

/// Amounts of the named items. An amount of 0 is kept.
pub type Limits = BTreeMap<Item, i64>;

/// What a queue says of itself and of its place. A part that can't be read is empty here, and among the problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTerms {
    /// The queue that this queue is a part of, if it names one.
    pub parent: Option<Box<str>>,
    /// Queues of higher priority go first.
    pub priority: i32,
    /// Whether what the queue has beyond what it deserves may be taken back.
    pub reclaimable: bool,
    /// The most that the queue may have.
    pub capability: Limits,
    /// What the queue should have while others want it too.
    pub deserved: Limits,
    /// What is kept free for the queue.
    pub guarantee: Limits,
    /// The limits that can't be read.
    pub problems: Vec<QueueProblem>,
    /// The namespaces that may use the queue.
    pub access: Result<QueueAccess, QueueAccessError>,
}

/// A part of a queue that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum QueueProblem {
    /// Cards in an annotation.
    #[error("annotation {annotation}: {error}")]
    Cards {
        annotation: &'static str,
        error: CardCountsError,
    },
    /// Resources in the specification.
    #[error("{field}: {error}")]
    Resources {
        field: &'static str,
        error: ResourceQuantityError,
    },
    /// The selector of namespaces that may use the queue.
    #[error("annotation {QUEUE_NAMESPACES}: {0}")]
    Namespaces(#[from] QueueAccessError),
}

impl Default for QueueTerms {
    /// A queue that says nothing.
    fn default() -> Self {
        Self::read(&QueueSpec::default(), |_| None)
    }
}

impl QueueTerms {
    /// Reads a queue's specification, and its annotations by their keys.
    pub fn read<'a>(spec: &QueueSpec, annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let guarantee = spec
            .guarantee
            .as_ref()
            .and_then(|guarantee| guarantee.resource.as_ref());
        let mut problems = Vec::new();
        let mut limits = |field, resources: Option<&ResourceQuantities>, key| {
            let mut limits = Limits::new();
            match resources.map(resource_vector).transpose() {
                // A vector keeps no zeros, but here a 0 that the queue names counts.
                Ok(amounts) => limits.extend(resources.iter().flat_map(|named| named.keys()).map(|name| {
                    let amount = amounts.as_ref().map_or(0, |amounts| amounts.get(name));
                    (Item::Resource(name.as_str().into()), amount)
                })),
                Err(error) => problems.push(QueueProblem::Resources { field, error }),
            }
            match annotation(key).map(CardQuota::parse).transpose() {
                Ok(cards) => limits.extend(
                    cards
                        .iter()
                        .flat_map(CardQuota::iter)
                        .map(|(name, count)| (Item::Card(name.into()), count)),
                ),
                Err(error) => problems.push(QueueProblem::Cards { annotation: key, error }),
            }
            limits
        };
        Self {
            capability: limits("spec.capability", spec.capability.as_ref(), CARD_QUOTA),
            deserved: limits("spec.deserved", spec.deserved.as_ref(), CARD_DESERVED),
            guarantee: limits("spec.guarantee.resource", guarantee, CARD_GUARANTEE),
            parent: spec
                .parent
                .as_deref()
                .filter(|parent| !parent.is_empty())
                .map(Into::into),
            priority: spec.priority.unwrap_or(0),
            reclaimable: spec.reclaimable.unwrap_or(true),
            access: QueueAccess::parse(annotation(QUEUE_NAMESPACES)),
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: serde_json::Value, annotations: &[(&str, &'static str)]) -> QueueTerms {
        let spec: QueueSpec = serde_json::from_value(spec).unwrap();
        QueueTerms::read(&spec, |key| {
            let found = annotations.iter().find(|(annotation, _)| *annotation == key);
            found.map(|(_, text)| *text)
        })
    }

    #[test]
    fn resources_and_cards_are_limits_alike_and_0_is_one() {
        let terms = read(
            json!({"capability": {"cpu": "1500m", "nvidia.com/gpu": 0}, "parent": "", "priority": 3, "reclaimable": false}),
            &[(CARD_QUOTA, r#"{"NVIDIA-A100": 8, "NVIDIA-H100": 0}"#)],
        );
        let shown: Vec<_> = terms
            .capability
            .iter()
            .map(|(item, amount)| format!("{item} {}", item.format((*amount).into())))
            .collect();
        assert_eq!(
            shown,
            ["cpu 1500m", "nvidia.com/gpu 0", "NVIDIA-A100 8", "NVIDIA-H100 0"]
        );
        assert_eq!((terms.parent, terms.priority, terms.reclaimable), (None, 3, false));
        assert_eq!((terms.problems, terms.deserved.len()), (Vec::new(), 0));
    }

    #[test]
    fn every_problem_is_found_and_says_where_it_is() {
        let terms = read(
            json!({"capability": {"cpu": "x"}, "guarantee": {"resource": {"memory": "-1"}}}),
            &[
                (CARD_QUOTA, "[]"),
                (CARD_DESERVED, "{}"),
                (CARD_GUARANTEE, "8"),
                (QUEUE_NAMESPACES, " "),
            ],
        );
        let said: Vec<_> = terms.problems.iter().map(ToString::to_string).collect();
        let places = [
            "spec.capability: cpu: ",
            "annotation volcano.sh/card.quota: ",
            "spec.guarantee.resource: memory: ",
            "annotation volcano.sh/card.guarantee: ",
        ];
        assert_eq!(said.len(), places.len(), "{said:?}");
        for (said, place) in said.iter().zip(places) {
            assert!(said.starts_with(place), "{said}");
        }
        assert_eq!(terms.access, Err(QueueAccessError::Empty));
        assert!(terms.capability.is_empty());
    }
}
