//! Objects that the documents show, as they stand there, and what the text beside them says of them. Fields that Kubernetes
//! does not know (`requiredDuringSchedulingIgnoreDuringExecution` is a slip of the document's) it leaves out, as here; further
//! objects of theirs are in the modules that are named after the documents.

use serde_json::{Value, json};

use crate::world::{GPU, Object, World, capacity, configuration, node, pod, shown_as};

/// The pods of a Deployment: of its template, in this queue's namespace.
fn pods_of(deployment: &Value) -> Vec<Object> {
    let template = &deployment["spec"]["template"];
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap();
    let pods = (0..replicas).map(|index| {
        let name = format!("{}-{index}", deployment["metadata"]["name"].as_str().unwrap());
        let object = json!({
            "metadata": {
                "namespace": "team", "name": name, "uid": name,
                "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
                "creationTimestamp": "2027-01-15T08:00:00Z",
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        });
        shown_as(object).gates(&["card.volcano.sh/quota"])
    });
    pods.collect()
}

/// **Deployment Example** and **Single-Instance Multi-Card Request Example**: they differ in the card alone.
fn inference(cards: &str) -> Vec<Object> {
    pods_of(&json!({
        "metadata": {"name": "inference-deployment"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "inference"}},
            "template": {
                "metadata": {
                    "labels": {"app": "inference"},
                    "annotations": {"volcano.sh/card.name": cards, "scheduling.volcano.sh/queue-name": "cr-queue1"},
                },
                "spec": {
                    "containers": [{
                        "name": "inference", "image": "inference:latest",
                        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
                    }],
                    "schedulerName": "volcano",
                },
            },
        },
    }))
}

fn queue(name: &str, annotations: &Value, spec: &Value) -> Object {
    let metadata = json!({
        "name": name, "uid": name, "creationTimestamp": "2027-01-15T08:00:00Z", "annotations": annotations,
    });
    shown_as(json!({"metadata": metadata, "spec": spec, "status": {"state": "Open"}}))
}

/// Capacity Card, **Queue Annotations for Card Quotas**.
#[test]
fn queue_a_has_its_quotas_and_none_of_any_other_card() {
    let mut world = World::new();
    world.node(
        &node("a")
            .cards("NVIDIA-A100", 16)
            .offers("cpu", "400")
            .offers("memory", "900Gi"),
    );
    world.node(&node("h").cards("NVIDIA-H200", 8));
    let quota = r#"{
        "NVIDIA-A100": 10,
        "NVIDIA-H100": 5,
        "NVIDIA-A100/mps-80g*1/8": 16
      }"#;
    let capability = json!({"capability": {"cpu": "100", "memory": "200Gi"}});
    world.queue(&queue("queue-a", &json!({"volcano.sh/card.quota": quota}), &capability));
    let worker = |index: usize| pod(&format!("p{index:02}")).queue("queue-a").asks("NVIDIA-A100", 1);
    world.pods((0..12).map(worker));
    assert_eq!(world.admit().len(), 10);
    assert_eq!(world.refusal_of("p10"), "InsufficientScalarQuota");
    // "Card types without quotas default to 0."
    world.pod(&pod("other").queue("queue-a").asks("NVIDIA-H200", 1));
    assert_eq!(world.refusal_of("other"), "InsufficientScalarQuota");
    // 10 of 100 CPU are in use; and other resources "are not limited".
    world.pod(&pod("large").queue("queue-a").requests("cpu", "91"));
    assert_eq!(world.refusal_of("large"), "InsufficientCPUQuota");
    world.node(&node("nic").offers("example.com/nic", "2"));
    world.pod(&pod("nic").queue("queue-a").requests("example.com/nic", "2"));
    assert_eq!(world.admit_names(), ["nic"]);
}

/// Capacity Card, **Deployment Example**: pods, that no `card.request` holds back.
#[test]
fn the_pods_of_the_inference_deployment_are_charged_for_the_card_that_they_name() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.queue(&queue(
        "cr-queue1",
        &json!({"volcano.sh/card.quota": r#"{"NVIDIA-A100": 1}"#}),
        &json!({}),
    ));
    world.pods(inference("NVIDIA-A100"));
    assert_eq!(world.admit_names(), ["inference-deployment-0"]);
    assert_eq!(world.allocated("cr-queue1", "NVIDIA-A100"), 1);
    assert_eq!(world.refusal_of("inference-deployment-1"), "InsufficientScalarQuota");
}

/// Capacity Card, **Single-Instance Multi-Card Request Example**: "to use either NVIDIA-A100 or NVIDIA-H100".
#[test]
fn the_pods_of_the_inference_deployment_with_two_cards_get_either() {
    let mut world = World::with(configuration("cardUnlimitedCpuMemory: true", ""));
    world.node(&node("a").cards("NVIDIA-A100", 8));
    world.node(&node("h").cards("NVIDIA-H100", 8));
    let quota = json!({"volcano.sh/card.quota": r#"{"NVIDIA-A100": 1, "NVIDIA-H100": 1}"#});
    world.queue(&queue("cr-queue1", &quota, &json!({})));
    world.pods(inference("NVIDIA-A100|NVIDIA-H100"));
    let cards: Vec<_> = world.admit().into_iter().map(|(_, card)| card.unwrap()).collect();
    assert_eq!(cards, ["NVIDIA-A100", "NVIDIA-H100"]);
}

/// Dimensions, **Queue Definition** and **1. GPU-Only Queue**: GPUs are checked, CPU and memory are not.
#[test]
fn queues_that_name_gpus_alone_are_limited_in_these_alone() {
    let gpu_queue = json!({"weight": 1, "capability": {"nvidia.com/gpu": "16"}, "reclaimable": true});
    let gpu_training = json!({"capability": {"nvidia.com/gpu": "32"}});
    for (name, spec, gpus) in [("gpu-queue", gpu_queue, 16), ("gpu-training", gpu_training, 32)] {
        let mut world = World::with(capacity("enqueue, allocate", "checkQueueDimensionsOnly: true"));
        world.node(&node("n").cards("A", 64).offers("cpu", "900"));
        // Nearly all CPU is promised to others.
        world.queue(&queue(
            "others",
            &json!({}),
            &json!({"guarantee": {"resource": {"cpu": "899"}}}),
        ));
        world.queue(&queue(name, &json!({}), &spec));
        world.pod(
            &pod("p")
                .queue(name)
                .requests("cpu", "100")
                .requests(GPU, &gpus.to_string()),
        );
        world.pod(&pod("q").queue(name).requests("cpu", "100").requests(GPU, "1"));
        assert_eq!(world.admit_names(), ["p"], "{name}");
        assert_eq!(
            world.refusal(),
            format!("InsufficientScalarQuota: queue {name}: nvidia.com/gpu asked 1, used {gpus}, quota {gpus}")
        );
    }
}

/// Dimensions, **3. Default Behavior for General Purpose Queue**: "All resources (CPU, memory, GPU) will be checked".
#[test]
fn the_default_queue_is_checked_in_all_that_it_names() {
    let spec = json!({"capability": {"cpu": "100", "memory": "200Gi", "nvidia.com/gpu": "8"}});
    for (resource, most, more, reason) in [
        ("cpu", "100", "101", "InsufficientCPUQuota"),
        ("memory", "200Gi", "201Gi", "InsufficientMemoryQuota"),
        (GPU, "8", "9", "InsufficientScalarQuota"),
    ] {
        let mut world = World::with(capacity("enqueue, allocate", ""));
        world.node(&node("n").cards("A", 64).offers("cpu", "900"));
        world.queue(&queue("default-queue", &json!({}), &spec));
        world.pod(&pod("p").queue("default-queue").requests(resource, more));
        assert_eq!(world.refusal_of("p"), reason);
        world.remove_pod("p");
        world.pod(&pod("q").queue("default-queue").requests(resource, most));
        assert_eq!(world.admit_names(), ["q"], "{resource}");
    }
}

/// capacity, the queue's field `deserved`, with the document's slip in `memeory`: what is above it in CPU is given back.
#[test]
fn queue1_gives_back_what_it_has_beyond_what_it_deserves() {
    let spec = json!({"reclaimable": true, "deserved": {"cpu": 2, "memeory": "8Gi"}});
    let mut world = World::with(capacity("enqueue, allocate, reclaim", ""));
    world.node(&node("n").offers("cpu", "4"));
    for name in ["queue1", "queue2"] {
        world.queue(&queue(name, &json!({}), &spec));
    }
    world.pods((0..4).map(|index| pod(&format!("p{index}")).queue("queue1").on("n")));
    world.pods((0..3).map(|index| pod(&format!("q{index}")).queue("queue2")));
    let actions = world.decide();
    assert_eq!(actions.len(), 2, "half of it, and no more: {actions:?}");
}
