//! `PodGroup`s as Volcano's controllers make them, and as Volcano's components write them: without a status subresource.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, PATIENCE, Seen};
use cardgate_tests::world::World;
use crds::keys::{GROUP_NAME, TASK_SPEC};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use crate::{Outcome, apply_group, pods, shows};

async fn groups(scenario: &Scenario<'_>) -> anyhow::Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup");
    let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    Ok(Api::namespaced_with(
        scenario.plane().client().await?,
        scenario.name(),
        &resource,
    ))
}

#[tokio::test]
async fn a_volcano_jobs_group_is_enqueued_and_starts_with_its_parameter_server() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "volcano-job").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("volcano-job", &card, 8, 81_920)])
        .await?;
    let queue = scenario
        .queue()
        .quota(&card, 4)
        .capability("cpu", "8")
        .capability("memory", "8Gi");
    scenario.apply_queue(queue).await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "training", "namespace": scenario.name() },
        "spec": {
            "minMember": 3,
            "minTaskMember": { "worker": 2, "ps": 1 },
            "queue": scenario.name(),
            "minResources": {
                "count/pods": "3", "pods": "3", "cpu": "3", "memory": "3Gi", "nvidia.com/gpu": "2",
                "requests.cpu": "3", "requests.memory": "3Gi", "requests.nvidia.com/gpu": "2",
                "limits.cpu": "3", "limits.memory": "3Gi", "limits.nvidia.com/gpu": "2",
            },
        },
    });
    scenario.plane().apply(&group).await?;
    // Volcano's controller makes no pods before it shows this.
    shows(&scenario, "training", "Inqueue").await?;
    let of_task = |name: &str, task: &str| {
        scenario
            .pod(name)
            .annotation(GROUP_NAME, "training")
            .label(TASK_SPEC, task)
    };
    let worker = of_task("worker", "worker")
        .card(&card)
        .request("nvidia.com/gpu", 1)
        .request("cpu", 1);
    scenario.create(&worker.deployment(3)).await?;
    scenario
        .expect_for_good("worker", &pods().waiting("PodGroupIncomplete", 3))
        .await?;
    scenario
        .create(&of_task("ps", "ps").request("cpu", 1).deployment(1))
        .await?;
    scenario.expect("worker", &pods().running(&card, 3)).await?;
    shows(&scenario, "training", "Running").await
}

#[tokio::test]
async fn a_group_keeps_what_others_write_of_the_whole_object_and_shows_its_phase_again() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "whole-objects").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("whole-objects", &card, 2, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    let request = format!("{{\"{card}\": 1}}");
    apply_group(&scenario, "training", 1, Some(&request)).await?;
    shows(&scenario, "training", "Inqueue").await?;
    let groups = groups(&scenario).await?;
    // As Volcano's components do: read, change, put the whole.
    wait::eventually("a PUT of the whole object", PATIENCE, async || {
        let mut object = groups.get("training").await?;
        object
            .metadata
            .labels
            .get_or_insert_default()
            .insert("volcano".to_owned(), "put".to_owned());
        object.data["status"]["running"] = json!(7);
        object.data["status"]["phase"] = json!("Pending");
        Ok(
            match groups.replace("training", &PostParams::default(), &object).await {
                Ok(_) => Seen::Done(()),
                Err(error) => Seen::NotYet(error.to_string()),
            },
        )
    })
    .await?;
    shows(&scenario, "training", "Inqueue").await?;
    let object = groups.get("training").await?;
    assert_eq!(object.metadata.labels.unwrap_or_default()["volcano"], "put");
    assert_eq!(object.data["status"]["running"], 7);
    Ok(())
}
