//! Quantities, exactly, and amounts of what can be limited.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// What can be limited: a Kubernetes resource, or a card by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// CPU in milli, everything else in whole units.
    Resource(String),
    /// In cards.
    Card(String),
}

impl What {
    /// Whether the resource is CPU or memory.
    pub fn is_cpu_or_memory(&self) -> bool {
        matches!(self, Self::Resource(name) if name == "cpu" || name == "memory")
    }

    /// Returns the card, if it is one.
    pub fn card(&self) -> Option<&str> {
        match self {
            Self::Card(name) => Some(name),
            Self::Resource(_) => None,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) | Self::Card(name) => f.write_str(name),
        }
    }
}

/// Amounts by item. Whether an unnamed item means 0 or "no limit" is up to the reader.
pub type Amounts = BTreeMap<What, i128>;

/// Amounts by resource.
pub type Resources = BTreeMap<String, i128>;

/// Adds every amount.
pub fn add<K: Ord + Clone>(sum: &mut BTreeMap<K, i128>, amounts: &BTreeMap<K, i128>) {
    for (what, amount) in amounts {
        *sum.entry(what.clone()).or_default() += amount;
    }
}

/// Reads a list of resources, such as `status.allocatable`. `None` if an amount can't be read or is negative.
pub fn resources(list: &Value) -> Option<Resources> {
    let list = match list {
        Value::Null => return Some(Resources::new()),
        list => list.as_object()?,
    };
    list.iter()
        .map(|(name, amount)| {
            let amount = of(name, amount).filter(|amount| *amount >= 0)?;
            Some((name.clone(), amount))
        })
        .collect()
}

/// Reads an amount of a resource: CPU in milli, everything else in whole units, rounded up.
pub fn of(resource: &str, amount: &Value) -> Option<i128> {
    let billionths = match amount {
        Value::String(text) => billionths(text)?,
        Value::Number(number) => billionths(&number.to_string())?,
        _ => return None,
    };
    let unit = if resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
    Some(up(billionths, unit))
}

/// Divides, and rounds away from zero.
fn up(number: i128, by: i128) -> i128 {
    let whole = number / by;
    if number % by == 0 {
        whole
    } else {
        whole + number.signum()
    }
}

/// Reads a quantity in billionths. `None` if it is no quantity, or exceeds everything in these worlds.
fn billionths(text: &str) -> Option<i128> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 20 || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (tens, binary) = factor(suffix)?;
    let point = tens + 9 - i32::try_from(fraction.len()).ok()?;
    let scale = 10_i128.checked_pow(point.unsigned_abs())?;
    let digits = digits.checked_mul(1 << (10 * binary))?;
    let amount = if point >= 0 {
        digits.checked_mul(scale)?
    } else {
        up(digits, scale)
    };
    Some(sign * amount)
}

/// Returns what a suffix multiplies by: a power of ten, and a power of 1024.
fn factor(suffix: &str) -> Option<(i32, u32)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = decimal.iter().position(|known| *known == suffix) {
        return Some((3 * (i32::try_from(place).ok()? - 3), 0));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(place) = binary.iter().position(|known| *known == suffix) {
        return Some((0, u32::try_from(place).ok()? + 1));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (exponent.abs() <= 18).then_some((exponent, 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_exact_and_rounded_up() {
        let read = |amount: &str| of("memory", &json!(amount));
        let known = [
            ("4", 4),
            ("1.5Gi", 3 << 29),
            ("500m", 1),
            ("2e3", 2000),
            ("1E", 1_000_000_000_000_000_000),
            ("0.1k", 100),
            ("-1", -1),
            ("1n", 1),
            ("64Ki", 65536),
        ];
        for (text, amount) in known {
            assert_eq!(read(text), Some(amount), "{text}");
        }
        assert_eq!(of("cpu", &json!("1500m")), Some(1500));
        assert_eq!(of("cpu", &json!(2)), Some(2000));
        assert_eq!(of("cpu", &json!("100u")), Some(1));
        for text in ["", "x", "1.2.3", "1Kib", "Ki", "1 "] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_negative_or_no_quantity_makes_a_list_unreadable() {
        assert_eq!(resources(&json!({"cpu": "1"})), Some([("cpu".to_owned(), 1000)].into()));
        assert_eq!(resources(&json!({"cpu": "-1"})), None);
        assert_eq!(resources(&json!([])), None);
        assert_eq!(resources(&Value::Null), Some(Resources::new()));
    }
}
