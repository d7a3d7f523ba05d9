//! What nodes say to pods, asked for people: of all nodes, within so many steps, since others wait meanwhile.

use super::effort::cost_of_look;
use super::fit::{Answer, ask, ask_all, has_room, nodes_for};
use crate::alternative::Alternative;
use crate::amounts::Totals;
use crate::cluster::Cluster;
use crate::cluster::device_cards::are_supplied;
use crate::cluster::node::Node;
use crate::cluster::waiting::Shape;
use crate::ids::NodeId;
use crate::steps::Steps;

/// The steps with which the devices of one node are searched for what people are told.
const STEPS_TO_SAY: u64 = 20_000;

/// Whether a node could take a pod of this shape, with this alternative, if nothing else were on it. Of devices that are not searched in the
/// steps that are left, the number counts.
pub(crate) fn could_take(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: NodeId,
    steps: &Steps,
) -> bool {
    let node = cluster.node(node);
    has_room(shape, alternative, node, &Totals::default())
        && matches!(
            ask(cluster, shape, alternative, node),
            Answer::Takes | Answer::LacksRoom | Answer::Unusable
        )
        && steps.share(STEPS_TO_SAY, |steps| {
            cluster.devices_could_suffice(&shape.task, alternative, node, steps)
        })
}

/// What it costs to ask all nodes whether they take a pod of this shape.
pub(crate) fn cost_of_all(cluster: &Cluster, shape: &Shape) -> usize {
    cluster.nodes_by_name().len().saturating_mul(cost_of_look(shape))
}

/// Whether some node takes a pod of this shape now, for people.
pub(crate) fn some_node_takes(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    steps: &Steps,
) -> bool {
    nodes_for(cluster, alternative)
        .iter()
        .any(|node| ask_to_say(cluster, shape, alternative, cluster.node(*node), steps) == Answer::Takes)
}

/// What a node says to a pod, for people.
pub(super) fn ask_to_say(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    node: &Node,
    steps: &Steps,
) -> Answer {
    steps.spend(cost_of_look(shape));
    steps.share(STEPS_TO_SAY, |steps| ask_all(cluster, shape, alternative, node, steps))
}

/// How many nodes say what, for people.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Census {
    pub nodes: usize,
    pub take: usize,
    pub lack_room: usize,
    pub lack_devices: usize,
    pub excluded: usize,
    pub leave_choice: usize,
    pub fail_selectors: usize,
    pub give_otherwise: usize,
    pub unusable: usize,
}

/// Asks every node that may be asked. Only for messages: it looks at all of them.
pub(crate) fn census(cluster: &Cluster, shape: &Shape, alternative: Option<&Alternative>, steps: &Steps) -> Census {
    let nodes = nodes_for(cluster, alternative).iter().map(|node| cluster.node(*node));
    let has_all = |node: &&Node| {
        alternative.is_none_or(|own| {
            let requests = own.set().is_some_and(|set| set.requested().is_some());
            own.all(|card| node.card(card).is_some()) && (!requests || are_supplied(cluster, &shape.task, own, node))
        })
    };
    let mut census = Census::default();
    for node in nodes.filter(has_all) {
        census.nodes += 1;
        match ask_to_say(cluster, shape, alternative, node, steps) {
            Answer::LacksRoom => census.lack_room += 1,
            Answer::LacksDevices => census.lack_devices += 1,
            Answer::Unusable => census.unusable += 1,
            Answer::Excluded => census.excluded += 1,
            Answer::LeavesChoice => census.leave_choice += 1,
            Answer::FailsSelector => census.fail_selectors += 1,
            Answer::GivesOtherwise => census.give_otherwise += 1,
            Answer::Takes => census.take += 1,
            Answer::Unrelated => {}
        }
    }
    census
}
