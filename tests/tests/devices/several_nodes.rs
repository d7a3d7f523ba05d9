//! Devices that several nodes reach: said to be in no number, and given to nobody on the quota of another card.

use cardgate_tests::devices::class;
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use serde_json::{Value, json};

use crate::{Outcome, allocated, by_template, card_has, pods, template, world};

/// A driver of its own, so that no other scenario's pods could get these.
const AMD: &str = "gpu.amd.com";

fn device(index: usize, product: &str) -> Value {
    json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "amdgpu"}, "productName": {"string": product}}})
}

#[tokio::test]
async fn devices_that_several_nodes_reach_are_told_of_and_get_nobody_past_a_quota() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-fabric").await?;
    let (own, fabric) = (scenario.card("AMD-MI300X"), scenario.card("AMD-FABRIC"));
    class(&world.plane, AMD, &format!("device.driver == '{AMD}'"), None).await?;
    scenario.nodes(&[NodeSpec::new("dra-fabric")]).await?;
    let slice = |name: &str, reach: &str, value: Value, product: &str| {
        let mut slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": AMD, "devices": [device(0, product), device(1, product)],
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}});
        slice["spec"][reach] = value;
        slice
    };
    world
        .plane
        .apply(&slice("dra-fabric-own", "nodeName", json!("dra-fabric"), &own))
        .await?;
    world
        .plane
        .apply(&slice("dra-fabric-all", "allNodes", json!(true), &fabric))
        .await?;
    card_has(world, &own, |status| (status.total, status.not_counted) == (2, 0)).await?;
    card_has(world, &fabric, |status| {
        let numbers = (status.total, status.free, status.not_counted);
        numbers == (0, 0, 2) && status.problems == "SeveralNodesReach"
    })
    .await?;
    // Quota for one of each does not help: nobody would know whether it was given.
    scenario
        .apply_queue(scenario.queue().quota(&own, 2).quota(&fabric, 2))
        .await?;
    let requests = |product: Option<&str>| {
        let expression = |product: &str| format!("device.attributes['{AMD}'].productName == '{product}'");
        let selectors = product.map_or(
            json!([]),
            |product| json!([{"cel": {"expression": expression(product)}}]),
        );
        json!([{"name": "gpu", "exactly": {"deviceClassName": AMD, "selectors": selectors}}])
    };
    for (name, product) in [("fabric", Some(&*fabric)), ("own", Some(&*own)), ("any", None)] {
        template(world, &scenario, name, &requests(product)).await?;
        scenario.create(&by_template(scenario.pod(name), name).build()).await?;
    }
    scenario.expect("own", &pods().running(&own, 1)).await?;
    let told = scenario.waits("fabric", "GetTaskRequestResourceFailed").await?;
    let message = told.message.unwrap_or_default();
    assert!(message.contains("that several nodes reach"), "{message}");
    scenario.waits("any", "NodesExcluded").await?;
    // Once the driver publishes them node by node, they are cards as any others. As long as the scheduler knows both, it may choose
    // either, so those of all nodes go first.
    let slices = scenario.plane().kubectl();
    slices.run(["delete", "resourceslice", "dra-fabric-all"]).await?;
    world
        .plane
        .apply(&slice("dra-fabric-later", "nodeName", json!("dra-fabric"), &fabric))
        .await?;
    scenario.expect("fabric", &pods().running(&fabric, 1)).await?;
    let given = allocated(&scenario).await?;
    assert_eq!(given.get("dra-fabric-all"), None, "{given:?}");
    Ok(())
}
