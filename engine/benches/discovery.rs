//! What every event of a node costs before anything is compared: its labels and resources are read anew.

use crds::lean::TextMap;
use divan::{Bencher, black_box};
use engine::discovery::discover;

fn main() {
    divan::main();
}

/// Labels of the operating system, the machine and the GPU operator that have nothing to do with cards.
const OTHER_LABELS: usize = 60;

fn map(entries: &[(&str, &str)]) -> TextMap<Box<str>> {
    entries
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

/// A node of a real size: sixty other labels, eight resources.
fn node(more_labels: &[(&str, &str)], more_resources: &[(&str, &str)]) -> (TextMap<Box<str>>, TextMap<Box<str>>) {
    let others: Vec<_> = (0..OTHER_LABELS)
        .map(|number| format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{number}"))
        .collect();
    let mut labels: Vec<_> = others.iter().map(|label| (label.as_str(), "true")).collect();
    labels.extend(more_labels);
    let resources = [
        ("cpu", "191450m"),
        ("memory", "2113456128Ki"),
        ("ephemeral-storage", "900Gi"),
        ("hugepages-1Gi", "0"),
        ("pods", "110"),
        ("rdma/hca_shared", "64"),
    ];
    (map(&labels), map(&[&resources[..], more_resources].concat()))
}

#[divan::bench]
fn h100_x8(bencher: Bencher) {
    let (labels, allocatable) = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
            ("nvidia.com/gpu.count", "8"),
            ("nvidia.com/gpu.memory", "81559"),
            ("nvidia.com/gpu.replicas", "1"),
        ],
        &[("nvidia.com/gpu", "8"), ("nvidia.com/hostdev", "8")],
    );
    bencher.bench(|| discover(black_box(&labels), black_box(&allocatable)));
}

#[divan::bench]
fn a100_mig_mixed(bencher: Bencher) {
    let (labels, allocatable) = node(
        &[
            ("nvidia.com/gpu.product", "NVIDIA-A100-PCIE-40GB"),
            ("nvidia.com/gpu.count", "2"),
            ("nvidia.com/gpu.memory", "40536"),
            ("nvidia.com/mig-1g.5gb.count", "4"),
            ("nvidia.com/mig-2g.10gb.count", "2"),
        ],
        &[
            ("nvidia.com/gpu", "1"),
            ("nvidia.com/mig-1g.5gb", "4"),
            ("nvidia.com/mig-2g.10gb", "2"),
            ("nvidia.com/mig-3g.20gb", "0"),
        ],
    );
    bencher.bench(|| discover(black_box(&labels), black_box(&allocatable)));
}

#[divan::bench]
fn without_cards(bencher: Bencher) {
    let (labels, allocatable) = node(&[], &[]);
    bencher.bench(|| discover(black_box(&labels), black_box(&allocatable)));
}
