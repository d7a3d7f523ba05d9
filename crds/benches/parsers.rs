//! What is parsed on the way of every pod and every queue.

use crds::card::CardAlternatives;
use crds::card_counts::CardQuota;
use crds::configuration::Configuration;
use crds::quantity;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// A quota of `cards` cards, as people write it.
fn quota_text(cards: usize) -> String {
    const CARDS: [&str; 10] = [
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-H800",
        "NVIDIA-GeForce-RTX-4090",
        "NVIDIA-L40S",
        "Tesla-T4",
        "Tesla-V100-SXM2-32GB",
        "NVIDIA-A100-SXM4-80GB/mps-80g*1/8",
        "NVIDIA-A100-SXM4-80GB/mig-1g.10gb-mixed",
        "NVIDIA-H100-80GB-HBM3/mig-3g.40gb-mixed",
    ];
    let entries: Vec<_> = CARDS
        .iter()
        .cycle()
        .take(cards)
        .enumerate()
        .map(|(index, card)| match index / CARDS.len() {
            0 => format!("\"{card}\": {}", 8 * index),
            round => format!("\"{card}-{round}\": {}", 8 * index),
        })
        .collect();
    format!("{{{}}}", entries.join(", "))
}

#[divan::bench(args = [1, 10, 100])]
fn quota(bencher: Bencher, cards: usize) {
    let text = quota_text(cards);
    bencher.bench(|| CardQuota::parse(black_box(&text)));
}

#[divan::bench(args = ["NVIDIA-A100", "NVIDIA-A100|NVIDIA-H100|NVIDIA-T4"])]
fn card_name(bencher: Bencher, text: &str) {
    bencher.bench(|| CardAlternatives::parse(black_box(text)).map(|names| names.as_slice().len()));
}

#[divan::bench(args = ["8", "500m", "1.5Gi", "2113456128Ki", "12e6", "0.000000000000000000001"])]
fn quantity_in_milli(bencher: Bencher, text: &str) {
    bencher.bench(|| quantity::parse_milli(black_box(text)));
}

#[divan::bench]
fn configuration(bencher: Bencher) {
    let conf = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: capacity-card\n    arguments:\n      \
                cardUnlimitedCpuMemory: true\n      nodeOrderWeight: 2.0\n";
    bencher.bench(|| Configuration::parse(black_box(Some(conf)), black_box(Some("admitOn: quota\n"))));
}
