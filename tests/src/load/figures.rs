//! Durations in order, and what can be read off them.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};

/// Measured durations, shortest first; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations(Vec<Duration>);

impl Durations {
    /// Takes them in any order.
    pub fn new(durations: impl IntoIterator<Item = Duration>) -> Result<Self> {
        let mut sorted: Vec<_> = durations.into_iter().collect();
        sorted.sort_unstable();
        sorted.first().context("nothing was measured")?;
        Ok(Self(sorted))
    }

    /// The shortest duration that so many percent of all do not exceed (nearest rank). `percent` is from 1 to 100.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent.clamp(1, 100)).div_ceil(100);
        self.0[rank - 1]
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.percentile(100)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// A duration in the unit that fits a table: milliseconds below 10 s.
pub(super) struct Shown(pub Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let text = match seconds {
            0.0..0.1 => format!("{:.1} ms", seconds * 1e3),
            0.1..10.0 => format!("{:.0} ms", seconds * 1e3),
            _ => format!("{seconds:.1} s"),
        };
        f.pad(&text)
    }
}

/// The median of figures; the mean of the middle two where there is no middle.
pub(super) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(all: impl IntoIterator<Item = u64>) -> Durations {
        Durations::new(all.into_iter().map(Duration::from_millis)).unwrap()
    }

    #[test]
    fn percentiles_are_measured_values_of_the_nearest_rank() {
        let hundred = milliseconds((1..=100).rev());
        for percent in [1, 50, 99, 100] {
            assert_eq!(hundred.percentile(percent), Duration::from_millis(percent as u64));
        }
        let three = milliseconds([30, 10, 20]);
        assert_eq!(three.percentile(50), Duration::from_millis(20));
        assert_eq!(three.percentile(67), Duration::from_millis(30));
        assert_eq!(milliseconds([7]).percentile(1), Duration::from_millis(7));
        assert_eq!(three.count(), 3);
        assert!(Durations::new([]).is_err());
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn durations_are_shown_in_a_fitting_unit() {
        assert_eq!(Shown(Duration::from_micros(12_345)).to_string(), "12.3 ms");
        assert_eq!(Shown(Duration::from_micros(812_345)).to_string(), "812 ms");
        assert_eq!(Shown(Duration::from_millis(12_345)).to_string(), "12.3 s");
    }
}
