//! Whose business claims are, and what a tenant tries to get cards by them for nothing.

use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::NO_CARD;
use cardgate_tests::workloads::pod;
use crds::keys::QUEUE_NAME;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{
    FPGA, NO_QUOTA, NVIDIA, Outcome, allocated, by_name, by_template, card_has, claim, exactly, nodes, pods, publish,
    template, world,
};

/// The namespace of a scenario names its queue from now on.
async fn name_queue(scenario: &Scenario<'_>) -> Outcome {
    let plane = scenario.plane();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.name(),
        "annotations": {QUEUE_NAME: scenario.name()}}});
    plane.apply(&namespace).await.map(drop)
}

#[tokio::test]
async fn in_a_namespace_with_a_queue_claims_for_cards_are_charged_and_others_are_let_in() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-namespace").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.nodes(&[NodeSpec::new("dra-namespace-fpga")]).await?;
    publish(
        &world.plane,
        "dra-namespace-fpga",
        FPGA,
        &[json!({"name": "f0"}), json!({"name": "f1"})],
    )
    .await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 1)).await?;
    name_queue(&scenario).await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    template(world, &scenario, "fpga", &exactly(FPGA, 1, None)).await?;
    let of = |name: &str| pod(name).namespace(scenario.name());
    scenario.create(&by_template(of("gpu"), "a100").deployment(3)).await?;
    scenario.create(&by_template(of("fpga"), "fpga").deployment(2)).await?;
    let expected = pods().running(&a100, 1).waiting(NO_QUOTA, 2);
    scenario.expect_for_good("gpu", &expected).await?;
    scenario.expect("fpga", &pods().running(NO_CARD, 2)).await
}

#[tokio::test]
async fn a_claim_made_by_hand_and_later_is_charged_before_anything_is_allocated() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-by-hand").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 1)).await?;
    scenario.create(&by_name(scenario.pod("early"), "mine").build()).await?;
    scenario.waits("early", "ResourceClaimNotFound").await?;
    claim(world, &scenario, "mine", &exactly(NVIDIA, 2, Some(&a100))).await?;
    scenario.waits("early", NO_QUOTA).await?;
    assert_eq!(allocated(&scenario).await?.len(), 0);
    scenario.apply_queue(scenario.queue().quota(&a100, 2)).await?;
    scenario.expect("early", &pods().running(&a100, 1)).await
}

#[tokio::test]
async fn what_nobody_is_charged_for_is_shown() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-free").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 3, Some(&a100))).await?;
    let free = by_template(pod("free").namespace(scenario.name()), "a100");
    scenario.create(&free.build()).await?;
    scenario.expect("free", &pods().running(NO_CARD, 1)).await?;
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (3, 3)).await
}

#[tokio::test]
async fn a_claim_whose_selector_is_not_evaluated_is_said_and_not_guessed() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-unclear").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 4)).await?;
    let mut requests = exactly(NVIDIA, 1, Some(&a100));
    requests[0]["exactly"]["selectors"][0]["cel"]["expression"] = json!(format!(
        "device.attributes['{NVIDIA}'].productName.matches('(N|V|I|D|A){{2,9}}.*')"
    ));
    template(world, &scenario, "odd", &requests).await?;
    scenario
        .create(&by_template(scenario.pod("odd"), "odd").build())
        .await?;
    let condition = scenario.waits("odd", "GetTaskRequestResourceFailed").await?;
    let message = condition.message.unwrap_or_default();
    assert!(message.contains("matches with a pattern"), "{message}");
    // It can still be ended.
    scenario.delete::<Pod>("odd").await
}
