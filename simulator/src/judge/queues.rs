//! Queues: what they say of themselves, and which queue each is a part of.

use std::collections::BTreeMap;

use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use serde_json::Value;

use super::amounts::{self, Amounts, What};
use super::cards;
use super::configuration::Configuration;

/// A queue, as its object says.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The queue that it names as its parent.
    pub parent: Option<String>,
    /// Whether the queue takes pods.
    pub is_open: bool,
    /// Its capability; `None` if that can't be read.
    pub capability: Option<Amounts>,
    /// What it deserves; `None` if that can't be read.
    pub deserved: Option<Amounts>,
    /// Its guarantee; `None` if that can't be read.
    pub guarantee: Option<Amounts>,
}

impl Queue {
    /// Reads a queue.
    pub fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        let limits = |resources: &Value, annotation: &str| {
            let resources = amounts::resources(resources)?;
            let cards = match object["metadata"]["annotations"][annotation].as_str() {
                Some(text) => cards::counts(text)?,
                None => BTreeMap::new(),
            };
            let resources = resources
                .into_iter()
                .map(|(name, amount)| (What::Resource(name), amount));
            let cards = cards.into_iter().map(|(name, amount)| (What::Card(name), amount));
            Some(resources.chain(cards).collect())
        };
        let state = object["status"]["state"].as_str().filter(|state| !state.is_empty());
        Self {
            parent: spec["parent"]
                .as_str()
                .filter(|parent| !parent.is_empty())
                .map(str::to_owned),
            is_open: state.is_none_or(|state| state == "Open"),
            capability: limits(&spec["capability"], CARD_QUOTA),
            deserved: limits(&spec["deserved"], CARD_DESERVED),
            guarantee: limits(&spec["guarantee"]["resource"], CARD_GUARANTEE),
        }
    }

    /// Whether all of these can be read.
    pub fn is_readable(&self) -> bool {
        self.capability.is_some() && self.deserved.is_some() && self.guarantee.is_some()
    }
}

/// Returns the amount of an item, if it is named and the amounts can be read.
pub fn named(amounts: Option<&Amounts>, what: &What) -> Option<i128> {
    amounts?.get(what).copied()
}

/// All queues, each with its parent.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// By name.
    pub queues: BTreeMap<String, Queue>,
    parents: BTreeMap<String, String>,
    /// Queues that name a missing parent, or are parts of themselves.
    pub misplaced: Vec<String>,
    root: Option<String>,
}

impl Tree {
    /// The queues as the configuration places them.
    pub fn new(queues: BTreeMap<String, Queue>, configuration: &Configuration) -> Self {
        let mut tree = Self::default();
        if configuration.hierarchy {
            let root = &configuration.root;
            tree.root = Some(root.clone());
            for (name, queue) in queues.iter().filter(|(name, _)| *name != root) {
                let parent = queue.parent.as_ref().filter(|parent| *parent != root);
                if let Some(parent) = parent.filter(|parent| queues.contains_key(*parent)) {
                    tree.parents.insert(name.clone(), parent.clone());
                } else {
                    if parent.is_some() {
                        tree.misplaced.push(name.clone());
                    }
                    if queues.contains_key(root) {
                        tree.parents.insert(name.clone(), root.clone());
                    }
                }
            }
            // A queue below a ring is in its place. Only the ring itself is misplaced.
            let is_in_ring = |name: &&String| tree.path(name).iter().skip(1).any(|above| above == *name);
            let rings: Vec<_> = queues.keys().filter(is_in_ring).cloned().collect();
            tree.parents.retain(|name, _| !rings.contains(name));
            tree.misplaced.extend(rings);
        }
        tree.queues = queues;
        tree
    }

    /// Returns a queue and those above it. For a queue that is part of itself, the path is longer than there are parents.
    pub fn path(&self, queue: &str) -> Vec<String> {
        let most = self.parents.len() + 2;
        let root = |below: &String| self.root_there().filter(|_| self.is_gone(below)).map(str::to_owned);
        let above = |below: &String| self.parents.get(below).cloned().or_else(|| root(below));
        std::iter::successors(Some(queue.to_owned()), above)
            .take(most)
            .collect()
    }

    /// Returns the queue that all others are parts of, if it exists.
    pub fn root_there(&self) -> Option<&str> {
        self.root.as_deref().filter(|root| !self.is_gone(root))
    }

    /// Whether a queue does not exist. Its pods still hold what they have: in the cluster, and under the root if there is
    /// one.
    pub fn is_gone(&self, queue: &str) -> bool {
        !self.queues.contains_key(queue)
    }

    /// Whether a queue is `level` or below it; `None` stands for the cluster.
    pub fn is_within(&self, queue: &str, level: Option<&str>) -> bool {
        level.is_none_or(|level| self.path(queue).iter().any(|above| above == level))
    }

    /// Returns the queues that are parts of this one, or of none.
    pub fn children<'a>(&'a self, parent: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let is_child = move |name: &&String| self.parents.get(*name).map(String::as_str) == parent;
        self.queues.keys().filter(is_child).map(String::as_str)
    }

    /// Whether the queue has or may have parts. Such a queue takes no pods.
    pub fn is_inner(&self, queue: &str) -> bool {
        self.children(Some(queue)).next().is_some() || self.root.as_deref() == Some(queue)
    }
}
