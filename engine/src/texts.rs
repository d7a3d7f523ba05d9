//! Texts that many objects share.

use std::collections::HashSet;
use std::sync::Arc;

/// Texts that many objects share: label keys and values, namespaces.
#[derive(Debug, Default)]
pub struct TextPool {
    texts: HashSet<Arc<str>>,
    /// How many texts there were after the last sweep.
    swept: usize,
}

/// A pool of fewer texts than this is not swept.
const SMALL_POOL: usize = 1024;

impl TextPool {
    /// Returns the shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        // Nodes come and go, each with its own name among its labels. The pool is swept when it has doubled, so that a text costs
        // the same however many texts there are.
        if self.texts.len() >= 2 * self.swept.max(SMALL_POOL) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.swept = self.texts.len();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        shared
    }
}
