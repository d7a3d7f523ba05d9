//! Settings of `cardgate.yaml`.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{Tally, is_gated};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use crds::keys;
use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaimVolumeSource, Pod, Volume};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, configured};

#[tokio::test]
async fn card_names_can_be_required() -> Outcome {
    let (world, _turn) = configured(None, Some("unnamedCards: deny\ncardResources: [amd.com/gpu]\n")).await?;
    let scenario = Scenario::begin(world, "names-required").await?;
    let free = |resource: &str| pod("free").namespace(scenario.name()).request(resource, 1).build();
    let refused = scenario.refused(&free("nvidia.com/gpu")).await?;
    for part in [
        "the pod requests nvidia.com/gpu without saying of which card",
        "(unnamedCards: deny)",
        "add the annotation volcano.sh/card.name",
    ] {
        assert!(refused.contains(part), "{part:?} is missing: {refused}");
    }
    // A resource that the settings add: the webhook meets such a pod where it is managed.
    let amd = scenario.pod("amd").request("amd.com/gpu", 1).build();
    let refused = scenario.refused(&amd).await?;
    assert!(refused.contains("amd.com/gpu without saying"), "{refused}");
    let second = scenario
        .gpu_pod("second", "NVIDIA-A100", 1)
        .request("nvidia.com/mig-1g.5gb", 1)
        .build();
    let refused = scenario.refused(&second).await?;
    for part in ["covers only one resource", "request cards of one resource in each pod"] {
        assert!(refused.contains(part), "{part:?} is missing: {refused}");
    }
    scenario
        .create(&scenario.gpu_pod("named", "NVIDIA-A100", 1).build())
        .await?;

    world
        .cardgate
        .configure(&world.plane, None, Some("unnamedCards: free\n"))
        .await?;
    scenario.create(&free("nvidia.com/gpu")).await?;
    scenario.create(&second).await?;
    Ok(())
}

#[tokio::test]
async fn the_default_queue_can_be_named() -> Outcome {
    let (world, _turn) = configured(None, Some("defaultQueue: named-default\n")).await?;
    let scenario = Scenario::begin(world, "named-default").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("named-default", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let unnamed = pod("web")
        .namespace(scenario.name())
        .card(&card)
        .request("nvidia.com/gpu", 1);
    let created = scenario.create(&unnamed.build()).await?;
    assert_eq!(created.annotations()[keys::QUEUE_NAME], "named-default");
    scenario.expect("web", &Tally::none().running(&card, 1)).await
}

#[tokio::test]
async fn with_admit_on_quota_an_autoscaler_sees_pods_that_fit_nowhere() -> Outcome {
    let (world, _turn) = configured(None, Some("admitOn: fit\n")).await?;
    let scenario = Scenario::begin(world, "autoscaled").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("autoscaled", &card, 1, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    scenario
        .create(&scenario.gpu_pod("web", &card, 2).deployment(3))
        .await?;
    scenario.expect("web", &Tally::none().waiting("NoNodeFits", 3)).await?;

    world
        .cardgate
        .configure(&world.plane, None, Some("admitOn: quota\nreservationTimeout: 1h\n"))
        .await?;
    // Two are let in, as the quota allows, for the scheduler to call unschedulable; the third has no quota.
    wait::eventually("two unschedulable pods", wait::PATIENCE, async || {
        let list = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
        let unschedulable = |pod: &&Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let reasons = conditions.into_iter().flatten().filter_map(|one| one.reason.as_deref());
            !is_gated(pod) && reasons.into_iter().any(|reason| reason == "Unschedulable")
        };
        let count = list.iter().filter(unschedulable).count();
        let gated = list.iter().filter(|pod| is_gated(pod)).count();
        Ok(Seen::when(
            (count, gated) == (2, 1),
            format!("{count} unschedulable, {gated} gated"),
        ))
    })
    .await?;
    let list = scenario.api::<Pod>().list(&ListParams::default()).await?.items;
    let third = list.iter().find(|pod| is_gated(pod)).map(ResourceExt::name_any);
    scenario.waits(&third.unwrap_or_default(), NO_QUOTA).await?;
    // The autoscaler's node comes.
    scenario
        .nodes(&[nodes::nvidia("autoscaled-2", &card, 4, 81_920)])
        .await?;
    scenario
        .expect("web", &Tally::none().running(&card, 2).waiting(NO_QUOTA, 1))
        .await
}

/// A pod that Cardgate has no reason to hold, and that the scheduler can't place.
fn without_volume(builder: PodBuilder) -> PodBuilder {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: "nowhere".to_owned(),
        read_only: None,
    };
    builder.spec(|spec| {
        spec.volumes.get_or_insert_default().push(Volume {
            name: "data".to_owned(),
            persistent_volume_claim: Some(claim),
            ..Volume::default()
        });
    })
}

#[tokio::test]
async fn a_reservation_that_the_scheduler_does_not_use_is_given_back() -> Outcome {
    let (world, _turn) = configured(None, Some("reservationTimeout: 1s\n")).await?;
    let scenario = Scenario::begin(world, "given-back").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("given-back", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let mut job = without_volume(scenario.gpu_pod("training", &card, 1)).job(1);
    // An eviction is no failure of the Job.
    if let Some(spec) = &mut job.spec {
        spec.pod_failure_policy = Some(PodFailurePolicy {
            rules: vec![PodFailurePolicyRule {
                action: "Ignore".to_owned(),
                on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                    type_: "DisruptionTarget".to_owned(),
                    status: "True".to_owned(),
                }]),
                ..PodFailurePolicyRule::default()
            }],
        });
    }
    scenario.create(&job).await?;
    let pods = scenario.api::<Pod>();
    let training = ListParams::default().labels("app=training");
    let admitted = async |what: &str| {
        wait::eventually(what, 2 * wait::PATIENCE, async || {
            let list = pods.list(&training).await?.items;
            let found = list
                .iter()
                .find(|pod| !is_gated(pod) && pod.metadata.deletion_timestamp.is_none());
            Ok(match found {
                Some(pod) => Seen::Done(pod.name_any()),
                None => Seen::NotYet(format!("{} pods, all of them gated", list.len())),
            })
        })
        .await
    };
    let first = admitted("the Job's pod to be let in").await?;

    // One that came later gets the card, since the Job's pod comes back behind it.
    scenario.create(&scenario.gpu_pod("patient", &card, 1).build()).await?;
    scenario.expect("patient", &Tally::none().running(&card, 1)).await?;
    // What it is told depends on the time: for 30 s that it stands aside, then that the quota is taken.
    wait::eventually("the Job's pod to wait anew", wait::PATIENCE, async || {
        let list = pods.list(&training).await?.items;
        let is_anew = |pod: &Pod| is_gated(pod) && pod.name_any() != first;
        Ok(Seen::when(list.iter().any(is_anew), format!("{} pods", list.len())))
    })
    .await?;
    let events = scenario.events(&first, "ReservationTimeout").await?;
    assert_eq!((events.len(), events[0].type_.as_deref()), (1, Some("Warning")));
    scenario.delete::<Pod>("patient").await?;
    let second = admitted("the Job's second pod to be let in").await?;
    assert_ne!(second, first);
    let status = scenario.api::<Job>().get("training").await?.status.unwrap_or_default();
    assert_eq!(status.failed.unwrap_or_default(), 0, "{status:?}");
    scenario.delete::<Job>("training").await?;
    scenario.expect("training", &Tally::none()).await?;

    // Nobody would make a bare pod again: it keeps its place, and is told so.
    scenario
        .create(&without_volume(scenario.gpu_pod("bare", &card, 1)).build())
        .await?;
    scenario.create(&scenario.gpu_pod("next", &card, 1).build()).await?;
    let events = scenario.events("bare", "ReservationTimeout").await?;
    let message = events[0].message.clone().unwrap_or_default();
    assert!(message.contains("keeps"), "{message}");
    scenario.waits("next", NO_QUOTA).await?;
    let evictions = scenario.api::<Event>();
    let evicted = ListParams::default().fields("involvedObject.name=bare,reason=Evicted");
    assert_eq!(evictions.list(&evicted).await?.items, []);
    assert!(
        scenario
            .api::<Pod>()
            .get("bare")
            .await?
            .metadata
            .deletion_timestamp
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn a_deleted_pod_holds_its_quota_for_a_limited_time() -> Outcome {
    let (world, _turn) = configured(None, Some("terminatingTimeout: 1s\n")).await?;
    let scenario = Scenario::begin(world, "terminating").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("terminating", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let stuck = scenario
        .gpu_pod("stuck", &card, 1)
        .spec(|spec| spec.termination_grace_period_seconds = Some(1));
    let mut stuck = stuck.build();
    stuck.metadata.finalizers = Some(vec!["example.com/never".to_owned()]);
    scenario.create(&stuck).await?;
    scenario.expect("stuck", &Tally::none().running(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("next", &card, 1).build()).await?;
    scenario.waits("next", NO_QUOTA).await?;
    scenario.delete::<Pod>("stuck").await?;
    scenario.expect("next", &Tally::none().running(&card, 1)).await?;
    // The deletion's time includes the grace period.
    let stuck = scenario.api::<Pod>().get("stuck").await?.metadata;
    let ended = stuck
        .deletion_timestamp
        .map(|time| time.0 + SignedDuration::from_secs(1));
    let now = Timestamp::now();
    assert!(ended.is_some_and(|ended| ended <= now), "{ended:?}, now {now}");
    let release = json!({ "metadata": { "finalizers": null } });
    scenario.change::<Pod>("stuck", release).await?;
    Ok(())
}
