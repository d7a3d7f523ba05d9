//! Queues that say little, come late, or are not for everyone; and pods that are not ours alone.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::NO_CARD;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, pods};

#[tokio::test]
async fn a_queue_with_neither_capability_nor_quota_lets_nobody_in() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "empty-queue").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("empty-queue", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue()).await?;
    scenario.create(&scenario.gpu_pod("web", &card, 1).build()).await?;
    scenario
        .expect_for_good("web", &pods().waiting("EmptyQueueCapability", 1))
        .await
}

#[tokio::test]
async fn a_pod_waits_for_a_queue_that_is_created_late() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "late-queue").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("late-queue", &card, 8, 81_920)]).await?;
    scenario.create(&scenario.gpu_pod("web", &card, 1).build()).await?;
    scenario
        .expect_for_good("web", &pods().waiting("QueueNotFound", 1))
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.expect("web", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn a_queue_that_is_closed_takes_no_pods_until_it_is_opened() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "closed-queue").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("closed-queue", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario.create(&scenario.gpu_pod("early", &card, 1).build()).await?;
    scenario.expect("early", &pods().running(&card, 1)).await?;
    // Volcano keeps the state of its queues in their status.
    let set_state = async |state: &str| {
        let patch = json!({ "status": { "state": state } }).to_string();
        let args = [
            "patch",
            "queue",
            scenario.name(),
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        scenario.plane().kubectl().run(args).await
    };
    set_state("Closed").await?;
    wait::eventually("a warning", wait::PATIENCE, async || {
        let text = serde_json::to_string(&scenario.gpu_pod("probe", &card, 1).build())?;
        let args = ["-n", scenario.name(), "create", "--dry-run=server", "-f", "-"];
        let answer = scenario.plane().kubectl().output(args, Some(&text)).await?;
        let told = String::from_utf8_lossy(&answer.stderr).into_owned();
        let warned = told.contains("queue \"closed-queue\" is not open (its state is \"Closed\")");
        Ok(Seen::when(answer.status.success() && warned, told))
    })
    .await?;
    scenario.create(&scenario.gpu_pod("late", &card, 1).build()).await?;
    scenario.waits("late", "QueueNotOpen").await?;
    scenario.expect("early", &pods().running(&card, 1)).await?;
    set_state("Open").await?;
    scenario.expect("late", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn a_pod_behind_a_foreign_gate_holds_no_quota_until_that_gate_is_gone() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "foreign-gate").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("foreign-gate", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario
        .create(&scenario.gpu_pod("foreign", &card, 1).gate("example.com/other").build())
        .await?;

    // The foreign pod came first; the only card goes to the one that can use it.
    scenario.create(&scenario.gpu_pod("own", &card, 1).build()).await?;
    scenario.expect("own", &pods().running(&card, 1)).await?;
    let gates = async || {
        let pod = scenario.api::<Pod>().get("foreign").await?;
        let gates = pod.spec.and_then(|spec| spec.scheduling_gates).unwrap_or_default();
        anyhow::Ok(gates.into_iter().map(|gate| gate.name).collect::<Vec<_>>())
    };
    let both = gates().await?;
    assert!(
        both.len() == 2 && both.iter().any(|gate| gate == "example.com/other"),
        "{both:?}"
    );

    // The other controller is done with it: now it waits for quota, and then runs.
    let only_ours = json!({ "spec": { "schedulingGates": [{ "name": crds::keys::GATE }] } });
    scenario.change::<Pod>("foreign", only_ours).await?;
    scenario
        .expect_for_good("foreign", &pods().waiting(NO_QUOTA, 1))
        .await?;
    scenario.delete::<Pod>("own").await?;
    scenario.expect("foreign", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn the_queue_comes_from_the_namespace_where_the_pod_names_none_and_is_written_on_the_pod() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "queue-of-namespace").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("queue-of-namespace", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let kubectl = scenario.plane().kubectl();
    let annotation = format!("{}={}", crds::keys::QUEUE_NAME, scenario.name());
    kubectl
        .run(["annotate", "namespace", scenario.name(), &annotation])
        .await?;
    // The webhook learns of the annotation by a watch: asked until it knows, with nothing created.
    let unnamed = || {
        pod("web")
            .namespace(scenario.name())
            .card(&card)
            .request("nvidia.com/gpu", 1)
    };
    let dry_run = kube::api::PostParams {
        dry_run: true,
        ..Default::default()
    };
    wait::eventually("the namespace's queue", wait::PATIENCE, async || {
        let answer = scenario.api::<Pod>().create(&dry_run, &unnamed().build()).await?;
        let queue = answer
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(crds::keys::QUEUE_NAME);
        Ok(Seen::when(
            queue.as_deref() == Some(scenario.name()),
            format!("{queue:?}"),
        ))
    })
    .await?;
    scenario.create(&unnamed().build()).await?;
    scenario.expect("web", &pods().running(&card, 1)).await?;

    // A later change of the namespace moves nothing.
    kubectl
        .run([
            "annotate",
            "--overwrite",
            "namespace",
            scenario.name(),
            "scheduling.volcano.sh/queue-name=x",
        ])
        .await?;
    let written = scenario.api::<Pod>().get("web").await?;
    assert_eq!(
        written.metadata.annotations.unwrap_or_default()[crds::keys::QUEUE_NAME],
        scenario.name()
    );
    assert_eq!(
        written.metadata.labels.unwrap_or_default()[crds::keys::QUEUE_LABEL],
        scenario.name()
    );
    Ok(())
}

#[tokio::test]
async fn a_pod_without_queue_and_cards_is_none_of_our_business() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plain").await?;
    scenario.nodes(&[nodes::cpu_only("plain")]).await?;
    let plain = pod("web")
        .namespace(scenario.name())
        .node_selector("kubernetes.io/hostname", "plain");
    scenario.create(&plain.deployment(3)).await?;
    scenario.expect("web", &pods().running(NO_CARD, 3)).await
}
