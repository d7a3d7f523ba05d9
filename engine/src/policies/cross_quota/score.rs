//! **Node Ordering Function (Scoring)**, exact: scores are sums of fractions, and are compared as such.
//!
//! A sum is first known roughly, to about 2^-32 of its weights, from 64-bit divisions. Nearly always that tells which of two sums is
//! greater, and to which whole number one is rounded. Where it does not, resources that contribute the same to both nodes are left out, and
//! the rest is compared digit by digit, as in long division.

use std::cmp::Ordering;

use crds::scoring_strategy::ScoringStrategy;

use super::Line;

/// The number of binary places that are known at first.
pub(super) const FIRST_BITS: u32 = 32;
/// The rough value of a fraction is less than the fraction by less than this many units of its last bit: see [`roughly`].
pub(super) const ROUGHNESS: i128 = 5;
/// The bits of every further digit. A remainder is below 2^63, so that the dividend fits 128 bits.
const FURTHER_BITS: u32 = 62;
/// Usage beyond this counts as this much: weights, of 20 bits, and the first bits still fit beside it.
const MOST_USED: i128 = 1 << 64;
/// Scores beyond this, of nodes far above their quota, are cut off and not rounded.
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

/// A scored node: its resources, and the rough value of its sum.
#[derive(Debug, Clone, Copy)]
pub struct NodeScore<'a> {
    lines: &'a [Line],
    first: i128,
}

/// `resourceScore` of one resource: `weight * numerator / quota`, with a positive quota.
#[derive(Debug, Clone, Copy)]
struct Part {
    numerator: i128,
    quota: i64,
    weight: u32,
}

impl Part {
    /// Returns the value in units of the last of the first bits. It is never more than the exact value, and less by less than [`ROUGHNESS`]
    /// for each unit of weight.
    fn first(self) -> i128 {
        let quota = self.quota.unsigned_abs();
        let fraction = match u64::try_from(self.numerator) {
            Ok(numerator) if numerator <= quota => roughly(numerator, quota).into(),
            _ => (self.numerator << FIRST_BITS).div_euclid(quota.into()),
        };
        fraction * i128::from(self.weight)
    }

    fn term(self) -> Term {
        Term {
            numerator: self.numerator * i128::from(self.weight),
            denominator: self.quota.into(),
        }
    }
}

/// Returns `numerator / denominator` in units of the last of the first bits, for a quotient of at most one. Of large numbers only the upper
/// bits count; the numerator's are rounded down and the denominator's up. With 32 bits left of the numerator, and as many or one less of the
/// denominator, they are off by less than 2^-32 and 2^-31 of themselves. So the quotient is off by less than 4 units, and by one more when
/// it is rounded.
pub(super) fn roughly(numerator: u64, denominator: u64) -> u64 {
    match FIRST_BITS.saturating_sub(numerator.leading_zeros()) {
        0 => (numerator << FIRST_BITS) / denominator,
        excess => (numerator >> excess << FIRST_BITS) / ((denominator >> excess) + 1),
    }
}

/// Part of a sum: `numerator / denominator`, with a positive denominator.
#[derive(Debug, Clone, Copy)]
struct Term {
    numerator: i128,
    denominator: i128,
}

impl<'a> Scoring<'a> {
    /// Returns the score of a node with these resources, in the order of the weights.
    pub fn score_of(&self, lines: &'a [Line]) -> NodeScore<'a> {
        NodeScore {
            lines,
            first: self.parts(lines).map(Part::first).sum(),
        }
    }

    /// Compares the scores of two nodes.
    pub fn compare(&self, left: &NodeScore<'_>, right: &NodeScore<'_>) -> Ordering {
        let difference = left.first - right.first;
        if difference.abs() >= self.total_weight() * ROUGHNESS {
            return difference.cmp(&0);
        }
        let mut terms = Vec::new();
        for (left, right) in self.parts(left.lines).zip(self.parts(right.lines)) {
            let (left, right) = (left.term(), right.term());
            if left.denominator != right.denominator {
                terms.extend([left, right.negative()]);
            } else if left.numerator != right.numerator {
                terms.push(Term {
                    numerator: left.numerator - right.numerator,
                    denominator: left.denominator,
                });
            }
        }
        sign(terms)
    }

    /// Returns `finalScore`: the score times `crossQuotaWeight`, times `scale`, rounded to the nearest whole number, halves up.
    pub fn rounded(&self, score: &NodeScore<'_>, cross_quota_weight: u32, scale: u32) -> i64 {
        let weights = self.total_weight();
        let scaled = i128::from(cross_quota_weight) * i128::from(scale);
        if weights == 0 || scaled == 0 {
            return 0;
        }
        let nearest = |sum: i128| {
            let product = sum.saturating_mul(2 * scaled).saturating_add(weights << FIRST_BITS);
            product.div_euclid(weights << (FIRST_BITS + 1))
        };
        let mut rounded = nearest(score.first);
        if rounded.abs() >= MOST_ROUNDED {
            return if rounded < 0 { i64::MIN } else { i64::MAX };
        }
        let most = nearest(score.first + weights * ROUGHNESS);
        let reaches_half_above = |rounded: i128| {
            let half = Term {
                numerator: (2 * rounded + 1) * weights,
                denominator: 2 * scaled,
            };
            let terms = self.parts(score.lines).map(Part::term);
            sign(terms.chain([half.negative()]).collect()).is_ge()
        };
        while rounded < most && reaches_half_above(rounded) {
            rounded += 1;
        }
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    fn total_weight(&self) -> i128 {
        self.weights.iter().map(|weight| i128::from(*weight)).sum()
    }

    /// Returns `resourceScore` of each resource. A resource without quota scores nothing, but its weight counts.
    fn parts(&self, lines: &'a [Line]) -> impl Iterator<Item = Part> + use<'a> {
        let strategy = self.strategy;
        let parts = lines.iter().zip(self.request).zip(self.weights);
        parts.map(move |((line, asked), weight)| {
            if line.quota <= 0 {
                return Part {
                    numerator: 0,
                    quota: 1,
                    weight: *weight,
                };
            }
            let taken = (line.used + line.assumed + i128::from(*asked)).clamp(-MOST_USED, MOST_USED);
            Part {
                numerator: match strategy {
                    ScoringStrategy::MostAllocated => taken,
                    ScoringStrategy::LeastAllocated => i128::from(line.quota) - taken,
                },
                quota: line.quota,
                weight: *weight,
            }
        })
    }
}

impl Term {
    fn negative(self) -> Self {
        Self {
            numerator: -self.numerator,
            ..self
        }
    }
}

/// Returns how a sum of fractions compares with zero.
fn sign(terms: Vec<Term>) -> Ordering {
    let mut sum = 0;
    let mut remainders = Vec::with_capacity(terms.len());
    for Term { numerator, denominator } in terms {
        let shifted = numerator << FIRST_BITS;
        sum += shifted.div_euclid(denominator);
        remainders.push((shifted.rem_euclid(denominator), denominator));
    }
    // A sum that differs from zero does so by at least one over the product of all denominators, each below 2^63.
    let mut digits = remainders.len() + remainders.len() / 31 + 2;
    loop {
        remainders.retain(|(remainder, _)| *remainder != 0);
        // What the digits don't show is more than zero for every remainder, and less than one.
        let most = i128::try_from(remainders.len()).unwrap_or(i128::MAX);
        if most == 0 || sum <= -most {
            return sum.cmp(&0);
        }
        if sum >= 0 {
            return Ordering::Greater;
        }
        if digits == 0 {
            return Ordering::Equal;
        }
        digits -= 1;
        sum <<= FURTHER_BITS;
        for (remainder, denominator) in &mut remainders {
            let shifted = *remainder << FURTHER_BITS;
            sum += shifted / *denominator;
            *remainder = shifted % *denominator;
        }
    }
}
