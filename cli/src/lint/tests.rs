use serde_json::{Value, json};

use super::*;

fn pod(card: &str, count: u32, queue: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "train",
            "annotations": { "volcano.sh/card.name": card, "scheduling.volcano.sh/queue-name": queue },
        },
        "spec": { "containers": [{ "name": "main", "image": "i", "resources": { "limits": { "nvidia.com/gpu": count.to_string() } } }] },
    }))
}

fn queue(name: &str, quota: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": name, "annotations": { "volcano.sh/card.quota": quota } },
        "spec": { "capability": { "cpu": "1", "memory": "1Gi" } },
    }))
}

fn node(product: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n1", "labels": { "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.replicas": "1" } },
        "status": { "allocatable": { "nvidia.com/gpu": "4" }, "capacity": { "nvidia.com/gpu": "4" } },
    }))
}

async fn lint(manifests: &[Manifest]) -> (Answer, Value) {
    lint_change(&[], manifests).await
}

async fn lint_change(before: &[Manifest], manifests: &[Manifest]) -> (Answer, Value) {
    let before = Before::of(before.to_vec(), "team");
    let answer = answer(manifests, &before, None, "team", false).await.unwrap();
    let data = answer.write(Some(crate::arguments::Output::Json)).unwrap();
    (answer, serde_json::from_str(&data).unwrap())
}

#[tokio::test]
async fn what_is_right_is_right_and_what_is_not_known_is_said() {
    let (answer, data) = lint(&[pod("NVIDIA-A100", 1, "team-a")]).await;
    assert_eq!(answer.code, 0, "{data:#}");
    assert_eq!(data["objects"][0]["warnings"], json!([]), "{data:#}");
    assert_eq!(data["objects"][0]["namespace"], "team");
    let notes = answer.notes.join("\n");
    for unchecked in ["which cards there are", "whether queue \"team-a\" exists", "settings"] {
        assert!(notes.contains(unchecked), "{unchecked} is missing: {notes}");
    }
}

/// Users see the examples first, and example 3 drew a warning when it was applied.
#[tokio::test]
async fn queues_of_the_examples_draw_no_warning() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut queues = 0;
    for file in std::fs::read_dir(examples).unwrap() {
        let path = file.unwrap().path();
        let manifests: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let manifests: Vec<_> = manifests.into_iter().map(Manifest::in_a_file).collect();
        let (_, data) = lint(&manifests).await;
        for object in data["objects"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|object| object["kind"] == "Queue")
        {
            queues += 1;
            assert_eq!(object["warnings"], json!([]), "{}: {object:#}", path.display());
        }
    }
    assert!(queues > 5, "{queues}");
}

#[tokio::test]
async fn what_the_door_refuses_is_refused_in_its_words() {
    let (answer, data) = lint(&[queue("a", "{\"NVIDIA-A100\": 2.5}"), pod("A100|", 1, "a")]).await;
    assert_eq!(answer.code, REFUSED);
    let said = |index: usize| {
        data["objects"][index]["refused"]["message"]
            .as_str()
            .unwrap_or_default()
    };
    assert!(said(0).contains("has the value 2.5: write a whole number"), "{data:#}");
    assert!(said(1).contains("volcano.sh/card.name"), "{data:#}");
}

#[tokio::test]
async fn what_policies_forbid_is_refused_in_their_words_after_the_webhook_has_written() {
    let mut forged = pod("NVIDIA-A100", 1, "a");
    forged.object["metadata"]["annotations"]["volcano.sh/card.assigned"] = "NVIDIA-A100".into();
    let mut queue = queue("b", "{}");
    queue.object["metadata"]["annotations"]["card.volcano.sh/namespaces"] = "a".repeat(5_000).into();
    let (answer, data) = lint(&[forged, queue]).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    // The webhook removes it and adds the gate, so no policy objects.
    assert_eq!(data["objects"][0]["refused"], Value::Null, "{data:#}");
    let refused = &data["objects"][1]["refused"];
    let says =
        "annotation card.volcano.sh/namespaces has 5000 characters, and 4096 are allowed: leave out what is not needed";
    assert_eq!(
        (&refused["message"], &refused["reason"]),
        (&json!(says), &json!("Forbidden")),
        "{data:#}"
    );
}

#[tokio::test]
async fn a_card_is_compared_with_the_nodes_of_the_files_and_else_with_the_quotas() {
    let all = [queue("a", "{\"NVIDIA-A100\": 2}"), pod("NVIDIA-A10O", 1, "a")];
    let (answer, data) = lint(&all).await;
    let warnings = &data["objects"][1]["warnings"];
    let meant = "no queue of these files has a quota for the card \"NVIDIA-A10O\" (did you mean \"NVIDIA-A100\"?)";
    assert_eq!((answer.code, warnings), (0, &json!([meant])), "{data:#}");

    let [queue, pod] = all;
    let (answer, data) = lint(&[node("NVIDIA-A100"), queue, pod]).await;
    let warnings = data["objects"][1]["warnings"].to_string();
    assert!(warnings.contains("no node has the card"), "{data:#}");
    assert!(warnings.contains("did you mean"), "{data:#}");
    assert!(!answer.notes.join("\n").contains("which cards"), "{data:#}");
}

/// What NVIDIA's driver publishes of one node, and the class that it installs.
fn devices(product: &str) -> [Manifest; 2] {
    let driver = "gpu.nvidia.com";
    let attributes = json!({ "type": { "string": "gpu" }, "productName": { "string": product } });
    let expression = format!("device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'");
    [
        Manifest::in_a_file(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": product.to_lowercase() },
            "spec": { "driver": driver, "nodeName": product.to_lowercase(), "devices": [{ "name": "gpu-0", "attributes": attributes }],
                "pool": { "name": product, "generation": 1, "resourceSliceCount": 1 } },
        })),
        Manifest::in_a_file(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": driver },
            "spec": { "selectors": [{ "cel": { "expression": expression } }] },
        })),
    ]
}

fn claim_template(name: &str, class: &str, expression: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": name },
        "spec": { "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": {
            "deviceClassName": class, "selectors": [{ "cel": { "expression": expression } }],
        } }] } } },
    }))
}

/// A pod that names a card, with a claim from a template.
fn claiming(card: &str, template: &str) -> Manifest {
    let mut pod = pod(card, 1, "team-a");
    let spec = &mut pod.object["spec"];
    spec["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimTemplateName": template }]);
    spec["containers"][0]["resources"] = json!({ "claims": [{ "name": "gpu" }] });
    pod
}

#[tokio::test]
async fn a_card_that_the_claims_of_a_pod_do_not_select_is_refused() {
    let [a100, class] = devices("NVIDIA-A100");
    let [h100, _] = devices("NVIDIA-H100");
    let is_a100 = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA-A100'";
    let template = claim_template("mine", "gpu.nvidia.com", is_a100);
    let all = [
        a100,
        h100,
        class,
        template,
        claiming("NVIDIA-H100", "mine"),
        claiming("NVIDIA-A100", "mine"),
    ];
    let (answer, data) = lint(&all).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    let judged = |index: usize| &data["objects"][index];
    // The class and the template are judged before the pods.
    assert_eq!(judged(1)["kind"], "ResourceClaimTemplate", "{data:#}");
    assert_eq!(judged(2)["refused"]["reason"], "ClaimsOtherCards", "{data:#}");
    assert_eq!(
        (&judged(3)["refused"], &judged(3)["warnings"]),
        (&Value::Null, &json!([])),
        "{data:#}"
    );

    // Without the devices nothing is certain, and the answer says what is not known.
    let (answer, data) = lint(&[all[3].clone(), all[4].clone()]).await;
    assert_eq!(answer.code, 0, "{data:#}");
    let notes = answer.notes.join("\n");
    assert!(
        notes.contains("DeviceClass \"gpu.nvidia.com\", and which cards it has"),
        "{notes}"
    );
    let (_, data) = lint(&all[4..5]).await;
    assert!(
        data["unchecked"]
            .to_string()
            .contains("ResourceClaimTemplate \\\"mine\\\""),
        "{data:#}"
    );
}

#[tokio::test]
async fn selectors_that_are_not_evaluated_are_told_where_they_stand() {
    let odd = "device.attributes['gpu.nvidia.com'].productName.matches('A{3}')";
    let mut class = devices("NVIDIA-A100")[1].clone();
    class.object["metadata"]["name"] = "broken".into();
    class.object["spec"]["selectors"][0]["cel"]["expression"] = "device.attributes[".into();
    let mut claim = claim_template("hand", "gpu.nvidia.com", odd);
    claim.object["kind"] = "ResourceClaim".into();
    claim.object["spec"] = claim.object["spec"]["spec"].clone();
    let (answer, data) = lint(&[class, claim_template("made", "gpu.nvidia.com", odd), claim]).await;
    assert_eq!(answer.code, 0, "{data:#}");
    for (index, says) in [
        (0, "it can't be read"),
        (1, "matches with a pattern"),
        (2, "matches with a pattern"),
    ] {
        let warnings = data["objects"][index]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 1, "{data:#}");
        assert!(warnings[0].as_str().unwrap().contains(says), "{data:#}");
    }
}

#[tokio::test]
async fn a_deployment_whose_pods_would_be_refused_is_refused() {
    let mut template = pod("NVIDIA-A100", 1, "a").object;
    template["metadata"]["annotations"]["volcano.sh/card.name"] = "A|".into();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "n" },
        "spec": { "template": { "metadata": template["metadata"], "spec": template["spec"] } },
    });
    let (answer, data) = lint(&[Manifest::in_a_file(deployment)]).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    let said = data["objects"][0]["refused"]["message"].as_str().unwrap_or_default();
    assert!(said.starts_with("spec.template: "), "{data:#}");
}

#[tokio::test]
async fn a_parent_that_is_not_in_the_files_refuses_nobody_and_a_bad_configuration_fails() {
    let mut child = queue("child", "{\"NVIDIA-A100\": 2}");
    child.object["spec"]["parent"] = "dept".into();
    let configuration = |conf: &str| {
        Manifest::in_a_file(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "cardgate-config", "namespace": "cardgate-system" },
            "data": { "volcano-scheduler.conf": conf },
        }))
    };
    let hierarchy = "tiers: [{plugins: [{name: capacity-card, arguments: {enableHierarchy: true}}]}]";
    let (answer, data) = lint(&[configuration(hierarchy), child]).await;
    assert_eq!(answer.code, 0, "{data:#}");
    let notes = answer.notes.join("\n");
    assert!(notes.contains("whether queue \"dept\" exists, and has"), "{notes}");
    assert!(!notes.contains("settings"), "{notes}");

    let (answer, data) = lint(&[configuration("tiers: 3")]).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    assert_eq!(data["objects"][0]["refused"]["reason"], "ConfigurationInvalid");
}

#[tokio::test]
async fn a_change_is_judged_as_the_door_and_the_policies_judge_updates() {
    let nodes = [node("NVIDIA-A100")];
    let with_nodes = |manifests: &[Manifest]| [&nodes, manifests].concat();
    // What a pod is charged by can't be changed. The pod is judged as it exists, past the webhook.
    let mut there = pod("NVIDIA-A100", 1, "a");
    there.object["spec"]["schedulingGates"] = json!([{ "name": "card.volcano.sh/quota" }]);
    let mut other = there.clone();
    other.object["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "b".into();
    let (answer, data) = lint_change(std::slice::from_ref(&there), &with_nodes(&[other])).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    let object = &data["objects"][0];
    assert_eq!(object["operation"], "Update", "{data:#}");
    let said = object["refused"]["message"].as_str().unwrap_or_default();
    assert!(
        said.contains("never added, changed or removed after the pod's creation"),
        "{data:#}"
    );
    let (answer, data) = lint_change(std::slice::from_ref(&there), &with_nodes(&[there.clone()])).await;
    assert_eq!(answer.code, 0, "{data:#}");
    // A quota that can't be read is refused in a change as in a new queue.
    let (good, bad) = (queue("a", "{\"NVIDIA-A100\": 2}"), queue("a", "{\"NVIDIA-A100\": 2.5}"));
    let (answer, data) = lint_change(&[good], &with_nodes(&[bad])).await;
    assert_eq!(
        (answer.code, data["objects"][0]["operation"].as_str()),
        (REFUSED, Some("Update")),
        "{data:#}"
    );
    // An object that did not exist before is created.
    let (_, data) = lint_change(&[queue("b", "{}")], &with_nodes(&[queue("a", "{}")])).await;
    assert_eq!(data["objects"][0]["operation"], "Create", "{data:#}");
}

fn group(queue: Option<&str>) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "gang" }, "spec": { "minMember": 1, "queue": queue },
    }))
}

/// A queue that is open only to another namespace.
fn closed(name: &str) -> Manifest {
    let mut queue = queue(name, "{\"NVIDIA-A100\": 2}");
    queue.object["metadata"]["annotations"]["card.volcano.sh/namespaces"] = "others".into();
    queue
}

/// The namespace of objects that name none, with the queue that it names.
fn namespace(queue: &str) -> Manifest {
    Manifest::in_a_file(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "team", "annotations": { "scheduling.volcano.sh/queue-name": queue } },
    }))
}

/// A pod that names its group, and no queue.
fn member() -> Manifest {
    let mut pod = pod("NVIDIA-A100", 1, "");
    pod.object["metadata"]["annotations"] = json!({
        "volcano.sh/card.name": "NVIDIA-A100", "scheduling.k8s.io/group-name": "gang",
    });
    pod
}

#[tokio::test]
async fn a_group_of_the_same_files_is_found_where_neither_names_the_namespace() {
    // A group that is applied again without its queue keeps the queue.
    for groups in [&[group(Some("a"))][..], &[group(Some("a")), group(None)]] {
        let all = [&[closed("a"), namespace("mine")], groups, &[member()]].concat();
        let (answer, data) = lint(&all).await;
        let notes = answer.notes.join("\n");
        assert!(!notes.contains("which queue PodGroup"), "{notes}");
        let pod = data["objects"].as_array().unwrap().last().unwrap();
        let said = pod["refused"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("spec.queue of PodGroup \"gang\""), "{data:#}");
    }
}

#[tokio::test]
async fn a_group_that_names_no_queue_has_the_one_that_api_servers_write() {
    let all = [
        closed("default"),
        queue("mine", "{\"NVIDIA-A100\": 2}"),
        namespace("mine"),
        group(None),
        member(),
    ];
    let (answer, data) = lint(&all).await;
    assert_eq!(answer.code, REFUSED, "{data:#}");
    let refused = |kind: &str| {
        let objects = data["objects"].as_array().unwrap();
        let found = objects.iter().find(|object| object["kind"] == kind).unwrap();
        found["refused"]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert!(refused("PodGroup").contains("queue \"default\""), "{data:#}");
    assert!(refused("Pod").contains("spec.queue of PodGroup \"gang\""), "{data:#}");

    // Between two files, both imply the same queue, so no queue is newly named.
    let (_, data) = lint_change(&[group(None)], &[closed("default"), group(None)]).await;
    let object = &data["objects"][1];
    assert_eq!(
        (&object["operation"], &object["refused"]),
        (&json!("Update"), &Value::Null),
        "{data:#}"
    );
}

/// It is not known whether the namespace may use the queue. So it is not known either what the webhook would write for the
/// policies.
#[tokio::test]
async fn what_rests_on_what_is_not_known_is_not_refused_by_policies_either() {
    let (answer, data) = lint(&[closed("a"), pod("NVIDIA-A100", 1, "a")]).await;
    assert_eq!(data["objects"][1]["refused"], Value::Null, "{data:#}");
    assert_eq!(answer.code, 0, "{data:#}");
    let unchecked = "whether namespace \"team\" may use queue \"a\", which its labels say";
    assert!(
        data["unchecked"].as_array().unwrap().contains(&unchecked.into()),
        "{data:#}"
    );
}
