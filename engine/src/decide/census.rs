//! What nodes say to pods, asked for messages to people. All nodes are asked, but within a limited number of steps, since
//! everything else waits meanwhile.

use std::collections::BTreeSet;

use super::cross_quota;
use super::effort::{OWN, STEPS_OF_MESSAGE, cost_of_look};
use super::fit::{Answer, ask, ask_all, has_room, nodes_for};
use crate::alternative::Alternative;
use crate::amounts::Totals;
use crate::cluster::Cluster;
use crate::cluster::device_cards::are_supplied;
use crate::cluster::node::Node;
use crate::cluster::waiting::Shape;
use crate::ids::NodeId;
use crate::steps::Steps;

/// How many steps the search of one node's devices may take for a message.
const STEPS_TO_SAY: u64 = 20_000;

/// What one message may cost in looks at nodes and in searches for devices on them. Pods may say thousands of things about nodes,
/// and there may be thousands of nodes.
#[derive(Debug)]
pub(crate) struct Looks {
    left: Steps,
    searches: Steps,
}

impl Looks {
    /// Returns what all that a message says about one thing may cost.
    pub(crate) const fn of_message() -> Self {
        Self {
            left: Steps::new(STEPS_OF_MESSAGE),
            searches: Steps::new(STEPS_OF_MESSAGE),
        }
    }

    /// Whether another node may be looked at for a pod of this shape. The look is counted.
    pub(crate) fn may_look(&self, shape: &Shape) -> bool {
        let may = !self.are_spent();
        self.spend(cost_of_look(shape));
        may
    }

    /// Whether no node may be looked at any more.
    pub(crate) fn are_spent(&self) -> bool {
        self.left.are_spent()
    }

    /// Counts something else that costs this many steps.
    pub(crate) fn spend(&self, steps: usize) {
        self.left.spend(steps);
    }

    /// Returns the steps that are left for searches.
    pub(crate) fn searches(&self) -> &Steps {
        &self.searches
    }
}

/// Whether a node could take a pod of this shape, with this alternative, if nothing else were on the node. Where the steps don't
/// last to search devices, only their number counts.
pub(crate) fn could_take(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: NodeId,
    steps: &Steps,
) -> bool {
    let node = cluster.node(node);
    has_room(cluster, shape, alternative, node, &Totals::default())
        && matches!(
            ask(cluster, shape, alternative, node),
            Answer::Takes | Answer::LacksRoom | Answer::Unusable
        )
        && steps.share(STEPS_TO_SAY, |steps| {
            cluster.devices_could_suffice(&shape.task, alternative, node, steps)
        })
}

/// Returns what it may cost to ask all mGPU nodes which shares of their cards they would give to a pod of this shape.
pub(crate) fn cost_of_cards(cluster: &Cluster, shape: &Shape) -> u64 {
    if shape.task.mgpu.is_none() {
        return 0;
    }
    let nodes = u64::try_from(cluster.mgpu_nodes().len()).unwrap_or(u64::MAX);
    nodes.saturating_mul(OWN).min(STEPS_OF_MESSAGE)
}

/// Returns what it costs to ask all nodes whether they take a pod of this shape, with each of its alternatives, and for whom they
/// are set aside.
pub(crate) fn cost_of_all(cluster: &Cluster, shape: &Shape) -> u64 {
    let nodes: usize = match &*shape.task.alternatives {
        [] => nodes_for(cluster, None).len(),
        alternatives => alternatives
            .iter()
            .map(|alternative| nodes_for(cluster, Some(alternative)).len())
            .sum(),
    };
    let looks = nodes.saturating_mul(cost_of_look(shape));
    let cost = u64::try_from(looks.saturating_add(cluster.count_asides())).unwrap_or(u64::MAX);
    cost.min(STEPS_OF_MESSAGE)
}

/// Whether some node takes a pod of this shape now, for messages. Also true where not all nodes may be asked.
pub(crate) fn some_node_takes(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    looks: &Looks,
) -> bool {
    nodes_for(cluster, alternative).iter().any(|node| {
        let answer = ask_to_say(cluster, shape, alternative, cluster.node(*node), looks);
        answer.is_none_or(|answer| answer == Answer::Takes)
    })
}

/// Returns what a node says to a pod, for messages. None where no further node may be asked.
pub(super) fn ask_to_say(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: &Node,
    looks: &Looks,
) -> Option<Answer> {
    looks.may_look(shape).then(|| {
        looks
            .searches
            .share(STEPS_TO_SAY, |steps| ask_all(cluster, shape, alternative, node, steps))
    })
}

/// How many nodes give which answer, for messages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Census {
    pub nodes: usize,
    pub take: usize,
    /// Nodes that would take the pod if nothing of them were set aside for others.
    pub set_aside: usize,
    pub lack_room: usize,
    pub lack_devices: usize,
    pub excluded: usize,
    pub leave_choice: usize,
    pub fail_selectors: usize,
    pub give_otherwise: usize,
    pub unusable: usize,
    pub not_asked: usize,
}

/// Returns the nodes of which something is set aside that pods of this shape may not have. While messages are written, what is set
/// aside does not count as taken, so it is looked up here. Returns no node for a pod of a group: the nodes may have room for it and not for the others.
pub(crate) fn kept_for_others(cluster: &Cluster, shape: &Shape) -> BTreeSet<NodeId> {
    if shape.group.is_some() {
        return BTreeSet::new();
    }
    cluster.nodes_set_aside_for_others(shape)
}

/// Asks every node that may be asked; something of the `kept` nodes is set aside for others. Only for messages, since it looks at
/// all nodes.
pub(crate) fn census(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    kept: &BTreeSet<NodeId>,
    looks: &Looks,
) -> Census {
    let quotas = cross_quota::asked(cluster, shape);
    let has_quota = |id| {
        quotas
            .as_ref()
            .is_none_or(|asked| cross_quota::has_quota(cluster, asked, id))
    };
    let nodes = nodes_for(cluster, alternative).iter();
    let nodes = nodes.map(|id| (*id, cluster.node(*id)));
    let has_all = |(_, node): &(NodeId, &Node)| {
        alternative.is_none_or(|own| {
            let requests = own.set().is_some_and(|set| set.requested().is_some());
            own.all(|card| node.card(card).is_some())
                && (!requests || are_supplied(cluster, &shape.task, alternative, node))
        })
    };
    let mut census = Census::default();
    for (id, node) in nodes.filter(has_all) {
        census.nodes += 1;
        let Some(answer) = ask_to_say(cluster, shape, alternative, node, looks) else {
            census.not_asked += 1;
            continue;
        };
        match answer {
            Answer::LacksRoom => census.lack_room += 1,
            Answer::LacksDevices => census.lack_devices += 1,
            Answer::Unusable => census.unusable += 1,
            Answer::Excluded => census.excluded += 1,
            Answer::LeavesChoice => census.leave_choice += 1,
            Answer::FailsSelector => census.fail_selectors += 1,
            Answer::GivesOtherwise => census.give_otherwise += 1,
            Answer::Takes if kept.contains(&id) && has_quota(id) => census.set_aside += 1,
            Answer::Takes => census.take += 1,
            Answer::Unrelated => {}
        }
    }
    census
}
