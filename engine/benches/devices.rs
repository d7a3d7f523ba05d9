//! What events of devices and claims cost, and whether that grows with the cluster. One core, without the API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a scene that can't be set is to end the benchmark"
)]

#[path = "../tests/decisions/world/mod.rs"]
#[expect(dead_code, reason = "the language of the tests, of which benchmarks need a part")]
mod world;

use divan::Bencher;
use serde_json::{Value, json};

use world::{GPU, Object, World, bare_pod, configuration, node, pod, queue};

fn main() {
    divan::main();
}

/// Selects the device of each node that is given away.
const GIVEN_AWAY: &str = "device.attributes['gpu.nvidia.com'].index == 0";
const NVIDIA: &str = "gpu.nvidia.com";
const SIZES: [usize; 2] = [100, 5_000];

/// Eight devices of a node, as NVIDIA's driver publishes them.
fn devices(node: usize, product: &str) -> Value {
    let device = |index: usize| {
        json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"}, "productName": {"string": product},
            "index": {"int": index}, "uuid": {"string": format!("GPU-{node}-{index}")}, "driverVersion": {"version": "570.86.15"}},
            "capacity": {"memory": {"value": "80Gi"}}})
    };
    (0..8).map(device).collect()
}

fn name_of(node: usize) -> String {
    format!("node-{node:04}")
}

fn selectors(more: &[&str]) -> Value {
    let expressions = more.iter();
    expressions.map(|text| json!({"cel": {"expression": text}})).collect()
}

fn requests(count: usize, more: &[&str]) -> Value {
    json!([{"name": "r", "exactly": {"deviceClassName": NVIDIA, "count": count, "selectors": selectors(more)}}])
}

fn given(node: usize, index: usize) -> Value {
    let device = format!("gpu-{index}");
    json!({"allocation": {"devices": {"results": [{"request": "r", "driver": NVIDIA, "pool": name_of(node), "device": device}]}}})
}

fn claiming(pod: Object, claim: &str) -> Object {
    pod.set(
        ["spec", "resourceClaims"],
        json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]),
    )
    .set(
        ["status", "resourceClaimStatuses"],
        json!([{"name": "gpu", "resourceClaimName": claim}]),
    )
}

fn empty() -> World {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    let is_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    world.class(NVIDIA, is_gpu, Some(GPU));
    world.queue(&queue("team-a").quota(r#"{"A": 1000000, "B": 1000000}"#));
    world
}

/// So many nodes of eight devices, one of which a running pod has on each, and a tenth as many waiting for what there is not.
fn cluster(nodes: usize) -> World {
    cluster_with(nodes, nodes / 10)
}

/// The same with so many that wait.
fn cluster_with(nodes: usize, waiting: usize) -> World {
    let mut world = empty();
    for index in 0..nodes {
        world.node(&node(&name_of(index)));
        world.slice(&name_of(index), NVIDIA, &devices(index, "A"));
        let (name, claim) = (format!("p{index}"), format!("c{index}"));
        world.claim(&claim, &requests(1, &[]), &given(index, 0));
        world.pod(
            &claiming(
                bare_pod(&name)
                    .queue("team-a")
                    .annotation("volcano.sh/card.assigned", "A"),
                &claim,
            )
            .on(&name_of(index)),
        );
    }
    for index in 0..waiting {
        let (name, claim) = (format!("w{index}"), format!("wc{index}"));
        world.claim(&claim, &requests(9, &[]), &json!({}));
        world.pod(&claiming(pod(&name), &claim));
    }
    assert!(world.decide().is_empty());
    world
}

/// A slice says that a device is tainted, and that it is well again.
#[divan::bench(args = SIZES, sample_count = 20, sample_size = 10)]
fn a_slice_changes(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = cluster(nodes);
    let well = devices(7, "A");
    let mut sick = well.clone();
    sick[3]["taints"] = json!([{"key": "sick", "effect": "NoSchedule"}]);
    bencher.bench_local(|| {
        world.slice(&name_of(7), NVIDIA, &sick);
        world.slice(&name_of(7), NVIDIA, &well);
    });
}

/// The same, where administrators have tainted a device of each of so many other nodes.
#[divan::bench(args = SIZES, sample_count = 20, sample_size = 10)]
fn a_slice_changes_beside_taint_rules(bencher: Bencher<'_, '_>, rules: usize) {
    let mut world = cluster(100);
    for index in 0..rules {
        let selector = json!({"driver": NVIDIA, "pool": format!("other-{index}"), "device": "gpu-0"});
        world.taint_rule(&format!("r{index}"), &selector, "NoSchedule");
    }
    let (before, after) = (devices(7, "A"), devices(8, "A"));
    bencher.bench_local(|| {
        world.slice(&name_of(7), NVIDIA, &after);
        world.slice(&name_of(7), NVIDIA, &before);
    });
}

/// A device is allocated to a claim, and given back.
#[divan::bench(args = SIZES, sample_count = 20, sample_size = 10)]
fn a_claim_changes(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = cluster(nodes);
    bencher.bench_local(|| {
        world.claim("more", &requests(1, &[]), &given(7, 5));
        world.claim("more", &requests(1, &[]), &json!({}));
    });
}

/// A model of devices comes that was not there before, and goes: whoever waits and could have it is read again, and nobody else.
#[divan::bench(args = [(100, 10), (5_000, 10), (5_000, 500)], sample_count = 5, sample_size = 2)]
fn a_model_comes_and_goes(bencher: Bencher<'_, '_>, (nodes, waiting): (usize, usize)) {
    let mut world = cluster_with(nodes, waiting);
    let (before, new) = (devices(7, "A"), devices(7, "B"));
    bencher.bench_local(|| {
        world.slice(&name_of(7), NVIDIA, &new);
        world.slice(&name_of(7), NVIDIA, &before);
    });
}

/// A pod comes, is let in on a node of its own choice, and goes.
#[divan::bench(args = SIZES, sample_count = 10, sample_size = 2)]
fn a_pod_is_let_in(bencher: Bencher<'_, '_>, nodes: usize) {
    let mut world = cluster(nodes);
    let first = ["device.attributes['gpu.nvidia.com'].index == 5"];
    bencher.bench_local(|| {
        world.claim("more", &requests(1, &first), &json!({}));
        world.pod(&claiming(pod("more"), "more"));
        assert_eq!(world.decide().len(), 1);
        world.remove_pod("more");
        world.remove_claim("more");
    });
}

/// A pod asks for the one device that all nodes have given away: each is asked.
#[divan::bench(args = SIZES, sample_count = 5, sample_size = 1)]
fn a_pod_that_no_node_takes(bencher: Bencher<'_, '_>, nodes: usize) {
    keep_out(bencher, nodes, &[GIVEN_AWAY]);
}

/// The same with selectors of so many characters, which are asked of each of 800 devices: it takes no longer with long ones.
#[divan::bench(args = [10, 10_000], sample_count = 10, sample_size = 2)]
fn a_pod_with_long_selectors(bencher: Bencher<'_, '_>, length: usize) {
    let long = ["a", "b", "c"].map(|letter| format!("device.driver != '{}'", letter.repeat(length)));
    let selectors: Vec<_> = long.iter().map(|text| &**text).chain([GIVEN_AWAY]).collect();
    keep_out(bencher, 100, &selectors);
}

/// Pods come one after the other that no node takes.
fn keep_out(bencher: Bencher<'_, '_>, nodes: usize, selectors: &[&str]) {
    let mut world = cluster(nodes);
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let name = format!("more-{number}");
        world.claim(&name, &requests(1, selectors), &json!({}));
        world.pod(&claiming(pod(&name), &name));
        assert!(world.decide().is_empty());
        world.remove_pod(&name);
        world.remove_claim(&name);
    });
}

/// So many pods of one namespace, each of which names the same 64 claims, for more than there is quota for.
fn sharers(pods: usize) -> World {
    let mut world = cluster(100);
    let claims: Vec<_> = (0..64).map(|index| format!("shared-{index}")).collect();
    for claim in &claims {
        world.claim(claim, &requests(9, &[]), &json!({}));
    }
    let named = claims
        .iter()
        .map(|claim| json!({"name": claim, "resourceClaimName": claim}));
    let named: Value = named.collect();
    for index in 0..pods {
        world.pod(&pod(&format!("s{index:05}")).set(["spec", "resourceClaims"], named.clone()));
    }
    assert!(world.decide().is_empty());
    world
}

/// One of many claims that many pods share comes to something else: all of them are read anew.
#[divan::bench(args = [20, 200, 2_000], sample_count = 5, sample_size = 2)]
fn a_claim_changes_that_many_share(bencher: Bencher<'_, '_>, pods: usize) {
    let mut world = sharers(pods);
    let mut count = 9;
    bencher.bench_local(|| {
        count += 1;
        world.claim("shared-0", &requests(count, &[]), &json!({}));
    });
}

/// Who is to pay for what many share goes: the next one is.
#[divan::bench(args = [20, 200, 2_000], sample_count = 4, sample_size = 2)]
fn a_payer_goes(bencher: Bencher<'_, '_>, pods: usize) {
    let mut world = sharers(pods);
    let mut number = 0;
    bencher.bench_local(|| {
        world.remove_pod(&format!("s{number:05}"));
        number += 1;
    });
}

/// Who pays for what many share runs already when an operator begins, and is seen again and again.
#[divan::bench(args = [20, 200, 2_000], sample_count = 5, sample_size = 4)]
fn a_payer_is_seen_again(bencher: Bencher<'_, '_>, pods: usize) {
    let mut world = sharers(pods);
    let named =
        (0..64).map(|index| json!({"name": format!("shared-{index}"), "resourceClaimName": format!("shared-{index}")}));
    let payer = bare_pod("payer")
        .queue("team-a")
        .created(1)
        .set(["spec", "resourceClaims"], named.collect::<Value>());
    let mut grace = 0;
    bencher.bench_local(|| {
        grace += 1;
        world.pod(
            &payer
                .clone()
                .set(["spec", "terminationGracePeriodSeconds"], grace)
                .on(&name_of(7)),
        );
    });
}

/// All there is of 5,000 nodes is taken in.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn taken_in_at_the_start(bencher: Bencher<'_, '_>) {
    let slices: Vec<_> = (0..5_000).map(|index| (name_of(index), devices(index, "A"))).collect();
    let nodes: Vec<_> = slices.iter().map(|(name, _)| node(name)).collect();
    bencher.with_inputs(empty).bench_local_values(|mut world| {
        for ((name, devices), node) in slices.iter().zip(&nodes) {
            world.node(node);
            world.slice(name, NVIDIA, devices);
        }
        world
    });
}
