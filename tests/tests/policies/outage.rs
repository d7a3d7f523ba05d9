//! An outage of the webhook: what is Cardgate's business is refused, and nothing else notices.

use anyhow::Result;
use cardgate_tests::controlplane::ControlPlane;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod, queue};
use crds::keys;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, QUEUE, dry_run, init_container, refusal, take_webhook_down};

/// What `kubectl create --dry-run=server` says of the object, as the administrator.
async fn create(cluster: &Cluster, object: &Value) -> Result<std::result::Result<(), String>> {
    kubectl(
        &cluster.plane,
        &["create", "--dry-run=server", "-f", "-"],
        Some(&object.to_string()),
    )
    .await
}

async fn kubectl(plane: &ControlPlane, args: &[&str], stdin: Option<&str>) -> Result<std::result::Result<(), String>> {
    let output = plane.kubectl().output(args, stdin).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() { Ok(()) } else { Err(said) })
}

#[track_caller]
fn assert_refused(case: &str, webhook: &str, answer: std::result::Result<(), String>) {
    let expected = format!("failed calling webhook \"{webhook}.card.volcano.sh\"");
    match answer {
        Ok(()) => panic!("{case}: accepted while the webhook is down"),
        Err(said) => assert!(said.contains(&expected), "{case}: {expected:?} is missing in: {said}"),
    }
}

#[track_caller]
fn assert_accepted(case: &str, answer: std::result::Result<(), String>) {
    if let Err(said) = answer {
        panic!("{case}: {said}");
    }
}

fn volcano(kind: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": kind,
        "metadata": { "name": "new", "annotations": annotations },
        "spec": {},
    })
}

#[tokio::test]
async fn pods_of_cardgate_are_refused_and_others_are_not() -> Outcome {
    let cluster = &Cluster::with_webhook_down("pods").await?;
    let answer = async |namespace: &str, pod: PodBuilder| {
        let pods: Api<Pod> = Api::namespaced(cluster.administrator.clone(), namespace);
        refusal(pods.create(&dry_run(), &pod.namespace(namespace).build()).await).map_or(Ok(()), Err)
    };
    for key in [keys::QUEUE_NAME, keys::GROUP_NAME, keys::CARD_NAME] {
        assert_refused(key, "pods", answer(cluster.team, pod("p").annotation(key, QUEUE)).await);
    }
    let cards = [
        keys::NVIDIA_GPU,
        keys::NVIDIA_MPS,
        "nvidia.com/mig-1g.5gb",
        keys::MGPU_CORE,
        keys::MGPU_MEMORY,
    ];
    for resource in cards {
        assert_refused(
            resource,
            "pods",
            answer("default", pod("p").request(resource, 100)).await,
        );
        let init = pod("p").spec(|spec| spec.init_containers = Some(vec![init_container(resource)]));
        assert_refused(resource, "pods", answer("default", init).await);
    }
    for namespace in ["default", cluster.team] {
        assert_accepted("plain", answer(namespace, pod("p")).await);
        let other = pod("p")
            .request("cpu", 1)
            .request("rdma/hca", 1)
            .request("nvidia.com/hostdev", 1);
        assert_accepted("other resources", answer(namespace, other).await);
        let annotated = pod("p").annotation("volcano.sh/other", "1").gate("example.com/other");
        assert_accepted("other annotations", answer(namespace, annotated).await);
        let elsewhere = pod("p").scheduler("volcano");
        assert_accepted("another scheduler", answer(namespace, elsewhere).await);
    }
    let bare = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "annotations": null },
        "spec": { "initContainers": null, "containers": [{ "name": "c", "image": "i", "resources": null }] } });
    assert_accepted("fields that are null", create(cluster, &bare).await?);
    cluster
        .plane
        .kubectl()
        .run(["create", "serviceaccount", "other", "-n", "kube-system"])
        .await?;
    let system = pod("p").card("NVIDIA-A100").request(keys::NVIDIA_GPU, 1);
    assert_accepted("kube-system", answer("kube-system", system).await);
    Ok(())
}

/// Whose devices claims are for, nobody can say without Cardgate: where somebody is charged for cards they wait for it, and elsewhere
/// they pass.
#[tokio::test]
async fn claims_of_devices_pass_where_nobody_is_charged_for_cards() -> Outcome {
    let cluster = &Cluster::with_webhook_down("claims").await?;
    let claim = |name: &str, template: Option<&str>| PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: template.is_none().then(|| "mine".to_owned()),
        resource_claim_template_name: template.map(str::to_owned),
    };
    let claiming = |template: Option<&'static str>| {
        pod("p").spec(move |spec| spec.resource_claims = Some(vec![claim("device", template)]))
    };
    let answer = async |namespace: &str, pod: PodBuilder| {
        let pods: Api<Pod> = Api::namespaced(cluster.administrator.clone(), namespace);
        refusal(pods.create(&dry_run(), &pod.namespace(namespace).build()).await).map_or(Ok(()), Err)
    };
    let strategy = || pod("p").annotation(keys::SCORING_STRATEGY, "most-allocated");
    let implicit = || pod("p").request("deviceclass.resource.kubernetes.io/fpga.example.com", 1);
    for namespace in ["default", cluster.team] {
        assert_accepted("by template", answer(namespace, claiming(Some("fpga"))).await);
        assert_accepted("by name", answer(namespace, claiming(None)).await);
        assert_accepted("by the class", answer(namespace, implicit()).await);
        assert_accepted("with a strategy", answer(namespace, strategy()).await);
    }
    assert_refused(
        "with a queue",
        "pods",
        answer("default", claiming(None).queue(QUEUE)).await,
    );
    // What is claimed and made from templates is nobody's business but its own.
    for object in [
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "mine" },
            "spec": { "devices": { "requests": [{ "name": "d", "exactly": { "deviceClassName": "fpga.example.com" } }] } } }),
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "fpga" },
            "spec": { "spec": { "devices": { "requests": [{ "name": "d", "exactly": { "deviceClassName": "fpga.example.com" } }] } } } }),
    ] {
        assert_accepted("the claim itself", create(cluster, &object).await?);
    }
    // A namespace that names a queue is charged for cards: the API server itself lets no pod pass that may be for some.
    let charged = "claims-charged";
    let queue = [(keys::QUEUE_NAME, QUEUE)];
    cluster.plane.create_namespace(charged, &[], &queue).await?;
    wait::eventually("the policy to see the namespace", wait::PATIENCE, async || {
        let said = answer(charged, claiming(Some("fpga"))).await;
        let is_held = said
            .as_ref()
            .is_err_and(|said| said.contains("must hold \"card.volcano.sh/quota\""));
        Ok(Seen::when(is_held, format!("{said:?}")))
    })
    .await?;
    assert_accepted("a plain pod", answer(charged, pod("p")).await);
    Ok(())
}

#[tokio::test]
async fn controllers_of_other_pods_do_not_notice() -> Outcome {
    let cluster = &Cluster::with_webhook_down("controllers").await?;
    for namespace in ["default", cluster.team] {
        let deployments: Api<Deployment> = Api::namespaced(cluster.administrator.clone(), namespace);
        let jobs: Api<Job> = Api::namespaced(cluster.administrator.clone(), namespace);
        let parameters = PostParams::default();
        deployments
            .create(&parameters, &pod("web").namespace(namespace).deployment(2))
            .await?;
        jobs.create(&parameters, &pod("batch").namespace(namespace).job(2))
            .await?;
        let pods: Api<Pod> = Api::namespaced(cluster.administrator.clone(), namespace);
        for app in ["web", "batch"] {
            wait::eventually(format!("2 pods of {app} in {namespace}"), wait::PATIENCE, async || {
                let pods = pods.list(&ListParams::default().labels(&format!("app={app}"))).await?;
                Ok(Seen::when(pods.items.len() == 2, format!("{} pods", pods.items.len())))
            })
            .await?;
        }
    }

    let deployments: Api<Deployment> = Api::namespaced(cluster.editor.clone(), cluster.team);
    let managed = pod("managed").namespace(cluster.team).queue(QUEUE).deployment(1);
    deployments.create(&PostParams::default(), &managed).await?;
    let sets: Api<ReplicaSet> = Api::namespaced(cluster.administrator.clone(), cluster.team);
    wait::eventually(
        "the managed Deployment to say why it has no pods",
        wait::PATIENCE,
        async || {
            let sets = sets.list(&ListParams::default().labels("app=managed")).await?;
            let conditions = sets
                .items
                .iter()
                .filter_map(|set| set.status.as_ref()?.conditions.as_ref())
                .flatten();
            let said: Vec<_> = conditions.filter_map(|one| one.message.clone()).collect();
            let refused = said
                .iter()
                .any(|text| text.contains("failed calling webhook \"pods.card.volcano.sh\""));
            Ok(Seen::when(refused, format!("{said:?}")))
        },
    )
    .await
}

#[tokio::test]
async fn queues_and_requests_are_refused_where_they_speak_of_cards() -> Outcome {
    let cluster = &Cluster::with_webhook_down("requests").await?;
    for (key, value) in [(keys::CARD_QUOTA, "{}"), (keys::QUEUE_NAMESPACES, "team=a")] {
        let created = create(cluster, &volcano("Queue", &json!({ key: value }))).await?;
        assert_refused(&format!("Queue with {key}"), "queues", created);
    }
    let created = create(cluster, &volcano("PodGroup", &json!({ keys::CARD_REQUEST: "{}" }))).await?;
    assert_refused("PodGroup", "requests", created);
    let mut group = volcano("PodGroup", &Value::Null);
    group["spec"]["queue"] = json!(QUEUE);
    assert_refused("PodGroup of a queue", "requests", create(cluster, &group).await?);
    // As Volcano makes them for every pod of its own.
    group["spec"] = json!({ "queue": "default", "minResources": { "cpu": "1" } });
    assert_accepted("PodGroup of the default queue", create(cluster, &group).await?);
    let of_queue = serde_json::to_value(pod("job").queue(QUEUE).job(1))?;
    assert_refused("Job of a queue", "requests", create(cluster, &of_queue).await?);
    let mut job = serde_json::to_value(pod("job").job(1))?;
    job["metadata"]["annotations"] = json!({ keys::CARD_REQUEST: "{}" });
    assert_refused("Job", "jobs", create(cluster, &job).await?);

    for annotations in [json!({}), Value::Null, json!({ "volcano.sh/other": "1" })] {
        assert_accepted("Queue", create(cluster, &volcano("Queue", &annotations)).await?);
        assert_accepted("PodGroup", create(cluster, &volcano("PodGroup", &annotations)).await?);
        job["metadata"]["annotations"] = annotations;
        assert_accepted("Job", create(cluster, &job).await?);
    }
    Ok(())
}

/// Objects that came before the outage.
#[tokio::test]
async fn updates_that_say_nothing_of_cards_pass() -> Outcome {
    let cluster = &Cluster::of_its_own("updates").await?;
    let kubectl_of = cluster.plane.kubectl();
    cluster
        .plane
        .apply(&queue("old").quota("NVIDIA-A100", 8).build())
        .await?;
    cluster.plane.apply(&queue("plain").build()).await?;
    let mut job = serde_json::to_value(pod("old").job(1))?;
    job["metadata"]["annotations"] = json!({ keys::CARD_REQUEST: "{}" });
    job["spec"]["suspend"] = json!(true);
    kubectl_of.apply(&job.to_string()).await?;
    // It asks no more, and nobody has taken the mark off.
    job["metadata"]["name"] = json!("marked");
    job["metadata"]["annotations"] = json!({ keys::JOB_HELD: "true" });
    job["metadata"]["finalizers"] = json!(["example.com/kept"]);
    kubectl_of.apply(&job.to_string()).await?;
    let mut group = volcano("PodGroup", &Value::Null);
    group["metadata"]["name"] = json!("group");
    group["spec"] = json!({ "queue": "plain", "minMember": 4, "minTaskMember": { "worker": 1 } });
    kubectl_of.apply(&group.to_string()).await?;
    take_webhook_down(&cluster.plane).await?;

    let patch = async |object: &[&str], change: Value| {
        let change = change.to_string();
        let args: Vec<&str> = ["patch"]
            .iter()
            .chain(object)
            .copied()
            .chain(["--type=merge", "-p", &change])
            .collect();
        kubectl(&cluster.plane, &args, None).await
    };
    let annotate = |key: &str, value: Value| json!({ "metadata": { "annotations": { key: value } } });
    let dry = "--dry-run=server";
    let quota = keys::CARD_QUOTA;
    let old = &["queue", "old", dry];
    assert_refused(
        "quota removed",
        "queues",
        patch(old, annotate(quota, Value::Null)).await?,
    );
    assert_refused(
        "quota changed",
        "queues",
        patch(old, annotate(quota, json!("{}"))).await?,
    );
    let added = patch(&["queue", "plain", dry], annotate(quota, json!("{}"))).await?;
    assert_refused("quota added", "queues", added);
    assert_accepted(
        "weight",
        patch(&["queue", "plain", dry], json!({ "spec": { "weight": 2 } })).await?,
    );
    let status = patch(
        &["queue", "old", "--subresource=status"],
        json!({ "status": { "state": "Open" } }),
    )
    .await?;
    assert_accepted("status", status);

    let changed = patch(&["job", "old", dry], annotate(keys::CARD_REQUEST, json!("{\"A\":1}"))).await?;
    assert_refused("request changed", "requests", changed);
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/kept"] } });
    assert_accepted("Job's finalizer", patch(&["job", "old"], finalizers).await?);
    let marked = patch(
        &["job", "marked", dry],
        json!({ "metadata": { "labels": { "a": "b" } } }),
    )
    .await?;
    assert_refused("marked", "jobs", marked);
    // Nobody would hold it until its queue has room.
    let resumed = patch(&["job", "old"], json!({ "spec": { "suspend": false } })).await?;
    assert_refused("resumed", "jobs", resumed);

    // What a group needs keeps its pods waiting where it can't be read.
    let group = &["podgroup", "group", dry];
    let tasks = json!({ "spec": { "minTaskMember": { "worker": 2 } } });
    assert_refused("tasks changed", "requests", patch(group, tasks).await?);
    let priority = json!({ "spec": { "priorityClassName": "high" } });
    assert_accepted("group's priority", patch(group, priority).await?);

    // On their way out, objects lose their finalizers, open door or not.
    let none = json!({ "metadata": { "finalizers": null } });
    for job in ["old", "marked"] {
        kubectl_of.run(["delete", "job", job, "--wait=false"]).await?;
        assert_accepted("the last finalizer", patch(&["job", job], none.clone()).await?);
    }
    // Whether a queue is still needed, nobody can say now.
    let removal = kubectl(&cluster.plane, &["delete", "queue", "old", dry], None).await?;
    assert_refused("queue removed", "queue-removal", removal);
    Ok(())
}
