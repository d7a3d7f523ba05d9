//! What the door knows of the cluster: a read-only view in memory, fed by watches.
//!
//! Each kind has a [`Store`] of the few facts that a decision needs. A watch changes one entry at a time, and a request
//! reads single entries. The API server is asked for what a store does not have (yet), see [`crate::lookup`].

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

/// The facts of a Queue that decisions need.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFacts {
    /// Whether it takes pods.
    pub condition: QueueCondition,
    /// The text of `card.volcano.sh/namespaces`; empty where it is not set.
    pub selector: Box<str>,
    /// The queue's limits, its place among other queues, and the namespaces that may use it.
    pub terms: QueueTerms,
}

/// Whether a queue takes pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueCondition {
    /// It takes pods.
    Open,
    /// It takes none; holds the queue's state.
    NotOpen(Box<str>),
    /// The object is not a valid Queue; holds what is wrong.
    Unreadable(Box<str>),
}

impl QueueFacts {
    /// Reads a Queue, or as much of it as could be parsed.
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

/// The facts of a card name that decisions need.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFacts {
    /// The Kubernetes resource that the name stands for.
    pub resource: Arc<str>,
    /// What the devices that are this card say of themselves.
    pub devices: Arc<[CardDevice]>,
    /// The resources by which classes of devices provide the card.
    pub provided_as: Arc<[String]>,
}

impl From<&str> for CardFacts {
    /// A card without any device.
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

/// The facts of a Namespace that decisions need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// The labels that selectors of queues are compared with.
    pub labels: Texts,
    /// The queue that the namespace names for pods that name none.
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

/// A `PodGroup` as the webhook asks for it. Nothing else of it is read, since its author may make it as long as an object
/// can be.
pub type WatchedGroup = Guarded<PodGroup, GroupQueue<Box<str>>>;

/// The facts of a `PodGroup` that decisions need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// The queue of its pods.
    pub queue: Option<Box<str>>,
}

impl GroupFacts {
    /// Reads a `PodGroup`. A `PodGroup` that can't be read names no queue.
    pub fn read(group: &WatchedGroup) -> Self {
        Self::naming(group.object.as_ref().ok().and_then(|group| group.spec.queue.as_deref()))
    }

    /// The facts of a `PodGroup` that names this queue.
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

/// The facts of one kind, by name. Reading an entry holds a shared lock only while the entry is looked up.
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

    /// Applies `choose` to every object and returns the results that are not `None`, in no order.
    pub fn select<T>(&self, choose: impl Fn(&str, &V) -> Option<T>) -> Vec<T> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter_map(|(name, facts)| choose(name, facts)).collect()
    }

    /// Whether `wanted` is true of any object.
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

    /// Replaces all entries by a complete list. From now on the store is [listed](Self::is_listed).
    pub fn replace(&self, mut entries: HashMap<Box<str>, V>) {
        entries.shrink_to_fit();
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        self.listed.store(true, Ordering::Release);
    }

    /// Whether the store has ever held a complete list.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }
}

/// All that the door knows of the cluster.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// Queues by name.
    pub queues: Store<Arc<QueueFacts>>,
    /// `PodGroup`s by [`group_key`].
    pub groups: Store<Arc<GroupFacts>>,
    /// Namespaces by name.
    pub namespaces: Store<Arc<NamespaceFacts>>,
    /// Cards by name.
    pub card_types: Store<CardFacts>,
    listed_resources: ArcSwap<Vec<String>>,
    configured: ArcSwap<Configured>,
}

/// The configuration, as the door knows it. It is exchanged as a whole, so that no request sees half of a change.
#[derive(Debug, Default)]
pub struct Configured {
    /// The configuration in force.
    pub configuration: Arc<Configuration>,
    /// Why the newest configuration is not in force, if it is not.
    pub problem: Option<String>,
    /// Whether a configuration has ever been in force.
    pub is_known: bool,
}

impl Knowledge {
    /// Whether the operator lists a resource for the policies as a resource of cards, because nodes had such cards or a
    /// class of devices may provide them. So the door holds the same pods that the policies want held.
    pub fn lists(&self, resource: &str) -> bool {
        let listed = self.listed_resources.load();
        listed.iter().any(|pattern| matches(pattern, resource))
    }

    /// Takes what the operator lists for the policies. Leaves out resources that name a class of devices: pods that request
    /// one are held because they name a class, and not every such resource is for cards.
    pub fn list_resources(&self, list: &str) {
        let listed = list.split(',').filter(|pattern| !pattern.is_empty());
        let listed = listed.filter(|pattern| !pattern.starts_with(RESOURCE_OF_CLASS));
        self.listed_resources
            .store(Arc::new(listed.map(str::to_owned).collect()));
    }

    /// What is known of the devices that are cards, without any classes.
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

    /// The configuration at this moment.
    pub fn configured(&self) -> Arc<Configured> {
        self.configured.load_full()
    }

    /// Puts a configuration in force. Without one, keeps the one in force, if any; `problem` says why the newest is not in
    /// force.
    pub fn configure(&self, in_force: Option<Arc<Configuration>>, problem: Option<String>) {
        let before = self.configured();
        self.configured.store(Arc::new(Configured {
            is_known: in_force.is_some() || before.is_known,
            configuration: in_force.unwrap_or_else(|| Arc::clone(&before.configuration)),
            problem,
        }));
    }

    /// What has never been read so far. Nothing that needs knowledge is decided before this is empty.
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

/// The key of a `PodGroup` in [`Knowledge::groups`].
pub fn group_key(namespace: &str, name: &str) -> String {
    [namespace, "/", name].concat()
}
