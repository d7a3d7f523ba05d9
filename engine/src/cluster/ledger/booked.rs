//! What everybody reads and the ledger alone changes.

use std::ops::Deref;

/// A sum, or who it is of. Only the ledger can change it, which sees to it that all sums that hang together change together.
#[derive(Debug, Default)]
pub struct Booked<T>(T);

impl<T> Booked<T> {
    /// To be changed.
    #[inline]
    pub(super) fn book(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Deref for Booked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
