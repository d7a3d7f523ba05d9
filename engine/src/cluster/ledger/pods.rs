//! All pods. They can be read everywhere, and only the ledger changes them.

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::cluster::pod::Pod;
use crate::ids::PodId;
use crate::table::Table;

/// All pods, each in its place in the table.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(super) table: Table<PodId, Option<Pod>>,
    /// How many pods claim devices that are not cards.
    pub(super) with_resource_claims: usize,
    /// The pods that are being deleted or evicted, or were: all pods that could be on their way out, or whose eviction was
    /// refused.
    pub(super) leaving: BTreeSet<PodId>,
}

impl Pods {
    /// Returns the pods that are being deleted or evicted, or were.
    pub(in crate::cluster) fn leaving(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.leaving
            .iter()
            .filter_map(|id| Some((*id, self.get(*id)?.as_ref()?)))
    }
}

impl Deref for Pods {
    type Target = Table<PodId, Option<Pod>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.table
    }
}
