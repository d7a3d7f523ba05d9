//! The Capacity Card document's sections and examples, as decisions on whole clusters.

use std::collections::BTreeMap;

use serde_json::json;

use crate::world::{Admitted, GPU, Object, World, bare_queue, configuration, node, pod, queue};

/// How many of each card were given.
fn by_card(admitted: &[Admitted]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for (_, card) in admitted {
        *counts.entry(card.as_deref().unwrap_or_default()).or_default() += 1;
    }
    counts
}

#[test]
fn story_1_heterogeneous_gpu_cluster_management() {
    let mut world = World::new();
    for card in ["A100", "H100", "V100"] {
        for index in 0..4 {
            world.node(&node(&format!("{card}-{index}")).cards(card, 8));
        }
    }
    world.queue(&queue("queue-a").quota(r#"{"A100": 10, "H100": 5}"#));
    world.queue(&queue("queue-b").quota(r#"{"V100": 20, "A100": 3}"#));
    for team in ["queue-a", "queue-b"] {
        for card in ["A100", "H100", "V100"] {
            let worker = |index: i32| pod(&format!("{team}-{card}-{index}")).queue(team).asks(card, 1);
            world.pods((0..24).map(worker));
        }
    }
    while !world.admit().is_empty() {}
    for (team, card, expected) in [
        ("queue-a", "A100", 10),
        ("queue-a", "H100", 5),
        ("queue-a", "V100", 0),
        ("queue-b", "A100", 3),
        ("queue-b", "H100", 0),
        ("queue-b", "V100", 20),
    ] {
        assert_eq!(world.allocated(team, card), expected, "{card} of {team}");
    }
}

#[test]
fn story_2_job_flexibility_with_multi_card_selection() {
    let mut world = World::new();
    world.node(&node("n1").cards("A100", 8));
    world.node(&node("n2").cards("H100", 2));
    world.queue(&queue("team-a").quota(r#"{"A100": 8, "H100": 8}"#));
    world.pods((0..3).map(|index| pod(&format!("task-{index}")).asks("H100|A100", 1)));
    // H100 is preferred; when its nodes are full, A100.
    assert_eq!(by_card(&world.admit()), [("A100", 1), ("H100", 2)].into());
}

/// An eighth of an A100, by MPS.
const SHARE: &str = "NVIDIA-A100/mps-80g*1/8";

/// A node of four A100 in eight shares each, and a queue that may have them all.
fn shared_cards() -> World {
    let mut world = World::new();
    let shared = node("n1").cards("NVIDIA-A100", 4).offers(GPU, "0");
    let shared = shared.label("nvidia.com/gpu.replicas", "8");
    world.node(&shared.offers("nvidia.com/gpu.shared", "32"));
    world.queue(&queue("team-a").quota(r#"{"NVIDIA-A100/mps-80g*1/8": 32}"#));
    world
}

/// A pod that asks for one such share.
fn share(name: &str) -> Object {
    let pod = pod(name).annotation("volcano.sh/card.name", SHARE);
    pod.requests("nvidia.com/gpu.shared", "1")
}

#[test]
fn example_3_a_share_is_narrowed_to_nodes_whose_labels_make_up_its_name() {
    let mut world = shared_cards();
    world.pod(&share("p").selects("zone", "z"));
    assert_eq!(world.admit(), []);
    world.pod(&share("q").selects("nvidia.com/gpu.product", "NVIDIA-A100"));
    let admissions = world.admissions();
    let [admission] = admissions.as_slice() else {
        panic!("{admissions:?}")
    };
    let expected = [("nvidia.com/gpu.memory", "81920"), ("nvidia.com/gpu.replicas", "8")];
    assert_eq!(
        admission.narrow,
        expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
    assert!(admission.has_node_selector && admission.has_annotations);
}

#[test]
fn task_mode_grants_to_alternatives_are_booked_under_the_name_of_the_card_that_was_given() {
    let mut world = World::new();
    for (name, card) in [("a", "A"), ("b", "B"), ("c", "C")] {
        for index in 0..20 {
            world.node(&node(&format!("{name}-{index}")).cards(card, 16));
        }
    }
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100, "C": 100}"#));
    world.pods((0..1000).map(|index| pod(&format!("p{index}")).asks("A|B|C", 1)));
    let mut admitted = Vec::new();
    loop {
        let more = world.admit();
        if more.is_empty() {
            break;
        }
        admitted.extend(more);
    }
    assert_eq!(by_card(&admitted), [("A", 100), ("B", 100), ("C", 100)].into());
    for card in ["A", "B", "C"] {
        assert_eq!(world.allocated("team-a", card), 100);
    }
    assert_eq!(world.allocated("team-a", "A|B|C"), 0);
    assert_eq!(world.known_queue("team-a").waiting.len(), 700);
}

#[test]
fn task_mode_overflows_to_the_next_card_when_the_nodes_of_the_first_are_full() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 2));
    world.node(&node("n2").cards("B", 2));
    world.queue(&queue("team-a").quota(r#"{"A": 100, "B": 100}"#));
    world.pods((0..5).map(|index| pod(&format!("p{index}")).asks("A|B", 1)));
    assert_eq!(by_card(&world.admit()), [("A", 2), ("B", 2)].into());
    assert_eq!(
        world.refusal(),
        "NoNodeFits: no node can take the pod now: 1 node with A: 1 without enough room; 1 node with B: 1 without \
         enough room"
    );
}

#[test]
fn card_resource_quantification_2_cards_are_2000_milli_units_for_volcano_and_2_whole_cards_here() {
    let mut world = World::new();
    world.node(&node("n1").cards("NVIDIA-A100", 8));
    world.queue(&queue("team-a").quota(r#"{"NVIDIA-A100": 2}"#));
    world.pod(&pod("p").asks("NVIDIA-A100", 2));
    assert_eq!(world.admit_names(), ["p"]);
    assert_eq!(world.allocated("team-a", "NVIDIA-A100"), 2);
}

#[test]
fn story_3_with_card_unlimited_cpu_memory_gpu_tasks_only_consume_gpu_quotas() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("n1").cards("A", 8));
    world.queue(
        &bare_queue("team-a")
            .quota(r#"{"A": 8}"#)
            .capability("cpu", "2")
            .capability("memory", "2Gi"),
    );
    world.pod(&pod("gpu").asks("A", 1).requests("cpu", "8").requests("memory", "64Gi"));
    assert_eq!(world.admit_names(), ["gpu"]);
    assert_eq!(world.allocated_cpu("team-a"), 0);
    // The whole CPU quota is left for tasks without cards.
    world.pods((0..3).map(|index| pod(&format!("cpu-{index}"))));
    assert_eq!(world.admit_names(), ["cpu-0", "cpu-1"]);
    assert_eq!(world.allocated_cpu("team-a"), 2000);
}

#[test]
fn plugin_configuration_applies_to_what_is_allocated_already() {
    let mut world = World::new();
    world.node(&node("n1").cards("A", 8));
    world.queue(
        &bare_queue("team-a")
            .quota(r#"{"A": 8}"#)
            .capability("cpu", "2")
            .capability("memory", "2Gi"),
    );
    world.pods([pod("p0").asks("A", 1), pod("p1").asks("A", 1), pod("p2").asks("A", 1)]);
    assert_eq!(world.admit_names(), ["p0", "p1"]);
    assert_eq!(world.allocated_cpu("team-a"), 2000);

    let now = world.now;
    world
        .cluster
        .set_configuration(configuration("cardUnlimitedCpuMemory: true", ""), now);
    assert_eq!(world.allocated_cpu("team-a"), 0);
    assert_eq!(world.admit_names(), ["p2"]);

    world.set_configuration(configuration("", ""), now);
    assert_eq!(world.allocated_cpu("team-a"), 3000);
}

mod event_recording {
    //! Every reason, with its message as users read it.

    use super::*;

    /// A cluster with one node and one queue with a quota of two cards A.
    fn world() -> World {
        let mut world = World::new();
        world.node(&node("n1").cards("A", 4));
        world.queue(
            &bare_queue("team-a")
                .quota(r#"{"A": 2}"#)
                .capability("cpu", "1500m")
                .capability("memory", "1536Mi"),
        );
        world
    }

    #[test]
    fn get_task_request_resource_failed() {
        let mut unknown = world();
        unknown.pod(&pod("p").asks("B|C", 1));
        insta::assert_snapshot!(unknown.refusal(), @"GetTaskRequestResourceFailed: annotation volcano.sh/card.name: no node has B or C yet; for what the pod requests the cluster has A; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them");

        let mut mistyped = world();
        for (index, card) in [
            "NVIDIA-A100",
            "NVIDIA-H100-80GB-HBM3",
            "NVIDIA-H200",
            "NVIDIA-L4",
            "NVIDIA-T4",
            "X",
        ]
        .iter()
        .enumerate()
        {
            mistyped.node(&node(&format!("m{index}")).cards(card, 8));
        }
        mistyped.pod(&pod("p").asks("nvidia-h100", 1));
        insta::assert_snapshot!(mistyped.refusal(), @"GetTaskRequestResourceFailed: annotation volcano.sh/card.name: no node has nvidia-h100 yet; did you mean NVIDIA-H100-80GB-HBM3? for what the pod requests the cluster has NVIDIA-H100-80GB-HBM3, NVIDIA-H200, NVIDIA-A100, NVIDIA-L4, NVIDIA-T4, ...; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them");

        let mut without_cards = world();
        without_cards.pod(&pod("p").annotation("volcano.sh/card.name", "B"));
        insta::assert_snapshot!(without_cards.refusal(), @"GetTaskRequestResourceFailed: annotation volcano.sh/card.name: no node has B yet; the pod requests no resource by which the cluster has cards; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them");

        let mut unrequested = world();
        unrequested.pod(&pod("p").annotation("volcano.sh/card.name", "A"));
        insta::assert_snapshot!(unrequested.refusal(), @"GetTaskRequestResourceFailed: annotation volcano.sh/card.name names A, which is requested as nvidia.com/gpu: no container has it in resources.limits; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them");

        let mut malformed = world();
        malformed.pod(&pod("p").asks("A||B", 1));
        insta::assert_snapshot!(malformed.refusal(), @r#"GetTaskRequestResourceFailed: annotation volcano.sh/card.name: "A||B" has an empty card name: write one card, such as NVIDIA-A100, or alternatives, such as NVIDIA-A100|NVIDIA-H100; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them"#);

        let mut unreadable = world();
        unreadable.pod(&pod("p").asks("A", 1).requests("cpu", "1 core"));
        insta::assert_snapshot!(unreadable.refusal(), @r#"GetTaskRequestResourceFailed: container "main" requests cpu: "1 core" is not a Kubernetes quantity: write a number with an optional suffix, such as 4, 500m, 1.5Gi or 2e3; waiting can't help: create the pod anew with a request that can be read, of a card that the cluster has: kubectl get cardtypes lists them"#);
    }

    #[test]
    fn empty_queue_capability() {
        let mut world = world();
        world.queue(&bare_queue("team-a"));
        world.pod(&pod("p").asks("A", 1));
        insta::assert_snapshot!(world.refusal(), @"EmptyQueueCapability: queue team-a has neither a card quota (annotation volcano.sh/card.quota) nor spec.capability, the quota of CPU and memory; waiting can't help: have the queue's owner give it a quota, or name another queue");
    }

    #[test]
    fn insufficient_cpu_quota() {
        let mut world = world();
        world.pods([pod("p").asks("A", 1), pod("q").asks("A", 1)]);
        assert_eq!(world.admit_names(), ["p"]);
        insta::assert_snapshot!(world.refusal(), @"InsufficientCPUQuota: queue team-a: CPU asked 1, used 1, quota 1500m; memory asked 1Gi, used 1Gi, quota 1536Mi");
    }

    #[test]
    fn insufficient_memory_quota() {
        let mut world = world();
        let small = |name| pod(name).asks("A", 1).requests("cpu", "500m");
        world.pods([small("p"), small("q")]);
        assert_eq!(world.admit_names(), ["p"]);
        insta::assert_snapshot!(world.refusal(), @"InsufficientMemoryQuota: queue team-a: memory asked 1Gi, used 1Gi, quota 1536Mi");
    }

    #[test]
    fn insufficient_scalar_quota() {
        let mut world = world();
        world.pod(&pod("p").asks("A", 3));
        insta::assert_snapshot!(world.refusal(), @"InsufficientScalarQuota: queue team-a: A asked 3, used 0, quota 2; waiting can't help: ask for less, or have the quota raised");

        world.node(&node("n2").cards("B", 4));
        world.pod(&pod("q").asks("A|B", 3));
        insta::assert_snapshot!(world.refusal(), @"InsufficientScalarQuota: queue team-a: A asked 3, used 0, quota 2; B asked 3, used 0, quota 0; waiting can't help: ask for less, or have the quota raised");
    }

    #[test]
    fn queue_not_found() {
        let mut world = world();
        world.pod(&pod("p").queue("nowhere"));
        insta::assert_snapshot!(world.refusal(), @"QueueNotFound: queue nowhere does not exist; waiting can't help: create the queue, or name another one: kubectl get queues lists them");
    }

    #[test]
    fn queue_not_open() {
        let mut world = world();
        world.queue(&queue("team-a").set(["status", "state"], "Closing"));
        world.pod(&pod("p"));
        insta::assert_snapshot!(world.refusal(), @"QueueNotOpen: queue team-a is Closing, not Open: it takes no pods; waiting can't help: have the queue opened, or name another one");
    }

    #[test]
    fn queue_invalid() {
        let mut world = world();
        world.pod(&pod("p"));
        world.queue(&queue("team-a").quota(r#"{"A": 1.5}"#));
        insta::assert_snapshot!(world.refusal(), @r#"QueueInvalid: queue team-a can't be used as it is: annotation volcano.sh/card.quota: the key "A" has the value 1.5: write a whole number from 0 to 9223372036854775807, without quotes; waiting can't help: have the queue's owner mend it"#);
        world.queue(&queue("team-a").annotation("card.volcano.sh/namespaces", "team in ("));
        world.pod(&pod("q"));
        insta::assert_snapshot!(world.refusal(), @r#"QueueInvalid: queue team-a can't be used as it is: annotation card.volcano.sh/namespaces: "team in (" is not a label selector (a comma or a closing bracket expected at ""): write it as kubectl get -l takes it, such as team=a or team in (a,b); waiting can't help: have the queue's owner mend it"#);
        world.queue(&queue("team-a").capability("cpu", "-1"));
        world.pod(&pod("r"));
        insta::assert_snapshot!(world.refusal(), @"QueueInvalid: queue team-a can't be used as it is: spec.capability: cpu: -1 is negative: write 0 or more; waiting can't help: have the queue's owner mend it");
    }

    #[test]
    fn namespace_not_allowed() {
        let mut world = world();
        world.namespace("team", &[("team", "b")], None);
        world.queue(&queue("team-a").annotation("card.volcano.sh/namespaces", "team=a"));
        world.pod(&pod("p"));
        insta::assert_snapshot!(world.refusal(), @"NamespaceNotAllowed: queue team-a is not for namespace team: its annotation card.volcano.sh/namespaces selects other namespaces; waiting can't help: name another queue, or have the namespace let in");
    }

    #[test]
    fn no_node_fits() {
        let mut world = world();
        world.queue(&queue("team-a").quota(r#"{"A": 100}"#));
        world.node(&node("n2").cards("A", 4).cordoned());
        world.node(&node("n3").cards("A", 4).not_ready());
        world.node(&node("n4").cards("A", 8).taint("reserved", "NoSchedule"));
        world.node(&node("n5").cards("B", 8));
        world.pod(&pod("p").asks("A", 5));
        insta::assert_snapshot!(world.refusal(), @"NoNodeFits: no node can take the pod now: 4 nodes with A: 1 without enough room, 1 excluded by the pod's node selector, affinity or tolerations, 2 not ready or cordoned; waiting can't help: ask for less in one pod, or have a larger node added");
    }

    #[test]
    fn no_node_fits_while_the_only_nodes_are_cordoned_or_not_ready() {
        let mut world = world();
        world.node(&node("n1").cards("A", 4).cordoned());
        world.pod(&pod("p").asks("A", 1));
        insta::assert_snapshot!(world.refusal(), @"NoNodeFits: no node can take the pod now: 1 node with A: 1 not ready or cordoned");
        world.node(&node("n1").cards("A", 4).not_ready());
        assert_eq!(world.refusal_of("p"), "NoNodeFits");
    }

    #[test]
    fn nodes_excluded() {
        let mut world = world();
        world.pod(&pod("p").asks("A", 1).selects("zone", "z"));
        insta::assert_snapshot!(world.refusal(), @"NodesExcluded: the pod excludes every node that has what it asks for: 1 node with A: 1 excluded by the pod's node selector, affinity or tolerations; waiting can't help: create the pod anew with a node selector, affinity, tolerations and resource claims that leave it a node with the card, or have such a node added");
        // A taint that the pod does not tolerate excludes the node as well.
        world.node(&node("n1").cards("A", 4).taint("reserved", "NoExecute"));
        world.pod(&pod("p").asks("A", 1));
        assert_eq!(world.refusal_of("p"), "NodesExcluded");
        world.pod(&pod("p").asks("A", 1).tolerates("reserved"));
        assert_eq!(world.admit_names(), ["p"]);
    }

    #[test]
    fn a_pod_that_asks_for_no_card_looks_at_all_nodes() {
        let mut world = world();
        world.pod(&pod("p").requests("cpu", "1").selects("zone", "z"));
        insta::assert_snapshot!(world.refusal(), @"NodesExcluded: the pod excludes every node that has what it asks for: 1 node: 1 excluded by the pod's node selector, affinity or tolerations; waiting can't help: create the pod anew with a node selector, affinity, tolerations and resource claims that leave it a node with the card, or have such a node added");
    }
}

/// Memory is rounded in the name of a card, so one card may have other labels on each of its nodes, and others today than yesterday.
#[test]
fn shares_by_mps_are_selected_by_the_labels_of_any_node_that_is_there() {
    let shares = |name: &str, product: &str, memory: &str| {
        let node = node(name).label("nvidia.com/gpu.product", product);
        node.label("nvidia.com/gpu.count", "1")
            .label("nvidia.com/gpu.memory", memory)
            .label("nvidia.com/gpu.replicas", "2")
            .offers("nvidia.com/gpu.shared", "2")
    };
    let selects = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81559", "40960"]},
    ]}]});
    let required = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    let pod = pod("p").requests("nvidia.com/gpu.shared", "1").set(required, selects);
    let world = |nodes: &[Object]| {
        let mut world = World::new();
        for node in nodes {
            world.node(node);
        }
        world.node(&shares("n3", "Q", "40960").cordoned());
        world.queue(&queue("team-a").quota(r#"{"P/mps-80g*1/2": 4, "Q/mps-40g*1/2": 4}"#));
        world.pod(&pod);
        world
    };
    let of_p = [("p".to_owned(), Some("P/mps-80g*1/2".to_owned()))];
    let mut both = world(&[shares("n1", "P", "81920"), shares("n2", "P", "81559")]);
    assert_eq!(both.admit(), of_p);
    // The one that is left there, where it says something else now.
    let mut changed = world(&[shares("n1", "P", "81920")]);
    assert_eq!(changed.refusal_of("p"), "NoNodeFits");
    changed.node(&shares("n1", "P", "81559"));
    assert_eq!(changed.admit(), of_p);
    let mut left = world(&[shares("n1", "P", "81559"), shares("n2", "P", "81920")]);
    left.remove_node("n1", left.now);
    assert_eq!(left.refusal_of("p"), "NoNodeFits");
}
