//! What queues below a queue come to.

use crate::amounts::Totals;
use crate::inqueue::Inqueue;

/// Sums over the queues directly below a queue or below the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Below {
    /// How many they are.
    pub children: usize,
    /// What the pods in them and below them have.
    pub allocated: Totals,
    /// What they hold: the same, and what is kept free for them.
    pub held: Totals,
    /// What is guaranteed to them.
    pub guaranteed: Totals,
    /// What they deserve, as they say.
    pub deserved: Totals,
    /// What the pods ask for that wait in them and below them.
    pub requested: Totals,
    /// What is kept for workloads in them and below them whose pods have not taken over.
    pub inqueue: Inqueue,
    /// What workloads in them and below them hold beyond their minimum.
    pub elastic: Totals,
}
