//! How the compute of a card is shared: `vke.volcengine.com/mgpu-compute-policy` (mGPU, **Filter**).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::bounds::excerpt;

/// A compute policy that the document does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no compute policy: write fixed-share, guaranteed-burst-share or native-burst-share")]
pub struct ComputePolicyError(pub String);

/// How containers share the compute of a card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComputePolicy {
    /// Each gets what it asked for, and no more.
    #[default]
    FixedShare,
    /// Each gets what it asked for, and more where it is free.
    GuaranteedBurstShare,
    /// Each gets what it can; the only policy under which a container may share several cards.
    NativeBurstShare,
}

impl ComputePolicy {
    /// All of them, the strictest first.
    pub const ALL: [Self; 3] = [Self::FixedShare, Self::GuaranteedBurstShare, Self::NativeBurstShare];

    /// The policy, as nodes and pods write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FixedShare => "fixed-share",
            Self::GuaranteedBurstShare => "guaranteed-burst-share",
            Self::NativeBurstShare => "native-burst-share",
        }
    }
}

impl fmt::Display for ComputePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ComputePolicy {
    type Err = ComputePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        known.ok_or_else(|| ComputePolicyError(excerpt(text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compute_policies() {
        for policy in ComputePolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in ["", "Fixed-Share", "native-burst-share ", "burst"] {
            assert_eq!(text.parse::<ComputePolicy>(), Err(ComputePolicyError(text.to_owned())));
        }
    }
}
