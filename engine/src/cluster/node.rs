//! One node: what it offers and what pods hold of it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use crds::keys::NODE_QUOTA_PREFIX;
use crds::lean::TextMap;

use super::constraints::Taint;
use super::ledger::Pen;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::discovery::{self, Discovery, MgpuCards};
use crate::ids::PodId;
use crate::names::{CardId, Names, ResourceId};
use crate::policies::mgpu::CardUse;
use crate::texts::TextPool;

/// The taint that Kubernetes puts on cordoned nodes.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
/// The taint that Kubernetes puts on nodes that are not ready.
const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
const NO_SCHEDULE: &str = "NoSchedule";
const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// How a node hands out a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// By a device plugin: pods request its resource.
    Plugin,
    /// By devices that are allocated to claims.
    Devices,
    /// In both ways. Most likely these are the same cards, while a node is moved from one way to the other.
    Both,
}

/// How many devices are in use of a card that a node has by devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceUse {
    /// How many are allocated.
    pub allocated: i64,
    /// How many more could be allocated, each by itself.
    pub free: i64,
    /// How many are allocated of all cards of the same resource.
    pub of_resource: i64,
    /// How many there are, including devices that are kept from new pods.
    pub there: i64,
    /// How many of those any number of claims may have at once.
    pub shared: i64,
}

/// One card name on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCard {
    /// The name that quotas and pods use for it.
    pub card: CardId,
    /// The resource that this node has for it.
    pub resource: ResourceId,
    /// How pods get it.
    pub supply: Supply,
    /// How many of its devices are in use, where the node has the card by devices alone.
    pub devices: Option<DeviceUse>,
    /// What discovery found, with the labels that make up the name.
    pub found: discovery::Card,
}

impl NodeCard {
    /// Returns how many devices of it the scheduler could hand out, including devices that are kept from new pods.
    pub fn all_devices(&self) -> i64 {
        match self.supply {
            Supply::Plugin => 0,
            Supply::Both => self.found.count,
            Supply::Devices => self.devices.map_or(self.found.count, |devices| devices.there),
        }
    }
}

/// What a node can allocate, its cards, and what is odd about them, according to its labels and device plugins.
pub(super) type WithoutDevices = (Amounts, Vec<NodeCard>, Vec<discovery::Problem>);

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Unique id, for owner references.
    pub uid: Box<str>,
    /// Whether the kubelet says that the node is ready.
    pub ready: bool,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    labels: Box<[(Arc<str>, Arc<str>)]>,
    /// Annotations on quotas for pods without GPU.
    quota_annotations: Box<[(Box<str>, Box<str>)]>,
    /// The taints that keep pods away. Taints for cordoned and unready nodes are included even before the control plane
    /// sets them.
    pub taints: Vec<Taint>,
    /// What pods may use.
    pub allocatable: Amounts,
    /// The cards, by name.
    pub cards: Vec<NodeCard>,
    /// The cards that it shares through mGPU.
    pub mgpu: Option<MgpuCards>,
    /// Devices that are kept from all claims but those that tolerate that, by card and by resource. They are not among the cards.
    pub(super) tainted: Amounts,
    /// What keeps cards from being counted, or is odd about them.
    pub problems: Vec<discovery::Problem>,
    /// What would remain of all this without the cards that it has by devices, where it has such cards.
    pub(super) without_devices: Option<Box<WithoutDevices>>,
}

impl Offer {
    /// Whether the node has cards, or looks like a node that has or will have cards.
    pub(crate) fn has_signs_of_cards(&self) -> bool {
        !self.cards.is_empty() || !self.problems.is_empty() || self.mgpu.is_some()
    }

    /// Reads what a node says of itself.
    pub fn read(node: &crds::node::Node<Box<str>>, names: &mut Names, pool: &mut TextPool) -> Self {
        let labels = &node.metadata.labels;
        let Discovery { cards, mut problems } = discovery::discover(labels, &node.status.allocatable);
        let (mgpu, mgpu_problems) = MgpuCards::discover(labels, &node.metadata.annotations, &node.status.allocatable);
        problems.extend(mgpu_problems);
        let cards = cards
            .into_iter()
            .map(|found| NodeCard {
                card: names.card(&found.name),
                resource: names.resource(&found.resource),
                supply: Supply::Plugin,
                devices: None,
                found,
            })
            .collect();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            ready: node.is_ready(),
            cordoned: node.spec.unschedulable,
            labels: read_labels(labels, pool),
            quota_annotations: read_quota_annotations(&node.metadata.annotations),
            taints: read_taints(node, pool),
            allocatable: read_allocatable(&node.status.allocatable, names),
            cards,
            mgpu,
            tainted: Amounts::default(),
            problems,
            without_devices: None,
        }
    }

    /// Whether the node has any cards as devices, beside what device plugins hand out.
    pub(crate) fn has_devices(&self) -> bool {
        self.without_devices.is_some()
    }

    /// Whether the node has any cards as devices of which a device plugin hands out the resource there, too.
    pub(crate) fn has_both_ways(&self) -> bool {
        let mut cards = self.cards.iter().filter(|card| card.supply != Supply::Plugin);
        self.has_devices() && cards.any(|card| self.by_plugin(Dimension::Resource(card.resource)) > 0)
    }

    /// Returns how much of a dimension there is by device plugins, without devices.
    pub(super) fn by_plugin(&self, dimension: Dimension) -> i64 {
        let plain = self.without_devices.as_ref().map(|plain| &plain.0);
        plain.unwrap_or(&self.allocatable).get(dimension)
    }

    /// Whether the node has a resource of cards by a device plugin. It counts as having it even where the plugin hands out nothing now:
    /// all its cards may be broken, and come back.
    pub(super) fn has_plugin_for(&self, resource: ResourceId) -> bool {
        let mut cards = self.cards.iter().filter(|card| card.resource == resource);
        cards.any(|card| card.supply != Supply::Devices) || self.by_plugin(Dimension::Resource(resource)) > 0
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(name, _)| (**name).cmp(key));
        found.ok().map(|index| &*self.labels[index].1)
    }

    /// Returns all labels, by key.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns the value of an annotation on quotas for pods without GPU.
    pub(crate) fn quota_annotation(&self, key: &str) -> Option<&str> {
        let mut annotations = self.quota_annotations.iter();
        annotations
            .find(|(known, _)| **known == *key)
            .map(|(_, value)| &**value)
    }

    /// Returns how much the node has of a dimension.
    #[inline]
    pub(crate) fn amount(&self, dimension: Dimension) -> i64 {
        match dimension {
            Dimension::Resource(_) => self.allocatable.get(dimension),
            Dimension::Card(card) => {
                let known = self.cards.iter().find(|known| known.card == card);
                known.map_or(0, |known| known.found.count)
            }
        }
    }

    /// Whether the node has room for a request beside what is in use, including cards that are requested one by one.
    #[inline]
    pub(crate) fn has_room_for(&self, request: &Amounts, used: &Totals) -> bool {
        request
            .iter()
            .all(|(dimension, asked)| used.get(dimension) + i128::from(asked) <= i128::from(self.amount(dimension)))
    }

    /// Returns the dimensions that the node has something of, or could have.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        let cards = self.cards.iter().map(|card| Dimension::Card(card.card));
        self.allocatable.iter().map(|(dimension, _)| dimension).chain(cards)
    }

    /// Whether new pods may come to the node at all.
    pub fn is_usable(&self) -> bool {
        self.ready && !self.cordoned
    }
}

/// What pods hold of a node. It is read through [`Node`], and only the ledger changes it.
#[derive(Debug, Default)]
pub struct NodeBooks {
    /// The requests of the pods that are bound to it or expected on it. While other pods are judged, what is set aside
    /// counts as well.
    pub used: Totals,
    /// The pods that are bound to it or expected on it.
    pub pods: BTreeSet<PodId>,
    /// The part of `used` that is only set aside, and that nobody has.
    aside: Totals,
    /// What queues are charged for the node's pods.
    pub(super) charged: Totals,
    /// The part of `charged` for pods that are bound to the node or being bound.
    pub(super) charged_in_place: Totals,
    /// The part of `charged` for pods that are neither, and can go nowhere else.
    pub(super) charged_pinned: Totals,
    /// What the node's pods without GPU hold of each resource that is limited for such pods.
    pub(super) held_without_gpu: Vec<i128>,
    /// What the node's pods hold of each card that it shares through mGPU, by index.
    pub gpus: Vec<CardUse>,
    /// The pods of the node that ask for mGPU.
    pub(super) gpu_pods: BTreeSet<PodId>,
    /// The pods of the node that count for whichever of their cards it has, since nobody wrote on them which card they
    /// have.
    pub(super) undecided: BTreeSet<PodId>,
}

/// One node: what it offers and what pods hold of it.
#[derive(Debug)]
pub struct Node {
    /// The name by which pods on the node name it.
    pub name: Arc<str>,
    /// What the node says of itself; none while pods name a node that is not there.
    offer: Option<Offer>,
    /// Whether it was removed, and is not there again.
    is_gone: bool,
    books: NodeBooks,
    epoch: u64,
}

impl Deref for Node {
    type Target = NodeBooks;

    #[inline]
    fn deref(&self) -> &NodeBooks {
        &self.books
    }
}

impl Node {
    /// Returns what is counted of the node, to be changed.
    #[inline]
    pub(super) fn books(&mut self, _: Pen) -> &mut NodeBooks {
        &mut self.books
    }

    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            offer: None,
            is_gone: false,
            books: NodeBooks::default(),
            epoch: 0,
        }
    }

    /// Returns what the node says of itself; none while pods name a node that is not there.
    #[inline]
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    /// Sets what the node says; none where it is gone. Returns what it said before.
    pub(super) fn say(&mut self, offer: Option<Offer>) -> Option<Offer> {
        self.is_gone = offer.is_none() && (self.is_gone || self.offer.is_some());
        std::mem::replace(&mut self.offer, offer)
    }

    /// Whether the node was removed, and is not there again.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Notes that the node was seen in this list of all nodes.
    pub(super) fn see(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether the node has not been seen in a list as late as this.
    pub(super) fn is_missing_in(&self, epoch: u64) -> bool {
        self.epoch < epoch
    }

    /// Returns the card of this name, where the node has it.
    pub fn card(&self, card: CardId) -> Option<&NodeCard> {
        self.offer.as_ref()?.cards.iter().find(|known| known.card == card)
    }

    /// Returns how many of one of its cards are in use, and how many are not.
    pub fn use_of(&self, card: &NodeCard) -> (i128, i128) {
        let (held, says_which) = self.held_of(card);
        let total = i128::from(card.found.count);
        let Some(devices) = card.devices else {
            return (held, (total - held).max(0));
        };
        // Pods that were let in and have not been given devices yet get some of these.
        let given = if says_which {
            devices.allocated
        } else {
            devices.of_resource
        };
        let expected = (held - i128::from(given)).max(0);
        let free = (i128::from(devices.free) - expected).max(0);
        (i128::from(devices.allocated) + expected, free)
    }

    /// Returns how many of one of its cards pods hold. Where the node has several cards that are counted by one resource,
    /// only pods that say which card they have are counted; the second value says whether this is so.
    fn held_of(&self, card: &NodeCard) -> (i128, bool) {
        let mut cards = self.offer.iter().flat_map(|offer| &offer.cards);
        let is_by_plugin = card.supply == Supply::Plugin;
        let says_which = cards.any(|other| {
            let is_alike = other.resource == card.resource && other.card != card.card;
            is_alike && !(is_by_plugin && other.supply == Supply::Plugin)
        });
        if says_which {
            let dimension = Dimension::Card(card.card);
            (self.held(dimension).max(self.charged.get(dimension)), true)
        } else {
            (self.held(Dimension::Resource(card.resource)), false)
        }
    }
}

impl NodeBooks {
    /// Returns what pods hold of a dimension, without what is only set aside. A pod that is let in meanwhile changes the
    /// tallies of cards, and with what is set aside included it would not always change them by the same amount.
    fn held(&self, dimension: Dimension) -> i128 {
        self.used.get(dimension) - self.aside.get(dimension)
    }

    /// Counts this as set aside, and therefore as used, or no longer (`sign`).
    pub(super) fn set_aside(&mut self, request: &Amounts, sign: i128) {
        for (dimension, amount) in request.iter() {
            let amount = sign * i128::from(amount);
            self.used.add(dimension, amount);
            self.aside.add(dimension, amount);
        }
    }
}

fn read_labels(labels: &TextMap<Box<str>>, pool: &mut TextPool) -> Box<[(Arc<str>, Arc<str>)]> {
    let mut labels: Vec<_> = labels
        .iter()
        .map(|(key, value)| (pool.get(key), pool.get(value)))
        .collect();
    labels.sort_unstable();
    labels.into()
}

fn read_quota_annotations(annotations: &TextMap<Box<str>>) -> Box<[(Box<str>, Box<str>)]> {
    let on_quotas = annotations.iter().filter(|(key, _)| key.starts_with(NODE_QUOTA_PREFIX));
    on_quotas.map(|(key, value)| (key.into(), value.into())).collect()
}

fn read_taints(node: &crds::node::Node<Box<str>>, pool: &mut TextPool) -> Vec<Taint> {
    let mut taints: Vec<Taint> = node
        .spec
        .taints
        .iter()
        .filter(|taint| taint.effect.as_deref() != Some(PREFER_NO_SCHEDULE))
        .map(|taint| Taint {
            key: pool.get(taint.key.as_deref().unwrap_or_default()),
            value: pool.get(taint.value.as_deref().unwrap_or_default()),
            effect: pool.get(taint.effect.as_deref().unwrap_or_default()),
        })
        .collect();
    // The control plane sets these taints a moment later. A decision made in between must see them too.
    for (holds, key) in [
        (node.spec.unschedulable, UNSCHEDULABLE_TAINT),
        (!node.is_ready(), NOT_READY_TAINT),
    ] {
        if holds
            && !taints
                .iter()
                .any(|taint| &*taint.key == key && &*taint.effect == NO_SCHEDULE)
        {
            taints.push(Taint {
                key: pool.get(key),
                value: pool.get(""),
                effect: pool.get(NO_SCHEDULE),
            });
        }
    }
    taints
}

/// Reads the allocatable quantities. A quantity that can't be read counts as absent; for cards, discovery says so in the
/// inventory.
fn read_allocatable(allocatable: &TextMap<Box<str>>, names: &mut Names) -> Amounts {
    allocatable
        .iter()
        .filter_map(|(resource, quantity)| {
            let amount = crds::resources::parse_amount(resource, quantity).ok()?;
            Some((Dimension::Resource(names.resource(resource)), amount))
        })
        .collect()
}
