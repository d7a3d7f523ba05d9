//! Draws with weights.

use rand::RngExt as _;

use crate::Dice;

/// Whether an event of this probability, in percent, happens.
pub fn percent(dice: &mut Dice, percent: u32) -> bool {
    dice.random_range(0..100) < percent
}

/// Draws one of these; `None` if there are none.
pub fn one<'a, T>(dice: &mut Dice, of: &'a [T]) -> Option<&'a T> {
    if of.is_empty() {
        None
    } else {
        of.get(dice.random_range(0..of.len()))
    }
}

/// Draws one of these, by weight.
pub fn weighted<T: Copy>(dice: &mut Dice, first: (u32, T), others: &[(u32, T)]) -> T {
    let sum: u32 = first.0 + others.iter().map(|(weight, _)| weight).sum::<u32>();
    let mut left = if sum == 0 { 0 } else { dice.random_range(0..sum) };
    for (weight, what) in [first].iter().chain(others) {
        if left < *weight {
            return *what;
        }
        left -= weight;
    }
    first.1
}

/// Draws a number of a range that ends before `end`.
pub fn number(dice: &mut Dice, from: i64, end: i64) -> i64 {
    if from < end { dice.random_range(from..end) } else { from }
}
