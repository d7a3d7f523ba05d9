//! What may reach a terminal: names and messages are others' words, and a terminal obeys some of the characters in them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text as it may be printed: what a terminal would obey, or what turns the order of letters round, is written as its code. Lines stay.
pub fn safe(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\n' && is_obeyed(character))
}

/// The same within one line, such as a cell of a table.
pub fn safe_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// JSON as it may be printed, and with the same meaning: what is not ASCII stands in strings alone, and JSON has its own escapes before.
pub fn safe_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character != '\n' && is_obeyed(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !is_obeyed(character) {
            out.push(character);
        } else {
            // All of them are in the first plane. Writing to a string does not fail.
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

/// Control characters of both sets, separators of lines, and what changes the direction of text or is not seen at all.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let hostile = "a\u{1b}[2Jb\u{9b}1mc\u{202e}d\re\u{7}\tf";
        let expected = "a\\u{1b}[2Jb\\u{9b}1mc\\u{202e}d\\u{d}e\\u{7}\\u{9}f";
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
