//! All pods: everybody reads them, and the ledger alone changes them.

use std::ops::Deref;

use crate::cluster::pod::Pod;
use crate::ids::PodId;
use crate::table::Table;

/// All pods, each in its place.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pub(super) table: Table<PodId, Option<Pod>>,
    /// How many of them ask for devices by resource claims.
    pub(super) with_resource_claims: usize,
}

impl Deref for Pods {
    type Target = Table<PodId, Option<Pod>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.table
    }
}
