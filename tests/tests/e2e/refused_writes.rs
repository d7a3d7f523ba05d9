//! What the API server refuses for good: said, given back, and tried again later each time.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::{Outcome, pods};

const NAME: &str = "refused-writes";

#[tokio::test]
async fn what_a_policy_refuses_says_so_holds_nothing_and_gets_in_when_it_may() -> Outcome {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, NAME).await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia(NAME, &card, 4, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    // Somebody's policy of this namespace: pods with the label stay as they are.
    let client = world.plane.client().await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    let policy = json!({
        "metadata": { "name": NAME },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": NAME } },
                "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"] }],
            },
            "validations": [{
                "expression": "object.metadata.?labels[?'frozen'].orValue('') != 'yes' || object.spec == oldObject.spec",
                "message": "frozen pods stay as they are",
            }],
        },
    });
    policies
        .create(&PostParams::default(), &serde_json::from_value(policy)?)
        .await?;
    let binding =
        json!({ "metadata": { "name": NAME }, "spec": { "policyName": NAME, "validationActions": ["Deny"] } });
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding)?)
        .await?;
    // The API server takes a moment to put a policy in force.
    let probe = scenario
        .pod("probe")
        .queue("no-such-queue")
        .label("frozen", "yes")
        .request("cpu", 1);
    scenario.create(&probe.build()).await?;
    let toleration = json!([{ "op": "add", "path": "/spec/tolerations/-", "value": { "operator": "Exists" } }]);
    wait::eventually("the policy to be in force", wait::PATIENCE, async || {
        let patch = kube::api::Patch::Json::<()>(serde_json::from_value(toleration.clone())?);
        let params = kube::api::PatchParams {
            dry_run: true,
            ..Default::default()
        };
        let tried = scenario.api::<Pod>().patch("probe", &params, &patch).await;
        let message = tried.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(Seen::when(message.contains("frozen pods stay"), message))
    })
    .await?;

    scenario
        .create(&scenario.gpu_pod("frozen", &card, 1).label("frozen", "yes").build())
        .await?;
    let condition = scenario.waits("frozen", "RefusedByAPIServer").await?;
    let message = condition.message.unwrap_or_default();
    assert!(
        message.contains("frozen pods stay as they are") && message.contains("is tried again at"),
        "{message}"
    );
    scenario.events("frozen", "RefusedByAPIServer").await?;
    // It holds nothing: the only card goes to another one.
    scenario.create(&scenario.gpu_pod("other", &card, 1).build()).await?;
    scenario.expect("other", &pods().running(&card, 1)).await?;
    scenario.delete::<Pod>("other").await?;
    bindings.delete(NAME, &DeleteParams::default()).await?;
    // It is tried again later each time.
    let running = pods().running(&card, 1);
    wait::eventually("the frozen pod to get in", wait::PATIENCE * 3, async || {
        scenario.expect("frozen", &running).await.map(Seen::Done)
    })
    .await
}
