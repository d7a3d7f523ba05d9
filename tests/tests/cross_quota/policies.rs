//! What the API server itself keeps: the mark of pods under `CrossQuota`, and the nodes from the operator.
#![allow(clippy::panic, reason = "part of tests")]

use cardgate_tests::cardgate::Cardgate;
use cardgate_tests::devices::{by_name, claim, exactly};
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys::{CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GPU_NODE_LABEL};
use k8s_openapi::api::core::v1::{Node, Pod};
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

/// One that asks for nothing costs nothing, and would take any pod out of the quotas. What another one is for may be a GPU.
#[tokio::test]
async fn a_claim_that_asks_for_nothing_leaves_a_pod_without_gpu() -> Outcome {
    let scenario = begin("claims").await?;
    scenario.nodes(&[gpu_node("claims", 1)]).await?;
    let world = World::shared().await?;
    claim(world, &scenario, "empty", &json!([])).await?;
    claim(world, &scenario, "any", &exactly("any", 1, None)).await?;
    for name in ["empty", "any"] {
        let claiming = by_name(batch(&scenario, name, "9"), name).build();
        let created = scenario.api::<Pod>().create(&PostParams::default(), &claiming).await?;
        let labels = created.metadata.labels.unwrap_or_default();
        assert!(labels.contains_key(CROSS_QUOTA_LABEL), "{labels:?}");
    }
    scenario
        .expect("empty", &Tally::none().waiting("CrossQuotaExceeded", 1))
        .await?;
    wait::eventually("the other one to be left alone", wait::PATIENCE, async || {
        let spec = scenario.api::<Pod>().get("any").await?.spec.unwrap_or_default();
        let is_let_in = spec.scheduling_gates.is_none_or(|gates| gates.is_empty());
        Ok(Seen::when(
            is_let_in && spec.affinity.is_none(),
            format!("{:?}", spec.affinity),
        ))
    })
    .await
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
