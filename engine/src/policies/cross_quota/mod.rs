//! The `CrossQuota` document: how much pods without GPU may hold of nodes with GPUs, and which of these nodes they prefer.

mod score;
#[cfg(test)]
mod tests;

use crds::configuration::QuotaResource;
use crds::cross_quota::{Percentage, QuotaError, parse_quota, percentage_annotation, quota_annotation};

pub use score::{NodeScore, Scoring};
use thiserror::Error;

/// Where a quota comes from: the first of these sources that exists (**Configuration Priority**).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The node's annotation `volcano.sh/crossquota-<resource>`.
    NodeQuota,
    /// The node's annotation `volcano.sh/crossquota-percentage-<resource>`.
    NodePercentage,
    /// The argument `quota.<resource>`.
    Quota,
    /// The argument `quota-percentage.<resource>`.
    Percentage,
    /// None of these: the quota is all that is allocatable.
    Allocatable,
}

impl Source {
    /// Returns the annotation or argument, for users.
    pub fn describe(self, resource: &str) -> String {
        match self {
            Self::NodeQuota => format!("annotation {}", quota_annotation(resource)),
            Self::NodePercentage => format!("annotation {}", percentage_annotation(resource)),
            Self::Quota => format!("argument quota.{resource}"),
            Self::Percentage => format!("argument quota-percentage.{resource}"),
            Self::Allocatable => "allocatable".to_owned(),
        }
    }
}

/// A node's annotation that can't be read. The next source counts instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("annotation {key}: {error}: it is passed over")]
pub struct BadAnnotation {
    /// Name of the annotation, with the resource in it.
    pub key: String,
    /// What is wrong with it.
    pub error: QuotaError,
}

/// The quota of one resource on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The amount: CPU in millicores, everything else in whole units; never more than is allocatable.
    pub amount: i64,
    /// Where the amount comes from.
    pub source: Source,
}

/// **Configuration Priority**: returns the quota of a resource on a node that allocates this much of it. `annotation` returns the node's
/// annotations; annotations that can't be read are added to `bad`.
pub fn quota<'a>(
    resource: &QuotaResource,
    allocatable: i64,
    annotation: impl Fn(&str) -> Option<&'a str>,
    bad: &mut Vec<BadAnnotation>,
) -> Quota {
    let mut read = |key: String, parse: &dyn Fn(&str) -> Result<i64, QuotaError>| {
        let parsed = parse(annotation(&key)?.trim());
        parsed.map_err(|error| bad.push(BadAnnotation { key, error })).ok()
    };
    let name = &*resource.name;
    let absolute = |text: &str| parse_quota(name, text);
    let percentage = |text: &str| Percentage::parse(text).map(|percentage| percentage.of(allocatable));
    let (amount, source) = if let Some(amount) = read(quota_annotation(name), &absolute) {
        (amount, Source::NodeQuota)
    } else if let Some(amount) = read(percentage_annotation(name), &percentage) {
        (amount, Source::NodePercentage)
    } else if let Some(amount) = resource.quota {
        (amount, Source::Quota)
    } else if let Some(percentage) = resource.percentage {
        (percentage.of(allocatable), Source::Percentage)
    } else {
        (allocatable, Source::Allocatable)
    };
    Quota {
        amount: amount.min(allocatable),
        source,
    }
}

/// One resource of one node: what pods without GPU may hold, and what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// What they may hold: CPU in millicores, everything else in whole units.
    pub quota: i64,
    /// What they hold: pods that are bound there, or let in and expected there.
    pub used: i128,
    /// What pods may come to hold that a scheduler is placing at this moment.
    pub assumed: i128,
}

/// **Predicate Function**: returns the place of the first resource of which a pod asks for more than is left; none where the node can take
/// the pod. A resource that the pod does not ask for must not be above its quota either.
pub fn exceeded(lines: &[Line], request: &[i64]) -> Option<usize> {
    lines
        .iter()
        .zip(request)
        .position(|(line, asked)| line.used + line.assumed + i128::from(*asked) > i128::from(line.quota))
}
