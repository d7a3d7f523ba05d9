//! Claims of which Cardgate can't say what they are for, by pods that name neither queue nor card: nobody's way past the queue that the
//! namespace names.

use anyhow::Context as _;
use cardgate_tests::devices::{NVIDIA, allocated, by_name, exactly};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::card_review::{CardReview, CardReviewSpec};
use crds::keys::QUEUE_NAME;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::Outcome;
use crate::claims::{by_hand, scene, tally};

/// Has the namespace name its queue, and waits until the operator knows, which is asked about a pod with this claim.
async fn name_queue(scenario: &Scenario<'_>, claim: &str) -> Outcome {
    let annotation = format!("{QUEUE_NAME}={}", scenario.name());
    let annotate = ["annotate", "namespace", scenario.name(), &annotation];
    scenario.plane().kubectl().run(annotate).await?;
    let probe = by_name(pod("probe").namespace(scenario.name()), claim).build();
    let mut manifest = serde_json::to_value(&probe)?;
    (manifest["apiVersion"], manifest["kind"]) = (json!("v1"), json!("Pod"));
    let spec = CardReviewSpec {
        manifest: Some(manifest),
        ..CardReviewSpec::default()
    };
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually("the namespace's queue", wait::PATIENCE, async || {
        let review = CardReview::new("probe", spec.clone());
        let answer = scenario.api::<CardReview>().create(&dry_run, &review).await?;
        let queue = answer.status.context("no answer")?.queue;
        Ok(Seen::when(
            queue.as_deref() == Some(scenario.name()),
            format!("{queue:?}"),
        ))
    })
    .await
}

/// One card, by an expression that Kubernetes evaluates and Cardgate does not.
fn not_evaluated(card: &str) -> Value {
    let product = format!("device.attributes['{NVIDIA}'].productName");
    let mut requests = exactly(NVIDIA, 1, None);
    let expression = format!("{product}.replace(' ', ' ') == '{card}'");
    requests[0]["exactly"]["selectors"] = json!([{ "cel": { "expression": expression } }]);
    requests
}

#[tokio::test]
async fn a_selector_that_is_not_evaluated_is_no_way_past_the_queue_of_the_namespace() -> Outcome {
    let (_, scenario, tenant, card) = scene("claims-unclear", 1).await?;
    for (claim, requests) in [
        ("clear", exactly(NVIDIA, 1, Some(&card))),
        ("unclear", not_evaluated(&card)),
    ] {
        tenant.create(&by_hand(claim, &requests)?).await?;
    }
    name_queue(&scenario, "clear").await?;
    let unnamed = |name: &str, claim: &str| by_name(pod(name).namespace(scenario.name()), claim).build();
    tenant.create(&unnamed("greedy", "unclear")).await?;
    let told = scenario.waits("greedy", "GetTaskRequestResourceFailed").await?;
    let message = told.message.unwrap_or_default();
    assert!(message.contains("claim gpu (unclear), request"), "{message}");
    // What can be said of is charged, by whoever names as little.
    tenant.create(&unnamed("modest", "clear")).await?;
    scenario.expect("modest", &tally().running(&card, 1)).await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 1);
    Ok(())
}
