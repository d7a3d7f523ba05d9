//! Resource vectors: how much of each Kubernetes resource, as exact integers.

use crate::card_resources::is_extended;
use crate::quantity::{self, QuantityError};

/// Resource name of CPU, counted in milli.
pub const CPU: &str = "cpu";
/// Resource name of memory, counted in bytes.
pub const MEMORY: &str = "memory";
/// Resource name of local disk space, counted in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Start of the resource names of huge pages, counted in bytes.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";
/// Resource name of pod slots.
pub const PODS: &str = "pods";

/// Reads a quantity in the unit its resource is counted in: CPU in milli, everything else in whole units
/// (docs/rules.md, **Requests**).
pub fn parse_amount(resource: &str, quantity: &str) -> Result<i64, QuantityError> {
    if resource == CPU {
        quantity::parse_milli(quantity)
    } else {
        quantity::parse_units(quantity)
    }
}

/// Whether pods can request this resource, or take it up by existing. False for keys that only quotas have.
pub fn is_of_pods(resource: &str) -> bool {
    const QUOTA_PREFIXES: [&str; 3] = ["count/", "requests.", "limits."];
    matches!(resource, CPU | MEMORY | EPHEMERAL_STORAGE | PODS)
        || resource.starts_with(HUGE_PAGES_PREFIX)
        || (is_extended(resource) && !QUOTA_PREFIXES.iter().any(|prefix| resource.starts_with(prefix)))
}

/// Amounts by resource name, sorted by name. CPU is in milli, everything else in whole units. Zero amounts are not kept. The
/// names borrow from the object that the vector is read from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceVector<'n> {
    amounts: Vec<(&'n str, i64)>,
}

impl<'n> ResourceVector<'n> {
    /// Returns how much of `resource`; 0 where it is not named.
    pub fn get(&self, resource: &str) -> i64 {
        self.find(resource).map_or(0, |index| self.amounts[index].1)
    }

    /// Sets one amount; 0 removes it.
    pub fn set(&mut self, resource: &'n str, amount: i64) {
        match (self.find(resource), amount) {
            (Ok(index), 0) => {
                self.amounts.remove(index);
            }
            (Ok(index), _) => self.amounts[index].1 = amount,
            (Err(_), 0) => {}
            (Err(index), _) => self.amounts.insert(index, (resource, amount)),
        }
    }

    /// Whether the vector names nothing.
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty()
    }

    /// Returns names and amounts, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'n str, i64)> + '_ {
        self.amounts.iter().copied()
    }

    /// Adds every amount of `other`; the error is a resource whose sum does not fit.
    pub fn checked_add(mut self, other: &Self) -> Result<Self, &'n str> {
        for (name, amount) in other.iter() {
            let sum = self.get(name).checked_add(amount).ok_or(name)?;
            self.set(name, sum);
        }
        Ok(self)
    }

    /// Raises every amount to that of `other` where `other` has more.
    #[must_use]
    pub fn max(mut self, other: &Self) -> Self {
        for (name, amount) in other.iter() {
            if self.get(name) < amount {
                self.set(name, amount);
            }
        }
        self
    }

    fn find(&self, resource: &str) -> Result<usize, usize> {
        self.amounts.binary_search_by(|(name, _)| (*name).cmp(resource))
    }
}

impl<'n> FromIterator<(&'n str, i64)> for ResourceVector<'n> {
    fn from_iter<I: IntoIterator<Item = (&'n str, i64)>>(amounts: I) -> Self {
        let mut vector = Self::default();
        for (name, amount) in amounts {
            vector.set(name, amount);
        }
        vector
    }
}
