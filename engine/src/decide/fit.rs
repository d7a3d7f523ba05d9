//! Fit: whether some node can take a pod now, as the scheduler would see it.

use crds::keys::GPU_NODE_LABEL;

use super::effort::Effort;
use crate::alternative::Alternative;
use crate::amounts::{Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::choice;
use crate::cluster::compared::{Compared, compared};
use crate::cluster::constraints::Mismatch;
use crate::cluster::device_cards::are_supplied;
use crate::cluster::device_room::has_devices_elsewhere;
use crate::cluster::node::{Node, Offer, Supply};
use crate::cluster::waiting::{Refused, Shape};
use crate::ids::NodeId;
use crate::names::CardId;
use crate::reason::{Cure, Reason};
use crate::steps::Steps;

/// A search for a node that goes on where the last search for the same shape ended: a node that had no room then has none now,
/// unless the node has changed since.
pub(super) struct NodeSearch {
    earlier: Option<Refused>,
    searched: u64,
    /// Whether some node would do, except for its room or its readiness.
    would_do: bool,
    /// Whether the pod itself excludes some node.
    excluded: bool,
    /// Whether some GPU node would do, except for its quota for pods without GPU.
    over_quota: bool,
    /// Which nodes are searched.
    among: Among,
    pub(super) effort: Effort,
}

/// Which nodes a search covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    All,
    /// Only nodes that can be told from GPU nodes by their label.
    WithoutGpu,
}

/// What one node says to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The node can take the pod.
    Takes,
    /// Too little of something is free.
    LacksRoom,
    /// The devices that are free there are not those that the pod claims, or too few.
    LacksDevices,
    /// The node is cordoned or not ready.
    Unusable,
    /// What the pod says excludes the node.
    Excluded,
    /// Excluded because the scheduler could give the pod other cards there, or more cards, than it would be charged for.
    LeavesChoice,
    /// Excluded because a selector of the pod's claims fails on one of the node's devices, and the scheduler would give up on the
    /// pod there.
    FailsSelector,
    /// Excluded because the node hands a card out in another way than the pod asks for it, by claim or beside its claims: by a device
    /// plugin, or as devices to be claimed.
    GivesOtherwise,
    /// The node is gone, or means another resource by the card's name.
    Unrelated,
}

impl Answer {
    /// Whether the node takes the pod, or would once others give back room or devices.
    pub(super) fn would_do(self) -> bool {
        matches!(self, Self::Takes | Self::LacksRoom | Self::LacksDevices)
    }
}

impl NodeSearch {
    pub(super) fn new(earlier: Option<Refused>, effort: Effort) -> Self {
        Self {
            earlier,
            searched: 0,
            would_do: false,
            excluded: false,
            over_quota: false,
            among: Among::All,
            effort,
        }
    }

    /// Restricts the search to nodes that can be told from GPU nodes by their label.
    pub(super) fn keep_off_gpu_nodes(&mut self) {
        self.among = Among::WithoutGpu;
    }

    /// Returns the nodes that have changed since an earlier search for this alternative, in the order of their ids. None where
    /// there was no such search, or where too much has changed.
    pub(super) fn changed(
        &self,
        cluster: &Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
    ) -> Option<Vec<NodeId>> {
        let earlier = self.earlier(shape, alternative)?;
        let changed = cluster.nodes_changed_since(earlier.node_changes)?;
        if changed.len() >= nodes_for(cluster, alternative).len() {
            return None;
        }
        let mut changed = changed.to_vec();
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// Whether an earlier search for this alternative found a node that would have done but for its quota.
    pub(super) fn lacked_quota(&self, shape: &Shape, alternative: Option<&Alternative>) -> bool {
        let earlier = self.earlier(shape, alternative);
        earlier.is_some_and(|earlier| earlier.reason.cure() == Cure::Release)
    }

    fn earlier(&self, shape: &Shape, alternative: Option<&Alternative>) -> Option<Refused> {
        let bit = search_bit(shape, alternative);
        self.earlier.filter(|earlier| bit != 0 && earlier.searched & bit != 0)
    }

    /// Returns the node that the pod is expected on, with this card; where an earlier search is gone on with, out of the nodes
    /// that have [`changed`](Self::changed) since. Nodes take turns, as they do under the scheduler's own spreading.
    pub(super) fn find(
        &mut self,
        cluster: &mut Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
        changed: Option<&[NodeId]>,
    ) -> Option<NodeId> {
        let earlier = self.earlier(shape, alternative);
        self.searched |= search_bit(shape, alternative);
        if let (Some(earlier), Some(changed)) = (earlier, changed) {
            // This was found of other nodes too. Where all nodes are asked, they say it again, if it is still so.
            match earlier.reason.cure() {
                _ if earlier.none_would_do => self.excluded = true,
                Cure::Eviction => self.would_do = true,
                Cure::Release => self.over_quota = true,
                Cure::Change => self.excluded = true,
                Cure::Search => {}
            }
            let (last, first): (Vec<_>, Vec<_>) = changed
                .iter()
                .copied()
                .partition(|node| takes_devices(cluster, alternative, *node));
            return first
                .into_iter()
                .chain(last)
                .find(|node| self.ask(cluster, shape, alternative, *node));
        }
        let card = alternative.and_then(|alternative| scarcest(cluster, alternative));
        let nodes = nodes_with(cluster, card);
        let start = cluster.cursor(card).min(nodes.len());
        let turn = || (start..nodes.len()).chain(0..start).map(|place| (place, nodes[place]));
        let mut find = |leaves_devices: Option<bool>| {
            let is_asked =
                |node| leaves_devices.is_none_or(|leaves| leaves != takes_devices(cluster, alternative, node));
            turn().find(|(_, node)| is_asked(*node) && self.ask(cluster, shape, alternative, *node))
        };
        // Nodes with devices come last: they are left to pods that claim devices, which can use no others.
        let found = if has_both_ways(cluster, alternative) {
            find(Some(true)).or_else(|| find(Some(false)))
        } else {
            find(None)
        };
        let (place, node) = found?;
        cluster.set_cursor(card, place + 1);
        Some(node)
    }

    /// Returns why no node was found.
    pub(super) fn reason(&self) -> Reason {
        if self.over_quota {
            Reason::CrossQuotaExceeded
        } else if self.excluded && !self.would_do {
            Reason::NodesExcluded
        } else {
            Reason::NoNodeFits
        }
    }

    /// Returns the alternatives that were searched for, as bits.
    pub(super) fn searched(&self) -> u64 {
        self.searched
    }

    fn ask(&mut self, cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, node: NodeId) -> bool {
        if self.among == Among::WithoutGpu && counts_as_gpu_node(cluster, node) {
            return false;
        }
        self.ask_gpu_node(cluster, shape, alternative, node)
    }

    /// Counts steps of a search among GPU nodes.
    pub(super) fn spend(&self, steps: usize) {
        self.effort.spend(steps);
    }

    /// Notes what a GPU node without quota for the pod would say otherwise. Where no steps are left to ask, it counts as one that
    /// would take the pod.
    pub(super) fn ask_node_over_quota(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
        node: NodeId,
    ) {
        if self.effort.is_spent() {
            self.over_quota = true;
            return;
        }
        self.effort.look_at_node(shape);
        match ask(cluster, shape, alternative, cluster.node(node)) {
            Answer::Takes | Answer::LacksRoom | Answer::LacksDevices => self.over_quota = true,
            Answer::Unusable => self.would_do = true,
            Answer::Excluded | Answer::LeavesChoice | Answer::FailsSelector | Answer::GivesOtherwise => {
                self.excluded = true;
            }
            Answer::Unrelated => {}
        }
    }

    /// Whether a node takes the pod, whether it is a GPU node or not.
    pub(super) fn ask_gpu_node(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        alternative: Option<&Alternative>,
        node: NodeId,
    ) -> bool {
        self.effort.look_at_node(shape);
        let effort = self.effort.clone();
        match effort.search(|steps| ask_all(cluster, shape, alternative, cluster.node(node), steps)) {
            Answer::Takes => return true,
            Answer::LacksRoom | Answer::LacksDevices | Answer::Unusable => self.would_do = true,
            Answer::Excluded | Answer::LeavesChoice | Answer::FailsSelector | Answer::GivesOtherwise => {
                self.excluded = true;
            }
            Answer::Unrelated => {}
        }
        false
    }
}

/// Whether some nodes have the card as a resource of a device plugin, and others as devices.
fn has_both_ways(cluster: &Cluster, alternative: Option<&Alternative>) -> bool {
    let Some(Alternative::Card(card)) = alternative else {
        return false;
    };
    let card = cluster.card(*card);
    card.is_some_and(|card| !card.by_plugin.is_empty() && card.by_plugin.len() < card.nodes.len())
}

/// Whether a card that is requested as a resource would be one of this node's devices.
pub(super) fn takes_devices(cluster: &Cluster, alternative: Option<&Alternative>, node: NodeId) -> bool {
    let Some(Alternative::Card(card)) = alternative else {
        return false;
    };
    let card = cluster.node(node).card(*card);
    card.is_some_and(|card| card.supply == Supply::Devices)
}

/// Whether a node is a GPU node, or carries the label of GPU nodes wrongly: pods that are kept off GPU nodes can't go there either way.
pub(super) fn counts_as_gpu_node(cluster: &Cluster, node: NodeId) -> bool {
    let has_label = |offer: &Offer| offer.label(GPU_NODE_LABEL).is_some();
    cluster.gpu_nodes().contains(node) || cluster.node(node).offer().is_some_and(has_label)
}

/// Whether the pod may run on a node, whatever room and quota the node has.
pub(crate) fn may_run_on(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, node: NodeId) -> bool {
    matches!(
        ask(cluster, shape, alternative, cluster.node(node)),
        Answer::Takes | Answer::LacksRoom
    )
}

/// Returns a bit for a search with an alternative or without, by the alternative's place among those of the pod. A pod has fewer
/// than 64, so the bit stays the same however many cards other pods name.
pub(crate) fn search_bit(shape: &Shape, alternative: Option<&Alternative>) -> u64 {
    let place = alternative.and_then(|alternative| shape.task.alternatives.iter().position(|own| own == alternative));
    let place = place.map_or(0, |place| place + 1);
    let place = u32::try_from(place).ok();
    place.and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0)
}

/// Returns what a node says to a pod, as the scheduler would see it. Where an alternative has several cards, the node must have
/// all of them.
pub(super) fn ask(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, node: &Node) -> Answer {
    let Some(offer) = node.offer() else {
        return Answer::Unrelated;
    };
    let meant = |card| node.card(card).map(|card| card.resource) == cluster.resource_of(card);
    if !alternative.is_none_or(|alternative| alternative.all(meant)) {
        return Answer::Unrelated;
    }
    if !are_supplied(cluster, &shape.task, alternative, node) {
        let set = alternative.and_then(Alternative::set);
        let is_by_both_ways = set.is_some_and(|set| set.requested().is_some());
        return if is_by_both_ways {
            Answer::Unrelated
        } else {
            Answer::GivesOtherwise
        };
    }
    match shape
        .constraints
        .check(&node.name, |key| offer.label(key), &offer.taints)
    {
        Err(Mismatch::Taint) if !offer.is_usable() => Answer::Unusable,
        Err(Mismatch::Taint | Mismatch::Selector) => Answer::Excluded,
        Ok(()) if has_devices_elsewhere(&shape.task, node) => Answer::LacksDevices,
        Ok(()) if alternative.is_some_and(|own| choice::exceeds(cluster, &shape.task, own, node)) => {
            Answer::LeavesChoice
        }
        Ok(()) if cluster.selectors_fail(&shape.task, node) => Answer::FailsSelector,
        Ok(()) if has_room(cluster, shape, alternative, node, &node.used) => Answer::Takes,
        Ok(()) => Answer::LacksRoom,
    }
}

/// Whether what a pod requests fits beside `used`. For what the pod claims as devices, the devices themselves are asked
/// elsewhere.
pub(super) fn has_room(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: &Node,
    used: &Totals,
) -> bool {
    let Some(offer) = node.offer() else { return false };
    let request = shape.task.request_with(alternative);
    if is_plain(shape, offer) {
        return offer.has_room_for(request, used);
    }
    request.iter().all(|asked| {
        let mut parts = compared(cluster, &shape.task, alternative, node, used, asked);
        parts.all(|part| part.is_enough())
    })
}

/// Whether the node's totals alone say what it has for the pod: the pod claims nothing, and the node has no cards as devices.
pub(super) fn is_plain(shape: &Shape, offer: &Offer) -> bool {
    shape.task.claimed.is_none() && !offer.has_devices()
}

/// Returns what a node says to a pod, its devices included; these are searched with the given steps.
pub(super) fn ask_all(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: &Node,
    steps: &Steps,
) -> Answer {
    match ask(cluster, shape, alternative, node) {
        Answer::Takes if !cluster.devices_suffice(&shape.task, alternative, node, &[], steps) => Answer::LacksDevices,
        answer => answer,
    }
}

/// Whether a node has the devices for a pod of this shape.
pub(super) fn devices_suffice(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: NodeId,
    effort: &Effort,
) -> bool {
    let node = cluster.node(node);
    shape.task.claimed.is_none()
        || effort.search(|steps| cluster.devices_suffice(&shape.task, alternative, node, &[], steps))
}

/// Returns the nodes that may be asked, by name: those that have the card; where there are several cards, those with the card
/// that the fewest nodes have; without a card, all nodes.
pub(crate) fn nodes_for<'c>(cluster: &'c Cluster, alternative: Option<&Alternative>) -> &'c [NodeId] {
    nodes_with(
        cluster,
        alternative.and_then(|alternative| scarcest(cluster, alternative)),
    )
}

fn nodes_with(cluster: &Cluster, card: Option<CardId>) -> &[NodeId] {
    match card {
        Some(card) => cluster.card(card).map_or(&[], |card| &card.nodes),
        None => cluster.nodes_by_name(),
    }
}

/// Returns the card of an alternative that the fewest nodes have.
fn scarcest(cluster: &Cluster, alternative: &Alternative) -> Option<CardId> {
    let nodes = |card: CardId| cluster.card(card).map_or(0, |card| card.nodes.len());
    match alternative {
        Alternative::Card(card) => Some(*card),
        Alternative::Set(set) => set.scarcest(nodes),
    }
}

/// Returns what a node lacks of a pod's request, each part with the dimension that it is of. None where the node could not take the pod
/// whatever came free on it.
pub(crate) fn lacking(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    id: NodeId,
) -> Option<Vec<(Dimension, Compared)>> {
    let node = cluster.node(id);
    if !matches!(
        ask(cluster, shape, alternative, node),
        Answer::Takes | Answer::LacksRoom
    ) {
        return None;
    }
    let request = shape.task.request_with(alternative);
    let missing = request.iter().flat_map(|asked| {
        let parts = compared(cluster, &shape.task, alternative, node, &node.used, asked);
        parts.map(move |part| (asked.0, part))
    });
    let missing: Vec<_> = missing.filter(|(_, part)| part.missing() > 0).collect();
    // More than the whole node has can never come free.
    let possible = missing.iter().all(|(_, part)| part.asked <= part.there);
    possible.then_some(missing)
}
