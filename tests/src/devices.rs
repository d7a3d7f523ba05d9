//! Devices as drivers publish them, and claims of them: cards by Dynamic Resource Allocation, for tests.

use std::collections::BTreeMap;

use anyhow::Result;
use crds::card_type::{CardType, CardTypeStatus};
use crds::slug::slug;
use k8s_openapi::api::core::v1::PodResourceClaim;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::controlplane::ControlPlane;
use crate::nodes::NodeSpec;
use crate::scenario::Scenario;
use crate::wait::{self, Seen};
use crate::workloads::PodBuilder;
use crate::world::World;

/// NVIDIA's driver, and its class of whole cards.
pub const NVIDIA: &str = "gpu.nvidia.com";
/// The class of parts of cards.
pub const MIG: &str = "mig.nvidia.com";
/// The class of devices that are no cards, and their driver.
pub const FPGA: &str = "fpga.example.com";

/// Installs the classes that NVIDIA's driver installs, and one of devices that are no cards.
pub async fn classes(plane: &ControlPlane) -> Result<()> {
    let of_type = |kind: &str| format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'");
    class(plane, NVIDIA, &of_type("gpu"), Some("nvidia.com/gpu")).await?;
    class(plane, MIG, &of_type("mig"), None).await?;
    class(plane, FPGA, &format!("device.driver == '{FPGA}'"), None).await
}

/// Installs a class of the devices that an expression selects, and the resource by which pods may request them.
pub async fn class(plane: &ControlPlane, name: &str, expression: &str, extended: Option<&str>) -> Result<()> {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": extended}});
    plane.apply(&class).await.map(drop)
}

/// Whole cards, as NVIDIA's driver publishes them.
pub fn gpus(product: &str, count: usize) -> Vec<Value> {
    let device = |index: usize| {
        json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"},
            "productName": {"string": product}, "brand": {"string": "Nvidia"}, "index": {"int": index},
            "uuid": {"string": format!("GPU-{index}")}, "driverVersion": {"version": "570.86.15"}},
            "capacity": {"memory": {"value": "80Gi"}}})
    };
    (0..count).map(device).collect()
}

/// Parts of cards, as NVIDIA's driver publishes them.
pub fn migs(product: &str, profile: &str, count: usize) -> Vec<Value> {
    let device = |index: usize| {
        json!({"name": format!("gpu-0-mig-{index}"), "attributes": {"type": {"string": "mig"},
            "productName": {"string": product}, "profile": {"string": profile}, "parentUUID": {"string": "GPU-0"}},
            "capacity": {"memory": {"value": "4864Mi"}}})
    };
    (0..count).map(device).collect()
}

/// Publishes the devices of a driver on a node, as one pool of one slice.
pub async fn publish(plane: &ControlPlane, node: &str, driver: &str, devices: &[Value]) -> Result<()> {
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{driver}")},
        "spec": {"driver": driver, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
    plane.apply(&slice).await.map(drop)
}

/// Creates nodes without any feature label, each with whole cards by devices.
pub async fn nodes(scenario: &Scenario<'_>, world: &World, products: &[(&str, usize)]) -> Result<()> {
    let name = |index: usize| format!("{}-{index}", scenario.name());
    let specs: Vec<_> = (0..products.len()).map(|index| NodeSpec::new(name(index))).collect();
    scenario.nodes(&specs).await?;
    for (index, (product, count)) in products.iter().enumerate() {
        publish(&world.plane, &name(index), NVIDIA, &gpus(product, *count)).await?;
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
pub async fn card_has(world: &World, card: &str, expected: impl Fn(&CardTypeStatus) -> bool) -> Result<()> {
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    wait::object(&types, &slug(card), "the numbers that are expected", |found| {
        let status = found.and_then(|found| found.status.clone());
        Seen::when(status.as_ref().is_some_and(&expected), format!("{status:?}"))
    })
    .await
    .map(drop)
}

/// A form of a request: a class, how many, and the product, where it is to be one.
pub fn form(class: &str, count: usize, product: Option<&str>) -> Value {
    let expression = |product: &str| format!("device.attributes['{NVIDIA}'].productName == '{product}'");
    let selectors = product.map_or(
        json!([]),
        |product| json!([{"cel": {"expression": expression(product)}}]),
    );
    json!({"deviceClassName": class, "count": count, "selectors": selectors, "allocationMode": "ExactCount"})
}

/// A request for that.
pub fn exactly(class: &str, count: usize, product: Option<&str>) -> Value {
    json!([{"name": "gpu", "exactly": form(class, count, product)}])
}

/// Creates what claims are made from, in the scenario's namespace.
pub async fn template(world: &World, scenario: &Scenario<'_>, name: &str, requests: &Value) -> Result<()> {
    template_in(&world.plane, scenario.name(), name, requests).await
}

/// Creates what claims are made from.
pub async fn template_in(plane: &ControlPlane, namespace: &str, name: &str, requests: &Value) -> Result<()> {
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"spec": {"devices": {"requests": requests}}}});
    plane.apply(&template).await.map(drop)
}

/// Creates a claim by hand.
pub async fn claim(world: &World, scenario: &Scenario<'_>, name: &str, requests: &Value) -> Result<()> {
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": scenario.name()}, "spec": {"devices": {"requests": requests}}});
    world.plane.apply(&claim).await.map(drop)
}

/// With claims that are made from a template.
pub fn by_template(pod: PodBuilder, template: &str) -> PodBuilder {
    pod.spec(|spec| {
        spec.resource_claims = Some(vec![PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_template_name: Some(template.to_owned()),
            resource_claim_name: None,
        }]);
    })
}

/// With a claim that others may name too.
pub fn by_name(pod: PodBuilder, claim: &str) -> PodBuilder {
    pod.spec(|spec| {
        spec.resource_claims = Some(vec![PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_name: Some(claim.to_owned()),
            resource_claim_template_name: None,
        }]);
    })
}

/// How many devices of each node's pool are allocated to the claims of a namespace.
pub async fn allocated(scenario: &Scenario<'_>) -> Result<BTreeMap<String, usize>> {
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
