//! **Node Ordering Function (Scoring)**, exact: scores are sums of fractions, and are compared as such.
//!
//! The sum over the resources is compared digit by digit, as in long division. Nearly always the first digit tells; sums
//! that are equal cost a few more.

use std::cmp::Ordering;

use crds::scoring_strategy::ScoringStrategy;

use super::Line;

/// Bits behind the point of the first digit.
const FIRST_BITS: u32 = 32;
/// Bits of every further digit: a remainder is below 2^63, so that what is divided fits 128 bits.
const FURTHER_BITS: u32 = 62;
/// Usage beyond this counts as this much: weights, of 20 bits, and the first digit's bits still fit beside it.
const MOST_USED: i128 = 1 << 64;
/// Scores beyond this, of nodes far above their quota, are not rounded but cut off.
const MOST_ROUNDED: i128 = 1 << 40;

/// How one pod scores nodes.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// The pod's strategy.
    pub strategy: ScoringStrategy,
    /// The weight of each resource.
    pub weights: &'a [u32],
    /// What the pod asks for of each resource.
    pub request: &'a [i64],
}

/// A node that is scored: its resources, and the first digit of its sum.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    lines: &'a [Line],
    first: i128,
}

/// Part of a sum: `numerator / denominator`, the denominator positive.
#[derive(Debug, Clone, Copy)]
struct Term {
    numerator: i128,
    denominator: i128,
}

impl Term {
    fn first_digit(self) -> i128 {
        (self.numerator << FIRST_BITS).div_euclid(self.denominator)
    }

    fn remainder(self) -> i128 {
        (self.numerator << FIRST_BITS).rem_euclid(self.denominator)
    }
}

impl<'a> Scoring<'a> {
    /// A node with these resources, in the order of the weights.
    pub fn candidate(&self, lines: &'a [Line]) -> Candidate<'a> {
        Candidate {
            lines,
            first: self.terms(lines).map(Term::first_digit).sum(),
        }
    }

    /// Which of two nodes has the higher score.
    pub fn compare(&self, left: &Candidate<'_>, right: &Candidate<'_>) -> Ordering {
        let terms = i128::try_from(self.weights.len()).unwrap_or(i128::MAX / 2);
        let difference = left.first - right.first;
        // Each term is more than its first digit by less than one.
        if difference.abs() > terms {
            return difference.cmp(&0);
        }
        compare(self.terms(left.lines), self.terms(right.lines))
    }

    /// `finalScore`: the score times `crossQuotaWeight`, times `scale`, rounded to the nearest whole number, halves up.
    pub fn rounded(&self, candidate: &Candidate<'_>, cross_quota_weight: u32, scale: u32) -> i64 {
        let weights: i128 = self.weights.iter().map(|weight| i128::from(*weight)).sum();
        let scaled = i128::from(cross_quota_weight) * i128::from(scale);
        if weights == 0 || scaled == 0 {
            return 0;
        }
        // Never more than the score: digits are rounded down.
        let product = candidate.first.saturating_mul(scaled);
        let mut rounded = product.div_euclid(weights << FIRST_BITS);
        if rounded.abs() >= MOST_ROUNDED {
            return if rounded < 0 { i64::MIN } else { i64::MAX };
        }
        let next_half = |rounded: i128| Term {
            numerator: (2 * rounded + 1) * weights,
            denominator: 2 * scaled,
        };
        while compare(self.terms(candidate.lines), std::iter::once(next_half(rounded))).is_ge() {
            rounded += 1;
        }
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// `resourceScore` of each resource. One without quota scores nothing, and its weight counts all the same.
    fn terms(&self, lines: &'a [Line]) -> impl Iterator<Item = Term> + Clone + use<'a> {
        let strategy = self.strategy;
        let parts = lines.iter().zip(self.request).zip(self.weights);
        parts.map(move |((line, asked), weight)| {
            if line.quota <= 0 {
                return Term {
                    numerator: 0,
                    denominator: 1,
                };
            }
            let quota = i128::from(line.quota);
            let taken = (line.used + line.assumed + i128::from(*asked)).clamp(-MOST_USED, MOST_USED);
            Term {
                numerator: i128::from(*weight)
                    * match strategy {
                        ScoringStrategy::MostAllocated => taken,
                        ScoringStrategy::LeastAllocated => quota - taken,
                    },
                denominator: quota,
            }
        })
    }
}

/// Compares two sums of fractions.
fn compare(left: impl Iterator<Item = Term>, right: impl Iterator<Item = Term>) -> Ordering {
    let mut difference = 0;
    let mut remainders = Vec::new();
    for (term, sign) in left.map(|term| (term, 1)).chain(right.map(|term| (term, -1))) {
        difference += sign * term.first_digit();
        remainders.push((term.remainder(), term.denominator, sign));
    }
    remainders.retain(|(remainder, _, _)| *remainder != 0);
    let terms = i128::try_from(remainders.len()).unwrap_or(i128::MAX);
    // Sums that differ do so by at least one over the product of all denominators, each below 2^63.
    let mut digits = remainders.len() + remainders.len() / 31 + 2;
    while difference.abs() < terms.max(1) && digits > 0 && !remainders.is_empty() {
        difference <<= FURTHER_BITS;
        for (remainder, denominator, sign) in &mut remainders {
            let shifted = *remainder << FURTHER_BITS;
            difference += *sign * (shifted / *denominator);
            *remainder = shifted % *denominator;
        }
        digits -= 1;
    }
    if difference.abs() < terms {
        Ordering::Equal
    } else {
        difference.cmp(&0)
    }
}
