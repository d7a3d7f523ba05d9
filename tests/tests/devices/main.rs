//! Cards by Dynamic Resource Allocation on a real control plane: its claim controller makes the claims, its scheduler allocates. The
//! drivers' part, publishing slices, is done by hand. The scenarios share one control plane and its device classes.

mod claims;
mod free_devices;
mod sharing;

use std::collections::BTreeMap;

use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::card_type::CardType;
use crds::slug::slug;
use k8s_openapi::api::core::v1::PodResourceClaim;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

type Outcome = anyhow::Result<()>;

/// The driver, and its class of whole cards.
const NVIDIA: &str = "gpu.nvidia.com";
/// The class of parts of cards.
const MIG: &str = "mig.nvidia.com";
/// The class of devices that are no cards, and their driver.
const FPGA: &str = "fpga.example.com";
/// The reason of pods that wait for quota.
const NO_QUOTA: &str = "InsufficientScalarQuota";

/// The world, with the device classes that NVIDIA's driver installs, and one of another's.
async fn world() -> anyhow::Result<&'static World> {
    static CLASSES: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    let class = async |name: &str, expression: String, extended: Option<&str>| {
        let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": extended}});
        world.plane.apply(&class).await.map(drop)
    };
    let of_type = |kind: &str| format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'");
    CLASSES
        .get_or_try_init(|| async {
            class(NVIDIA, of_type("gpu"), Some("nvidia.com/gpu")).await?;
            class(MIG, of_type("mig"), None).await?;
            class(FPGA, format!("device.driver == '{FPGA}'"), None).await
        })
        .await?;
    Ok(world)
}

fn pods() -> Tally {
    Tally::none()
}

/// Whole cards, as NVIDIA's driver publishes them.
fn gpus(product: &str, count: usize) -> Vec<Value> {
    let device = |index: usize| {
        json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"},
            "productName": {"string": product}, "brand": {"string": "Nvidia"}, "index": {"int": index},
            "uuid": {"string": format!("GPU-{index}")}, "driverVersion": {"version": "570.86.15"}},
            "capacity": {"memory": {"value": "80Gi"}}})
    };
    (0..count).map(device).collect()
}

/// Parts of cards, as NVIDIA's driver publishes them.
fn migs(product: &str, profile: &str, count: usize) -> Vec<Value> {
    let device = |index: usize| {
        json!({"name": format!("gpu-0-mig-{index}"), "attributes": {"type": {"string": "mig"},
            "productName": {"string": product}, "profile": {"string": profile}, "parentUUID": {"string": "GPU-0"}},
            "capacity": {"memory": {"value": "4864Mi"}}})
    };
    (0..count).map(device).collect()
}

/// Publishes the devices of a driver on a node, as one pool of one slice.
async fn publish(world: &World, node: &str, driver: &str, devices: &[Value]) -> Outcome {
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{driver}")},
        "spec": {"driver": driver, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
    world.plane.apply(&slice).await.map(drop)
}

/// Creates nodes without any feature label, each with whole cards by devices.
async fn nodes(scenario: &Scenario<'_>, world: &World, products: &[(&str, usize)]) -> Outcome {
    let name = |index: usize| format!("{}-{index}", scenario.name());
    let specs: Vec<_> = (0..products.len()).map(|index| NodeSpec::new(name(index))).collect();
    scenario.nodes(&specs).await?;
    for (index, (product, count)) in products.iter().enumerate() {
        publish(world, &name(index), NVIDIA, &gpus(product, *count)).await?;
    }
    for (product, count) in products {
        card_has(world, product, |status| {
            status.total >= i64::try_from(*count).unwrap_or(0)
        })
        .await?;
    }
    Ok(())
}

/// Awaits what is shown of a card.
async fn card_has(world: &World, card: &str, expected: impl Fn(&crds::card_type::CardTypeStatus) -> bool) -> Outcome {
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    wait::object(&types, &slug(card), "the numbers that are expected", |found| {
        let status = found.and_then(|found| found.status.clone());
        Seen::when(status.as_ref().is_some_and(&expected), format!("{status:?}"))
    })
    .await
    .map(drop)
}

/// A form of a request: a class, how many, and the product, where it is to be one.
fn form(class: &str, count: usize, product: Option<&str>) -> Value {
    let expression = |product: &str| format!("device.attributes['{NVIDIA}'].productName == '{product}'");
    let selectors = product.map_or(
        json!([]),
        |product| json!([{"cel": {"expression": expression(product)}}]),
    );
    json!({"deviceClassName": class, "count": count, "selectors": selectors, "allocationMode": "ExactCount"})
}

/// A request for that.
fn exactly(class: &str, count: usize, product: Option<&str>) -> Value {
    json!([{"name": "gpu", "exactly": form(class, count, product)}])
}

/// Creates a template of claims.
async fn template(world: &World, scenario: &Scenario<'_>, name: &str, requests: &Value) -> Outcome {
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": scenario.name()}, "spec": {"spec": {"devices": {"requests": requests}}}});
    world.plane.apply(&template).await.map(drop)
}

/// Creates a claim by hand.
async fn claim(world: &World, scenario: &Scenario<'_>, name: &str, requests: &Value) -> Outcome {
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": scenario.name()}, "spec": {"devices": {"requests": requests}}});
    world.plane.apply(&claim).await.map(drop)
}

/// With claims that are made from a template.
fn by_template(pod: PodBuilder, template: &str) -> PodBuilder {
    pod.spec(|spec| {
        spec.resource_claims = Some(vec![PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_template_name: Some(template.to_owned()),
            resource_claim_name: None,
        }]);
    })
}

/// With a claim that others may name too.
fn by_name(pod: PodBuilder, claim: &str) -> PodBuilder {
    pod.spec(|spec| {
        spec.resource_claims = Some(vec![PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_name: Some(claim.to_owned()),
            resource_claim_template_name: None,
        }]);
    })
}

/// How many devices of each node's pool are allocated to the claims of a namespace.
async fn allocated(scenario: &Scenario<'_>) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut pools = BTreeMap::new();
    for claim in scenario.api::<ResourceClaim>().list(&ListParams::default()).await? {
        let allocation = claim.status.and_then(|status| status.allocation);
        let results = allocation.and_then(|allocation| allocation.devices?.results);
        for result in results.unwrap_or_default() {
            *pools.entry(result.pool).or_default() += 1;
        }
    }
    Ok(pools)
}
