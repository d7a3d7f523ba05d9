//! Text that may reach a terminal. Names and messages are written by others, and a terminal obeys some of the characters in
//! them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns text that is safe to print. Characters that a terminal obeys, or that reverse the direction of letters, are
/// written as their codes. Line breaks stay.
pub fn safe(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\n' && is_obeyed(character))
}

/// The same within one line, such as a cell of a table.
pub fn safe_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// Returns JSON that is safe to print and means the same. Characters beyond ASCII occur only in strings, and JSON has
/// escapes for others.
pub fn safe_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character != '\n' && is_obeyed(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !is_obeyed(character) {
            out.push(character);
        } else {
            // All of these characters are in the first plane. Writing to a string does not fail.
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_bad(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal obeys a character: control characters of both sets, line separators, characters that change the
/// direction of text, and invisible ones.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let hostile = "a\u{1b}[2Jb\u{9b}1mc\u{202e}d\re\u{7}\tf\u{ad}g\u{61c}h\u{180e}i";
        let expected = "a\\u{1b}[2Jb\\u{9b}1mc\\u{202e}d\\u{d}e\\u{7}\\u{9}f\\u{ad}g\\u{61c}h\\u{180e}i";
        assert_eq!(safe(hostile), expected);
        assert_eq!(safe_line(hostile), expected);
        assert_eq!(safe("one\ntwo"), "one\ntwo");
        assert_eq!(safe_line("one\ntwo"), "one\\u{a}two");
        assert!(matches!(safe("NVIDIA-A100 ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = serde_json::json!({ "name": "a\u{1b}\u{9b}\u{7f}\u{202e}ü" });
        let text = format!("{value:#}\n");
        let printed = safe_json(&text);
        assert!(
            !printed.contains(['\u{1b}', '\u{9b}', '\u{7f}', '\u{202e}']),
            "{printed}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
