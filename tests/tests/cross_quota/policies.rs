//! What the API server itself keeps: the mark of pods under `CrossQuota`, and the nodes from the operator.
#![allow(clippy::panic, reason = "part of tests")]

use cardgate_tests::cardgate::Cardgate;
use cardgate_tests::devices::by_name;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GPU_NODE_LABEL, NAMESPACE, POLICY_PARAMETERS};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::gating::{batch, begin};
use crate::{Outcome, gpu_node};

/// The API server's words where it refuses.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_mark_is_neither_forged_nor_taken_away() -> Outcome {
    let scenario = begin("marks").await?;
    // Nobody holds pods of other namespaces, and whoever marked one hears what to leave out, not that the gate is missing.
    let forged = pod("forged").label(CROSS_QUOTA_LABEL, CROSS_QUOTA_ENABLED).build();
    let pods: Api<Pod> = Api::default_namespaced(scenario.plane().client().await?);
    let message = refusal(pods.create(&PostParams::default(), &forged).await);
    assert!(
        message.contains("label card.volcano.sh/crossquota: \"enabled\" marks"),
        "{message}"
    );

    scenario.create(&batch(&scenario, "held", "1000").build()).await?;
    for change in [Value::Null, json!("disabled")] {
        let change = json!({"metadata": {"labels": {CROSS_QUOTA_LABEL: change}}});
        let changed = scenario
            .api::<Pod>()
            .patch("held", &PatchParams::default(), &Patch::Merge(change))
            .await;
        let message = refusal(changed);
        assert!(
            message.contains("label card.volcano.sh/crossquota is never"),
            "{message}"
        );
    }
    Ok(())
}

/// What it is for may be a GPU: neither the webhook nor the policy holds it, in a namespace without a queue.
#[tokio::test]
async fn a_pod_that_claims_devices_is_left_alone() -> Outcome {
    let scenario = begin("claims").await?;
    let parameters: Api<ConfigMap> = Api::namespaced(scenario.plane().client().await?, NAMESPACE);
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let data = parameters.get(POLICY_PARAMETERS).await?.data.unwrap_or_default();
        Ok(Seen::when(
            data.contains_key("crossQuotaGpuResources"),
            format!("{data:?}"),
        ))
    })
    .await?;
    let claiming = by_name(batch(&scenario, "claiming", "1"), "any").build();
    let created = scenario.api::<Pod>().create(&PostParams::default(), &claiming).await?;
    assert_eq!(created.spec.and_then(|spec| spec.scheduling_gates), None);
    let labels = created.metadata.labels.unwrap_or_default();
    assert!(!labels.contains_key(CROSS_QUOTA_LABEL), "{labels:?}");
    Ok(())
}

#[tokio::test]
async fn the_operator_changes_nothing_on_a_node_but_the_label() -> Outcome {
    let scenario = begin("node-label").await?;
    scenario.nodes(&[gpu_node("node-label", 1)]).await?;
    let plane = scenario.plane();
    let nodes: Api<Node> = Api::all(plane.client_of_account(&Cardgate::operator_account()).await?);
    let patch = async |change: Value| {
        let patch = Patch::Merge(change);
        nodes.patch("node-label-gpu-1", &PatchParams::default(), &patch).await
    };
    patch(json!({"metadata": {"labels": {GPU_NODE_LABEL: "true"}}})).await?;
    for change in [
        json!({"spec": {"unschedulable": true}}),
        json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        json!({"metadata": {"labels": {"other": "true"}}}),
        json!({"metadata": {"labels": {"kubernetes.io/os": null}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    ] {
        let message = refusal(patch(change.clone()).await);
        assert!(message.contains("changes nothing on a node but"), "{change}: {message}");
    }
    Ok(())
}
