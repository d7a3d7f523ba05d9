//! What a search may cost.
//!
//! Placing containers on cards is bin packing: for some requests no search ends in reasonable time. So each search counts its
//! steps, which are the same on every machine, and ends with what it has when they are spent.

use std::cell::Cell;

/// The steps that a search has left. A step is a look at a card, a class of cards or a bound: a few nanoseconds.
#[derive(Debug)]
pub struct Steps {
    left: Cell<u64>,
}

impl Steps {
    /// Returns this many steps.
    pub const fn new(steps: u64) -> Self {
        Self { left: Cell::new(steps) }
    }

    /// Returns how many steps are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Whether all steps are spent.
    pub fn are_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Lets a part of the work spend at most `most` of the steps that are left.
    pub fn share<T>(&self, most: u64, work: impl FnOnce(&Self) -> T) -> T {
        let granted = most.min(self.left());
        let own = Self::new(granted);
        let result = work(&own);
        self.left.set(self.left() - (granted - own.left()));
        result
    }

    /// Spends this many steps, or those that are left if they are fewer.
    pub fn spend(&self, steps: impl TryInto<u64>) {
        let steps = steps.try_into().unwrap_or(u64::MAX);
        self.left.set(self.left.get().saturating_sub(steps));
    }
}
