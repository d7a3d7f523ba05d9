//! One pod's review from bytes to bytes, without the network: read, judge, write. One core.

#[path = "../tests/door/common/mod.rs"]
mod common;
mod fixture;

use std::hint::black_box;

use crds::keys::{CARD_NAME, QUEUE_NAME};
use divan::Bencher;
use divan::counter::BytesCount;
use webhook::endpoint::Endpoint;

use common::World;

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

fn bench(bencher: Bencher<'_, '_>, endpoint: Endpoint, annotations: &[(&str, &str)], patched: bool) {
    let world = World::new();
    let body = fixture::review_of_4_kb(annotations);
    let answered = world.answer(endpoint, &body);
    assert_eq!(String::from_utf8_lossy(&answered.body).contains("patch"), patched);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| world.answer(endpoint, black_box(&body)));
}

/// A managed pod, held by a patch.
#[divan::bench]
fn mutate_a_managed_pod(bencher: Bencher<'_, '_>) {
    bench(
        bencher,
        Endpoint::Mutate,
        &[(CARD_NAME, "NVIDIA-A100|NVIDIA-H100"), (QUEUE_NAME, "team-a")],
        true,
    );
}

/// A managed pod that gets the default queue, after its namespace was looked at.
#[divan::bench]
fn mutate_a_managed_pod_without_a_queue(bencher: Bencher<'_, '_>) {
    bench(bencher, Endpoint::Mutate, &[(CARD_NAME, "NVIDIA-A100")], true);
}

/// A managed pod, judged without being written on.
#[divan::bench]
fn validate_a_managed_pod(bencher: Bencher<'_, '_>) {
    bench(
        bencher,
        Endpoint::Validate,
        &[(CARD_NAME, "NVIDIA-A100"), (QUEUE_NAME, "team-a")],
        false,
    );
}

/// A pod that requests a card and does not name it: one warning.
#[divan::bench]
fn mutate_a_pod_that_is_not_managed(bencher: Bencher<'_, '_>) {
    bench(bencher, Endpoint::Mutate, &[], false);
}

/// Only reading the review.
#[divan::bench]
fn read_the_review(bencher: Bencher<'_, '_>) {
    let body = fixture::review_of_4_kb(&[(CARD_NAME, "NVIDIA-A100")]);
    bencher.counter(BytesCount::new(body.len())).bench_local(|| {
        let request =
            webhook::review::parse::<crds::pod::Pod<crds::lean::Text<'_>>, serde::de::IgnoredAny>(black_box(&body));
        request.map(|request| request.uid().len())
    });
}
