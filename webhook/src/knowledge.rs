//! What the door knows of the cluster: a read-only view in memory, fed by watches.
//!
//! Each kind has a [`Store`] of the few facts that a decision needs. A watch changes one entry at a time; a request reads
//! single entries. What a store does not have (yet) is asked of the API server, see [`crate::lookup`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;
use crds::card_resources::matches;
use crds::card_type::{CardDevice, CardType};
use crds::configuration::Configuration;
use crds::keys::{QUEUE_NAME, QUEUE_NAMESPACES, RESOURCE_OF_CLASS};
use crds::observed::Guarded;
use crds::queue_access::QueueAccess;
use crds::queue_terms::QueueTerms;
use crds::volcano::{GroupQueue, PodGroup, Queue};
use engine::devices::Catalogue;
use kube::api::ObjectMeta;
use kube::core::error_boundary::InvalidObject;

/// The annotations or labels of an object.
type Texts = BTreeMap<String, String>;

/// What matters of a Queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFacts {
    /// Whether it takes pods.
    pub condition: QueueCondition,
    /// The text of `card.volcano.sh/namespaces`; empty where it is not set.
    pub selector: Box<str>,
    /// Its limits, its place among the others, and the namespaces that may use it.
    pub terms: QueueTerms,
}

/// Whether a queue takes pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueCondition {
    /// It takes pods.
    Open,
    /// It takes none; with its state.
    NotOpen(Box<str>),
    /// The object is not what a Queue should be; with what is wrong.
    Unreadable(Box<str>),
}

impl QueueFacts {
    /// Reads a Queue, or what could be read of it.
    pub fn read(queue: &Result<Queue, InvalidObject>) -> Self {
        let (metadata, condition) = match queue {
            Ok(queue) => {
                let condition = queue
                    .closed()
                    .map_or(QueueCondition::Open, |state| QueueCondition::NotOpen(state.into()));
                (&queue.metadata, condition)
            }
            Err(invalid) => (
                &invalid.metadata,
                QueueCondition::Unreadable(invalid.error.as_str().into()),
            ),
        };
        let selector = annotation(metadata, QUEUE_NAMESPACES);
        Self {
            condition,
            selector: selector.unwrap_or_default().into(),
            terms: match queue {
                Ok(queue) => QueueTerms::read(&queue.spec, |key| annotation(metadata, key)),
                Err(_) => QueueTerms {
                    access: QueueAccess::parse(selector),
                    ..QueueTerms::default()
                },
            },
        }
    }
}

/// What matters of a card name.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    /// The Kubernetes resource that it stands for.
    pub resource: Arc<str>,
    /// What devices that are this card say of themselves.
    pub devices: Arc<[CardDevice]>,
    /// Resources by which classes of devices provide it.
    pub provided_as: Arc<[String]>,
}

impl From<&str> for CardFacts {
    /// A card that no device is.
    fn from(resource: &str) -> Self {
        Self {
            resource: resource.into(),
            devices: Arc::default(),
            provided_as: Arc::default(),
        }
    }
}

impl From<CardType> for CardFacts {
    fn from(card_type: CardType) -> Self {
        let status = card_type.status.unwrap_or_default();
        Self {
            resource: card_type.spec.resource.into(),
            devices: status.devices.into(),
            provided_as: status.provided_as.into(),
        }
    }
}

/// What matters of a Namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// What selectors of queues are compared with.
    pub labels: Texts,
    /// The queue that it names for pods that name none.
    pub queue: Option<Box<str>>,
}

impl NamespaceFacts {
    /// Reads a Namespace's metadata.
    pub fn read(metadata: &ObjectMeta) -> Self {
        Self {
            labels: metadata.labels.clone().unwrap_or_default(),
            queue: non_empty(annotation(metadata, QUEUE_NAME)),
        }
    }
}

/// A `PodGroup` as it is asked for: nothing else of it is read, for its author may make it as long as an object can be.
pub type WatchedGroup = Guarded<PodGroup, GroupQueue<Box<str>>>;

/// What matters of a `PodGroup`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The queue of its pods.
    pub queue: Option<Box<str>>,
}

impl GroupFacts {
    /// Reads a `PodGroup`; one that can't be read names no queue.
    pub fn read(group: &WatchedGroup) -> Self {
        Self::naming(group.object.as_ref().ok().and_then(|group| group.spec.queue.as_deref()))
    }

    /// Of a `PodGroup` that names this queue.
    pub fn naming(queue: Option<&str>) -> Self {
        Self {
            queue: non_empty(queue),
        }
    }
}

fn annotation<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn non_empty(text: Option<&str>) -> Option<Box<str>> {
    text.filter(|text| !text.is_empty()).map(Into::into)
}

/// The facts of one kind, by name. Reading one entry takes a shared lock for as long as it takes to find it.
#[derive(Debug)]
pub struct Store<V> {
    entries: RwLock<HashMap<Box<str>, V>>,
    listed: AtomicBool,
}

impl<V> Default for Store<V> {
    fn default() -> Self {
        Self {
            entries: RwLock::default(),
            listed: AtomicBool::new(false),
        }
    }
}

impl<V: Clone> Store<V> {
    /// The facts of one object.
    pub fn get(&self, name: &str) -> Option<V> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(name).cloned()
    }

    /// What `choose` makes of every object that it chooses, in no order.
    pub fn select<T>(&self, choose: impl Fn(&str, &V) -> Option<T>) -> Vec<T> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter_map(|(name, facts)| choose(name, facts)).collect()
    }

    /// Whether `wanted` says so of any object.
    pub fn any(&self, wanted: impl Fn(&V) -> bool) -> bool {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.values().any(wanted)
    }

    /// Sets the facts of one object.
    pub fn set(&self, name: Box<str>, facts: V) {
        self.entries
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, facts);
    }

    /// Forgets one object.
    pub fn remove(&self, name: &str) {
        self.entries
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Replaces everything by a complete list. From now on the store is [listed](Self::is_listed).
    pub fn replace(&self, mut entries: HashMap<Box<str>, V>) {
        entries.shrink_to_fit();
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        self.listed.store(true, Ordering::Release);
    }

    /// Whether the store has held a complete list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }
}

/// All that the door knows.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// Queues by name.
    pub queues: Store<Arc<QueueFacts>>,
    /// `PodGroup`s by [`group_key`].
    pub groups: Store<Arc<GroupFacts>>,
    /// Namespaces by name.
    pub namespaces: Store<Arc<NamespaceFacts>>,
    /// The cards by name.
    pub card_types: Store<CardFacts>,
    listed_resources: ArcSwap<Vec<String>>,
    configured: ArcSwap<Configured>,
}

/// The configuration, as the door knows it: exchanged as a whole, so that no request sees half of a change.
#[derive(Debug, Default)]
pub struct Configured {
    /// What is in force.
    pub configuration: Arc<Configuration>,
    /// Why the newest is not in force, if so.
    pub problem: Option<String>,
    /// Whether one has been in force.
    pub is_known: bool,
}

impl Knowledge {
    /// Whether the operator lists a resource for the policies as one of cards: nodes had such, or a class of devices may have. The same
    /// pods are held by the door that the policies want held.
    pub fn lists(&self, resource: &str) -> bool {
        let listed = self.listed_resources.load();
        listed.iter().any(|pattern| matches(pattern, resource))
    }

    /// Takes what the operator lists for the policies. What names its class is held by that: not all of it is for cards.
    pub fn list_resources(&self, list: &str) {
        let listed = list.split(',').filter(|pattern| !pattern.is_empty());
        let listed = listed.filter(|pattern| !pattern.starts_with(RESOURCE_OF_CLASS));
        self.listed_resources
            .store(Arc::new(listed.map(str::to_owned).collect()));
    }

    /// What is known of the devices that are cards, without any class.
    pub fn catalogue(&self) -> Catalogue {
        let configured = self.configured();
        let mut catalogue = Catalogue::new(&configured.configuration.cardgate.card_drivers);
        let shown = self.card_types.select(|card, facts| {
            let devices = &facts.devices;
            (!devices.is_empty()).then(|| (card.to_owned(), Arc::clone(devices)))
        });
        for (card, devices) in shown {
            catalogue.add(&card, &devices);
        }
        catalogue
    }

    /// The configuration as it is now.
    pub fn configured(&self) -> Arc<Configured> {
        self.configured.load_full()
    }

    /// Puts a configuration in force, or keeps the one that is, if there is one; `problem` says why the newest is not.
    pub fn configure(&self, in_force: Option<Arc<Configuration>>, problem: Option<String>) {
        let before = self.configured();
        self.configured.store(Arc::new(Configured {
            is_known: in_force.is_some() || before.is_known,
            configuration: in_force.unwrap_or_else(|| Arc::clone(&before.configuration)),
            problem,
        }));
    }

    /// What has not been read once; nothing that needs knowledge is decided before this is empty.
    pub fn missing(&self) -> Vec<&'static str> {
        [
            ("queues", self.queues.is_listed()),
            ("podgroups", self.groups.is_listed()),
            ("namespaces", self.namespaces.is_listed()),
            ("cardtypes", self.card_types.is_listed()),
            ("a configuration that can be read", self.configured.load().is_known),
        ]
        .into_iter()
        .filter_map(|(what, known)| (!known).then_some(what))
        .collect()
    }

    /// Whether everything has been read once.
    pub fn is_complete(&self) -> bool {
        self.configured.load().is_known && self.is_listed()
    }

    /// Whether all objects have been listed once.
    pub fn is_listed(&self) -> bool {
        self.queues.is_listed() && self.groups.is_listed() && self.namespaces.is_listed() && self.card_types.is_listed()
    }
}

/// The name of a `PodGroup` in [`Knowledge::groups`].
pub fn group_key(namespace: &str, name: &str) -> String {
    [namespace, "/", name].concat()
}
