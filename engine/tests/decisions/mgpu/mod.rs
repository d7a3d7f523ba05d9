//! mGPU: decisions on whole clusters, step by step (mGPU, **Filter**, **Allocate**, **Schedule Result**, **Release**).

mod complex;
mod extender;
mod placement;
mod releases;
mod sequences;
mod set_aside;

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::decide::{Action, Admission};
use engine::policies::mgpu::CardUse;

use crate::world::{Object, World, capacity, group, node, pod, queue};

const NATIVE: &str = "native-burst-share";
const FIXED: &str = "fixed-share";
const POLICY: &str = "vke.volcengine.com/mgpu-compute-policy";
const CONTAINER_CARDS: &str = "vke.volcengine.com/container-multiple-gpu";

/// Arguments of the predicates plugin without their prefix, and `cardgate.yaml`. These tests are about cards and not about
/// quotas, so pods that name no card count against none.
fn configuration(arguments: &[(&str, &str)], cardgate: &str) -> Arc<Configuration> {
    let arguments: Vec<_> = arguments
        .iter()
        .map(|(name, value)| format!("predicate.MGPU{name}: {value}"))
        .collect();
    let conf = format!(
        "tiers: [{{plugins: [{{name: capacity-card}}, {{name: predicates, arguments: {{{}}}}}]}}]",
        arguments.join(", ")
    );
    let cardgate = format!("unnamedCards: free\n{cardgate}");
    let parsed = Configuration::parse(Some(&conf), Some(&cardgate)).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    Arc::new(parsed.configuration)
}

fn world(arguments: &[(&str, &str)]) -> World {
    let mut world = World::with(configuration(arguments, ""));
    world.queue(&queue("team-a"));
    world
}

/// The node that an admission pins its pod to, and the cards of each container.
fn placed(admission: &Admission) -> String {
    let node = admission.pin.as_ref().map_or("nowhere", |pin| &*pin.node);
    let lists = admission.mgpu_results.iter().filter_map(|(key, list)| {
        let container = key.strip_prefix("vke.volcengine.com/gpu-index-container-")?;
        Some(format!(" {container}={list}"))
    });
    format!("{}: {node}{}", admission.pod.name, lists.collect::<String>())
}

/// Decides, and returns where pods are placed.
#[track_caller]
fn places(world: &mut World) -> Vec<String> {
    world.admissions().iter().map(placed).collect()
}

/// The pod as the API server shows it after its admission.
fn after(pod: &Object, admission: &Admission) -> Object {
    let pod = admission
        .mgpu_results
        .iter()
        .fold(pod.clone().ungated(), |pod, (key, value)| pod.annotation(key, value));
    match &admission.pin {
        Some(pin) => pod.pinned_to(&pin.node),
        None => pod,
    }
}

/// What is in use of a node's cards.
#[track_caller]
fn gpus<'w>(world: &'w World, node: &str) -> &'w [CardUse] {
    let node = world.cluster.node_named(node).unwrap();
    &world.cluster.node(node).gpus
}

/// Compute in use of a node's cards.
fn cores(world: &World, node: &str) -> Vec<i64> {
    gpus(world, node).iter().map(|card| card.core).collect()
}
