//! Limits how many selectors of claims are evaluated in one round. Each namespace has its own turn, so that a namespace
//! that writes many selectors that take long keeps only itself waiting (docs/security.md, **Bounds**).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::devices::TURN;
use crate::steps::Steps;

/// What was spent in this round, and which pods go on in the next round.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// What is left of the turns of the namespaces that have begun theirs.
    left: HashMap<Box<str>, Steps>,
    /// By namespace, the pods whose turn ended before all was evaluated, by uid.
    later: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
}

impl Turns {
    /// Begins another round. Returns the namespaces that have something left to evaluate.
    pub(super) fn begin(&mut self) -> Vec<Box<str>> {
        self.left.clear();
        self.later.keys().cloned().collect()
    }

    /// Takes the steps that are left for a namespace.
    pub(super) fn take(&mut self, namespace: &str) -> Steps {
        self.left.remove(namespace).unwrap_or_else(|| Steps::new(TURN))
    }

    /// Gives back the steps that are left after a pod. The pod goes on in the next round where something of it `is_left`.
    pub(super) fn give_back(&mut self, namespace: &str, steps: Steps, is_left: Option<&str>) {
        if steps.left() < TURN {
            self.left.insert(namespace.into(), steps);
        }
        if let Some(uid) = is_left {
            self.put_off(namespace, uid.into());
        }
    }

    /// Whether a namespace's turn is over for this round.
    pub(super) fn is_over(&self, namespace: &str) -> bool {
        self.left.get(namespace).is_some_and(Steps::are_spent)
    }

    /// Takes from a namespace's turn what it costs to read one of its pods anew.
    pub(super) fn pay_for_pod(&mut self, namespace: &str, cost: usize) {
        let steps = self.take(namespace);
        steps.spend(cost);
        self.give_back(namespace, steps, None);
    }

    /// Puts off reading a pod to the next round.
    pub(super) fn put_off(&mut self, namespace: &str, uid: Arc<str>) {
        self.later.entry(namespace.into()).or_default().insert(uid);
    }

    /// Returns the next pod of a namespace that is to go on, while the namespace's turn is not over.
    pub(super) fn next_of(&mut self, namespace: &str) -> Option<Arc<str>> {
        if self.is_over(namespace) {
            return None;
        }
        let next = self.later.get(namespace)?.first().cloned()?;
        self.forget_waiting(namespace, &next);
        Some(next)
    }

    /// Whether any pod of a namespace is to go on in the next round.
    pub(super) fn are_any_later(&self, namespace: &str) -> bool {
        self.later.contains_key(namespace)
    }

    /// Whether a pod is to go on in the next round.
    pub(super) fn is_later(&self, namespace: &str, uid: &str) -> bool {
        self.later.get(namespace).is_some_and(|pods| pods.contains(uid))
    }

    /// Notes that a pod no longer waits for the next round, since it is being read. What is left of it then is noted anew. Returns
    /// whether it did wait.
    pub(super) fn forget_waiting(&mut self, namespace: &str, uid: &str) -> bool {
        let Some(pods) = self.later.get_mut(namespace) else {
            return false;
        };
        let waited = pods.remove(uid);
        if pods.is_empty() {
            self.later.remove(namespace);
        }
        waited
    }
}
