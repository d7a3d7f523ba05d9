//! What `CrossQuota` costs: predicate and score over every GPU node for one pod.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

#[path = "scenes/cross_quota.rs"]
mod scenes;

use std::hint::black_box;

use crds::scoring_strategy::ScoringStrategy;
use divan::Bencher;
use engine::policies::cross_quota::{Scoring, exceeded};

fn main() {
    divan::main();
}

/// Predicate and score for one pod over all GPU nodes, and the best of them.
#[divan::bench(args = [100, 1_000, 10_000])]
fn predicate_and_score(bencher: Bencher<'_, '_>, nodes: usize) {
    let world = scenes::gpu_nodes(nodes);
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
