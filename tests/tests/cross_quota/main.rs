//! `CrossQuota` on a real control plane, by gating and by the scheduler extender. A process has one control plane of each kind.

mod extender;
mod gating;
mod policies;
mod schedulers;

use std::collections::BTreeMap;

use cardgate_tests::nodes::{self, NodeSpec};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

type Outcome = anyhow::Result<()>;

/// The label by which a scenario's pods and nodes find each other.
const SCENARIO: &str = "scenario";

/// A node with 8 GPUs and 64 cores for one scenario.
fn gpu_node(scenario: &str, number: usize) -> NodeSpec {
    let name = format!("{scenario}-gpu-{number}");
    nodes::nvidia(&name, &format!("NVIDIA-A100.{scenario}"), 8, 81_920).label(SCENARIO, scenario)
}

/// A node without GPU for one scenario.
fn cpu_node(scenario: &str, cores: &str) -> NodeSpec {
    NodeSpec::new(format!("{scenario}-cpu"))
        .label(SCENARIO, scenario)
        .allocatable("cpu", cores)
}

/// The arguments of the plugin as a configuration: GPUs are NVIDIA's.
fn crossquota(arguments: &str) -> String {
    format!(
        "tiers: [{{plugins: [{{name: capacity-card}}, {{name: crossquota, arguments: {{gpu-resource-names: nvidia.com/gpu, {arguments}}}}}]}}]"
    )
}

/// How many pods of a workload each node has.
async fn by_node(scenario: &Scenario<'_>, app: &str) -> anyhow::Result<BTreeMap<String, usize>> {
    let pods = scenario
        .api::<Pod>()
        .list(&ListParams::default().labels(&format!("app={app}")))
        .await?;
    let mut counts = BTreeMap::new();
    for pod in pods.items {
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
            *counts.entry(node).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Waits until each node has so many pods of a workload.
async fn expect_by_node(scenario: &Scenario<'_>, app: &str, expected: &[(&str, usize)]) -> Outcome {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(node, count)| (format!("{}-{node}", scenario.name()), *count))
        .collect();
    wait::eventually(format!("{app} to be on {expected:?}"), wait::PATIENCE, async || {
        let found = by_node(scenario, app).await?;
        Ok(Seen::when(found == expected, format!("{found:?}")))
    })
    .await
}
