//! Mistakes are told where they are made: by `kubectl create` of what makes pods, not by pods that never come.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use crds::keys;
use serde_json::{Value, json};

use crate::Outcome;

/// What `kubectl create` of an object warns of.
async fn warnings(scenario: &Scenario<'_>, object: &Value) -> anyhow::Result<Vec<String>> {
    let said = scenario.kubectl_create(object).await?.map_err(anyhow::Error::msg)?;
    let warnings = said.lines().filter_map(|line| line.strip_prefix("Warning: "));
    Ok(warnings.map(ToOwned::to_owned).collect())
}

#[tokio::test]
async fn kubectl_tells_who_creates_a_workload_what_is_wrong_with_it() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "advice").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("advice", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    scenario.door_knows(&[&card]).await?;
    let pods = |annotations: Value, labels: Value| {
        let template = scenario.gpu_pod("unused", &card, 1).build();
        let spec = serde_json::to_value(template.spec).unwrap();
        json!({ "metadata": { "annotations": annotations, "labels": labels }, "spec": spec })
    };
    let (queue, labels) = (scenario.name(), json!({ "app": "a" }));
    let right = json!({ keys::QUEUE_NAME: queue, keys::CARD_NAME: card });
    let misspelt = json!({ keys::QUEUE_NAME: queue, "volcano.sh/cardname": card });
    let said = "nobody reads the annotation \"volcano.sh/cardname\": did you mean volcano.sh/card.name?";
    let misplaced = "the annotation volcano.sh/card.name has no effect there: put it on the pods, under";
    let unnamed = "requests nvidia.com/gpu and names no card";
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
    ] {
        let workload = |name: &str, own: Value, of_pods: &Value| {
            let mut template = pods(of_pods.clone(), labels.clone());
            let mut spec = json!({});
            if kind == "Job" {
                template["spec"]["restartPolicy"] = json!("Never");
                spec["suspend"] = json!(true);
            } else {
                spec = json!({ "replicas": 0, "selector": { "matchLabels": labels } });
                template["spec"]["restartPolicy"] = json!("Always");
            }
            spec["template"] = template;
            let name = format!("{}-{name}", kind.to_lowercase());
            json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name, "annotations": own }, "spec": spec })
        };
        let none = json!({});
        assert_eq!(
            warnings(&scenario, &workload("right", none.clone(), &right)).await?,
            [""; 0]
        );
        let told = warnings(&scenario, &workload("misspelt", none.clone(), &misspelt)).await?;
        assert!(told.iter().any(|text| text.contains(said)), "{kind}: {told:?}");
        let queue_only = json!({ keys::QUEUE_NAME: queue });
        let told = warnings(
            &scenario,
            &workload("misplaced", json!({ keys::CARD_NAME: card }), &queue_only),
        )
        .await?;
        assert!(told.iter().any(|text| text.contains(misplaced)), "{kind}: {told:?}");
        assert!(told.iter().any(|text| text.contains(unnamed)), "{kind}: {told:?}");
    }
    let mut template = pods(json!({ "card.volcano.sh/name": card }), labels.clone());
    template["spec"]["restartPolicy"] = json!("Never");
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "nightly" },
        "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } } },
    });
    let told = warnings(&scenario, &cron_job).await?;
    let expected = "spec.jobTemplate.spec.template: nobody reads the annotation \"card.volcano.sh/name\"";
    assert!(told.iter().any(|text| text.starts_with(expected)), "{told:?}");

    let mut shares = pods(json!({ keys::QUEUE_NAME: queue }), labels.clone());
    let limits = json!({ keys::MGPU_CORE: "20", keys::MGPU_MEMORY: "8Gi" });
    shares["spec"]["containers"][0]["resources"] = json!({ "limits": limits });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "shares" }, "spec": shares["spec"] });
    let refused = scenario.kubectl_create(&pod).await?.unwrap_err();
    assert!(refused.contains("which counts MiB: write 8192"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn kubectl_tells_who_creates_a_queue_that_gives_no_cpu() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "advice-queue").await?;
    let queue = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": "advice-queue-bare" }, "spec": { "weight": 1 },
    });
    let told = warnings(&scenario, &queue).await?;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("spec.capability names no cpu or memory"),
        "{told:?}"
    );
    let remove = ["delete", "queue", "advice-queue-bare"];
    scenario.plane().kubectl().run(remove).await?;
    Ok(())
}
