//! What a thief can do with the token of Cardgate's own operator or webhook: what these programs do, and no more.

use anyhow::Context as _;
use cardgate_tests::cardgate::{Cardgate, NAMESPACE};
use cardgate_tests::controlplane::Account;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys::{CARD_ASSIGNED, CARD_NAME, CARD_REQUEST, GATE, JOB_HELD, QUEUE_LABEL, QUEUE_NAME};
use crds::volcano::PodGroup;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Outcome;
use crate::tenant::expect_refusal;

const ONLY_ADMISSIONS: &str = "Cardgate's operator changes nothing on a pod but what lets it in";
const ONLY_RESUMPTIONS: &str = "Cardgate's operator changes nothing on a Job but spec.suspend";
const NOT_THERE: &str = "Cardgate's operator changes nothing in kube-system";
const ONLY_LEADER: &str = "Cardgate's operator changes nothing on a pod in its own namespace but the label";
const ONLY_OWN: &str = "Cardgate's operator creates no ConfigMap but \"cardgate-policy\"";

async fn operator(world: &World) -> anyhow::Result<Client> {
    world.plane.client_of_account(&Cardgate::operator_account()).await
}

async fn patch(pods: &Api<Pod>, name: &str, change: Value) -> kube::Result<Pod> {
    pods.patch(name, &PatchParams::default(), &Patch::Strategic(change))
        .await
}

async fn patch_status(pods: &Api<Pod>, name: &str, change: Value) -> kube::Result<Pod> {
    let patch = Patch::Strategic(change);
    pods.patch_status(name, &PatchParams::default(), &patch).await
}

#[tokio::test]
async fn the_operators_token_changes_nothing_on_pods_but_what_lets_them_in() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "stolen").await?;
    let thief: Api<Pod> = Api::namespaced(operator(world).await?, "stolen");
    let main = |more: Value| {
        let mut container = json!({ "name": "main" });
        container
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        json!({ "spec": { "containers": [container] } })
    };
    // One that is nobody's business, one that waits for a queue that will never be, and one that has what it asked for.
    scenario
        .create(&pod("plain").request("cpu", 1).scheduler("nobody").build())
        .await?;
    let waiting = pod("waiting").queue("no-such-queue").request("cpu", 1);
    scenario
        .create(&waiting.annotation("example.com/own", "1").build())
        .await?;
    for name in ["plain", "waiting"] {
        for change in [
            main(json!({ "image": "evil" })),
            json!({ "spec": { "activeDeadlineSeconds": 1 } }),
            json!({ "metadata": { "finalizers": ["example.com/evil"] } }),
            json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000" },
            ] } }),
            json!({ "metadata": { "labels": { "app": "evil" } } }),
            json!({ "metadata": { "labels": { QUEUE_LABEL: "evil" } } }),
            json!({ "metadata": { "annotations": { "example.com/evil": "1" } } }),
            json!({ "metadata": { "annotations": { QUEUE_NAME: "evil" } } }),
            json!({ "metadata": { "annotations": { CARD_NAME: "NVIDIA-A100" } } }),
        ] {
            expect_refusal(patch(&thief, name, change).await, ONLY_ADMISSIONS)?;
        }
        let phase = json!({ "status": { "phase": "Failed" } });
        expect_refusal(patch_status(&thief, name, phase).await, ONLY_ADMISSIONS)?;
        let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        expect_refusal(patch_status(&thief, name, ready).await, ONLY_ADMISSIONS)?;
        let metadata = json!({ "metadata": { "annotations": { "example.com/evil": "1" } } });
        expect_refusal(patch_status(&thief, name, metadata).await, ONLY_ADMISSIONS)?;
    }
    let more = json!([{ "op": "add", "path": "/spec/tolerations/-", "value": { "operator": "Exists" } }]);
    let more = Patch::Json::<()>(serde_json::from_value(more)?);
    let tolerant = thief.patch("waiting", &PatchParams::default(), &more).await;
    expect_refusal(tolerant, ONLY_ADMISSIONS)?;
    // What others wrote stays, and so does what is not held.
    let own = json!({ "metadata": { "annotations": { "example.com/own": null } } });
    expect_refusal(patch(&thief, "waiting", own).await, ONLY_ADMISSIONS)?;
    let result = json!({ "metadata": { "annotations": { CARD_ASSIGNED: "NVIDIA-A100" } } });
    expect_refusal(patch(&thief, "plain", result).await, ONLY_ADMISSIONS)?;
    let condition = json!({ "status": { "conditions": [{ "type": "card.volcano.sh/Admitted", "status": "True" }] } });
    expect_refusal(patch_status(&thief, "plain", condition).await, ONLY_ADMISSIONS)?;
    // Nor does a gate that is somebody else's go.
    let gated = pod("gated")
        .queue("no-such-queue")
        .gate("example.com/other")
        .request("cpu", 1);
    scenario.create(&gated.build()).await?;
    let none = json!([{ "op": "replace", "path": "/spec/schedulingGates", "value": [] }]);
    let none = Patch::Json::<()>(serde_json::from_value(none)?);
    let ungated = thief.patch("gated", &PatchParams::default(), &none).await;
    expect_refusal(ungated, ONLY_ADMISSIONS)?;
    let left = scenario
        .api::<Pod>()
        .get("gated")
        .await?
        .spec
        .and_then(|spec| spec.scheduling_gates);
    assert_eq!(left.map(|left| left.len()), Some(2), "{GATE} and the other one");
    Ok(())
}

#[tokio::test]
async fn the_operators_token_changes_nothing_in_kube_system_and_little_in_its_own_namespace() -> Outcome {
    let world = World::shared().await?;
    let administrator = world.plane.client().await?;
    let client = operator(world).await?;
    for (namespace, says) in [("kube-system", NOT_THERE), (NAMESPACE, ONLY_LEADER)] {
        let pods: Api<Pod> = Api::namespaced(administrator.clone(), namespace);
        let mut victim = pod("victim").namespace(namespace).scheduler("nobody").build();
        victim.spec.iter_mut().for_each(restrict);
        pods.create(&PostParams::default(), &victim).await?;
        let thief: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let image = json!({ "spec": { "containers": [{ "name": "main", "image": "evil" }] } });
        expect_refusal(patch(&thief, "victim", image).await, says)?;
        let label = json!({ "metadata": { "labels": { "app": "evil" } } });
        expect_refusal(patch(&thief, "victim", label).await, says)?;
        let phase = json!({ "status": { "phase": "Failed" } });
        expect_refusal(patch_status(&thief, "victim", phase).await, says)?;
        expect_refusal(thief.evict("victim", &EvictParams::default()).await, says)?;
        pods.delete("victim", &DeleteParams::default().grace_period(0)).await?;
    }
    let jobs: Api<Job> = Api::namespaced(administrator, "kube-system");
    jobs.create(&PostParams::default(), &job("victim", &[])?).await?;
    let thief: Api<Job> = Api::namespaced(client, "kube-system");
    let suspended = Patch::Merge(json!({ "spec": { "suspend": true } }));
    let changed = thief.patch("victim", &PatchParams::default(), &suspended).await;
    expect_refusal(changed, NOT_THERE)
}

/// As the Pod Security Standard of Cardgate's own namespace wants it.
fn restrict(spec: &mut k8s_openapi::api::core::v1::PodSpec) {
    let own: k8s_openapi::api::core::v1::SecurityContext = serde_json::from_value(json!({
        "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    }))
    .expect("a security context");
    for container in &mut spec.containers {
        container.security_context = Some(own.clone());
    }
}

fn job(name: &str, annotations: &[(&str, &str)]) -> anyhow::Result<Job> {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "suspend": true,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }] } },
        },
    }))?)
}

#[tokio::test]
async fn the_operators_token_resumes_jobs_that_are_held_and_does_nothing_else_to_any() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "stolen-jobs").await?;
    let thief: Api<Job> = Api::namespaced(operator(world).await?, "stolen-jobs");
    scenario.create(&job("plain", &[])?).await?;
    // It waits for a queue that will never be.
    let request = [
        (CARD_REQUEST, r#"{"NVIDIA-A100.stolen-jobs": 1}"#),
        (QUEUE_NAME, "no-such-queue"),
    ];
    let mut held = job("held", &request)?;
    if let Some(spec) = &mut held.spec {
        spec.suspend = Some(false);
    }
    let held = scenario.create(&held).await?;
    assert!(held.metadata.annotations.unwrap_or_default().contains_key(JOB_HELD));
    let change = async |name: &str, change: Value| {
        let changed = thief.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        expect_refusal(changed, ONLY_RESUMPTIONS)
    };
    change("plain", json!({ "spec": { "suspend": false } })).await?;
    for name in ["plain", "held"] {
        change(name, json!({ "spec": { "parallelism": 100 } })).await?;
        change(name, json!({ "spec": { "ttlSecondsAfterFinished": 0 } })).await?;
        change(
            name,
            json!({ "metadata": { "annotations": { "example.com/evil": "1" } } }),
        )
        .await?;
        change(name, json!({ "metadata": { "annotations": { CARD_REQUEST: "{}" } } })).await?;
        change(name, json!({ "metadata": { "labels": { "app": "evil" } } })).await?;
        change(name, json!({ "metadata": { "finalizers": ["example.com/evil"] } })).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_operators_token_creates_and_reads_nothing_else() -> Outcome {
    let world = World::shared().await?;
    let client = operator(world).await?;
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = Secret {
        metadata: named("evil"),
        ..Secret::default()
    };
    expect_refusal(secrets.create(&PostParams::default(), &secret).await, ONLY_OWN)?;
    // A token of any service account in the namespace.
    let token = Secret {
        metadata: ObjectMeta {
            annotations: Some([("kubernetes.io/service-account.name".to_owned(), "webhook".to_owned())].into()),
            ..named("webhook-token")
        },
        type_: Some("kubernetes.io/service-account-token".to_owned()),
        ..Secret::default()
    };
    expect_refusal(secrets.create(&PostParams::default(), &token).await, ONLY_OWN)?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = Lease {
        metadata: named("evil"),
        ..Lease::default()
    };
    expect_refusal(leases.create(&PostParams::default(), &lease).await, ONLY_OWN)?;

    let all = ListParams::default();
    let cannot = |verb: &str, resource: &str| format!("cannot {verb} resource \"{resource}\"");
    expect_refusal(secrets.list(&all).await, &cannot("list", "secrets"))?;
    let everywhere: Api<Secret> = Api::all(client.clone());
    expect_refusal(everywhere.list(&all).await, &cannot("list", "secrets"))?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    expect_refusal(maps.list(&all).await, &cannot("list", "configmaps"))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let created = pods.create(&PostParams::default(), &pod("evil").build()).await;
    expect_refusal(created, &cannot("create", "pods"))?;
    let nodes: Api<Node> = Api::all(client);
    let tainted = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    world
        .plane
        .create_nodes(&[cardgate_tests::nodes::cpu_only("stolen-node")])
        .await?;
    let changed = nodes.patch("stolen-node", &PatchParams::default(), &tainted).await;
    expect_refusal(changed, "Cardgate's operator changes nothing on a node but the label")
}

#[tokio::test]
async fn the_webhooks_token_reads_no_pods_and_no_secrets_and_writes_nothing() -> Outcome {
    let world = World::shared().await?;
    let account = Account::new(NAMESPACE, "webhook");
    let client = world.plane.client_of_account(&account).await?;
    let all = ListParams::default();
    let pods: Api<Pod> = Api::all(client.clone());
    expect_refusal(pods.list(&all).await, "cannot list resource \"pods\"")?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    expect_refusal(
        secrets.get("cardgate-webhook-tls").await,
        "cannot get resource \"secrets\"",
    )?;
    expect_refusal(secrets.list(&all).await, "cannot list resource \"secrets\"")?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let change = Patch::Merge(json!({ "data": { "cardgate.yaml": "defaultQueue: evil" } }));
    let changed = maps.patch("cardgate-config", &PatchParams::default(), &change).await;
    expect_refusal(changed, "cannot patch resource \"configmaps\"")
}

#[tokio::test]
async fn the_operators_token_changes_nothing_on_its_webhook_configurations_but_what_they_trust() -> Outcome {
    const ONLY_TRUST: &str =
        "Cardgate's operator changes nothing on a webhook configuration but caBundle and the path of reviews";
    let world = World::shared().await?;
    let client = operator(world).await?;
    let thief: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let cannot = |verb: &str| format!("cannot {verb} resource \"mutatingwebhookconfigurations\"");
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let marked = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/evil": "1" } } }));
    expect_refusal(thief.patch("other", &dry_run, &marked).await, &cannot("patch"))?;
    let own = thief.get("cardgate").await?;
    let replaced = thief.replace("cardgate", &PostParams::default(), &own).await;
    expect_refusal(replaced, &cannot("update"))?;
    let deleted = thief.delete("cardgate", &DeleteParams::default()).await;
    expect_refusal(deleted.map(|_| ()), &cannot("delete"))?;

    expect_refusal(thief.patch("cardgate", &dry_run, &marked).await, ONLY_TRUST)?;
    let evil = json!({
        "name": "evil.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://evil.example.com/" },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"] }],
    });
    for (operation, path, value) in [
        ("add", "/webhooks/-", evil),
        ("remove", "/webhooks/0", Value::Null),
        ("replace", "/webhooks/0/failurePolicy", json!("Ignore")),
        ("replace", "/webhooks/0/rules/0/operations", json!(["DELETE"])),
        (
            "replace",
            "/webhooks/0/clientConfig/url",
            json!("https://evil.example.com/"),
        ),
        ("remove", "/webhooks/0/matchConditions", Value::Null),
    ] {
        let mut change = json!({ "op": operation, "path": path });
        if !value.is_null() {
            change["value"] = value;
        }
        let change = Patch::Json::<()>(serde_json::from_value(json!([change]))?);
        expect_refusal(thief.patch("cardgate", &dry_run, &change).await, ONLY_TRUST)?;
        expect_refusal(validating.patch("cardgate", &dry_run, &change).await, ONLY_TRUST)?;
    }
    // Of the webhook for reviews it changes the path, not who is asked; of no other the path.
    let webhooks = own.webhooks.clone().unwrap_or_default();
    for (place, webhook) in webhooks.iter().enumerate() {
        let url = webhook.client_config.url.as_deref().context("no URL")?;
        let host = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        for (url, may) in [
            (
                format!("{host}/review/another"),
                webhook.name == operator::review::WEBHOOK,
            ),
            ("https://evil.example.com/review/another".to_owned(), false),
        ] {
            let change =
                json!([{ "op": "replace", "path": format!("/webhooks/{place}/clientConfig/url"), "value": url }]);
            let change = Patch::Json::<()>(serde_json::from_value(change)?);
            let changed = thief.patch("cardgate", &dry_run, &change).await;
            if may {
                changed.with_context(|| url)?;
            } else {
                expect_refusal(changed, ONLY_TRUST)?;
            }
        }
    }
    // What the operator does.
    let bundle = &own.webhooks.unwrap_or_default()[0].client_config.ca_bundle;
    let renewed = json!([{ "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }]);
    let renewed = Patch::Json::<()>(serde_json::from_value(renewed)?);
    thief.patch("cardgate", &dry_run, &renewed).await?;
    let none = json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let none = Patch::Json::<()>(serde_json::from_value(none)?);
    expect_refusal(thief.patch("cardgate", &dry_run, &none).await, ONLY_TRUST)
}

#[tokio::test]
async fn the_operators_token_changes_nothing_on_a_group_but_its_status() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "stolen-groups").await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "group", "namespace": scenario.name(), "labels": { "app": "own" } },
        "spec": { "minMember": 3, "queue": "no-such-queue" },
    });
    scenario.plane().apply(&group).await?;
    let thief: Api<PodGroup> = Api::namespaced(operator(world).await?, scenario.name());
    for change in [
        json!({ "spec": { "queue": "evil" } }),
        json!({ "spec": { "minMember": 1 } }),
        json!({ "spec": { "minResources": { "nvidia.com/gpu": 1 } } }),
        json!({ "metadata": { "annotations": { CARD_REQUEST: "{}" } } }),
        json!({ "metadata": { "labels": { "app": "evil" } } }),
        json!({ "metadata": { "finalizers": ["example.com/evil"] } }),
        json!({ "spec": { "queue": "evil" }, "status": { "phase": "Inqueue" } }),
    ] {
        let changed = thief
            .patch("group", &PatchParams::default(), &Patch::Merge(change))
            .await;
        expect_refusal(
            changed,
            "Cardgate's operator changes nothing on a PodGroup but its status",
        )?;
    }
    let phase = Patch::Merge(json!({ "status": { "phase": "Unknown" } }));
    thief.patch("group", &PatchParams::default(), &phase).await?;
    Ok(())
}
