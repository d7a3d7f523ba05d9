//! Checks that an expression uses only what Kubernetes' evaluator and the evaluator used here take alike.
//!
//! A tenant who finds something that the two take differently can write a claim that is charged for one card and given another. So nothing
//! is evaluated but what is listed here: what devices say, by plain names; texts of ASCII letters, since the two count and classify other
//! letters differently; whole numbers; patterns, quantities and versions in their plain forms; values of the device that may be missing; and
//! loops in which it can't happen that one element is an error and another is not, since the evaluator used here stops at the first error.

mod pattern;

use std::sync::LazyLock;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};
use regex_lite::Regex;

use pattern::is_plain_pattern;

/// The most characters of a pattern of `matches`.
const MAX_PATTERN: usize = 256;
/// The most character classes (`\w`) of a pattern.
const MAX_CLASSES: usize = 16;
/// What a pattern may begin with: case does not matter.
const ANY_CASE: &str = "(?i)";
/// The name of the device in an expression.
const DEVICE: &str = "device";
/// What names of Kubernetes' functions begin with, and the names of its types. There `sets.contains(..)` is always the function, also where a
/// loop calls an element `sets`.
const KUBERNETES_NAMES: [&str; 31] = [
    "authorizer",
    "base64",
    "bool",
    "bytes",
    "cel",
    "cidr",
    "double",
    "duration",
    "dyn",
    "format",
    "google",
    "int",
    "ip",
    "json",
    "jsonpatch",
    "kubernetes",
    "list",
    "lists",
    "map",
    "math",
    "net",
    "null_type",
    "optional",
    "quantity",
    "regex",
    "semver",
    "sets",
    "string",
    "strings",
    "type",
    "uint",
];

/// The most levels of values that may be missing, one within the other.
const MAX_MAYBES: usize = 4;
/// What the user is told of any other name.
const ODD_NAME: &str = "names other than device.driver, device.allowMultipleAllocations, and attributes and capacities by texts, such as \
                        device.attributes['gpu.nvidia.com'].type";
/// Operators that may fail for some elements of a list and not for others.
const NOT_IN_LOOPS: [&str; 10] = ["_&&_", "_||_", "_?_:_", "_+_", "_-_", "_*_", "_/_", "_%_", "-_", "_[_]"];

/// Quantities from 0 to 2^53, whose sums neither evaluator rounds.
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

/// Whether the text repeats an operator, or has comments, in which one could be hidden. The parser drops every second one of a repeated
/// operator, or reads it again with each.
pub fn has_repeated_operators(text: &str) -> bool {
    let marks: String = text.chars().filter(|char| !char.is_whitespace()).collect();
    ["!!", "--", "//"].iter().any(|pair| marks.contains(pair))
}

/// Whether an expression may give this name to a value of its own: it stands for nothing else.
pub fn is_free_name(name: &str) -> bool {
    name != DEVICE && !KUBERNETES_NAMES.contains(&name)
}

/// Checks that Kubernetes takes an expression alike. The error says what it may take differently, in words for the expression's author.
pub fn check(expression: &IdedExpr) -> Result<(), String> {
    check_part(expression, None)
}

/// Checks a part of an expression. `variable` is the variable of the loop that the part is in, if any.
fn check_part(part: &IdedExpr, variable: Option<&str>) -> Result<(), String> {
    if is_value(part) {
        return Ok(());
    }
    match &part.expr {
        Expr::Literal(literal) => check_literal(literal),
        Expr::Ident(name) if Some(&**name) == variable => Ok(()),
        Expr::Ident(_) | Expr::Select(_) => Err(ODD_NAME.to_owned()),
        Expr::List(list) if list.elements.is_empty() => Err("empty lists".to_owned()),
        Expr::List(list) => list
            .elements
            .iter()
            .try_for_each(|element| check_part(element, variable)),
        Expr::Comprehension(_) if variable.is_some() => Err("a loop within a loop".to_owned()),
        Expr::Comprehension(comprehension) => check_loop(comprehension),
        Expr::Call(call) => match &*call.func_name {
            "orValue" | "value" | "hasValue" => check_maybe(call),
            "@in" => check_in(call, variable),
            // Within lists that are compared, Kubernetes takes elements that can't be compared, such as a version and a number, for equal.
            "_==_" | "_!=_" if call.args.iter().any(has_list) => Err("lists that are compared".to_owned()),
            "_[_]" if variable.is_none() => check_index(call),
            name if variable.is_some() && NOT_IN_LOOPS.contains(&name) => {
                Err(format!("{} in a loop", name.replace('_', "")))
            }
            _ => {
                check_call(call)?;
                let target = call.target.iter().map(|target| &**target);
                target.chain(&call.args).try_for_each(|part| check_part(part, variable))
            }
        },
        Expr::Unspecified | Expr::Map(_) | Expr::Struct(_) => Err("maps and messages".to_owned()),
    }
}

/// Whether a part is a list, or may evaluate to one.
fn has_list(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::List(_) => true,
        Expr::Call(call) => matches!(&*call.func_name, "_+_" | "_?_:_" | "orValue") && call.args.iter().any(has_list),
        _ => false,
    }
}

/// Whether a part is a value that the device says of itself, such as `device.attributes['gpu.nvidia.com'].type`, or asks whether it says
/// one.
fn is_value(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::Select(select) if is_device(&select.operand) => {
            !select.test && matches!(&*select.field, "driver" | "allowMultipleAllocations")
        }
        Expr::Select(select) => is_domain(&select.operand),
        Expr::Call(call) => by_text(call, "_[_]").is_some_and(is_domain),
        _ => false,
    }
}

/// Whether a part is all that a device says for one domain, such as `device.attributes['gpu.nvidia.com']`.
fn is_domain(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Call(call) if by_text(call, "_[_]").is_some_and(is_all))
}

/// Whether a part is `device.attributes` or `device.capacity`.
fn is_all(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Select(select)
        if is_device(&select.operand) && !select.test && matches!(&*select.field, "attributes" | "capacity"))
}

fn is_device(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Ident(name) if name == DEVICE)
}

/// Returns the operand in which this operator looks something up by a text.
fn by_text<'e>(call: &'e CallExpr, operator: &str) -> Option<&'e IdedExpr> {
    match &*call.args {
        [operand, key] if call.func_name == operator && is_text(key) => Some(operand),
        _ => None,
    }
}

fn is_text(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Literal(literal @ LiteralValue::String(_)) if check_literal(literal).is_ok())
}

/// Checks `orValue`, `value` or `hasValue` of a value that a device may not have.
fn check_maybe(call: &CallExpr) -> Result<(), String> {
    let is_maybe = call.target.as_ref().is_some_and(|target| is_maybe(target, 0));
    if is_maybe && call.args.iter().all(is_plain) {
        Ok(())
    } else {
        Err(
            "a value that may be missing, other than of an attribute or a capacity and with a plain value in its place"
                .to_owned(),
        )
    }
}

/// Whether a part is a literal, or a list of literals.
fn is_plain(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::Literal(literal) => check_literal(literal).is_ok(),
        Expr::List(list) => !list.elements.is_empty() && list.elements.iter().all(is_plain),
        _ => false,
    }
}

/// Whether a part is a value of a domain that may be missing, such as `device.attributes['x.com'].?type`.
fn is_maybe(part: &IdedExpr, depth: usize) -> bool {
    if depth == MAX_MAYBES {
        return false;
    }
    match &part.expr {
        Expr::Select(select) => !select.test && is_maybe(&select.operand, depth + 1),
        Expr::Call(call) => {
            let operand = by_text(call, "_?._").or_else(|| by_text(call, "_[?_]"));
            // The domain itself may be missing where a value of it is looked up.
            let is_domain_that_may_be =
                |part: &IdedExpr| matches!(&part.expr, Expr::Call(call) if by_text(call, "_[?_]").is_some_and(is_all));
            // On what is no domain, a lookup by [?] is an error here, and a missing value in Kubernetes.
            let goes_on = |operand| call.func_name == "_?._" && is_maybe(operand, depth + 1);
            operand.is_some_and(|operand| is_domain(operand) || is_domain_that_may_be(operand) || goes_on(operand))
        }
        _ => false,
    }
}

fn check_in(call: &CallExpr, variable: Option<&str>) -> Result<(), String> {
    let [what, within] = &*call.args else {
        return Err("in".to_owned());
    };
    if is_text(what) && (is_domain(within) || is_all(within)) {
        return Ok(());
    }
    let holds_lists = matches!(&within.expr, Expr::List(list) if list.elements.iter().any(has_list));
    if has_list(what) || holds_lists {
        return Err("lists within lists".to_owned());
    }
    check_part(what, variable)?;
    check_part(within, variable)
}

/// Checks the access to one element of a list that a device has.
fn check_index(call: &CallExpr) -> Result<(), String> {
    let is_number = |part: &IdedExpr| matches!(&part.expr, Expr::Literal(LiteralValue::Int(_)));
    match &*call.args {
        [list, place] if is_value(list) && is_number(place) => Ok(()),
        _ => Err(ODD_NAME.to_owned()),
    }
}

/// Checks a loop: it must go over texts or numbers, or over a list that a device has, and ask one thing of each element.
fn check_loop(looped: &ComprehensionExpr) -> Result<(), String> {
    let odd = || {
        "a loop other than exists and all over an attribute, texts or numbers, with a name of its own for the element"
            .to_owned()
    };
    let begins = matches!(&looped.accu_init.expr, Expr::Literal(LiteralValue::Boolean(_)));
    let Expr::Call(step) = &looped.loop_step.expr else {
        return Err(odd());
    };
    let asked = match &*step.args {
        [_, asked] if begins && matches!(&*step.func_name, "_&&_" | "_||_") => asked,
        _ => return Err(odd()),
    };
    let is_listed = match &looped.iter_range.expr {
        Expr::List(list) => {
            let is_number = |part: &IdedExpr| matches!(&part.expr, Expr::Literal(LiteralValue::Int(_)));
            let elements = &list.elements;
            !elements.is_empty() && (elements.iter().all(is_text) || elements.iter().all(is_number))
        }
        _ => is_value(&looped.iter_range),
    };
    if !is_listed || !is_free_name(&looped.iter_var) || looped.iter_var2.is_some() {
        return Err(odd());
    }
    check_part(asked, Some(&looped.iter_var))
}

/// Checks a literal. The error says what is wrong, in words for the expression's author.
fn check_literal(literal: &LiteralValue) -> Result<(), String> {
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

/// Checks the arguments of a call. The error says what is wrong, in words for the expression's author.
fn check_call(call: &CallExpr) -> Result<(), String> {
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

/// Checks that a quantity or version is made of a plain text.
fn check_made(argument: Option<&IdedExpr>, plain: &LazyLock<Option<Regex>>, others: &str) -> Result<(), String> {
    let is_plain = |text: &str| plain.as_ref().is_some_and(|plain| plain.is_match(text));
    let is_alike = argument.is_some_and(|argument| match &argument.expr {
        Expr::Literal(LiteralValue::String(text)) => is_plain(text.inner()),
        _ => false,
    });
    is_alike.then_some(()).ok_or_else(|| others.to_owned())
}

/// Checks a pattern. A pattern that counts repetitions may cost more than the length of its text.
fn check_pattern(pattern: Option<&IdedExpr>) -> Result<(), String> {
    let text = pattern.and_then(|pattern| match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    });
    let is_alike = text.is_some_and(|text| {
        text.len() <= MAX_PATTERN
            && text.matches('\\').count() <= MAX_CLASSES
            && is_plain_pattern(text.strip_prefix(ANY_CASE).unwrap_or(text).as_bytes())
            // Excludes, for instance, nested groups, of which Kubernetes reads many more.
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

#[cfg(test)]
mod tests {
    use super::*;

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
