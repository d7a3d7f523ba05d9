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
    /// In both ways: the same cards, most likely, while a node is moved from one to the other.
    Both,
}

/// What is in use of a card that a node has by devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceUse {
    /// How many are allocated.
    pub allocated: i64,
    /// How many could be allocated, each by itself.
    pub free: i64,
    /// How many are allocated of all cards of the same resource.
    pub of_resource: i64,
    /// How many there are, those included that are kept from new pods.
    pub there: i64,
}

/// One card name on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCard {
    /// As quotas and pods name it.
    pub card: CardId,
    /// The resource that this node has for it.
    pub resource: ResourceId,
    /// How pods get it.
    pub supply: Supply,
    /// What is in use of its devices, where those alone are what there is of it.
    pub devices: Option<DeviceUse>,
    /// What discovery found, with the labels that make up the name.
    pub found: discovery::Card,
}

impl NodeCard {
    /// How many devices the scheduler could hand out of it, those included that are kept from new pods.
    pub fn all_devices(&self) -> i64 {
        match self.supply {
            Supply::Plugin => 0,
            Supply::Both => self.found.count,
            Supply::Devices => self.devices.map_or(self.found.count, |devices| devices.there),
        }
    }
}

/// What a node has to allocate, its cards, and what is odd about them, as its labels and device plugins have it.
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
    /// Taints that keep pods away, those for cordoned and unready nodes included before the control plane sets them.
    pub taints: Vec<Taint>,
    /// What pods may use.
    pub allocatable: Amounts,
    /// The cards, by name.
    pub cards: Vec<NodeCard>,
    /// The cards that it shares through mGPU.
    pub mgpu: Option<MgpuCards>,
    /// What keeps cards from being counted, or is odd about them.
    pub problems: Vec<discovery::Problem>,
    /// What of this there would be without the cards that it has by devices, where it has such.
    pub(super) without_devices: Option<Box<WithoutDevices>>,
}

impl Offer {
    /// Whether the node has cards, or looks like one that has or will have.
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
            problems,
            without_devices: None,
        }
    }

    /// How much of a dimension there is without devices: by a device plugin.
    pub(super) fn by_plugin(&self, dimension: Dimension) -> i64 {
        let plain = self.without_devices.as_ref().map(|plain| &plain.0);
        plain.unwrap_or(&self.allocatable).get(dimension)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.labels.binary_search_by(|(name, _)| (**name).cmp(key));
        found.ok().map(|index| &*self.labels[index].1)
    }

    /// All labels, by key.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of an annotation on quotas for pods without GPU.
    pub(crate) fn quota_annotation(&self, key: &str) -> Option<&str> {
        let mut annotations = self.quota_annotations.iter();
        annotations
            .find(|(known, _)| **known == *key)
            .map(|(_, value)| &**value)
    }

    /// What it has of a dimension.
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

    /// Whether it has room for a request beside what is in use: of cards too that are requested one by one.
    #[inline]
    pub(crate) fn has_room_for(&self, request: &Amounts, used: &Totals) -> bool {
        request
            .iter()
            .all(|(dimension, asked)| used.get(dimension) + i128::from(asked) <= i128::from(self.amount(dimension)))
    }

    /// The dimensions that it has something of, or could have.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        let cards = self.cards.iter().map(|card| Dimension::Card(card.card));
        self.allocatable.iter().map(|(dimension, _)| dimension).chain(cards)
    }

    /// Whether new pods may come at all.
    pub fn is_usable(&self) -> bool {
        self.ready && !self.cordoned
    }
}

/// What pods hold of a node. Everybody reads it from the [`Node`]; the ledger alone changes it.
#[derive(Debug, Default)]
pub struct NodeBooks {
    /// The requests of the pods that are bound to it or expected on it, and while others are judged what is set aside beside them.
    pub used: Totals,
    /// Those pods.
    pub pods: BTreeSet<PodId>,
    /// What of the requests is only set aside: nobody has it.
    aside: Totals,
    /// What queues are charged for them.
    pub(super) charged: Totals,
    /// And of that, for those that are bound to it or being bound.
    pub(super) charged_in_place: Totals,
    /// And for those that are not, and can go nowhere else.
    pub(super) charged_pinned: Totals,
    /// What those of them without GPU hold of each resource that is limited for them.
    pub(super) held_without_gpu: Vec<i128>,
    /// What those hold of each card that it shares through mGPU, by index.
    pub gpus: Vec<CardUse>,
    /// Those of them that ask for mGPU.
    pub(super) gpu_pods: BTreeSet<PodId>,
    /// Its pods that count for whichever of their cards it has: nobody wrote on them which.
    pub(super) undecided: BTreeSet<PodId>,
}

/// One node: what it offers and what pods hold of it.
#[derive(Debug)]
pub struct Node {
    /// As pods name it that are on it.
    pub name: Arc<str>,
    /// What it says of itself; nothing while pods name a node that is not there.
    offer: Option<Offer>,
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
    /// What is counted of it, to be changed.
    #[inline]
    pub(super) fn books(&mut self, _: Pen) -> &mut NodeBooks {
        &mut self.books
    }

    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            offer: None,
            books: NodeBooks::default(),
            epoch: 0,
        }
    }

    /// What it says of itself; nothing while pods name a node that is not there.
    #[inline]
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    /// It says something else, or nothing any more; what it said before.
    pub(super) fn say(&mut self, offer: Option<Offer>) -> Option<Offer> {
        std::mem::replace(&mut self.offer, offer)
    }

    /// It was seen in this list of all nodes.
    pub(super) fn see(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether it has not been seen in a list so late.
    pub(super) fn is_missing_in(&self, epoch: u64) -> bool {
        self.epoch < epoch
    }

    /// The card of this name, where the node has it.
    pub fn card(&self, card: CardId) -> Option<&NodeCard> {
        self.offer.as_ref()?.cards.iter().find(|known| known.card == card)
    }

    /// How many of one of its cards are in use, and how many are not.
    pub fn use_of(&self, card: &NodeCard) -> (i128, i128) {
        let (held, says_which) = self.held_of(card);
        let total = i128::from(card.found.count);
        let Some(devices) = card.devices else {
            return (held, (total - held).max(0));
        };
        // Who was let in and has not been given devices yet, gets some of these.
        let given = if says_which {
            devices.allocated
        } else {
            devices.of_resource
        };
        let expected = (held - i128::from(given)).max(0);
        let free = (i128::from(devices.free) - expected).max(0);
        (i128::from(devices.allocated) + expected, free)
    }

    /// How many of one of its cards pods hold. Where it has several that are counted by one resource, those that say which; whether
    /// that is so.
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
    /// What pods hold of a dimension, without what is only set aside: who is let in meanwhile changes the tallies of cards, and what he
    /// changes of them is not always the same beside more.
    fn held(&self, dimension: Dimension) -> i128 {
        self.used.get(dimension) - self.aside.get(dimension)
    }

    /// So much is set aside, or no longer (`sign`): it counts as used.
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
    // The control plane sets these a moment later; a decision in between must see them too.
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

/// A quantity that can't be read counts as absent; for cards, discovery says so in the inventory.
fn read_allocatable(allocatable: &TextMap<Box<str>>, names: &mut Names) -> Amounts {
    allocatable
        .iter()
        .filter_map(|(resource, quantity)| {
            let amount = crds::resources::parse_amount(resource, quantity).ok()?;
            Some((Dimension::Resource(names.resource(resource)), amount))
        })
        .collect()
}
