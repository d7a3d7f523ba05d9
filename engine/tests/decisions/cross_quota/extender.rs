//! Schedulers that ask: whatever node they take, no GPU node comes above its quota.

use engine::decide::extender::{Filtered, assume, filter, look, prioritize, read};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::devices::{NVIDIA, claiming, request};

fn extended(arguments: &str) -> World {
    World::with(configuration(arguments, "enforceCrossQuota: extender"))
}

fn names(count: usize) -> Vec<Box<str>> {
    (1..=count).map(|number| format!("gpu-{number}").into()).collect()
}

/// Asks as a scheduler does, and takes note of the answer.
pub(super) fn ask(world: &mut World, pod: &Object, nodes: &[Box<str>]) -> Filtered {
    let candidate = read(&mut world.cluster, pod.read());
    let filtered = filter(&mut world.cluster, &candidate, nodes);
    assume(&mut world.cluster, &candidate, filtered.clone(), world.now);
    filtered
}

fn refused(filtered: &Filtered) -> Vec<(usize, String)> {
    let refused = filtered.refused.iter();
    refused.map(|(place, refusal)| (*place, refusal.to_string())).collect()
}

fn scores(world: &mut World, pod: &Object, nodes: &[Box<str>]) -> Vec<i64> {
    let candidate = read(&mut world.cluster, pod.read());
    prioritize(&world.cluster, &candidate, nodes)
}

#[test]
fn predicate_function_example_as_a_refusal_per_node() {
    let mut world = extended("quota-resources: \"cpu,memory\", quota.cpu: 32, quota.memory: 64Gi");
    for (name, cores) in [("gpu-1", "28"), ("gpu-2", "20")] {
        world.node(&gpu_node(name));
        let held = bare_pod(&format!("on-{name}"))
            .requests("cpu", cores)
            .requests("memory", "50Gi");
        world.pod(&held.on(name));
    }
    world.node(&node("cpu-1"));
    let nodes: [Box<str>; 3] = ["cpu-1".into(), "gpu-2".into(), "gpu-1".into()];
    let pod = bare_pod("p").requests("cpu", "6").requests("memory", "10Gi");
    let filtered = ask(&mut world, &pod, &nodes);
    assert_eq!(
        refused(&filtered),
        [(2, "cpu quota exceeded: asked 6, used 28, quota 32".to_owned())]
    );
    assert!(!filtered.unsettled);
    let memory = bare_pod("q").requests("cpu", "1").requests("memory", "15Gi");
    let filtered = ask(&mut world, &memory, &nodes);
    let expected = "memory quota exceeded: asked 15Gi, used 50Gi, quota 64Gi";
    assert_eq!(refused(&filtered)[1], (2, expected.to_owned()));
}

/// A GPU node may have joined this moment, and its quota is not known.
#[test]
fn a_node_that_has_not_been_seen_takes_nobody_whom_quotas_concern() {
    let mut world = extended("quota.cpu: 4");
    let nodes: [Box<str>; 1] = ["gpu-1".into()];
    let pod = bare_pod("p").requests("cpu", "6");
    let filtered = ask(&mut world, &pod, &nodes);
    assert_eq!(
        refused(&filtered),
        [(0, "Cardgate has not seen the node yet".to_owned())]
    );
    assert!(filtered.unsettled, "worth waiting for");
    // A pod that runs there, such as one of a DaemonSet, may be seen before the node.
    world.pod(&bare_pod("agent").controlled_by("DaemonSet", "agent").on("gpu-1"));
    assert_eq!(ask(&mut world, &pod, &nodes), filtered);
    assert_eq!(refused(&ask(&mut world, &pod.clone().requests(GPU, "1"), &nodes)), []);
    world.node(&gpu_node("gpu-1"));
    let expected = "cpu quota exceeded: asked 6, used 1, quota 4";
    assert_eq!(refused(&ask(&mut world, &pod, &nodes)), [(0, expected.to_owned())]);
}

#[test]
fn whom_quotas_do_not_concern_is_refused_nowhere() {
    let mut world = extended("quota.cpu: 0, label-selector: app!=free");
    world.node(&gpu_node("gpu-1"));
    let big = |name: &str| bare_pod(name).requests("cpu", "9");
    world.claim(
        "gpu",
        &json!([{"name": "r", "exactly": request("gpus", 1, None)}]),
        &json!({}),
    );
    world.claim("empty", &json!([]), &json!({}));
    for pod in [big("p"), claiming(big("empty"), "empty")] {
        assert_eq!(refused(&ask(&mut world, &pod, &names(1))).len(), 1);
    }
    for pod in [
        big("gpu").requests(GPU, "1"),
        claiming(big("claim"), "gpu"),
        big("daemon").controlled_by("DaemonSet", "agent"),
        big("static").annotation("kubernetes.io/config.mirror", "abc"),
        big("system").namespace("kube-system"),
        big("operator").namespace("cardgate-system"),
        big("free").label("app", "free"),
    ] {
        assert_eq!(refused(&ask(&mut world, &pod, &names(1))), []);
    }
    let gating = configuration("quota.cpu: 0", "");
    world.set_configuration(gating, world.now);
    assert_eq!(refused(&ask(&mut world, &big("gated"), &names(1))), []);
}

#[test]
fn a_pod_counts_on_every_node_that_it_may_go_to_until_it_is_bound() {
    let mut world = extended("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    world.node(&gpu_node("gpu-2"));
    let (first, second) = (bare_pod("a").requests("cpu", "3"), bare_pod("b").requests("cpu", "3"));
    assert_eq!(refused(&ask(&mut world, &first, &names(2))), []);
    let filtered = ask(&mut world, &second, &names(2));
    let expected = "cpu quota exceeded: asked 3, used 0, being placed 3, quota 4";
    assert_eq!(refused(&filtered), [(0, expected.to_owned()), (1, expected.to_owned())]);
    assert!(filtered.unsettled, "worth waiting for");
    // Asked again about the same pod, it is not in its own way.
    assert_eq!(refused(&ask(&mut world, &first, &names(2))), []);
    world.pod(&first.on("gpu-1"));
    let filtered = ask(&mut world, &second, &names(2));
    assert_eq!(
        refused(&filtered),
        [(0, "cpu quota exceeded: asked 3, used 3, quota 4".to_owned())]
    );
}

/// Volcano looks at many pods before it binds one of them, and says which node it allocates.
#[test]
fn a_look_counts_for_nothing_and_what_is_allocated_counts_there_alone() {
    let mut world = extended("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    world.node(&gpu_node("gpu-2"));
    let (first, second) = (bare_pod("a").requests("cpu", "3"), bare_pod("b").requests("cpu", "3"));
    let looked = |world: &mut World, pod: &Object| {
        let candidate = read(&mut world.cluster, pod.read());
        refused(&look(&world.cluster, &candidate, &names(2)))
    };
    assert_eq!(looked(&mut world, &first), []);
    assert_eq!(world.cluster.gpu_nodes().count_assumed(), 0);
    assert_eq!(refused(&ask(&mut world, &first, &names(1))), [], "allocated to gpu-1");
    assert_eq!(
        looked(&mut world, &first),
        [],
        "not in its own way, and still allocated"
    );
    let placed = "cpu quota exceeded: asked 3, used 0, being placed 3, quota 4".to_owned();
    assert_eq!(looked(&mut world, &second), [(0, placed)]);
    ask(&mut world, &first, &[]);
    assert_eq!(looked(&mut world, &second), [], "given up");
}

#[test]
fn a_pod_that_is_gone_or_never_bound_counts_no_more() {
    let mut world = extended("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    for end in [(|world: &mut World| world.remove_pod("a")) as fn(&mut World), |world| {
        world.wait(120);
        world.cluster.expire_assumed(world.now);
    }] {
        ask(&mut world, &bare_pod("a").requests("cpu", "3"), &names(1));
        assert_eq!(world.cluster.gpu_nodes().count_assumed(), 1);
        end(&mut world);
        assert_eq!(world.cluster.gpu_nodes().count_assumed(), 0);
        assert_eq!(
            refused(&ask(&mut world, &bare_pod("b").requests("cpu", "3"), &names(1))),
            []
        );
        world.remove_pod("b");
    }
}

/// kube-scheduler waits for them before it binds.
#[test]
fn a_pod_counts_for_longer_while_its_volumes_are_made() {
    for volume in [
        json!({"persistentVolumeClaim": {"claimName": "c"}}),
        json!({"ephemeral": {"volumeClaimTemplate": {}}}),
    ] {
        let mut world = extended("quota.cpu: 4");
        world.node(&gpu_node("gpu-1"));
        let first = bare_pod("a")
            .requests("cpu", "3")
            .set(["spec", "volumes"], json!([{"emptyDir": {}}, volume]));
        ask(&mut world, &first, &names(1));
        for (seconds, counts) in [(600, 1), (120, 0)] {
            world.wait(seconds);
            world.cluster.expire_assumed(world.now);
            assert_eq!(world.cluster.gpu_nodes().count_assumed(), counts);
        }
    }
}

#[test]
fn a_pod_let_in_by_its_queue_is_not_in_its_own_way() {
    let mut world = extended("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    world.queue(&queue("team-a"));
    let queued = pod("a").requests("cpu", "3");
    world.pod(&queued);
    assert_eq!(world.admit_names(), ["a"]);
    world.pod(&queued.clone().ungated());
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 4_000), "only expected there");
    assert_eq!(refused(&ask(&mut world, &queued.clone().ungated(), &names(1))), []);
    assert_eq!(
        scores(&mut world, &queued.ungated(), &names(1)),
        [8],
        "3/4 of 10, rounded"
    );
}

/// A node that the pod would overfill is the fullest of all, and no better for it.
#[test]
fn a_node_whose_quota_a_pod_would_exceed_has_no_score() {
    let mut world = extended("quota.cpu: 4");
    for name in ["gpu-1", "gpu-2"] {
        world.node(&gpu_node(name));
    }
    world.pod(&bare_pod("there").requests("cpu", "2").on("gpu-1"));
    assert_eq!(
        scores(&mut world, &bare_pod("a").requests("cpu", "2"), &names(2)),
        [10, 5]
    );
    assert_eq!(
        scores(&mut world, &bare_pod("a").requests("cpu", "3"), &names(2)),
        [0, 8]
    );
    assert_eq!(
        scores(&mut world, &bare_pod("a").requests("cpu", "4000"), &names(2)),
        [0, 0]
    );
}

#[test]
fn only_what_is_bound_or_being_placed_counts_however_many_are_let_in() {
    let mut world = extended("quota.cpu: 4");
    for name in ["gpu-1", "gpu-2"] {
        world.node(&gpu_node(name));
    }
    world.queue(&queue("team-a"));
    let pods = ["a", "b", "c", "d"].map(|name| pod(name).requests("cpu", "3"));
    world.pods(pods.clone());
    assert_eq!(
        world.admit_names(),
        ["a", "b", "c", "d"],
        "quotas of nodes are the scheduler's to ask for"
    );
    let [a, b, c, d] = pods.map(Object::ungated);
    for pod in [&a, &b, &c, &d] {
        world.pod(pod);
    }
    assert_eq!(
        refused(&ask(&mut world, &a, &names(2))),
        [],
        "none is placed, so none stands in its way"
    );
    world.pod(&a.on("gpu-1"));
    let full = |place| (place, "cpu quota exceeded: asked 3, used 3, quota 4".to_owned());
    assert_eq!(refused(&ask(&mut world, &b, &names(2))), [full(0)]);
    world.pod(&b.on("gpu-2"));
    for pod in [&c, &d] {
        assert_eq!(refused(&ask(&mut world, pod, &names(2))), [full(0), full(1)]);
    }
    // Under gating what is let in counts where it is expected; both ways it is counted anew.
    let gating = configuration("quota.cpu: 4", "enforceCrossQuota: gating");
    world.set_configuration(gating, world.now);
    let used = |world: &World| line(&world.cluster, "gpu-1").0 + line(&world.cluster, "gpu-2").0;
    assert_eq!(used(&world), 12_000);
    world.set_configuration(configuration("quota.cpu: 4", "enforceCrossQuota: extender"), world.now);
    assert_eq!(used(&world), 6_000);
    for name in ["a", "b", "c", "d"] {
        world.remove_pod(name);
    }
    assert_eq!(used(&world), 0);
}

#[test]
fn scores_are_the_documents_and_ask_for_nothing() {
    let mut world =
        extended("quota-resources: \"cpu,memory\", quota.cpu: 32, quota.memory: 64Gi, crossQuotaWeight: 1000");
    world.node(&gpu_node("gpu-1"));
    world.node(&node("cpu-1"));
    world.pod(
        &bare_pod("held")
            .requests("cpu", "24")
            .requests("memory", "40Gi")
            .on("gpu-1"),
    );
    let nodes: [Box<str>; 3] = ["gpu-1".into(), "cpu-1".into(), "unknown".into()];
    let pod = bare_pod("p").requests("cpu", "4").requests("memory", "8Gi");
    assert_eq!(scores(&mut world, &pod, &nodes), [864, 0, 0]);
    ask(&mut world, &pod, &nodes);
    assert_eq!(
        scores(&mut world, &pod, &nodes),
        [864, 0, 0],
        "its own assumption counts once"
    );
    let least = pod.annotation("volcano.sh/crossquota-scoring-strategy", "least-allocated");
    assert_eq!(scores(&mut world, &least, &nodes), [136, 0, 0]);
}

#[test]
fn node_ordering_of_the_capacity_card_document_is_added() {
    let mut world = World::new();
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.node(&node("b").cards("NVIDIA-H100", 8));
    let pod = bare_pod("p").queue("team-a").asks("NVIDIA-H100|NVIDIA-A100", 1);
    let nodes: [Box<str>; 2] = ["a".into(), "b".into()];
    assert_eq!(scores(&mut world, &pod, &nodes), [50, 100]);
    let twice = crate::world::configuration("nodeOrderWeight: 2.0", "");
    world.set_configuration(twice, world.now);
    assert_eq!(
        scores(&mut world, &pod, &nodes),
        [100, 200],
        "**Node Scoring** with weight 2.0"
    );
    let single = bare_pod("q").queue("team-a").asks("NVIDIA-H100", 1);
    assert_eq!(scores(&mut world, &single, &nodes), [0, 0], "no priority preference");
}

/// What schedulers and others do.
#[derive(Debug, Clone)]
enum Step {
    /// A scheduler asks about a pod, and takes this one of the nodes that are left to it.
    Ask(usize, u8, usize),
    /// The watch shows that a pod is bound to the node that was taken.
    Bind(usize),
    Leave(usize),
    /// A queue lets a pod in with so many cores, which its scheduler does not place yet.
    LetIn(u8),
    Raise(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8_usize, 1..4_u8, 0..3_usize).prop_map(|(pod, cores, node)| Step::Ask(pod, cores, node)),
        4 => (0..8_usize).prop_map(Step::Bind),
        2 => (0..8_usize).prop_map(Step::Leave),
        2 => (1..4_u8).prop_map(Step::LetIn),
        1 => (0..3_usize).prop_map(Step::Raise),
        1 => Just(Step::Restart),
    ]
}

#[derive(Debug, Clone)]
struct Placed {
    pod: Object,
    cores: u8,
    node: usize,
    bound: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// Any number of schedulers ask before any of their bindings is seen; what they take never adds up to more than a quota.
    #[test]
    fn concurrent_schedulers_never_oversell(steps in proptest::collection::vec(step(), 1..50)) {
        let mut quotas = [4_u32, 3, 2];
        let gpu = |quotas: &[u32; 3], number: usize| gpu_node(&format!("gpu-{}", number + 1))
            .annotation("volcano.sh/crossquota-cpu", &quotas[number].to_string());
        let mut world = extended("quota.cpu: 1");
        (0..3).for_each(|number| world.node(&gpu(&quotas, number)));
        world.queue(&queue("team-a"));
        let mut pods: Vec<Option<Placed>> = vec![None; 8];
        for (generation, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask(place, cores, choice) if pods[place].is_none() => {
                    let pod = bare_pod(&format!("p{place}-{generation}")).requests("cpu", &cores.to_string());
                    let filtered = ask(&mut world, &pod, &names(3));
                    if pods.iter().flatten().all(|placed| placed.bound) {
                        // Nobody else is being placed: refused where the quota is really in use, and nowhere else.
                        let taken = |node| pods.iter().flatten().filter(move |placed| placed.node == node);
                        let taken = |node| taken(node).map(|placed| u32::from(placed.cores)).sum::<u32>();
                        let over = (0..3).filter(|node| taken(*node) + u32::from(cores) > quotas[*node]);
                        let over: Vec<_> = over.collect();
                        let out: Vec<_> = filtered.refused.iter().map(|(place, _)| *place).collect();
                        prop_assert_eq!(out, over);
                    }
                    let out: Vec<_> = filtered.refused.iter().map(|(place, _)| *place).collect();
                    let left: Vec<_> = (0..3).filter(|node| !out.contains(node)).collect();
                    if !left.is_empty() {
                        let node = left[choice % left.len()];
                        pods[place] = Some(Placed { pod, cores, node, bound: false });
                    }
                }
                Step::Bind(place) => if let Some(placed) = &mut pods[place] {
                    placed.bound = true;
                    world.pod(&placed.pod.clone().on(&format!("gpu-{}", placed.node + 1)));
                },
                Step::Leave(place) => if let Some(placed) = pods[place].take() {
                    let pod: serde_json::Value = placed.pod.read();
                    world.remove_pod(pod["metadata"]["uid"].as_str().unwrap());
                },
                Step::LetIn(cores) => {
                    let queued = pod(&format!("q{generation}")).requests("cpu", &cores.to_string());
                    world.pod(&queued);
                    prop_assert_eq!(world.admit().len(), 1);
                    world.pod(&queued.ungated());
                }
                Step::Raise(number) => {
                    quotas[number] += 1;
                    world.node(&gpu(&quotas, number));
                }
                // Bindings that are under way are seen before the first question to the next leader.
                Step::Restart => {
                    world = extended("quota.cpu: 1");
                    world.queue(&queue("team-a"));
                    (0..3).for_each(|number| world.node(&gpu(&quotas, number)));
                    for placed in pods.iter_mut().flatten() {
                        placed.bound = true;
                        world.pod(&placed.pod.clone().on(&format!("gpu-{}", placed.node + 1)));
                    }
                }
                Step::Ask(..) => {}
            }
            for (number, quota) in quotas.iter().enumerate() {
                let there = |placed: &&Placed| placed.node == number;
                let taken: u32 = pods.iter().flatten().filter(there).map(|placed| u32::from(placed.cores)).sum();
                prop_assert!(taken <= *quota, "gpu-{} has {} of {}", number + 1, taken, quota);
                let bound: u32 = pods.iter().flatten().filter(there).filter(|placed| placed.bound)
                    .map(|placed| u32::from(placed.cores)).sum();
                let used = line(&world.cluster, &format!("gpu-{}", number + 1)).0;
                prop_assert_eq!(used, i128::from(bound) * 1000);
            }
        }
        let unbound = pods.iter().flatten().filter(|placed| !placed.bound).count();
        prop_assert_eq!(world.cluster.gpu_nodes().count_assumed(), unbound, "nothing is assumed for ever");
    }
}

/// By a claim it was none before.
#[test]
fn a_pod_that_requests_devices_by_a_class_is_none_without_gpu() {
    let mut world = extended("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    world.class(NVIDIA, "device.driver == 'gpu.nvidia.com'", None);
    let asks = bare_pod("p").requests("cpu", "6");
    assert_eq!(refused(&ask(&mut world, &asks, &names(1))).len(), 1);
    let asks = asks.requests(&format!("deviceclass.resource.kubernetes.io/{NVIDIA}"), "1");
    assert_eq!(refused(&ask(&mut world, &asks, &names(1))), []);
}
