//! What one request sees: the door's knowledge, and the answers of the API server to questions of this request.
//!
//! Watches lag by milliseconds. Nobody must be refused, or charged to the wrong queue, for an object that a watch has not
//! delivered yet. So a decision that would rest on an absent object, or would be a refusal, stops with a [`Lookup`]. The API
//! server answers it, and the decision is taken again.

use std::fmt;
use std::sync::Arc;

use crds::card_resources::is_extended;
use crds::configuration::Configuration;
use crds::dra::{ClaimSpec, DeviceClass};

use crate::knowledge::{CardFacts, Configured, GroupFacts, Knowledge, NamespaceFacts, QueueFacts, group_key};

/// A question to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The queue of this name.
    Queue(String),
    /// The `PodGroup` of this name in this namespace.
    #[expect(missing_docs, reason = "one line says it")]
    Group { namespace: String, name: String },
    /// The namespace of this name.
    Namespace(String),
    /// How many pods were let in on the quota of this queue.
    PodsOf(String),
    /// What the claim of devices of this name in this namespace asks for.
    #[expect(missing_docs, reason = "one line says it")]
    Claim { namespace: String, name: String },
    /// What claims made from the template of this name in this namespace ask for.
    #[expect(missing_docs, reason = "one line says it")]
    ClaimTemplate { namespace: String, name: String },
    /// The class of devices of this name.
    Class(String),
}

impl Lookup {
    /// Whether the lookup is about what tenants write of devices.
    pub fn is_about_claims(&self) -> bool {
        matches!(self, Self::Claim { .. } | Self::ClaimTemplate { .. })
    }

    /// What the request goes on with if the API server gives no answer. `None` where a decision rests on the answer.
    pub fn unanswered(&self) -> Option<Found> {
        match self {
            Self::Claim { .. } | Self::ClaimTemplate { .. } => Some(Found::Claim(None)),
            Self::Class(_) => Some(Found::Class(None)),
            Self::Queue(_) | Self::Group { .. } | Self::Namespace(_) | Self::PodsOf(_) => None,
        }
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name:?}"),
            Self::Group { namespace, name } => write!(f, "PodGroup {name:?} in namespace {namespace:?}"),
            Self::Namespace(name) => write!(f, "namespace {name:?}"),
            Self::PodsOf(queue) => write!(f, "the usage of queue {queue:?}"),
            Self::Claim { namespace, name } => write!(f, "ResourceClaim {name:?} in namespace {namespace:?}"),
            Self::ClaimTemplate { namespace, name } => {
                write!(f, "ResourceClaimTemplate {name:?} in namespace {namespace:?}")
            }
            Self::Class(name) => write!(f, "DeviceClass {name:?}"),
        }
    }
}

/// The answer of the API server; `None` inside: there is no such object.
#[derive(Debug, Clone)]
pub enum Found {
    /// About a queue.
    Queue(Option<Arc<QueueFacts>>),
    /// About a `PodGroup`.
    Group(Option<Arc<GroupFacts>>),
    /// About a namespace.
    Namespace(Option<Arc<NamespaceFacts>>),
    /// How many pods a queue has let in.
    PodsOf(PodsOf),
    /// What a claim of devices asks for, or what the claims made from a template ask for.
    Claim(Option<Arc<ClaimSpec>>),
    /// About a class of devices.
    Class(Option<Arc<DeviceClass>>),
}

/// How many pods a queue has let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodsOf {
    /// As many, as the operator last wrote it.
    Shown(u64),
    /// The operator has not written it.
    NotShown,
}

/// Answers of the API server for one request.
#[derive(Debug, Default)]
pub struct Fresh {
    answers: Vec<(Lookup, Found)>,
    unanswered: Vec<Lookup>,
}

impl Fresh {
    /// Keeps an answer.
    pub fn add(&mut self, lookup: Lookup, found: Found) {
        self.answers.push((lookup, found));
    }

    /// Records that a lookup was not answered, with what the request goes on with instead.
    pub fn go_without(&mut self, lookup: Lookup, unanswered: Found) {
        self.unanswered.push(lookup.clone());
        self.add(lookup, unanswered);
    }

    /// Whether some claim could not be looked up.
    pub fn lacks_claims(&self) -> bool {
        self.unanswered.iter().any(Lookup::is_about_claims)
    }

    /// Whether this lookup was not answered. Then nothing is known of the object, not even that it does not exist.
    pub fn is_unanswered(&self, lookup: &Lookup) -> bool {
        self.unanswered.contains(lookup)
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are no answers.
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
    /// The configuration at the time when the request came.
    pub configured: &'k Configured,
    /// The answers of the API server for this request.
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
    /// The answer of the API server if it was asked, else what the watch delivered.
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

    /// Returns the fact, or `None` where the object is certainly absent. Where a watch may merely not have delivered the
    /// object yet, returns as error the lookup that settles it.
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

    /// Whether a resource stands for cards: the configuration says so, some node has or had such cards, or a class of
    /// devices may provide cards by it.
    pub fn is_card_resource(&self, resource: &str) -> bool {
        is_extended(resource)
            && (self.configuration().cardgate.is_card_resource(resource)
                || self.knowledge.card_types.any(|known| *known.resource == *resource)
                || self.provides(resource)
                || self.knowledge.lists(resource))
    }

    /// Whether a class of devices provides cards by this resource.
    pub fn provides(&self, resource: &str) -> bool {
        let card_types = &self.knowledge.card_types;
        card_types.any(|known| known.provided_as.iter().any(|provided| provided == resource))
    }

    /// Whether a request for this resource says which card it is for: classes of devices provide a single card by it, and
    /// that card is counted by another resource.
    pub fn names_its_card(&self, resource: &str) -> bool {
        let provides = |known: &CardFacts| known.provided_as.iter().any(|provided| provided == resource);
        let counted_by = |_: &str, known: &CardFacts| provides(known).then(|| Arc::clone(&known.resource));
        matches!(&*self.knowledge.card_types.select(counted_by), [one] if **one != *resource)
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

    /// How many pods a queue has let in; `None` unless it was asked for.
    pub fn pods_of(&self, of: &str) -> Option<PodsOf> {
        self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::PodsOf(queue), Found::PodsOf(count)) if queue == of => Some(*count),
            _ => None,
        })
    }

    /// What a claim asks for, or what the claims made from a template ask for. `None` where the object does not exist or
    /// could not be looked up. No watch follows these objects.
    pub fn claim(&self, of: &Lookup) -> Result<Option<&'k ClaimSpec>, Lookup> {
        let fresh = self.fresh.find(|lookup, found| match found {
            Found::Claim(spec) if lookup == of => Some(spec.as_deref()),
            _ => None,
        });
        fresh.ok_or_else(|| of.clone())
    }

    /// A class of devices; `None` where it does not exist or could not be looked up.
    pub fn class(&self, name: &str) -> Result<Option<&'k DeviceClass>, Lookup> {
        let fresh = self.fresh.find(|lookup, found| match (lookup, found) {
            (Lookup::Class(class), Found::Class(found)) if class == name => Some(found.as_deref()),
            _ => None,
        });
        fresh.ok_or_else(|| Lookup::Class(name.to_owned()))
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
