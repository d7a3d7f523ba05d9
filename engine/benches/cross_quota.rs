//! What `CrossQuota` costs: predicate and score over every GPU node for one pod.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

use std::hint::black_box;

use crds::configuration::Configuration;
use crds::scoring_strategy::ScoringStrategy;
use divan::Bencher;
use engine::policies::cross_quota::{Scoring, exceeded};

use world::{GPU, World, bare_pod, node};

/// Pods without GPU on each GPU node.
const PODS_OF_A_NODE: usize = 20;

fn main() {
    divan::main();
}

/// So many GPU nodes, each with 20 pods of one core, and quotas for CPU and memory.
fn world(nodes: usize) -> World {
    let conf = "tiers: [{plugins: [{name: capacity-card}, {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, \
                quota-resources: \"cpu,memory\", quota.cpu: 32, quota-percentage.memory: 50}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("enforceCrossQuota: extender")).unwrap();
    let mut world = World::with(parsed.configuration.into());
    for number in 0..nodes {
        let name = format!("gpu-{number:05}");
        world.node(&node(&name).offers(GPU, "8"));
        // A different number on each, so that scores differ.
        for pod in 0..PODS_OF_A_NODE - number % 3 {
            world.pod(&bare_pod(&format!("{name}-{pod}")).on(&name));
        }
    }
    world
}

/// Predicate and score for one pod over all GPU nodes, and the best of them.
#[divan::bench(args = [100, 1_000, 10_000])]
fn predicate_and_score(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = world(nodes);
    let scoring = Scoring {
        strategy: ScoringStrategy::MostAllocated,
        weights: &[10, 1],
        request: &[4_000, 8 << 30],
    };
    bencher.bench_local(|| {
        let within = world.cluster.gpu_nodes().iter();
        let within = within.filter(|(_, lines)| exceeded(lines, black_box(scoring.request)).is_none());
        let scored = within.map(|(node, lines)| (node, scoring.score_of(lines)));
        scored
            .max_by(|(_, left), (_, right)| scoring.compare(left, right))
            .map(|(node, _)| node)
    });
}
