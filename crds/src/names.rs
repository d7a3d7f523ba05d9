//! What Kubernetes accepts as the name of an object, as a label's key and as a label's value.

use std::borrow::Cow;

use crate::bounds::shown;

/// Longest name of an object (RFC 1123 subdomain).
const MAX_SUBDOMAIN: usize = 253;
/// Longest label value, and longest name part of a label key.
const MAX_LABEL: usize = 63;

/// Returns what a user wrote as the name of another object, fit to be kept and shown. A valid name stays as it is. Of an
/// invalid name only the beginning is kept, which is invalid too.
pub fn as_object_name(text: &str) -> Cow<'_, str> {
    if is_object_name(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shown(text))
    }
}

/// Whether an object can have this name: lower case letters, digits and dashes in parts joined by dots, each part starting
/// and ending with a letter or digit, 253 characters at most.
pub fn is_object_name(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN
        && text.split('.').all(|part| {
            let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
            let outer = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
            let bytes = part.as_bytes();
            bytes.iter().all(inner) && outer(bytes.first()) && outer(bytes.last())
        })
}

/// Whether a label can have this value: empty, or a [name part](is_label_key) of 63 characters at most.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// Whether a label can have this key: letters, digits, `-`, `_` and `.`, a letter or digit first and last, 63 characters at
/// most; before it, where given, a DNS name and a slash.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_object_name(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_LABEL
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && outer(bytes.first())
        && outer(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_name_is_cut_and_is_none_then_either() {
        assert_eq!(as_object_name("team-a.b"), "team-a.b");
        for text in ["Team", &"a".repeat(254), "a\nb", "", &"b.".repeat(5000)] {
            let cut = as_object_name(text);
            assert!(
                !is_object_name(&cut) && cut.len() < 300 && !cut.contains(char::is_control),
                "{cut}"
            );
        }
    }

    #[test]
    fn object_names_are_dns_subdomains() {
        for name in ["a", "team-a", "0", "a.b-c.d", &"x".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        for name in [
            "", ".", "a.", ".a", "a..b", "-a", "a-", "a-.b", "A", "a_b", "a b", "../a", "a/b", "é", "a?b",
        ] {
            assert!(!is_object_name(name), "{name:?}");
        }
        assert!(!is_object_name(&"x".repeat(254)));
    }

    #[test]
    fn label_keys_and_values_are_those_of_kubernetes() {
        for value in ["", "a", "A.b_c-9", &"x".repeat(63)] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-", "a-", "_a", "a b", "a/b", &"x".repeat(64)] {
            assert!(!is_label_value(value), "{value:?}");
        }
        for key in ["team", "kubernetes.io/metadata.name", "a/B_c"] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/", "a/", "/a", "A/b", "a/b/c", "a b", &"x".repeat(64)] {
            assert!(!is_label_key(key), "{key:?}");
        }
    }
}
