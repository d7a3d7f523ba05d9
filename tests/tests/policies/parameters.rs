//! `ConfigMap` `cardgate-policy`: what the policies read of the configuration and of the cards that there are.

use anyhow::Result;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::keys::{CARD_ASSIGNED, MIRROR_POD, NAMESPACE, POLICY_PARAMETERS};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, assert_denied, dry_run, refusal};

const POLICY: &str = "cardgate-pod-create";

pub async fn write(cluster: &Cluster, data: Value) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.administrator.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "data": data }));
    maps.patch(POLICY_PARAMETERS, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Without data, and without the object, no pod is refused that is in order: nothing of Cardgate has run yet, or somebody has
/// removed what it wrote.
#[tokio::test]
async fn without_parameters_pods_are_created() -> Outcome {
    let cluster = &Cluster::of_its_own("no-parameters").await?;
    let plain = pod("plain").request("rdma/hca", 1).namespace(cluster.team).build();
    let pods = cluster.pods(&cluster.editor);
    pods.create(&dry_run(), &plain).await?;
    write(cluster, json!({ "cardResources": "rdma/hca" })).await?;
    pods.create(&dry_run(), &plain).await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.administrator.clone(), NAMESPACE);
    maps.delete(POLICY_PARAMETERS, &DeleteParams::default()).await?;
    // The API server learns of it by a watch of its own; the policy is skipped then, and refuses nobody.
    let forged = pod("forged")
        .annotation(CARD_ASSIGNED, "forged")
        .namespace(cluster.team)
        .build();
    wait::eventually("the policy to be without parameters", wait::PATIENCE, async || {
        let refused = refusal(pods.create(&dry_run(), &forged).await);
        Ok(Seen::when(refused.is_none(), format!("{refused:?}")))
    })
    .await?;
    pods.create(&dry_run(), &plain).await?;
    Ok(())
}

#[tokio::test]
async fn only_a_kubelet_marks_a_mirror_pod() -> Outcome {
    let cluster = &Cluster::with_policies_only("mirrors").await?;
    // The API server itself wants a mirror pod to name its node.
    let mirror = pod("mirror").annotation(MIRROR_POD, "hash");
    let forged = mirror
        .spec(|spec| spec.node_name = Some("node-1".to_owned()))
        .namespace(cluster.team)
        .build();
    let says = ["annotation kubernetes.io/config.mirror", "written by kubelets only"];
    for (who, client) in [("editor", &cluster.editor), ("administrator", &cluster.administrator)] {
        let result = cluster.pods(client).create(&PostParams::default(), &forged).await;
        assert_denied(who, POLICY, result, &says);
    }
    Ok(())
}
