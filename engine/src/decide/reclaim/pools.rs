//! Who may be taken back, kept from one pod of a look to the next: to find them costs more than to choose among them.

use super::kinds::Kept;
use super::pool::{FoundAt, Key, Pool};
use crate::ids::PodId;

/// The pool of the pods that are looked at, and what was found of kinds of pods for others: a gang may have pods of many kinds in turn.
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

    /// The pool of pods that have this in common, found `anew` where the one that is open is another. So it stands by now, with these counted as
    /// gone.
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

    /// What was found out of who may be taken back holds no more; what kinds of pods there are does.
    pub(super) fn close(&mut self) {
        if let Some(kinds) = self.open.take().and_then(Pool::into_kinds) {
            self.kinds.keep(kinds);
        }
    }

    /// All but these that were counted as gone are there again.
    pub(super) fn turn_back(&mut self, at: FoundAt, gone: &[PodId]) {
        if let Some(key) = self.open.as_ref().map(|pool| pool.key.clone()) {
            self.reopen(key, at, gone);
        }
        // With what was found for the pool that was open.
        self.kinds.put_back(gone.len());
    }

    /// Keeps the pool for pods of another gang, if it is theirs too; or closes it.
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
