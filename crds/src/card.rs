//! Card names and alternatives: the values of `volcano.sh/card.name`.
//!
//! Card names follow from the cluster's nodes (`NVIDIA-A100`, `NVIDIA-A100/mps-80g*1/8`, `NVIDIA-A100/mig-1g.5gb-mixed`).
//! Alternatives are names separated by `|`, preferred from left to right (Capacity Card, **Multi-Card Requests**).

use std::fmt;

use thiserror::Error;

use crate::bounds::{self, BoundError, cut};
use crate::keys::CARD_NAME;

/// What separates the alternatives of a multi-card request.
pub const SEPARATOR: char = '|';

/// A card name or a list of alternatives that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum CardNameError {
    #[error(
        "{0:?} has an empty card name: write one card, such as NVIDIA-A100, or alternatives, such as NVIDIA-A100|NVIDIA-H100"
    )]
    Empty(String),
    #[error("{text:?} names {name:?} twice: name every alternative once")]
    Repeated { text: String, name: String },
    #[error("{0:?} holds a control character: card names are label values of nodes, see kubectl get cardtypes")]
    ControlCharacter(String),
    /// More than is allowed.
    #[error("{0}")]
    Bound(#[from] BoundError),
}

/// Reads one card name, without the white space around it.
///
/// The text is taken as one name whatever it contains. To read alternatives, use [`CardAlternatives::parse`].
pub fn parse_name(text: &str) -> Result<&str, CardNameError> {
    check_name_length(text)?;
    refuse_control_characters(text)?;
    match text.trim() {
        "" => Err(CardNameError::Empty(cut(text))),
        name => Ok(name),
    }
}

fn check_name_length(name: &str) -> Result<(), BoundError> {
    const REMEDY: &str = "write the card's name as kubectl get cardtypes shows it";
    BoundError::length(name, bounds::CARD_NAME_LENGTH, REMEDY)
}

fn refuse_control_characters(text: &str) -> Result<(), CardNameError> {
    // Nearly all names are ASCII, and checking bytes is several times faster than checking characters.
    let found = if text.is_ascii() {
        text.bytes().any(|byte| byte.is_ascii_control())
    } else {
        text.chars().any(char::is_control)
    };
    if found {
        Err(CardNameError::ControlCharacter(cut(text)))
    } else {
        Ok(())
    }
}

/// The alternatives of one request, most preferred first. There is at least one; none is empty, and none appears twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardAlternatives<'a> {
    names: Vec<&'a str>,
}

impl<'a> CardAlternatives<'a> {
    /// Reads `A`, `A|B` or `A | B`. Spaces around `|` are not part of names.
    pub fn parse(text: &'a str) -> Result<Self, CardNameError> {
        const REMEDY: &str = "name the few that the pod prefers";
        const MOST: usize = bounds::annotation_length(CARD_NAME);
        BoundError::length(text, MOST, REMEDY)?;
        let count = 1 + text.matches(SEPARATOR).count();
        let what = || format!("{:?}", bounds::excerpt(text));
        BoundError::count(what, "alternatives", count, bounds::ALTERNATIVES, REMEDY)?;
        refuse_control_characters(text)?;
        let mut names: Vec<&str> = Vec::with_capacity(count);
        for name in text.split(SEPARATOR).map(str::trim) {
            if name.is_empty() {
                return Err(CardNameError::Empty(cut(text)));
            }
            check_name_length(name)?;
            // There are few enough names to compare them one by one.
            if names.contains(&name) {
                return Err(CardNameError::Repeated {
                    text: cut(text),
                    name: name.to_owned(),
                });
            }
            names.push(name);
        }
        Ok(Self { names })
    }

    /// The names, most preferred first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + '_ {
        self.names.iter().copied()
    }

    /// The names, most preferred first.
    pub fn as_slice(&self) -> &[&'a str] {
        &self.names
    }
}

impl fmt::Display for CardAlternatives<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_keep_their_order_and_lose_spaces_around_the_separator() {
        for (text, names) in [
            ("NVIDIA-A100", vec!["NVIDIA-A100"]),
            ("NVIDIA-A100|NVIDIA-H100", vec!["NVIDIA-A100", "NVIDIA-H100"]),
            (" B | A ", vec!["B", "A"]),
            ("NVIDIA-A100/mps-80g*1/8", vec!["NVIDIA-A100/mps-80g*1/8"]),
        ] {
            assert_eq!(CardAlternatives::parse(text).unwrap().as_slice(), names, "{text}");
        }
    }

    #[test]
    fn empty_and_repeated_alternatives_are_refused() {
        for text in ["", " ", "|", "A|", "|A", "A||B", "A| |B"] {
            assert_eq!(
                CardAlternatives::parse(text),
                Err(CardNameError::Empty(text.to_owned())),
                "{text:?}"
            );
        }
        assert_eq!(
            CardAlternatives::parse("A|B| A"),
            Err(CardNameError::Repeated {
                text: "A|B| A".to_owned(),
                name: "A".to_owned()
            })
        );
        assert!(CardAlternatives::parse("A\n").is_err());
    }

    #[test]
    fn there_is_a_bound_to_names_and_to_their_number() {
        let names: Vec<_> = (0..=bounds::ALTERNATIVES).map(|index| format!("C{index}")).collect();
        assert!(CardAlternatives::parse(&names[1..].join("|")).is_ok());
        let error = CardAlternatives::parse(&names.join("|")).unwrap_err().to_string();
        assert_eq!(
            error,
            "\"C0|C1|C2|C3|C4|C5|C6|C7|C8|C9|C10|C11|C12|C13|C14|C15|C16|C17|C1...\" has 33 alternatives, and 32 are allowed: \
             name the few that the pod prefers"
        );
        let longest = "x".repeat(bounds::CARD_NAME_LENGTH);
        assert!(parse_name(&longest).is_ok() && CardAlternatives::parse(&longest).is_ok());
        let longer = format!("{longest}x");
        for error in [
            parse_name(&longer).unwrap_err(),
            CardAlternatives::parse(&longer).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains(
                    "has 161 bytes, and 160 are allowed: write the card's name as kubectl get cardtypes shows it"
                ),
                "{error}"
            );
        }
        // A list of 38,000 alternatives once stalled every decision.
        let many: Vec<_> = (0..38_000).map(|index| format!("A{index}")).collect();
        let error = CardAlternatives::parse(&many.join("|")).unwrap_err().to_string();
        assert!(
            error.contains("bytes, and 4096 are allowed") && error.len() < 200,
            "{error}"
        );
    }
}
