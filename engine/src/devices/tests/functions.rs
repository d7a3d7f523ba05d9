//! Kubernetes' functions over versions, quantities and texts, with arguments made at random, beside an interpreter that counts with plain
//! numbers and letters.

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// What stands behind a version that is not released yet, in its order; behind one that is stands nothing.
const BEFORE_RELEASE: [&str; 6] = ["-alpha", "-alpha.1", "-rc.1", "-rc.2", "-rc.10", ""];

/// A semantic version: its three numbers, and which of [`BEFORE_RELEASE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u8, u8, u8, usize);

impl Version {
    fn text(self) -> String {
        let Self(major, minor, patch, before) = self;
        format!("{major}.{minor}.{patch}{}", BEFORE_RELEASE[before])
    }
}

fn version() -> impl Strategy<Value = Version> {
    // Numbers that are ordered in another way than their texts.
    let number = || select(vec![0_u8, 1, 9, 10]);
    (number(), number(), number(), 0..BEFORE_RELEASE.len())
        .prop_map(|(major, minor, patch, before)| Version(major, minor, patch, before))
}

/// A quantity: a text, and the thousandths that it is.
type Quantity = (String, i128);

fn quantity() -> impl Strategy<Value = Quantity> {
    let units: [(&str, i128); 9] = [
        ("m", 1),
        ("", 1_000),
        ("k", 1_000_000),
        ("M", 1_000_000_000),
        ("G", 1_000_000_000_000),
        ("e3", 1_000_000),
        ("Ki", 1_024_000),
        ("Mi", 1_048_576_000),
        ("Gi", 1_073_741_824_000),
    ];
    let number = select(vec![0_i128, 1, 2, 8, 1000, 1024, 4096]);
    (number, select(units.to_vec()))
        .prop_map(|(number, (unit, thousandths))| (format!("{number}{unit}"), number * thousandths))
}

fn text() -> impl Strategy<Value = &'static str> {
    select(vec![
        "",
        "a",
        "A100",
        "NVIDIA A100 80GB",
        "nvidia a100",
        " Arc A770 ",
        "80GB",
    ])
}

/// How two are compared, the function for it, and what is asked of its result.
const COMPARISONS: [&str; 4] = [
    "X.isGreaterThan(Y)",
    "X.isLessThan(Y)",
    "X.compareTo(Y) >= 0",
    "X.compareTo(Y) == 0",
];

fn compared(comparison: usize, order: Ordering) -> bool {
    match comparison {
        0 => order.is_gt(),
        1 => order.is_lt(),
        2 => order.is_ge(),
        _ => order.is_eq(),
    }
}

/// An expression, with what it asks for and what it is compared with in place of `X` and `Y`.
fn put(expression: &str, asked: &str, with: &str) -> String {
    expression.replace('X', asked).replace('Y', with)
}

fn device(attributes: &Value, capacity: &Value) -> Value {
    json!({"name": "d", "attributes": attributes, "capacity": capacity})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn versions_are_compared_by_their_numbers(is in version(), than in version(), comparison in 0..COMPARISONS.len()) {
        let has = device(&json!({"driverVersion": {"version": is.text()}}), &json!({}));
        let asked = "device.attributes['x.com'].driverVersion";
        let expression = put(COMPARISONS[comparison], asked, &format!("semver('{}')", than.text()));
        prop_assert_eq!(selects(&expression, "x.com", &has), Ok(compared(comparison, is.cmp(&than))), "{} of {:?}", expression, is);
        let parts = format!(
            "{asked}.major() == {} && {asked}.minor() == {} && {asked}.patch() == {}", is.0, is.1, is.2
        );
        prop_assert_eq!(selects(&parts, "x.com", &has), Ok(true), "{} of {:?}", parts, is);
        let is_version = format!("isSemver('{}')", than.text());
        prop_assert_eq!(selects(&is_version, "x.com", &has), Ok(true));
    }

    #[test]
    fn quantities_are_compared_whatever_their_unit(is in quantity(), than in quantity(), comparison in 0..COMPARISONS.len()) {
        let has = device(&json!({}), &json!({"memory": {"value": is.0}}));
        let asked = "device.capacity['x.com'].memory";
        let expression = put(COMPARISONS[comparison], asked, &format!("quantity('{}')", than.0));
        prop_assert_eq!(selects(&expression, "x.com", &has), Ok(compared(comparison, is.1.cmp(&than.1))), "{} of {:?}", expression, is);
        let sign = format!("{asked}.sign() == {}", is.1.signum());
        prop_assert_eq!(selects(&sign, "x.com", &has), Ok(true), "{} of {:?}", sign, is);
    }

    #[test]
    fn texts_are_searched_letter_by_letter(is in text(), part in text(), function in 0_usize..8) {
        let has = device(&json!({"productName": {"string": is}}), &json!({}));
        let (lower, upper) = (part.to_ascii_lowercase(), part.to_ascii_uppercase());
        let (of, found) = match function {
            0 => (format!("X.startsWith('{part}')"), is.starts_with(part)),
            1 => (format!("X.endsWith('{part}')"), is.ends_with(part)),
            2 => (format!("X.contains('{part}')"), is.contains(part)),
            3 => (format!("X.lowerAscii().contains('{lower}')"), is.to_ascii_lowercase().contains(&lower)),
            4 => (format!("X.upperAscii() == '{upper}'"), is.to_ascii_uppercase() == upper),
            5 => (format!("X.size() == {}", part.len()), is.len() == part.len()),
            // A pattern is found anywhere, unless it says where.
            6 => (format!("X.matches('{part}')"), is.contains(part)),
            _ => (format!("X.lowerAscii().matches('^.*{lower}.*$')"), is.to_ascii_lowercase().contains(&lower)),
        };
        let expression = put(&of, "device.attributes['x.com'].productName", "");
        prop_assert_eq!(selects(&expression, "x.com", &has), Ok(found), "{} of {:?}", expression, is);
    }
}
