//! How many pods run under a quota, whatever creates them.

use std::time::{Duration, Instant};

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::is_gated;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use futures::{TryStreamExt, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::time::timeout;

use crate::{NO_QUOTA, Outcome, pods};

#[tokio::test]
async fn a_pod_over_quota_waits_until_another_is_deleted() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "released-by-deletion").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("released-by-deletion", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;

    scenario.create(&scenario.gpu_pod("first", &card, 3).build()).await?;
    scenario.expect("first", &pods().running(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("second", &card, 2).build()).await?;
    scenario.expect_for_good("second", &pods().waiting(NO_QUOTA, 1)).await?;

    // The condition and the event have the numbers: asked, used, quota, queue.
    let waiting = scenario.api::<Pod>().get("second").await?;
    let conditions = waiting.status.and_then(|status| status.conditions).unwrap_or_default();
    let message = conditions
        .iter()
        .find(|one| one.type_ == crds::keys::ADMITTED_CONDITION);
    let message = message
        .and_then(|condition| condition.message.as_deref())
        .unwrap_or_default();
    for number in ["2", "3", "4", card.as_str(), scenario.name()] {
        assert!(message.contains(number), "{number} is missing: {message}");
    }
    let events = scenario.api::<Event>();
    let about = ListParams::default().fields("involvedObject.name=second,reason=InsufficientScalarQuota");
    wait::eventually("one event", wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        Ok(Seen::when(
            found.len() == 1 && found[0].count.unwrap_or(1) == 1,
            format!("{found:?}"),
        ))
    })
    .await?;

    scenario.delete::<Pod>("first").await?;
    scenario.expect("second", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn two_cards_behind_one_resource_have_their_own_quotas() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "two-cards").await?;
    let (small, large) = (scenario.card("NVIDIA-GeForce-RTX-4090"), scenario.card("NVIDIA-H800"));
    scenario
        .nodes(&[
            nodes::nvidia("two-cards-4090", &small, 8, 24_564),
            nodes::nvidia("two-cards-h800", &large, 8, 81_559),
        ])
        .await?;
    scenario
        .apply_queue(scenario.queue().quota(&small, 3).quota(&large, 1))
        .await?;
    scenario
        .create(&scenario.gpu_pod("small", &small, 1).deployment(5))
        .await?;
    scenario
        .create(&scenario.gpu_pod("large", &large, 1).deployment(2))
        .await?;
    scenario
        .expect_for_good("small", &pods().running(&small, 3).waiting(NO_QUOTA, 2))
        .await?;
    scenario
        .expect_for_good("large", &pods().running(&large, 1).waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn a_deployment_is_scaled_beyond_its_quota_and_down_again() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "scaled").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("scaled", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 3)).await?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(2))
        .await?;
    scenario.expect("web", &pods().running(&card, 2)).await?;
    scenario.scale("web", 6).await?;
    scenario
        .expect_for_good("web", &pods().running(&card, 3).waiting(NO_QUOTA, 3))
        .await?;
    scenario.scale("web", 1).await?;
    scenario.expect("web", &pods().running(&card, 1)).await?;

    // What it gave back is there for others.
    scenario
        .create(&scenario.gpu_pod("other", &card, 1).deployment(3))
        .await?;
    scenario
        .expect_for_good("other", &pods().running(&card, 2).waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn a_raised_quota_lets_waiting_pods_in_and_a_lowered_one_evicts_nobody() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "raised").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("raised", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 1).deployment(4))
        .await?;
    scenario
        .expect_for_good("web", &pods().running(&card, 1).waiting(NO_QUOTA, 3))
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 3)).await?;
    scenario
        .expect_for_good("web", &pods().running(&card, 3).waiting(NO_QUOTA, 1))
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    scenario
        .expect_for_good("web", &pods().running(&card, 3).waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn the_pods_of_a_job_pass_through_the_quota_one_after_the_other() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "job").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("job", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    // Each of them runs for a moment, and its end makes room for the next.
    let training = scenario
        .gpu_pod("training", &card, 1)
        .annotation("pod-complete.stage.kwok.x-k8s.io/delay", "500ms");
    scenario.create(&training.job(7)).await?;
    let mut most = 0;
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let everything = watcher::Config::default();
    wait::objects(
        &scenario.api::<Pod>(),
        everything,
        "seven pods that succeeded",
        |pods| {
            let succeeded = |pod: &Pod| phase(pod).as_deref() == Some("Succeeded");
            let over = pods.iter().filter(|pod| succeeded(pod)).count();
            most = most.max(pods.iter().filter(|pod| !succeeded(pod) && !is_gated(pod)).count());
            Seen::when(over == 7, format!("{over} succeeded"))
        },
    )
    .await?;
    assert_eq!(most, 2, "pods with a card at the same time");
    wait::object(&scenario.api::<Job>(), "training", "its completion", |job| {
        let succeeded = job.and_then(|job| job.status.as_ref()?.succeeded).unwrap_or_default();
        Seen::when(succeeded == 7, format!("{succeeded} succeeded"))
    })
    .await
}

#[tokio::test]
async fn grants_to_alternatives_are_booked_under_each_card_so_that_no_quota_is_exceeded() -> Outcome {
    // Booked under the joint name, a quota of 3 x 100 would let all of 1,000 pods in. Here 3 x 3, and 12 pods.
    let scenario = Scenario::begin(World::shared().await?, "joint-name").await?;
    let cards = ["NVIDIA-A", "NVIDIA-B", "NVIDIA-C"].map(|product| scenario.card(product));
    let specs = [0, 1, 2].map(|index| nodes::nvidia(&format!("joint-name-{index}"), &cards[index], 8, 81_920));
    scenario.nodes(&specs).await?;
    let queue = cards.iter().fold(scenario.queue(), |queue, card| queue.quota(card, 3));
    scenario.apply_queue(queue).await?;
    scenario
        .create(&scenario.gpu_pod("many", &cards.join("|"), 1).deployment(12))
        .await?;
    let expected = cards
        .iter()
        .fold(pods().waiting(NO_QUOTA, 3), |pods, card| pods.running(card, 3));
    scenario.expect_for_good("many", &expected).await
}

#[tokio::test]
async fn a_stateful_set_grows_pod_by_pod_within_its_quota() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "stateful").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("stateful", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    scenario
        .create(&scenario.gpu_pod("db", &card, 1).stateful_set(4))
        .await?;
    // The fourth is made when the third is Ready.
    scenario
        .expect_for_good("db", &pods().running(&card, 2).waiting(NO_QUOTA, 1))
        .await?;
    scenario.waits("db-2", NO_QUOTA).await?;
    // A pod that is replaced under its name is another pod, with a place of its own to wait for.
    let first = scenario.api::<Pod>().get("db-0").await?.metadata.uid;
    scenario.delete::<Pod>("db-0").await?;
    scenario
        .expect("db", &pods().running(&card, 2).waiting(NO_QUOTA, 1))
        .await?;
    let pods_now = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
    assert!(pods_now.iter().all(|pod| pod.metadata.uid != first));
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario.expect("db", &pods().running(&card, 4)).await
}

#[tokio::test]
async fn freed_quota_goes_to_the_highest_priority_and_then_to_the_oldest() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "priority").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("priority", &card, 8, 81_920)]).await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": "e2e-high" },
        "value": 1000,
        "preemptionPolicy": "Never",
    });
    scenario.plane().apply(&class).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 0)).await?;
    for name in ["older", "younger", "urgent"] {
        let mut builder = scenario.gpu_pod(name, &card, 1);
        if name == "urgent" {
            builder = builder.priority_class("e2e-high");
        }
        let created = scenario.create(&builder.build()).await?;
        scenario.waits(name, NO_QUOTA).await?;
        // Ages are told apart by the second.
        let created = created.metadata.creation_timestamp.map(|time| time.0);
        wait::eventually("the next second", wait::PATIENCE, async || {
            let now = Timestamp::now();
            Ok(Seen::when(
                created.is_some_and(|created| now.as_second() > created.as_second()),
                now.to_string(),
            ))
        })
        .await?;
    }
    for (quota, name) in [(1, "urgent"), (2, "older"), (3, "younger")] {
        scenario.apply_queue(scenario.queue().quota(&card, quota)).await?;
        scenario.expect(name, &pods().running(&card, 1)).await?;
        let list = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
        let admitted = list.iter().filter(|pod| !is_gated(pod)).count();
        assert_eq!(u64::try_from(admitted)?, quota);
    }
    Ok(())
}

#[tokio::test]
async fn freed_quota_is_used_again_at_once() -> Outcome {
    // Measured from the moment at which a watcher sees the one pod gone to that at which it sees the other let in. The
    // aim is 200 ms; the limit leaves room for a machine on which other scenarios run.
    const LIMIT: Duration = Duration::from_secs(6);
    let scenario = Scenario::begin(World::shared().await?, "used-again").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("used-again", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let name = |index: usize| format!("pod-{index}");
    scenario.create(&scenario.gpu_pod(&name(0), &card, 1).build()).await?;
    scenario.expect(&name(0), &pods().running(&card, 1)).await?;
    let mut measured = Vec::new();
    for index in 0..5 {
        let (holder, waiting) = (name(index), name(index + 1));
        scenario.create(&scenario.gpu_pod(&waiting, &card, 1).build()).await?;
        scenario.waits(&waiting, NO_QUOTA).await?;
        let events = watcher(scenario.api::<Pod>(), watcher::Config::default()).default_backoff();
        pin_mut!(events);
        while !matches!(events.try_next().await?, Some(watcher::Event::InitDone)) {}
        scenario.delete::<Pod>(&holder).await?;
        let mut freed = None;
        let took = loop {
            let event = timeout(wait::PATIENCE, events.try_next()).await??;
            match event.ok_or_else(|| anyhow::anyhow!("the watch ended"))? {
                watcher::Event::Delete(pod) if pod.name_any() == holder => freed = Some(Instant::now()),
                watcher::Event::Apply(pod) if pod.name_any() == waiting && !is_gated(&pod) => {
                    let freed = freed.ok_or_else(|| anyhow::anyhow!("let in while the quota was in use"))?;
                    break freed.elapsed();
                }
                _ => {}
            }
        };
        measured.push(took);
        scenario.expect(&waiting, &pods().running(&card, 1)).await?;
    }
    measured.sort_unstable();
    println!("freed quota was used again after {measured:?}");
    assert!(measured[measured.len() / 2] < LIMIT, "{measured:?}");
    Ok(())
}
