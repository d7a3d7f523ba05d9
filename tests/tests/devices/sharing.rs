//! Claims that several pods name.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::NO_CARD;
use cardgate_tests::workloads::queue;
use k8s_openapi::api::core::v1::Pod;

use crate::{NO_QUOTA, NVIDIA, Outcome, allocated, by_name, card_has, claim, exactly, nodes, pods, world};

#[tokio::test]
async fn a_shared_claim_is_charged_once_and_to_one_queue() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-shared").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 2)).await?;
    world
        .plane
        .apply(&queue("dra-shared-other").quota(&a100, 2).build())
        .await?;
    claim(world, &scenario, "both", &exactly(NVIDIA, 2, Some(&a100))).await?;
    scenario.create(&by_name(scenario.pod("first"), "both").build()).await?;
    scenario.expect("first", &pods().running(&a100, 1)).await?;
    scenario
        .create(&by_name(scenario.pod("second"), "both").build())
        .await?;
    scenario.expect("second", &pods().running(NO_CARD, 1)).await?;
    let elsewhere = by_name(scenario.pod("elsewhere").queue("dra-shared-other"), "both");
    scenario.create(&elsewhere.build()).await?;
    let waits = scenario.waits("elsewhere", "ResourceClaimShared").await?;
    let message = waits.message.unwrap_or_default();
    assert!(message.contains("with pod first of its namespace"), "{message}");
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 2);
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (2, 0)).await?;
    // Who paid goes: the quota stays taken as long as anybody has the devices.
    scenario.delete::<Pod>("first").await?;
    claim(world, &scenario, "more", &exactly(NVIDIA, 1, Some(&a100))).await?;
    scenario.create(&by_name(scenario.pod("third"), "more").build()).await?;
    scenario.expect_for_good("third", &pods().waiting(NO_QUOTA, 1)).await?;
    scenario.delete::<Pod>("second").await?;
    scenario.expect("third", &pods().running(&a100, 1)).await
}
