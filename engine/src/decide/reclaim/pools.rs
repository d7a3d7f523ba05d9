//! The pods that may be taken back, kept from one pod of a look to the next: finding them costs more than choosing among them.

use super::kinds::Kept;
use super::pool::{FoundAt, Key, Pool};
use crate::ids::PodId;

/// The pool for the pods that are being looked at, and the kinds of pods that were found for other pools: a gang may have pods of
/// many kinds in turn.
#[derive(Default)]
pub(super) struct Pools {
    open: Option<Pool>,
    kinds: Kept,
}

impl Pools {
    pub(super) fn get(&self) -> Option<&Pool> {
        self.open.as_ref()
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut Pool> {
        self.open.as_mut()
    }

    /// Returns the pool for waiting pods with this key, as it stands now: the pods in `gone` are counted as gone. The pool is
    /// found `anew` where the one that is open does not serve these pods.
    pub(super) fn open(&mut self, key: &Key, at: FoundAt, gone: &[PodId], anew: impl Fn(bool) -> Pool) -> &mut Pool {
        if self.open.as_ref().is_some_and(|pool| pool.key != *key) {
            self.reopen(key.clone(), at, gone);
            debug_assert!(
                self.open.as_ref().is_none_or(|pool| pool.is_alike(&anew(false))),
                "queues have less to give than for the gang before"
            );
        }
        let kinds = &mut self.kinds;
        self.open.get_or_insert_with(|| {
            let mut pool = anew(true);
            pool.know(kinds);
            pool.note_gone(gone);
            pool
        })
    }

    /// Closes the pool: what it knows about candidates no longer holds. What kinds of pods there are does, and is kept.
    pub(super) fn close(&mut self) {
        if let Some(kinds) = self.open.take().and_then(Pool::into_kinds) {
            self.kinds.keep(kinds);
        }
    }

    /// Notes that of the pods that were counted as gone, all but those in `gone` are there again.
    pub(super) fn turn_back(&mut self, at: FoundAt, gone: &[PodId]) {
        if let Some(key) = self.open.as_ref().map(|pool| pool.key.clone()) {
            self.reopen(key, at, gone);
        }
        // This includes what was found for the pool that was open.
        self.kinds.put_back(gone.len());
    }

    /// Keeps the pool for pods of another gang if it serves them too; closes it otherwise.
    fn reopen(&mut self, key: Key, at: FoundAt, gone: &[PodId]) {
        if self
            .open
            .as_ref()
            .is_some_and(|pool| pool.serves_another_gang(&key, at))
        {
            self.open = self.open.take().map(|pool| pool.of_another_gang(key));
            if let Some(pool) = &mut self.open {
                pool.note_gone(gone);
            }
        } else {
            self.close();
        }
    }
}
