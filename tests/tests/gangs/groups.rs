//! `PodGroup`s.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::keys::GROUP_NAME;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::{NO_QUOTA, Outcome, apply_group, pods, says, shows};

#[tokio::test]
async fn a_gang_of_8_waits_until_there_is_room_for_all_of_it() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "gang-of-8").await?;
    let card = scenario.card("NVIDIA-A100");
    let specs = ["gang-of-8-a", "gang-of-8-b"].map(|node| nodes::nvidia(node, &card, 4, 81_920));
    scenario.nodes(&specs).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 9)).await?;
    scenario.create(&scenario.gpu_pod("single", &card, 1).build()).await?;
    scenario.expect("single", &pods().running(&card, 1)).await?;

    apply_group(&scenario, "training", 8, None).await?;
    let member = |name: &str| scenario.gpu_pod(name, &card, 1).annotation(GROUP_NAME, "training");
    scenario.create(&member("training").deployment(7)).await?;
    scenario
        .expect_for_good("training", &pods().waiting("PodGroupIncomplete", 7))
        .await?;
    scenario.scale("training", 8).await?;
    // Seven of them would fit on the nodes.
    scenario
        .expect_for_good("training", &pods().waiting("NoNodeFits", 8))
        .await?;
    shows(&scenario, "training", "Pending").await?;
    let message = says(&scenario, "training", "True", "NoNodeFits").await?;
    assert!(
        message.contains("the 8 pods of PodGroup training are let in together"),
        "{message}"
    );
    let told = scenario.events("training", "NoNodeFits").await?;
    assert!(
        told.iter()
            .any(|event| event.involved_object.kind.as_deref() == Some("PodGroup")),
        "{told:?}"
    );

    scenario.delete::<Pod>("single").await?;
    scenario.expect("training", &pods().running(&card, 8)).await?;
    shows(&scenario, "training", "Running").await?;
    says(&scenario, "training", "True", "Running").await?;
    Ok(())
}

#[tokio::test]
async fn a_pod_that_replaces_a_failed_one_does_not_wait_for_members_that_have_succeeded() -> Outcome {
    // Of its own: others count what the operator says, and one that begins anew says it again.
    let world = World::start().await?;
    let scenario = Scenario::begin(&world, "succeeded").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("succeeded", &card, 4, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    apply_group(&scenario, "training", 3, None).await?;
    let member = |name: &str| scenario.gpu_pod(name, &card, 1).annotation(GROUP_NAME, "training");
    // kwok completes pods of Jobs.
    for name in ["one", "two"] {
        let job = member(name)
            .annotation("pod-complete.stage.kwok.x-k8s.io/delay", "1s")
            .job(1);
        scenario.create(&job).await?;
    }
    scenario.create(&member("three").build()).await?;
    for job in ["one", "two"] {
        wait::object(&scenario.api::<Job>(), job, "to be complete".to_owned(), |job| {
            let succeeded = job.and_then(|job| job.status.as_ref()?.succeeded);
            Seen::when(succeeded == Some(1), format!("{succeeded:?}"))
        })
        .await?;
    }
    scenario.delete::<Pod>("three").await?;
    scenario.expect("three", &pods()).await?;
    scenario.create(&member("four").build()).await?;
    scenario.expect("four", &pods().running(&card, 1)).await?;
    // They count for an operator that has not seen them run, too.
    world.cardgate.operator().restart().await?;
    scenario.delete::<Pod>("four").await?;
    scenario.expect("four", &pods()).await?;
    scenario.create(&member("five").build()).await?;
    scenario.expect("five", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn two_groups_of_6_do_not_both_start_on_4_and_4() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "two-of-6").await?;
    let card = scenario.card("NVIDIA-A100");
    let specs = ["two-of-6-a", "two-of-6-b"].map(|node| nodes::nvidia(node, &card, 4, 81_920));
    scenario.nodes(&specs).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 20)).await?;
    for name in ["first", "second"] {
        apply_group(&scenario, name, 6, None).await?;
    }
    let member = |name: &str| scenario.gpu_pod(name, &card, 1).annotation(GROUP_NAME, name);
    scenario.create(&member("first").deployment(6)).await?;
    scenario.expect("first", &pods().running(&card, 6)).await?;
    scenario.create(&member("second").deployment(6)).await?;
    scenario
        .expect_for_good("second", &pods().waiting("NoNodeFits", 6))
        .await?;
    scenario.scale("first", 0).await?;
    scenario.expect("second", &pods().running(&card, 6)).await
}

#[tokio::test]
async fn a_group_is_in_its_queue_before_its_pods_exist() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "before-pods").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("before-pods", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 5)).await?;
    let request = |count: u32| format!("{{\"{card}\": {count}}}");
    apply_group(&scenario, "first", 4, Some(&request(4))).await?;
    shows(&scenario, "first", "Inqueue").await?;
    apply_group(&scenario, "second", 2, Some(&request(2))).await?;
    let told = scenario.events("second", NO_QUOTA).await?;
    let note = told[0].message.clone().unwrap_or_default();
    assert!(
        note.contains("asked 2, allocated 0, in queue 4, elastic 0, quota 5"),
        "{note}"
    );
    shows(&scenario, "second", "Pending").await?;

    // Its pods take over, and with them it ends.
    let member = scenario.gpu_pod("first", &card, 1).annotation(GROUP_NAME, "first");
    scenario.create(&member.deployment(4)).await?;
    scenario.expect("first", &pods().running(&card, 4)).await?;
    shows(&scenario, "first", "Running").await?;
    scenario.scale("first", 0).await?;
    shows(&scenario, "second", "Inqueue").await?;

    // A group that is deleted gives back what was kept for it.
    apply_group(&scenario, "third", 1, Some(&request(5))).await?;
    scenario.events("third", NO_QUOTA).await?;
    scenario.delete::<crds::volcano::PodGroup>("second").await?;
    shows(&scenario, "third", "Inqueue").await
}
