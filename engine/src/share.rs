//! The share of a queue: an exact fraction, compared without floating point.

use std::cmp::Ordering;
use std::fmt;

/// `used / limit` (Capacity Card, **Resource Tracking**: `share = max(allocated / deserved)`).
///
/// Where the limit is 0, something in use is more than any fraction, and nothing in use is 0. Both parts are at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    used: u128,
    limit: u128,
}

impl Share {
    /// The share where nothing is in use.
    pub const ZERO: Self = Self { used: 0, limit: 1 };

    /// Returns `used / limit`; negative parts count as 0.
    pub fn new(used: i128, limit: i128) -> Self {
        let (used, limit) = (u128::try_from(used).unwrap_or(0), u128::try_from(limit).unwrap_or(0));
        if used == 0 { Self::ZERO } else { Self { used, limit } }
    }

    /// Returns the nearest floating-point number, for display and gauges only. It is infinity where something is in use and the
    /// limit is 0.
    #[expect(clippy::cast_precision_loss, reason = "no decision is made with it")]
    pub(crate) fn to_f64(self) -> f64 {
        self.used as f64 / self.limit as f64
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        // Works as continued fractions do: compares the whole parts, then the remainders turned upside down. Products of the
        // parts could be wider than 128 bits.
        let (mut a, mut b) = ((self.used, self.limit), (other.used, other.limit));
        let mut turned = false;
        loop {
            let ordering = match (a.1, b.1) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Greater,
                (_, 0) => Ordering::Less,
                _ => (a.0 / a.1).cmp(&(b.0 / b.1)),
            };
            let decided = ordering != Ordering::Equal || a.1 == 0;
            if decided {
                return if turned { ordering.reverse() } else { ordering };
            }
            (a, b) = ((a.1, a.0 % a.1), (b.1, b.0 % b.1));
            turned = !turned;
        }
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.limit == 0 {
            f.write_str("over")
        } else {
            write!(f, "{:.2}", self.to_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn something_of_nothing_is_more_than_any_share() {
        assert!(Share::new(1, 0) > Share::new(i128::MAX, 1));
        assert_eq!(Share::new(0, 0), Share::ZERO);
        assert_eq!(Share::new(1, 0).cmp(&Share::new(2, 0)), Ordering::Equal);
        assert!(Share::new(i128::MAX, i128::MAX - 1) > Share::new(i128::MAX - 1, i128::MAX - 1));
    }

    proptest! {
        #[test]
        fn shares_compare_as_cross_products_do(a in 0..1000_i128, b in 1..1000_i128, c in 0..1000_i128, d in 1..1000_i128) {
            prop_assert_eq!(Share::new(a, b).cmp(&Share::new(c, d)), (a * d).cmp(&(c * b)));
        }
    }
}
