//! Quotas for pods without GPU on nodes with GPUs, as administrators write them (CrossQuota, **Configuration Format** and
//! **Configuration Priority**): absolute amounts and percentages, in the configuration and on nodes.

use thiserror::Error;

use crate::bounds::excerpt;
use crate::keys::{NODE_QUOTA_PERCENTAGE_PREFIX, NODE_QUOTA_PREFIX};
use crate::quantity::QuantityError;
use crate::resources;

/// Digits behind the point that a percentage may have: a billionth of a percent of the largest quantity is still exact.
const MAX_DECIMALS: usize = 9;

/// A quota that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaError {
    /// Not a quantity as Kubernetes reads them.
    #[error("{0}")]
    Quantity(#[from] QuantityError),
    /// Less than nothing.
    #[error("{0:?} is negative: write 0 or more, such as 32 or 64Gi")]
    Negative(String),
    /// No percentage, or one out of range.
    #[error(
        "{0:?} is no percentage: write a number above 0 and up to 100, with at most {MAX_DECIMALS} decimals, such as 50"
    )]
    Percentage(String),
}

/// Reads an absolute quota in the unit that its resource is counted in: CPU in milli, everything else in whole units.
pub fn parse_quota(resource: &str, text: &str) -> Result<i64, QuotaError> {
    let quota = resources::parse_amount(resource, text)?;
    if quota < 0 {
        return Err(QuotaError::Negative(excerpt(text).into_owned()));
    }
    Ok(quota)
}

/// A percentage above 0 and up to 100, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentage {
    /// What to multiply by.
    numerator: u64,
    /// What to divide by: 100, and ten for every decimal.
    denominator: u64,
}

impl Percentage {
    /// Reads a percentage, such as `50` or `12.5`.
    pub fn parse(text: &str) -> Result<Self, QuotaError> {
        Self::read(text).ok_or_else(|| QuotaError::Percentage(excerpt(text).into_owned()))
    }

    fn read(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = || whole.bytes().chain(decimals.bytes());
        if whole.is_empty() || decimals.len() > MAX_DECIMALS || !digits().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let numerator = digits().try_fold(0_u64, |sum, byte| {
            sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
        })?;
        let denominator = 100 * 10_u64.pow(u32::try_from(decimals.len()).ok()?);
        (numerator > 0 && numerator <= denominator).then_some(Self { numerator, denominator })
    }

    /// This part of an amount, rounded down: what is compared with it is whole.
    pub fn of(self, amount: i64) -> i64 {
        let part = i128::from(amount) * i128::from(self.numerator) / i128::from(self.denominator);
        i64::try_from(part).unwrap_or(i64::MAX)
    }
}

/// The node annotation with the absolute quota of a resource.
pub fn quota_annotation(resource: &str) -> String {
    [NODE_QUOTA_PREFIX, resource].concat()
}

/// The node annotation with the quota of a resource as a percentage of what is allocatable.
pub fn percentage_annotation(resource: &str) -> String {
    [NODE_QUOTA_PERCENTAGE_PREFIX, resource].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotas_are_quantities_in_the_unit_of_their_resource() {
        for (resource, text, quota) in [
            ("cpu", "32", 32_000),
            ("cpu", "1.5", 1_500),
            ("cpu", "500m", 500),
            ("memory", "64Gi", 64 << 30),
            ("pods", "20", 20),
            ("hugepages-2Mi", "1Gi", 1 << 30),
            ("example.com/fpga", "0", 0),
        ] {
            assert_eq!(parse_quota(resource, text), Ok(quota), "{resource} {text}");
        }
        for (text, part) in [
            ("-4", "\"-4\" is negative"),
            ("many", "\"many\" is not"),
            ("", "\"\" is not"),
        ] {
            let error = parse_quota("cpu", text).unwrap_err().to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }

    #[test]
    fn percentages_are_exact_and_in_range() {
        for (text, amount, part) in [
            ("50", 64, 32),
            ("100", i64::MAX, i64::MAX),
            ("12.5", 8, 1),
            ("33.333333333", 300, 99),
            ("0.000000001", 100_000_000_000, 1),
            ("0.1", 1000, 1),
            ("010", 10, 1),
            ("1.", 100, 1),
        ] {
            assert_eq!(
                Percentage::parse(text).map(|parsed| parsed.of(amount)),
                Ok(part),
                "{text}"
            );
        }
        for text in [
            "",
            "0",
            "0.0",
            "-5",
            "+5",
            "101",
            "100.1",
            "50%",
            "1e1",
            ".5",
            "5 ",
            "1.0000000001",
            "99999999999999999999",
            "NaN",
        ] {
            assert_eq!(Percentage::parse(text), Err(QuotaError::Percentage(text.to_owned())));
        }
    }

    proptest! {
        /// Rounded down: the largest whole amount that is no more than the percentage.
        #[test]
        fn a_percentage_is_never_more_than_its_part(thousandths in 1..=100_000_i64, amount in 0..=i64::MAX) {
            let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            let part = i128::from(Percentage::parse(&text).unwrap().of(amount));
            let exact = i128::from(amount) * i128::from(thousandths);
            prop_assert!(part * 100_000 <= exact && exact < (part + 1) * 100_000);
        }
    }
}
