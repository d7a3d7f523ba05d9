//! The sums over the queues below a queue.

use crate::amounts::Totals;
use crate::inqueue::Inqueue;

/// Sums over the queues directly below a queue or below the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Below {
    /// How many queues these are.
    pub children: usize,
    /// What the pods in these queues and below them have.
    pub allocated: Totals,
    /// What these queues hold: what their pods have, and what is kept free for them.
    pub held: Totals,
    /// What is guaranteed to these queues.
    pub guaranteed: Totals,
    /// What these queues deserve, by their own specs.
    pub deserved: Totals,
    /// What the pods ask for that wait in these queues and below them.
    pub requested: Totals,
    /// What is kept for workloads in these queues and below them whose pods have not taken over.
    pub inqueue: Inqueue,
    /// What workloads in these queues and below them hold beyond their minimum.
    pub elastic: Totals,
}
