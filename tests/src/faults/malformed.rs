//! Objects that say what can't be read, of every kind that Cardgate reads, put past the door.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::random::Random;
use crate::controlplane::ControlPlane;
use crate::mixture::NAMESPACE;
use crate::wait::{self, Seen};

/// How many are created at a time.
const AT_A_TIME: usize = 8;
/// The configuration by which malformed objects are refused.
const DOOR: &str = "cardgate";

/// What somebody may write for a number, a name or JSON.
const NONSENSE: [&str; 12] = [
    "",
    "{",
    "null",
    "[]",
    r#"{"NVIDIA-A100": -1}"#,
    r#"{"NVIDIA-A100": 1e400}"#,
    r#"{"NVIDIA-A100": 2.5, "NVIDIA-A100": 3}"#,
    r#"{"NVIDIA-A100": 9223372036854775808}"#,
    r#"{"": 1}"#,
    "||||",
    "NVIDIA-A100|NVIDIA-A100|/mgpu|*",
    "\u{202e}\u{0}",
];

/// Creates so many. Returns how many were taken, and how many were refused.
pub(super) async fn create(plane: &ControlPlane, count: usize, random: &mut Random) -> Result<(usize, usize)> {
    let client = plane.client().await?;
    let doors: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mut door = doors.get(DOOR).await?;
    doors.delete(DOOR, &DeleteParams::default()).await?;
    door.metadata.resource_version = None;
    door.metadata.uid = None;
    let malformed = |index: usize| {
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": { "name": format!("malformed-{index}"), "annotations": { "volcano.sh/card.quota": "{" } },
        })
    };
    // API servers forget it some time after it is gone.
    wait::eventually("the door to be open", wait::PATIENCE, async || {
        Ok(match plane.apply(&malformed(count)).await {
            Ok(_) => Seen::Done(()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
    })
    .await?;
    let objects: Vec<Value> = (0..count).map(|index| object(index, random)).collect();
    let taken = stream::iter(objects)
        .map(async |object| usize::from(plane.apply(&object).await.is_ok()))
        .buffer_unordered(AT_A_TIME)
        .fold(0, async |sum, taken| sum + taken)
        .await;
    let restored = doors.create(&PostParams::default(), &door).await;
    restored.context("cannot put the door back")?;
    Ok((taken, count - taken))
}

fn object(index: usize, random: &mut Random) -> Value {
    let mut nonsense = || NONSENSE[random.below(NONSENSE.len())];
    let name = format!("malformed-{index}");
    match index % 6 {
        0 => json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": { "name": name, "annotations": {
                "volcano.sh/card.quota": nonsense(),
                "volcano.sh/card.deserved": nonsense(),
                "volcano.sh/card.guarantee": nonsense(),
                "card.volcano.sh/namespaces": nonsense(),
            } },
            "spec": { "parent": name, "weight": -1, "capability": { "cpu": "1", "": "x" } },
        }),
        1 => json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": { "volcano.sh/card.request": nonsense() } },
            "spec": { "minMember": -3, "queue": nonsense(), "minTaskMember": { "": -1 } },
        }),
        2 => json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": { "nvidia.com/gpu.product": "", "nvidia.com/gpu.count": "many", "nvidia.com/gpu.replicas": "-1" },
                "annotations": {
                    "volcano.sh/crossquota-cpu": nonsense(),
                    "volcano.sh/crossquota-percentage-memory": nonsense(),
                    "vke.volcengine.com/gpu-ids": nonsense(),
                },
            },
            "spec": { "unschedulable": true },
        }),
        3 => json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": { "card.volcano.sh/crossquota": "perhaps" },
                "annotations": { "scheduling.volcano.sh/queue-name": nonsense() },
            },
        }),
        4 => json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": { "volcano.sh/card.request": nonsense() } },
            "spec": { "template": {
                "metadata": { "annotations": { "scheduling.volcano.sh/queue-name": nonsense() } },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "pause" }] },
            } },
        }),
        _ => json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": {
                "scheduling.volcano.sh/queue-name": format!("malformed-{}", index - 5),
                "volcano.sh/card.name": nonsense(),
                "vke.volcengine.com/container-multiple-gpu": nonsense(),
                "volcano.sh/crossquota-scoring-strategy": nonsense(),
            } },
            "spec": { "containers": [{ "name": "main", "image": "pause",
                "resources": { "limits": { "nvidia.com/gpu": "1" }, "requests": { "nvidia.com/gpu": "1" } } }] },
        }),
    }
}
