//! The door: what is written on what passes, what is warned about, and what a dry run leaves behind.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::{Outcome, pods};

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

#[tokio::test]
async fn a_dry_run_answers_the_same_and_leaves_nothing_behind() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "dry-run").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("dry-run", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.door_knows(&[&card]).await?;
    let good = scenario.gpu_pod("web", &card, 1).build();
    let wrong = scenario.pod("wrong").card(&card).build();
    let queue = scenario.queue().annotation(keys::CARD_QUOTA, "eight").build();

    let api = scenario.api::<Pod>();
    let tried = api.create(&dry_run(), &good).await?;
    let tried_wrong = api.create(&dry_run(), &wrong).await.unwrap_err().to_string();
    let queue = queue.to_string();
    let try_queue = ["apply", "--dry-run=server", "-f", "-"];
    let answer = scenario.plane().kubectl().output(try_queue, Some(&queue)).await?;
    let refused = String::from_utf8(answer.stderr)?;
    assert!(refused.contains("\"eight\" is not a JSON object"), "{refused}");
    assert_eq!(api.list(&ListParams::default()).await?.items, []);

    let created = scenario.create(&good).await?;
    let written = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
    assert_eq!(written(&tried), written(&created));
    let gates = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.clone());
    assert_eq!(gates(&tried), gates(&created));
    assert_eq!(gates(&created).map(|gates| gates.len()), Some(1));
    let refused_wrong = api
        .create(&PostParams::default(), &wrong)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(tried_wrong, refused_wrong);

    // The pod that was only tried holds nothing of the quota of one.
    scenario.expect("web", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn a_managed_pod_carries_its_queue_as_annotation_and_label() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "resolved-queue").await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "gang", "namespace": scenario.name() },
        "spec": { "minMember": 1, "queue": "queue-of-the-group" },
    });
    scenario.plane().apply(&group).await?;
    let unnamed = |name: &str| pod(name).namespace(scenario.name());
    let cases = [
        (unnamed("own").queue("queue-of-the-pod"), "queue-of-the-pod"),
        (
            unnamed("group").annotation(keys::GROUP_NAME, "gang"),
            "queue-of-the-group",
        ),
        (
            unnamed("both")
                .annotation(keys::GROUP_NAME, "gang")
                .queue("queue-of-the-pod"),
            "queue-of-the-pod",
        ),
        (unnamed("neither").card("A100").request("nvidia.com/gpu", 1), "default"),
        // The label is Cardgate's, whatever the user writes.
        (
            unnamed("label")
                .queue("queue-of-the-pod")
                .label(keys::QUEUE_LABEL, "another"),
            "queue-of-the-pod",
        ),
    ];
    for (builder, queue) in cases {
        let created = scenario.create(&builder.build()).await?;
        let annotations = created.metadata.annotations.unwrap_or_default();
        let labels = created.metadata.labels.unwrap_or_default();
        assert_eq!(annotations.get(keys::QUEUE_NAME).map(String::as_str), Some(queue));
        assert_eq!(labels.get(keys::QUEUE_LABEL).map(String::as_str), Some(queue));
    }
    Ok(())
}

#[tokio::test]
async fn without_volcano_pods_that_ask_for_its_scheduler_get_the_default_one_with_a_warning() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "volcano-scheduler").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("volcano-scheduler", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let warning = "Warning: spec.schedulerName: \"volcano\" was replaced by \"default-scheduler\"";
    let managed = scenario.gpu_pod("managed", &card, 1).scheduler("volcano").build();
    let answer = scenario.kubectl_create(&managed).await?.map_err(anyhow::Error::msg)?;
    assert!(answer.contains(warning), "{answer}");
    scenario.expect("managed", &pods().running(&card, 1)).await?;
    // Other schedulers are nobody's business but the user's, and so are pods that are not managed.
    for (name, builder) in [
        ("my-scheduler", scenario.pod("other").scheduler("my-scheduler")),
        ("volcano", pod("plain").namespace(scenario.name()).scheduler("volcano")),
    ] {
        let created = scenario.create(&builder.build()).await?;
        assert_eq!(created.spec.and_then(|spec| spec.scheduler_name).as_deref(), Some(name));
    }
    Ok(())
}

#[tokio::test]
async fn what_is_legal_and_worth_a_word_is_warned_about() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "warnings").await?;
    let cases = [
        (
            scenario.gpu_pod("unknown", "NVIDIA-X999", 1),
            vec![
                "no node has the card \"NVIDIA-X999\"",
                "queue \"warnings\" does not exist: what names it waits",
            ],
        ),
        (
            // On no node: there it would have a card of another scenario's.
            pod("free")
                .namespace(scenario.name())
                .request("nvidia.com/gpu", 1)
                .node_selector("scenario", scenario.name()),
            vec!["nobody is charged for the pod's nvidia.com/gpu", keys::QUEUE_NAME],
        ),
    ];
    for (builder, says) in cases {
        let answer = scenario.kubectl_create(&builder.build()).await?;
        let text = answer.map_err(|error| anyhow::anyhow!(error))?;
        for part in says {
            assert!(
                text.contains("Warning: ") && text.contains(part),
                "{part:?} is missing: {text}"
            );
        }
    }
    // The pod without a card name is not held; the other waits and says why.
    let free = scenario.api::<Pod>().get("free").await?;
    assert!(!cardgate_tests::tally::is_gated(&free));
    scenario.waits("unknown", "QueueNotFound").await?;
    scenario.apply_queue(scenario.queue().quota("NVIDIA-X999", 1)).await?;
    scenario.waits("unknown", "GetTaskRequestResourceFailed").await?;
    Ok(())
}

/// Nobody would ever take it off, and everybody is refused who tries.
#[tokio::test]
async fn a_gate_that_its_maker_has_written_is_taken_off_what_is_not_held() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "own-gate").await?;
    let created = scenario
        .create(&pod("own").namespace(scenario.name()).gate(keys::GATE).build())
        .await?;
    let gates = created.spec.and_then(|spec| spec.scheduling_gates);
    assert!(gates.is_none_or(|gates| gates.is_empty()));
    Ok(())
}
