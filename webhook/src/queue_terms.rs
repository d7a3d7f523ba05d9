//! What a queue says of itself and of its place among the others, as far as queues are compared.

use std::collections::BTreeMap;
use std::fmt;

use crds::card_counts::CardQuota;
use crds::format::format_amount;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use crds::volcano::{QueueSpec, ResourceQuantities, resource_vector};

/// What can be limited: a Kubernetes resource, or a card by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A Kubernetes resource: CPU in milli, everything else in whole units.
    Resource(Box<str>),
    /// A card name, in whole cards.
    Card(Box<str>),
}

impl Item {
    /// An amount of it, as people write it.
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

/// Amounts of what is named; 0 may be named.
pub type Limits = BTreeMap<Item, i64>;

/// What a queue says of itself and of its place. What can't be read says nothing here: that is refused by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueTerms {
    /// The queue that it is a part of, where it names one.
    pub parent: Option<Box<str>>,
    /// The most that it may have.
    pub capability: Limits,
    /// What it should have while others want it too.
    pub deserved: Limits,
    /// What is kept free for it.
    pub guarantee: Limits,
}

impl QueueTerms {
    /// Reads a queue's specification, and its annotations by their keys.
    pub fn read<'a>(spec: &QueueSpec, annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let guarantee = spec
            .guarantee
            .as_ref()
            .and_then(|guarantee| guarantee.resource.as_ref());
        Self {
            parent: spec
                .parent
                .as_deref()
                .filter(|parent| !parent.is_empty())
                .map(Into::into),
            capability: read_limits(spec.capability.as_ref(), annotation(CARD_QUOTA)),
            deserved: read_limits(spec.deserved.as_ref(), annotation(CARD_DESERVED)),
            guarantee: read_limits(guarantee, annotation(CARD_GUARANTEE)),
        }
    }
}

fn read_limits(resources: Option<&ResourceQuantities>, cards: Option<&str>) -> Limits {
    let mut limits = Limits::new();
    if let Some(resources) = resources
        && let Ok(amounts) = resource_vector(resources)
    {
        let named = resources.keys().map(|name| (name, amounts.get(name)));
        limits.extend(named.map(|(name, amount)| (Item::Resource(name.as_str().into()), amount)));
    }
    if let Some(Ok(cards)) = cards.map(CardQuota::parse) {
        limits.extend(cards.iter().map(|(name, count)| (Item::Card(name.into()), count)));
    }
    limits
}
