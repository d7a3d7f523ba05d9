//! Patterns that all common regular expression engines read alike.

/// Whether all common regular expression engines read a pattern alike.
pub(super) fn is_plain_pattern(mut rest: &[u8]) -> bool {
    // Whether the part before may be repeated, and whether it is repeated.
    let (mut is_atom, mut is_repeated) = (false, false);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        (is_atom, is_repeated) = match byte {
            b'*' | b'+' | b'?' if is_atom => (false, true),
            // A lazy repetition: as few as suffice.
            b'?' if is_repeated => (false, false),
            b'*' | b'+' | b'?' | b'{' | b'}' | b']' => return false,
            b'^' | b'$' | b'|' | b'(' => (false, false),
            b'[' => match after_class(rest) {
                Some(after) => {
                    rest = after;
                    (true, false)
                }
                None => return false,
            },
            b'\\' => match rest.split_first() {
                Some((escaped, after)) if is_plain_escape(*escaped) => {
                    rest = after;
                    (true, false)
                }
                _ => return false,
            },
            _ => (true, false),
        };
    }
    true
}

fn is_plain_escape(escaped: u8) -> bool {
    matches!(escaped, b'd' | b'D' | b's' | b'S' | b'w' | b'W')
        || escaped.is_ascii_punctuation() && !matches!(escaped, b'<' | b'>')
}

/// Returns what comes after a character class; `class` begins after the opening bracket. Returns none where the class has anything but
/// letters, digits, a few signs, and ranges of letters or digits.
fn after_class(class: &[u8]) -> Option<&[u8]> {
    let end = class.iter().position(|byte| *byte == b']')?;
    let (members, after) = (
        class[..end].strip_prefix(b"^").unwrap_or(&class[..end]),
        &class[end + 1..],
    );
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_' | b'.' | b'/' | b':' | b',');
    let mut rest = members;
    while let Some((first, others)) = rest.split_first() {
        rest = match others {
            [b'-', last, others @ ..] if is_range(*first, *last) => others,
            _ if is_plain(*first) => others,
            _ => return None,
        };
    }
    (!members.is_empty()).then_some(after)
}

fn is_range(first: u8, last: u8) -> bool {
    let kinds = [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase];
    first <= last && kinds.iter().any(|kind| kind(&first) && kind(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_all_read_alike_are_told_from_others() {
        for plain in [
            "^.*a100.*$",
            "^NVIDIA (A100|H100)( 80GB)?$",
            "[a-zA-Z0-9_.]+",
            r"\d+\.\d+ ?\w*?",
            "[^a-f]",
            "a|",
            "",
            r"\[\]",
        ] {
            assert!(is_plain_pattern(plain.as_bytes()), "{plain}");
        }
        for other in [
            "a**", "*a", "(*)", "^*", "a{2}", "(?x)a", "(?-u)a", "[[a]]", "[a&&b]", "[a--b]", "[]a]", "[^]", "[a",
            "[z-a]", "[A-z]", r"\Qa\E", r"\pL", r"\x41", r"\b", r"\<a", r"a\", "a??*", r"[\w]", "]",
        ] {
            assert!(!is_plain_pattern(other.as_bytes()), "{other}");
        }
    }
}
