//! Gangs among those that give back, and among those that get back.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use crds::keys::GROUP_NAME;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use crate::{Outcome, halves, world};

/// Creates a group whose pods get in so many at once.
async fn create_group(scenario: &Scenario<'_>, name: &str, min_member: u32, queue: &str) -> Outcome {
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": name, "namespace": scenario.name() },
        "spec": { "minMember": min_member, "queue": queue },
    });
    scenario.plane().apply(&group).await?;
    Ok(())
}

#[tokio::test]
async fn a_gang_gets_back_for_all_of_it_at_once_and_no_gang_is_left_in_part() -> Outcome {
    let (scenario, card) = halves(world().await?, "whole").await?;
    let other = format!("{}-b", scenario.name());
    // What is oldest goes last, and a gang of five that is younger than three single pods can't go in part.
    scenario
        .create(&scenario.gpu_pod("single", &card, 1).deployment(3))
        .await?;
    scenario.expect("single", &Tally::none().running(&card, 3)).await?;
    create_group(&scenario, "gang", 5, scenario.name()).await?;
    let gang = scenario.gpu_pod("gang", &card, 1).annotation(GROUP_NAME, "gang");
    scenario.create(&gang.deployment(5)).await?;
    scenario.expect("gang", &Tally::none().running(&card, 5)).await?;

    // Two fit into what the others may lose; to take the gang of five would leave its queue with less than it deserves.
    create_group(&scenario, "claimant", 2, &other).await?;
    let claimant = |name: &str| scenario.gpu_pod(name, &card, 1).queue(&other);
    let two = claimant("claimant").annotation(GROUP_NAME, "claimant");
    scenario.create(&two.deployment(2)).await?;
    scenario.expect("claimant", &Tally::none().running(&card, 2)).await?;
    scenario
        .expect_for_good("gang", &Tally::none().running(&card, 5))
        .await?;
    let single = Tally::none().running(&card, 1).waiting("NoNodeFits", 2);
    scenario.expect_for_good("single", &single).await?;

    // A gang of two more: one single pod is left, and one of a gang of five can't go. So nobody goes.
    create_group(&scenario, "late", 2, &other).await?;
    let late = claimant("late").annotation(GROUP_NAME, "late");
    scenario.create(&late.deployment(2)).await?;
    scenario
        .expect_for_good("late", &Tally::none().waiting("NoNodeFits", 2))
        .await?;
    scenario
        .expect_for_good("gang", &Tally::none().running(&card, 5))
        .await?;
    scenario.expect_for_good("single", &single).await?;
    let events = scenario.api::<Event>().list(&ListParams::default()).await?.items;
    let reclaimed = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Reclaimed"));
    assert_eq!(reclaimed.count(), 2);
    // Its own queue takes the whole gang with it: then everything that waits finds room.
    scenario
        .delete::<k8s_openapi::api::apps::v1::Deployment>("gang")
        .await?;
    scenario.expect("late", &Tally::none().running(&card, 2)).await?;
    scenario.expect("single", &Tally::none().running(&card, 3)).await
}
