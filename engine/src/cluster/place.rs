//! The places of pods and workloads that wait.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::ids::PodId;

/// The place of a waiting pod among the pods of its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// How often it came back because the scheduler could not place it. Pods that came back stand behind the others.
    pub returns: u32,
    /// When it was created.
    pub created: Timestamp,
    /// The order of arrival, among those created in the same second.
    pub arrival: u64,
    /// The pod whose place it is, so that two places of the same moment still differ.
    pub pod: PodId,
}

/// The place behind every other pod of the same priority.
pub(crate) const LAST: Place = Place {
    returns: u32::MAX,
    created: Timestamp::MAX,
    arrival: u64::MAX,
    pod: PodId::NONE,
};

/// A turn in a queue: by priority, then by place.
pub type Turn = (Reverse<i32>, Place);
