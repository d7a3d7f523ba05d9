//! `cardgate-pod-update`: what nobody but the operator changes on a pod.

use crds::keys;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use cardgate_tests::controlplane::Account;
use cardgate_tests::wait::{PATIENCE, Seen, eventually};
use cardgate_tests::workloads::pod;

use crate::Outcome;
use crate::cluster::{Cluster, QUEUE, assert_denied, held};

const POLICY: &str = "cardgate-pod-update";
const GATE_KEPT: &str = "scheduling gate \"card.volcano.sh/quota\" is removed by Cardgate's operator only";
const RESULT_KEPT: &str = "is the result of an admission, which only Cardgate's operator writes, changes and removes";
const REQUEST_KEPT: &str =
    "is never added, changed or removed after the pod's creation, since the pod is charged by it";
const LABEL_KEPT: &str = "is never added, changed or removed after the pod's creation, since it says where";
const GROUP_KEPT: &str =
    "is never changed or removed after it was set, nor added to a pod that has its node, since the pod";

/// A way to write to a pod.
#[derive(Debug, Clone, Copy)]
enum Through {
    Pods,
    Status,
}

async fn write(pods: &Api<Pod>, name: &str, through: Through, change: &Value) -> kube::Result<Pod> {
    let parameters = PatchParams::default();
    let patch = Patch::Merge(change);
    match through {
        Through::Pods => pods.patch(name, &parameters, &patch).await,
        Through::Status => pods.patch_status(name, &parameters, &patch).await,
    }
}

/// Asserts that neither the editor nor the administrator may change the pod so, and that the pod stays as it was.
async fn denied(cluster: &Cluster, name: &str, case: &str, change: Value, says: &[&str]) -> Outcome {
    let before = cluster.pods(&cluster.administrator).get(name).await?;
    for (who, client) in [("editor", &cluster.editor), ("administrator", &cluster.administrator)] {
        let result = write(&cluster.pods(client), name, Through::Pods, &change).await;
        assert_denied(&format!("{case}, as {who}"), POLICY, result, says);
    }
    // `edit` gives no right to pods/status. It takes metadata, and leaves the spec as it is.
    if let Some(metadata) = change.get("metadata") {
        let change = json!({ "metadata": metadata });
        let result = write(&cluster.pods(&cluster.administrator), name, Through::Status, &change).await;
        let says: Vec<&str> = says.iter().copied().filter(|text| *text != GATE_KEPT).collect();
        assert_denied(&format!("{case}, through pods/status"), POLICY, result, &says);
    }
    let after = cluster.pods(&cluster.administrator).get(name).await?;
    assert_eq!(before.metadata.annotations, after.metadata.annotations, "{case}");
    assert_eq!(before.metadata.labels, after.metadata.labels, "{case}");
    assert_eq!(before.spec, after.spec, "{case}");
    Ok(())
}

fn annotation(key: &str, value: impl Into<Value>) -> Value {
    json!({ "metadata": { "annotations": { key: value.into() } } })
}

fn label(value: impl Into<Value>) -> Value {
    json!({ "metadata": { "labels": { keys::QUEUE_LABEL: value.into() } } })
}

#[tokio::test]
async fn only_the_operator_removes_the_gate() -> Outcome {
    let cluster = &Cluster::with_policies_only("gate").await?;
    cluster
        .create(held("pod").gate("example.com/other").card("NVIDIA-A100"))
        .await?;
    let remaining = json!([{ "name": "example.com/other" }]);
    let mut change = json!({ "spec": { "schedulingGates": null } });
    denied(cluster, "pod", "all gates", change.clone(), &[GATE_KEPT]).await?;
    change["spec"]["schedulingGates"] = remaining;
    denied(cluster, "pod", "the gate", change.clone(), &[GATE_KEPT]).await?;

    // In one request with every mark by which a policy could know the pod.
    let with = |metadata: Value| {
        let mut both = change.clone();
        both["metadata"] = metadata;
        both
    };
    let cases = [
        ("and its queue", json!({ "annotations": { keys::QUEUE_NAME: null } })),
        ("and its card", json!({ "annotations": { keys::CARD_NAME: null } })),
        ("and all annotations", json!({ "annotations": null })),
        ("and its label", json!({ "labels": { keys::QUEUE_LABEL: null } })),
        ("and all labels", json!({ "labels": null })),
        ("and everything", json!({ "annotations": null, "labels": null })),
    ];
    for (case, metadata) in cases {
        let says: &[&str] = &[];
        denied(cluster, "pod", &format!("the gate {case}"), with(metadata), says).await?;
    }
    // What has no other rule is refused for the gate alone.
    for client in [&cluster.editor, &cluster.administrator] {
        let mut both = change.clone();
        both["metadata"] = json!({ "annotations": { "example.com/forged": "yes" }, "labels": { "app": null } });
        let result = write(&cluster.pods(client), "pod", Through::Pods, &both).await;
        assert_denied("the gate and something else", POLICY, result, &[GATE_KEPT]);
    }
    // Another's gate is another's.
    let change = json!({ "spec": { "schedulingGates": [{ "name": keys::GATE }] } });
    write(&cluster.pods(&cluster.editor), "pod", Through::Pods, &change).await?;

    let gate_gone: json_patch::Patch = serde_json::from_value(json!([
        { "op": "test", "path": "/spec/schedulingGates/0/name", "value": keys::GATE },
        { "op": "remove", "path": "/spec/schedulingGates/0" },
        { "op": "add", "path": "/metadata/annotations/volcano.sh~1card.assigned", "value": "NVIDIA-A100" },
        { "op": "add", "path": "/spec/nodeSelector", "value": { "nvidia.com/gpu.product": "NVIDIA-A100" } },
    ]))?;
    let patch = Patch::Json::<()>(gate_gone);
    let admitted = cluster
        .pods(&cluster.operator)
        .patch("pod", &PatchParams::default(), &patch)
        .await?;
    assert_eq!(admitted.spec.and_then(|spec| spec.scheduling_gates), None);
    Ok(())
}

#[tokio::test]
async fn only_the_operator_writes_the_results_of_an_admission() -> Outcome {
    let cluster = &Cluster::with_policies_only("results").await?;
    let index = format!("{}main", keys::MGPU_INDEX_PREFIX);
    let pods = cluster.pods(&cluster.operator);
    cluster.create(held("pod")).await?;
    cluster.create(pod("plain")).await?;
    for key in [keys::CARD_ASSIGNED, keys::MGPU_ASSUMED, index.as_str()] {
        let added = format!("annotation {key} (\"\" to \"forged\")");
        denied(
            cluster,
            "pod",
            "added",
            annotation(key, "forged"),
            &[&added, RESULT_KEPT],
        )
        .await?;
        denied(
            cluster,
            "plain",
            "added to a plain pod",
            annotation(key, "forged"),
            &[&added, RESULT_KEPT],
        )
        .await?;

        write(&pods, "pod", Through::Pods, &annotation(key, "1")).await?;
        let changed = format!("annotation {key} (\"1\" to \"2\")");
        denied(
            cluster,
            "pod",
            "changed",
            annotation(key, "2"),
            &[&changed, RESULT_KEPT],
        )
        .await?;
        let removed = format!("annotation {key} (\"1\" to \"\")");
        denied(
            cluster,
            "pod",
            "removed",
            annotation(key, Value::Null),
            &[&removed, RESULT_KEPT],
        )
        .await?;
        write(&pods, "pod", Through::Pods, &annotation(key, "3")).await?;
        write(&pods, "pod", Through::Pods, &annotation(key, Value::Null)).await?;
    }
    // A message has one line; a value that has more falls back to the message without values.
    let says = [
        "the results of an admission (volcano.sh/card.assigned,",
        "leave them as they are",
    ];
    denied(
        cluster,
        "pod",
        "two lines",
        annotation(keys::CARD_ASSIGNED, "a\nb"),
        &says,
    )
    .await
}

#[tokio::test]
async fn what_a_pod_is_charged_by_is_never_changed_or_removed() -> Outcome {
    let cluster = &Cluster::with_policies_only("charge").await?;
    let fixed = [
        keys::QUEUE_NAME,
        keys::CARD_NAME,
        keys::MGPU_CONTAINER_CARDS,
        keys::MGPU_POLICY,
        keys::SCORING_STRATEGY,
    ];
    let mut everything = held("pod");
    for key in fixed {
        everything = everything.annotation(key, QUEUE);
    }
    cluster.create(everything).await?;
    cluster.create(pod("plain")).await?;
    for key in fixed {
        let changed = format!("annotation {key} (\"queue-a\" to \"queue-b\")");
        denied(
            cluster,
            "pod",
            "changed",
            annotation(key, "queue-b"),
            &[&changed, REQUEST_KEPT],
        )
        .await?;
        let removed = format!("annotation {key} (\"queue-a\" to \"\")");
        denied(
            cluster,
            "pod",
            "removed",
            annotation(key, Value::Null),
            &[&removed, REQUEST_KEPT],
        )
        .await?;
        let added = format!("annotation {key} (\"\" to \"queue-b\")");
        denied(
            cluster,
            "plain",
            "added",
            annotation(key, "queue-b"),
            &[&added, REQUEST_KEPT],
        )
        .await?;
    }
    let changed = "label card.volcano.sh/queue (\"queue-a\" to \"queue-b\")";
    denied(
        cluster,
        "pod",
        "label changed",
        label("queue-b"),
        &[changed, LABEL_KEPT],
    )
    .await?;
    let removed = "label card.volcano.sh/queue (\"queue-a\" to \"\")";
    denied(
        cluster,
        "pod",
        "label removed",
        label(Value::Null),
        &[removed, LABEL_KEPT],
    )
    .await?;
    let added = "label card.volcano.sh/queue (\"\" to \"queue-b\")";
    denied(cluster, "plain", "label added", label("queue-b"), &[added, LABEL_KEPT]).await
}

#[tokio::test]
async fn a_group_is_added_once_before_the_pod_is_bound() -> Outcome {
    let cluster = &Cluster::with_policies_only("group").await?;
    cluster.create(held("pod")).await?;
    // As Volcano's controller does for a pod that came without a group.
    let pods = cluster.pods(&cluster.editor);
    write(&pods, "pod", Through::Pods, &annotation(keys::GROUP_NAME, "group-a")).await?;
    let changed = "annotation scheduling.k8s.io/group-name (\"group-a\" to \"group-b\")";
    denied(
        cluster,
        "pod",
        "changed",
        annotation(keys::GROUP_NAME, "group-b"),
        &[changed, GROUP_KEPT],
    )
    .await?;
    let removed = "annotation scheduling.k8s.io/group-name (\"group-a\" to \"\")";
    denied(
        cluster,
        "pod",
        "removed",
        annotation(keys::GROUP_NAME, Value::Null),
        &[removed, GROUP_KEPT],
    )
    .await?;
    let running = pod("running").spec(|spec| spec.node_name = Some("node-1".to_owned()));
    cluster.create(running).await?;
    let added = "annotation scheduling.k8s.io/group-name (\"\" to \"group-a\")";
    let change = annotation(keys::GROUP_NAME, "group-a");
    denied(
        cluster,
        "running",
        "added to a bound pod",
        change.clone(),
        &[added, GROUP_KEPT],
    )
    .await?;

    // Nobody but Volcano's controllers makes a pod pass for a member that never waited.
    cluster.create(pod("ungated")).await?;
    let says = "by Volcano's controllers only, since the pod would be charged without having waited for quota";
    denied(
        cluster,
        "ungated",
        "added to a pod without the gate",
        change.clone(),
        &[says],
    )
    .await?;
    // Nor of one with a gate of its maker's own, whose charge would go wherever the group's queue goes.
    for (name, queue) in [("own-gate", None), ("no-queue", Some(""))] {
        let gated = pod(name).gate(keys::GATE);
        let gated = match queue {
            Some(queue) => gated.annotation(keys::QUEUE_NAME, queue),
            None => gated,
        };
        cluster.create(gated).await?;
        let what = "added to a pod with the gate and without a queue";
        denied(cluster, name, what, change.clone(), &[says]).await?;
    }
    let account = Account::new("volcano-system", "volcano-controllers");
    cluster.plane.create_namespace("volcano-system", &[], &[]).await?;
    let kubectl = cluster.plane.kubectl();
    kubectl
        .run([
            "create",
            "serviceaccount",
            "volcano-controllers",
            "-n",
            "volcano-system",
        ])
        .await?;
    let subject = "--serviceaccount=volcano-system:volcano-controllers";
    kubectl
        .run([
            "create",
            "rolebinding",
            "controllers",
            "--clusterrole=edit",
            subject,
            "-n",
            cluster.team,
        ])
        .await?;
    let controllers = cluster.pods(&cluster.plane.client_of_account(&account).await?);
    eventually("the controllers' rights", PATIENCE, async || {
        let added = write(&controllers, "ungated", Through::Pods, &change).await;
        Ok(Seen::when(added.is_ok(), format!("{added:?}")))
    })
    .await
}

#[tokio::test]
async fn everything_else_of_a_managed_pod_may_change() -> Outcome {
    let cluster = &Cluster::with_policies_only("other-changes").await?;
    cluster.create(held("pod")).await?;
    let pods = cluster.pods(&cluster.editor);
    let changes = [
        annotation("example.com/note", "new"),
        annotation("example.com/note", Value::Null),
        json!({ "metadata": { "labels": { "app": "other", "tier": "gpu" } } }),
        json!({ "metadata": { "finalizers": ["example.com/kept"] } }),
        json!({ "metadata": { "finalizers": null } }),
        json!({ "spec": { "nodeSelector": { "disk": "ssd" } } }),
    ];
    for change in changes {
        if let Err(error) = write(&pods, "pod", Through::Pods, &change).await {
            panic!("{change}: {error}");
        }
    }
    let status = json!({ "status": { "message": "from the kubelet" } });
    let after = write(&cluster.pods(&cluster.administrator), "pod", Through::Status, &status).await?;
    assert_eq!(
        after.status.and_then(|status| status.message).as_deref(),
        Some("from the kubelet")
    );

    let kubectl = cluster.plane.kubectl();
    kubectl
        .run(["set", "image", "pod/pod", "main=image:2", "-n", cluster.team])
        .await?;
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "image" }] } }).to_string();
    let subresource = "--subresource=ephemeralcontainers";
    kubectl
        .run(["patch", "pod", "pod", "-n", cluster.team, subresource, "-p", &debug])
        .await?;
    kubectl
        .run(["delete", "pod", "pod", "-n", cluster.team, "--now"])
        .await?;
    Ok(())
}
