//! Which card a pod gets: alternatives, shared and sliced cards, and nodes that come late.

use cardgate_tests::nodes::{self, NodeSpec};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use crate::{NO_QUOTA, Outcome, pods};

#[tokio::test]
async fn alternatives_overflow_to_the_next_card_when_the_quota_of_the_first_is_used() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "overflow-quota").await?;
    let (first, second) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    scenario
        .nodes(&[
            nodes::nvidia("overflow-quota-a", &first, 8, 81_920),
            nodes::nvidia("overflow-quota-b", &second, 8, 81_559),
        ])
        .await?;
    scenario
        .apply_queue(scenario.queue().quota(&first, 2).quota(&second, 1))
        .await?;
    scenario
        .create(&scenario.gpu_pod("web", &format!("{first}|{second}"), 1).deployment(4))
        .await?;
    let expected = pods().running(&first, 2).running(&second, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("web", &expected).await?;

    // Each runs on a node of the card that it is charged for.
    for pod in scenario.api::<Pod>().list(&ListParams::default()).await? {
        let assigned = pod
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(crds::keys::CARD_ASSIGNED);
        let node = pod.spec.and_then(|spec| spec.node_name);
        let expected = assigned.map(|card| {
            if card == first {
                "overflow-quota-a"
            } else {
                "overflow-quota-b"
            }
        });
        assert_eq!(node.as_deref(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn alternatives_overflow_to_the_next_card_when_the_nodes_of_the_first_are_full() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "overflow-nodes").await?;
    let (first, second) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    scenario
        .nodes(&[
            nodes::nvidia("overflow-nodes-a", &first, 2, 81_920),
            nodes::nvidia("overflow-nodes-b", &second, 8, 81_559),
        ])
        .await?;
    scenario
        .apply_queue(scenario.queue().quota(&first, 8).quota(&second, 8))
        .await?;
    scenario
        .create(&scenario.gpu_pod("web", &format!("{first}|{second}"), 1).deployment(5))
        .await?;
    scenario
        .expect("web", &pods().running(&first, 2).running(&second, 3))
        .await
}

#[tokio::test]
async fn pods_on_shared_cards_are_charged_under_the_name_of_the_share() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "mps").await?;
    let product = scenario.card("NVIDIA-A100");
    let card = format!("{product}/mps-80g*1/8");
    scenario
        .nodes(&[nodes::nvidia_mps("mps", &product, 4, 81_920, 8)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 16)).await?;
    let share = scenario
        .pod("inference")
        .card(&card)
        .request("nvidia.com/gpu.shared", 1);
    scenario.create(&share.deployment(17)).await?;
    scenario
        .expect_for_good("inference", &pods().running(&card, 16).waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn pods_on_slices_are_charged_under_the_name_of_the_profile() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "mig").await?;
    let product = scenario.card("NVIDIA-A100-PCIE-40GB");
    let node: NodeSpec = nodes::a100_40gb_mig_mixed("mig").label("nvidia.com/gpu.product", &product);
    scenario.nodes(&[node]).await?;
    let (small, large) = (
        format!("{product}/mig-1g.5gb-mixed"),
        format!("{product}/mig-2g.10gb-mixed"),
    );
    scenario
        .apply_queue(scenario.queue().quota(&small, 3).quota(&large, 1).quota(&product, 1))
        .await?;
    let slice = |name: &str, card: &str, resource: &str| scenario.pod(name).card(card).request(resource, 1);
    scenario
        .create(&slice("small", &small, "nvidia.com/mig-1g.5gb").deployment(4))
        .await?;
    scenario
        .create(&slice("large", &large, "nvidia.com/mig-2g.10gb").deployment(2))
        .await?;
    scenario
        .create(&slice("whole", &product, "nvidia.com/gpu").deployment(1))
        .await?;
    scenario
        .expect_for_good("small", &pods().running(&small, 3).waiting(NO_QUOTA, 1))
        .await?;
    scenario
        .expect_for_good("large", &pods().running(&large, 1).waiting(NO_QUOTA, 1))
        .await?;
    scenario.expect("whole", &pods().running(&product, 1)).await
}

#[tokio::test]
async fn a_pod_waits_for_a_card_that_no_node_has_until_one_joins() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "late-node").await?;
    let card = scenario.card("NVIDIA-L40S");
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario.create(&scenario.gpu_pod("web", &card, 1).build()).await?;
    scenario
        .expect_for_good("web", &pods().waiting("GetTaskRequestResourceFailed", 1))
        .await?;

    // The labels come minutes before the device plugin registers.
    let joining = nodes::l40s_joining("late-node").label("nvidia.com/gpu.product", &card);
    scenario.nodes(&[joining]).await?;
    scenario
        .expect_for_good("web", &pods().waiting("GetTaskRequestResourceFailed", 1))
        .await?;
    scenario
        .plane()
        .set_allocatable("late-node", &[("nvidia.com/gpu", Some("8"))])
        .await?;
    scenario.expect("web", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn a_pod_within_quota_waits_while_no_node_has_room() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "no-room").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("no-room-1", &card, 2, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 2).deployment(2))
        .await?;
    scenario
        .expect_for_good("web", &pods().running(&card, 1).waiting("NoNodeFits", 1))
        .await?;
    scenario.nodes(&[nodes::nvidia("no-room-2", &card, 2, 81_920)]).await?;
    scenario.expect("web", &pods().running(&card, 2)).await
}

#[tokio::test]
async fn a_pod_whose_own_selector_excludes_its_card_waits_and_says_so() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "excluded").await?;
    let (own, other) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    scenario
        .nodes(&[
            nodes::nvidia("excluded-a", &own, 8, 81_920),
            nodes::nvidia("excluded-b", &other, 8, 81_559),
        ])
        .await?;
    scenario
        .apply_queue(scenario.queue().quota(&own, 8).quota(&other, 8))
        .await?;
    let contradiction = scenario
        .gpu_pod("web", &own, 1)
        .node_selector("nvidia.com/gpu.product", &other);
    scenario.create(&contradiction.build()).await?;
    scenario
        .expect_for_good("web", &pods().waiting("NodesExcluded", 1))
        .await
}
