//! Why a judgement did not come out in favour.

use crate::denial::Denial;
use crate::view::Lookup;

/// Why there is no decision yet, or why it is a refusal.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The pod is refused.
    Denied(Denial),
    /// The decision needs an answer of the API server.
    Ask(Lookup),
    /// Not everything has been read yet.
    NotReady,
}

impl From<Lookup> for Stop {
    fn from(lookup: Lookup) -> Self {
        Self::Ask(lookup)
    }
}

impl<D: Into<Denial>> From<D> for Stop {
    fn from(denial: D) -> Self {
        Self::Denied(denial.into())
    }
}
