//! Regular expressions that are read twice: by Cardgate, and by the policies inside the API server, which use RE2.

/// The most repetitions that RE2 allows, with nested repetitions multiplied.
const MOST_REPEATED: u64 = 1000;

/// Whether RE2 reads a pattern as Cardgate does. A pattern that RE2 does not know would make a policy fail, and refuse pods.
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
                // A class within a class.
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
                // These characters stand for themselves at the beginning of a class.
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

/// Returns what follows an escape that both libraries know.
fn after_escape(text: &str, in_class: bool) -> Option<&str> {
    let escaped = text.chars().next()?;
    let rest = &text[escaped.len_utf8()..];
    let is_known = match escaped {
        // One library's word boundaries are ordinary characters to the other.
        '<' | '>' => false,
        'b' | 'B' | 'A' | 'z' => !in_class && !rest.starts_with('{'),
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' => true,
        other => other.is_ascii_punctuation(),
    };
    is_known.then_some(rest)
}

/// Returns what follows the beginning of a group that both libraries know.
fn after_group(text: &str) -> Option<&str> {
    if let Some(named) = text.strip_prefix("P<") {
        let (name, rest) = named.split_once('>')?;
        // One library allows more characters in names than the other.
        let is_known = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return is_known.then_some(rest);
    }
    let rest = text.trim_start_matches(['i', 'm', 's', 'U', '-']);
    rest.strip_prefix([':', ')'])
}

/// Returns how often something is repeated at most, and what follows.
fn counts(text: &str) -> Option<(u64, &str)> {
    let (counts, rest) = text.split_once('}')?;
    let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
    // A number that begins with a 0 is no number to the other library.
    if [least, most]
        .iter()
        .any(|count| count.len() > 1 && count.starts_with('0'))
    {
        return None;
    }
    let least: u64 = least.parse().ok()?;
    let most = if most.is_empty() { least } else { most.parse().ok()? };
    Some((most, rest))
}

#[cfg(test)]
mod tests {
    use regex_lite::Regex;

    use super::is_read_alike;

    /// What Go says of patterns, which the policies' expressions are read by: `crds/re2/main.go` wrote it.
    const RE2: &str = include_str!("../../re2/patterns.tsv");

    /// Two thousand patterns, from those that people write to what only a parser thinks of: what is accepted here is a pattern
    /// there, and found in the same names.
    #[test]
    fn what_is_accepted_is_read_alike_by_go() {
        let mut lines = RE2.lines();
        let names: Vec<String> = lines
            .next()
            .into_iter()
            .flat_map(|names| names.split('\t'))
            .flat_map(|names| serde_json::from_str::<Vec<String>>(names).unwrap())
            .collect();
        let mut accepted = 0;
        let mut differ = Vec::new();
        for line in lines {
            let [pattern, is_known, found]: [&str; 3] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let pattern: String = serde_json::from_str(pattern).unwrap();
            let Some(Ok(read)) = is_read_alike(&pattern).then(|| Regex::new(&pattern)) else {
                continue;
            };
            accepted += 1;
            let found_here = (0..).zip(&names).filter(|(_, name)| read.is_match(name));
            let found_here: u64 = found_here.map(|(place, _)| 1 << place).sum();
            if is_known != "true" || found_here.to_string() != found {
                differ.push(pattern);
            }
        }
        assert_eq!(differ, [""; 0]);
        assert!(accepted > 400, "only {accepted} are accepted at all");
    }

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
            "a{02}",
            "(?P<a.b>gpu)",
            "[a[b]]",
            "[a-z&&[^b]]",
            "(?=gpu)",
        ] {
            assert!(!is_read_alike(pattern), "{pattern}");
        }
    }
}
