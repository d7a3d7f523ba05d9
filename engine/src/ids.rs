//! Numbers of what the cluster keeps in tables: small, and good as keys of whatever else is kept of it.

/// The number of something in its table; given again once that is gone.
pub(crate) trait Id: Copy {
    /// The number of this place.
    fn of(place: usize) -> Self;

    /// Its place in tables by it.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(u32);

        impl Id for $id {
            fn of(place: usize) -> Self {
                Self(u32::try_from(place).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// Which node, in tables and in what is kept of it elsewhere.
    NodeId,
    /// Which pod; what comes later under the same name has another one.
    PodId,
    /// Which queue, also one that pods name and nobody has made.
    QueueId,
    /// A workload: a `PodGroup` or a Job.
    WorkloadId,
}

impl PodId {
    /// No pod: stands behind all others.
    pub(crate) const NONE: Self = Self(u32::MAX);
}
