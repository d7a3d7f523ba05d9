//! Numbers of things that the cluster keeps in tables: small, and good as keys of whatever else is kept about them.

/// The number of something in its table. It is given again once that thing is gone.
pub(crate) trait Id: Copy {
    /// Returns the number of this place.
    fn of(place: usize) -> Self;

    /// Returns the place of the thing in tables by number.
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
    /// The number of a node, in tables and wherever something is kept about the node.
    NodeId,
    /// The number of a pod. A later pod of the same name has another number.
    PodId,
    /// The number of a queue, also of one that pods name and nobody has created.
    QueueId,
    /// The number of a workload: a `PodGroup` or a Job.
    WorkloadId,
}

impl PodId {
    /// No pod: sorts behind all others.
    pub(crate) const NONE: Self = Self(u32::MAX);
}
