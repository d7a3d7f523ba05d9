//! No input costs more than its size: what is too long, too many or too complex is refused, at the door and without it, and
//! delays nobody else.

use anyhow::{Context as _, Result};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::world::World;
use crds::keys::{
    CARD_QUOTA, CARD_REQUEST, GROUP_NAME, MGPU_CONTAINER_CARDS, MGPU_CORE, MGPU_MEMORY, MGPU_POLICY, MGPU_SCHEDULE,
    QUEUE_NAME, SCORING_STRATEGY,
};
use crds::volcano::PodGroup;
use futures::future::join_all;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Pod, PodResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::Outcome;
use crate::tenant::{Tenant, expect_refusal};

const NATIVE: &str = "native-burst-share";
/// Memory of a card, in MiB.
const MEMORY: i64 = 81_559;

/// A pod whose containers ask for so much compute and memory of so many cards each.
fn shares(scenario: &Scenario<'_>, name: &str, containers: &[(i64, i64, i64)]) -> Pod {
    let cards: Vec<_> = containers.iter().map(|(cards, ..)| cards.to_string()).collect();
    let pod = scenario
        .pod(name)
        .node_selector("scenario", scenario.name())
        .annotation(MGPU_POLICY, NATIVE)
        .annotation(MGPU_CONTAINER_CARDS, &cards.join(","));
    let containers = containers.iter().enumerate().map(|(index, (cards, core, memory))| {
        let amounts = [(MGPU_CORE, cards * core), (MGPU_MEMORY, cards * memory)];
        let limits = amounts.map(|(resource, amount)| (resource.to_owned(), Quantity(amount.to_string())));
        Container {
            name: format!("c{index}"),
            image: Some("image".to_owned()),
            resources: Some(ResourceRequirements {
                limits: Some(limits.into()),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        }
    });
    let mut pod = pod.build();
    pod.spec.get_or_insert_default().containers = containers.collect();
    pod
}

/// Ten containers on up to seven cards each, whose shares can be combined in more ways than anybody can try.
fn complex(scenario: &Scenario<'_>, name: &str, variant: i64) -> Pod {
    let container = |index: i64| {
        (
            1 + (index * 5) % 7,
            3 + index % 6,
            MEMORY / 5 - 900 + (index * 431) % 1800,
        )
    };
    let mut pod = shares(scenario, name, &(0..10).map(container).collect::<Vec<_>>());
    // Nothing is known of it from the others.
    let first = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers).next();
    let limits = first.and_then(|first| first.resources.as_mut()?.limits.as_mut());
    limits.map(|limits| limits.insert("cpu".to_owned(), Quantity(format!("{variant}m"))));
    pod
}

/// A node with eight cards to share, which only this scenario has.
pub(crate) fn mgpu_node(scenario: &Scenario<'_>) -> NodeSpec {
    NodeSpec::new(format!("{}-0", scenario.name()))
        .label("scenario", scenario.name())
        .label(MGPU_SCHEDULE.0, MGPU_SCHEDULE.1)
        .label(MGPU_POLICY, NATIVE)
        .label("nvidia.com/gpu.product", &scenario.card("NVIDIA-A100"))
        .label("nvidia.com/gpu.count", "8")
        .label("nvidia.com/gpu.memory", &MEMORY.to_string())
        .allocatable(MGPU_CORE, "800")
        .allocatable(MGPU_MEMORY, &(8 * MEMORY).to_string())
}

/// A scenario with a queue, and its tenant.
async fn scene<'w>(world: &'w World, name: &str) -> Result<(Scenario<'w>, Tenant)> {
    let scenario = Scenario::begin(world, name).await?;
    let shares = format!("{}/mgpu", scenario.card("NVIDIA-A100"));
    let queue = scenario.queue().capability("cpu", "1000").capability("memory", "1Ti");
    let queue = queue.quota(&shares, 800);
    scenario.apply_queue(queue).await?;
    let tenant = Tenant::of(scenario.plane(), name).await?;
    Ok((scenario, tenant))
}

async fn runs(scenario: &Scenario<'_>, name: &str) -> Result<()> {
    let pods = scenario.api::<Pod>();
    wait::eventually(format!("pod {name} to run"), wait::PATIENCE, async || {
        let pod = pods.get(name).await?;
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        Ok(Seen::when(phase == "Running", phase))
    })
    .await
}

/// The 38,000 alternatives that once stalled every decision, 255 kB.
fn alternatives() -> String {
    (0..38_000)
        .map(|index| format!("A{index}"))
        .collect::<Vec<_>>()
        .join("|")
}

#[tokio::test]
async fn pods_of_many_shares_hold_nobody_up() -> Outcome {
    let world = World::shared().await?;
    let (attacked, tenant) = scene(world, "bounds-shares").await?;
    attacked.nodes(&[mgpu_node(&attacked)]).await?;
    let (other, honest) = scene(world, "bounds-others").await?;

    // Each 3 to 8 core and about a third of a card.
    let many: Vec<_> = (0..24)
        .map(|index| (1, 3 + index % 6, MEMORY / 3 + 37 * index))
        .collect();
    let refusal = "the pod has 24 containers that request mGPU, and 16 are allowed: split the pod";
    tenant.is_refused(&shares(&attacked, "many", &many), refusal).await?;

    for variant in 0..6 {
        tenant
            .create(&complex(&attacked, &format!("complex-{variant}"), 1 + variant))
            .await?;
    }
    honest.create(&other.pod("honest").request("cpu", "1").build()).await?;
    runs(&other, "honest").await?;
    for variant in 0..6 {
        let condition = attacked.waits(&format!("complex-{variant}"), "TooComplex").await?;
        let message = condition.message.unwrap_or_default();
        assert!(
            message.contains("the pod's 10 containers") && message.contains("split the pod"),
            "{message}"
        );
    }
    // The same tenant's other pods find their place all the same.
    tenant.create(&shares(&attacked, "simple", &[(2, 30, 3000)])).await?;
    runs(&attacked, "simple").await
}

#[tokio::test]
async fn what_is_too_long_or_too_many_is_refused_and_costs_others_nothing() -> Outcome {
    let world = World::shared().await?;
    let (scenario, tenant) = scene(world, "bounds-door").await?;
    let (other, honest) = scene(world, "bounds-door-others").await?;
    let node = NodeSpec::new("bounds-door-others").label("scenario", other.name());
    other.nodes(&[node]).await?;
    let queue = scenario.name().to_owned();
    let named = |name: &str| pod(name).namespace(&queue).queue(&queue);

    let long = named("long").card(&alternatives()).build();
    tenant
        .is_refused(&long, "bytes, and 4096 are allowed: name the few that the pod prefers")
        .await?;
    let more: Vec<_> = (0..33).map(|index| format!("C{index}")).collect();
    let more = named("more").card(&more.join("|")).build();
    tenant
        .is_refused(
            &more,
            "has 33 alternatives, and 32 are allowed: name the few that the pod prefers",
        )
        .await?;
    let one = named("one").card(&"x".repeat(161)).build();
    tenant
        .is_refused(&one, "has 161 bytes, and 160 are allowed: write the card's name as")
        .await?;
    let strategy = named("strategy")
        .annotation(SCORING_STRATEGY, &"most-allocated".repeat(9))
        .build();
    tenant.is_refused(&strategy, "is no scoring strategy").await?;
    let group = named("group").annotation(GROUP_NAME, &"g".repeat(254)).build();
    tenant
        .is_refused(&group, "has 254 bytes, and 253 are allowed: name a PodGroup")
        .await?;

    // Sixteen dry runs at once, and another tenant's pod.
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods = tenant.api::<Pod>();
    let attacks = join_all((0..16).map(|_| pods.create(&dry, &long)));
    let pod = other.pod("honest").request("cpu", "1");
    let pod = pod.node_selector("scenario", other.name()).build();
    let (attacks, created) = tokio::join!(attacks, honest.create(&pod));
    created?;
    for answer in attacks {
        expect_refusal(answer, "bytes, and 4096 are allowed")?;
    }
    runs(&other, "honest").await?;

    // A group is named once, after the creation: by a name that it can have.
    tenant.create(&named("grows").gate("example.com/other").build()).await?;
    let patch = json!({"metadata": {"annotations": {GROUP_NAME: "g".repeat(254)}}});
    tenant
        .may_not_change::<Pod>("grows", patch, "more characters than the 253 that a name can have")
        .await?;

    let entries = |count: usize| {
        let entries: Vec<_> = (0..count).map(|index| format!("\"C{index}\":1")).collect();
        format!("{{{}}}", entries.join(","))
    };
    let job = job(&entries(65))?;
    tenant
        .is_refused(&job, "the object has 65 cards, and 64 are allowed: leave out the cards")
        .await?;
    // An administrator's slip is refused as well.
    let queue = queue_with(&entries(257));
    let said = scenario
        .kubectl_create(&queue)
        .await?
        .err()
        .context("the Queue was created")?;
    assert!(
        said.contains("the object has 257 cards, and 256 are allowed: leave out the cards"),
        "{said}"
    );
    Ok(())
}

fn job(request: &str) -> Result<Job> {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "attack", "annotations": {CARD_REQUEST: request}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "image"}]}}},
    });
    Ok(serde_json::from_value(job)?)
}

fn queue_with(quota: &str) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": "bounds-attack", "annotations": {CARD_QUOTA: quota}}, "spec": {},
    })
}

/// With both webhook configurations deleted, and nobody there to restore them, the policies inside the API server refuse in
/// words of their own.
#[tokio::test]
async fn without_the_door_the_policies_have_the_same_bounds() -> Outcome {
    let world = World::start().await?;
    let (scenario, tenant) = scene(&world, "bounds-policies").await?;
    let client = scenario.plane().client().await?;
    world.cardgate.operator().kill()?;
    let delete = DeleteParams::default();
    Api::<MutatingWebhookConfiguration>::all(client.clone())
        .delete("cardgate", &delete)
        .await?;
    Api::<ValidatingWebhookConfiguration>::all(client.clone())
        .delete("cardgate", &delete)
        .await?;
    let named = |name: &str| scenario.pod(name);
    // The API server forgets a deleted webhook by a watch of its own.
    let probe = named("probe").card(&alternatives()).build();
    wait::eventually("the webhooks to be gone", wait::PATIENCE, async || {
        let refused = tenant.api::<Pod>().create(&PostParams::default(), &probe).await;
        let said = refused.map_or_else(|error| error.to_string(), |_| "created".to_owned());
        Ok(Seen::when(said.contains("ValidatingAdmissionPolicy"), said))
    })
    .await?;

    let refused = async |pod: PodBuilder, says: &str| tenant.is_refused(&pod.build(), says).await;
    refused(
        named("long").card(&alternatives()),
        "annotation volcano.sh/card.name has 254889 characters, and 4096 are allowed: shorten it",
    )
    .await?;
    let more: Vec<_> = (0..33).map(|index| format!("C{index}")).collect();
    refused(
        named("more").card(&more.join("|")),
        "annotation volcano.sh/card.name has 33 alternatives, and 32 are allowed: name the few that the pod prefers",
    )
    .await?;
    for (key, most) in [
        (QUEUE_NAME, 253),
        (GROUP_NAME, 253),
        (SCORING_STRATEGY, 64),
        (MGPU_POLICY, 64),
        (MGPU_CONTAINER_CARDS, 1024),
    ] {
        let says = format!(
            "annotation {key} has {} characters, and {most} are allowed: shorten it",
            most + 1
        );
        let long = named("long").request(MGPU_CORE, 100);
        refused(long.annotation(key, &"1".repeat(most + 1)), &says).await?;
    }
    let many: Vec<_> = (0..17).map(|index| (1, 3 + index % 6, MEMORY / 3)).collect();
    let says = "the pod has 17 containers that request mGPU, and 16 are allowed: split the pod";
    tenant.is_refused(&shares(&scenario, "many", &many), says).await?;

    let claims = (0..65).map(|index| PodResourceClaim {
        name: format!("c{index}"),
        resource_claim_name: Some("c".to_owned()),
        resource_claim_template_name: None,
    });
    // Of no queue, too.
    let claims = pod("claims").spec(|spec| spec.resource_claims = Some(claims.collect()));
    let says = "spec.resourceClaims names 65 claims, and 64 are allowed: claim several devices by one";
    tenant.is_refused(&claims.build(), says).await?;

    let long = "x".repeat(16_385);
    let says = "annotation volcano.sh/card.request has 16385 characters, and 16384 are allowed: leave out the cards";
    tenant.is_refused(&job(&long)?, says).await?;
    let mut group = PodGroup::default();
    group.metadata.name = Some("group".to_owned());
    group.metadata.annotations = Some([(CARD_REQUEST.to_owned(), long)].into());
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), scenario.name());
    expect_refusal(groups.create(&PostParams::default(), &group).await, says)?;
    let resources = (0..65).map(|index| (format!("example.com/r{index}"), json!("1")));
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "group"},
        "spec": {"minMember": 1, "minResources": Value::Object(resources.collect())},
    });
    let said = scenario
        .kubectl_create(&group)
        .await?
        .err()
        .context("the PodGroup was created")?;
    assert!(
        said.contains("spec.minResources has 65 resources, and 64 are allowed"),
        "{said}"
    );
    let tasks = (0..257).map(|index| (format!("t{index}"), json!(1)));
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "group"},
        "spec": {"minMember": 257, "minTaskMember": Value::Object(tasks.collect())},
    });
    let said = scenario.kubectl_create(&group).await?.err();
    let said = said.context("the PodGroup of many tasks was created")?;
    assert!(said.contains("spec.minTaskMember names more than 256 tasks"), "{said}");
    let queue = queue_with(&"x".repeat(32_769));
    let said = scenario
        .kubectl_create(&queue)
        .await?
        .err()
        .context("the Queue was created")?;
    assert!(
        said.contains("annotation volcano.sh/card.quota has 32769 characters, and 32768 are allowed"),
        "{said}"
    );
    Ok(())
}
