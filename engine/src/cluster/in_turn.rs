//! Pods that have to be told something that no judgement of them says, one of each namespace in turn: a crowd keeps nobody
//! else from being told.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

/// Pods by namespace, and in each namespace by their time of creation. The namespaces take turns. Whoever takes a pod out
/// passes over it where it is gone, or is not to be told any more.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    pods: BTreeMap<Arc<str>, BTreeSet<(Timestamp, Arc<str>)>>,
    /// The namespace whose turn it was last.
    last: Option<Arc<str>>,
}

impl InTurn {
    /// Puts a pod in, where it is not in already.
    pub(super) fn insert(&mut self, namespace: Arc<str>, created: Timestamp, uid: Arc<str>) {
        self.pods.entry(namespace).or_default().insert((created, uid));
    }

    /// Returns the namespace whose turn it is, of those with a pod whose time of creation allows it a turn.
    pub(super) fn next_namespace(&self, may_be: impl Fn(Timestamp) -> bool) -> Option<Arc<str>> {
        let is_due = |pods: &BTreeSet<(Timestamp, Arc<str>)>| {
            let mut ends = pods.first().into_iter().chain(pods.last());
            ends.any(|(created, _)| may_be(*created))
        };
        let behind = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.pods.range::<Arc<str>, _>((behind, Bound::Unbounded));
        let mut in_turn = behind.chain(&self.pods).filter(|(_, pods)| is_due(pods));
        in_turn.next().map(|(namespace, _)| Arc::clone(namespace))
    }

    /// Takes out the next pod whose time of creation allows it a turn, and returns its unique id. Such a pod has been
    /// there for long, or was created by a clock that ran far ahead, so it is the first or the last of its namespace.
    pub(super) fn take_next(&mut self, may_be: impl Fn(Timestamp) -> bool) -> Option<Arc<str>> {
        let namespace = self.next_namespace(&may_be)?;
        let pods = self.pods.get_mut(&namespace)?;
        let is_first = pods.first().is_some_and(|(created, _)| may_be(*created));
        let (_, uid) = if is_first { pods.pop_first() } else { pods.pop_last() }?;
        if pods.is_empty() {
            self.pods.remove(&namespace);
        }
        self.last = Some(namespace);
        Some(uid)
    }
}
