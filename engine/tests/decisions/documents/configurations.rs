//! Configurations: each comes into force with the effect that its document describes, and without a word of warning (docs/rules.md,
//! **Queues**).

use std::sync::Arc;

use crds::configuration::{Configuration, LogLevel};
use engine::decide::Action;
use engine::overview::Shown;

use super::queue;
use crate::world::{GPU, World, bare_pod, bare_queue, group, node, pod};

/// A `ConfigMap`'s `volcano-scheduler.conf`, as the documents show it.
pub fn of_config_map(text: &str) -> &str {
    let (_, conf) = text.split_once("volcano-scheduler.conf: |\n").unwrap();
    conf
}

/// A plugin with the arguments that a document shows alone.
fn of_plugin(name: &str, arguments: &str) -> String {
    let arguments = arguments.replace('\n', "\n    ");
    format!("tiers:\n- plugins:\n  - name: {name}\n    {arguments}")
}

/// A world with this configuration, which is accepted without a warning.
#[track_caller]
pub fn world(conf: &str) -> World {
    let parsed = Configuration::parse(Some(conf), Some("reservationTimeout: 1h")).unwrap();
    assert_eq!(parsed.warnings, [""; 0]);
    World::with(Arc::new(parsed.configuration))
}

/// Capacity Card, **Plugin Configuration**: "tasks requesting card resources won't be checked against the queue's CPU/memory quota".
#[test]
fn capacity_card_plugin_configuration() {
    let mut world = world(document!("capacity-card/10-plugin-configuration.yaml"));
    world.node(&node("n1").cards("NVIDIA-A100", 8));
    world.queue(&bare_queue("team-a").quota(r#"{"NVIDIA-A100": 1}"#));
    world.pods([pod("first"), pod("second")].map(|pod| pod.asks("NVIDIA-A100", 1)));
    world.pod(&pod("plain"));
    assert_eq!(world.admit_names(), ["first"]);
    assert_eq!(world.refusal_of("second"), "InsufficientScalarQuota");
    assert_eq!(world.refusal_of("plain"), "InsufficientCPUQuota");
}

/// Capacity Card, **Example 4: Node Ordering Configuration**: the leftmost card goes first; CPU and memory count.
#[test]
fn capacity_card_example_4_node_ordering_configuration() {
    let mut world = world(of_config_map(document!(
        "capacity-card/22-example-4-configuration.yaml"
    )));
    for card in ["NVIDIA-A100", "NVIDIA-H100", "NVIDIA-T4"] {
        world.node(&node(card).cards(card, 8));
    }
    let quota = r#"{"NVIDIA-A100": 1, "NVIDIA-H100": 1, "NVIDIA-T4": 8}"#;
    let queue = bare_queue("team-a").quota(quota).capability("memory", "64Gi");
    world.queue(&queue.capability("cpu", "3"));
    world.pods((0..4).map(|index| pod(&format!("p{index}")).asks("NVIDIA-A100|NVIDIA-H100|NVIDIA-T4", 1)));
    let cards: Vec<_> = world.admit().into_iter().map(|(_, card)| card.unwrap()).collect();
    assert_eq!(cards, ["NVIDIA-A100", "NVIDIA-H100", "NVIDIA-T4"]);
    assert_eq!(world.refusal_of("p3"), "InsufficientCPUQuota");
}

/// CrossQuota, **Configuration Format**: 32 cores and half of the memory of nodes with NVIDIA or AMD GPUs.
#[test]
fn cross_quota_configuration_format() {
    let mut world = world(&of_plugin("crossquota", document!("crossquota/01-configuration.yaml")));
    world.node(&node("nvidia").offers(GPU, "8"));
    world.node(&node("amd").offers("amd.com/gpu", "8"));
    world.node(&node("plain"));
    let quotas = |shown: &[Shown], name: &str| {
        let inventory = shown.iter().find_map(|shown| match shown {
            Shown::Inventory { node, status, .. } if **node == *name => status.clone(),
            _ => None,
        });
        let quotas = inventory.map(|inventory| inventory.cross_quota).unwrap_or_default();
        quotas
            .into_iter()
            .map(|quota| (quota.resource, quota.quota))
            .collect::<Vec<_>>()
    };
    let shown = world.shown();
    let expected = [("cpu", "32"), ("memory", "256Gi")].map(|(name, quota)| (name.to_owned(), quota.to_owned()));
    assert_eq!(quotas(&shown, "nvidia"), expected);
    assert_eq!(quotas(&shown, "amd"), expected);
    assert_eq!(quotas(&shown, "plain"), []);
}

/// mGPU, **Volcano Plugin Config**: mGPU pods are binpacked, compute weighs a fifth, and no queue plugin is listed.
#[test]
fn mgpu_volcano_plugin_config() {
    let mut world = world(document!("mgpu/12-plugin-configuration.yaml"));
    world.node(&node("n1").mgpu(2, 80_000, "fixed-share"));
    world.queue(&bare_queue("team-a"));
    world.pods((0..17).map(|index| pod(&format!("p{index:02}")).share(1, 1_000)));
    let admissions = world.admissions();
    let cards: Vec<_> = admissions
        .iter()
        .map(|admission| admission.mgpu_results[1].1.as_str())
        .collect();
    let on = |card: &str| cards.iter().filter(|on| **on == card).count();
    assert_eq!((on("0"), on("1")), (16, 1), "{cards:?}");
}

const DIMENSIONS: &str = document!("dimensions/02-configuration.yaml");

/// Two nodes with 64 cores and 8 GPUs each, of which others are guaranteed 120 cores; and pods of 8 cores each in a queue that names GPUs
/// alone.
fn beside_guarantees(conf: &str) -> Vec<String> {
    let mut world = world(conf);
    world.node(&node("n1").cards("A", 8));
    world.node(&node("n2").cards("A", 8));
    world.queue(&bare_queue("others").guarantee("cpu", "120"));
    world.queue(&bare_queue("gpu-queue").capability(GPU, "2"));
    let asks = |name: &str| pod(name).queue("gpu-queue").asks("A", 1).requests("cpu", "8");
    world.pods(["p0", "p1", "p2"].map(asks));
    world.admit_names()
}

/// Dimensions, **Scheduler `ConfigMap`**, **Enabling** and **Disabling the Feature**: with it "only GPU and RDMA nics" are checked.
#[test]
fn check_queue_dimensions_only_enabled_and_disabled() {
    assert_eq!(beside_guarantees(of_config_map(DIMENSIONS)), ["p0", "p1"]);
    for (arguments, expected) in [
        (document!("dimensions/08-enabling.yaml"), 2),
        (document!("dimensions/09-disabling.yaml"), 1),
        ("", 1),
    ] {
        let conf = of_plugin("capacity", arguments);
        assert_eq!(beside_guarantees(&conf).len(), expected, "{arguments}");
    }
}

/// Dimensions, **Default Behavior for General Purpose Queue**: "all resources (CPU, memory, GPU) will be checked against capacity".
#[test]
fn check_queue_dimensions_only_default_behavior() {
    let conf = of_config_map(document!("dimensions/06-default-configuration.yaml"));
    for (resource, amount, reason) in [
        ("cpu", "101", "InsufficientCPUQuota"),
        ("memory", "201Gi", "InsufficientMemoryQuota"),
        (GPU, "9", "InsufficientScalarQuota"),
    ] {
        let mut world = world(conf);
        world.node(&node("n1").cards("A", 16).offers("cpu", "200").offers("memory", "1Ti"));
        world.queue(&queue(document!("dimensions/07-default-queue.yaml")));
        let fits = pod("fits").queue("default-queue").asks("A", 4);
        world.pods([
            fits,
            pod("large")
                .queue("default-queue")
                .asks("A", 1)
                .requests(resource, amount),
        ]);
        assert_eq!(world.admit_names(), ["fits"], "{resource}");
        assert_eq!(world.refusal_of("large"), reason);
    }
}

/// Two queues that deserve half of two cards each, of which the first has both: what the second's pod comes to.
fn borrowed(conf: &str) -> Vec<Action> {
    let mut world = world(conf);
    world.node(&node("n1").cards("A", 2));
    for name in ["queue1", "queue2"] {
        world.queue(&bare_queue(name).deserved_cards(r#"{"A": 1}"#));
    }
    let worker = |name: &str| pod(name).queue("queue1").asks("A", 1);
    world.pods(["a", "b"].map(worker));
    assert_eq!(world.admit_names(), ["a", "b"], "what others leave free may be used");
    for name in ["a", "b"] {
        world.seen_admitted(&worker(name).on("n1"), name, Some("A"));
    }
    world.pod(&pod("owns").queue("queue2").asks("A", 1));
    world.wait(60);
    world.decide()
}

/// capacity, the installation: "add reclaim action", "add this field and remove proportion plugin".
#[test]
fn capacity_installation_with_reclaim() {
    let actions = borrowed(of_config_map(document!("capacity/01-configuration.yaml")));
    let [Action::Evict(eviction)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!((eviction.victims.len(), &*eviction.queue), (1, "queue2"));
}

/// capacity, section 5: the arguments stand beside `arguments`, and no action takes anything back.
#[test]
fn capacity_section_5_example() {
    let conf = of_config_map(document!("capacity/03-example-configuration.yaml"));
    assert_eq!(borrowed(conf), []);
    let capacity = Configuration::parse(Some(conf), None).unwrap().configuration.capacity;
    assert_eq!(
        (capacity.reclaim_interval.as_secs(), capacity.log_level),
        (30, Some(LogLevel::Info))
    );
    // With the action that the example leaves out, it takes back at the interval that it names.
    let reclaiming = conf.replace("backfill", "backfill, reclaim");
    assert!(matches!(borrowed(&reclaiming).as_slice(), [Action::Evict(_)]));
}

/// What Volcano's installer writes: no plugin of Cardgate's rules queues, and groups stay whole.
#[test]
fn volcanos_shipped_default() {
    let mut world = world(document!("volcano/01-shipped-default.yaml"));
    world.node(&node("n1").cards("A", 8));
    world.queue(&bare_queue("default").quota(r#"{"A": 1}"#));
    world.group(&group("g", 2).queue("default"));
    world.pods(["a", "b"].map(|name| pod(name).queue("default").of("g").asks("A", 5)));
    assert_eq!(world.admit_names(), [""; 0], "one alone would fit");
    world.node(&node("n2").cards("A", 8));
    assert_eq!(world.admit_names(), ["a", "b"], "no queue limits them");
}

/// Volcano's own form of a hierarchy, as most real configurations have it: the switch, and the argument again.
#[test]
fn a_hierarchy_as_real_configurations_have_it() {
    let mut world = world(document!("volcano/02-hierarchy.yaml"));
    world.node(&node("n1").cards("A", 8));
    world.queue(&bare_queue("department").quota(r#"{"A": 1}"#));
    world.queue(&bare_queue("team").parent("department"));
    world.pods(["a", "b"].map(|name| pod(name).queue("team").asks("A", 1)));
    assert_eq!(world.admit_names(), ["a"]);
    assert_eq!(world.refusal_of("b"), "InsufficientScalarQuota");
    world.pod(&bare_pod("of-nobody"));
    assert_eq!(world.admit_names(), [""; 0]);
}
