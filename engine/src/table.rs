//! Tables of things that come and go. Each thing has a place of its own and is found by its key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::ids::Id;

/// Things by number and by key. The places of things that are gone are used again, the last one first.
///
/// A thing that is gone can still be read in its place until another thing takes the place: code that kept a number finds the
/// last thing that was there, not nothing.
#[derive(Debug)]
pub(crate) struct Table<I, T> {
    places: Vec<T>,
    ids: HashMap<Arc<str>, I>,
    free: Vec<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            ids: HashMap::new(),
            free: Vec::new(),
        }
    }
}

impl<I: Id, T> Table<I, T> {
    /// Puts a thing in its place. A thing that has this key already gives up its place to the new one.
    pub(crate) fn insert(&mut self, key: Arc<str>, thing: T) -> I {
        match self.ids.entry(key) {
            Entry::Occupied(known) => {
                let id = *known.get();
                self.places[id.index()] = thing;
                id
            }
            Entry::Vacant(new) => {
                let id = if let Some(id) = self.free.pop() {
                    self.places[id.index()] = thing;
                    id
                } else {
                    self.places.push(thing);
                    I::of(self.places.len() - 1)
                };
                *new.insert(id)
            }
        }
    }

    /// Removes the thing with this key, which frees its place.
    pub(crate) fn remove(&mut self, key: &str) -> Option<I> {
        let id = self.ids.remove(key)?;
        self.free.push(id);
        Some(id)
    }

    /// Returns the number of the thing with this key.
    pub(crate) fn id(&self, key: &str) -> Option<I> {
        self.ids.get(key).copied()
    }

    /// Returns the numbers of all things, in no order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> {
        self.ids.values().copied()
    }

    /// Returns the numbers of all places, free ones included.
    pub(crate) fn places(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.places.len()).map(I::of)
    }

    /// Returns what lies in this place, if there is such a place.
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.places.get(id.index())
    }

    /// Returns what lies in all places, in order; also things that are gone and still lie there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        (0..).map(I::of).zip(&self.places)
    }

    /// Returns the same as [`Self::iter`], to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        (0..).map(I::of).zip(&mut self.places)
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.places[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.places[id.index()]
    }
}

#[cfg(test)]
mod tests;
