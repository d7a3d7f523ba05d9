//! The paths that the API server asks.

/// What a URL path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Judges pods and holds them.
    Mutate,
    /// Judges every object that says something about cards.
    Validate,
    /// Refuses nothing, and warns of mistakes.
    Advise,
}

impl Endpoint {
    /// The path of the URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Mutate => "/mutate",
            Self::Validate => "/validate",
            Self::Advise => "/advise",
        }
    }
}
