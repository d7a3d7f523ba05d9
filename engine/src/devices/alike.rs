//! What of an expression Kubernetes' evaluator and the one that is used here take alike.
//!
//! Whoever finds something that they take differently writes a claim that is charged for one card and given another. So of what is known
//! to differ nothing is evaluated: letters beyond ASCII, whose number and classes differ; numbers that are not whole; and of patterns,
//! quantities and versions all but their plain forms.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use regex_lite::Regex;

use std::sync::LazyLock;

/// So long a pattern of `matches` may be.
const MAX_PATTERN: usize = 256;
/// So many classes of characters (`\w`) it may have.
const MAX_CLASSES: usize = 16;
/// What a pattern may begin with: case does not matter.
const ANY_CASE: &str = "(?i)";
/// The name of what an expression is about.
const DEVICE: &str = "device";

/// Quantities from 0 to 2^53, whose sums nobody rounds.
static QUANTITY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^[0-9]{1,6}(\.[0-9]{1,3})?(k|M|G|Ki|Mi|Gi|e[0-9])?$|^[0-9]{1,3}(T|Ti)$|^[0-9]{1,12}m?$").ok()
});
/// Semantic versions in their strict form.
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = "(0|[1-9][0-9]{0,8})";
    Regex::new(&format!(
        r"^{number}\.{number}\.{number}(-[a-z]{{1,16}}(\.{number})?)?$"
    ))
    .ok()
});

/// What is wrong with a literal, in words for whoever wrote it.
pub fn check_literal(literal: &LiteralValue) -> Result<(), String> {
    match literal {
        LiteralValue::Boolean(_) | LiteralValue::Int(_) | LiteralValue::Null => Ok(()),
        LiteralValue::String(text) if text.inner().bytes().all(|byte| matches!(byte, b' '..=b'~')) => Ok(()),
        LiteralValue::String(_) => Err("texts with other than printable ASCII letters".to_owned()),
        LiteralValue::Bytes(_) => Err("bytes".to_owned()),
        LiteralValue::Double(_) | LiteralValue::UInt(_) => {
            Err("numbers that are not whole, or without sign".to_owned())
        }
    }
}

/// What is wrong with the arguments of a call, in words for whoever wrote it.
pub fn check_call(call: &CallExpr) -> Result<(), String> {
    let argument = match &*call.args {
        [argument] => Some(argument),
        _ => None,
    };
    match (&*call.func_name, argument) {
        ("-_", Some(argument)) if !matches!(argument.expr, Expr::Literal(_)) => {
            Err("the negative of what is no plain number".to_owned())
        }
        ("matches", _) => check_pattern(call.args.last()),
        ("quantity" | "isQuantity", argument) => {
            check_made(argument, &QUANTITY, "quantities other than such as 80Gi or 1.5k")
        }
        ("semver" | "isSemver", argument) => {
            check_made(argument, &VERSION, "versions other than such as 1.2.3 or 1.2.3-rc.1")
        }
        _ => Ok(()),
    }
}

/// A quantity or version is made of a plain text, or of what a device says.
fn check_made(argument: Option<&IdedExpr>, plain: &LazyLock<Option<Regex>>, others: &str) -> Result<(), String> {
    let is_plain = |text: &str| plain.as_ref().is_some_and(|plain| plain.is_match(text));
    let is_alike = argument.is_some_and(|argument| match &argument.expr {
        Expr::Literal(LiteralValue::String(text)) => is_plain(text.inner()),
        _ => is_of_device(argument),
    });
    is_alike.then_some(()).ok_or_else(|| others.to_owned())
}

/// Whether it is something that the device says of itself.
fn is_of_device(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::Ident(name) => name == DEVICE,
        Expr::Select(select) => is_of_device(&select.operand),
        Expr::Call(call) if call.func_name == "_[_]" => call.args.first().is_some_and(is_of_device),
        _ => false,
    }
}

/// What is wrong with a name that a loop gives to each of its elements.
pub fn check_variable(name: &str) -> Result<(), String> {
    (name != DEVICE)
        .then_some(())
        .ok_or_else(|| format!("a loop over what is called {DEVICE}"))
}

/// A pattern costs more than its text is long where it counts repetitions.
fn check_pattern(pattern: Option<&IdedExpr>) -> Result<(), String> {
    let text = pattern.and_then(|pattern| match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    });
    let is_alike = text.is_some_and(|text| {
        text.len() <= MAX_PATTERN
            && text.matches('\\').count() <= MAX_CLASSES
            && is_plain_pattern(text.strip_prefix(ANY_CASE).unwrap_or(text).as_bytes())
            // Such as groups within groups, of which Kubernetes reads many more.
            && Regex::new(text).is_ok()
    });
    is_alike.then_some(()).ok_or_else(|| {
        format!(
            "matches with a pattern that is no text, is longer than {MAX_PATTERN} characters, has more than {MAX_CLASSES} of \\, counts \
             repetitions by {{}}, has groups within groups within groups, or other than letters, digits, blanks, groups, {ANY_CASE} at its begin, classes such as [a-z0-9_.], \\d, \
             \\s and \\w, and ^ $ | . * + ?"
        )
    })
}

/// Whether all regular expressions of this kind read a pattern alike.
fn is_plain_pattern(mut rest: &[u8]) -> bool {
    // Whether what comes before may be repeated, and whether it is.
    let (mut is_atom, mut is_repeated) = (false, false);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        (is_atom, is_repeated) = match byte {
            b'*' | b'+' | b'?' if is_atom => (false, true),
            // As few as do.
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

/// What comes after a class of characters, of which this is what comes after its bracket; none where it has other than letters, digits and
/// a few signs, and ranges of letters or digits.
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

    #[test]
    fn quantities_and_versions_are_plain_or_not() {
        let is = |plain: &LazyLock<Option<Regex>>, text: &str| plain.as_ref().unwrap().is_match(text);
        for text in [
            "0",
            "80Gi",
            "1.5k",
            "4096Mi",
            "300",
            "500m",
            "4096e3",
            "999Ti",
            "81559000000",
        ] {
            assert!(is(&QUANTITY, text), "{text}");
        }
        for text in [
            "",
            " 1",
            "-1",
            "+1",
            "1e40",
            "1.5m",
            "9999Ti",
            "1Ei",
            "1n",
            "1_0",
            "0x1",
            "99999999999999",
        ] {
            assert!(!is(&QUANTITY, text), "{text}");
        }
        for text in ["550.0.0", "1.2.3-rc.10", "0.0.0-alpha"] {
            assert!(is(&VERSION, text), "{text}");
        }
        for text in ["1.2", "v1.2.3", "01.2.3", "1.2.3+build", "1.2.3-01", "1.2.3 "] {
            assert!(!is(&VERSION, text), "{text}");
        }
    }
}
