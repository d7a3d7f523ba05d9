//! Label selectors as `kubectl get -l` takes them.
//!
//! Kubernetes' Rust libraries evaluate selectors but do not parse them from text. So the grammar of
//! `k8s.io/apimachinery/pkg/labels` is here.

use thiserror::Error;

use crate::bounds::{self, BoundError, cut};
use crate::names::{is_label_key, is_label_value};

/// A selector that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum LabelSelectorError {
    #[error("the selector is empty: write one such as team=a, or leave it out")]
    Empty,
    /// More than is allowed.
    #[error("{0}")]
    Bound(#[from] BoundError),
    #[error(
        "{text:?} is not a label selector ({expected} expected at {found:?}): write it as kubectl get -l takes \
         it, such as team=a or team in (a,b)"
    )]
    Syntax {
        text: String,
        expected: &'static str,
        found: String,
    },
    #[error("{text:?} has the label key {key:?}, which no label can have: see kubectl get --show-labels")]
    Key { text: String, key: String },
    #[error("{text:?} has the label value {value:?}, which no label can have: see kubectl get --show-labels")]
    Value { text: String, value: String },
    #[error("{text:?} compares with {value:?}: < and > take a whole number")]
    Number { text: String, value: String },
}

/// Which labels an object must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// All requirements must hold. Without any, everything is selected.
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Below(i64),
    Above(i64),
}

impl LabelSelector {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        BoundError::length(text, bounds::SELECTOR_LENGTH, "select by a label that all of them have")?;
        Parser::new(text).selector()
    }

    /// Whether an object is selected; `label` gives the values of its labels.
    pub fn selects<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.condition.holds(label(&requirement.key)))
    }

    /// Whether every object is selected.
    pub fn selects_all(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_in = |values: &[Box<str>], value: &str| values.iter().any(|allowed| **allowed == *value);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| is_in(values, value)),
            // As in Kubernetes, an absent label is not among the values.
            Self::NotIn(values) => value.is_none_or(|value| !is_in(values, value)),
            Self::Below(limit) => number().is_some_and(|number| number < *limit),
            Self::Above(limit) => number().is_some_and(|number| number > *limit),
        }
    }
}

/// Symbols of the grammar, longer ones first; everything else up to white space or a symbol is a word.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, rest: text }
    }

    fn selector(mut self) -> Result<LabelSelector, LabelSelectorError> {
        if self.text.trim().is_empty() {
            return Err(LabelSelectorError::Empty);
        }
        let mut requirements = vec![self.requirement()?];
        loop {
            match self.next() {
                "" => return Ok(LabelSelector { requirements }),
                "," => requirements.push(self.requirement()?),
                found => return Err(self.expected("a comma", found)),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        if self.peek() == "!" {
            self.next();
            let key = self.key()?;
            return Ok(Requirement {
                key,
                condition: Condition::Absent,
            });
        }
        let key = self.key()?;
        let condition = match self.peek() {
            "" | "," => Condition::Exists,
            "=" | "==" => {
                self.next();
                Condition::In(vec![self.value()?])
            }
            "!=" => {
                self.next();
                Condition::NotIn(vec![self.value()?])
            }
            "in" => {
                self.next();
                Condition::In(self.values()?)
            }
            "notin" => {
                self.next();
                Condition::NotIn(self.values()?)
            }
            "<" => {
                self.next();
                Condition::Below(self.number()?)
            }
            ">" => {
                self.next();
                Condition::Above(self.number()?)
            }
            found => return Err(self.expected("=, !=, in or notin", found)),
        };
        Ok(Requirement { key, condition })
    }

    fn key(&mut self) -> Result<Box<str>, LabelSelectorError> {
        let key = self.next();
        if key.is_empty() || SYMBOLS.contains(&key) {
            return Err(self.expected("a label key", key));
        }
        if !is_label_key(key) {
            return Err(LabelSelectorError::Key {
                text: cut(self.text),
                key: cut(key),
            });
        }
        Ok(key.into())
    }

    /// Reads a value. Before a comma, before a closing bracket and at the end the value is empty.
    fn value(&mut self) -> Result<Box<str>, LabelSelectorError> {
        if matches!(self.peek(), "" | "," | ")") {
            return Ok("".into());
        }
        let value = self.next();
        if SYMBOLS.contains(&value) {
            return Err(self.expected("a label value", value));
        }
        if !is_label_value(value) {
            return Err(LabelSelectorError::Value {
                text: cut(self.text),
                value: cut(value),
            });
        }
        Ok(value.into())
    }

    fn values(&mut self) -> Result<Vec<Box<str>>, LabelSelectorError> {
        match self.next() {
            "(" => {}
            found => return Err(self.expected("an opening bracket", found)),
        }
        if self.peek() == ")" {
            return Err(self.expected("a label value", ")"));
        }
        let mut values = vec![self.value()?];
        loop {
            match self.next() {
                ")" => return Ok(values),
                "," => values.push(self.value()?),
                found => return Err(self.expected("a comma or a closing bracket", found)),
            }
        }
    }

    fn number(&mut self) -> Result<i64, LabelSelectorError> {
        let value = self.next();
        value.parse().map_err(|_| LabelSelectorError::Number {
            text: cut(self.text),
            value: cut(value),
        })
    }

    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            return &rest[..symbol.len()];
        }
        let end = rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c));
        &rest[..end.unwrap_or(rest.len())]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = &self.rest.trim_start()[token.len()..];
        token
    }

    fn expected(&self, expected: &'static str, found: &str) -> LabelSelectorError {
        LabelSelectorError::Syntax {
            text: cut(self.text),
            expected,
            found: cut(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let parsed = LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
        parsed.selects(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn selectors_select_what_kubectl_selects() {
        for (selector, labels, selected) in [
            ("team=a", &[("team", "a")][..], true),
            ("team=a", &[("team", "b")], false),
            ("team=a", &[], false),
            ("team==a", &[("team", "a")], true),
            ("team!=a", &[("team", "b")], true),
            ("team!=a", &[], true),
            ("team!=a", &[("team", "a")], false),
            ("team", &[("team", "")], true),
            ("team", &[], false),
            ("!team", &[], true),
            ("! team", &[("team", "a")], false),
            ("team in (a, b)", &[("team", "b")], true),
            ("team in (a,b)", &[("team", "c")], false),
            ("team notin (a,b)", &[("team", "c")], true),
            ("team notin (a,b)", &[], true),
            ("team notin(a,b)", &[("team", "a")], false),
            ("team=", &[("team", "")], true),
            ("team in (,a)", &[("team", "")], true),
            ("in in (in)", &[("in", "in")], true),
            ("team=in", &[("team", "in")], true),
            ("level>3", &[("level", "4")], true),
            ("level>3", &[("level", "3")], false),
            ("level < 3", &[("level", "-4")], true),
            ("level<3", &[("level", "low")], false),
            ("level<3", &[], false),
            ("team=a,env in (dev,test),!old", &[("team", "a"), ("env", "dev")], true),
            (
                "team=a,env in (dev,test),!old",
                &[("team", "a"), ("env", "prod")],
                false,
            ),
            (
                " kubernetes.io/metadata.name = x ",
                &[("kubernetes.io/metadata.name", "x")],
                true,
            ),
        ] {
            assert_eq!(selects(selector, labels), selected, "{selector} on {labels:?}");
        }
    }

    #[test]
    fn what_kubectl_refuses_is_refused() {
        for (selector, part) in [
            ("", "the selector is empty"),
            ("  ", "the selector is empty"),
            (",", r#"a label key expected at ",""#),
            ("a=b,", r#"a label key expected at """#),
            ("a b", r#"=, !=, in or notin expected at "b""#),
            ("a=b c", r#"a comma expected at "c""#),
            ("a in b", r#"an opening bracket expected at "b""#),
            ("a in (b", r#"a comma or a closing bracket expected at """#),
            ("a in ()", r#"a label value expected at ")""#),
            ("a=(b)", r#"a label value expected at "(""#),
            ("a===b", r#"a label value expected at "=""#),
            ("!a=b", r#"a comma expected at "=""#),
            ("a/b/c=d", r#"the label key "a/b/c""#),
            ("a=b/c", r#"the label value "b/c""#),
            ("a=-", r#"the label value "-""#),
            ("a>b", r#"compares with "b""#),
            (r#"{"matchLabels":{"team":"a"}}"#, "the label key"),
        ] {
            let error = LabelSelector::parse(selector).unwrap_err().to_string();
            assert!(error.contains(part), "{selector:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}|[ab=!(),<> in]{0,40}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let _ = selector.selects(|_| Some("a"));
            }
        }

        /// A selector printed by Kubernetes' own library is read as the same selector.
        #[test]
        fn selectors_agree_with_kubes(
            requirements in proptest::collection::vec((0..6_u8, "[ab]", proptest::collection::vec("[abc]", 1..3)), 1..4),
            labels in proptest::collection::btree_map("[ab]", "[abc]", 0..3),
        ) {
            use kube::core::{Expression, Selector, SelectorExt as _};
            let reference: Selector = requirements.into_iter().map(|(kind, key, values)| {
                let first = values[0].clone();
                match kind {
                    0 => Expression::In(key, values.into_iter().collect()),
                    1 => Expression::NotIn(key, values.into_iter().collect()),
                    2 => Expression::Equal(key, first),
                    3 => Expression::NotEqual(key, first),
                    4 => Expression::Exists(key),
                    _ => Expression::DoesNotExist(key),
                }
            }).collect();
            let selector = LabelSelector::parse(&reference.to_string()).unwrap();
            proptest::prop_assert_eq!(
                selector.selects(|key| labels.get(key).map(String::as_str)),
                reference.matches(&labels)
            );
        }
    }
}
