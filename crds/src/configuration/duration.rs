//! Kubernetes' duration text (`5m`, `90s`, `1h30m`), as Go's `time.ParseDuration` reads it.
//!
//! `kube::core::Duration` reads the same grammar, but panics on times that do not fit and on negative parts.

use std::time::Duration;

/// Units and their nanoseconds. Longer spellings come first, since `ms` begins with `m`.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Further digits behind the point are below a nanosecond, whatever the unit.
const MAX_FRACTION_DIGITS: usize = 18;

/// Reads a duration that is not negative. `None` if the text is no duration, or if it does not fit.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanoseconds: u128 = 0;
    while !rest.is_empty() {
        let (whole, behind) = digits(rest);
        let (fraction, behind) = match behind.strip_prefix('.') {
            Some(behind) => digits(behind),
            None => ("", behind),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, behind) = UNITS
            .iter()
            .find_map(|(name, unit)| behind.strip_prefix(name).map(|behind| (*unit, behind)))?;
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanoseconds = nanoseconds
            .checked_add(whole.checked_mul(unit)?)?
            .checked_add(fraction_of(unit, fraction))?;
        rest = behind;
    }
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

/// Formats a duration as such text, with no more units than it needs.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (name, unit) in UNITS.iter().rev().filter(|(name, _)| name.is_ascii()) {
        if rest >= *unit {
            text.extend([&(rest / unit).to_string(), *name]);
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn digits(text: &str) -> (&str, &str) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(length)
}

/// Returns `0.digits` of `unit`, rounded down.
fn fraction_of(unit: u128, digits: &str) -> u128 {
    let digits = digits.bytes().take(MAX_FRACTION_DIGITS);
    let (numerator, denominator) = digits.fold((0u128, 1u128), |(numerator, denominator), digit| {
        (numerator * 10 + u128::from(digit - b'0'), denominator * 10)
    });
    unit * numerator / denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_duration_text() {
        for (text, nanoseconds) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5m", Some(300_000_000_000)),
            ("90s", Some(90_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("+1h30m1.5s", Some(5_401_500_000_000)),
            ("300ms", Some(300_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("1us1\u{b5}s1\u{3bc}s1ns", Some(3_001)),
            ("0.1234567890123456789999s", Some(123_456_789)),
            ("5", None),
            ("", None),
            ("+", None),
            ("-5m", None),
            ("5 m", None),
            ("5M", None),
            ("5d", None),
            (".s", None),
            ("s", None),
            ("1h-5m", None),
            ("1e3s", None),
            ("99999999999999999999h", None),
            ("999999999999999999999999999999999999999999999h", None),
            ("infs", None),
        ] {
            assert_eq!(parse(text), nanoseconds.map(Duration::from_nanos), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_people_do() {
        for (seconds, text) in [
            (0, "0s"),
            (90, "1m30s"),
            (600, "10m"),
            (3_600, "1h"),
            (5_401, "1h30m1s"),
        ] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_here_is_read_again(nanoseconds: u64) {
            let duration = Duration::from_nanos(nanoseconds);
            proptest::prop_assert_eq!(parse(&format_duration(duration)), Some(duration));
        }

        #[test]
        fn what_is_written_is_read_again_as_kube_reads_it(
            hours in 0u64..10_000, minutes in 0u64..100, seconds in 0u64..100, millis in 0u64..2_000,
        ) {
            let text = format!("{hours}h{minutes}m{seconds}s{millis}ms");
            let reference: kube::core::Duration = text.parse().unwrap();
            proptest::prop_assert_eq!(parse(&text), Some(reference.into()));
        }
    }
}
