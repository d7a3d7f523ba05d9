//! How much of the selectors of claims is evaluated in one round: namespace by namespace, so that whoever writes many that take long waits for
//! nobody but themselves (docs/security.md, **Bounds**).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::devices::TURN;
use crate::steps::Steps;

/// What it costs to read a pod anew, whatever its claims come to: so that of those that share a claim which somebody makes and deletes in turn,
/// some are read in each round.
const READ_POD: usize = 128;

/// What was spent in this round, and who goes on in the next one.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// What is left of the turns of those namespaces that have begun theirs.
    left: HashMap<Box<str>, Steps>,
    /// By namespace, the pods whose turn ended before all was evaluated, by uid.
    later: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
}

impl Turns {
    /// Another round begins. The namespaces that have something left.
    pub(super) fn begin(&mut self) -> Vec<Box<str>> {
        self.left.clear();
        self.later.keys().cloned().collect()
    }

    /// The steps that are left for a namespace.
    pub(super) fn take(&mut self, namespace: &str) -> Steps {
        self.left.remove(namespace).unwrap_or_else(|| Steps::new(TURN))
    }

    /// So many are left after a pod, which is to go on in the next round where something of it `is_left`.
    pub(super) fn give_back(&mut self, namespace: &str, steps: Steps, is_left: Option<&str>) {
        if steps.left() < TURN {
            self.left.insert(namespace.into(), steps);
        }
        if let Some(uid) = is_left {
            self.put_off(namespace, uid.into());
        }
    }

    /// Takes from a namespace's turn what it costs to read one of its pods anew. Whether the turn was not over before.
    pub(super) fn pay_for_pod(&mut self, namespace: &str) -> bool {
        let steps = self.take(namespace);
        let is_over = steps.are_spent();
        steps.spend(READ_POD);
        self.give_back(namespace, steps, None);
        !is_over
    }

    /// A pod is read in the next round.
    pub(super) fn put_off(&mut self, namespace: &str, uid: Arc<str>) {
        self.later.entry(namespace.into()).or_default().insert(uid);
    }

    /// The next pod of a namespace that is to go on, while its turn is not over.
    pub(super) fn next_of(&mut self, namespace: &str) -> Option<Arc<str>> {
        if self.left.get(namespace).is_some_and(Steps::are_spent) {
            return None;
        }
        let next = self.later.get(namespace)?.first().cloned()?;
        self.forget_waiting(namespace, &next);
        Some(next)
    }

    /// Whether a pod is to go on in the next round.
    pub(super) fn is_later(&self, namespace: &str, uid: &str) -> bool {
        self.later.get(namespace).is_some_and(|pods| pods.contains(uid))
    }

    /// A pod no longer waits for the next round, since it is being read: what is left of it then is said anew.
    pub(super) fn forget_waiting(&mut self, namespace: &str, uid: &str) {
        if let Some(pods) = self.later.get_mut(namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.later.remove(namespace);
            }
        }
    }
}
