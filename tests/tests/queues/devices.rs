//! Gangs, hierarchies and what is given back, where the cards are devices and pods claim them.

use cardgate_tests::devices::{self, NVIDIA, allocated, by_template, exactly};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::keys::GROUP_NAME;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{NO_QUOTA, NO_ROOM, Outcome, queue_of, shares, world};

/// The name of what claims of one card are made from.
const ONE: &str = "one";

/// A node of 8 cards by devices that only this scenario has, and what claims of one of them are made from.
async fn scene<'s>(name: &str) -> anyhow::Result<(&'static World, Scenario<'s>, String)> {
    static CLASSES: OnceCell<()> = OnceCell::const_new();
    let world = world().await?;
    CLASSES.get_or_try_init(|| devices::classes(&world.plane)).await?;
    let scenario = Scenario::begin(world, name).await?;
    let card = scenario.card("NVIDIA-A100");
    devices::nodes(&scenario, world, &[(&card, 8)]).await?;
    devices::template(world, &scenario, ONE, &exactly(NVIDIA, 1, Some(&card))).await?;
    Ok((world, scenario, card))
}

fn claiming(scenario: &Scenario<'_>, name: &str, queue: &str) -> PodBuilder {
    by_template(scenario.pod(name).queue(queue), ONE)
}

#[tokio::test]
async fn claims_count_on_all_levels_of_a_hierarchy() -> Outcome {
    let (_, scenario, card) = scene("claims-levels").await?;
    scenario.apply_queue(scenario.queue().quota(&card, 3)).await?;
    for suffix in ["x", "y"] {
        let part = queue_of(&scenario, suffix).quota(&card, 2);
        scenario
            .apply_queue(part.field("parent", json!("claims-levels")))
            .await?;
    }
    let of = |suffix: &str| claiming(&scenario, suffix, &format!("claims-levels-{suffix}"));
    scenario.create(&of("x").deployment(3)).await?;
    let first = Tally::none().running(&card, 2).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("x", &first).await?;
    scenario.create(&of("y").deployment(2)).await?;
    let second = Tally::none().running(&card, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("y", &second).await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 3);
    Ok(())
}

#[tokio::test]
async fn a_gang_of_claims_gets_all_of_them_or_none() -> Outcome {
    let (_, scenario, card) = scene("claims-gang").await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    let group = |name: &str| {
        json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": { "name": name, "namespace": scenario.name() }, "spec": { "minMember": 3, "queue": scenario.name() } })
    };
    for name in ["first", "second"] {
        scenario.plane().apply(&group(name)).await?;
        let gang = claiming(&scenario, name, scenario.name()).annotation(GROUP_NAME, name);
        scenario.create(&gang.deployment(3)).await?;
        if name == "first" {
            scenario.expect(name, &Tally::none().running(&card, 3)).await?;
        }
    }
    scenario
        .expect_for_good("second", &Tally::none().waiting(NO_QUOTA, 3))
        .await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 3);
    scenario
        .delete::<k8s_openapi::api::apps::v1::Deployment>("first")
        .await?;
    scenario.expect("second", &Tally::none().running(&card, 3)).await
}

#[tokio::test]
async fn what_claims_borrowed_is_given_back_to_claims() -> Outcome {
    let (_, scenario, card) = scene("claims-reclaim").await?;
    for queue in [scenario.queue(), queue_of(&scenario, "b")] {
        scenario.apply_queue(shares(queue, &card, 8, Some(4), 0)).await?;
    }
    let borrower = claiming(&scenario, "borrower", scenario.name());
    scenario.create(&borrower.deployment(8)).await?;
    scenario.expect("borrower", &Tally::none().running(&card, 8)).await?;
    let claimant = claiming(&scenario, "claimant", "claims-reclaim-b");
    scenario.create(&claimant.deployment(6)).await?;
    let half = Tally::none().running(&card, 4);
    scenario.expect("claimant", &half.clone().waiting(NO_ROOM, 2)).await?;
    // What was evicted came back and waits; nobody is evicted again for it.
    scenario
        .expect_for_good("borrower", &half.clone().waiting(NO_ROOM, 4))
        .await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 8);
    Ok(())
}
