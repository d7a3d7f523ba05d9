//! The `CrossQuota` document under gating (docs/rules.md, **CrossQuota**).

mod claims;
mod extender;
mod limits;
mod properties;
mod reclaim;
mod shown;

use std::sync::Arc;

use crds::configuration::Configuration;
use engine::cluster::Cluster;

use crate::world::{GPU, Object, World, bare_pod, node, pod, queue};

/// The label of GPU nodes.
const GPU_NODE: &str = "card.volcano.sh/gpu-node";

/// A configuration with these arguments of the plugin, beside GPUs that are NVIDIA's, and this `cardgate.yaml`.
fn configuration(arguments: &str, cardgate: &str) -> Arc<Configuration> {
    let conf = format!(
        "tiers: [{{plugins: [{{name: capacity-card}}, {{name: crossquota, arguments: {{gpu-resource-names: nvidia.com/gpu, {arguments}}}}}]}}]"
    );
    let parsed = Configuration::parse(Some(&conf), Some(cardgate)).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    Arc::new(parsed.configuration)
}

fn world(arguments: &str) -> World {
    World::with(configuration(arguments, ""))
}

/// A node with 8 GPUs, 64 cores and 512 GiB, and the label that the operator gives it.
fn gpu_node(name: &str) -> Object {
    node(name).offers(GPU, "8").label(GPU_NODE, "true")
}

/// Three nodes, of which pods without GPU may have 8 cores each.
fn three_gpu_nodes() -> World {
    let mut world = world("quota.cpu: 8");
    for name in ["gpu-1", "gpu-2", "gpu-3"] {
        world.node(&gpu_node(name));
    }
    world
}

/// A pod as the door leaves it in a namespace that opted in.
fn batch(name: &str) -> Object {
    bare_pod(name)
        .label("card.volcano.sh/crossquota", "enabled")
        .gates(&["card.volcano.sh/quota"])
}

fn cpu(name: &str, cores: &str) -> Object {
    batch(name).requests("cpu", cores)
}

/// The node that the one pod that is let in is pinned to.
#[track_caller]
fn pinned(world: &mut World) -> String {
    let admissions = world.admissions();
    let [admission] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    assert_eq!(admission.off_gpu_nodes, None);
    admission.pin.as_ref().unwrap().node.to_string()
}

/// What pods without GPU hold of the first limited resource of a node, and may hold.
fn line(cluster: &Cluster, name: &str) -> (i128, i64) {
    let node = cluster.node_named(name).unwrap();
    let line = cluster.gpu_nodes().lines(node).unwrap()[0];
    (line.used, line.quota)
}

#[test]
fn story_1_batch_jobs_are_consolidated() {
    let mut world = three_gpu_nodes();
    let mut nodes = Vec::new();
    for number in 0..12 {
        world.pod(&cpu(&format!("p{number}"), "2"));
        nodes.push(pinned(&mut world));
    }
    let expected = ["gpu-1", "gpu-2", "gpu-3"].map(|node| [node; 4]).concat();
    assert_eq!(nodes, expected, "each node is full before the next is begun");
    world.pod(&cpu("late", "100m"));
    assert_eq!(world.refusal_of("late"), "CrossQuotaExceeded");
}

#[test]
fn story_2_services_are_distributed() {
    let mut world = three_gpu_nodes();
    let mut nodes = Vec::new();
    for number in 0..6 {
        let service = cpu(&format!("p{number}"), "2");
        world.pod(&service.annotation("volcano.sh/crossquota-scoring-strategy", "least-allocated"));
        nodes.push(pinned(&mut world));
    }
    assert_eq!(nodes, ["gpu-1", "gpu-2", "gpu-3", "gpu-1", "gpu-2", "gpu-3"]);
}

#[test]
fn without_order_nodes_are_filled_by_name() {
    let mut world = world("quota.cpu: 8, crossQuotaWeight: 0");
    world.node(&gpu_node("gpu-2"));
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("held", "4").on("gpu-2"));
    world.pod(&cpu("p", "2"));
    assert_eq!(pinned(&mut world), "gpu-1");
}

#[test]
fn nodes_without_gpu_go_first_and_pods_there_are_kept_off_gpu_nodes() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.node(&node("cpu-1"));
    world.pod(&cpu("first", "60"));
    let admitted = world.admissions();
    assert!(
        admitted[0].pin.is_none() && admitted[0].off_gpu_nodes.is_some(),
        "{admitted:?}"
    );
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 8_000));
    world.pod(&cpu("second", "8"));
    assert_eq!(pinned(&mut world), "gpu-1");
    assert_eq!(
        line(&world.cluster, "gpu-1"),
        (8_000, 8_000),
        "from the moment of the decision"
    );
}

#[test]
fn while_a_gpu_node_lacks_its_label_pods_are_pinned_to_nodes_without_gpu() {
    let mut world = world("quota.cpu: 8");
    world.node(&node("gpu-1").offers(GPU, "8"));
    world.node(&node("cpu-1"));
    assert_eq!(world.cluster.gpu_nodes().to_label().count(), 1);
    world.pod(&cpu("p", "1"));
    assert_eq!(pinned(&mut world), "cpu-1");
    world.node(&gpu_node("gpu-1"));
    assert_eq!(world.cluster.gpu_nodes().to_label().count(), 0);
}

#[test]
fn the_label_is_taken_from_nodes_that_have_no_gpu() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.node(&node("cpu-1").label(GPU_NODE, "true"));
    // A pod that is kept off GPU nodes could not go there.
    world.pod(&cpu("p", "1"));
    assert_eq!(pinned(&mut world), "gpu-1");
    let wrong: Vec<_> = world
        .cluster
        .gpu_nodes()
        .to_label()
        .map(|(_, is_gpu_node)| is_gpu_node)
        .collect();
    assert_eq!(wrong, [false]);
    world.node(&gpu_node("gpu-1").offers(GPU, "0"));
    let wrong: Vec<_> = world
        .cluster
        .gpu_nodes()
        .to_label()
        .map(|(_, is_gpu_node)| is_gpu_node)
        .collect();
    assert_eq!(wrong, [false, false], "zero is none");
}

#[test]
fn a_pod_that_fits_nowhere_says_which_resource_and_is_let_in_after_a_deletion() {
    let mut world = world("quota-resources: \"cpu,memory\", quota.cpu: 32, quota-percentage.memory: 12.5");
    for name in ["gpu-node-1", "gpu-node-2"] {
        world.node(&gpu_node(name).annotation("volcano.sh/crossquota-cpu", "32"));
        let held = bare_pod(&format!("on-{name}"))
            .requests("cpu", "28")
            .requests("memory", "50Gi");
        world.pod(&held.on(name));
    }
    world.node(&node("cpu-1").offers("cpu", "4"));
    world.pod(&cpu("p", "6").requests("memory", "10Gi"));
    insta::assert_snapshot!(world.refusal(), @"CrossQuotaExceeded: cpu quota exceeded on 2 of 2 GPU nodes: asked 6; most is left on gpu-node-1: used 28, quota 32 (annotation volcano.sh/crossquota-cpu); no node can take the pod now: 3 nodes: 1 without enough room");
    world.remove_pod("on-gpu-node-2");
    assert_eq!(pinned(&mut world), "gpu-node-2");
}

#[test]
fn gpu_pods_are_not_affected_and_do_not_count() {
    let mut world = world("quota.cpu: 1");
    world.node(&gpu_node("gpu-1"));
    world.node(&gpu_node("gpu-1").cards("A", 8));
    world.queue(&queue("team-a").quota(r#"{"A": 1}"#));
    world.pod(&pod("queued").requests(GPU, "1").requests("cpu", "32"));
    assert_eq!(world.admit_names(), ["queued"]);
    world.pod(&bare_pod("foreign").requests(GPU, "1").requests("cpu", "16").on("gpu-1"));
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 1_000));
}

#[test]
fn every_pod_without_gpu_counts_managed_or_not() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.pod(&bare_pod("foreign").requests("cpu", "3").on("gpu-1"));
    world.pod(
        &bare_pod("system")
            .namespace("kube-system")
            .requests("cpu", "2")
            .on("gpu-1"),
    );
    assert_eq!(line(&world.cluster, "gpu-1"), (5_000, 8_000));
    world.pod(&cpu("p", "4"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.remove_pod("system");
    assert_eq!(pinned(&mut world), "gpu-1");
    assert_eq!(line(&world.cluster, "gpu-1"), (7_000, 8_000));
}

#[test]
fn a_pods_quota_has_an_effect() {
    let mut world = world("quota-resources: pods, quota.pods: 2");
    world.node(&gpu_node("gpu-1"));
    world.pods((0..3).map(|number| batch(&format!("p{number}"))));
    assert_eq!(world.admissions().len(), 2);
    assert_eq!(line(&world.cluster, "gpu-1"), (2, 2));
}

#[test]
fn the_last_free_core_goes_to_one_pod() {
    let mut world = world("quota.cpu: 1");
    world.node(&gpu_node("gpu-1"));
    world.pods([batch("a"), batch("b")]);
    assert_eq!(world.admissions().len(), 1);
    assert_eq!(line(&world.cluster, "gpu-1"), (1_000, 1_000));
    // Refused by the API server: what was taken is given back.
    world.refuse("a", world.now);
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 1_000));
}

#[test]
fn quotas_follow_annotations_and_allocatable() {
    let mut world = world("quota-percentage.cpu: 50");
    let gpu = gpu_node("gpu-1");
    world.node(&gpu);
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 32_000));
    world.node(&gpu.clone().offers("cpu", "16"));
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 8_000));
    world.node(&gpu.clone().annotation("volcano.sh/crossquota-percentage-cpu", "25"));
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 16_000));
    world.node(&gpu.annotation("volcano.sh/crossquota-cpu", "4"));
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 4_000));
}

#[test]
fn a_bad_annotation_is_told_once_and_never_a_quota_of_zero() {
    let mut world = world("quota.cpu: 8");
    let bad = gpu_node("gpu-1").annotation("volcano.sh/crossquota-cpu", "lots");
    world.node(&bad);
    assert_eq!(line(&world.cluster, "gpu-1"), (0, 8_000));
    let node = world.cluster.node_named("gpu-1").unwrap();
    let told: Vec<_> = world
        .cluster
        .gpu_nodes()
        .bad_annotations(node)
        .iter()
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(told[0], @r#"annotation volcano.sh/crossquota-cpu: "lots" is not a Kubernetes quantity: write a number with an optional suffix, such as 4, 500m, 1.5Gi or 2e3: it is passed over"#);
    assert_eq!(world.cluster.take_changes().bad_quotas.len(), 1);
    world.node(&bad.label("other", "1"));
    assert_eq!(world.cluster.take_changes().bad_quotas.len(), 0);
}

#[test]
fn a_quota_lowered_below_usage_evicts_nobody_and_admits_nobody() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("runs", "6").on("gpu-1"));
    world.node(&gpu_node("gpu-1").annotation("volcano.sh/crossquota-cpu", "4"));
    world.pod(&cpu("p", "0"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.node(&gpu_node("gpu-1"));
    assert_eq!(pinned(&mut world), "gpu-1");
}

#[test]
fn a_queue_is_charged_where_one_is_named_and_both_must_agree() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.queue(&queue("team-a").capability("cpu", "2"));
    world.pods([cpu("a", "2").queue("team-a"), cpu("b", "1").queue("team-a")]);
    assert_eq!(pinned(&mut world), "gpu-1");
    assert_eq!(world.allocated_cpu("team-a"), 2_000);
    assert_eq!(world.refusal_of("b"), "InsufficientCPUQuota");
    world.pod(&cpu("unqueued", "6"));
    assert_eq!(pinned(&mut world), "gpu-1");
    assert_eq!(
        world.allocated_cpu("team-a"),
        2_000,
        "no queue is charged for what names none"
    );
    world.pod(&cpu("late", "1"));
    assert_eq!(world.refusal_of("late"), "CrossQuotaExceeded");
}

#[test]
fn an_empty_queue_name_passes_no_quota_by() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("p", "2").queue(""));
    assert_eq!(world.refusal_of("p"), "QueueNotFound");
}

#[test]
fn a_pod_that_may_run_on_no_node_is_told_so() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("elsewhere", "9").selects("zone", "b"));
    assert_eq!(world.refusal_of("elsewhere"), "NodesExcluded");
    world.node(&gpu_node("gpu-1").cordoned());
    world.remove_pod("elsewhere");
    world.pod(&cpu("later", "9"));
    assert_eq!(world.refusal_of("later"), "NoNodeFits");
}

#[test]
fn quota_alone_is_not_enough_where_a_node_has_no_room() {
    let mut world = world("quota.cpu: 60");
    world.node(&gpu_node("gpu-1"));
    world.node(&gpu_node("gpu-2"));
    world.pod(
        &bare_pod("training")
            .requests(GPU, "8")
            .requests("cpu", "60")
            .on("gpu-1"),
    );
    world.pod(&cpu("p", "8"));
    assert_eq!(pinned(&mut world), "gpu-2");
}

#[test]
fn disabled_it_lets_go_of_every_pod() {
    let mut world = world("quota.cpu: 1");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("p", "128"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    for released in [
        Arc::default(),
        configuration("quota.cpu: 1", "enforceCrossQuota: extender"),
    ] {
        let mut world = world_of(&world, "p");
        world.set_configuration(released, world.now);
        let admitted = world.admissions();
        assert!(
            admitted[0].pin.is_none() && admitted[0].off_gpu_nodes.is_none(),
            "{admitted:?}"
        );
    }
}

/// The same node, with one pod that waits.
fn world_of(_: &World, pod: &str) -> World {
    let mut world = world("quota.cpu: 1");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu(pod, "128"));
    assert_eq!(world.admit_names(), [""; 0]);
    world
}

#[test]
fn another_configuration_counts_anew() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.pod(&cpu("a", "2").requests("memory", "3").on("gpu-1"));
    let memory = configuration("quota-resources: memory, quota.memory: 4", "");
    world.set_configuration(memory, world.now);
    assert_eq!(line(&world.cluster, "gpu-1"), (3, 4));
    world.set_configuration(Arc::default(), world.now);
    assert!(world.cluster.gpu_nodes().is_empty());
    let wrong: Vec<_> = world
        .cluster
        .gpu_nodes()
        .to_label()
        .map(|(_, is_gpu_node)| is_gpu_node)
        .collect();
    assert_eq!(wrong, [false], "the label goes with the plugin");
}

#[test]
fn for_an_autoscaler_pods_are_let_in_to_nodes_without_gpu() {
    let mut world = World::with(configuration("quota.cpu: 1", "admitOn: quota"));
    world.node(&gpu_node("gpu-1"));
    world.pods([batch("a"), batch("b")]);
    let admitted = world.admissions();
    assert_eq!(admitted[0].pin.as_ref().map(|pin| &*pin.node), Some("gpu-1"));
    assert!(
        admitted[1].pin.is_none() && admitted[1].off_gpu_nodes.is_some(),
        "{admitted:?}"
    );
}

/// An autoscaler adds no node without GPU that has the pod's card.
#[test]
fn a_pod_for_cards_that_gpu_nodes_alone_have_waits_for_them() {
    const SLICE: &str = "nvidia.com/mig-1g.5gb";
    const CARD: &str = "A/mig-1g.5gb-mixed";
    let with_slices = |name: &str| node(name).cards("A", 1).offers(SLICE, "1");
    let mut world = World::with(configuration("quota.cpu: 8", "admitOn: quota"));
    world.node(&with_slices("gpu-1").label(GPU_NODE, "true"));
    world.queue(&queue("team-a").quota(&format!(r#"{{"{CARD}": 3}}"#)));
    let asks = |name: &str| {
        let pod = batch(name).queue("team-a").annotation("volcano.sh/card.name", CARD);
        pod.requests(SLICE, "1")
    };
    world.pod(&asks("holder").on("gpu-1"));
    world.pod(&asks("p"));
    assert_eq!(world.refusal_of("p"), "NoNodeFits");
    world.remove_pod("holder");
    let admissions = world.admissions();
    assert_eq!(admissions[0].pin.as_ref().map(|pin| &*pin.node), Some("gpu-1"));
}

/// Who comes now is held by nobody: so who was marked before waits for nothing either.
#[test]
fn who_waits_in_a_namespace_that_opts_in_no_longer_is_let_in() {
    let opted_in = [("card.volcano.sh/crossquota", "enabled")];
    for is_label_left in [true, false] {
        let mut world = world("quota.cpu: 1");
        world.node(&gpu_node("gpu-1"));
        world.namespace("team", &opted_in, None);
        world.pod(&cpu("p", "2"));
        assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
        let left = if is_label_left { &opted_in[..] } else { &[] };
        world.namespace("team", left, None);
        let admissions = world.admissions();
        assert_eq!(admissions.len(), usize::from(!is_label_left));
        assert!(admissions.iter().all(|admission| admission.pin.is_none()));
    }
}
