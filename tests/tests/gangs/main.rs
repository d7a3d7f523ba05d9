//! Groups and Jobs as a whole, on a real control plane: gangs, Job mode, reservations, suspended Jobs. The scenarios share one
//! control plane, but for those that end the operator.

mod controllers;
mod groups;
mod jobs;
mod killed;

use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use crds::volcano::PodGroup;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::json;

type Outcome = anyhow::Result<()>;

/// No pods are expected but those added.
fn pods() -> Tally {
    Tally::none()
}

/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";

/// Creates a group in the scenario's queue, or makes it as it is now.
async fn apply_group(scenario: &Scenario<'_>, name: &str, min_member: u32, request: Option<&str>) -> Outcome {
    let mut group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": name, "namespace": scenario.name() },
        "spec": { "minMember": min_member, "queue": scenario.name() },
    });
    if let Some(request) = request {
        group["metadata"]["annotations"] = json!({ crds::keys::CARD_REQUEST: request });
    }
    scenario.plane().apply(&group).await?;
    Ok(())
}

/// Waits until a group's condition says this of it: its status and its reason.
async fn says(scenario: &Scenario<'_>, group: &str, status: &str, reason: &str) -> anyhow::Result<String> {
    let kind = GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup");
    let resource = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    let client = scenario.plane().client().await?;
    let groups: Api<DynamicObject> = Api::namespaced_with(client, scenario.name(), &resource);
    wait::eventually(
        format!("the condition {status}, {reason}"),
        wait::PATIENCE,
        async || {
            let object = groups.get(group).await?;
            let conditions = &object.data["status"]["conditions"];
            let ours = conditions.as_array().into_iter().flatten();
            let mut ours = ours.filter(|one| one["status"] == status && one["reason"] == reason);
            Ok(match ours.next() {
                Some(condition) => Seen::Done(condition["message"].as_str().unwrap_or_default().to_owned()),
                None => Seen::NotYet(conditions.to_string()),
            })
        },
    )
    .await
}

/// Waits until a group shows this phase.
async fn shows(scenario: &Scenario<'_>, group: &str, phase: &str) -> Outcome {
    wait::object(
        &scenario.api::<PodGroup>(),
        group,
        format!("the phase {phase}"),
        |group| {
            let shown = group.and_then(|group| group.status.as_ref()?.phase.as_deref());
            Seen::when(shown == Some(phase), format!("{shown:?}"))
        },
    )
    .await
}
