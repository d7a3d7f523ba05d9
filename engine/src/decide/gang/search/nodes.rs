//! The nodes that a gang may go to, grouped by what is free there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Kind;
use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension};
use crate::cluster::Cluster;
use crate::cluster::compared::{Supplier, compared};
use crate::cluster::node::Offer;
use crate::cluster::waiting::Shape;
use crate::decide::effort::Effort;
use crate::decide::line::alternatives_of;
use crate::decide::{fit, mgpu};
use crate::ids::{NodeId, PodId};
use crate::policies::mgpu::CardUse;

/// What tells nodes apart for one gang.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look {
    /// What is free of the dimensions that the gang asks for, card resources before CPU: nodes with least go first.
    free: Vec<i128>,
    /// Which kinds may go there, with which alternatives: a place in [`Nodes::suits`].
    suits: usize,
    /// What is in use of its mGPU cards, and the node itself: what else matters there is not compared.
    gpus: Option<(Vec<CardUse>, NodeId)>,
    /// The pods that wait there for devices, and the node itself, where the gang claims any devices, or the node has cards both by a
    /// device plugin and as devices.
    claiming: Option<(Vec<PodId>, NodeId)>,
    /// What the quotas of a GPU node leave for pods without GPU, where the gang has any such pods: where these can go depends on
    /// what the gang's other pods take.
    quotas: Option<Vec<i128>>,
}

/// The nodes that any pod of the gang may go to, by look.
pub(super) struct Nodes {
    dimensions: Vec<Dimension>,
    /// Sets of kinds, each with one of its alternatives.
    suits: Vec<BTreeSet<(usize, Option<Alternative>)>>,
    /// For each node, the place of its set.
    suits_of: BTreeMap<NodeId, usize>,
    /// Whether cards are shared through mGPU.
    mgpu: bool,
    /// Whether devices are claimed.
    claims: bool,
    /// Whether any kind is of pods without GPU, for which GPU nodes have quotas.
    governed: bool,
    pub(super) looks: BTreeMap<Look, usize>,
    /// The nodes of each look, by name.
    pub(super) members: Vec<BTreeSet<(Arc<str>, NodeId)>>,
    /// The look of each node.
    look_of: BTreeMap<NodeId, usize>,
    /// How many more or fewer nodes of each look there are than at the beginning.
    pub(super) moved: BTreeMap<usize, i64>,
}

impl Nodes {
    /// Collects the nodes as these kinds see them; incomplete where the steps run out.
    pub(super) fn new(cluster: &Cluster, kinds: &[Kind], effort: &Effort) -> Self {
        let requested = kinds.iter().flat_map(|kind| kind.shape.task.requests());
        let requested = requested.flat_map(Amounts::iter);
        let dimensions: BTreeSet<_> = requested.map(|(dimension, _)| dimension).collect();
        let mut suits_by_node: BTreeMap<NodeId, BTreeSet<(usize, Option<Alternative>)>> = BTreeMap::new();
        for (index, kind) in kinds.iter().enumerate() {
            for alternative in alternatives_of(&kind.shape) {
                for node in fit::nodes_for(cluster, alternative) {
                    effort.look_at_node(&kind.shape);
                    if effort.is_spent() {
                        break;
                    }
                    if fit::may_run_on(cluster, &kind.shape, alternative, *node) {
                        let suits = suits_by_node.entry(*node).or_default();
                        suits.insert((index, alternative.cloned()));
                    }
                }
            }
        }
        let mut known = HashMap::new();
        let mut suits = Vec::new();
        let mut suits_of = BTreeMap::new();
        for (node, set) in suits_by_node {
            let place = *known.entry(set).or_insert_with_key(|set| {
                suits.push(set.clone());
                suits.len() - 1
            });
            suits_of.insert(node, place);
        }
        let mut nodes = Self {
            dimensions: dimensions.into_iter().rev().collect(),
            suits,
            suits_of,
            mgpu: kinds.iter().any(|kind| mgpu::request(cluster, &kind.shape).is_some()),
            claims: kinds.iter().any(|kind| kind.shape.task.claimed.is_some()),
            governed: kinds.iter().any(|kind| kind.governed),
            looks: BTreeMap::new(),
            members: Vec::new(),
            look_of: BTreeMap::new(),
            moved: BTreeMap::new(),
        };
        let there: Vec<_> = nodes.suits_of.keys().copied().collect();
        for node in there {
            let look = nodes.look_at(cluster, node);
            nodes.look_of.insert(node, look);
            nodes.members[look].insert((Arc::clone(&cluster.node(node).name), node));
        }
        nodes
    }

    /// Returns how a node looks now.
    fn look_at(&mut self, cluster: &Cluster, id: NodeId) -> usize {
        let node = cluster.node(id);
        let free = self.dimensions.iter().map(|dimension| {
            let has = node.offer().map_or(0, |offer| offer.amount(*dimension));
            i128::from(has) - node.used.get(*dimension)
        });
        let is_by_itself = self.claims || node.offer().is_some_and(Offer::has_both_ways);
        let look = Look {
            free: free.collect(),
            suits: self.suits_of.get(&id).copied().unwrap_or(usize::MAX),
            gpus: self.mgpu.then(|| (node.gpus.clone(), id)),
            claiming: is_by_itself.then(|| (cluster.expecting_devices(node).collect(), id)),
            quotas: cluster.gpu_nodes().lines(id).filter(|_| self.governed).map(|lines| {
                let left = lines
                    .iter()
                    .map(|line| i128::from(line.quota) - line.used - line.assumed);
                left.collect()
            }),
        };
        let next = self.looks.len();
        let place = *self.looks.entry(look).or_insert(next);
        if place == next {
            self.members.push(BTreeSet::new());
        }
        place
    }

    /// Updates the look of a node that has changed. Returns how it looked before.
    pub(super) fn look_again(&mut self, cluster: &Cluster, node: NodeId) -> usize {
        let look = self.look_at(cluster, node);
        self.move_to(cluster, node, look)
    }

    /// Sets the look of a node. Returns how it looked before.
    pub(super) fn move_to(&mut self, cluster: &Cluster, node: NodeId, look: usize) -> usize {
        let member = (Arc::clone(&cluster.node(node).name), node);
        let before = self.look_of.insert(node, look).unwrap_or(look);
        self.members[before].remove(&member);
        self.members[look].insert(member);
        *self.moved.entry(before).or_default() -= 1;
        *self.moved.entry(look).or_default() += 1;
        before
    }

    /// Returns how many pods of a kind find room with this alternative, up to `most`, if the kind has all the room for itself.
    /// Where a node's devices decide, the number may be too high.
    pub(super) fn room_for(
        &self,
        cluster: &Cluster,
        kind: usize,
        alternative: Option<&Alternative>,
        shape: &Shape,
        most: usize,
    ) -> usize {
        let mut room = 0_usize;
        for (look, id) in &self.looks {
            let nodes = self.members[*id].len();
            if nodes > 0 {
                let copies = self.copies(cluster, (look, *id), kind, alternative, shape);
                room = room.saturating_add(nodes.saturating_mul(copies));
                if room >= most {
                    return most;
                }
            }
        }
        room
    }

    /// Returns how many pods of a kind a node of this look has room for. Where its devices decide, the number may be too high.
    pub(super) fn copies(
        &self,
        cluster: &Cluster,
        (look, id): (&Look, usize),
        kind: usize,
        alternative: Option<&Alternative>,
        shape: &Shape,
    ) -> usize {
        if !self
            .suits
            .get(look.suits)
            .is_some_and(|suits| suits.contains(&(kind, alternative.cloned())))
        {
            return 0;
        }
        let Some((_, node)) = self.members[id].first() else {
            return 0;
        };
        let node = cluster.node(*node);
        let is_plain = node.offer().is_some_and(|offer| fit::is_plain(shape, offer));
        let request = shape.task.request_with(alternative);
        let free = self.dimensions.iter().zip(&look.free);
        let copies = free.filter_map(|(dimension, free)| {
            let asked = request.get(*dimension);
            if asked <= 0 {
                return None;
            }
            let copies = |free: i128, asked: i128| usize::try_from(free.max(0) / asked).unwrap_or(usize::MAX);
            if is_plain {
                return Some(copies(*free, asked.into()));
            }
            let parts = compared(cluster, &shape.task, alternative, node, &node.used, (*dimension, asked));
            let parts = parts.filter(|part| part.supplier != Supplier::Devices);
            parts.map(|part| copies(part.there - part.used, part.asked)).min()
        });
        copies.min().unwrap_or(usize::MAX)
    }
}
