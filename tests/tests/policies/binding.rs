//! `cardgate-pod-binding`: a Binding's annotations and labels end up on the pod.

use crds::keys;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use cardgate_tests::controlplane::Account;
use cardgate_tests::workloads::pod;

use crate::Outcome;
use crate::cluster::{Cluster, assert_denied, binding, dry_run, held, refusal};

const POLICY: &str = "cardgate-pod-binding";

#[tokio::test]
async fn a_gated_pod_is_not_bound() -> Outcome {
    let cluster = &Cluster::with_policies_only("gated-bind").await?;
    cluster.create(held("pod")).await?;
    let pods = cluster.pods(&cluster.administrator);
    let bind: kube::Result<Value> = pods
        .create_subresource("binding", "pod", &dry_run(), &binding("pod", &json!({}), &json!({})))
        .await;
    let refused = refusal(bind).unwrap_or_default();
    assert!(
        refused.contains("pod pod has non-empty .spec.schedulingGates"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_binding_does_not_change_what_a_pod_is_charged_by() -> Outcome {
    let cluster = &Cluster::with_policies_only("binding").await?;
    cluster.create(pod("pod")).await?;
    let pods = cluster.pods(&cluster.administrator);
    let index = format!("{}main", keys::MGPU_INDEX_PREFIX);
    let annotations = [
        keys::QUEUE_NAME,
        keys::GROUP_NAME,
        keys::CARD_NAME,
        keys::CARD_ASSIGNED,
        keys::MGPU_ASSUMED,
        keys::MGPU_CONTAINER_CARDS,
        keys::MGPU_POLICY,
        keys::SCORING_STRATEGY,
        keys::MIRROR_POD,
        index.as_str(),
    ];
    let annotated = annotations.map(|key| (key, binding("pod", &json!({ key: "b" }), &json!({}))));
    let labels = [keys::QUEUE_LABEL, keys::CROSS_QUOTA_LABEL];
    let labelled = labels.map(|key| (key, binding("pod", &json!({}), &json!({ key: "b" }))));
    for (key, object) in annotated.into_iter().chain(labelled) {
        let says = [format!("a Binding must not carry {key}, since it would replace")];
        let says = [says[0].as_str(), "leave it out"];
        let result: kube::Result<Value> = pods.create_subresource("binding", "pod", &dry_run(), &object).await;
        assert_denied(&format!("{key}, through pods/binding"), POLICY, result, &says);

        let request = kube::core::Request::new(format!("/api/v1/namespaces/{}/bindings", cluster.team));
        let request = request.create(&dry_run(), serde_json::to_vec(&object)?)?;
        let result: kube::Result<Value> = cluster.administrator.request(request).await;
        assert_denied(&format!("{key}, through bindings"), POLICY, result, &says);
    }
    let other = binding(
        "pod",
        &json!({ "example.com/note": "1" }),
        &json!({ "topology.kubernetes.io/zone": "a" }),
    );
    let _: Value = pods.create_subresource("binding", "pod", &dry_run(), &other).await?;
    Ok(())
}

/// Volcano's scheduler sends the pod's own annotations with each Binding. The door takes them off; where it is gone, nothing says
/// that they are the pod's own.
#[tokio::test]
async fn without_the_door_nobody_sends_a_pods_own_annotations() -> Outcome {
    let cluster = &Cluster::with_policies_only("scheduler").await?;
    cluster.create(held("pod")).await?;
    let admitted = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
    let admitted = cluster
        .pods(&cluster.operator)
        .patch("pod", &PatchParams::default(), &admitted)
        .await?;

    let kubectl = cluster.plane.kubectl();
    kubectl.run(["create", "namespace", "volcano-system"]).await?;
    let (namespace, name) = ("volcano-system", "volcano-scheduler");
    kubectl.run(["create", "serviceaccount", name, "-n", namespace]).await?;
    let role = "--clusterrole=system:kube-scheduler";
    let account = format!("--serviceaccount={namespace}:{name}");
    kubectl
        .run(["create", "clusterrolebinding", "scheduler", role, &account])
        .await?;
    let account = Account::new(namespace, name);
    cluster
        .plane
        .await_rights(&account.user(), "system:kube-scheduler", None)
        .await?;
    let scheduler = cluster.plane.client_of_account(&account).await?;
    let pods: Api<_> = cluster.pods(&scheduler);
    let bind = async |annotations: &Value| -> kube::Result<Value> {
        let object = binding("pod", annotations, &json!({}));
        pods.create_subresource("binding", "pod", &PostParams::default(), &object)
            .await
    };
    let sent = bind(&json!(admitted.metadata.annotations)).await;
    assert_denied("the pod's own", POLICY, sent, &[keys::QUEUE_NAME]);
    let _: Value = bind(&json!({ "example.com/note": "1" })).await?;
    let bound = cluster.pods(&cluster.administrator).get("pod").await?;
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("node-1"));
    Ok(())
}

/// The operator binds mGPU pods itself under `enforceMGPU: extender`, with their cards.
#[tokio::test]
async fn the_operators_binding_carries_the_cards_and_nothing_else() -> Outcome {
    let cluster = &Cluster::with_policies_only("cards").await?;
    cluster.create(pod("pod")).await?;
    let kubectl = cluster.plane.kubectl();
    let (verb, resource) = ("--verb=create", "--resource=pods/binding");
    kubectl.run(["create", "clusterrole", "bind", verb, resource]).await?;
    let account = format!("--serviceaccount={}:operator", keys::NAMESPACE);
    kubectl
        .run(["create", "clusterrolebinding", "bind", "--clusterrole=bind", &account])
        .await?;
    let operator = Account::new(keys::NAMESPACE, "operator");
    cluster.plane.await_rights(&operator.user(), "bind", None).await?;
    let pods = cluster.pods(&cluster.operator);
    let bind = async |annotations: &Value, labels: &Value| -> kube::Result<Value> {
        let object = binding("pod", annotations, labels);
        pods.create_subresource("binding", "pod", &PostParams::default(), &object)
            .await
    };
    for key in [keys::QUEUE_NAME, keys::CARD_NAME, keys::CARD_ASSIGNED, keys::GROUP_NAME] {
        let bound = bind(&json!({ key: "b" }), &json!({})).await;
        assert_denied(key, POLICY, bound, &["a Binding must not carry", key]);
    }
    let bound = bind(&json!({}), &json!({ keys::QUEUE_LABEL: "b" })).await;
    assert_denied("the label", POLICY, bound, &[keys::QUEUE_LABEL]);
    let index = format!("{}main", keys::MGPU_INDEX_PREFIX);
    bind(&json!({ keys::MGPU_ASSUMED: "true", index: "0" }), &json!({})).await?;
    Ok(())
}
