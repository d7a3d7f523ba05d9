//! How CrossQuota orders nodes for one pod: `volcano.sh/crossquota-scoring-strategy` (CrossQuota, **Scoring Strategies**).

use std::str::FromStr;

use thiserror::Error;

use crate::bounds::excerpt;

/// An unknown strategy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no scoring strategy: write most-allocated or least-allocated, or leave the annotation out")]
pub struct ScoringStrategyError(pub String);

/// Which nodes go first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ScoringStrategy {
    /// Nodes of which more is in use.
    #[default]
    MostAllocated,
    /// Nodes of which less is in use.
    LeastAllocated,
}

impl FromStr for ScoringStrategy {
    type Err = ScoringStrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "most-allocated" => Ok(Self::MostAllocated),
            "least-allocated" => Ok(Self::LeastAllocated),
            _ => Err(ScoringStrategyError(excerpt(text).into_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scoring_strategies() {
        assert_eq!("most-allocated".parse(), Ok(ScoringStrategy::MostAllocated));
        assert_eq!("least-allocated".parse(), Ok(ScoringStrategy::LeastAllocated));
        for text in ["", "MostAllocated", "most-allocated ", "random"] {
            assert_eq!(
                text.parse::<ScoringStrategy>(),
                Err(ScoringStrategyError(text.to_owned()))
            );
        }
    }
}
