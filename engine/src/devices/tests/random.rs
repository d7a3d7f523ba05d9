//! Selectors made at random, evaluated for devices made at random, beside an interpreter that knows nothing of CEL's.

use proptest::prelude::*;

use super::*;

/// What a device has under a name; the names are those of a driver, one of which tells single devices apart.
const NAMES: [&str; 4] = ["model", "family", "index", "flag"];

/// A value of an attribute, or of a literal.
#[derive(Debug, Clone, PartialEq)]
enum Of {
    Bool(bool),
    Int(i64),
    Text(&'static str),
    List(Vec<i64>),
}

impl Of {
    fn json(&self) -> Value {
        match self {
            Self::Bool(value) => json!({"bool": value}),
            Self::Int(value) => json!({"int": value}),
            Self::Text(value) => json!({"string": value}),
            Self::List(value) => json!({"ints": value}),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Text(value) => format!("'{value}'"),
            Self::List(value) => format!("{value:?}"),
        }
    }
}

#[derive(Debug, Clone)]
enum Says {
    Is(usize, Of),
    IsNot(usize, Of),
    Below(usize, i64),
    OneOf(usize, Vec<i64>),
    Holds(usize, i64),
    Has(usize),
    Named(usize),
    OrElse(usize, Of, Of),
    Some(Vec<i64>, usize),
    Flag(usize),
    Not(Box<Says>),
    And(Box<Says>, Box<Says>),
    Or(Box<Says>, Box<Says>),
    If(Box<Says>, Box<Says>, Box<Says>),
}

fn attribute(name: usize) -> String {
    format!("device.attributes['x.com'].{}", NAMES[name])
}

impl Says {
    fn text(&self) -> String {
        match self {
            Self::Is(name, of) => format!("{} == {}", attribute(*name), of.text()),
            Self::IsNot(name, of) => format!("{} != {}", attribute(*name), of.text()),
            Self::Below(name, than) => format!("{} < {than}", attribute(*name)),
            Self::OneOf(name, of) => format!("{} in {of:?}", attribute(*name)),
            Self::Holds(name, of) => format!("{of} in {}", attribute(*name)),
            Self::Has(name) => format!("has({})", attribute(*name)),
            Self::Named(name) => format!("'{}' in device.attributes['x.com']", NAMES[*name]),
            Self::OrElse(name, other, is) => {
                format!(
                    "device.attributes['x.com'].?{}.orValue({}) == {}",
                    NAMES[*name],
                    other.text(),
                    is.text()
                )
            }
            Self::Some(of, name) => format!("{of:?}.exists(x, x == {})", attribute(*name)),
            Self::Flag(name) => attribute(*name),
            Self::Not(says) => format!("!({})", says.text()),
            Self::And(one, other) => format!("({}) && ({})", one.text(), other.text()),
            Self::Or(one, other) => format!("({}) || ({})", one.text(), other.text()),
            Self::If(when, then, otherwise) => {
                format!("({}) ? ({}) : ({})", when.text(), then.text(), otherwise.text())
            }
        }
    }

    /// What the expression says of a device; nothing where what it asks for is missing or of another kind. A missing value on one side of
    /// `&&` or `||` does not matter where the other side decides.
    fn of(&self, device: &[Option<Of>]) -> Option<bool> {
        let get = |name: &usize| device[*name].as_ref();
        let truth = |says: &Self| says.of(device);
        match self {
            Self::Is(name, of) => get(name).map(|is| is == of),
            Self::IsNot(name, of) => get(name).map(|is| is != of),
            Self::Below(name, than) => match get(name)? {
                Of::Int(value) => Some(value < than),
                _ => None,
            },
            Self::OneOf(name, of) => get(name).map(|is| of.iter().any(|of| *is == Of::Int(*of))),
            Self::Holds(name, of) => match get(name)? {
                Of::List(list) => Some(list.contains(of)),
                _ => None,
            },
            Self::Has(name) | Self::Named(name) => Some(get(name).is_some()),
            Self::OrElse(name, other, is) => Some(get(name).unwrap_or(other) == is),
            Self::Some(of, name) => {
                if of.is_empty() {
                    return Some(false);
                }
                get(name).map(|is| of.iter().any(|of| *is == Of::Int(*of)))
            }
            Self::Flag(name) => match get(name)? {
                Of::Bool(value) => Some(*value),
                _ => None,
            },
            Self::Not(says) => truth(says).map(|said| !said),
            Self::And(one, other) => match (truth(one), truth(other)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(one, other) => match (truth(one), truth(other)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Self::If(when, then, otherwise) => truth(if truth(when)? { then } else { otherwise }),
        }
    }
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![3 => plain(), 1 => ints().prop_map(Of::List)]
}

/// What is compared: lists are not.
fn plain() -> impl Strategy<Value = Of> {
    prop_oneof![
        any::<bool>().prop_map(Of::Bool),
        (0_i64..4).prop_map(Of::Int),
        proptest::sample::select(vec!["a", "b", "A b"]).prop_map(Of::Text),
    ]
}

/// Some, since no list is empty: not one of attributes, and one in an expression is not evaluated.
fn ints() -> impl Strategy<Value = Vec<i64>> {
    proptest::collection::vec(0_i64..4, 1..4)
}

fn says() -> impl Strategy<Value = Says> {
    let name = || 0..NAMES.len();
    let leaf = prop_oneof![
        (name(), plain()).prop_map(|(name, of)| Says::Is(name, of)),
        (name(), plain()).prop_map(|(name, of)| Says::IsNot(name, of)),
        (name(), 0_i64..4).prop_map(|(name, than)| Says::Below(name, than)),
        (name(), ints()).prop_map(|(name, of)| Says::OneOf(name, of)),
        (name(), 0_i64..4).prop_map(|(name, of)| Says::Holds(name, of)),
        name().prop_map(Says::Has),
        name().prop_map(Says::Named),
        (name(), plain(), plain()).prop_map(|(name, other, is)| Says::OrElse(name, other, is)),
        (ints(), name()).prop_map(|(of, name)| Says::Some(of, name)),
        name().prop_map(Says::Flag),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let inner = inner.prop_map(Box::new).boxed();
        prop_oneof![
            inner.clone().prop_map(Says::Not),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| Says::And(one, other)),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| Says::Or(one, other)),
            (inner.clone(), inner.clone(), inner).prop_map(|(when, then, otherwise)| Says::If(when, then, otherwise)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_is_selected_is_what_an_interpreter_finds(
        says in says(),
        device in proptest::collection::vec(proptest::option::weighted(0.7, of()), NAMES.len()),
    ) {
        let has = NAMES.iter().zip(&device).filter_map(|(name, of)| Some(((*name).to_owned(), of.as_ref()?.json())));
        let attributes: serde_json::Map<_, _> = has.collect();
        let text = says.text();
        let selected = selects(&text, "x.com", &json!({"name": "d", "attributes": attributes}));
        prop_assert_eq!(selected, Ok(says.of(&device).unwrap_or(false)), "{} of {:?}", text, device);
    }
}
