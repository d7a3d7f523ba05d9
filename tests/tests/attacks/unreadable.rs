//! Bytes that are no text: API servers keep them in what they do not read themselves, and give them back to everybody who lists.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use serde_json::{Value, json};

use super::Outcome;
use super::tenant::Tenant;

/// What stands in objects for a byte that is no text.
const PLACE: &str = "NO-TEXT";

/// An object with such a byte in the fields that its manager manages.
fn unreadable(mut object: Value) -> Vec<u8> {
    object["metadata"]["managedFields"] = json!([{
        "manager": "m", "operation": "Update", "apiVersion": object["apiVersion"], "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": { "f:metadata": { "f:annotations": { (format!("f:a{PLACE}")): {} } } },
    }]);
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
