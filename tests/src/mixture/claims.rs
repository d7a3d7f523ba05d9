//! The kinds of pods that get their cards by Dynamic Resource Allocation, alone and beside others.

use anyhow::Result;
use crds::keys::{self, GROUP_NAME};
use serde_json::{Value, json};

use super::creator::Creator;
use super::{GANG_SIZE, NAMESPACE, named};
use crate::controlplane::ControlPlane;
use crate::devices::{self, NVIDIA, by_template, exactly, form};
use crate::nodes::{self, NodeSpec};
use crate::workloads::{PodBuilder, QueueBuilder, pod, queue};

/// One card; one of two, each under its own quota; and gangs of which half the members claim a card, and the others request the
/// same one from the device plugins of other nodes. Each has a queue of its name, and where it claims, so does the template.
pub(super) const KINDS: [&str; 3] = [CLAIMS, EITHER, BOTH];
const CLAIMS: &str = "claims";
const EITHER: &str = "claims-either";
const BOTH: &str = "gang-both";

/// How many pods there are for each that a queue may have: twice as many of each kind.
pub(super) const PODS_PER_ROOM: usize = KINDS.len() * 2;

const CARD: &str = "NVIDIA-GB200";
const FIRST: &str = "NVIDIA-RTX-PRO-6000";
const SECOND: &str = "NVIDIA-RTX-PRO-4500";
const COMMON: &str = "NVIDIA-GH200";
/// The label of nodes with device plugins, to which the members of gangs go that claim nothing: they could have the devices of the
/// others too, by the class's extended resource, and leave no room for those that claim.
const BY_PLUGIN: (&str, &str) = ("mixture", "by-plugin");
/// Cards of a node.
const CARDS: usize = 8;

/// The queues, each of which may have `room` cards.
pub(super) fn queues(room: u64) -> [QueueBuilder; 3] {
    [
        queue(CLAIMS).quota(CARD, room),
        queue(EITHER).quota(FIRST, room / 2).quota(SECOND, room / 2),
        queue(BOTH).quota(COMMON, room),
    ]
}

/// Makes the classes, the nodes with their devices, and what claims are made from.
pub(super) async fn furnish(plane: &ControlPlane, room: usize) -> Result<()> {
    devices::classes(plane).await?;
    let by_devices = [
        ("claimed", CARD, room),
        ("first", FIRST, room / 2),
        ("second", SECOND, room / 2),
        ("both", COMMON, room / 2),
    ];
    for (name, card, cards) in by_devices {
        for index in 0..cards.div_ceil(CARDS) {
            let node = format!("{name}-{index}");
            plane.create_nodes(&[NodeSpec::new(&node)]).await?;
            let cards = (cards - index * CARDS).min(CARDS);
            devices::publish(plane, &node, NVIDIA, &devices::gpus(card, cards)).await?;
        }
    }
    let by_label = (0..(room / 2).div_ceil(CARDS)).map(|index| {
        let node = nodes::nvidia(&format!("plugin-{index}"), COMMON, 8, 81_920);
        node.label(BY_PLUGIN.0, BY_PLUGIN.1)
    });
    plane.create_nodes(&by_label.collect::<Vec<_>>()).await?;
    let named = |name: &str, card: &str| {
        let mut named = form(NVIDIA, 1, Some(card));
        named["name"] = json!(name);
        named
    };
    let either = json!([{"name": "gpu", "firstAvailable": [named("first", FIRST), named("second", SECOND)]}]);
    let templates: [(&str, Value); 3] = [
        (CLAIMS, exactly(NVIDIA, 1, Some(CARD))),
        (EITHER, either),
        (BOTH, exactly(NVIDIA, 1, Some(COMMON))),
    ];
    for (name, requests) in templates {
        devices::template_in(plane, NAMESPACE, name, &requests).await?;
    }
    Ok(())
}

/// Creates so many pods of each kind, by a controller, bare, and in gangs.
pub(super) async fn create(creator: Creator<'_>, pods: usize) -> Result<()> {
    creator
        .create(&claiming(CLAIMS).deployment(i32::try_from(pods)?))
        .await?;
    let gangs = (0..pods / GANG_SIZE).map(|index| named(BOTH, index));
    for gang in gangs.clone() {
        creator.group(&gang, BOTH).await?;
    }
    let members = gangs.flat_map(|gang| {
        (0..GANG_SIZE).map(move |member| {
            let pod = if member % 2 == 0 { claiming(BOTH) } else { plugged() };
            pod.annotation(GROUP_NAME, &gang)
                .name(&format!("{gang}-{member}"))
                .build()
        })
    });
    let either = (0..pods).map(|index| claiming(EITHER).name(&named(EITHER, index)).build());
    creator.create_all(members.chain(either)).await
}

fn managed(kind: &str) -> PodBuilder {
    pod(kind).namespace(NAMESPACE).queue(kind)
}

/// A member of a gang that requests its card from a device plugin.
fn plugged() -> PodBuilder {
    let pod = managed(BOTH).card(COMMON).request(keys::NVIDIA_GPU, 1);
    pod.node_selector(BY_PLUGIN.0, BY_PLUGIN.1)
}

fn claiming(kind: &str) -> PodBuilder {
    by_template(managed(kind), kind)
}
