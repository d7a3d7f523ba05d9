//! What is missing for a waiting pod: in its queue, at the levels above it, and on a node.

use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::ids::{NodeId, QueueId};
use crate::policies::capacity;

/// Where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// On the node itself.
    Node,
    /// In what the node's device plugin hands out of a resource, where the node has cards of that resource as devices too.
    Plugin,
    /// In the quota that the node has for pods without GPU (`CrossQuota`).
    NodeQuota,
    /// At this level above the queue: 0 is the queue itself.
    Level(usize),
    /// In the cluster as a whole.
    Cluster,
}

impl Place {
    /// Whether pods of a queue can give what is missing here. `lowest` is the lowest level above the waiting queue that their
    /// queue is part of.
    pub(super) fn is_reached_from(self, lowest: usize) -> bool {
        match self {
            Self::Level(level) => lowest <= level,
            Self::Cluster | Self::Node | Self::Plugin | Self::NodeQuota => true,
        }
    }
}

pub(super) type Need = (Place, Dimension, i128);

/// What a pod lacks to go to a node.
#[derive(Clone, Copy)]
pub(super) struct Lack<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) needs: &'a [Need],
    /// The dimensions of shares of the node's cards, or of its devices, where these have no room as they are in use now.
    pub(super) of_cards: &'a [Dimension],
    /// The node; none where only quota is missing.
    pub(super) node: Option<NodeId>,
}

impl Lack<'_> {
    /// Whether a dimension is among what is missing.
    pub(super) fn has(&self, dimension: Dimension) -> bool {
        let needs = self.needs.iter().map(|(_, dimension, _)| dimension);
        let mut missing = needs.chain(self.of_cards);
        missing.any(|missing| is_same(self.cluster, dimension, *missing))
    }
}

/// Whether two dimensions are about the same things: a card counts as one of the resource that it is requested as.
pub(super) fn is_same(cluster: &Cluster, a: Dimension, b: Dimension) -> bool {
    let resource = |dimension| match dimension {
        Dimension::Resource(resource) => Some(resource),
        Dimension::Card(card) => cluster.resource_of(card),
    };
    let is_one_a_card = a.card().is_some() != b.card().is_some();
    a == b || (is_one_a_card && resource(a).is_some() && resource(a) == resource(b))
}

/// Returns what is missing in the queue and at each level above it.
pub(super) fn missing_at_levels(cluster: &Cluster, queue: QueueId, asked: &[(Dimension, i128)]) -> Vec<Need> {
    let mut needs = Vec::new();
    for (dimension, amount) in asked {
        let mut grows = *amount;
        let levels = cluster.levels(queue, *dimension);
        let top = levels.len() - 1;
        for (place, (level, deserved)) in levels.into_iter().enumerate() {
            let within = |limit: i128| level.allocated + amount - limit;
            let mut missing = deserved.map_or(0, within);
            if let Some(limit) = level.limit {
                missing = missing.max(within(limit));
                if grows > 0 {
                    missing = missing.max(level.used + grows - limit);
                }
            }
            if missing > 0 {
                let place = if place == top {
                    Place::Cluster
                } else {
                    Place::Level(place)
                };
                needs.push((place, *dimension, missing));
            }
            let held = |used| capacity::held(used, level.guarantee);
            grows = held(level.used + grows) - held(level.used);
        }
    }
    needs
}
