//! The cards that nodes have by devices, beside the cards that they have by labels, and the labels by which pods are
//! narrowed to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::card_type::CardDevice;
use crds::keys::{DEVICE_LABEL_PREFIX, NODE_LABEL_SET};
use crds::slug::label_name;

use super::Cluster;
use super::device_room::provided_to;
use super::node::{DeviceUse, Node, NodeCard, Offer, Supply};
use super::pod::Pod;
use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension};
use crate::devices::{DeviceCard, DeviceCount};
use crate::discovery::{self, Problem};
use crate::ids::NodeId;
use crate::names::{CardId, Names, ResourceId};
use crate::task::Task;

impl Cluster {
    /// Returns the nodes whose labels don't say which cards they have by devices, each with the labels that it needs and
    /// the labels that are wrong.
    pub fn device_labels_to_set(&self) -> impl Iterator<Item = (NodeId, Vec<(String, bool)>)> + '_ {
        let nodes = self.claimed.to_label.iter();
        nodes.filter_map(|id| Some((*id, self.node(*id).offer()?.wrong_device_labels())))
    }

    /// Returns what the devices that are a card say of themselves.
    pub fn devices_of(&self, card: CardId) -> Vec<CardDevice> {
        self.claimed.devices.shown_of(self.names.card_name(card))
    }

    /// Returns how many devices of a card can be reached from several nodes. They are in no number of what there is.
    pub fn devices_apart(&self, card: CardId) -> usize {
        let inventory = self.claimed.devices.inventory();
        inventory.apart_of(self.names.card_name(card))
    }

    /// Returns what kind of card the devices with this card name are, where there are any.
    pub fn device_card(&self, card: CardId) -> Option<&DeviceCard> {
        let mut models = self.claimed.devices.inventory().models_of(self.names.card_name(card));
        models.find_map(|model| model.card.as_deref())
    }

    /// Returns the resources by which classes provide a card.
    pub fn provided_as(&self, card: CardId) -> Vec<String> {
        let name = self.names.card_name(card);
        self.claimed.provided_as(name).map(str::to_owned).collect()
    }

    /// Updates whether a node's labels have to be set, after the node has said something else.
    pub(super) fn note_device_labels(&mut self, id: NodeId) {
        let offer = self.node(id).offer();
        if offer.is_some_and(|offer| !offer.wrong_device_labels().is_empty()) {
            self.claimed.to_label.insert(id);
        } else {
            self.claimed.to_label.remove(&id);
        }
    }
}

impl Offer {
    /// Puts the cards that a node has by devices beside the cards that it has by labels, in place of the cards by devices
    /// that it had before.
    pub(super) fn put_devices(&mut self, devices: &BTreeMap<Arc<DeviceCard>, DeviceCount>, names: &mut Names) {
        if let Some(plain) = self.without_devices.take() {
            (self.allocatable, self.cards, self.problems) = *plain;
            self.tainted = Amounts::default();
        }
        if devices.is_empty() {
            return;
        }
        let plain = (self.allocatable.clone(), self.cards.clone(), self.problems.clone());
        self.without_devices = Some(Box::new(plain));
        let mut allocatable: BTreeMap<Dimension, i64> = self.allocatable.iter().collect();
        let mut by_devices = BTreeMap::<Dimension, i64>::new();
        let mut tainted = BTreeMap::<Dimension, i64>::new();
        let mut allocated = BTreeMap::<&str, i64>::new();
        for (card, count) in devices {
            *allocated.entry(&card.resource).or_default() += count.allocated;
        }
        for (card, there) in devices {
            let id = names.card(&card.name);
            let resource = names.resource(&card.resource);
            let count = &there.total;
            let of_resource = allocated.get(&*card.resource).copied().unwrap_or_default();
            *by_devices.entry(Dimension::Resource(resource)).or_default() += count;
            *tainted.entry(Dimension::Resource(resource)).or_default() += there.there - count;
            // A card that feature discovery waits for a device plugin for is here by devices.
            self.problems
                .retain(|problem| !problem.is_want_of_plugin_for(&card.name));
            // The devices are sure of what a guess by labels would have something else for.
            self.cards.retain(|known| known.card != id || !known.found.is_guess);
            if let Some(known) = self.cards.iter_mut().find(|known| known.card == id) {
                self.problems.push(Problem::CountedTwice {
                    card: card.name.clone(),
                    devices: *count,
                    resource: card.resource.clone(),
                    allocatable: known.found.count,
                });
                known.supply = Supply::Both;
                known.devices = None;
                known.found.count = known.found.count.max(*count);
                tainted.insert(Dimension::Card(id), (there.there - known.found.count).max(0));
                continue;
            }
            tainted.insert(Dimension::Card(id), there.there - count);
            self.cards.push(NodeCard {
                card: id,
                resource,
                supply: Supply::Devices,
                devices: Some(DeviceUse {
                    allocated: there.allocated,
                    free: there.free,
                    of_resource,
                    there: there.there,
                    shared: there.shared,
                }),
                found: discovery::Card {
                    name: card.name.clone(),
                    resource: card.resource.clone(),
                    kind: card.kind,
                    count: *count,
                    is_guess: false,
                    labels: vec![(device_label(&card.name), NODE_LABEL_SET.to_owned())],
                },
            });
        }
        for (dimension, count) in by_devices {
            let of_other_cards = self.cards.iter().filter(|card| {
                Dimension::Resource(card.resource) == dimension && card.supply == Supply::Plugin && !card.found.is_guess
            });
            let counts = of_other_cards.map(|card| card.found.count);
            let of_other_cards = counts.fold(0, i64::saturating_add);
            let of = allocatable.entry(dimension).or_default();
            // What else the device plugin hands out is most likely the devices.
            let others = of_other_cards.min(*of);
            *of = others.saturating_add(count.max(*of - others));
        }
        self.cards.sort_by(|a, b| a.found.name.cmp(&b.found.name));
        self.allocatable = allocatable.into_iter().collect();
        self.tainted = tainted.into_iter().filter(|(_, count)| *count > 0).collect();
    }

    /// Returns the labels by which pods are narrowed to the cards that the node has by devices, where they are missing or
    /// wrong, and whether each label is to be there.
    fn wrong_device_labels(&self) -> Vec<(String, bool)> {
        let cards = self.cards.iter().filter(|card| card.supply == Supply::Devices);
        let wanted: BTreeSet<_> = cards.map(|card| device_label(&card.found.name)).collect();
        let missing = wanted.iter().filter(|key| self.label(key) != Some(NODE_LABEL_SET));
        let missing = missing.map(|key| (key.clone(), true));
        let there = self.labels().filter(|(key, _)| key.starts_with(DEVICE_LABEL_PREFIX));
        let wrong = there.filter(|(key, _)| !wanted.contains(*key));
        missing.chain(wrong.map(|(key, _)| (key.to_owned(), false))).collect()
    }
}

/// Returns the label of nodes that have a card by devices.
pub fn device_label(card: &str) -> String {
    format!("{DEVICE_LABEL_PREFIX}{}", label_name(card))
}

/// Whether a node hands out cards in the way in which a pod asks for them: by a device plugin or as devices. What the pod requests must come
/// from a device plugin, unless a class provides it. With an alternative, the node must also have each of its cards in the right way.
pub(crate) fn are_supplied(cluster: &Cluster, task: &Task, alternative: Option<&Alternative>, node: &Node) -> bool {
    let Some(offer) = node.offer() else { return false };
    let by_plugin = |resource: ResourceId| offer.by_plugin(Dimension::Resource(resource));
    let is_handed_out = |card: &NodeCard| {
        requested(task, Dimension::Resource(card.resource)) == 0
            || offer.has_plugin_for(card.resource)
            || cluster.claimed.provides_cards(&card.found.resource)
    };
    if offer.has_devices() && !offer.cards.iter().all(is_handed_out) {
        return false;
    }
    let is_had = |card: CardId, is_had: &dyn Fn(&NodeCard) -> bool| node.card(card).is_some_and(is_had);
    match alternative {
        None => true,
        Some(Alternative::Card(card)) => is_had(*card, &|card| match card.supply {
            Supply::Plugin | Supply::Both => true,
            // Where a device plugin hands something out by this resource, the scheduler takes it in place of devices.
            Supply::Devices => cluster.claimed.provides_cards(&card.found.resource) && by_plugin(card.resource) == 0,
        }),
        Some(Alternative::Set(set)) => {
            let is_claimed = |card| is_had(card, &|card| card.supply != Supply::Plugin);
            let is_requested = |(card, _)| is_had(card, &|card| card.supply != Supply::Devices);
            set.claimed().all(|(card, _)| is_claimed(card))
                && set.requested().is_none_or(is_requested)
                && !provided_to(task).any(|(resource, _)| by_plugin(resource) > 0)
        }
    }
}

/// Returns what of its request a pod gives back to its node and the node's device plugins once it goes, in the way in which
/// [`compared`](super::compared::compared) counts what is in use: without the cards that the node has as devices alone.
pub(crate) fn without_devices(cluster: &Cluster, pod: &Pod) -> Arc<Amounts> {
    let request = pod.request();
    let offer = pod.room.and_then(|node| cluster.node(node).offer());
    let Some(offer) = offer.filter(|offer| offer.has_devices() && pod.task.claimed.is_some()) else {
        return Arc::clone(request);
    };
    let others = request.iter().map(|(dimension, amount)| {
        let devices: i64 = devices_alone(offer, dimension).map(|card| request.get(card)).sum();
        (dimension, amount - devices)
    });
    Arc::new(others.collect())
}

/// Returns the cards that a node has as devices alone, of those that a resource counts. Cards that it has in both ways are left out: they are
/// most likely the same, whichever way they are in use.
pub(super) fn devices_alone(offer: &Offer, resource: Dimension) -> impl Iterator<Item = Dimension> + '_ {
    let is_one =
        move |card: &&NodeCard| Dimension::Resource(card.resource) == resource && card.supply == Supply::Devices;
    offer.cards.iter().filter(is_one).map(|card| Dimension::Card(card.card))
}

/// Returns how much of a resource a task requests, without what it claims. The scheduler takes it from a node's device plugin where it can,
/// also where a class provides it.
pub(super) fn requested(task: &Task, dimension: Dimension) -> i64 {
    let own = task.claimed.as_ref().map_or(&task.request, |claimed| &claimed.others);
    let provided = provided_to(task).filter(|(resource, _)| Dimension::Resource(*resource) == dimension);
    own.get(dimension).max(provided.map(|(_, count)| count).sum())
}
