//! The places of pods and workloads that wait.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::ids::PodId;

/// The place of a waiting pod among those of its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// How often it came back because the scheduler could not place it: who came back stands behind the others.
    pub returns: u32,
    /// When it was created.
    pub created: Timestamp,
    /// The order of arrival, among those created in the same second.
    pub arrival: u64,
    /// Whose place it is: two of one moment still differ.
    pub pod: PodId,
}

/// Behind everybody of its priority.
pub(crate) const LAST: Place = Place {
    returns: u32::MAX,
    created: Timestamp::MAX,
    arrival: u64::MAX,
    pod: PodId::NONE,
};

/// Whose turn it is in a queue: by priority, then by place.
pub type Turn = (Reverse<i32>, Place);
