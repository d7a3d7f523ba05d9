//! Jobs of plain Kubernetes that ask for their cards in advance.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::keys::{CARD_NAME, CARD_REQUEST, JOB_HELD};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::{NO_QUOTA, Outcome, pods};

/// A Job of so many pods that run until they are deleted, and that asks for as many cards in advance.
fn asking(pods: PodBuilder, card: &str, count: i32) -> Job {
    let pods = pods.annotation("pod-complete.stage.kwok.x-k8s.io/delay", "1h");
    let mut job = pods.job(count);
    let request = format!("{{\"{card}\": {count}}}");
    job.metadata
        .annotations
        .get_or_insert_default()
        .insert(CARD_REQUEST.to_owned(), request);
    job
}

async fn is_suspended(scenario: &Scenario<'_>, job: &str, expected: bool) -> Outcome {
    wait::object(&scenario.api::<Job>(), job, format!("suspend: {expected}"), |job| {
        let suspended = job.and_then(|job| job.spec.as_ref()?.suspend);
        Seen::when(suspended == Some(expected), format!("{suspended:?}"))
    })
    .await
}

/// It would have stayed suspended for ever, with nobody who tells why.
#[tokio::test]
async fn a_job_that_asks_no_more_in_advance_is_resumed_and_its_pods_wait_one_by_one() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "no-longer-held").await?;
    let card = scenario.card("NVIDIA-A100");
    let nodes = [nodes::nvidia("no-longer-held", &card, 8, 81_920)];
    scenario.nodes(&nodes).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario
        .create(&asking(scenario.gpu_pod("training", &card, 1), &card, 2))
        .await?;
    scenario.events("training", NO_QUOTA).await?;
    let asks_no_more = json!({ "metadata": { "annotations": { CARD_REQUEST: null } } });
    scenario.change::<Job>("training", asks_no_more).await?;
    is_suspended(&scenario, "training", false).await?;
    let job = scenario.api::<Job>().get("training").await?;
    assert!(!job.metadata.annotations.unwrap_or_default().contains_key(JOB_HELD));
    let expected = pods().running(&card, 1).waiting(NO_QUOTA, 1);
    scenario.expect("training", &expected).await
}

#[tokio::test]
async fn a_suspended_job_is_let_in_when_its_queue_has_room_for_all_of_it() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "held-job").await?;
    let card = scenario.card("NVIDIA-A100");
    let other = scenario.card("NVIDIA-H100");
    scenario
        .nodes(&[
            nodes::nvidia("held-job", &card, 8, 81_920),
            nodes::nvidia("held-job-other", &other, 8, 81_920),
        ])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 5)).await?;
    scenario.create(&scenario.gpu_pod("single", &card, 2).build()).await?;
    scenario.expect("single", &pods().running(&card, 1)).await?;

    let created = scenario
        .create(&asking(scenario.gpu_pod("training", &card, 1), &card, 4))
        .await?;
    assert_eq!(created.spec.and_then(|spec| spec.suspend), Some(true));
    let told = scenario.events("training", NO_QUOTA).await?;
    let note = told[0].message.clone().unwrap_or_default();
    assert!(
        note.contains("asked 4, allocated 2, in queue 0, elastic 0, quota 5"),
        "{note}"
    );
    // Its user can't let it in.
    scenario
        .change::<Job>("training", json!({ "spec": { "suspend": false } }))
        .await?;
    is_suspended(&scenario, "training", true).await?;
    // Nor do its pods come to be for other cards than it asked for.
    scenario.door_knows(&[&other]).await?;
    let template = json!({ "metadata": { "annotations": { CARD_NAME: other } } });
    let changed = scenario
        .change::<Job>("training", json!({ "spec": { "template": template } }))
        .await;
    let refused = format!("{:#}", changed.unwrap_err());
    assert!(refused.contains(CARD_REQUEST) && refused.contains(&other), "{refused}");
    assert!(
        scenario
            .api::<Pod>()
            .list(&ListParams::default().labels("app=training"))
            .await?
            .items
            .is_empty()
    );

    scenario.delete::<Pod>("single").await?;
    scenario.expect("training", &pods().running(&card, 4)).await?;
    is_suspended(&scenario, "training", false).await?;
    scenario.events("training", "Enqueued").await?;

    // The next one waits for it to be over.
    scenario
        .create(&asking(scenario.gpu_pod("next", &card, 1), &card, 3))
        .await?;
    scenario.events("next", NO_QUOTA).await?;
    scenario
        .api::<Job>()
        .delete("training", &DeleteParams::background())
        .await?;
    scenario.expect("next", &pods().running(&card, 3)).await
}

#[tokio::test]
async fn a_job_that_was_let_in_gives_back_what_is_kept_for_it_when_it_is_deleted() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "deleted-job").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("deleted-job", &card, 2, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 5)).await?;
    // No node has room for its one pod, so that what the Job asks for stays reserved.
    let mut wide = asking(scenario.gpu_pod("wide", &card, 4), &card, 4);
    if let Some(spec) = &mut wide.spec {
        (spec.parallelism, spec.completions) = (Some(1), Some(1));
    }
    scenario.create(&wide).await?;
    scenario.expect("wide", &pods().waiting("NoNodeFits", 1)).await?;
    is_suspended(&scenario, "wide", false).await?;
    scenario
        .create(&asking(scenario.gpu_pod("next", &card, 1), &card, 2))
        .await?;
    let told = scenario.events("next", NO_QUOTA).await?;
    let note = told[0].message.clone().unwrap_or_default();
    assert!(
        note.contains("asked 2, allocated 0, in queue 4, elastic 0, quota 5"),
        "{note}"
    );
    is_suspended(&scenario, "next", true).await?;
    scenario
        .api::<Job>()
        .delete("wide", &DeleteParams::background())
        .await?;
    scenario.expect("next", &pods().running(&card, 2)).await
}

#[tokio::test]
async fn a_job_that_asks_for_less_than_one_of_its_pods_is_refused() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "unfit-job").await?;
    let (card, other) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    scenario.nodes(&[nodes::nvidia("unfit-job", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario.door_knows(&[&card]).await?;
    // Let in for one card, its only pod would wait for two.
    let small = asking(scenario.gpu_pod("small", &card, 2), &card, 1);
    let said = scenario.refused(&small).await?;
    assert!(
        said.contains(&format!(
            "{card} x1 is 1 of the cards that a single pod of the Job requests 2 of"
        )),
        "{said}"
    );
    let said = scenario
        .refused(&asking(scenario.gpu_pod("other", &card, 1), &other, 1))
        .await?;
    assert!(
        said.contains("asks for none of the cards that the Job's pods name"),
        "{said}"
    );
    Ok(())
}
