//! What was found when everything else held, and everything was tried in combination.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys::{GATE, GROUP_NAME, QUEUE_NAME};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::Outcome;
use crate::tenant::Tenant;

/// Pods that say nothing of queues are none of Cardgate's business, and have no gate. If they became members of a group later,
/// they would be charged to its queue without ever having waited, also where no scheduler places them: so everybody else's
/// pods of a queue that is open to all would wait for ever.
#[tokio::test]
async fn pods_that_never_waited_fill_no_queue() -> Outcome {
    let world = World::shared().await?;
    let (team, other) = (
        Scenario::begin(world, "filled").await?,
        Scenario::begin(world, "filler").await?,
    );
    let card = team.card("NVIDIA-A100");
    team.nodes(&[nodes::nvidia("filled", &card, 2, 81_920)]).await?;
    team.apply_queue(team.queue().quota(&card, 2)).await?;
    team.door_knows(&[&card]).await?;
    let tenant = Tenant::of(&world.plane, "filler").await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "late", "namespace": "filler" },
        "spec": { "minMember": 1, "queue": "filled" },
    });
    world.plane.apply(&group).await?;

    // Of no queue, and of a namespace that names none; and nobody ever places it.
    let idle = pod("idle").namespace("filler").scheduler("nobody");
    tenant
        .create(&idle.request("nvidia.com/gpu", 100).request("cpu", 100_000).build())
        .await?;
    let joins = json!({ "metadata": { "annotations": { GROUP_NAME: "late" } } });
    let says = "is added to a pod without the scheduling gate \"card.volcano.sh/quota\", or without annotation";
    tenant.may_not_change::<Pod>("idle", joins.clone(), says).await?;
    // One that says so from the start waits like everybody.
    let waiting = pod("waiting").namespace("filler").annotation(GROUP_NAME, "late");
    tenant.create(&waiting.request("nvidia.com/gpu", 100).build()).await?;
    other.waits("waiting", "InsufficientScalarQuota").await?;

    team.create(&team.gpu_pod("trainer", &card, 1).deployment(2)).await?;
    team.expect("trainer", &Tally::none().running(&card, 2)).await?;
    Ok(())
}

/// A pod that names a group which is not there, and cards that nobody would be charged for: were it let in as nobody's, whoever makes the
/// group afterwards would have another team's queue charged for it, from the operator's next start.
#[tokio::test]
async fn a_group_that_comes_later_charges_no_queue_for_what_never_waited() -> Outcome {
    let world = World::shared().await?;
    let team = Scenario::begin(world, "lateness").await?;
    let other = Scenario::begin(world, "late-group").await?;
    let card = team.card("NVIDIA-A100");
    team.nodes(&[nodes::nvidia("lateness", &card, 2, 81_920)]).await?;
    team.apply_queue(team.queue().quota(&card, 2)).await?;
    team.door_knows(&[&card]).await?;
    let tenant = Tenant::of(&world.plane, "late-group").await?;
    let early = pod("early").namespace("late-group").annotation(GROUP_NAME, "late");
    tenant
        .create(&early.scheduler("nobody").request("nvidia.com/gpu", 100).build())
        .await?;
    // It is charged to the default queue whatever comes later, and waits for that.
    let created = other.api::<Pod>().get("early").await?;
    let annotations = created.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get(QUEUE_NAME).map(String::as_str), Some("default"));
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "late", "namespace": "late-group" },
        "spec": { "minMember": 1, "queue": "lateness" },
    });
    world.plane.apply(&group).await?;
    team.create(&team.gpu_pod("trainer", &card, 1).deployment(2)).await?;
    team.expect("trainer", &Tally::none().running(&card, 2)).await?;
    let pod = other.api::<Pod>().get("early").await?;
    let gates = pod.spec.and_then(|spec| spec.scheduling_gates).unwrap_or_default();
    assert!(gates.iter().any(|gate| gate.name == GATE), "it waits: {gates:?}");
    Ok(())
}

/// A pod whose annotations leave no room for what Cardgate writes when it lets it in: the API server refuses that for good. It gives
/// back what it took, and costs nobody else anything.
#[tokio::test]
async fn who_can_not_be_let_in_holds_nothing() -> Outcome {
    /// The most that the API server takes of annotations, in bytes.
    const MOST: usize = 256 * 1024;
    let world = World::shared().await?;
    let (team, other) = (
        Scenario::begin(world, "roomy").await?,
        Scenario::begin(world, "stuffed").await?,
    );
    let card = team.card("NVIDIA-A100");
    team.nodes(&[nodes::nvidia("roomy", &card, 1, 81_920)]).await?;
    team.apply_queue(team.queue().quota(&card, 1)).await?;
    team.door_knows(&[&card]).await?;
    let tenant = Tenant::of(&world.plane, "stuffed").await?;
    let stuffed = |bytes: usize| {
        let pod = pod("stuffed").namespace("stuffed").queue("roomy").card(&card);
        pod.request("nvidia.com/gpu", 1)
            .annotation("stuffing", &"x".repeat(bytes))
            .build()
    };
    // As much as is taken, and not a byte more for a result.
    let mut bytes = MOST;
    while tenant.create(&stuffed(bytes)).await.is_err() {
        bytes -= 8;
        assert!(bytes > MOST - 4096, "no such pod is taken");
    }
    other.waits("stuffed", "RefusedByAPIServer").await?;
    team.create(&team.gpu_pod("trainer", &card, 1).deployment(1)).await?;
    team.expect_for_good("trainer", &Tally::none().running(&card, 1))
        .await?;
    Ok(())
}
