//! The extended resources of a node, and which of them are shares of a card.

use crds::keys::{NVIDIA_MIG_PREFIX, NVIDIA_MPS};
use crds::lean::TextMap;
use crds::quantity;

use super::Problem;

/// A node's extended resources, by name. An amount that can't be read, or is negative, is a problem and counts as zero.
#[derive(Debug)]
pub(super) struct Allocatable<'a>(Vec<(&'a str, i64)>);

impl<'a> Allocatable<'a> {
    pub(super) fn read<S: AsRef<str>>(allocatable: &'a TextMap<S>, problems: &mut Vec<Problem>) -> Self {
        let mut amounts = Vec::with_capacity(allocatable.len());
        let mut unreadable = Vec::new();
        for (name, quantity) in allocatable.iter().filter(|(name, _)| name.contains('/')) {
            let amount = quantity::parse_units(quantity).ok().filter(|amount| *amount >= 0);
            if amount.is_none() {
                unreadable.push((name, quantity));
            }
            amounts.push((name, amount.unwrap_or(0)));
        }
        amounts.sort_unstable();
        unreadable.sort_unstable();
        problems.extend(
            unreadable
                .into_iter()
                .map(|(name, quantity)| Problem::UnreadableQuantity {
                    resource: name.to_owned(),
                    quantity: quantity.to_owned(),
                }),
        );
        Self(amounts)
    }

    /// Returns the resources of which the node has more than zero.
    pub(super) fn positive(&self) -> impl Iterator<Item = (&'a str, i64)> {
        self.0.iter().copied().filter(|(_, amount)| *amount > 0)
    }

    /// Returns the resource `name` if the node lists it, even with zero.
    pub(super) fn get(&self, name: &str) -> Option<(&'a str, i64)> {
        self.0.iter().copied().find(|(known, _)| *known == name)
    }

    /// Returns the resources whose names start with `start` and that can be whole cards, zeros included.
    pub(super) fn starting_with(&self, start: &str) -> Vec<(&'a str, i64)> {
        let resources = self.0.iter().copied();
        let named = resources.filter(|(name, _)| name.starts_with(start) && !is_share(name));
        named.collect()
    }

    /// Returns the MPS shares and MIG slices of which the node has more than zero.
    pub(super) fn shares(&self) -> impl Iterator<Item = (&'a str, i64)> {
        self.positive().filter(|(name, _)| is_share(name))
    }
}

/// Whether the resource counts shares or slices of cards: never whole cards (docs/rules.md, **Card discovery**).
pub(super) fn is_share(resource: &str) -> bool {
    resource == NVIDIA_MPS || is_slice(resource)
}

/// Whether the resource counts MIG slices.
pub(super) fn is_slice(resource: &str) -> bool {
    resource.starts_with(NVIDIA_MIG_PREFIX)
}
