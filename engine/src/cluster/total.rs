//! What the cluster has for all queues: what pods have of its nodes, and what the nodes can still give.
//!
//! A node that is not ready, cordoned or gone gives nothing more. What its pods have is charged to their queues until the
//! pods are gone, so it counts for as long. Thus no pod has to wait for room on other nodes because of these pods, nor
//! because of pods that can go nowhere else. Where a node says that it has less than its pods have, what the pods have
//! counts. But pods that are only expected there do not count for this: the scheduler may have filled the node with
//! others, and the cluster has not one card more for that.

use super::node::{Node, Offer};
use super::parts::Parts;
use super::{Cluster, Span};
use crate::amounts::Dimension;
use crate::ids::NodeId;
use crate::metering;
use crate::names::CardId;

impl Node {
    /// Returns what the node adds to what the cluster has of a dimension.
    pub(super) fn part_of_total(&self, dimension: Dimension) -> i128 {
        let in_place = self.charged_in_place.get(dimension);
        match self.offer().filter(|offer| offer.is_usable()) {
            Some(offer) => in_place.max(offer.amount(dimension).into()),
            None => in_place + self.charged_pinned.get(dimension),
        }
    }

    /// Returns what the node adds to what the cluster has, and what it would give once it takes pods again.
    pub(super) fn parts(&self) -> Parts {
        let offered = self.offer().into_iter().flat_map(Offer::dimensions);
        let away = offered.map(|dimension| (dimension, self.away(dimension)));
        Parts {
            of_total: self.parts_of_total(),
            away: away.collect(),
            shared: self.shared_devices(),
            tainted: self.parts_tainted(),
        }
    }

    /// Returns how many devices the node has that any number of claims may have at once, by card and by resource.
    fn shared_devices(&self) -> Vec<(Dimension, i128)> {
        let cards = self.offer().into_iter().flat_map(|offer| &offer.cards);
        let shared = cards.filter_map(|card| {
            let shared = card.devices.filter(|devices| devices.shared > 0)?.shared;
            Some([Dimension::Card(card.card), Dimension::Resource(card.resource)].map(|of| (of, shared.into())))
        });
        shared.flatten().collect()
    }

    /// Returns how much of a dimension the node has, beside what it adds to what the cluster has, for claims that tolerate
    /// taints of devices. What they have of it already is counted there.
    pub(super) fn tainted(&self, dimension: Dimension) -> i128 {
        let offer = self.offer().filter(|offer| offer.is_usable());
        let tainted = offer.map_or(0, |offer| offer.tainted.get(dimension));
        if tainted == 0 {
            return 0;
        }
        let with_tainted = i128::from(offer.map_or(0, |offer| offer.amount(dimension))) + i128::from(tainted);
        with_tainted.max(self.charged_in_place.get(dimension)) - self.part_of_total(dimension)
    }

    fn parts_tainted(&self) -> Vec<(Dimension, i128)> {
        let tainted = self.offer().into_iter().flat_map(|offer| offer.tainted.iter());
        tainted
            .map(|(dimension, _)| (dimension, self.tainted(dimension)))
            .collect()
    }

    /// Returns what the node would give of a dimension, beside what it adds to what the cluster has, once it takes pods
    /// again.
    pub(super) fn away(&self, dimension: Dimension) -> i128 {
        let offer = self.offer().filter(|offer| !offer.is_usable());
        offer.map_or(0, |offer| {
            let more = i128::from(offer.amount(dimension)) - self.part_of_total(dimension);
            more.max(0)
        })
    }

    fn parts_of_total(&self) -> Vec<(Dimension, i128)> {
        let offer = self.offer().into_iter();
        let offered = offer.flat_map(Offer::dimensions);
        let charged = self.charged_in_place.iter().chain(self.charged_pinned.iter());
        let mut all: Vec<_> = offered.chain(charged.map(|(dimension, _)| dimension)).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
            .map(|dimension| (dimension, self.part_of_total(dimension)))
            .collect()
    }
}

impl Cluster {
    /// Whether there is any of a dimension: every node has it, or some node or pod does.
    pub(crate) fn has(&self, dimension: Dimension) -> bool {
        dimension.is_cpu_or_memory() || metering::is_of_every_pod(dimension) || self.top.total.get(dimension) > 0
    }

    /// Whether no more of a dimension can be in use than the nodes have by number. It can where any number of claims may have
    /// a device at once; and a resource that a class hands devices out as is on no node.
    pub(crate) fn is_by_number(&self, dimension: Dimension) -> bool {
        let is_of_class = || {
            let resource = dimension.resource().filter(|_| !self.claimed.of_classes.is_empty());
            resource.is_some_and(|resource| self.is_of_class(self.names.resource_name(resource)))
        };
        self.top.shared.get(dimension) == 0 && !is_of_class()
    }

    /// Returns what the cluster has of a dimension for queues that it is promised to: for one that is not by number, as much
    /// as there could be. For a card that no node has any more, that is nothing: what pods still hold of it is charged to
    /// their queues until they are gone, and nobody gets it after them.
    pub(crate) fn to_be_had(&self, dimension: Dimension) -> i128 {
        if !self.is_by_number(dimension) {
            i128::MAX
        } else if dimension.card().is_some_and(|card| self.is_on_no_node(card)) {
            0
        } else {
            self.top.total.get(dimension)
        }
    }

    /// Whether no node has a card, and no devices apart from nodes are that card.
    pub(crate) fn is_on_no_node(&self, card: CardId) -> bool {
        let nodes = self.card(card).map(|card| &card.nodes);
        nodes.is_none_or(|nodes| nodes.is_empty()) && self.devices_apart(card) == 0
    }

    /// Notes that a card may have come to the nodes, or may have left them. For queues that it is promised to, nothing was
    /// there then, though pods held it.
    pub(super) fn note_coming_or_going(&mut self, card: CardId) {
        self.note_to_be_had(Dimension::Card(card));
    }

    /// Notes that there may be another amount of a dimension to be had than before, however many there are.
    pub(super) fn note_to_be_had(&mut self, dimension: Dimension) {
        let total = self.top.total.get(dimension);
        let span = self.changes.total.entry(dimension).or_insert(Span::of(total));
        span.include(0);
    }

    /// Whether what a pod gives back on a node can be given to others.
    pub(crate) fn gives_to_others(&self, node: Option<NodeId>) -> bool {
        let offer = node.map(|node| self.node(node).offer());
        offer.is_none_or(|offer| offer.is_some_and(Offer::is_usable))
    }
}
