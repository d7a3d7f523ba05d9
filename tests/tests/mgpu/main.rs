//! mGPU on a real control plane. The configuration is the cluster's, and the burst kills the operator, so the scenarios share
//! one control plane one after the other.

#![allow(clippy::unwrap_used, reason = "part of tests")]

mod burst;
mod cards;
mod door;
mod inventory;

use std::collections::BTreeMap;

use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::card_inventory::CardInventory;
use crds::keys::{MGPU_ASSUMED, MGPU_CORE, MGPU_INDEX_PREFIX, MGPU_MEMORY, MGPU_POLICY, MGPU_SCHEDULE};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Api, ResourceExt};
use tokio::sync::{Mutex, MutexGuard};

type Outcome = anyhow::Result<()>;

const FIXED: &str = "fixed-share";
const NATIVE: &str = "native-burst-share";
/// Memory of a card, in MiB.
const MEMORY: i64 = 81_559;

/// The world with the document's own configuration, some arguments changed, and the right to it while the guard lives.
async fn configured(
    arguments: &[(&str, &str)],
    own: Option<&str>,
) -> anyhow::Result<(&'static World, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let world = World::shared().await?;
    let mut values = BTreeMap::from([
        ("Enable", "true"),
        ("Policy", "binpack"),
        ("WeightOfCore", "20"),
        ("ScheduleMode", "index"),
        ("MaxContainersPerCard", "16"),
    ]);
    values.extend(arguments.iter().copied());
    let arguments: Vec<_> = values
        .iter()
        .map(|(name, value)| format!("predicate.MGPU{name}: {value}"))
        .collect();
    let conf = format!(
        "tiers: [{{plugins: [{{name: capacity-card}}, {{name: predicates, arguments: {{{}}}}}]}}]",
        arguments.join(", ")
    );
    // These tests are about cards and not about quotas: shares without a card name count against none.
    let own = format!("unnamedCards: free\n{}", own.unwrap_or_default());
    world.cardgate.configure(&world.plane, Some(&conf), Some(&own)).await?;
    Ok((world, turn))
}

/// A scenario with a queue that limits no mGPU, and so many nodes with so many cards.
async fn scene<'w>(
    world: &'w World,
    name: &str,
    nodes: usize,
    cards: i64,
    policy: &str,
) -> anyhow::Result<Scenario<'w>> {
    let scenario = Scenario::begin(world, name).await?;
    let nodes: Vec<_> = (0..nodes)
        .map(|index| mgpu_node(name, &format!("{name}-{index}"), cards, policy))
        .collect();
    scenario.nodes(&nodes).await?;
    scenario
        .apply_queue(scenario.queue().capability("cpu", "1000").capability("memory", "1Ti"))
        .await?;
    Ok(scenario)
}

/// A node of a scenario that shares its cards.
fn mgpu_node(scenario: &str, name: &str, cards: i64, policy: &str) -> NodeSpec {
    NodeSpec::new(name)
        .label("scenario", scenario)
        .label(MGPU_SCHEDULE.0, MGPU_SCHEDULE.1)
        .label(MGPU_POLICY, policy)
        .allocatable(MGPU_CORE, &(cards * 100).to_string())
        .allocatable(MGPU_MEMORY, &(cards * MEMORY).to_string())
}

/// A pod of a scenario, whose first container has a share; 0 memory asks for full cards.
fn share(scenario: &Scenario<'_>, name: &str, core: i64, memory: i64) -> PodBuilder {
    let pod = scenario
        .pod(name)
        .node_selector("scenario", scenario.name())
        .request(MGPU_CORE, core);
    if memory > 0 {
        pod.request(MGPU_MEMORY, memory)
    } else {
        pod
    }
}

/// A further container with a share.
fn container(name: &str, core: i64, memory: i64) -> Container {
    let mut amounts = BTreeMap::from([(MGPU_CORE.to_owned(), Quantity(core.to_string()))]);
    if memory > 0 {
        amounts.insert(MGPU_MEMORY.to_owned(), Quantity(memory.to_string()));
    }
    Container {
        name: name.to_owned(),
        image: Some("registry.k8s.io/pause:3.10".to_owned()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts.clone()),
            limits: Some(amounts),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}

/// Waits until a pod runs, and returns it.
async fn running(scenario: &Scenario<'_>, name: &str) -> anyhow::Result<Pod> {
    wait::object(&scenario.api::<Pod>(), name, "it to run", |pod| {
        let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        match (pod, phase) {
            (Some(pod), Some("Running")) => Seen::Done(pod.clone()),
            (_, other) => Seen::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// The node that a pod runs on, and the cards of its containers by name; checks that the pod is marked and pinned.
fn placement(pod: &Pod) -> (String, Vec<(String, String)>) {
    assert_eq!(pod.annotations()[MGPU_ASSUMED], "true");
    let spec = pod.spec.as_ref().unwrap();
    let node = spec.node_name.clone().unwrap();
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let fields = required.unwrap().node_selector_terms[0].match_fields.as_ref().unwrap();
    assert_eq!(
        fields[0].values.as_deref(),
        Some(&[node.clone()][..]),
        "pinned to its node"
    );
    let lists = pod.annotations().iter().filter_map(|(key, list)| {
        let container = key.strip_prefix(MGPU_INDEX_PREFIX)?;
        Some((container.to_owned(), list.clone()))
    });
    (node, lists.collect())
}

/// Waits until a node's inventory shows so much compute in use, card by card, and returns the inventory.
async fn cores_in_use(scenario: &Scenario<'_>, node: &str, expected: &[i64]) -> anyhow::Result<CardInventory> {
    let api: Api<CardInventory> = Api::all(scenario.plane().client().await?);
    wait::object(&api, node, format!("{expected:?} in use"), |inventory| {
        let gpus = inventory
            .and_then(|inventory| inventory.status.as_ref())
            .map(|status| &status.gpus);
        let cores: Vec<_> = gpus.into_iter().flatten().map(|card| card.core_used).collect();
        match inventory {
            Some(inventory) if cores == expected => Seen::Done(inventory.clone()),
            _ => Seen::NotYet(format!("{cores:?}")),
        }
    })
    .await
}
