//! CPU and memory quota of queues with cards, under both settings of `cardUnlimitedCpuMemory` (the Capacity Card
//! document, **Plugin Configuration** and **Story 3**).

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};

use crate::{Outcome, capacity_card, configured};

#[tokio::test]
async fn cpu_and_memory_count_unless_the_pod_asks_for_cards_and_the_setting_frees_it() -> Outcome {
    let (world, _turn) = configured(Some(&capacity_card(false)), None).await?;
    let scenario = Scenario::begin(world, "cpu-memory").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("cpu-memory", &card, 8, 81_920)]).await?;
    scenario
        .apply_queue(
            scenario
                .queue()
                .quota(&card, 8)
                .capability("cpu", "10")
                .capability("memory", "40Gi"),
        )
        .await?;

    // 4 + 4 CPU fit into 10, the third pod's 4 do not; of 16Gi each, 2 fit into 40Gi.
    let cpu = scenario.gpu_pod("cpu", &card, 1).request("cpu", 4);
    scenario.create(&cpu.deployment(3)).await?;
    let two_of_three = Tally::none().running(&card, 2).waiting("InsufficientCPUQuota", 1);
    scenario.expect_for_good("cpu", &two_of_three).await?;
    let memory = scenario.gpu_pod("memory", &card, 1).request("memory", "16Gi");
    scenario.create(&memory.deployment(3)).await?;
    scenario
        .expect_for_good(
            "memory",
            &Tally::none().running(&card, 2).waiting("InsufficientMemoryQuota", 1),
        )
        .await?;
    // A pod of the queue without cards is metered too.
    scenario
        .create(&scenario.pod("plain").request("cpu", 3).build())
        .await?;
    scenario
        .expect("plain", &Tally::none().waiting("InsufficientCPUQuota", 1))
        .await?;

    // Without a restart: pods with cards need no CPU and memory quota, and no longer use any.
    world
        .cardgate
        .configure(&world.plane, Some(&capacity_card(true)), None)
        .await?;
    scenario.expect("cpu", &Tally::none().running(&card, 3)).await?;
    scenario.expect("memory", &Tally::none().running(&card, 3)).await?;
    scenario.expect("plain", &Tally::none().running(NO_CARD, 1)).await?;
    // Without cards the quota of 10 CPU stays: 3 are in use.
    scenario
        .create(&scenario.pod("large").request("cpu", 8).build())
        .await?;
    scenario
        .expect_for_good("large", &Tally::none().waiting("InsufficientCPUQuota", 1))
        .await
}
