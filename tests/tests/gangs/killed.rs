//! A gang whose admission is cut in two.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::keys::GROUP_NAME;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as Binding,
};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{NO_QUOTA, Outcome, apply_group, pods};

/// Nobody changes pods of the scenario that carry the label `stuck`.
async fn hold_stuck_pods(scenario: &Scenario<'_>, probe: &str) -> anyhow::Result<Api<Binding>> {
    const MESSAGE: &str = "stuck for a test";
    let client = scenario.plane().client().await?;
    let name = format!("{}-stuck", scenario.name());
    let policy: Policy = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"],
            }] },
            "validations": [{ "expression": "!('stuck' in object.metadata.?labels.orValue({}))", "message": MESSAGE }],
        },
    }))?;
    let binding: Binding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": scenario.name() } },
            },
        },
    }))?;
    let bindings = Api::all(client.clone());
    Api::all(client).create(&PostParams::default(), &policy).await?;
    bindings.create(&PostParams::default(), &binding).await?;
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = Patch::Merge(json!({ "metadata": { "labels": { "probe": "yes" } } }));
    wait::eventually("the policy to hold pods", wait::PATIENCE, async || {
        let answer = scenario.api::<Pod>().patch(probe, &dry_run, &change).await;
        let answer = answer.map_or_else(|error| error.to_string(), |_| "changed".to_owned());
        Ok(Seen::when(answer.contains(MESSAGE), answer))
    })
    .await?;
    Ok(bindings)
}

#[tokio::test]
async fn an_operator_that_is_killed_halfway_through_a_gang_completes_it_first() -> Outcome {
    // Of its own: others count what the operator says, and one that begins anew says it again.
    let world = World::start().await?;
    let scenario = Scenario::begin(&world, "halfway").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("halfway", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    apply_group(&scenario, "training", 4, None).await?;
    let member = |name: &str| {
        let pod = scenario.gpu_pod(name, &card, 1).annotation(GROUP_NAME, "training");
        pod.label("app", "training")
    };
    // Two of four get in; the other two are decided on, but nobody can write it.
    for name in ["stuck-1", "stuck-2"] {
        scenario.create(&member(name).label("stuck", "yes").build()).await?;
    }
    let bindings = hold_stuck_pods(&scenario, "stuck-1").await?;
    for name in ["free-1", "free-2"] {
        scenario.create(&member(name).build()).await?;
    }
    wait::objects(
        &scenario.api::<Pod>(),
        kube::runtime::watcher::Config::default().labels("app=training"),
        "two pods without their gates".to_owned(),
        |pods| {
            let free = pods.iter().filter(|pod| !cardgate_tests::tally::is_gated(pod));
            let free = free.count();
            Seen::when(free == 2 && pods.len() == 4, format!("{free} of {}", pods.len()))
        },
    )
    .await?;

    let operator = world.cardgate.operator();
    operator.kill()?;
    // Somebody who is there first when the operator comes back, and of whose kind there are more than the quota.
    scenario
        .create(&scenario.gpu_pod("thief", &card, 1).deployment(4))
        .await?;
    bindings
        .delete(&format!("{}-stuck", scenario.name()), &DeleteParams::default())
        .await?;
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = Patch::Merge(json!({ "metadata": { "labels": { "probe": "yes" } } }));
    wait::eventually("the policy to be gone", wait::PATIENCE, async || {
        let answer = scenario.api::<Pod>().patch("stuck-1", &dry_run, &change).await;
        Ok(Seen::when(answer.is_ok(), format!("{:?}", answer.map(|_| "changed"))))
    })
    .await?;
    operator.start()?;
    operator.await_ready().await?;
    scenario.expect("training", &pods().running(&card, 4)).await?;
    scenario.expect_for_good("thief", &pods().waiting(NO_QUOTA, 4)).await
}
