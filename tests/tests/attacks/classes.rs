//! Cards for nothing by resources of classes that have no device yet: what is asked for before there is anything.

use anyhow::Result;
use cardgate_tests::devices::{NVIDIA, class, gpus, publish};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::pod;
use cardgate_tests::world::World;
use crds::keys::{CARD_RESOURCES, NAMESPACE, POLICY_PARAMETERS, QUEUE_NAME};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;

use crate::Outcome;
use crate::tenant::Tenant;

const NO_QUOTA: &str = "InsufficientScalarQuota";
const NO_DEVICE: &str = "NoDeviceSelected";

/// A namespace that names its queue, which has one of these cards, and of which its pods say nothing.
async fn scene<'w>(name: &str) -> Result<(&'w World, Scenario<'w>, Tenant, String)> {
    let world = World::shared().await?;
    let scenario = Scenario::begin(world, name).await?;
    let card = scenario.card("NVIDIA-H100");
    scenario.nodes(&[NodeSpec::new(name)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let annotation = format!("{QUEUE_NAME}={}", scenario.name());
    let annotate = ["annotate", "namespace", scenario.name(), &annotation];
    scenario.plane().kubectl().run(annotate).await?;
    let tenant = Tenant::of(&world.plane, name).await?;
    // Until the door knows it: who comes earlier is in no queue.
    let probe = pod("probe")
        .namespace(scenario.name())
        .request("deviceclass.resource.kubernetes.io/any", 1);
    let (probe, pods) = (probe.build(), tenant.api::<Pod>());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually("the namespace's queue", wait::PATIENCE, async || {
        let made = pods.create(&dry_run, &probe).await?;
        let gates = made.spec.and_then(|spec| spec.scheduling_gates);
        Ok(Seen::when(gates.is_some(), format!("{gates:?}")))
    })
    .await?;
    Ok((world, scenario, tenant, card))
}

/// Two pods ask for a class's devices, by this resource, and the devices come when they wait: only as many are let in as the queue may have.
async fn two_wait_and_one_is_let_in(scene: &(&World, Scenario<'_>, Tenant, String), resource: &str) -> Outcome {
    let (world, scenario, tenant, card) = scene;
    for name in ["first", "second"] {
        let asks = pod(name).namespace(scenario.name()).request(resource, 1);
        tenant.create(&asks.build()).await?;
        scenario.waits(name, NO_DEVICE).await?;
    }
    publish(&world.plane, scenario.name(), NVIDIA, &gpus(card, 2)).await?;
    scenario.expect("first", &Tally::none().running(card, 1)).await?;
    scenario
        .expect_for_good("second", &Tally::none().waiting(NO_QUOTA, 1))
        .await
}

#[tokio::test]
async fn who_asks_for_a_class_before_it_has_devices_is_charged_when_it_has() -> Outcome {
    let scene = scene("classes-implicit").await?;
    let of_product = format!("device.attributes['{NVIDIA}'].productName == '{}'", scene.3);
    class(&scene.0.plane, "implicit.example.com", &of_product, None).await?;
    two_wait_and_one_is_let_in(&scene, "deviceclass.resource.kubernetes.io/implicit.example.com").await
}

#[tokio::test]
async fn nor_is_its_own_resource_a_way_past_the_gate() -> Outcome {
    let scene = scene("classes-extended").await?;
    let of_product = format!("device.attributes['{NVIDIA}'].productName == '{}'", scene.3);
    class(
        &scene.0.plane,
        "extended.example.com",
        &of_product,
        Some("example.com/extended"),
    )
    .await?;
    let parameters = Api::<ConfigMap>::namespaced(scene.0.plane.client().await?, NAMESPACE);
    wait::object(&parameters, POLICY_PARAMETERS, "the resource", |found| {
        let data = found.and_then(|parameters| parameters.data.clone()).unwrap_or_default();
        let list = data.get(CARD_RESOURCES).cloned().unwrap_or_default();
        Seen::when(list.contains("example.com/extended"), list)
    })
    .await?;
    two_wait_and_one_is_let_in(&scene, "example.com/extended").await
}
