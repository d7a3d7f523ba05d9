//! What one node contributes to the sums of the cluster.

use crate::amounts::Dimension;

/// What a node adds to what the cluster has, and what it would give once it takes pods again.
pub(super) struct Parts {
    pub(super) of_total: Vec<(Dimension, i128)>,
    pub(super) away: Vec<(Dimension, i128)>,
    /// Devices that any number of claims may have at once.
    pub(super) shared: Vec<(Dimension, i128)>,
    /// Devices beside `of_total`, which are kept from all claims but those that tolerate that.
    pub(super) tainted: Vec<(Dimension, i128)>,
}
