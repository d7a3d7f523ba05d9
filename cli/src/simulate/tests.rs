mod there;

use serde_json::{Value, json};

use super::*;

const CARD: &str = "NVIDIA-A100";

fn node(name: &str, cards: u32) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "nvidia.com/gpu.product": CARD, "nvidia.com/gpu.count": cards.to_string(),
            "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.replicas": "1",
        } },
        "status": { "capacity": { "nvidia.com/gpu": cards.to_string(), "cpu": "64", "memory": "512Gi" } },
    }))
}

/// A node as a cluster has it.
fn ready_node(name: &str, cards: u32) -> Manifest {
    let mut node = node(name, cards);
    node.object["metadata"]["uid"] = "n".into();
    node.object["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    node.object["status"]["allocatable"] = node.object["status"]["capacity"].clone();
    node.object["status"]["allocatable"]["pods"] = "110".into();
    node
}

fn queue(name: &str, quota: u32) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": name, "annotations": { "volcano.sh/card.quota": json!({ CARD: quota }).to_string() } },
        "spec": { "capability": { "cpu": "64", "memory": "512Gi" } },
    }))
}

fn template(queue: &str, cards: u32) -> Value {
    json!({
        "metadata": { "annotations": { "volcano.sh/card.name": CARD, "scheduling.volcano.sh/queue-name": queue } },
        "spec": { "containers": [{ "name": "main", "image": "i", "resources": { "limits": {
            "nvidia.com/gpu": cards.to_string(), "cpu": "1", "memory": "1Gi",
        } } }] },
    })
}

fn deployment(name: &str, queue: &str, replicas: u32) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": template(queue, 1) },
    }))
}

fn world(manifests: Vec<Manifest>) -> World {
    let mut world = World::default();
    world.add(manifests, "team");
    world
}

async fn report(world: World) -> Report {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    simulate(world, now).await.unwrap()
}

#[tokio::test]
async fn as_many_are_let_in_as_quota_and_nodes_have_room_for() {
    let all = vec![
        node("n1", 2),
        queue("a", 3),
        queue("b", 3),
        deployment("a", "a", 4),
        deployment("b", "b", 1),
    ];
    let told = report(world(all.clone())).await;
    assert_eq!(told.admitted.len(), 2, "{told:#?}");
    assert!(
        told.admitted.iter().all(|row| row.node.as_deref() == Some("n1")),
        "{told:#?}"
    );
    assert_eq!(told.waiting.len(), 3, "{told:#?}");
    assert_eq!(code(&told), WAITS);

    // With more nodes some pods still wait for quota; with more quota none waits.
    let mut more = world(all.clone());
    more.add_nodes("n1=2").unwrap();
    let told = report(more).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (4, 1), "{told:#?}");
    let waits = &told.waiting[0];
    assert_eq!(
        (&*waits.queue, &*waits.reason),
        ("a", "InsufficientScalarQuota"),
        "{told:#?}"
    );
    let mut more = world(all);
    more.add_nodes("n1=2").unwrap();
    more.set("a.NVIDIA-A100=4").unwrap();
    let told = report(more).await;
    assert_eq!((told.admitted.len(), code(&told)), (5, 0), "{told:#?}");
    assert_eq!(told.admitted[0].order, 1);
}

/// Capacity Card, **Example 4: Node Ordering Configuration**: how the weight changes the order of a pod's cards.
#[tokio::test]
async fn example_4_the_score_of_the_card_is_told_where_there_is_a_choice() {
    const CARDS: [&str; 3] = ["NVIDIA-A100", "NVIDIA-H100", "NVIDIA-T4"];
    let conf = |weight: &str| {
        format!(
            "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: capacity-card\n    arguments: {{{weight}}}\n"
        )
    };
    let with = async |weight: &str, card_name: &str| {
        let mut all = vec![Manifest::in_a_file(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "cardgate-config", "namespace": "cardgate-system" },
            "data": { "volcano-scheduler.conf": conf(weight) },
        }))];
        for card in CARDS {
            let mut node = node(card, 1);
            node.object["metadata"]["labels"]["nvidia.com/gpu.product"] = card.into();
            all.push(node);
        }
        let mut queue = queue("team-a", 1);
        let quota = json!({ CARDS[0]: 1, CARDS[1]: 1, CARDS[2]: 1 });
        queue.object["metadata"]["annotations"]["volcano.sh/card.quota"] = quota.to_string().into();
        let mut pods = deployment("train", "team-a", 3);
        pods.object["spec"]["template"]["metadata"]["annotations"]["volcano.sh/card.name"] = card_name.into();
        all.extend([queue, pods]);
        let report = report(world(all)).await;
        let data = serde_json::to_value(&report).unwrap();
        let rows = data["admitted"].as_array().unwrap().clone();
        let scores: Vec<_> = rows
            .iter()
            .map(|row| (row["card"].clone(), row["score"].clone()))
            .collect();
        let mut answer = Answer::new(&report).unwrap();
        show(&report, &mut answer);
        (scores, answer.write(None).unwrap())
    };
    let (scores, text) = with("nodeOrderWeight: 2.0", &CARDS.join("|")).await;
    let expected = [(CARDS[0], 200.0), (CARDS[1], 100.0), (CARDS[2], 50.0)];
    assert_eq!(scores, expected.map(|(card, score)| (json!(card), json!(score))));
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    assert_eq!(lines[1], ["ORDER", "POD", "QUEUE", "CARD", "SCORE", "NODE"], "{text}");
    assert_eq!(lines[4][3..5], ["NVIDIA-T4", "50"], "{text}");
    let (scores, _) = with("", &CARDS.join("|")).await;
    assert_eq!(scores[2].1, json!(25.0));
    // Without a choice there is nothing to order.
    let (scores, text) = with("nodeOrderWeight: 2.0", CARDS[0]).await;
    assert_eq!(scores, [(json!(CARDS[0]), Value::Null)]);
    assert!(!text.contains("SCORE"), "{text}");
}

/// A node whose cards are devices, with the slice that its driver publishes, and the driver's class.
fn by_devices(name: &str, cards: u32) -> Vec<Manifest> {
    let driver = "gpu.nvidia.com";
    let device = |index| {
        json!({ "name": format!("gpu-{index}"), "attributes": {
            "type": { "string": "gpu" }, "productName": { "string": "NVIDIA A100" }, "index": { "int": index },
        } })
    };
    let expression = format!("device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'");
    vec![
        Manifest::in_a_file(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "status": { "capacity": { "cpu": "64", "memory": "512Gi" } },
        })),
        Manifest::in_a_file(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": format!("{name}-gpu") },
            "spec": { "driver": driver, "nodeName": name, "devices": (0..cards).map(device).collect::<Value>(),
                "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } },
        })),
        Manifest::in_a_file(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": driver },
            "spec": { "selectors": [{ "cel": { "expression": expression } }] },
        })),
    ]
}

/// A template of claims for so many cards.
fn claim_template(name: &str, cards: u32) -> Manifest {
    let expression = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100'";
    Manifest::in_a_file(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": name },
        "spec": { "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": {
            "deviceClassName": "gpu.nvidia.com", "count": cards, "selectors": [{ "cel": { "expression": expression } }],
        } }] } } },
    }))
}

/// A Deployment whose pods claim devices.
fn claiming(name: &str, queue: &str, replicas: u32, template: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "replicas": replicas, "template": {
            "metadata": { "annotations": { "scheduling.volcano.sh/queue-name": queue } },
            "spec": {
                "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": template }],
                "containers": [{ "name": "main", "image": "i", "resources": { "limits": { "cpu": "1" }, "claims": [{ "name": "gpu" }] } }],
            },
        } },
    }))
}

#[tokio::test]
async fn claims_are_made_from_templates_as_their_controller_would() {
    let mut all = by_devices("n1", 4);
    all.extend([
        queue("a", 5),
        claim_template("two", 2),
        claiming("web", "a", 3, "two"),
        claiming("later", "a", 1, "none"),
    ]);
    let told = report(world(all.clone())).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (2, 2), "{told:#?}");
    for row in &told.admitted {
        assert_eq!(
            (row.card.as_deref(), row.node.as_deref()),
            (Some(r#"{"NVIDIA-A100":2}"#), Some("n1")),
            "{told:#?}"
        );
    }
    let mut reasons: Vec<_> = told.waiting.iter().map(|row| (&*row.name, &*row.reason)).collect();
    reasons.sort_unstable();
    let [(later, missing), (_, quota)] = reasons[..] else {
        panic!("{told:#?}")
    };
    assert_eq!(
        (later, missing, quota),
        ("later-0", "ResourceClaimNotFound", "InsufficientScalarQuota"),
        "{told:#?}"
    );

    // A further node like this one has its devices too.
    let mut more = world(all);
    more.add_nodes("n1=1").unwrap();
    more.set("a.NVIDIA-A100=6").unwrap();
    let told = report(more).await;
    assert_eq!(told.admitted.len(), 3, "{told:#?}");
}

#[tokio::test]
async fn a_job_that_is_resumed_gets_its_claims_with_its_pods() {
    let template = claiming("x", "a", 1, "one").object["spec"]["template"].clone();
    let job = Manifest::in_a_file(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "train", "annotations": { "volcano.sh/card.request": json!({ CARD: 2 }).to_string() } },
        "spec": { "parallelism": 2, "completions": 2, "template": template },
    }));
    let mut all = by_devices("n1", 2);
    all.extend([queue("a", 2), claim_template("one", 1), job]);
    let told = report(world(all)).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (2, 0), "{told:#?}");
}

#[tokio::test]
async fn a_held_job_makes_its_pods_when_it_is_resumed() {
    let job = Manifest::in_a_file(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "train", "annotations": { "volcano.sh/card.request": json!({ CARD: 2 }).to_string() } },
        "spec": { "parallelism": 2, "completions": 2, "template": template("a", 1) },
    }));
    let told = report(world(vec![node("n1", 2), queue("a", 2), job.clone()])).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (2, 0), "{told:#?}");
    let told = report(world(vec![node("n1", 2), queue("a", 1), job])).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (0, 1), "{told:#?}");
    assert_eq!(told.waiting[0].kind, "Job");
    assert_eq!(code(&told), NEVER, "{told:#?}");
}

#[tokio::test]
async fn a_job_of_volcano_is_let_in_as_a_whole_or_waits_as_a_whole() {
    let task = |name: &str, replicas: u32| json!({ "name": name, "replicas": replicas, "template": template("a", 1) });
    let job = |workers: u32| {
        Manifest::in_a_file(json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "queue": "a", "minAvailable": 1 + workers, "tasks": [task("master", 1), task("worker", workers)] },
        }))
    };
    let told = report(world(vec![node("n1", 4), queue("a", 3), job(2)])).await;
    let names: Vec<_> = told.admitted.iter().map(|row| &*row.pod).collect();
    assert_eq!(
        names,
        ["train-master-0", "train-worker-0", "train-worker-1"],
        "{told:#?}"
    );
    assert_eq!(code(&told), 0, "{told:#?}");

    // One card is missing, so the Job gets none.
    let told = report(world(vec![node("n1", 4), queue("a", 3), job(3)])).await;
    let kinds = |kind: &str| told.waiting.iter().filter(|row| row.kind == kind).count();
    assert_eq!(
        (told.admitted.len(), kinds("Pod"), kinds("PodGroup")),
        (0, 4, 1),
        "{told:#?}"
    );
    assert!(told.waiting.iter().all(|row| row.is_new && row.never), "{told:#?}");
    assert!(
        told.waiting
            .iter()
            .all(|row| row.message.contains("as a whole: NVIDIA-A100 asked 4, allocated 0")),
        "{told:#?}"
    );
}

/// The Job is as people write it: the queue on the Job alone, and numbers without quotes.
#[tokio::test]
async fn pods_of_a_job_of_volcano_are_in_its_queue() {
    let mut template = template("a", 1);
    template["metadata"]["annotations"] = json!({ "volcano.sh/card.name": CARD });
    template["spec"]["containers"][0]["resources"]["limits"] = json!({ "nvidia.com/gpu": 1, "cpu": 0.5 });
    let job = Manifest::in_a_file(json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
        "spec": { "queue": "a", "tasks": [{ "name": "worker", "replicas": 2, "template": template }] },
    }));
    let told = report(world(vec![node("n1", 4), queue("a", 3), job])).await;
    let queues: Vec<_> = told.admitted.iter().map(|row| &*row.queue).collect();
    assert_eq!(queues, ["a", "a"], "{told:#?}");
}

#[tokio::test]
async fn a_job_of_volcano_whose_pods_can_not_be_read_is_refused() {
    let mut much = template("a", 1);
    much["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "much".into();
    let mut annotated = template("a", 1);
    annotated["metadata"]["annotations"] = "text".into();
    for task in [
        json!({ "template": much }),
        json!({ "template": annotated }),
        json!({ "template": "text" }),
        json!("text"),
    ] {
        let job = Manifest::in_a_file(json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "queue": "a", "tasks": [task.clone(), task] },
        }));
        let told = report(world(vec![node("n1", 4), queue("a", 3), job])).await;
        assert_eq!((told.refused.len(), code(&told)), (1, REFUSED), "{:?}", told.refused);
    }
}

#[tokio::test]
async fn pods_that_others_hold_and_are_none_of_cardgates_are_not_told_of() {
    let foreign = Manifest::in_a_file(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "foreign" },
        "spec": { "schedulingGates": [{ "name": "example.com/gate" }], "containers": [{ "name": "main", "image": "i" }] },
    }));
    let told = report(world(vec![node("n1", 4), queue("a", 3), foreign])).await;
    assert_eq!((told.admitted.len(), told.waiting.len()), (0, 0), "{told:#?}");
}

#[test]
fn of_a_job_of_volcano_without_end_so_many_pods_are_made_as_asked_for() {
    let task = json!({ "template": template("a", 1), "replicas": u64::MAX });
    let job = Manifest::in_a_file(json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
        "spec": { "tasks": [task.clone(), task] },
    }));
    assert_eq!(volcano_job::expand(&job, 3).unwrap().pods.len(), 3);
}

#[tokio::test]
async fn what_the_door_refuses_is_not_simulated() {
    let mut bad = deployment("web", "a", 3);
    bad.object["spec"]["template"]["metadata"]["annotations"]["volcano.sh/card.name"] = "A|".into();
    let told = report(world(vec![node("n1", 2), queue("a", 2), bad])).await;
    assert_eq!(
        (told.admitted.len(), told.refused.len(), code(&told)),
        (0, 1, REFUSED),
        "{told:#?}"
    );
}

#[tokio::test]
async fn a_quota_of_a_card_that_no_node_has_is_told() {
    let mut world = world(vec![queue("a", 1), node("n1", 1)]);
    world.set("a.NVIDIA-A100=4").unwrap();
    world.set("a.cpu=4").unwrap();
    world.set("a.NVIDIA-A10O=4").unwrap();
    let told = report(world).await;
    let expected = "no node has the card \"NVIDIA-A10O\" of which a quota is set (did you mean \"NVIDIA-A100\"?)";
    assert_eq!(told.notes, [expected]);
}

#[test]
fn a_change_that_can_not_be_made_says_why() {
    let mut world = world(vec![queue("team.a", 1), node("n1", 1)]);
    for (change, says) in [
        ("team.a", "write --set"),
        ("nobody.NVIDIA-A100=1", "no queue that there is"),
        ("team.a.NVIDIA-A100=x", "write --set"),
    ] {
        let said = world.set(change).unwrap_err().to_string();
        assert!(said.contains(says), "{change}: {said}");
    }
    world.set("team.a.NVIDIA-A100/mig-1g.5gb=2").unwrap();
    world.set("team.a.cpu=2").unwrap();
    assert!(world.add_nodes("n2=1").unwrap_err().to_string().contains("no node"));
    assert!(world.add_nodes("n1").unwrap_err().to_string().contains("--add-nodes"));
}

#[tokio::test]
async fn a_class_of_priorities_says_who_goes_first_and_one_that_is_not_there_refuses_its_pods() {
    let class = |name: &str, value: i64, is_default: bool| {
        Manifest::in_a_file(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value,
            "globalDefault": is_default,
        }))
    };
    let of_class = |name: &str, class: &str| {
        let mut made = deployment(name, "a", 1);
        made.object["spec"]["template"]["spec"]["priorityClassName"] = class.into();
        made
    };
    let all = vec![
        node("n1", 4),
        queue("a", 4),
        class("usual", 5, true),
        class("low", 1, false),
        class("training-high", 9, false),
        of_class("l", "low"),
        deployment("usual", "a", 1),
        of_class("h", "training-high"),
        of_class("gone", "traning-high"),
    ];
    let told = report(world(all)).await;
    let names: Vec<_> = told.admitted.iter().map(|row| &*row.pod).collect();
    assert_eq!(names, ["h-0", "usual-0", "l-0"], "{told:#?}");
    assert_eq!(code(&told), REFUSED);
    let message = &told.refused[0].message;
    let expected = "Deployment gone makes no pods: priorityClassName \"traning-high\": there is no PriorityClass of that name (did you mean \"training-high\"?)";
    assert!(message.starts_with(expected), "{message}");
}

/// Replaces each value of `object` that is reached by so many steps by another value, one at a time.
fn mutated(object: &Value, other: &Value) -> Vec<Value> {
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        let keys: Vec<String> = match value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        for key in keys {
            let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            if let Some(value) = value.pointer(&place[at.len()..]) {
                places(value, &place, found);
            }
            found.push(place);
        }
    }
    let mut found = Vec::new();
    places(object, "", &mut found);
    let replaced = found.into_iter().map(|place| {
        let mut object = object.clone();
        *object.pointer_mut(&place).unwrap() = other.clone();
        object
    });
    replaced.collect()
}

/// API servers write the queue `default` on such a group, whatever queue its namespace names.
#[tokio::test]
async fn a_group_that_names_no_queue_is_in_the_one_that_api_servers_write() {
    let mut pod = Manifest::in_a_file(json!({ "apiVersion": "v1", "kind": "Pod" }));
    pod.object["spec"] = template("", 1)["spec"].clone();
    pod.object["metadata"] = json!({
        "name": "first", "annotations": { "volcano.sh/card.name": CARD, "scheduling.k8s.io/group-name": "gang" },
    });
    let world = world(vec![
        node("n1", 4),
        queue("default", 2),
        queue("mine", 2),
        Manifest::in_a_file(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": "team", "annotations": { "scheduling.volcano.sh/queue-name": "mine" } },
        })),
        Manifest::in_a_file(json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": { "name": "gang" }, "spec": { "minMember": 1 },
        })),
        pod,
    ]);
    let told = report(world).await;
    let queues: Vec<_> = told.admitted.iter().map(|admitted| &*admitted.queue).collect();
    assert_eq!(queues, ["default"], "{told:?}");
}

/// Whatever value an input has anywhere, it is refused, left out or judged, and nothing panics.
#[tokio::test]
async fn whatever_stands_in_the_files_nothing_falls() {
    let mut whole = by_devices("n1", 1);
    whole.extend([
        node("n1", 1),
        queue("a", 3),
        deployment("web", "a", 1),
        claim_template("one", 1),
        claiming("claims", "a", 1, "one"),
        Manifest::in_a_file(json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "queue": "a", "tasks": [{ "name": "t", "replicas": 1, "template": template("a", 1) }] },
        })),
        Manifest::in_a_file(json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" }, "value": 9 })),
    ]);
    let foreign = ["Node", "Pod", "Queue", "ResourceSlice", "PriorityClass", "Job"].map(|kind| {
        Manifest::in_a_file(json!({ "apiVersion": "example.com/v1", "kind": kind, "metadata": { "name": "a" }, "spec": {}, "status": {} }))
    });
    whole.extend(foreign);
    for other in [json!("text"), json!([1])] {
        let all: Vec<_> = whole.iter().map(|manifest| mutated(&manifest.object, &other)).collect();
        let most = all.iter().map(Vec::len).max().unwrap();
        for round in 0..most {
            // Each object gets a different mutation, so that one run tries many.
            let texts = all.iter().filter_map(|mutated| mutated.get(round % mutated.len()));
            let read = texts
                .filter_map(|object| crate::manifests::read_text_of(&object.to_string()).ok())
                .flatten();
            let mut world = world(read.collect());
            let _ = world.set("a.NVIDIA-A100=4");
            let _ = world.add_nodes("n1=1");
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            let _ = simulate(world, now).await;
        }
    }
}
