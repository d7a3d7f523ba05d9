//! What one request sees: the door's knowledge, and what was asked of the API server for this request alone.
//!
//! Watches lag by milliseconds. Nobody must be refused, or charged to the wrong queue, for what a watch has not delivered
//! yet; so a decision that would rest on something absent or on a refusal stops with a [`Lookup`], which is answered from
//! the API server, and is taken again.

use std::fmt;
use std::sync::Arc;

use crds::card_resources::is_extended;
use crds::configuration::Configuration;

use crate::knowledge::{Configured, GroupFacts, Knowledge, NamespaceFacts, QueueFacts, group_key};

/// What to ask of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The queue of this name.
    Queue(String),
    /// The `PodGroup` of this name in this namespace.
    #[expect(missing_docs, reason = "one line says it")]
    Group { namespace: String, name: String },
    /// The namespace of this name.
    Namespace(String),
    /// How many pods hold or wait for something of this queue.
    PodsOf(String),
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name:?}"),
            Self::Group { namespace, name } => write!(f, "PodGroup {name:?} in namespace {namespace:?}"),
            Self::Namespace(name) => write!(f, "namespace {name:?}"),
            Self::PodsOf(queue) => write!(f, "the usage of queue {queue:?}"),
        }
    }
}

/// What the API server said; `None`: there is no such object.
#[derive(Debug, Clone)]
pub enum Found {
    /// About a queue.
    Queue(Option<Arc<QueueFacts>>),
    /// About a `PodGroup`.
    Group(Option<Arc<GroupFacts>>),
    /// About a namespace.
    Namespace(Option<Arc<NamespaceFacts>>),
    /// How many pods a queue has, as the operator last wrote it.
    PodsOf(u64),
}

/// Answers of the API server for one request.
#[derive(Debug, Default)]
pub struct Fresh {
    answers: Vec<(Lookup, Found)>,
}

impl Fresh {
    /// Keeps an answer.
    pub fn add(&mut self, lookup: Lookup, found: Found) {
        self.answers.push((lookup, found));
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    fn find<'f, T>(&'f self, mut matching: impl FnMut(&'f Lookup, &'f Found) -> Option<T>) -> Option<T> {
        self.answers.iter().find_map(|(lookup, found)| matching(lookup, found))
    }
}

/// What one request sees.
#[derive(Debug, Clone, Copy)]
pub struct View<'k> {
    /// What the watches have delivered.
    pub knowledge: &'k Knowledge,
    /// The configuration when the request came.
    pub configured: &'k Configured,
    /// What was asked for this request.
    pub fresh: &'k Fresh,
}

/// A fact, and whether it may be out of date.
#[derive(Debug, Clone)]
pub struct Fact<T> {
    /// The fact; `None`: there is no such object.
    pub value: Option<Arc<T>>,
    /// Whether the API server itself said so, during this request.
    pub fresh: bool,
}

impl<T> Fact<T> {
    /// What the API server said, as far as it was asked; otherwise what the watch delivered.
    fn new(fresh: Option<&Option<Arc<T>>>, cached: impl FnOnce() -> Option<Arc<T>>) -> Self {
        match fresh {
            Some(value) => Self {
                value: value.clone(),
                fresh: true,
            },
            None => Self {
                value: cached(),
                fresh: false,
            },
        }
    }

    /// The fact, or `None` where the object is absent for certain. Where a watch may only not have delivered it yet, the
    /// lookup that tells is the error.
    pub fn known(self, lookup: impl FnOnce() -> Lookup) -> Result<Option<Arc<T>>, Lookup> {
        if self.value.is_none() && !self.fresh {
            return Err(lookup());
        }
        Ok(self.value)
    }
}

impl<'k> View<'k> {
    /// The configuration in force.
    pub fn configuration(&self) -> &'k Configuration {
        &self.configured.configuration
    }

    /// Whether everything has been read once.
    pub fn is_complete(&self) -> bool {
        self.configured.is_known && self.knowledge.is_listed()
    }

    /// Whether a resource is a card: by the configuration, or because some node was found to have cards of it.
    pub fn is_card_resource(&self, resource: &str) -> bool {
        is_extended(resource)
            && (self.configuration().cardgate.is_card_resource(resource)
                || self.knowledge.card_types.any(|known| **known == *resource))
    }

    /// What is known of a queue.
    pub fn queue(&self, name: &str) -> Fact<QueueFacts> {
        let fresh = self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::Queue(queue), Found::Queue(facts)) if queue == name => Some(facts),
            _ => None,
        });
        Fact::new(fresh, || self.knowledge.queues.get(name))
    }

    /// What is known of a `PodGroup`.
    pub fn group(&self, in_namespace: &str, group: &str) -> Fact<GroupFacts> {
        let fresh = self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::Group { namespace, name }, Found::Group(facts)) if namespace == in_namespace && name == group => {
                Some(facts)
            }
            _ => None,
        });
        Fact::new(fresh, || self.knowledge.groups.get(&group_key(in_namespace, group)))
    }

    /// How many pods a queue has, where it was asked for.
    pub fn pods_of(&self, of: &str) -> Option<u64> {
        self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::PodsOf(queue), Found::PodsOf(count)) if queue == of => Some(*count),
            _ => None,
        })
    }

    /// What is known of a namespace.
    pub fn namespace(&self, name: &str) -> Fact<NamespaceFacts> {
        let fresh = self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::Namespace(namespace), Found::Namespace(facts)) if namespace == name => Some(facts),
            _ => None,
        });
        Fact::new(fresh, || self.knowledge.namespaces.get(name))
    }
}
