//! Groups and Jobs as a whole, on a real control plane: gangs, Job mode, reservations, suspended Jobs.

mod groups;
mod jobs;

use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use crds::volcano::PodGroup;
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
