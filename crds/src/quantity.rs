//! Kubernetes quantities (`500m`, `8Gi`, `1e3`) as exact integers.
//!
//! The grammar is Kubernetes' own (`k8s.io/apimachinery/pkg/api/resource`). Nothing goes through floating point. A value
//! between two integers is rounded away from zero, as `Quantity.Value()` does. A value that does not fit an `i64` is an
//! error.

use thiserror::Error;

use crate::bounds::excerpt;

/// A quantity that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not Kubernetes' quantity grammar.
    #[error(
        "{0:?} is not a Kubernetes quantity: write a number with an optional suffix, such as 4, 500m, 1.5Gi or 2e3"
    )]
    Syntax(String),
    /// Too large for a 64-bit integer in the unit it is read in.
    #[error("{0:?} is too large: the largest quantity is 2^63-1")]
    Overflow(String),
}

/// Reads a quantity in whole units (bytes, cards, pods), rounded away from zero.
pub fn parse_units(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 1)
}

/// Reads a quantity in thousandths (CPU: `500m` is 500), rounded away from zero.
pub fn parse_milli(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 1000)
}

/// A decimal point further from the digits than this decides the result alone: above it everything overflows, below it
/// everything rounds to one, whatever the binary suffix (at most 2^60) and scale (at most 1000) multiply it by.
const FAR: i64 = 40;

fn parse_scaled(text: &str, scale: u128) -> Result<i64, QuantityError> {
    let syntax = || QuantityError::Syntax(excerpt(text).into_owned());
    let overflow = || QuantityError::Overflow(excerpt(text).into_owned());

    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_len = unsigned
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.')
        .count();
    let (number, suffix) = unsigned.split_at(number_len);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (integer.is_empty() && fraction.is_empty()) {
        return Err(syntax());
    }
    let Suffix { binary_shift, exponent } = Suffix::parse(suffix).ok_or_else(syntax)?;

    let digits = || integer.bytes().chain(fraction.bytes()).map(|b| u128::from(b - b'0'));
    let Some(leading_zeros) = digits().position(|digit| digit != 0) else {
        return Ok(0);
    };
    let mut significant = digits();
    significant.by_ref().take(leading_zeros).for_each(drop);
    let length = |part: &str| i64::try_from(part.len()).unwrap_or(i64::MAX);
    // The value is 0.d1d2d3... x 10^point, d1 being the first digit that is not zero.
    let point = length(integer)
        .saturating_add(exponent)
        .saturating_sub(i64::try_from(leading_zeros).unwrap_or(i64::MAX));
    if point > FAR {
        return Err(overflow());
    }
    let magnitude = if point < -FAR {
        1
    } else {
        let multiplier = scale << binary_shift;
        magnitude(significant, point, multiplier).ok_or_else(overflow)?
    };
    let magnitude = i128::try_from(magnitude).map_err(|_| overflow())?;
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| overflow())
}

/// Returns `0.d1d2d3... x 10^point x multiplier`, rounded up; `None` when it does not fit.
fn magnitude(mut digits: impl DoubleEndedIterator<Item = u128>, point: i64, multiplier: u128) -> Option<u128> {
    let mut whole: u128 = 0;
    for _ in 0..point {
        whole = whole.checked_mul(10)?.checked_add(digits.next().unwrap_or(0))?;
    }
    // Long multiplication of the digits behind the point, last digit first. What is carried beyond the first digit is whole.
    let mut carry: u128 = 0;
    let mut inexact = false;
    let zeros_behind_point = std::iter::repeat_n(0, usize::try_from(-point).unwrap_or(0));
    for digit in digits.rev().chain(zeros_behind_point) {
        carry += digit * multiplier;
        inexact |= !carry.is_multiple_of(10);
        carry /= 10;
    }
    whole
        .checked_mul(multiplier)?
        .checked_add(carry)?
        .checked_add(u128::from(inexact))
}

/// What a suffix multiplies by: `2^binary_shift x 10^exponent`.
struct Suffix {
    binary_shift: u32,
    exponent: i64,
}

impl Suffix {
    fn parse(suffix: &str) -> Option<Self> {
        let decimal = |exponent| {
            Some(Self {
                binary_shift: 0,
                exponent,
            })
        };
        let binary = |binary_shift| {
            Some(Self {
                binary_shift,
                exponent: 0,
            })
        };
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => decimal(Self::parse_exponent(suffix)?),
        }
    }

    /// `e3`, `E-3`, `e+3`. An exponent too long for an `i64` is as far away as any.
    fn parse_exponent(suffix: &str) -> Option<i64> {
        let signed = suffix.strip_prefix(['e', 'E'])?;
        let unsigned = signed.strip_prefix(['+', '-']).unwrap_or(signed);
        if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let far = if signed.starts_with('-') { i64::MIN } else { i64::MAX };
        Some(signed.parse().unwrap_or(far))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_quantities_are_exact() {
        for (text, units, milli) in [
            ("0", 0, 0),
            ("4", 4, 4000),
            ("500m", 1, 500),
            ("1500m", 2, 1500),
            ("100u", 1, 1),
            ("1n", 1, 1),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("2e3", 2000, 2_000_000),
            ("2E-3", 1, 2),
            ("1E", 1_000_000_000_000_000_000, 0),
            ("1Ei", 1_152_921_504_606_846_976, 0),
            ("9223372036854775807", i64::MAX, 0),
            ("-500m", -1, -500),
            ("+7", 7, 7000),
            ("0.0000000000000000000000000000000000000000000000000000001", 1, 1),
            ("2113456128Ki", 2_164_179_075_072, 2_164_179_075_072_000),
            ("00000000000000000000000000000000000000000000000000012", 12, 12000),
            ("1e-99999999999999999999999", 1, 1),
            ("0e99999999999999999999999", 0, 0),
        ] {
            assert_eq!(parse_units(text), Ok(units), "{text} in units");
            if milli != 0 {
                assert_eq!(parse_milli(text), Ok(milli), "{text} in milli");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_never_wraps() {
        for text in [
            "9223372036854775808",
            "100E",
            "8Ei",
            "1e19",
            "1e99999999999999999999",
            "99999999999999999999999",
        ] {
            assert_eq!(
                parse_units(text),
                Err(QuantityError::Overflow(text.to_owned())),
                "{text}"
            );
        }
        assert_eq!(
            parse_milli("9223372036854775807"),
            Err(QuantityError::Overflow("9223372036854775807".to_owned()))
        );
        assert_eq!(parse_units("-9223372036854775808"), Ok(i64::MIN));
    }

    #[test]
    fn what_is_not_the_grammar_is_an_error() {
        for text in [
            "", ".", "-", "+", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01e-", " 1", "1 ", "1e",
            "e3", "--1", "1KiB", "1K", "٣",
        ] {
            assert_eq!(parse_units(text), Err(QuantityError::Syntax(text.to_owned())), "{text}");
        }
    }
}
