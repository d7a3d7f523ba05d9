//! `cardgate-pod-create`: what a pod must look like when all mutating webhooks are done, or are gone.

use anyhow::Result;
use cardgate_tests::workloads::{PodBuilder, pod};
use crds::keys;
use k8s_openapi::api::core::v1::Lifecycle;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, QUEUE, assert_denied, held, init_container, refusal};

const POLICY: &str = "cardgate-pod-create";

async fn denied(cluster: &Cluster, case: &str, pod: PodBuilder, says: &[&str]) {
    let pod = pod.namespace(cluster.team).build();
    for (who, client) in [("editor", &cluster.editor), ("administrator", &cluster.administrator)] {
        let result = cluster.pods(client).create(&PostParams::default(), &pod).await;
        assert_denied(&format!("{case}, as {who}"), POLICY, result, says);
    }
}

async fn accepted(cluster: &Cluster, case: &str, pod: PodBuilder) {
    if let Err(error) = cluster.create(pod).await {
        panic!("{case}: {error:#}");
    }
}

/// It is gone from the API with its deletion, whatever its kubelet is at.
#[tokio::test]
async fn who_has_no_time_to_end_has_nothing_that_keeps_a_kubelet_from_it() -> Outcome {
    let cluster = &Cluster::with_policies_only("no-time").await?;
    let hook = json!({ "postStart": { "exec": { "command": ["sleep", "infinity"] } } });
    let hook: Lifecycle = serde_json::from_value(hook)?;
    let lasting = |name: &str, seconds: i64| {
        let hook = hook.clone();
        let pod = held(name).container(move |main| main.lifecycle = Some(hook));
        pod.spec(move |spec| spec.termination_grace_period_seconds = Some(seconds))
    };
    let second = held("second").spec(|spec| {
        spec.termination_grace_period_seconds = Some(0);
        spec.init_containers = Some(vec![init_container("cpu")]);
    });
    let says = ["spec.terminationGracePeriodSeconds is 0", "write 1 or more"];
    denied(cluster, "a hook", lasting("hook", 0), &says).await;
    denied(cluster, "another container", second, &says).await;
    accepted(cluster, "a second to end", lasting("a-second", 1)).await;
    let plain = held("plain").spec(|spec| spec.termination_grace_period_seconds = Some(0));
    accepted(cluster, "nothing of that", plain).await;
    let foreign = pod("foreign").spec(|spec| {
        spec.termination_grace_period_seconds = Some(0);
        spec.init_containers = Some(vec![init_container("cpu")]);
    });
    accepted(cluster, "none of Cardgate's business", foreign).await;
    Ok(())
}

#[tokio::test]
async fn a_managed_pod_is_not_created_without_the_gate() -> Outcome {
    let cluster = &Cluster::with_policies_only("ungated").await?;
    let gate = [
        "spec.schedulingGates of a pod that is subject to card quotas must hold \"card.volcano.sh/quota\"",
        "MutatingWebhookConfiguration \"cardgate\" is in place",
    ];
    for key in [keys::QUEUE_NAME, keys::GROUP_NAME, keys::CARD_NAME] {
        denied(cluster, key, pod("p").annotation(key, QUEUE), &gate).await;
    }
    for resource in [keys::MGPU_CORE, keys::MGPU_MEMORY] {
        denied(cluster, resource, pod("p").request(resource, 100), &gate).await;
        let init = pod("p").spec(|spec| spec.init_containers = Some(vec![init_container(resource)]));
        denied(cluster, &format!("{resource} of an init container"), init, &gate).await;
    }
    denied(
        cluster,
        "another gate",
        pod("p").queue(QUEUE).gate("example.com/other"),
        &gate,
    )
    .await;

    accepted(cluster, "as the webhook leaves it", held("held")).await;
    accepted(
        cluster,
        "with another gate",
        held("two-gates").gate("example.com/other"),
    )
    .await;
    // A queue's name may be longer than a label.
    accepted(cluster, "no label", pod("unlabelled").queue(QUEUE).gate(keys::GATE)).await;
    Ok(())
}

#[tokio::test]
async fn a_managed_pod_does_not_name_its_node() -> Outcome {
    let cluster = &Cluster::with_policies_only("node-name").await?;
    let on_node = |pod: PodBuilder| pod.spec(|spec| spec.node_name = Some("node-1".to_owned()));
    let says = [
        "spec.nodeName: \"node-1\" passes the scheduler and the card quota by",
        "use spec.nodeSelector",
    ];
    denied(cluster, "no gate", on_node(pod("p").queue(QUEUE)), &says).await;
    // Only a kubelet may say that a pod is a mirror pod; the editor's copy would run without quota.
    let mirror = || on_node(pod("mirror").queue(QUEUE)).annotation(keys::MIRROR_POD, "hash");
    denied(
        cluster,
        "a mirror pod that no kubelet made",
        mirror(),
        &["annotation kubernetes.io/config.mirror", "written by kubelets only"],
    )
    .await;

    // With the gate, the API server refuses by itself.
    let gated = on_node(held("p")).build();
    let refused = refusal(
        cluster
            .pods(&cluster.editor)
            .create(&PostParams::default(), &gated)
            .await,
    );
    let refused = refused.unwrap_or_default();
    assert!(
        refused.contains("until all schedulingGates have been cleared"),
        "{refused}"
    );

    accepted(cluster, "a plain pod", on_node(pod("plain"))).await;
    as_kubelet(cluster, serde_json::to_value(mirror().namespace(cluster.team).build())?).await
}

/// Creates the object as the node's kubelet, whose rights the node authorizer would give.
async fn as_kubelet(cluster: &Cluster, mut object: Value) -> Result<()> {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    let kubectl = cluster.plane.kubectl_of_user("system:node:node-1");
    let groups = ["--as-group", "system:nodes", "--as-group", "system:masters"];
    let text = object.to_string();
    let output = kubectl
        .output(groups.into_iter().chain(["create", "-f", "-"]), Some(&text))
        .await?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn nobody_forges_the_results_of_an_admission() -> Outcome {
    let cluster = &Cluster::with_policies_only("forged").await?;
    let container = format!("{}main", keys::MGPU_INDEX_PREFIX);
    for key in [keys::CARD_ASSIGNED, keys::MGPU_ASSUMED, container.as_str()] {
        let value = format!("{key}: \"forged\"");
        let says = [
            value.as_str(),
            "only Cardgate's operator writes: create the pod without it",
        ];
        denied(cluster, key, held("p").annotation(key, "forged"), &says).await;
        denied(
            cluster,
            &format!("{key} of a plain pod"),
            pod("p").annotation(key, "forged"),
            &says,
        )
        .await;
    }
    let says = [
        "label card.volcano.sh/queue: \"queue-b\" is not the queue of annotation scheduling.volcano.sh/queue-name",
        "leave the label out",
    ];
    let another = || pod("p").label(keys::QUEUE_LABEL, "queue-b");
    denied(
        cluster,
        "the label of another queue",
        another().queue(QUEUE).gate(keys::GATE),
        &says,
    )
    .await;
    denied(cluster, "the label of a plain pod", another(), &says).await;
    Ok(())
}

#[tokio::test]
async fn other_pods_are_not_affected() -> Outcome {
    let cluster = &Cluster::with_policies_only("others").await?;
    accepted(cluster, "plain", pod("plain")).await;
    accepted(cluster, "another's gate", pod("gated").gate("example.com/other")).await;
    accepted(
        cluster,
        "cards without a card name",
        pod("unmetered").request(keys::NVIDIA_GPU, 1),
    )
    .await;
    accepted(
        cluster,
        "other annotations",
        pod("annotated").annotation("vke.volcengine.com/other", "1"),
    )
    .await;
    assert!(
        cluster
            .create(pod("other-namespace").namespace("default"))
            .await
            .is_ok(),
        "the editor may create pods in the namespace default"
    );

    // Cardgate never touches these namespaces, whatever their pods say.
    let system: kube::Api<_> = kube::Api::namespaced(cluster.administrator.clone(), "kube-system");
    cluster
        .plane
        .kubectl()
        .run(["create", "serviceaccount", "other", "-n", "kube-system"])
        .await?;
    let managed = pod("managed").namespace("kube-system").queue(QUEUE).build();
    system.create(&PostParams::default(), &managed).await?;
    Ok(())
}
