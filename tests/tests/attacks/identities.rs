//! Exemptions go by who asks, never by what is written: pods that say that a `DaemonSet` made them, and Bindings that carry what
//! their pod is charged by.

use cardgate_tests::controlplane::Account;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys::{CARD_ASSIGNED, CARD_NAME, CROSS_QUOTA_LABEL, GATE, MGPU_ASSUMED, QUEUE_LABEL, QUEUE_NAME};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Outcome;
use crate::tenant::{Tenant, expect_refusal};

/// The label by which the pods of this file find their node.
const HERE: &str = "attack";

#[tokio::test]
async fn a_pod_that_only_says_that_a_daemon_set_made_it_is_held_like_any_other() -> Outcome {
    let world = World::start().await?;
    let arguments = "gpu-resource-names: nvidia.com/gpu, quota.cpu: 4";
    let conf =
        format!("tiers: [{{plugins: [{{name: capacity-card}}, {{name: crossquota, arguments: {{{arguments}}}}}]}}]");
    world.cardgate.configure(&world.plane, Some(&conf), None).await?;
    let scenario = Scenario::begin(&world, "owned").await?;
    let namespaces: Api<Namespace> = Api::all(world.plane.client().await?);
    let label = json!({ "metadata": { "labels": { CROSS_QUOTA_LABEL: "enabled" } } });
    namespaces
        .patch("owned", &PatchParams::default(), &Patch::Merge(label))
        .await?;
    let gpus = nodes::nvidia("owned-gpu", "NVIDIA-A100.owned", 8, 81_920).label(HERE, "owned");
    scenario.nodes(&[gpus]).await?;
    let tenant = Tenant::of(&world.plane, "owned").await?;

    // A real one, whose pods run everywhere.
    let template = pod("agent").request("cpu", 1).node_selector(HERE, "owned");
    let template = template.deployment(1).spec.unwrap_or_default();
    let template = json!({
        "metadata": { "name": "agent" },
        "spec": { "selector": template.selector, "template": template.template },
    });
    let real = tenant
        .create(&serde_json::from_value::<DaemonSet>(template.clone())?)
        .await?;
    let pods = tenant.api::<Pod>();
    wait::eventually("the DaemonSet's pod to run", wait::PATIENCE, async || {
        let found = pods.list(&ListParams::default().labels("app=agent")).await?.items;
        let placed = found
            .iter()
            .any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok(Seen::when(placed, format!("{} pods", found.len())))
    })
    .await?;

    // One of anybody's making, with the real one's name and uid.
    let mut forged = serde_json::to_value(pod("forged").request("cpu", 36).node_selector(HERE, "owned").build())?;
    forged["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": real.metadata.uid, "controller": true,
    }]);
    let created = tenant.create(&serde_json::from_value::<Pod>(forged.clone())?).await?;
    let gates = created.spec.and_then(|spec| spec.scheduling_gates).unwrap_or_default();
    assert_eq!(gates.iter().map(|gate| &*gate.name).collect::<Vec<_>>(), [GATE]);
    // It waits for what the node gives to pods without GPU: 3 of 4 cores, since the agent has one.
    let condition = scenario.waits("forged", "CrossQuotaExceeded").await?;
    let message = condition.message.unwrap_or_default();
    assert!(message.contains("asked 36"), "{message}");
    // Nor does what it says later let it go.
    let says = "scheduling gate \"card.volcano.sh/quota\" is removed by Cardgate's operator only";
    let ungated = json!({ "spec": { "schedulingGates": null } });
    tenant.may_not_change::<Pod>("forged", ungated, says).await?;
    without_the_door(&world, &tenant, &template, &forged).await
}

/// With the door's configuration deleted, the API server itself holds what is not held, and lets run everywhere what must.
async fn without_the_door(world: &World, tenant: &Tenant, agent: &Value, forged: &Value) -> Outcome {
    let kubectl = world.plane.kubectl();
    kubectl
        .run(["delete", "mutatingwebhookconfiguration", "cardgate"])
        .await?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let says = "the namespace has opted in to quotas for pods without GPU";
    let pods = tenant.api::<Pod>();
    let plain = pod("plain").request("cpu", 36).build();
    wait::eventually("the door to be gone", wait::PATIENCE, async || {
        let refused = expect_refusal(pods.create(&dry_run, &plain).await, says);
        Ok(Seen::when(
            refused.is_ok(),
            format!("{refused:?}").chars().take(300).collect::<String>(),
        ))
    })
    .await?;
    // The gate alone holds it for its queue: it would be no pod of CrossQuota for as long as it lives.
    let mut gated = serde_json::to_value(pod("gated").queue("team-a").request("cpu", 36).build())?;
    gated["spec"]["schedulingGates"] = json!([{ "name": GATE }]);
    let says_what = "the pod lacks the label card.volcano.sh/crossquota=enabled";
    tenant
        .is_refused(&serde_json::from_value::<Pod>(gated)?, says_what)
        .await?;
    let mut forged = forged.clone();
    forged["metadata"]["name"] = json!("forged-again");
    tenant.is_refused(&serde_json::from_value::<Pod>(forged)?, says).await?;
    // None is not one.
    let pretended = pod("pretended").request("nvidia.com/gpu", 0).request("cpu", 36).build();
    expect_refusal(pods.create(&dry_run, &pretended).await, "card.volcano.sh/")?;
    let mut again = agent.clone();
    again["metadata"]["name"] = json!("agent-again");
    tenant.create(&serde_json::from_value::<DaemonSet>(again)?).await?;
    let sets = tenant.api::<DaemonSet>();
    wait::object(&sets, "agent-again", "its pod", |set| {
        let status = set.and_then(|set| set.status.as_ref());
        let created = status.map(|status| status.current_number_scheduled);
        Seen::when(created.is_some_and(|created| created > 0), format!("{created:?}"))
    })
    .await
}

/// A service account that may bind pods, and its client.
async fn binder(scenario: &Scenario<'_>, namespace: &str, name: &str) -> anyhow::Result<Client> {
    let kubectl = scenario.plane().kubectl();
    kubectl.run(["create", "serviceaccount", name, "-n", namespace]).await?;
    let (role, account) = (
        "--clusterrole=system:kube-scheduler",
        format!("--serviceaccount={namespace}:{name}"),
    );
    let binding = format!("{namespace}-{name}");
    kubectl
        .run(["create", "clusterrolebinding", &binding, role, &account])
        .await?;
    let account = Account::new(namespace, name);
    scenario
        .plane()
        .await_rights(&account.user(), "system:kube-scheduler", None)
        .await?;
    scenario.plane().client_of_account(&account).await
}

/// A Binding to a node with these annotations and labels.
fn binding(pod: &str, node: &str, annotations: &Value, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": pod, "annotations": annotations, "labels": labels },
        "target": { "kind": "Node", "name": node },
    })
}

/// A pod that was let in, and that no scheduler places.
async fn admitted(scenario: &Scenario<'_>, name: &str, card: &str) -> Outcome {
    let waiting = scenario.gpu_pod(name, card, 1).scheduler("nobody").build();
    scenario.create(&waiting).await?;
    let pods = scenario.api::<Pod>();
    wait::object(&pods, name, "its card", |pod| {
        let annotations = pod.and_then(|pod| pod.metadata.annotations.as_ref());
        let assigned = annotations.is_some_and(|annotations| annotations.contains_key(CARD_ASSIGNED));
        Seen::when(assigned, "none")
    })
    .await
}

#[tokio::test]
async fn nobodys_binding_moves_a_charge() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "bindings").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("bindings", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    admitted(&scenario, "trainer", &card).await?;

    let account = binder(&scenario, "bindings", "scheduler").await?;
    let administrator = world.plane.client().await?;
    for (who, client) in [
        ("system:serviceaccount:bindings:scheduler", &account),
        ("admin", &administrator),
    ] {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "bindings");
        for (annotations, labels, key) in [
            (json!({ QUEUE_NAME: "team-b" }), json!({}), QUEUE_NAME),
            (json!({ CARD_NAME: "NVIDIA-H100" }), json!({}), CARD_NAME),
            (json!({ CARD_ASSIGNED: "NVIDIA-H100" }), json!({}), CARD_ASSIGNED),
            (json!({ MGPU_ASSUMED: "true" }), json!({}), MGPU_ASSUMED),
            (json!({}), json!({ QUEUE_LABEL: "team-b" }), QUEUE_LABEL),
            (json!({}), json!({ CROSS_QUOTA_LABEL: "enabled" }), CROSS_QUOTA_LABEL),
        ] {
            let object = binding("trainer", "bindings", &annotations, &labels);
            let says = format!(
                "the Binding carries {key}, which would replace what the pod is charged by, and \"{who}\" is none of the \
                 schedulers"
            );
            let bound: kube::Result<Value> = pods
                .create_subresource("binding", "trainer", &PostParams::default(), &object)
                .await;
            expect_refusal(bound, &says)?;
            // The same by the older path.
            let request = kube::core::Request::new("/api/v1/namespaces/bindings/bindings");
            let request = request.create(&PostParams::default(), serde_json::to_vec(&object)?)?;
            let bound: kube::Result<Value> = client.request(request).await;
            expect_refusal(bound, &says)?;
        }
    }
    // What carries nothing of this goes through, with what else it carries.
    let pods: Api<Pod> = Api::namespaced(account, "bindings");
    let other = binding("trainer", "bindings", &json!({ "example.com/note": "1" }), &json!({}));
    let _: Value = pods
        .create_subresource("binding", "trainer", &PostParams::default(), &other)
        .await?;
    let bound = scenario.api::<Pod>().get("trainer").await?;
    let annotations = bound.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get("example.com/note").map(String::as_str), Some("1"));
    Ok(())
}

/// Volcano's scheduler sends the pod's own annotations with each Binding, and these could be others by then.
#[tokio::test]
async fn what_a_scheduler_sends_back_changes_nothing_on_the_pod() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, "sent-back").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("sent-back", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    admitted(&scenario, "trainer", &card).await?;
    let pods = scenario.api::<Pod>();
    let before = pods.get("trainer").await?.metadata;

    world.plane.create_namespace("volcano-system", &[], &[]).await?;
    let volcano = binder(&scenario, "volcano-system", "volcano-scheduler").await?;
    let mut sent = before.annotations.clone().unwrap_or_default();
    sent.insert(QUEUE_NAME.to_owned(), "team-b".to_owned());
    sent.insert(CARD_ASSIGNED.to_owned(), "NVIDIA-H100".to_owned());
    sent.insert("volcano.sh/other".to_owned(), "kept".to_owned());
    let object = binding("trainer", "sent-back", &json!(sent), &json!({ QUEUE_LABEL: "team-b" }));
    let _: Value = Api::<Pod>::namespaced(volcano, "sent-back")
        .create_subresource("binding", "trainer", &PostParams::default(), &object)
        .await?;
    let after = pods.get("trainer").await?;
    assert_eq!(after.spec.and_then(|spec| spec.node_name).as_deref(), Some("sent-back"));
    let mut expected = before.annotations.unwrap_or_default();
    expected.insert("volcano.sh/other".to_owned(), "kept".to_owned());
    assert_eq!(after.metadata.annotations, Some(expected));
    assert_eq!(after.metadata.labels.unwrap_or_default()[QUEUE_LABEL], "sent-back");
    Ok(())
}
