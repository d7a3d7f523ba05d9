//! Spans of time, as people write and read them.

use k8s_openapi::jiff::SignedDuration;

/// The units that people write, the longest first, each with its seconds.
const UNITS: [(char, i64); 5] = [('w', 604_800), ('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads a span as users write it: numbers with units, such as `24h`, `7d` or `1h30m`.
pub fn parse(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("{text:?} is no span of time: write numbers with s, m, h, d or w, such as 24h or 1h30m");
    let (mut seconds, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .ok_or_else(wrong)?;
        let number: i64 = rest[..end].parse().map_err(|_| wrong())?;
        let unit = rest[end..].chars().next().ok_or_else(wrong)?;
        let (_, of_unit) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?;
        let more = number.checked_mul(*of_unit).ok_or_else(wrong)?;
        seconds = seconds.checked_add(more).ok_or_else(wrong)?;
        rest = &rest[end + unit.len_utf8()..];
    }
    if seconds == 0 {
        return Err(wrong());
    }
    Ok(SignedDuration::from_secs(seconds))
}

/// Formats a span in short, as kubectl shows ages: its longest unit, and the next unit where the number is small.
pub fn short(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    let days_and_less = &UNITS[1..];
    let place = days_and_less.iter().position(|(_, of_unit)| seconds >= *of_unit);
    let Some((unit, of_unit)) = place.and_then(|place| days_and_less.get(place)) else {
        return "0s".to_owned();
    };
    let (number, rest) = (seconds / of_unit, seconds % of_unit);
    let next = place.and_then(|place| days_and_less.get(place + 1));
    match next {
        Some((small, of_small)) if number < 10 && rest / of_small > 0 => {
            format!("{number}{unit}{}{small}", rest / of_small)
        }
        _ => format!("{number}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("24h", 86_400),
            ("90s", 90),
            ("1h30m", 5_400),
            ("7d", 604_800),
            ("2w", 1_209_600),
        ] {
            assert_eq!(parse(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "h",
            "24",
            "0h",
            "-1h",
            "1y",
            "1.5h",
            "99999999999999999999h",
            "9223372036854775807w",
            "1ü",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_shown_in_short() {
        for (seconds, text) in [
            (-5, "0s"),
            (7, "7s"),
            (90, "1m30s"),
            (600, "10m"),
            (3_600, "1h"),
            (90_000, "1d1h"),
            (9_000_000, "104d"),
        ] {
            assert_eq!(short(SignedDuration::from_secs(seconds)), text);
        }
    }
}
