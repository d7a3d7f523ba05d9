//! What is limited, for whom, and until when.

use engine::decide::extender::{prioritize, read};
use engine::explain::{Subject, explain};
use engine::reason::{Outlook, Reason};
use engine::refs::WorkloadKind;

use super::*;
use serde_json::json;

use crate::devices::{NVIDIA, gpus};
use crate::world::{PRODUCT, bare_queue, group};

const STRATEGY: &str = "volcano.sh/crossquota-scoring-strategy";

/// **Goals**: CPU, memory, ephemeral storage, huge pages and custom resources. Of each, the first pod takes what the quota has,
/// and the next one waits for the least amount there is.
#[test]
fn multi_resource_quota_management_limits_every_resource() {
    for (resource, allocatable, quota, asked, least) in [
        ("cpu", "64", "quota.cpu: 32", "32", "1m"),
        ("memory", "512Gi", "quota-percentage.memory: 12.5", "64Gi", "1"),
        (
            "ephemeral-storage",
            "100Gi",
            "quota.ephemeral-storage: 10Gi",
            "10Gi",
            "1",
        ),
        (
            "hugepages-2Mi",
            "1Gi",
            "quota-percentage.hugepages-2Mi: 50",
            "512Mi",
            "2Mi",
        ),
        ("example.com/fpga", "8", "quota.example.com/fpga: 2", "2", "1"),
    ] {
        let mut world = world(&format!("quota-resources: {resource}, {quota}"));
        world.node(&gpu_node("gpu-1").offers(resource, allocatable));
        world.pod(&batch("first").requests(resource, asked));
        assert_eq!(pinned(&mut world), "gpu-1", "{resource}");
        world.pod(&batch("second").requests(resource, least));
        let refusal = world.refusal();
        let expected = format!("CrossQuotaExceeded: {resource} quota exceeded on 1 of 1 GPU nodes: asked {least};");
        assert!(refusal.starts_with(&expected), "{refusal}");
        world.remove_pod("first");
        assert_eq!(pinned(&mut world), "gpu-1", "{resource}");
    }
}

/// Found by the simulator (seed 23691): what no queue is charged for is nothing of what the queues may have together.
#[test]
fn who_is_in_no_queue_takes_nothing_of_what_queues_have_together() {
    let conf = "tiers: [{plugins: [{name: capacity, arguments: {enableHierarchy: true}}, \
                {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: 32}}]}]";
    let parsed = Configuration::parse(Some(conf), None).unwrap();
    for (above, other) in [
        (bare_queue("root").capability("cpu", "16"), bare_queue("other")),
        (bare_queue("root"), bare_queue("other").guarantee("cpu", "40")),
    ] {
        let mut world = World::with(Arc::new(parsed.configuration.clone()));
        world.node(&gpu_node("gpu-1"));
        world.queue(&above);
        world.queue(&other);
        world.queue(&bare_queue("team-a"));
        for name in ["p", "q"] {
            world.pod(&cpu(name, "10"));
            assert_eq!(pinned(&mut world), "gpu-1");
        }
        let own = bare_pod("own").queue("team-a").requests("cpu", "8");
        world.pod(&own.clone().gates(&["card.volcano.sh/quota"]));
        assert_eq!(world.admit_names(), ["own"]);
        world.pod(&own.on("gpu-1"));
        // Nor does it make the cluster larger where its node takes nobody any more.
        let total = |world: &World| {
            world
                .cluster
                .top()
                .total
                .get(engine::amounts::Dimension::Resource(engine::names::ResourceId::CPU))
        };
        world.node(&gpu_node("gpu-1").set(["spec", "unschedulable"], true));
        assert_eq!(total(&world), 8000, "what a queue is charged for");
        world.node(&gpu_node("gpu-1"));
        // Nor when all queues are added up anew.
        world.queue(&bare_queue("late").guarantee("memory", "1Gi"));
        world.pod(
            &bare_pod("more")
                .queue("team-a")
                .gates(&["card.volcano.sh/quota"])
                .requests("cpu", "8"),
        );
        assert_eq!(world.admit_names(), ["more"]);
    }
}

/// Semantics, **CrossQuota**: an unknown strategy is read as most-allocated where it got past the door.
#[test]
fn an_unknown_strategy_past_the_door_is_most_allocated() {
    let mut world = three_gpu_nodes();
    world.pod(&cpu("held", "2").on("gpu-2"));
    world.pod(&cpu("p", "2").annotation(STRATEGY, "cheapest"));
    assert_eq!(pinned(&mut world), "gpu-2");
    let asking = configuration("quota.cpu: 8", "enforceCrossQuota: extender");
    world.set_configuration(asking, world.now);
    let nodes: [Box<str>; 2] = ["gpu-1".into(), "gpu-2".into()];
    let asks = bare_pod("q").requests("cpu", "2").annotation(STRATEGY, "cheapest");
    let candidate = read(&mut world.cluster, asks.read());
    assert_eq!(
        prioritize(&world.cluster, &candidate, &nodes),
        [3, 5],
        "2/8 and 4/8 of 10: what is bound counts, and what is let in counts when it is"
    );
}

/// Found by the simulator (seed 20090): an operator that was started anew saw the same pods in another order, and let them in.
#[test]
fn a_gang_gets_in_by_those_of_its_pods_that_the_queue_takes() {
    let mut world = three_gpu_nodes();
    world.queue(&queue("team-a").capability("cpu", "3"));
    world.group(&group("gang", 2));
    let member = |name: &str, cores| cpu(name, cores).queue("team-a").of("gang");
    // The first two are too much for the queue, in whichever order: the others are not.
    world.pods([
        member("large", "3").created(1),
        member("p", "1").created(2),
        member("q", "1").created(3),
    ]);
    let pins: Vec<_> = world
        .admissions()
        .into_iter()
        .map(|admission| (admission.pod.name, admission.pin.unwrap().node))
        .collect();
    assert_eq!(pins, [("p".into(), "gpu-1".into()), ("q".into(), "gpu-1".into())]);
}

#[test]
fn a_gang_gets_in_within_quota_or_not_at_all() {
    let mut world = world("quota.cpu: 4");
    world.node(&gpu_node("gpu-1"));
    world.node(&gpu_node("gpu-2"));
    world.queue(&queue("team-a"));
    world.group(&group("gang", 3));
    world.pods((0..3).map(|number| cpu(&format!("p{number}"), "3").queue("team-a").of("gang")));
    assert_eq!(world.admissions(), []);
    assert_eq!(world.reason("p0").map(Reason::as_str), Some("CrossQuotaExceeded"));
    let held = |world: &World| [line(&world.cluster, "gpu-1").0, line(&world.cluster, "gpu-2").0];
    assert_eq!(held(&world), [0, 0], "two of three are no gang");
    world.node(&gpu_node("gpu-2").annotation("volcano.sh/crossquota-cpu", "6"));
    let mut nodes: Vec<_> = world
        .admissions()
        .into_iter()
        .map(|admitted| admitted.pin.unwrap().node)
        .collect();
    nodes.sort_unstable();
    assert_eq!(
        nodes.iter().map(|node| &**node).collect::<Vec<_>>(),
        ["gpu-1", "gpu-2", "gpu-2"]
    );
    assert_eq!(held(&world), [3_000, 6_000]);
}

/// It kept room in its queue from another group until its time was over, though its pod was told that waiting can't help.
#[test]
fn a_group_whose_pod_is_more_than_any_quota_keeps_room_from_nobody() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    world.queue(&bare_queue("team-a").capability("cpu", "16").capability("memory", "1Ti"));
    let asking = |name: &str, cores: &str| group(name, 1).set(["spec", "minResources"], json!({"cpu": cores}));
    let is_enqueued = |world: &World, name: &str| world.is_enqueued(WorkloadKind::PodGroup, name);
    world.group(&asking("never", "12"));
    world.pod(&cpu("p", "12").queue("team-a").of("never"));
    assert_eq!(world.admissions(), []);
    assert!(!is_enqueued(&world, "never"));
    world.group(&asking("other", "8").created(1));
    assert_eq!(world.admissions(), []);
    assert!(is_enqueued(&world, "other"));
    // It is asked again when a node has as much.
    world.remove_group("team", "other");
    world.node(&gpu_node("gpu-1").annotation("volcano.sh/crossquota-cpu", "12"));
    assert_eq!(pinned(&mut world), "gpu-1");
}

/// Two nodes of which as much is free differ by their quotas.
#[test]
fn a_gang_leaves_the_node_with_quota_to_those_of_its_pods_that_need_it() {
    for (free, full) in [("gpu-1", "gpu-2"), ("gpu-2", "gpu-1")] {
        let mut world = World::with(configuration("quota.cpu: 8", "unnamedCards: free"));
        for name in [free, full] {
            world.node(&gpu_node(name).offers("cpu", "16"));
        }
        let with_gpu = |name: &str, cores| bare_pod(name).requests(GPU, "1").requests("cpu", cores);
        world.pods([with_gpu("one", "8").on(free), with_gpu("two", "0").on(full)]);
        world.pod(&bare_pod("without").requests("cpu", "8").on(full));
        // As many pods are on either.
        world.pod(&bare_pod("idle").requests("cpu", "0").on(free));
        world.queue(&queue("team-a"));
        world.group(&group("gang", 2));
        let worker = with_gpu("worker", "6").gates(&["card.volcano.sh/quota"]);
        world.pods([worker, cpu("launcher", "4").created(1)].map(|pod| pod.queue("team-a").of("gang")));
        let admissions = world.admissions();
        let pins: Vec<_> = admissions
            .iter()
            .filter_map(|admission| Some((&*admission.pod.name, &*admission.pin.as_ref()?.node)))
            .collect();
        assert_eq!((admissions.len(), pins), (2, vec![("launcher", free)]));
    }
}

/// Semantics, **Which pods are managed**: terminal pods hold nothing; a node's room is held until a deleted pod is gone.
#[test]
fn what_has_ended_holds_nothing_and_what_is_being_deleted_holds_until_it_is_gone() {
    let mut world = world("quota.cpu: 8");
    world.node(&gpu_node("gpu-1"));
    let [ends, leaves] = ["ends", "leaves"].map(|name| bare_pod(name).requests("cpu", "4").on("gpu-1"));
    world.pods([ends.clone(), leaves.clone()]);
    world.pod(&leaves.deleted(20));
    world.wait(3600);
    assert_eq!(line(&world.cluster, "gpu-1").0, 8_000);
    world.pod(&ends.phase("Succeeded"));
    assert_eq!(line(&world.cluster, "gpu-1").0, 4_000);
    world.pod(&cpu("p", "5"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.remove_pod("leaves");
    assert_eq!(pinned(&mut world), "gpu-1");
}

/// **CPU Pod Detection** is by the configured patterns alone: with these, a pod that shares cards through mGPU has no GPU.
#[test]
fn a_pod_on_shared_cards_keeps_to_quotas_where_no_pattern_knows_them() {
    let shared = |name: &str| gpu_node(name).mgpu(2, 16_000, "fixed-share");
    let share = |name: &str, cores: &str| cpu(name, cores).share(30, 1000).queue("team-a");
    let mut world = World::with(configuration("quota.cpu: 4", "unnamedCards: free"));
    world.node(&shared("gpu-1"));
    world.queue(&queue("team-a"));
    world.pod(&share("a", "3"));
    assert_eq!(pinned(&mut world), "gpu-1");
    world.pod(&share("b", "3"));
    insta::assert_snapshot!(world.refusal(), @"InsufficientMGPU: no mGPU node can take the pod now: 1 mGPU node: 1 whose quota for pods without GPU is used up; cpu quota exceeded on 1 of 1 GPU nodes: asked 3; most is left on gpu-1: used 3, quota 4 (argument quota.cpu)");
    world.node(&shared("gpu-1").annotation("volcano.sh/crossquota-cpu", "6"));
    assert_eq!(pinned(&mut world), "gpu-1");
    assert_eq!(line(&world.cluster, "gpu-1"), (6_000, 6_000));
}

/// A scheduler extender that chooses the cards asks no quotas, and those are by node: so the node is chosen here.
#[test]
fn a_pod_on_shared_cards_goes_where_there_is_quota_also_where_a_scheduler_chooses_its_cards() {
    for admit_on in ["fit", "quota"] {
        let settings = format!("unnamedCards: free\nenforceMGPU: extender\nadmitOn: {admit_on}");
        let mut world = World::with(configuration("quota.cpu: 4", &settings));
        world.node(&gpu_node("gpu-1").mgpu(2, 16_000, "fixed-share"));
        world.node(&gpu_node("gpu-2").mgpu(2, 16_000, "fixed-share"));
        world.queue(&queue("team-a"));
        world.pod(&cpu("held", "4").on("gpu-1"));
        world.pod(&cpu("a", "3").share(30, 1000).queue("team-a"));
        let admitted = world.admissions();
        let pin = admitted[0].pin.as_ref().map(|pin| &*pin.node);
        assert_eq!(pin, Some("gpu-2"), "{admit_on}: {admitted:?}");
        assert!(admitted[0].mgpu_results.is_empty(), "the extender writes them");
    }
}

/// Where schedulers ask the quotas and the cards are chosen here, a pod can't go elsewhere when it is refused its node.
#[test]
fn a_pod_that_is_pinned_to_its_cards_goes_where_a_scheduler_that_asks_lets_it() {
    let mut world = World::with(configuration(
        "quota.cpu: 4",
        "unnamedCards: free\nenforceCrossQuota: extender",
    ));
    let nodes: [Box<str>; 2] = ["gpu-1".into(), "gpu-2".into()];
    for name in &nodes {
        world.node(&gpu_node(name).mgpu(2, 16_000, "fixed-share"));
    }
    world.queue(&queue("team-a"));
    let share = |name: &str| pod(name).requests("cpu", "3").share(30, 1000);
    world.pod(&bare_pod("held").requests("cpu", "4").on("gpu-1"));
    world.pod(&share("a"));
    assert_eq!(pinned(&mut world), "gpu-2");
    // It counts there before any scheduler asks about it, once, and is not in its own way.
    world.pod(&share("b"));
    assert_eq!(world.refusal_of("b"), "InsufficientMGPU");
    let asked = extender::ask(&mut world, &share("a").ungated().pinned_to("gpu-2"), &nodes);
    let refused: Vec<_> = asked.refused.iter().map(|(place, _)| *place).collect();
    assert_eq!((refused, line(&world.cluster, "gpu-2")), (vec![0], (3_000, 4_000)));
    assert_eq!(world.cluster.gpu_nodes().count_assumed(), 0);
    // Nor is another one in its way for longer than it is being placed.
    world.remove_pod("a");
    extender::ask(&mut world, &bare_pod("q").requests("cpu", "3"), &nodes);
    assert_eq!(world.refusal_of("b"), "InsufficientMGPU");
    world.wait(120);
    world.cluster.expire_assumed(world.now);
    assert_eq!(pinned(&mut world), "gpu-2");
}

/// It has been let through to several nodes, and goes to one of them, or to none.
#[test]
fn nobody_is_evicted_for_what_a_scheduler_is_about_to_place() {
    let conf = "actions: \"enqueue, allocate, preempt\"\ntiers: [{plugins: [{name: capacity}, {name: crossquota, arguments: {gpu-resource-names: \
                nvidia.com/gpu, quota.cpu: 8}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("unnamedCards: free\nenforceCrossQuota: extender"));
    let mut world = World::with(Arc::new(parsed.unwrap().configuration));
    let nodes: [Box<str>; 1] = ["gpu-1".into()];
    world.node(&gpu_node("gpu-1").mgpu(2, 16_000, "fixed-share"));
    world.queue(&queue("team-a"));
    let share = |name: &str| pod(name).requests("cpu", "4").share(30, 1000);
    world.pod(&share("low").on("gpu-1"));
    extender::ask(&mut world, &bare_pod("q").requests("cpu", "4"), &nodes);
    world.pod(&share("high").priority(10));
    for _ in 0..5 {
        assert_eq!(world.decide(), []);
        world.wait(2);
    }
    assert_eq!(world.refusal_of("high"), "InsufficientMGPU");
    world.wait(120);
    world.cluster.expire_assumed(world.now);
    assert_eq!(pinned(&mut world), "gpu-1");
}

/// What a selector says about labels is not known here; and who names its node itself would be held for nothing, if a `DaemonSet` made it.
#[test]
fn whom_quotas_may_not_concern_is_not_held_for_them() {
    let selecting = "quota.cpu: 4, label-selector: app!=free";
    for (arguments, node) in [(selecting, None), ("quota.cpu: 4", Some("gpu-1"))] {
        let mut world = World::with(configuration(
            arguments,
            "unnamedCards: free\nenforceCrossQuota: extender",
        ));
        world.node(&gpu_node("gpu-1").mgpu(2, 16_000, "fixed-share"));
        world.queue(&queue("team-a"));
        let p = pod("p").requests("cpu", "5").share(30, 1000);
        world.pod(&node.into_iter().fold(p, Object::pinned_to));
        assert_eq!(pinned(&mut world), "gpu-1", "{arguments}");
    }
}

/// What schedulers were placing when the configuration changed still counts, and wakes who waits when it does no more.
#[test]
fn a_pod_that_waits_for_what_was_assumed_is_let_in_when_that_expires() {
    let mut world = World::with(configuration("quota.cpu: 4", "enforceCrossQuota: extender"));
    world.node(&gpu_node("gpu-1"));
    extender::ask(&mut world, &bare_pod("a").requests("cpu", "3"), &["gpu-1".into()]);
    world
        .cluster
        .set_configuration(configuration("quota.cpu: 4", ""), world.now);
    world.pod(&cpu("p", "2"));
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.wait(120);
    world.cluster.expire_assumed(world.now);
    assert_eq!(pinned(&mut world), "gpu-1");
}

#[test]
fn more_than_the_quota_of_every_node_is_never_and_more_than_is_left_not_yet() {
    for (asked, expected) in [("4", Outlook::NotYet), ("5", Outlook::Never)] {
        let mut world = world("quota.cpu: 4");
        world.node(&gpu_node("gpu-1"));
        world.pod(&cpu("holder", "2").on("gpu-1"));
        world.pod(&cpu("p", asked));
        assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
        let subject = Subject::Pod(world.cluster.pod_with_uid("p").unwrap());
        let outlook = explain(&world.cluster, subject).map(|why| why.outlook);
        assert_eq!(outlook, Some(expected));
        world.remove_pod("holder");
        assert_eq!(world.admissions().len(), usize::from(expected == Outlook::NotYet));
    }
}

/// Nobody knows whether labels lead it to its card: it is not said that no node would take it.
#[test]
fn a_pod_that_is_compared_with_too_many_nodes_is_told_so() {
    let conf = "tiers: [{plugins: [{name: capacity-card}, \
                {name: crossquota, arguments: {gpu-resource-names: example.com/npu, quota.cpu: 8}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("admitOn: quota")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    for index in 0..3000 {
        world.node(&node(&format!("n-{index}")).cards("A", 8).cordoned());
    }
    world.queue(&queue("team-a").quota(r#"{"A": 8}"#));
    let says = |values: usize| {
        let values: Vec<_> = (0..values).map(|index| format!("value-{index}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": values}]}]);
        json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
    };
    let asking = |name: &str| {
        let pod = pod(name).asks("A", 1);
        pod.label("card.volcano.sh/crossquota", "enabled")
    };
    world.pod(&asking("short").with(&says(10)));
    assert_eq!(world.admit_names(), ["short"], "an autoscaler may add a node");
    world.pod(&asking("long").with(&says(1000)));
    assert_eq!(world.refusal_of("long"), "TooComplex");
}

/// A world for an autoscaler, in which nodes with NPUs are the GPU nodes. One of them has these cards, and others hold its quota for pods
/// without GPU.
fn with_quota_used_up(card: &str, gpu_node: Object) -> World {
    let conf = "tiers: [{plugins: [{name: capacity-card}, \
                {name: crossquota, arguments: {gpu-resource-names: example.com/npu, quota.cpu: 1}}]}]";
    let parsed = Configuration::parse(Some(conf), Some("admitOn: quota")).unwrap();
    let mut world = World::with(Arc::new(parsed.configuration));
    world.node(&gpu_node.offers("example.com/npu", "8").label(GPU_NODE, "true"));
    world.queue(&queue("team-a").quota(&format!(r#"{{"{card}": 8}}"#)));
    world.pod(&bare_pod("holder").requests("cpu", "1").on("gpu-1"));
    world
}

/// An autoscaler adds nodes like those that are there, and the pod could go to none of these but GPU nodes.
#[track_caller]
fn waits_for_quota(mut world: World, pod: &Object) {
    world.pod(pod);
    assert_eq!(world.refusal_of("p"), "CrossQuotaExceeded");
    world.remove_pod("holder");
    assert_eq!(pinned(&mut world), "gpu-1");
}

/// No class provides the devices for who requests the resource.
#[test]
fn a_pod_for_cards_that_other_nodes_have_for_claims_alone_waits_for_gpu_nodes() {
    let mut world = with_quota_used_up("A", node("gpu-1").cards("A", 2));
    world.node(&node("other"));
    world.slice("other", NVIDIA, &gpus("A", 2));
    let p = batch("p").queue("team-a").asks("A", 1);
    waits_for_quota(world, &p);
}

#[test]
fn a_pod_that_labels_lead_to_gpu_nodes_alone_waits_for_them() {
    const CARD: &str = "A/mps-40g*1/2";
    const SHARED: &str = "nvidia.com/gpu.shared";
    const MEMORY: &str = "nvidia.com/gpu.memory";
    let shares = |name: &str, memory: &str| {
        let node = node(name).label(PRODUCT, "A").label("nvidia.com/gpu.count", "1");
        let node = node.label(MEMORY, memory).label("nvidia.com/gpu.replicas", "2");
        node.offers(SHARED, "2")
    };
    let asks = |name: &str| {
        batch(name)
            .queue("team-a")
            .requests(SHARED, "1")
            .annotation("volcano.sh/card.name", CARD)
    };
    let world = || with_quota_used_up(CARD, shares("gpu-1", "40536"));
    // What the pod selects is not there on the other node.
    let mut selected = world();
    selected.node(&shares("other", "40960"));
    waits_for_quota(selected, &asks("p").selects(MEMORY, "40536"));
    // Until the operator takes it away, the other node has the label of GPU nodes.
    let mut labelled = world();
    labelled.node(&shares("other", "40960").label(GPU_NODE, "true").cordoned());
    waits_for_quota(labelled, &asks("p"));
    // Otherwise the pod is let in, and no label leads it to the GPU node.
    let mut others = world();
    others.node(&shares("other", "40960").cordoned());
    others.pod(&asks("p"));
    let admissions = others.admissions();
    assert!(admissions[0].off_gpu_nodes.is_some());
    assert!(
        admissions[0].narrow.contains(&(MEMORY.to_owned(), "40960".to_owned())),
        "{admissions:?}"
    );
}
