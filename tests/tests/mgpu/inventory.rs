//! What there is to see of shared cards, and pods that Cardgate did not place.

use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use crds::keys::{MGPU_CORE, MGPU_MEMORY};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};

use crate::{FIXED, MEMORY, Outcome, configured, cores_in_use, placement, running, scene, share};

#[tokio::test]
async fn every_card_is_shown_with_what_is_used_and_by_whom() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "shown", 1, 2, FIXED).await?;
    for pod in ["p", "q"] {
        scenario.create(&share(&scenario, pod, 30, 2000).build()).await?;
        running(&scenario, pod).await?;
    }
    let inventory = cores_in_use(&scenario, "shown-0", &[60, 0]).await?;
    let gpus = inventory.status.unwrap_or_default().gpus;
    assert_eq!(
        (
            gpus[0].core_free,
            gpus[0].memory,
            gpus[0].memory_used,
            gpus[0].memory_free
        ),
        (40, MEMORY, 4000, MEMORY - 4000)
    );
    assert_eq!(gpus[0].containers, ["shown/p/main", "shown/q/main"]);
    assert!(gpus[1].containers.is_empty());
    for (metric, expected) in [
        ("compute_used_ratio", 0.6),
        ("memory_used_bytes", 4000.0 * 1_048_576.0),
        ("containers", 2.0),
    ] {
        let series = format!("cardgate_mgpu_card_{metric}{{node=\"shown-0\",card=\"0\"}}");
        wait::eventually(&series, wait::PATIENCE, async || {
            let now = world.cardgate.operator().metric(&series).await?;
            Ok(Seen::when(now == Some(expected), format!("{now:?}")))
        })
        .await?;
    }
    let explained = world
        .plane
        .kubectl()
        .run(["explain", "cardinventory.status.gpus"])
        .await?;
    assert!(
        explained.contains("coreUsed") && explained.contains("in MiB"),
        "{explained}"
    );
    Ok(())
}

#[tokio::test]
async fn a_bound_pod_that_nobody_placed_is_charged_first_fit_and_told_so() -> Outcome {
    let (world, _turn) = configured(&[], None).await?;
    let scenario = scene(world, "foreign", 1, 2, FIXED).await?;
    cores_in_use(&scenario, "foreign-0", &[0, 0]).await?;
    // In an exempt namespace, and bound by its author.
    let client = world.plane.client().await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let unplaced = pod("unplaced")
        .namespace("kube-system")
        .request(MGPU_CORE, 60)
        .request(MGPU_MEMORY, 2000)
        .spec(|spec| spec.node_name = Some("foreign-0".to_owned()));
    pods.create(&PostParams::default(), &unplaced.build()).await?;
    cores_in_use(&scenario, "foreign-0", &[60, 0]).await?;
    let events: Api<Event> = Api::namespaced(client, "kube-system");
    let about = ListParams::default().fields("involvedObject.name=unplaced,reason=MGPUCardsUnknown");
    wait::eventually("an event about it", wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let message = found
            .first()
            .and_then(|event| event.message.clone())
            .unwrap_or_default();
        Ok(Seen::when(
            message.contains("the first cards with room (main 0)"),
            message,
        ))
    })
    .await?;
    scenario.create(&share(&scenario, "p", 60, 2000).build()).await?;
    let (_, lists) = placement(&running(&scenario, "p").await?);
    assert_eq!(lists, [("main".to_owned(), "1".to_owned())]);
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods.delete("unplaced", &now).await?;
    cores_in_use(&scenario, "foreign-0", &[0, 60]).await?;
    Ok(())
}
