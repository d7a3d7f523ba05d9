//! Entitled to more: within a queue by priority, and before there are pods at all.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use crds::keys::CARD_REQUEST;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, queue_of, shares, world};

#[tokio::test]
async fn a_pod_of_higher_priority_replaces_lower_ones_of_its_queue() -> Outcome {
    let scenario = Scenario::begin(world().await?, "preempt").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("preempt", &card, 8, 81_920)]).await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": "queues-urgent" },
        "value": 1000,
    });
    scenario.plane().apply(&class).await?;
    scenario
        .apply_queue(shares(scenario.queue(), &card, 4, Some(4), 0))
        .await?;
    scenario
        .create(&scenario.gpu_pod("usual", &card, 1).deployment(4))
        .await?;
    scenario.expect("usual", &Tally::none().running(&card, 4)).await?;
    let urgent = scenario.gpu_pod("urgent", &card, 2).priority_class("queues-urgent");
    scenario.create(&urgent.deployment(1)).await?;
    scenario.expect("urgent", &Tally::none().running(&card, 1)).await?;
    scenario
        .expect_for_good("usual", &Tally::none().running(&card, 2).waiting(NO_QUOTA, 2))
        .await?;
    let events = scenario.api::<Event>().list(&ListParams::default()).await?.items;
    let preempted = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Preempted"));
    let messages: Vec<_> = preempted.filter_map(|event| event.message.as_deref()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    for message in messages {
        assert!(
            message.contains("evicted for pod preempt/urgent-") && message.contains("has priority 1000, more than 0"),
            "{message}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_suspended_job_within_what_its_queue_deserves_is_served_though_its_parent_is_full() -> Outcome {
    let scenario = Scenario::begin(world().await?, "claim").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("claim", &card, 8, 81_920)]).await?;
    scenario
        .apply_queue(shares(scenario.queue(), &card, 6, Some(6), 0))
        .await?;
    for part in ["borrower", "owner"] {
        let queue = queue_of(&scenario, part).field("parent", json!("claim"));
        scenario.apply_queue(shares(queue, &card, 6, Some(3), 0)).await?;
    }
    let borrower = scenario.gpu_pod("borrower", &card, 1).queue("claim-borrower");
    scenario.create(&borrower.deployment(6)).await?;
    scenario.expect("borrower", &Tally::none().running(&card, 6)).await?;
    let pods = scenario
        .gpu_pod("training", &card, 1)
        .queue("claim-owner")
        .annotation("pod-complete.stage.kwok.x-k8s.io/delay", "1h");
    let mut job = pods.job(3);
    let request = json!({ &card: 3 }).to_string();
    job.metadata
        .annotations
        .get_or_insert_default()
        .insert(CARD_REQUEST.to_owned(), request);
    scenario.create(&job).await?;
    scenario.expect("training", &Tally::none().running(&card, 3)).await?;
    scenario
        .expect_for_good("borrower", &Tally::none().running(&card, 3).waiting(NO_QUOTA, 3))
        .await
}
