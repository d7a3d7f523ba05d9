//! Of several operators, only the one that `ConfigMap` `cardgate-policy` names decides: `cardgate-leader`, and `cardgate-pod-update`.

use anyhow::Result;
use cardgate_tests::controlplane::Account;
use cardgate_tests::wait::{self, Seen};
use crds::keys::{ADMITTED_CONDITION, GATE, LEADER, NAMESPACE, POLICY_PARAMETERS};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{EvictParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, assert_denied, await_refusal, binding, dry_run, held, refusal};

const POLICY: &str = "cardgate-leader";
const OF_PODS: &str = "cardgate-pod-update";
const SAYS: &[&str] = &["another operator of Cardgate leads"];

/// Names who leads.
async fn hand_over(cluster: &Cluster, leader: Option<&str>) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.administrator.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "data": { LEADER: leader } }));
    maps.patch(POLICY_PARAMETERS, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Removes the gate, or only tries to.
async fn let_in(pods: &Api<Pod>, pod: &str, only_try: bool) -> kube::Result<Pod> {
    let params = PatchParams {
        dry_run: only_try,
        ..PatchParams::default()
    };
    let gate_gone = json!([{ "op": "remove", "path": "/spec/schedulingGates" }]);
    let gate_gone = serde_json::from_value(gate_gone).map_err(kube::Error::SerdeError)?;
    pods.patch(pod, &params, &Patch::Json::<()>(gate_gone)).await
}

async fn operator(cluster: &Cluster, pod: &str) -> Result<Client> {
    let account = Account::new(NAMESPACE, "operator");
    cluster.plane.client_of_pod(&account, pod).await
}

/// Waits until the API server has seen who leads, which it does by a watch of its own.
async fn expect_leader(leader: &Api<Pod>, former: &Api<Pod>) -> Outcome {
    wait::eventually("the new holder to be known", wait::PATIENCE, async || {
        let [leader, former] = [leader, former].map(|pods| let_in(pods, "probe", true));
        let (leader, former) = (refusal(leader.await), refusal(former.await));
        let is_known = leader.is_none() && former.as_ref().is_some_and(|message| message.contains(OF_PODS));
        Ok(Seen::when(
            is_known,
            format!("the leader {leader:?}, the former {former:?}"),
        ))
    })
    .await
}

#[tokio::test]
async fn only_who_leads_decides() -> Outcome {
    let cluster = &Cluster::of_its_own("leader").await?;
    for name in ["probe", "one", "two"] {
        cluster.create(held(name)).await?;
    }
    let clients = [
        operator(cluster, "operator-1").await?,
        operator(cluster, "operator-2").await?,
    ];
    let [one, two] = clients.each_ref().map(|client| cluster.pods(client));
    // Where nobody is named, nobody is taken for a former leader.
    for pods in [&one, &two] {
        let_in(pods, "probe", true).await?;
    }
    hand_over(cluster, Some("operator-1")).await?;
    expect_leader(&one, &two).await?;
    assert_denied("removes a gate", OF_PODS, let_in(&two, "one", false).await, SAYS);
    let_in(&one, "one", false).await?;

    hand_over(cluster, Some("operator-2")).await?;
    expect_leader(&two, &one).await?;
    assert_denied("removes a gate", OF_PODS, let_in(&one, "two", false).await, SAYS);
    let only_try = EvictParams {
        post_options: dry_run(),
        ..EvictParams::default()
    };
    await_refusal(POLICY, async || one.evict("one", &only_try).await).await?;
    let evicted = one.evict("one", &EvictParams::default()).await;
    assert_denied("evicts", POLICY, evicted, SAYS);
    // The cluster role of a scheduler extender, without which a Binding is no operator's to write.
    cluster
        .plane
        .kubectl()
        .run([
            "apply",
            "-f",
            "manifests/components/scheduler-extender/operator-rbac.yaml",
        ])
        .await?;
    let bind = async |pods: &Api<Pod>| {
        let body = binding("one", &json!({}), &json!({}));
        let bound: kube::Result<Value> = pods.create_subresource("binding", "one", &dry_run(), &body).await;
        bound
    };
    await_refusal(POLICY, async || bind(&one).await).await?;
    bind(&two).await?;
    let_in(&two, "two", false).await?;
    // What others write is their own: the rule is the operator's alone.
    let labelled = Patch::Merge(json!({ "metadata": { "labels": { "app": "own" } } }));
    let own = cluster
        .pods(&cluster.editor)
        .patch("two", &PatchParams::default(), &labelled)
        .await?;
    assert!(
        own.spec.is_some_and(|spec| spec.scheduling_gates.is_none()),
        "{GATE} is gone"
    );

    // What only tells is anybody's.
    let condition =
        json!({ "status": { "conditions": [{ "type": ADMITTED_CONDITION, "status": "False", "reason": "Waits" }] } });
    one.patch_status("probe", &PatchParams::default(), &Patch::Strategic(condition))
        .await?;

    // An administrator takes the name away: as before the first leader that wrote one.
    hand_over(cluster, None).await?;
    wait::eventually("nobody to be refused", wait::PATIENCE, async || {
        let refused = refusal(let_in(&one, "probe", true).await);
        Ok(Seen::when(refused.is_none(), format!("{refused:?}")))
    })
    .await
}

/// The protection of pods reads the object that names the leader: so whoever has the operator's token can't have it removed.
#[tokio::test]
async fn the_operators_token_changes_only_what_the_object_says() -> Outcome {
    let cluster = &Cluster::of_its_own("parameters").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.operator.clone(), NAMESPACE);
    let patch = async |change: Value| {
        maps.patch(POLICY_PARAMETERS, &PatchParams::default(), &Patch::Merge(change))
            .await
    };
    let only_try = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let immutable = Patch::Merge(json!({ "immutable": true }));
    await_refusal("cardgate-operator", async || {
        maps.patch(POLICY_PARAMETERS, &only_try, &immutable).await
    })
    .await?;
    let says = &["changes nothing on ConfigMap \"cardgate-policy\" but its data"];
    let gone =
        json!({ "apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000" });
    for change in [
        json!({ "metadata": { "ownerReferences": [gone] } }),
        json!({ "metadata": { "finalizers": ["example.com/evil"] } }),
        json!({ "metadata": { "labels": { "app": "evil" } } }),
        json!({ "immutable": true }),
        json!({ "binaryData": { "leader": "" } }),
    ] {
        let what = change.to_string();
        assert_denied(&what, "cardgate-operator", patch(change).await, says);
    }
    patch(json!({ "data": { LEADER: "operator-1" } })).await?;
    Ok(())
}
