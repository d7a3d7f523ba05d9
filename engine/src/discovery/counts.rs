//! Checks whether the labels that describe cards agree with what the node allocates. What is allocated counts; a disagreement is noted
//! (docs/rules.md, **Card discovery**).

use crds::keys::NVIDIA_MPS;
use crds::lean::TextMap;

use super::allocatable::is_slice;
use super::{COUNT, Problem, REPLICAS, label_of, positive_integer};

/// Checks whole cards. There must be as many as physical cards, or as their replicas where cards are shared by time-slicing; fewer where
/// some physical cards are sliced or shared instead.
pub(super) fn of_whole_cards<S: AsRef<str>>(
    stem: &str,
    resource: (&str, i64),
    shares: &[(&str, i64)],
    labels: &TextMap<S>,
) -> Option<Problem> {
    let is_shared = shares.iter().any(|(name, _)| *name == NVIDIA_MPS);
    let is_sliced = shares.iter().any(|(name, _)| is_slice(name));
    compare(stem, resource, labels, |count, replicas| {
        // Replicas of shares that have a resource of their own say nothing about the whole cards on the same node.
        let most = if is_shared {
            Some(count)
        } else {
            count.checked_mul(replicas)
        };
        most.is_some_and(|most| resource.1 == most || (is_shared || is_sliced) && resource.1 < most)
    })
}

/// Checks shares: physical cards times replicas.
pub(super) fn of_shares<S: AsRef<str>>(stem: &str, resource: (&str, i64), labels: &TextMap<S>) -> Option<Problem> {
    compare(stem, resource, labels, |count, replicas| {
        count.checked_mul(replicas) == Some(resource.1)
    })
}

/// Checks slices against the labels of the slice itself. A driver that names the profile differently leaves these labels out.
pub(super) fn of_slices<S: AsRef<str>>(resource: (&str, i64), labels: &TextMap<S>) -> Option<Problem> {
    of_shares(resource.0, resource, labels)
}

fn compare<S: AsRef<str>>(
    stem: &str,
    (resource, allocatable): (&str, i64),
    labels: &TextMap<S>,
    agrees: impl Fn(i64, i64) -> bool,
) -> Option<Problem> {
    let count = label_of(labels, stem, COUNT)?;
    let replicas = label_of(labels, stem, REPLICAS);
    let numbers = positive_integer(count).zip(replicas.map_or(Some(1), positive_integer));
    if numbers.is_some_and(|(count, replicas)| agrees(count, replicas)) {
        return None;
    }
    let replicas = replicas.map(|replicas| format!(" and {stem}{REPLICAS}={replicas}"));
    Some(Problem::CountMismatch {
        labels: format!("{stem}{COUNT}={count}{}", replicas.unwrap_or_default()),
        resource: resource.to_owned(),
        allocatable,
    })
}
