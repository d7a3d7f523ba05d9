//! Quantities against a big-integer reference, over Kubernetes' whole grammar.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crds::bounds::excerpt;
use crds::quantity::{self, QuantityError};
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;

/// A quantity in the parts of Kubernetes' grammar.
#[derive(Debug, Clone)]
struct Parts {
    sign: &'static str,
    whole: String,
    fraction: Option<String>,
    suffix: Suffix,
}

#[derive(Debug, Clone)]
enum Suffix {
    Decimal(&'static str, i32),
    Binary(&'static str, u32),
    Exponent(char, &'static str, u32),
}

impl Parts {
    fn text(&self) -> String {
        let fraction = self
            .fraction
            .as_ref()
            .map_or(String::new(), |digits| format!(".{digits}"));
        let suffix = match &self.suffix {
            Suffix::Decimal(text, _) | Suffix::Binary(text, _) => (*text).to_owned(),
            Suffix::Exponent(letter, sign, exponent) => format!("{letter}{sign}{exponent}"),
        };
        format!("{}{}{fraction}{suffix}", self.sign, self.whole)
    }

    /// The value times `scale`, as a fraction of big integers, rounded away from zero.
    fn reference(&self, scale: u32) -> BigInt {
        let ten = |power: u32| BigInt::from(10).pow(power);
        let fraction = self.fraction.as_deref().unwrap_or("");
        let digits = format!("0{}{fraction}", self.whole);
        let mut numerator = digits.parse::<BigInt>().unwrap() * scale;
        let mut denominator = ten(u32::try_from(fraction.len()).unwrap());
        match self.suffix {
            Suffix::Binary(_, shift) => numerator <<= shift,
            Suffix::Decimal(_, power) if power < 0 => denominator *= ten(power.unsigned_abs()),
            Suffix::Decimal(_, power) => numerator *= ten(power.unsigned_abs()),
            Suffix::Exponent(_, "-", power) => denominator *= ten(power),
            Suffix::Exponent(_, _, power) => numerator *= ten(power),
        }
        let magnitude = (numerator + &denominator - 1u8) / denominator;
        if self.sign == "-" { -magnitude } else { magnitude }
    }
}

fn suffix() -> impl Strategy<Value = Suffix> {
    let decimal = [
        ("", 0),
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    let binary = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    prop_oneof![
        prop::sample::select(decimal.to_vec()).prop_map(|(text, power)| Suffix::Decimal(text, power)),
        prop::sample::select(binary.to_vec()).prop_map(|(text, shift)| Suffix::Binary(text, shift)),
        (
            prop::sample::select(vec!['e', 'E']),
            prop::sample::select(vec!["", "+", "-"]),
            prop_oneof![0u32..25, 0u32..400]
        )
            .prop_map(|(letter, sign, exponent)| Suffix::Exponent(letter, sign, exponent)),
    ]
}

fn quantities() -> impl Strategy<Value = Parts> {
    let sign = prop::sample::select(vec!["", "+", "-"]);
    // Short numbers and numbers around 2^63, where everything that can go wrong does.
    let whole = prop_oneof!["[0-9]{1,6}", "922337203685477580[0-9]", "0{0,30}[0-9]{1,30}"];
    let fraction = prop::option::of(prop_oneof!["[0-9]{0,3}", "0{0,30}[0-9]{0,30}"]);
    (sign, whole, fraction, suffix()).prop_map(|(sign, whole, fraction, suffix)| Parts {
        sign,
        whole,
        fraction,
        suffix,
    })
}

fn agrees(parts: &Parts, scale: u32, read: Result<i64, QuantityError>) -> Result<(), TestCaseError> {
    let expected = parts.reference(scale);
    let expected = i64::try_from(&expected).map_err(|_| QuantityError::Overflow(excerpt(&parts.text()).into_owned()));
    prop_assert_eq!(read, expected, "{}", parts.text());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4096,
        // Beside integration tests there is no src/ to keep failures in; the minimal input is printed.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn quantities_agree_with_big_integers(parts in quantities()) {
        let text = parts.text();
        agrees(&parts, 1, quantity::parse_units(&text))?;
        agrees(&parts, 1000, quantity::parse_milli(&text))?;
    }

    /// From the other side: an integer is written with a suffix that divides it, and read again.
    #[test]
    fn integers_are_read_as_they_were_written(value in any::<i64>(), shift in 0u32..7) {
        prop_assert_eq!(quantity::parse_units(&value.to_string()), Ok(value));
        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][shift as usize];
        let written = format!("{}{suffix}", value >> (10 * shift));
        prop_assert_eq!(quantity::parse_units(&written), Ok((value >> (10 * shift)) << (10 * shift)));
    }
}

#[test]
fn the_reference_itself_rounds_away_from_zero() {
    let parts = |sign, whole: &str, suffix| Parts {
        sign,
        whole: whole.to_owned(),
        fraction: None,
        suffix,
    };
    assert_eq!(
        parts("-", "1500", Suffix::Decimal("m", -3)).reference(1),
        BigInt::from(-2)
    );
    assert_eq!(
        parts("", "1", Suffix::Binary("Ki", 10)).reference(1),
        BigInt::from(1024)
    );
    assert_eq!(
        parts("", "0", Suffix::Decimal("n", -9)).reference(1).sign(),
        Sign::NoSign
    );
}
