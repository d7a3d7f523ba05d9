//! Amounts by dimension: what a pod asks for, what a node offers, what a queue holds.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crds::format::{format_bytes, format_cpu};
use crds::queue_terms::Item;

use crate::names::{CardId, Names, ResourceId};
use crate::reason::Reason;

/// What can be counted: a Kubernetes resource, or a card by its name. Both are treated in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A Kubernetes resource: CPU in milli, everything else in whole units.
    Resource(ResourceId),
    /// A card name, in whole cards.
    Card(CardId),
}

impl Dimension {
    /// Returns the Kubernetes resource, where it is one.
    pub fn resource(self) -> Option<ResourceId> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Card(_) => None,
        }
    }

    /// Returns the card, where it is one.
    pub fn card(self) -> Option<CardId> {
        match self {
            Self::Resource(_) => None,
            Self::Card(card) => Some(card),
        }
    }

    /// Whether it is CPU or memory, which `capacity-card` may leave unlimited.
    pub(crate) fn is_cpu_or_memory(self) -> bool {
        matches!(self, Self::Resource(ResourceId::CPU | ResourceId::MEMORY))
    }

    /// Returns the dimension that a queue's item names.
    pub fn of(item: &Item, names: &mut Names) -> Self {
        match item {
            Item::Resource(name) => Self::Resource(names.resource(name)),
            Item::Card(name) => Self::Card(names.card(name)),
        }
    }

    /// Returns why a pod waits when a queue does not have enough of it left.
    pub fn shortage(self) -> Reason {
        match self {
            Self::Resource(ResourceId::CPU) => Reason::InsufficientCpuQuota,
            Self::Resource(ResourceId::MEMORY) => Reason::InsufficientMemoryQuota,
            Self::Resource(_) | Self::Card(_) => Reason::InsufficientScalarQuota,
        }
    }

    /// Returns its name for people.
    pub fn name(self, names: &Names) -> &str {
        match self {
            Self::Resource(ResourceId::CPU) => "CPU",
            Self::Resource(resource) => names.resource_name(resource),
            Self::Card(card) => names.card_name(card),
        }
    }

    /// Returns an amount of it as people write it.
    pub fn format(self, amount: i128) -> String {
        match self {
            Self::Resource(ResourceId::CPU) => format_cpu(amount),
            Self::Resource(ResourceId::MEMORY) => format_bytes(amount),
            Self::Resource(_) | Self::Card(_) => amount.to_string(),
        }
    }

    /// Returns its place in the order: resources before cards. It is one number, since every look at an amount compares several.
    fn rank(self) -> u64 {
        match self {
            Self::Resource(resource) => resource.index() as u64,
            Self::Card(card) => 1 << 32 | card.index() as u64,
        }
    }
}

impl Ord for Dimension {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Dimension {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the place of a dimension among entries sorted by it, or where it would have to stand. Most objects have few
/// dimensions: for these a scan is faster than halving.
#[inline]
fn find<A>(entries: &[(Dimension, A)], dimension: Dimension) -> Result<usize, usize> {
    const FEW: usize = 8;
    if entries.len() > FEW {
        return entries.binary_search_by_key(&dimension, |entry| entry.0);
    }
    let place = entries.iter().take_while(|entry| entry.0 < dimension).count();
    if entries.get(place).is_some_and(|entry| entry.0 == dimension) {
        Ok(place)
    } else {
        Err(place)
    }
}

/// The amounts of one object, sorted by dimension. A dimension that is not named is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amounts(Box<[(Dimension, i64)]>);

impl Amounts {
    /// Returns the amount of one dimension.
    #[inline]
    pub fn get(&self, dimension: Dimension) -> i64 {
        find(&self.0, dimension).map_or(0, |index| self.0[index].1)
    }

    /// Returns dimensions and amounts, sorted by dimension.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Dimension, i64)> + Clone + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<(Dimension, i64)> for Amounts {
    /// Each dimension may appear once: amounts are not added up.
    fn from_iter<I: IntoIterator<Item = (Dimension, i64)>>(amounts: I) -> Self {
        let amounts = amounts.into_iter();
        // Hardly any amount is 0 and left out, so this is one allocation that neither grows nor shrinks.
        let mut kept = Vec::with_capacity(amounts.size_hint().1.unwrap_or_default());
        kept.extend(amounts.filter(|(_, amount)| *amount != 0));
        kept.sort_unstable();
        Self(kept.into())
    }
}

/// Sums over many objects, by dimension. 128 bits hold any sum of 64-bit amounts that memory can list.
///
/// Most have a few dimensions. A queue whose pods make up names has as many dimensions as there are names, and each comes and
/// goes at the cost of one.
#[derive(Debug, Clone)]
pub struct Totals(Sums);

#[derive(Debug, Clone)]
enum Sums {
    /// Sorted by dimension.
    Few(Vec<(Dimension, i128)>),
    Many(BTreeMap<Dimension, i128>),
}

/// A list with more entries than this becomes a map.
const MOST_OF_FEW: usize = 128;

impl Totals {
    /// Returns the total of one dimension.
    #[inline]
    pub fn get(&self, dimension: Dimension) -> i128 {
        match &self.0 {
            Sums::Few(few) => find(few, dimension).map_or(0, |index| few[index].1),
            Sums::Many(many) => many.get(&dimension).copied().unwrap_or(0),
        }
    }

    /// Returns dimensions and the totals that are not 0, sorted by dimension.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, i128)> + '_ {
        let (few, many) = match &self.0 {
            Sums::Few(few) => (&**few, None),
            Sums::Many(many) => (&[][..], Some(many)),
        };
        let many = many.into_iter().flatten();
        few.iter()
            .copied()
            .chain(many.map(|(dimension, amount)| (*dimension, *amount)))
    }

    /// Adds to one dimension. A total of 0 is not kept.
    pub fn add(&mut self, dimension: Dimension, amount: i128) {
        match &mut self.0 {
            Sums::Few(few) => {
                match find(few, dimension) {
                    Ok(index) => {
                        few[index].1 += amount;
                        if few[index].1 == 0 {
                            few.remove(index);
                        }
                    }
                    Err(index) if amount != 0 => few.insert(index, (dimension, amount)),
                    Err(_) => {}
                }
                if few.len() > MOST_OF_FEW {
                    self.0 = Sums::Many(few.drain(..).collect());
                }
            }
            Sums::Many(many) => {
                let total = many.entry(dimension).or_default();
                *total += amount;
                if *total == 0 {
                    many.remove(&dimension);
                }
                // The map turns back into a list only at half that size: otherwise one dimension that comes and goes would copy
                // all of them each time.
                if many.len() <= MOST_OF_FEW / 2 {
                    self.0 = Sums::Few(std::mem::take(many).into_iter().collect());
                }
            }
        }
    }

    /// Adds every amount.
    pub(crate) fn add_all(&mut self, amounts: &Amounts) {
        amounts
            .iter()
            .for_each(|(dimension, amount)| self.add(dimension, i128::from(amount)));
    }

    /// Adds every total.
    pub(crate) fn add_totals(&mut self, totals: &Self) {
        totals
            .iter()
            .for_each(|(dimension, amount)| self.add(dimension, amount));
    }

    /// Subtracts every amount.
    pub(crate) fn subtract_all(&mut self, amounts: &Amounts) {
        amounts
            .iter()
            .for_each(|(dimension, amount)| self.add(dimension, -i128::from(amount)));
    }
}

impl Default for Totals {
    fn default() -> Self {
        Self(Sums::Few(Vec::new()))
    }
}

impl PartialEq for Totals {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Totals {}

/// The limits of one object, sorted by dimension. A dimension that is named with 0 differs from one that is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds(Box<[(Dimension, i64)]>);

impl Bounds {
    /// Returns the limit of one dimension; none where it is not named.
    #[inline]
    pub fn get(&self, dimension: Dimension) -> Option<i64> {
        find(&self.0, dimension).ok().map(|index| self.0[index].1)
    }

    /// Returns the named dimensions and their limits, sorted by dimension.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Dimension, i64)> + '_ {
        self.0.iter().copied()
    }

    /// Whether no dimension is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Dimension, i64)> for Bounds {
    /// Each dimension may appear once.
    fn from_iter<I: IntoIterator<Item = (Dimension, i64)>>(bounds: I) -> Self {
        let mut bounds: Vec<_> = bounds.into_iter().collect();
        bounds.sort_unstable();
        Self(bounds.into())
    }
}

#[cfg(test)]
mod tests;
