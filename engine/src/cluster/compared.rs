//! What a pod asks of a node, compared with what the node has for it. A node may hand out cards of one resource both by a device plugin
//! and as devices; what a pod requests of that resource and what it claims are then compared apart (docs/rules.md, **Cards by Dynamic
//! Resource Allocation**).

use super::Cluster;
use super::device_cards::{devices_alone, requested};
use super::device_room::{devices_there, is_judged_by_devices};
use super::node::{Node, NodeCard, Supply};
use crate::alternative::Alternative;
use crate::amounts::{Dimension, Totals};
use crate::task::Task;

/// Who has what a pod asks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supplier {
    /// The node, whichever way it hands it out.
    Node,
    /// The node's device plugin, while the node has cards of the same resource as devices too.
    Plugin,
    /// The node's devices, each of which is asked elsewhere whether it is free: the amounts are only numbers of devices.
    Devices,
}

/// What a pod asks of one resource or card of a node, or a part of that, and what the node has for this part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compared {
    pub supplier: Supplier,
    pub asked: i128,
    /// How much of it is in use.
    pub used: i128,
    /// How much of it there is, whoever uses it.
    pub there: i128,
}

impl Compared {
    /// Returns how much is missing; nothing is where this is not positive.
    pub fn missing(&self) -> i128 {
        self.used + self.asked - self.there
    }

    /// Whether there is enough, as far as numbers decide that.
    pub fn is_enough(&self) -> bool {
        self.supplier == Supplier::Devices || self.missing() <= 0
    }
}

/// Compares what a pod asks of a dimension in all, with one of its alternatives, with what a node has of it where pods hold `used`. What
/// it requests of a device plugin is one part. What it claims of cards that the node has as devices alone is none beside a plugin: these
/// cards and devices decide by themselves.
pub(crate) fn compared(
    cluster: &Cluster,
    task: &Task,
    alternative: Option<&Alternative>,
    node: &Node,
    used: &Totals,
    (dimension, asked): (Dimension, i64),
) -> impl Iterator<Item = Compared> {
    let of_plugin = of_plugin(cluster, task, node, used, dimension);
    let asked = i128::from(asked);
    let is_beside_plugin = |resource| node.offer().is_some_and(|offer| offer.has_plugin_for(resource));
    let supplier = if of_plugin.is_some_and(|part| part.asked >= asked) {
        None
    } else if !is_judged_by_devices(task, alternative, node, dimension) {
        Some(Supplier::Node)
    } else if dimension.resource().is_some_and(is_beside_plugin) {
        None
    } else {
        Some(Supplier::Devices)
    };
    let in_all = supplier.map(|supplier| {
        let (used, there) = in_number(task, node, used, dimension);
        Compared {
            supplier,
            asked,
            used,
            there,
        }
    });
    of_plugin.into_iter().chain(in_all)
}

/// Compares what a pod requests of a node's device plugin, where the node has cards of the same resource as devices too. None where it
/// requests none of that, or a class provides it there.
fn of_plugin(cluster: &Cluster, task: &Task, node: &Node, used: &Totals, dimension: Dimension) -> Option<Compared> {
    let offer = node.offer().filter(|offer| offer.has_devices())?;
    let is_device = |card: &&NodeCard| Dimension::Resource(card.resource) == dimension && card.supply != Supply::Plugin;
    let resource = &offer.cards.iter().find(is_device)?.found.resource;
    let asked = requested(task, dimension);
    let there = offer.by_plugin(dimension);
    if asked <= 0 || (there == 0 && cluster.claimed.provides_cards(resource)) {
        return None;
    }
    let devices: i128 = devices_alone(offer, dimension).map(|card| used.get(card)).sum();
    Some(Compared {
        supplier: Supplier::Plugin,
        asked: asked.into(),
        used: used.get(dimension) - devices,
        there: there.into(),
    })
}

/// Returns how much of something is in use on a node, and how much the node has, in its totals: device plugin and devices together.
/// For a pod with claims, devices that are kept from new pods count among what the node has, since other pods may hold them.
fn in_number(task: &Task, node: &Node, used: &Totals, dimension: Dimension) -> (i128, i128) {
    let devices = task.claimed.as_ref().map(|_| devices_there(task, node, dimension));
    let amount = node.offer().map_or(0, |offer| offer.amount(dimension));
    (used.get(dimension), amount.max(devices.unwrap_or(0)).into())
}
