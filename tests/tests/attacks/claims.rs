//! Cards for nothing by claims of devices (Dynamic Resource Allocation): what a tenant who may write claims and templates tries with them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cardgate_tests::devices::{
    NVIDIA, allocated, by_name, by_template, card_has, classes, exactly, gpus, nodes, publish, template,
};
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::{NO_CARD, Tally};
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod, queue};
use cardgate_tests::world::World;
use crds::keys::{CARD_ASSIGNED, QUEUE_LABEL};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Affinity, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::Outcome;
use crate::tenant::Tenant;

const NO_QUOTA: &str = "InsufficientScalarQuota";
/// The label by which an administrator lets a namespace look at devices that others have.
const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

/// A namespace of a tenant, one node with 8 cards by devices that only this scenario has, and its queue with so many of them.
pub(crate) async fn scene<'w>(name: &str, quota: u64) -> Result<(&'w World, Scenario<'w>, Tenant, String)> {
    static CLASSES: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    CLASSES.get_or_try_init(|| classes(&world.plane)).await?;
    let scenario = Scenario::begin(world, name).await?;
    let card = scenario.card("NVIDIA-H100");
    nodes(&scenario, world, &[(&card, 8)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, quota)).await?;
    let tenant = Tenant::of(&world.plane, name).await?;
    Ok((world, scenario, tenant, card))
}

/// A claim, as the tenant writes it.
pub(crate) fn by_hand(name: &str, requests: &Value) -> Result<ResourceClaim> {
    let claim = json!({ "metadata": { "name": name }, "spec": { "devices": { "requests": requests } } });
    Ok(serde_json::from_value(claim)?)
}

fn made_from(name: &str, requests: &Value) -> Result<ResourceClaimTemplate> {
    let template = json!({ "metadata": { "name": name }, "spec": { "spec": { "devices": { "requests": requests } } } });
    Ok(serde_json::from_value(template)?)
}

/// That a pod waits for quota, with these numbers in its message.
async fn waits_with(scenario: &Scenario<'_>, pod: &str, numbers: &str) -> Outcome {
    wait::eventually(format!("{pod} to wait with {numbers:?}"), wait::PATIENCE, async || {
        let waits = scenario.waits(pod, NO_QUOTA).await?;
        let message = waits.message.unwrap_or_default();
        Ok(Seen::when(message.contains(numbers), message))
    })
    .await
}

pub(crate) fn tally() -> Tally {
    Tally::none()
}

async fn delete(tenant: &Tenant, claim: &str) -> Outcome {
    tenant
        .api::<ResourceClaim>()
        .delete(claim, &DeleteParams::default())
        .await?;
    Ok(())
}

/// Once the claim itself is gone for good.
async fn is_gone(scenario: &Scenario<'_>, claim: &str) -> Outcome {
    let claims = scenario.api::<ResourceClaim>();
    wait::object(&claims, claim, "its end", |found| {
        Seen::when(found.is_none(), format!("{found:?}"))
    })
    .await
}

#[tokio::test]
async fn nobody_rides_on_a_claim_that_no_queue_or_another_pays_for() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-ride", 2).await?;
    world
        .plane
        .apply(&queue("claims-ride-b").quota(&card, 2).build())
        .await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 4, Some(&card)))?)
        .await?;
    // Whose namespace names no queue is not held, and shown. What it has, no queue gets from it.
    let free = by_name(pod("free").namespace(scenario.name()), "mine");
    tenant.create(&free.build()).await?;
    scenario.expect("free", &tally().running(NO_CARD, 1)).await?;
    card_has(world, &card, |status| (status.used, status.unaccounted) == (4, 4)).await?;
    for (name, queue) in [("rides", "claims-ride"), ("rides-b", "claims-ride-b")] {
        let rides = by_name(pod(name).namespace(scenario.name()).queue(queue), "mine");
        tenant.create(&rides.build()).await?;
        scenario.waits(name, "ResourceClaimShared").await?;
    }
    // Once it is gone, one of them has to pay, and the other is in another queue.
    scenario.delete::<Pod>("free").await?;
    waits_with(&scenario, "rides", &format!("{card} asked 4, used 0, quota 2")).await?;
    scenario.waits("rides-b", "ResourceClaimShared").await.map(drop)
}

/// Kubernetes' controller takes a claim that is the pod's for that which it would have made from the template.
#[tokio::test]
async fn a_claim_that_is_slipped_under_a_template_is_charged_as_it_is() -> Outcome {
    let (_, scenario, tenant, card) = scene("claims-slipped", 1).await?;
    let held = tenant
        .create(&by_template(scenario.pod("held"), "small").build())
        .await?;
    scenario.waits("held", "ResourceClaimNotFound").await?;
    let large = slipped_under(&held, &exactly(NVIDIA, 5, Some(&card)))?;
    tenant.create(&large).await?;
    tenant
        .create(&made_from("small", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    waits_with(&scenario, "held", &format!("{card} asked 5, used 0, quota 1")).await?;
    assert_eq!(allocated(&scenario).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn looking_at_devices_takes_an_administrator_and_gives_nothing() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-admin", 1).await?;
    let mut looks = exactly(NVIDIA, 8, Some(&card));
    looks[0]["exactly"]["adminAccess"] = true.into();
    tenant.is_refused(&by_hand("looks", &looks)?, "admin access").await?;
    let label = format!("{ADMIN_ACCESS}=true");
    let label = ["label", "namespace", scenario.name(), &label];
    let output = tenant.kubectl().output(label, None).await?;
    ensure!(!output.status.success(), "a tenant labels namespaces");
    world.plane.kubectl().run(label).await?;
    wait::eventually("the label to count", wait::PATIENCE, async || {
        let created = tenant
            .api()
            .create(&PostParams::default(), &by_hand("looks", &looks)?)
            .await;
        Ok(Seen::when(created.is_ok(), format!("{:?}", created.err())))
    })
    .await?;
    tenant
        .create(&by_name(scenario.pod("monitor"), "looks").build())
        .await?;
    scenario.expect("monitor", &tally().running(NO_CARD, 1)).await?;
    card_has(world, &card, |status| (status.used, status.free) == (0, 8)).await?;
    // What is taken beside what is looked at is charged.
    looks.as_array_mut().into_iter().for_each(|requests| {
        let mut takes = exactly(NVIDIA, 2, Some(&card))[0].clone();
        takes["name"] = "takes".into();
        requests.push(takes);
    });
    tenant.create(&by_hand("both", &looks)?).await?;
    tenant.create(&by_name(scenario.pod("both"), "both").build()).await?;
    waits_with(&scenario, "both", &format!("{card} asked 2, used 0, quota 1")).await
}

/// By the resource that a class has, and by that which every class has of itself.
#[tokio::test]
async fn what_classes_provide_is_shown_where_no_queue_is_named() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-unqueued", 1).await?;
    let selector = format!("device.attributes['{NVIDIA}'].productName == '{card}'");
    cardgate_tests::devices::class(
        &world.plane,
        "unqueued.example.com",
        &selector,
        Some("example.com/unqueued"),
    )
    .await?;
    let of = |name: &str, resource: &str| pod(name).namespace(scenario.name()).request(resource, 2);
    for (name, resource) in [
        ("extended", "example.com/unqueued"),
        ("implicit", "deviceclass.resource.kubernetes.io/unqueued.example.com"),
    ] {
        tenant.create(&of(name, resource).build()).await?;
        scenario.expect(name, &tally().running(NO_CARD, 1)).await?;
    }
    card_has(world, &card, |status| (status.used, status.unaccounted) == (4, 4)).await?;
    // Of what is gone so, nobody is let in for it again.
    scenario.apply_queue(scenario.queue().quota(&card, 8)).await?;
    tenant
        .create(&made_from("five", &exactly(NVIDIA, 5, Some(&card)))?)
        .await?;
    tenant
        .create(&by_template(scenario.pod("five"), "five").build())
        .await?;
    scenario.waits("five", "NoNodeFits").await.map(drop)
}

#[tokio::test]
async fn a_template_that_is_made_anew_changes_nothing_for_pods_that_have_their_claims() -> Outcome {
    let (_, scenario, tenant, card) = scene("claims-template", 0).await?;
    tenant
        .create(&made_from("t", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    tenant.create(&by_template(scenario.pod("early"), "t").build()).await?;
    waits_with(&scenario, "early", &format!("{card} asked 1")).await?;
    scenario.delete::<ResourceClaimTemplate>("t").await?;
    tenant
        .create(&made_from("t", &exactly(NVIDIA, 8, Some(&card)))?)
        .await?;
    tenant.create(&by_template(scenario.pod("late"), "t").build()).await?;
    waits_with(&scenario, "late", &format!("{card} asked 8")).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.expect("early", &tally().running(&card, 1)).await?;
    scenario.expect_for_good("late", &tally().waiting(NO_QUOTA, 1)).await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 1);
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_made_anew_is_charged_as_it_is_now() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-anew", 1).await?;
    // While its pod waits.
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    tenant.create(&by_name(scenario.pod("held"), "mine").build()).await?;
    waits_with(&scenario, "held", &format!("{card} asked 2")).await?;
    delete(&tenant, "mine").await?;
    scenario.waits("held", "ResourceClaimNotFound").await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 4, Some(&card)))?)
        .await?;
    waits_with(&scenario, "held", &format!("{card} asked 4, used 0, quota 1")).await?;
    scenario.delete::<Pod>("held").await?;

    // After its pod was let in, while the scheduler can't place it: the queue is charged for all of it, has no quota for that, and so
    // the pod is evicted. With or without a controller.
    tenant
        .create(&by_hand("grows", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    let beside = beside_nobody()?;
    let grows = by_name(scenario.pod("grows"), "grows").spec(|spec| spec.affinity = Some(beside));
    tenant.create(&grows.build()).await?;
    is_let_in(&scenario, "grows").await?;
    delete(&tenant, "grows").await?;
    is_gone(&scenario, "grows").await?;
    // What it was let in for stays taken while nobody knows what it will be.
    tenant
        .create(&made_from("one", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    tenant
        .create(&by_template(scenario.pod("other"), "one").build())
        .await?;
    waits_with(&scenario, "other", &format!("{card} asked 1, used 1, quota 1")).await?;
    tenant
        .create(&by_hand("grows", &exactly(NVIDIA, 3, Some(&card)))?)
        .await?;
    is_evicted_for(
        &scenario,
        "grows",
        &format!("let in for 1 {card}, and its resource claims are others now, for 3 {card}"),
    )
    .await?;
    scenario.expect("other", &tally().running(&card, 1)).await?;
    card_has(world, &card, |status| status.used == 1).await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 1);
    Ok(())
}

#[tokio::test]
async fn a_larger_claim_that_is_slipped_under_a_pod_that_was_let_in_costs_it_the_place() -> Outcome {
    let (_, scenario, tenant, card) = scene("claims-regrown", 1).await?;
    tenant
        .create(&made_from("t", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    let beside = beside_nobody()?;
    let grows = by_template(scenario.pod("grows"), "t").spec(|spec| spec.affinity = Some(beside));
    let grows = tenant.create(&grows.build()).await?;
    is_let_in(&scenario, "grows").await?;
    let pod = scenario.api::<Pod>().get("grows").await?;
    let made = pod.status.and_then(|status| status.resource_claim_statuses);
    let made = made.into_iter().flatten().find_map(|made| made.resource_claim_name);
    let made = made.context("no claim was made")?;
    // Kubernetes looks for the pod's claim anew when the pod changes, or sooner, and finds this one, of another name.
    tenant
        .create(&slipped_under(&grows, &exactly(NVIDIA, 8, Some(&card)))?)
        .await?;
    delete(&tenant, &made).await?;
    is_gone(&scenario, &made).await?;
    let change = json!({ "metadata": { "labels": { "seen": "again" } } });
    let changed = tenant
        .api::<Pod>()
        .patch("grows", &PatchParams::default(), &Patch::Merge(change))
        .await;
    let is_gone_already = matches!(&changed, Err(kube::Error::Api(status)) if status.code == 404);
    ensure!(changed.is_ok() || is_gone_already, "{changed:?}");
    is_evicted_for(
        &scenario,
        "grows",
        &format!("let in for 1 {card}, and its resource claims are others now, for 8 {card}"),
    )
    .await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 0);
    Ok(())
}

/// A claim that Kubernetes takes for the one that it made for a pod from its template.
fn slipped_under(pod: &Pod, requests: &Value) -> Result<ResourceClaim> {
    let mut claim = by_hand("large", requests)?;
    claim.metadata = serde_json::from_value(json!({
        "name": "large", "annotations": { "resource.kubernetes.io/pod-claim-name": "gpu" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid(), "controller": true }],
    }))?;
    Ok(claim)
}

/// Keeps a pod from being placed for as long as its owner likes.
fn beside_nobody() -> Result<Affinity> {
    let beside = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "friend" } } }] } });
    Ok(serde_json::from_value(beside)?)
}

async fn is_let_in(scenario: &Scenario<'_>, pod: &str) -> Outcome {
    wait::object(&scenario.api::<Pod>(), pod, "its admission", |found| {
        let gates = found.and_then(|pod| pod.spec.as_ref()?.scheduling_gates.clone());
        Seen::when(found.is_some() && gates.unwrap_or_default().is_empty(), "held")
    })
    .await?;
    Ok(())
}

/// A pod is evicted since its claims are others now, and told so in these words.
async fn is_evicted_for(scenario: &Scenario<'_>, pod: &str, said: &str) -> Outcome {
    wait::object(&scenario.api::<Pod>(), pod, "its eviction", |found| {
        Seen::when(found.is_none(), format!("{found:?}"))
    })
    .await?;
    wait::eventually("that it is told why", wait::PATIENCE, async || {
        let events = scenario.events(pod, "ResourceClaimChanged").await?;
        let notes: Vec<_> = events.into_iter().filter_map(|event| event.message).collect();
        Ok(Seen::when(
            notes.iter().any(|note| note.starts_with(said)),
            format!("{notes:?}"),
        ))
    })
    .await
}

#[tokio::test]
async fn a_pod_that_is_made_anew_with_its_claim_is_charged_again() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-again", 2).await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    tenant
        .create(&made_from("one", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    let mine = by_name(scenario.pod("mine"), "mine");
    tenant.create(&mine.clone().build()).await?;
    scenario.expect("mine", &tally().running(&card, 1)).await?;
    tenant
        .create(&by_template(scenario.pod("other"), "one").build())
        .await?;
    waits_with(&scenario, "other", "used 2, quota 2").await?;
    // The next in line has its turn meanwhile, and the same claim is charged as if it were new.
    scenario.delete::<Pod>("mine").await?;
    scenario.expect("other", &tally().running(&card, 1)).await?;
    tenant.create(&mine.build()).await?;
    waits_with(&scenario, "mine", &format!("{card} asked 2, used 1, quota 2")).await?;
    card_has(world, &card, |status| status.used == 1).await?;
    scenario.delete::<Pod>("other").await?;
    scenario.expect("mine", &tally().running(&card, 1)).await
}

/// Which claims a pod has, what they got and for whom, Kubernetes' own components write alone.
#[tokio::test]
async fn nobody_forges_what_claims_are_and_have() -> Outcome {
    let (_, scenario, tenant, card) = scene("claims-forged", 1).await?;
    tenant
        .create(&made_from("two", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    let held = by_template(scenario.pod("held"), "two").annotation(CARD_ASSIGNED, &card);
    let created = tenant.create(&held.build()).await?;
    assert_eq!(created.annotations().get(CARD_ASSIGNED), None, "the door takes it off");
    waits_with(&scenario, "held", "asked 2, used 0, quota 1").await?;
    let own = json!({ "status": { "resourceClaimStatuses": [{ "name": "gpu", "resourceClaimName": "mine" }] } });
    let foreign = json!({ "status": { "reservedFor": [{ "resource": "pods", "name": "held", "uid": created.uid() }],
        "allocation": { "devices": { "results": [] } } } });
    for (kind, name, patch) in [("pod", "held", own), ("resourceclaim", "mine", foreign)] {
        let patch = patch.to_string();
        let args = [
            "-n",
            scenario.name(),
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        let output = tenant.kubectl().output(args, None).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.contains("orbidden"), "{kind}: {said}");
    }
    let annotated = json!({ "metadata": { "annotations": { CARD_ASSIGNED: card } } });
    tenant.may_not_change::<Pod>("held", annotated, "only").await?;
    let labelled = by_template(scenario.pod("labelled"), "two").label(QUEUE_LABEL, "another");
    let labelled = tenant.create(&labelled.build()).await?;
    assert_eq!(
        labelled.labels().get(QUEUE_LABEL).map(String::as_str),
        Some(scenario.name())
    );
    assert_eq!(allocated(&scenario).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_claim_under_a_pod_that_runs_cannot_be_taken_away_from_its_charge() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-under", 2).await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    tenant
        .create(&made_from("one", &exactly(NVIDIA, 1, Some(&card)))?)
        .await?;
    tenant.create(&by_name(scenario.pod("runs"), "mine").build()).await?;
    scenario.expect("runs", &tally().running(&card, 1)).await?;
    // Kubernetes protects it by a finalizer, which stays.
    delete(&tenant, "mine").await?;
    let unprotected = json!({ "metadata": { "finalizers": null } });
    tenant
        .may_not_change::<ResourceClaim>("mine", unprotected.clone(), "delete the pods that use it")
        .await?;
    // Whoever may take the devices back may take it off.
    scenario.change::<ResourceClaim>("mine", unprotected).await?;
    is_gone(&scenario, "mine").await?;
    tenant
        .create(&by_template(scenario.pod("other"), "one").build())
        .await?;
    waits_with(&scenario, "other", "used 2, quota 2").await?;
    scenario.expect_for_good("other", &tally().waiting(NO_QUOTA, 1)).await?;
    scenario.delete::<Pod>("runs").await?;
    scenario.expect("other", &tally().running(&card, 1)).await?;
    card_has(world, &card, |status| status.used == 1).await
}

/// What is over holds nothing, and its claim is free for the next.
#[tokio::test]
async fn a_claim_of_a_pod_that_has_ended_holds_nothing() -> Outcome {
    let (world, scenario, tenant, card) = scene("claims-ended", 2).await?;
    tenant
        .create(&by_hand("mine", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    tenant
        .create(&made_from("two", &exactly(NVIDIA, 2, Some(&card)))?)
        .await?;
    let ends = by_name(scenario.pod("ends"), "mine");
    tenant.create(&ends.job(1)).await?;
    let jobs = scenario.api::<k8s_openapi::api::batch::v1::Job>();
    wait::object(&jobs, "ends", "its end", |job| {
        let succeeded = job.and_then(|job| job.status.as_ref()?.succeeded);
        Seen::when(succeeded == Some(1), format!("{succeeded:?}"))
    })
    .await?;
    card_has(world, &card, |status| status.used == 0).await?;
    tenant.create(&by_template(scenario.pod("next"), "two").build()).await?;
    scenario.expect("next", &tally().running(&card, 1)).await?;
    wait::eventually("two devices in all", wait::PATIENCE, async || {
        let given: usize = allocated(&scenario).await?.values().sum();
        Ok(Seen::when(given == 2, given.to_string()))
    })
    .await
}

/// Claims without pods cost nothing but their memory, long selectors no more than they are long, and nobody else waits for them.
#[tokio::test]
async fn many_claims_with_long_selectors_keep_nobody_waiting() -> Outcome {
    const PODS: usize = 200;
    const CLAIMS: usize = 1_000;
    const AT_ONCE: usize = 16;
    let (world, scenario, tenant, card) = scene("claims-many", 1).await?;
    let (_, other, _, others_card) = scene("claims-others", 8).await?;
    let long = |number: usize| {
        let terms = (0..30).map(|term| {
            format!(
                "device.attributes['{NVIDIA}'].productName == '{number}-{term}-{}'",
                "x".repeat(150)
            )
        });
        let mut requests = exactly(NVIDIA, 1, None);
        let expression = terms.chain([format!("device.attributes['{NVIDIA}'].productName == '{card}'")]);
        let expression = expression.collect::<Vec<_>>().join(" || ");
        requests[0]["exactly"]["selectors"] = json!([{ "cel": { "expression": expression } }]);
        requests
    };
    let tenant = &tenant;
    let claims = (0..CLAIMS).map(|number| {
        let requests = long(number);
        async move {
            tenant
                .create(&by_hand(&format!("claim-{number}"), &requests)?)
                .await
                .map(drop)
        }
    });
    stream::iter(claims)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let pods = (0..PODS).map(|number| {
        let pod: PodBuilder = by_name(scenario.pod(&format!("pod-{number}")), &format!("claim-{number}"));
        async move { tenant.create(&pod.build()).await.map(drop) }
    });
    stream::iter(pods).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    // Each other model of devices has all of them looked at again.
    for number in 0..5 {
        publish(
            &world.plane,
            &format!("claims-many-more-{number}"),
            NVIDIA,
            &gpus(&format!("other-{number}"), 1),
        )
        .await?;
    }
    template(world, &other, "one", &exactly(NVIDIA, 1, Some(&others_card))).await?;
    let began = Instant::now();
    other.create(&by_template(other.pod("quick"), "one").build()).await?;
    other.expect("quick", &tally().running(&others_card, 1)).await?;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "another tenant's pod took {took:?}");
    let running = scenario.api::<ResourceClaim>().list(&ListParams::default()).await?;
    let has = |claim: &&ResourceClaim| claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
    assert!(running.items.iter().filter(has).count() <= 1);
    Ok(())
}
