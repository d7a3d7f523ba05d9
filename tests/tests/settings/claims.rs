//! Which claims of devices `unnamedCards` is about: those that leave a choice.

use cardgate_tests::devices::{self, NVIDIA, by_template, exactly, nodes, template};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};
use k8s_openapi::api::apps::v1::Deployment;

use crate::{NO_QUOTA, Outcome, configured};

#[tokio::test]
async fn cards_that_claims_name_are_charged_where_unnamed_ones_are_free() -> Outcome {
    let (world, _turn) = configured(None, Some("unnamedCards: charge\n")).await?;
    // The others here share this cluster: no class gives them `nvidia.com/gpu`.
    devices::class(&world.plane, NVIDIA, &format!("device.driver == '{NVIDIA}'"), None).await?;
    let scenario = Scenario::begin(world, "claims-named").await?;
    let (a100, h100) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    nodes(&scenario, world, &[(&a100, 4), (&h100, 4)]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 1).quota(&h100, 1))
        .await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    template(world, &scenario, "any", &exactly(NVIDIA, 1, None)).await?;
    let claiming =
        |name: &str, template: &str, replicas| by_template(scenario.pod(name), template).deployment(replicas);
    scenario.create(&claiming("any", "any", 4)).await?;
    let each = Tally::none().running(&a100, 1).running(&h100, 1);
    scenario
        .expect_for_good("any", &each.clone().waiting(NO_QUOTA, 2))
        .await?;
    scenario.create(&claiming("named", "a100", 1)).await?;
    let waits = Tally::none().waiting(NO_QUOTA, 1);
    scenario.expect("named", &waits).await?;

    world
        .cardgate
        .configure(&world.plane, None, Some("unnamedCards: free\n"))
        .await?;
    scenario.expect("any", &each.running(NO_CARD, 2)).await?;
    scenario.expect_for_good("named", &waits).await?;
    scenario.delete::<Deployment>("any").await?;
    scenario.expect("named", &Tally::none().running(&a100, 1)).await
}
