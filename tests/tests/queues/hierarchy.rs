//! Hierarchies and guarantees.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use crds::card_usage::CardUsage;
use kube::Api;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, queue_of, shares, world};

#[tokio::test]
async fn a_guarantee_is_kept_free_until_its_queue_uses_it() -> Outcome {
    let scenario = Scenario::begin(world().await?, "guaranteed").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("guaranteed", &card, 8, 81_920)]).await?;
    scenario
        .apply_queue(shares(scenario.queue(), &card, 8, None, 0))
        .await?;
    let owner = queue_of(&scenario, "owner");
    scenario.apply_queue(shares(owner, &card, 8, None, 3)).await?;
    scenario
        .create(&scenario.gpu_pod("greedy", &card, 1).deployment(8))
        .await?;
    scenario
        .expect_for_good("greedy", &Tally::none().running(&card, 5).waiting(NO_QUOTA, 3))
        .await?;
    let own = scenario.gpu_pod("own", &card, 1).queue("guaranteed-owner");
    scenario.create(&own.deployment(4)).await?;
    scenario
        .expect_for_good("own", &Tally::none().running(&card, 3).waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn three_levels_of_queues_limit_together_and_are_protected_at_the_door() -> Outcome {
    let scenario = Scenario::begin(world().await?, "company").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[
            nodes::nvidia("company-1", &card, 8, 81_920),
            nodes::nvidia("company-2", &card, 8, 81_920),
        ])
        .await?;
    let company = scenario.queue().quota(&card, 7);
    scenario.apply_queue(company).await?;
    let part = |suffix: &str, parent: &str, quota| {
        queue_of(&scenario, suffix)
            .quota(&card, quota)
            .field("parent", json!(parent))
    };
    scenario.apply_queue(part("research", "company", 5)).await?;
    scenario.apply_queue(part("vision", "company-research", 4)).await?;
    scenario.apply_queue(part("speech", "company-research", 4)).await?;
    scenario.apply_queue(part("sales", "company", 4)).await?;

    let workers = |name: &str, count: i32| {
        let pod = scenario.gpu_pod(name, &card, 1).queue(&format!("company-{name}"));
        pod.deployment(count)
    };
    scenario.create(&workers("vision", 5)).await?;
    scenario
        .expect("vision", &Tally::none().running(&card, 4).waiting(NO_QUOTA, 1))
        .await?;
    scenario.create(&workers("speech", 3)).await?;
    scenario
        .expect_for_good("speech", &Tally::none().running(&card, 1).waiting(NO_QUOTA, 2))
        .await?;
    scenario.create(&workers("sales", 3)).await?;
    scenario
        .expect_for_good("sales", &Tally::none().running(&card, 2).waiting(NO_QUOTA, 1))
        .await?;
    // A pod in a queue with queues below it waits and says why.
    scenario.create(&scenario.gpu_pod("inner", &card, 1).build()).await?;
    let waits = scenario.waits("inner", "InnerQueue").await?;
    assert!(
        waits
            .message
            .as_deref()
            .is_some_and(|text| text.contains("has queues below it")),
        "{waits:?}"
    );

    // The door, in the words of its users.
    let kubectl = scenario.plane().kubectl();
    let refused = async |args: &[&str], input: Option<String>| {
        let output = kubectl.output(args.iter().copied(), input.as_deref()).await?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(!output.status.success(), "{args:?} went through");
        anyhow::Ok(text)
    };
    let above = part("robots", "company-research", 6).build().to_string();
    let text = refused(&["create", "-f", "-"], Some(above)).await?;
    assert!(
        text.contains(&format!("may have 6 {card}, more than the 5 of its parent")),
        "{text}"
    );
    let lost = part("lost", "company-nowhere", 1).build().to_string();
    let text = refused(&["create", "-f", "-"], Some(lost)).await?;
    assert!(text.contains("queue \"company-nowhere\" does not exist"), "{text}");
    let patch = json!({ "spec": { "parent": "company-vision" } }).to_string();
    let text = refused(&["patch", "queue", "company", "--type=merge", "-p", &patch], None).await?;
    assert!(text.contains("the queue would be part of itself"), "{text}");
    let text = refused(&["delete", "queue", "company-research"], None).await?;
    assert!(text.contains("has queues below it (2,"), "{text}");
    // The door knows of pods what the operator writes of them.
    let usages: Api<CardUsage> = Api::all(scenario.plane().client().await?);
    wait::object(&usages, "company-speech", "its pods", |usage| {
        let pods = usage.and_then(|usage| Some(usage.status.as_ref()?.admitted_pods));
        Seen::when(pods.is_some_and(|pods| pods > 0), format!("{pods:?}"))
    })
    .await?;
    let text = refused(&["delete", "queue", "company-speech"], None).await?;
    assert!(
        text.contains("queue \"company-speech\" has pods that were let in ("),
        "{text}"
    );
    let lab = part("lab", "company-speech", 1).build().to_string();
    let text = refused(&["create", "-f", "-"], Some(lab)).await?;
    assert!(text.contains("queue \"company-speech\" has pods"), "{text}");

    // Once its pods are gone it can be removed, and then its parent's room is vision's.
    kubectl.run(["-n", "company", "delete", "deployment", "speech"]).await?;
    wait::eventually("the queue to be removed", wait::PATIENCE, async || {
        let output = kubectl.output(["delete", "queue", "company-speech"], None).await?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Seen::when(output.status.success(), text))
    })
    .await
}
