//! Configurations as people copy them, to the letter: from the mGPU document, which names no queue plugin, and from clusters with a
//! hierarchy, which say so twice.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, configured};

/// A file of what the documents show.
macro_rules! document {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../crds/documents/", $file))
    };
}

/// mGPU, **Volcano Plugin Config**.
const MGPU: &str = document!("mgpu/12-plugin-configuration.yaml");

/// Volcano's own form of a hierarchy.
const HIERARCHY: &str = document!("volcano/02-hierarchy.yaml");

#[tokio::test]
async fn without_a_queue_plugin_queues_limit_nothing_and_a_hierarchy_that_is_said_twice_limits_both_levels() -> Outcome
{
    let (world, _turn) = configured(Some(MGPU), None).await?;
    let scenario = Scenario::begin(world, "copied").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("copied", &card, 8, 81_920)]).await?;
    let department = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": { "name": "copied-department", "annotations": { "volcano.sh/card.quota": format!("{{\"{card}\": 2}}") } },
        "spec": {},
    });
    scenario.plane().apply(&department).await?;
    let mut queue = serde_json::to_value(scenario.queue().quota(&card, 1).build())?;
    queue["spec"] = json!({ "parent": "copied-department" });
    scenario.plane().apply(&queue).await?;
    scenario
        .create(&scenario.gpu_pod("unlimited", &card, 1).deployment(3))
        .await?;
    scenario
        .expect_for_good("unlimited", &Tally::none().running(&card, 3))
        .await?;

    // Without a restart, and what runs stays.
    world.cardgate.configure(&world.plane, Some(HIERARCHY), None).await?;
    scenario
        .create(&scenario.gpu_pod("limited", &card, 1).deployment(1))
        .await?;
    scenario
        .expect_for_good("limited", &Tally::none().waiting(NO_QUOTA, 1))
        .await?;
    scenario.expect("unlimited", &Tally::none().running(&card, 3)).await
}
