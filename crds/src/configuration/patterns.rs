//! Regular expressions that are read twice: by Cardgate, and by the policies inside the API server, whose expressions are RE2's.

/// The most that RE2 repeats anything, also where repetitions are nested.
const MOST_REPEATED: u64 = 1000;

/// Whether RE2 reads a pattern as Cardgate does. A pattern that it does not know would make a policy fail, and refuse pods.
pub(super) fn is_read_alike(pattern: &str) -> bool {
    let mut rest = pattern;
    let mut repeated = 1_u64;
    let mut in_class = false;
    let mut after_repetition = false;
    while let Some(first) = rest.chars().next() {
        let next = &rest[first.len_utf8()..];
        let mut is_repetition = false;
        rest = match first {
            '\\' => match after_escape(next, in_class) {
                Some(rest) => rest,
                None => return false,
            },
            '[' if in_class => match next.strip_prefix(':') {
                Some(rest) => rest,
                // A class in a class.
                None => return false,
            },
            '&' | '~' | '-' if in_class && next.starts_with(first) => return false,
            ']' => {
                in_class = false;
                next
            }
            _ if in_class => next,
            '[' => {
                in_class = true;
                // These stand for themselves at the beginning.
                let next = next.strip_prefix('^').unwrap_or(next);
                next.strip_prefix(']').unwrap_or(next)
            }
            '(' if next.starts_with('?') => match after_group(&next[1..]) {
                Some(rest) => rest,
                None => return false,
            },
            '{' | '*' | '+' | '?' if after_repetition => return false,
            '*' | '+' | '?' => {
                is_repetition = true;
                next.strip_prefix('?').unwrap_or(next)
            }
            '{' => {
                let Some((most, rest)) = counts(next) else { return false };
                repeated = repeated.saturating_mul(most.max(1));
                is_repetition = true;
                rest.strip_prefix('?').unwrap_or(rest)
            }
            _ => next,
        };
        after_repetition = is_repetition;
    }
    repeated <= MOST_REPEATED
}

/// What follows an escape that both know.
fn after_escape(text: &str, in_class: bool) -> Option<&str> {
    let escaped = text.chars().next()?;
    let rest = &text[escaped.len_utf8()..];
    let is_known = match escaped {
        // The boundaries of words of the one are characters of the other.
        '<' | '>' => false,
        'b' | 'B' | 'A' | 'z' => !in_class && !rest.starts_with('{'),
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' => true,
        other => other.is_ascii_punctuation(),
    };
    is_known.then_some(rest)
}

/// What follows the beginning of a group that both know.
fn after_group(text: &str) -> Option<&str> {
    if let Some(name) = text.strip_prefix("P<") {
        return Some(name);
    }
    let rest = text.trim_start_matches(['i', 'm', 's', 'U', '-']);
    rest.strip_prefix([':', ')'])
}

/// How often something is repeated at most, and what follows.
fn counts(text: &str) -> Option<(u64, &str)> {
    let (counts, rest) = text.split_once('}')?;
    let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
    let least: u64 = least.parse().ok()?;
    let most = if most.is_empty() { least } else { most.parse().ok()? };
    Some((most, rest))
}

#[cfg(test)]
mod tests {
    use super::is_read_alike;

    #[test]
    fn what_people_write_for_resources_is_read_alike() {
        for pattern in [
            "nvidia.com/gpu",
            r"^nvidia\.com/(gpu|mig-.+)$",
            "amd.com/.*",
            "(?i)GPU",
            "(?:a|b)+?",
            "(?P<vendor>[a-z.]+)/gpu",
            r"[^/\d-]{1,63}",
            "[]a]",
            "[[:alpha:]]",
            r"\bgpu\b",
            "a{2,}",
            "a{1000}",
            "",
        ] {
            assert!(is_read_alike(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_re2_does_not_know_or_takes_for_something_else_is_not() {
        for pattern in [
            "(?x) nvidia . com",
            "(?R)gpu",
            r"\<gpu\>",
            r"\b{start}gpu",
            r"\u0041",
            "a**",
            "a{2}{3}",
            "a{1001}",
            "(a{100}){100}",
            "a{,2}",
            "[a[b]]",
            "[a-z&&[^b]]",
            "(?=gpu)",
        ] {
            assert!(!is_read_alike(pattern), "{pattern}");
        }
    }
}
