//! `cardgate-pod-resize`: a managed pod never takes more than it was admitted with.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use cardgate_tests::devices::by_name;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::keys::{CARD_ASSIGNED, CROSS_QUOTA_ENABLED, CROSS_QUOTA_LABEL, GATE, QUEUE_NAME};

use crate::Outcome;
use crate::cluster::{Cluster, QUEUE, assert_denied, held, refusal, serves_resize};
use crate::parameters::write;

const POLICY: &str = "cardgate-pod-resize";

fn container(resources: &Value) -> Value {
    json!({ "spec": { "containers": [{ "name": "main", "resources": resources }] } })
}

#[tokio::test]
async fn a_managed_pod_gives_back_and_never_takes_more() -> Outcome {
    let cluster = &Cluster::with_policies_only("resize").await?;
    if !serves_resize(&cluster.administrator).await? {
        println!("this API server resizes no pods, so there is nothing to hold back");
        return Ok(());
    }
    cluster.create(held("pod").request("memory", "1Gi")).await?;
    cluster.create(held("burstable")).await?;
    cluster.create(pod("plain").request("cpu", 1)).await?;
    // Under CrossQuota alone, in no queue.
    let unqueued = pod("unqueued").label(CROSS_QUOTA_LABEL, CROSS_QUOTA_ENABLED).gate(GATE);
    cluster
        .create(unqueued.request("cpu", 1).request("memory", "1Gi"))
        .await?;
    let pods = cluster.pods(&cluster.administrator);
    let resize = async |name: &'static str, change: Value| {
        pods.patch_resize(name, &PatchParams::default(), &Patch::Strategic(change))
            .await
    };
    let both = |cpu: &str, memory: &str| {
        let amounts = json!({ "cpu": cpu, "memory": memory });
        container(&json!({ "requests": amounts, "limits": amounts }))
    };
    let says = [
        "the requests of container \"main\" can't grow after the pod's creation",
        "create another pod, which waits for quota",
    ];
    assert_denied("cpu", POLICY, resize("pod", both("1001m", "1Gi")).await, &says);
    assert_denied("memory", POLICY, resize("pod", both("1", "1025Mi")).await, &says);
    assert_denied(
        "of no queue",
        POLICY,
        resize("unqueued", both("1001m", "1Gi")).await,
        &says,
    );
    assert_denied("one up, one down", POLICY, resize("pod", both("2", "1Mi")).await, &says);
    let whole = json!({ "spec": { "resources": { "requests": { "cpu": "3" } } } });
    assert_denied(
        "the pod's own",
        POLICY,
        resize("burstable", whole).await,
        &["the requests of the pod can't grow"],
    );

    resize("pod", both("1000m", "1048576Ki")).await?;
    resize("pod", both("500m", "512Mi")).await?;
    resize("unqueued", both("500m", "512Mi")).await?;
    assert_denied("back again", POLICY, resize("pod", both("1", "1Gi")).await, &says);
    resize(
        "plain",
        container(&json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "2" } })),
    )
    .await?;
    Ok(())
}

/// On a pod that was held for its claims alone no queue is written: its namespace names one, or it was let in for cards.
#[tokio::test]
async fn a_pod_that_was_held_for_its_claims_never_takes_more() -> Outcome {
    const QUEUED: &str = "resize-queued";
    let cluster = &Cluster::with_policies_only("resize-claims").await?;
    if !serves_resize(&cluster.administrator).await? {
        return Ok(());
    }
    cluster
        .plane
        .create_namespace(QUEUED, &[], &[(QUEUE_NAME, QUEUE)])
        .await?;
    let claims = |name: &str| by_name(pod(name).request("cpu", 1).gate(GATE), "claim");
    cluster.create(claims("free")).await?;
    cluster.create(claims("let-in")).await?;
    let queued: Api<Pod> = Api::namespaced(cluster.administrator.clone(), QUEUED);
    let in_queue = claims("in-queue").namespace(QUEUED).build();
    queued.create(&PostParams::default(), &in_queue).await?;
    let lets_in = json!([
        { "op": "remove", "path": "/spec/schedulingGates" },
        { "op": "add", "path": "/metadata/annotations", "value": { CARD_ASSIGNED: "NVIDIA-A100" } },
    ]);
    let lets_in = Patch::Json::<()>(serde_json::from_value(lets_in)?);
    let pods = cluster.pods(&cluster.operator);
    pods.patch("let-in", &PatchParams::default(), &lets_in).await?;

    let pods = cluster.pods(&cluster.administrator);
    let resize = async |pods: &Api<Pod>, name: &'static str| {
        let amounts = json!({ "cpu": "2" });
        let more = container(&json!({ "requests": amounts, "limits": amounts }));
        pods.patch_resize(name, &PatchParams::default(), &Patch::Strategic(more))
            .await
    };
    let says = ["the requests of container \"main\" can't grow after the pod's creation"];
    assert_denied("by its namespace", POLICY, resize(&queued, "in-queue").await, &says);
    assert_denied("by its card", POLICY, resize(&pods, "let-in").await, &says);
    resize(&pods, "free").await?;
    Ok(())
}

/// A pod whose cards were nobody's when it was created has no queue written on it, and is charged from when its namespace names one.
#[tokio::test]
async fn a_pod_that_came_before_its_namespaces_queue_never_takes_more() -> Outcome {
    let cluster = &Cluster::of_its_own("resize-earlier").await?;
    if !serves_resize(&cluster.administrator).await? {
        return Ok(());
    }
    for (name, resource) in [("cards", "nvidia.com/gpu"), ("network", "rdma/hca")] {
        cluster.create(pod(name).request("cpu", 1).request(resource, 1)).await?;
    }
    cluster
        .create(by_name(pod("claims").request("cpu", 1), "claim"))
        .await?;
    let pods = cluster.pods(&cluster.administrator);
    let grows = async |name: &'static str| {
        let amounts = json!({ "cpu": "2" });
        let more = container(&json!({ "requests": amounts, "limits": amounts }));
        let only_asks = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        pods.patch_resize(name, &only_asks, &Patch::Strategic(more)).await
    };
    // The API server learns of what the policy reads by watches of its own.
    let is_charged = async |name: &'static str| {
        wait::eventually("the pod to be charged", wait::PATIENCE, async || {
            let refused = refusal(grows(name).await);
            Ok(Seen::when(refused.is_some(), "it may grow"))
        })
        .await?;
        let says = ["the requests of container \"main\" can't grow after the pod's creation"];
        assert_denied(name, POLICY, grows(name).await, &says);
        Outcome::Ok(())
    };
    grows("cards").await?;
    grows("claims").await?;
    grows("network").await?;

    // By the configuration, whatever a namespace says.
    write(cluster, json!({ "unqueuedCards": "charge" })).await?;
    is_charged("cards").await?;
    // Which cards a claim is for is not known there.
    is_charged("claims").await?;
    grows("network").await?;
    write(cluster, json!({ "unqueuedCards": null })).await?;
    wait::eventually("nobody to be charged", wait::PATIENCE, async || {
        let refused = refusal(grows("cards").await);
        Ok(Seen::when(refused.is_none(), format!("{refused:?}")))
    })
    .await?;

    let names = json!({ "metadata": { "annotations": { QUEUE_NAME: QUEUE } } });
    let namespaces: Api<Namespace> = Api::all(cluster.administrator.clone());
    namespaces
        .patch(cluster.team, &PatchParams::default(), &Patch::Merge(names))
        .await?;
    is_charged("cards").await?;
    grows("network").await?;
    // What the operator found nodes to have as cards.
    write(cluster, json!({ "cardResources": "rdma/*" })).await?;
    is_charged("network").await
}
