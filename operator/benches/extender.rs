//! What the questions of a scheduler cost, from the bytes of a request to the bytes of its answer: over all nodes, for an mGPU pod and
//! for one without GPU. One core, without HTTP.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../../engine/tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

#[path = "../../engine/benches/scenes/mgpu.rs"]
mod mgpu_scenes;

#[path = "../../engine/benches/scenes/cross_quota.rs"]
mod cross_quota_scenes;

use std::hint::black_box;

use crds::configuration::Configuration;
use divan::Bencher;
use engine::decide::extender::{filter, prioritize, read};
use operator::extender::wire::{Args, prioritized};
use serde_json::json;

use world::{Object, World, bare_pod, pod};

fn main() {
    divan::main();
}

/// Nodes with eight cards of which each is in use differently, and a pod that takes a part of one.
fn mgpu_cluster(nodes: usize) -> World {
    let parsed = Configuration::parse(None, Some("enforceMGPU: extender")).unwrap();
    mgpu_scenes::cluster(parsed.configuration.into(), nodes)
}

/// The same cluster, whose scheduler asks, and what it sends: the pod and all nodes.
fn mgpu_asked(nodes: usize) -> (World, Vec<u8>) {
    let pod: serde_json::Value = pod("asks").share(30, 3000).ungated().read();
    let names: Vec<_> = (0..nodes).map(|index| format!("node-{index:04}")).collect();
    let body = serde_json::to_vec(&json!({"Pod": pod, "Nodes": null, "NodeNames": names})).unwrap();
    (mgpu_cluster(nodes), body)
}

/// A filter request, from its bytes to the bytes of its answer.
#[divan::bench(args = [5_000])]
fn mgpu_filter(bencher: Bencher<'_, '_>, nodes: usize) {
    let (mut world, body) = mgpu_asked(nodes);
    bencher.bench_local(|| {
        let args = Args::read(black_box(&body)).unwrap();
        let candidate = read(&mut world.cluster, args.pod());
        let filtered = filter(&mut world.cluster, &candidate, &args.names().unwrap());
        assert_eq!(filtered.refused.len(), 0);
        args.filtered(&filtered.refused).unwrap()
    });
}

/// A prioritize request, from its bytes to the bytes of its answer.
#[divan::bench(args = [5_000])]
fn mgpu_prioritize(bencher: Bencher<'_, '_>, nodes: usize) {
    let (mut world, body) = mgpu_asked(nodes);
    bencher.bench_local(|| {
        let args = Args::read(black_box(&body)).unwrap();
        let candidate = read(&mut world.cluster, args.pod());
        let names = args.names().unwrap();
        let scores = prioritize(&world.cluster, &candidate, &names);
        assert!(scores.iter().all(|score| *score > 0));
        prioritized(&names, &scores).unwrap()
    });
}

fn batch() -> Object {
    bare_pod("asks").requests("cpu", "4").requests("memory", "8Gi")
}

fn body(nodes: usize) -> Vec<u8> {
    let names: Vec<_> = (0..nodes).map(|number| format!("gpu-{number:05}")).collect();
    let pod: serde_json::Value = batch().read();
    serde_json::to_vec(&json!({"Pod": pod, "Nodes": null, "NodeNames": names})).unwrap()
}

/// A filter request, from its bytes to the bytes of its answer.
#[divan::bench(args = [5_000])]
fn cross_quota_filter(bencher: Bencher<'_, '_>, nodes: usize) {
    let (mut world, body) = (cross_quota_scenes::gpu_nodes(nodes), body(nodes));
    bencher.bench_local(|| {
        let args = Args::read(black_box(&body)).unwrap();
        let candidate = read(&mut world.cluster, args.pod());
        let filtered = filter(&mut world.cluster, &candidate, &args.names().unwrap());
        args.filtered(&filtered.refused).unwrap()
    });
}

/// A prioritize request, from its bytes to the bytes of its answer.
#[divan::bench(args = [5_000])]
fn cross_quota_prioritize(bencher: Bencher<'_, '_>, nodes: usize) {
    let (mut world, body) = (cross_quota_scenes::gpu_nodes(nodes), body(nodes));
    bencher.bench_local(|| {
        let args = Args::read(black_box(&body)).unwrap();
        let candidate = read(&mut world.cluster, args.pod());
        let names = args.names().unwrap();
        prioritized(&names, &prioritize(&world.cluster, &candidate, &names)).unwrap()
    });
}
