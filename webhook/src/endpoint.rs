//! The paths that the API server asks.

/// What a path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Judges pods and holds them.
    Mutate,
    /// Judges everything that says something about cards.
    Validate,
    /// Refuses nothing, and warns of mistakes.
    Advise,
}

impl Endpoint {
    /// The path of its URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Mutate => "/mutate",
            Self::Validate => "/validate",
            Self::Advise => "/advise",
        }
    }
}
