//! Remembers what was read of objects while it is needed. A stored object never changes, so it is read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// No more results than this are kept.
const MOST: usize = 4096;

/// What objects say, as one reader reads it.
#[derive(Debug)]
pub struct Memo<T>(RefCell<HashMap<*const Value, Read<T>>>);

/// An object, which keeps its address as long as it is held here, and what was read of it.
type Read<T> = (Arc<Value>, Arc<T>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Memo<T> {
    /// Returns what an object says. Reads it only the first time.
    pub fn get(&self, object: &Arc<Value>, read: impl FnOnce(&Value) -> T) -> Arc<T> {
        let mut known = self.0.borrow_mut();
        if known.len() > MOST {
            known.clear();
        }
        let (_, said) = known
            .entry(Arc::as_ptr(object))
            .or_insert_with(|| (Arc::clone(object), Arc::new(read(object))));
        Arc::clone(said)
    }
}
