//! Borrowing and giving back.

use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally, is_gated};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use crate::{NO_ROOM, Outcome, halves, own_world, queue_of, world};

/// Two queues that deserve 4 of 8 cards each, of which the scenario's own uses all by this Deployment.
async fn borrowed<'w>(
    world: &'w World,
    name: &str,
    change: impl Fn(&mut Deployment),
) -> anyhow::Result<(Scenario<'w>, String)> {
    let (scenario, card) = halves(world, name).await?;
    let mut deployment = scenario.gpu_pod("borrower", &card, 1).deployment(8);
    change(&mut deployment);
    scenario.create(&deployment).await?;
    scenario.expect("borrower", &Tally::none().running(&card, 8)).await?;
    Ok((scenario, card))
}

/// Pods of the other queue.
fn claimants(scenario: &Scenario<'_>, card: &str, count: i32) -> Deployment {
    let queue = format!("{}-b", scenario.name());
    scenario.gpu_pod("claimant", card, 1).queue(&queue).deployment(count)
}

#[tokio::test]
async fn two_teams_borrow_from_each_other_and_give_back() -> Outcome {
    let (scenario, card) = borrowed(world().await?, "teams", |_| {}).await?;
    scenario.create(&claimants(&scenario, &card, 6)).await?;
    let half = Tally::none().running(&card, 4);
    scenario.expect("claimant", &half.clone().waiting(NO_ROOM, 2)).await?;
    // What was evicted came back and waits; nobody is evicted again for it.
    scenario
        .expect_for_good("borrower", &half.clone().waiting(NO_ROOM, 4))
        .await?;
    scenario.expect("claimant", &half.waiting(NO_ROOM, 2)).await?;
    let events = scenario.api::<Event>().list(&ListParams::default()).await?.items;
    let reclaimed: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Reclaimed"))
        .collect();
    assert_eq!(reclaimed.len(), 4, "{reclaimed:?}");
    for event in reclaimed {
        let text = event.message.as_deref().unwrap_or_default();
        for part in [
            "evicted for pod teams/claimant-",
            "of queue teams-b",
            "this pod's queue teams has",
        ] {
            assert!(text.contains(part), "{part:?} is missing: {text}");
        }
        assert!(
            event
                .involved_object
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with("borrower-")),
            "{event:?}"
        );
    }
    // What comes free is borrowed again.
    scenario.delete::<Deployment>("claimant").await?;
    scenario.expect("borrower", &Tally::none().running(&card, 8)).await
}

#[tokio::test]
async fn cpu_is_given_back_by_a_queue_that_is_within_its_memory() -> Outcome {
    let scenario = Scenario::begin(world().await?, "dimensions").await?;
    let node = NodeSpec::new("dimensions").label("scenario", "dimensions");
    let node = node.allocatable("cpu", "4").allocatable("memory", "16Gi");
    scenario.nodes(&[node]).await?;
    for queue in [scenario.queue(), queue_of(&scenario, "b")] {
        let queue = queue.capability("cpu", "4").capability("memory", "16Gi");
        let deserved = json!({ "cpu": "2", "memory": "8Gi" });
        scenario.apply_queue(queue.field("deserved", deserved)).await?;
    }
    let pod = |name: &str| {
        let pod = scenario.pod(name).node_selector("scenario", "dimensions");
        pod.request("cpu", 1).request("memory", "1Gi")
    };
    scenario.create(&pod("borrower").deployment(4)).await?;
    scenario.expect("borrower", &Tally::none().running(NO_CARD, 4)).await?;
    scenario
        .create(&pod("claimant").queue("dimensions-b").deployment(3))
        .await?;
    // Half of it goes back, and no more: the third would be borrowed.
    let half = Tally::none().running(NO_CARD, 2);
    scenario.expect("claimant", &half.clone().waiting(NO_ROOM, 1)).await?;
    scenario
        .expect_for_good("borrower", &half.clone().waiting(NO_ROOM, 2))
        .await?;
    scenario.expect("claimant", &half.waiting(NO_ROOM, 1)).await?;
    let events = scenario.api::<Event>().list(&ListParams::default()).await?.items;
    let reclaimed = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Reclaimed"));
    let texts: Vec<_> = reclaimed.filter_map(|event| event.message.as_deref()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    for text in texts {
        assert!(text.contains("of CPU, queue dimensions-b has"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_disruption_budget_stops_reclaim_as_far_as_it_goes() -> Outcome {
    let (scenario, card) = borrowed(world().await?, "budget", |_| {}).await?;
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": { "name": "keep" },
        "spec": { "minAvailable": 7, "selector": { "matchLabels": { "app": "borrower" } } },
    }))?;
    scenario.create(&budget).await?;
    // kwok's pods are ready as soon as they run; the budget counts them a moment later.
    wait::object(
        &scenario.api::<PodDisruptionBudget>(),
        "keep",
        "one disruption allowed",
        |budget| {
            let status = budget.and_then(|budget| budget.status.as_ref());
            match status {
                Some(status) if status.disruptions_allowed == 1 => Seen::Done(()),
                other => Seen::NotYet(format!("{other:?}")),
            }
        },
    )
    .await?;
    // A pod that needs two is not helped by one: nobody is evicted.
    let large = scenario.gpu_pod("large", &card, 2).queue("budget-b");
    scenario.create(&large.build()).await?;
    scenario
        .expect_for_good("borrower", &Tally::none().running(&card, 8))
        .await?;
    let evictions = scenario.api::<Event>().list(&ListParams::default()).await?.items;
    assert!(
        !evictions
            .iter()
            .any(|event| event.reason.as_deref() == Some("Reclaimed")),
        "{evictions:?}"
    );
    // Without the budget it gets both.
    scenario.delete::<PodDisruptionBudget>("keep").await?;
    scenario.expect("large", &Tally::none().running(&card, 1)).await?;
    scenario
        .expect_for_good("borrower", &Tally::none().running(&card, 6).waiting(NO_ROOM, 2))
        .await
}

/// Keeps an evicted pod until the test lets it go.
const SLOW: &str = "example.com/slow";

#[tokio::test]
async fn an_operator_that_is_killed_in_the_middle_of_a_reclaim_goes_on_where_it_was() -> Outcome {
    // Of its own: others count what the operator says, and one that begins anew says it again.
    let world = own_world().await?;
    let (scenario, card) = borrowed(&world, "killed", |deployment| {
        if let Some(spec) = &mut deployment.spec {
            spec.template.metadata.get_or_insert_default().finalizers = Some(vec![SLOW.to_owned()]);
        }
    })
    .await?;
    scenario.create(&claimants(&scenario, &card, 2)).await?;
    let pods = scenario.api::<Pod>();
    let on_their_way_out = async || {
        let list = pods.list(&ListParams::default().labels("app=borrower")).await?.items;
        let leaving = list.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        anyhow::Ok(leaving.map(|pod| pod.name_any()).collect::<Vec<_>>())
    };
    wait::eventually("two pods to be evicted", wait::PATIENCE, async || {
        let leaving = on_their_way_out().await?;
        Ok(Seen::when(leaving.len() == 2, format!("{leaving:?}")))
    })
    .await?;
    world.cardgate.operator().restart().await?;
    // It waits for what is on its way out, and takes no more.
    scenario
        .expect_for_good("claimant", &Tally::none().waiting(NO_ROOM, 2))
        .await?;
    let leaving = on_their_way_out().await?;
    assert_eq!(leaving.len(), 2, "{leaving:?}");
    for name in &leaving {
        scenario
            .change::<Pod>(name, json!({ "metadata": { "finalizers": null } }))
            .await?;
    }
    scenario.expect("claimant", &Tally::none().running(&card, 2)).await?;
    assert_eq!(on_their_way_out().await?, [""; 0]);
    let list = pods.list(&ListParams::default().labels("app=borrower")).await?.items;
    assert_eq!(list.iter().filter(|pod| !is_gated(pod)).count(), 6);
    Ok(())
}
