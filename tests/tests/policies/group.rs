//! `cardgate-pod-group`: a group that says what nobody can read keeps all of its pods waiting, so it is refused, whichever queue it names.

use crds::volcano::PodGroup;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, assert_denied, await_refusal, dry_run};

const POLICY: &str = "cardgate-pod-group";

/// Volcano makes a group in its queue `default` for every pod, so the webhook is not asked about those.
#[tokio::test]
async fn what_a_group_of_the_default_queue_needs_can_be_read() -> Outcome {
    let cluster = &Cluster::with_webhook_down("groups").await?;
    let resource = ApiResource::erase::<PodGroup>(&());
    let groups: Api<DynamicObject> = Api::namespaced_with(cluster.editor.clone(), cluster.team, &resource);
    let group = |spec: &Value| -> anyhow::Result<DynamicObject> {
        let group = json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": { "name": "group" }, "spec": spec });
        Ok(serde_json::from_value(group)?)
    };
    let resources = |resources: Value| json!({ "minMember": 1, "minResources": resources });
    let long_task = "x".repeat(64);
    let long_resource = format!("example.com/{}", "x".repeat(306));
    let refused = [
        (
            resources(json!({ "cpu": "1", "memory": "-1" })),
            "spec.minResources: memory: -1 is negative: write 0 or more",
        ),
        (
            resources(json!({ "nvidia.com/gpu": -1 })),
            "nvidia.com/gpu: -1 is negative",
        ),
        (
            resources(json!({ "cpu": "1e3.5" })),
            "spec.minResources: cpu: \"1e3.5\" is not a Kubernetes quantity",
        ),
        (
            resources(json!({ long_resource: "1" })),
            "name resources as pods request them",
        ),
        (
            json!({ "minMember": 1, "minTaskMember": { long_task.clone(): 1 } }),
            "spec.minTaskMember: task \"xxxxxxxxxxxxxxxxxxxx…\" has 64 bytes, and 63 are allowed: name tasks as the label volcano.sh/task-spec",
        ),
    ];
    let first = group(&refused[0].0)?;
    await_refusal(POLICY, async || groups.create(&dry_run(), &first).await).await?;
    for (spec, says) in &refused {
        let created = groups.create(&PostParams::default(), &group(spec)?).await;
        assert_denied(&format!("{spec}"), POLICY, created, &[says]);
    }
    for spec in [
        resources(json!({ "cpu": "500m", "memory": "1Gi", "pods": 3, "nvidia.com/gpu": 0 })),
        // Volcano's controllers write such beside the others; nobody reads them.
        resources(json!({ "count/pods": "1", "requests.cpu": "-1" })),
        json!({ "minMember": 1, "minTaskMember": { "x".repeat(63): 1, long_task: 0 } }),
        json!({}),
    ] {
        groups.create(&dry_run(), &group(&spec)?).await?;
    }

    groups
        .create(&PostParams::default(), &group(&resources(json!({ "cpu": "1" })))?)
        .await?;
    for (spec, says) in &refused {
        let change = Patch::Merge(json!({ "spec": spec }));
        let changed = groups.patch("group", &PatchParams::default(), &change).await;
        assert_denied(&format!("{spec}"), POLICY, changed, &[says]);
    }
    Ok(())
}
