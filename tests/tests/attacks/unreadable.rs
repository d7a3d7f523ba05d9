//! Bytes that are no text: API servers keep them in what they do not read themselves, and give them back to everybody who lists.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use super::Outcome;
use super::tenant::Tenant;

/// What stands in objects for a byte that is no text.
const PLACE: &str = "NO-TEXT";

/// What a tenant says that a manager manages, as the API server keeps it.
fn managed(api_version: &Value, time: &str, fields: &Value) -> Value {
    json!([{
        "manager": "m", "operation": "Update", "apiVersion": api_version, "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields,
    }])
}

/// An object with such a byte in the fields that its manager manages.
fn unreadable(mut object: Value) -> Vec<u8> {
    let fields = json!({ "f:metadata": { "f:annotations": { (format!("f:a{PLACE}")): {} } } });
    object["metadata"]["managedFields"] = managed(&object["apiVersion"], "2026-01-01T00:00:00Z", &fields);
    let text = object.to_string();
    let (before, after) = text.split_once(PLACE).unwrap_or_default();
    [before.as_bytes(), b"\xff", after.as_bytes()].concat()
}

#[tokio::test]
async fn a_byte_that_is_no_text_keeps_nobody_from_being_seen() -> Outcome {
    let world = World::start().await?;
    let victim = Scenario::begin(&world, "victim").await?;
    let card = victim.card("NVIDIA-A100");
    victim.nodes(&[nodes::nvidia("victim-1", &card, 8, 81_920)]).await?;
    victim.apply_queue(victim.queue().quota(&card, 8)).await?;
    world.plane.create_namespace("attacker", &[], &[]).await?;
    let tenant = Tenant::of(&world.plane, "attacker").await?;
    let containers = json!([{ "name": "main", "image": "image" }]);
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
    for (path, object) in [
        (
            "api/v1/namespaces/attacker/pods",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers": containers } }),
        ),
        (
            "apis/batch/v1/namespaces/attacker/jobs",
            json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": { "template": template } }),
        ),
    ] {
        let stored = tenant.post(path, unreadable(object)).await?;
        assert!(
            stored.contains(&0xff),
            "the API server keeps the byte, or this tries nothing"
        );
    }
    for (pod, restarts) in [("watched", false), ("listed", true)] {
        if restarts {
            world.cardgate.operator().restart().await?;
        }
        victim.create(&victim.gpu_pod(pod, &card, 1).build()).await?;
        victim.expect(pod, &Tally::none().running(&card, 1)).await?;
    }
    wait::eventually("the operator to be ready", wait::PATIENCE, async || {
        let (status, text) = world.cardgate.operator().readiness().await?;
        Ok(Seen::when(status == 200, text))
    })
    .await
}

/// Metadata that the API server keeps and Kubernetes' own types can't be read from: the place stands for fields nested deeper than a reader goes.
fn metadata(api_version: &str, name: &str, annotations: &Value, is_deep: bool) -> Value {
    let (fields, time) = if is_deep {
        (PLACE, "2026-01-01T00:00:00Z")
    } else {
        ("f:a", "9999-12-31T23:59:59Z")
    };
    json!({ "name": name, "annotations": annotations, "managedFields": managed(&api_version.into(), time, &json!({ (fields): {} })) })
}

fn with_deep_fields(object: &Value) -> Vec<u8> {
    const DEPTH: usize = 150;
    let deep = format!("{}{}", "{\"f:a\":".repeat(DEPTH), "{}".to_owned() + &"}".repeat(DEPTH));
    object
        .to_string()
        .replace(&format!("{{\"{PLACE}\":{{}}}}"), &deep)
        .into_bytes()
}

/// What was written of them counted as unanswered: admissions were tried for half a minute and looked at for ever after, and conditions were written
/// again and again.
#[tokio::test]
async fn metadata_that_no_type_can_be_read_from_is_as_good_as_any() -> Outcome {
    let world = World::start().await?;
    let attacker = Scenario::begin(&world, "attacker").await?;
    let card = attacker.card("NVIDIA-A100");
    attacker.nodes(&[nodes::nvidia("attacker-1", &card, 8, 81_920)]).await?;
    attacker.apply_queue(attacker.queue().quota(&card, 8)).await?;
    let tenant = Tenant::of(&world.plane, "attacker").await?;
    let queue = json!({ "scheduling.volcano.sh/queue-name": "attacker" });
    let named = json!({ "scheduling.volcano.sh/queue-name": "attacker", "volcano.sh/card.name": card });
    let held = json!({ "volcano.sh/card.request": format!("{{\"{card}\": 1}}") });
    let (pods, jobs) = (
        "api/v1/namespaces/attacker/pods",
        "apis/batch/v1/namespaces/attacker/jobs",
    );
    let container = json!({ "name": "main", "image": "image" });
    let mut large = container.clone();
    large["resources"] = json!({ "limits": { "nvidia.com/gpu": "9" } });
    let template = json!({ "metadata": { "annotations": queue }, "spec": { "restartPolicy": "Never", "containers": [container] } });
    let kinds = [("deep", true), ("late", false)];
    let pod = |name: &str, annotations: &Value, is_deep: bool, container: &Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata("v1", name, annotations, is_deep), "spec": { "containers": [container] } });
    let post = async |path: &str, object: Value| -> Outcome {
        let stored = tenant.post(path, with_deep_fields(&object)).await?;
        let is_kept = serde_json::from_slice::<PartialObjectMeta>(&stored).is_err();
        assert!(
            is_kept,
            "the API server keeps what it was sent, or this tries nothing: {object}"
        );
        Ok(())
    };
    for (place, (suffix, is_deep)) in kinds.into_iter().enumerate() {
        post(pods, pod(&format!("runs-{suffix}"), &queue, is_deep, &container)).await?;
        wait::eventually(
            format!("runs-{suffix} to count as let in"),
            wait::PATIENCE,
            async || {
                let answered = world
                    .cardgate
                    .operator()
                    .metric("cardgate_admission_duration_seconds_count")
                    .await?;
                Ok(Seen::when(
                    answered == u32::try_from(place + 1).ok().map(f64::from),
                    format!("{answered:?}"),
                ))
            },
        )
        .await?;
    }
    for (suffix, is_deep) in kinds {
        // Each is said once the write was answered.
        let name = format!("waits-{suffix}");
        post(pods, pod(&name, &named, is_deep, &large)).await?;
        attacker.events(&name, "InsufficientScalarQuota").await?;
        let name = format!("job-{suffix}");
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("batch/v1", &name, &held, is_deep), "spec": { "template": template } });
        post(jobs, job).await?;
        attacker.events(&name, "Enqueued").await?;
    }
    Ok(())
}
