//! What users with edit rights can't do to get around a quota, while everything runs.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::is_gated;
use cardgate_tests::workloads::queue;
use cardgate_tests::world::World;
use crds::keys;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{NO_QUOTA, Outcome, pods};

/// Pods as a user who has the role `edit` in the scenario's namespace sees them.
async fn pods_of_editor(scenario: &Scenario<'_>) -> anyhow::Result<Api<Pod>> {
    let plane = scenario.plane();
    plane.grant("alice", "edit", scenario.name()).await?;
    Ok(Api::namespaced(plane.client_of_user("alice").await?, scenario.name()))
}

/// Tries a JSON patch that has to be refused for this.
async fn refused(api: &Api<Pod>, name: &str, operations: Value, says: &str) -> Outcome {
    let patch: json_patch::Patch = serde_json::from_value(operations)?;
    let answer = api
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch.clone()))
        .await;
    match answer {
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains(says), "{says:?} is missing: {}", status.message);
            Ok(())
        }
        other => anyhow::bail!("{patch} is answered by {other:?}"),
    }
}

fn pointer(place: &str, key: &str) -> String {
    format!("/metadata/{place}/{}", key.replace('/', "~1"))
}

#[tokio::test]
async fn nobody_takes_the_gate_away_alone_or_with_anything_else() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "gate").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("gate", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("first", &card, 1).build()).await?;
    scenario.expect("first", &pods().running(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("second", &card, 1).build()).await?;
    scenario.waits("second", NO_QUOTA).await?;

    let ungate = json!({ "op": "remove", "path": "/spec/schedulingGates" });
    let with = |more: &[Value]| Value::Array(std::iter::once(&ungate).chain(more).cloned().collect());
    let remove = |place: &str, key: &str| json!({ "op": "remove", "path": pointer(place, key) });
    let gate = "scheduling gate \"card.volcano.sh/quota\" is removed by Cardgate's operator only";
    let api = pods_of_editor(&scenario).await?;
    let cases = [
        with(&[]),
        with(&[remove("annotations", keys::QUEUE_NAME)]),
        with(&[remove("annotations", keys::CARD_NAME)]),
        with(&[remove("labels", keys::QUEUE_LABEL)]),
        with(&[
            remove("annotations", keys::QUEUE_NAME),
            remove("annotations", keys::CARD_NAME),
            remove("labels", keys::QUEUE_LABEL),
        ]),
        with(&[
            json!({ "op": "remove", "path": "/metadata/annotations" }),
            json!({ "op": "remove", "path": "/metadata/labels" }),
        ]),
        with(&[json!({ "op": "add", "path": pointer("annotations", keys::CARD_ASSIGNED), "value": card })]),
    ];
    for operations in cases {
        refused(&api, "second", operations, gate).await?;
    }
    // Not even the administrator.
    refused(&scenario.api(), "second", with(&[]), gate).await?;
    scenario.expect("second", &pods().waiting(NO_QUOTA, 1)).await?;
    scenario.delete::<Pod>("first").await?;
    scenario.expect("second", &pods().running(&card, 1)).await
}

#[tokio::test]
async fn nobody_forges_the_card_that_a_pod_is_charged_for() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "forged").await?;
    let (cheap, dear) = (scenario.card("NVIDIA-T4"), scenario.card("NVIDIA-H100"));
    scenario
        .nodes(&[
            nodes::nvidia("forged-t4", &cheap, 8, 15_360),
            nodes::nvidia("forged-h100", &dear, 8, 81_559),
        ])
        .await?;
    scenario
        .apply_queue(scenario.queue().quota(&cheap, 8).quota(&dear, 1))
        .await?;
    let forged = scenario
        .gpu_pod("forged", &dear, 1)
        .annotation(keys::CARD_ASSIGNED, &cheap)
        .build();
    let answer = scenario.kubectl_create(&forged).await?.map_err(anyhow::Error::msg)?;
    assert!(
        answer.contains("annotation volcano.sh/card.assigned was removed"),
        "{answer}"
    );
    scenario.expect("forged", &pods().running(&dear, 1)).await?;

    // The quota of one is used up, and stays so, whatever is tried on the running pod.
    let api = pods_of_editor(&scenario).await?;
    let path = pointer("annotations", keys::CARD_ASSIGNED);
    let says = "volcano.sh/card.assigned";
    refused(
        &api,
        "forged",
        json!([{ "op": "replace", "path": path, "value": cheap }]),
        says,
    )
    .await?;
    refused(&api, "forged", json!([{ "op": "remove", "path": path }]), says).await?;
    scenario.create(&scenario.gpu_pod("next", &dear, 1).build()).await?;
    scenario.expect_for_good("next", &pods().waiting(NO_QUOTA, 1)).await
}

#[tokio::test]
async fn nobody_moves_a_running_pod_out_of_its_queue() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "moved").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("moved", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario
        .plane()
        .apply(&queue("moved-elsewhere").quota(&card, 8).build())
        .await?;
    scenario.create(&scenario.gpu_pod("web", &card, 1).build()).await?;
    scenario.expect("web", &pods().running(&card, 1)).await?;

    let api = pods_of_editor(&scenario).await?;
    for (place, key) in [
        ("annotations", keys::QUEUE_NAME),
        ("annotations", keys::CARD_NAME),
        ("labels", keys::QUEUE_LABEL),
    ] {
        let path = pointer(place, key);
        let change = json!([{ "op": "replace", "path": path, "value": "moved-elsewhere" }]);
        refused(&api, "web", change, key).await?;
        refused(&api, "web", json!([{ "op": "remove", "path": path }]), key).await?;
    }
    // It may be relabelled otherwise, and it is still charged.
    let relabel = json!({ "metadata": { "labels": { "tier": "front" } } });
    api.patch("web", &PatchParams::default(), &Patch::Merge(relabel))
        .await?;
    scenario.create(&scenario.gpu_pod("next", &card, 1).build()).await?;
    scenario.expect_for_good("next", &pods().waiting(NO_QUOTA, 1)).await
}

#[tokio::test]
async fn a_queue_of_another_team_is_refused_at_the_door_and_again_at_admission() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "team-b").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("team-b", &card, 8, 81_920)]).await?;
    let restricted = |cards: u64| {
        scenario
            .queue()
            .quota(&card, cards)
            .annotation(keys::QUEUE_NAMESPACES, "team=a")
    };
    // Open to everyone, and full: the pod is let in at the door and waits.
    scenario.apply_queue(scenario.queue().quota(&card, 0)).await?;
    scenario.create(&scenario.gpu_pod("early", &card, 1).build()).await?;
    scenario.waits("early", NO_QUOTA).await?;

    // Now it is team A's, and there is room.
    scenario.apply_queue(restricted(8)).await?;
    let told = scenario.waits("early", "NamespaceNotAllowed").await?;
    let message = told.message.unwrap_or_default();
    for part in [scenario.name(), keys::QUEUE_NAMESPACES] {
        assert!(message.contains(part), "{part:?} is missing: {message}");
    }
    let editor = pods_of_editor(&scenario).await?;
    let late = scenario.gpu_pod("late", &card, 1).build();
    let error = editor
        .create(&PostParams::default(), &late)
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "takes pods only from namespaces with the labels \"team=a\"",
        keys::QUEUE_NAMESPACES,
        "choose another queue",
    ] {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
    let early = scenario.api::<Pod>().get("early").await?;
    assert!(is_gated(&early));

    // The namespace joins the team.
    scenario
        .plane()
        .kubectl()
        .run(["label", "namespace", scenario.name(), "team=a"])
        .await?;
    scenario.expect("early", &pods().running(&card, 1)).await?;
    scenario.create(&late).await?;
    scenario.expect("late", &pods().running(&card, 1)).await
}
