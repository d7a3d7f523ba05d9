//! Pods that claim several cards at once, and alternatives of different numbers: what the scheduler allocates is what is charged.

use std::collections::BTreeMap;

use cardgate_tests::devices::{
    NVIDIA, by_template, card_has, exactly, form, gpus, nodes as device_nodes, publish, template,
};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{NO_QUOTA, Outcome, pods, world};

/// Whole cards of two products on one node.
fn mixed(products: &[(&str, usize)]) -> Vec<Value> {
    let mut devices = Vec::new();
    for (place, (product, count)) in products.iter().enumerate() {
        for mut device in gpus(product, *count) {
            device["name"] = format!("card-{place}-{}", devices.len()).into();
            devices.push(device);
        }
    }
    devices
}

/// How many devices of each node, and of each product there, are allocated to the claims of a namespace.
async fn products(scenario: &Scenario<'_>) -> anyhow::Result<BTreeMap<(String, String), usize>> {
    let mut products = BTreeMap::new();
    for claim in scenario.api::<ResourceClaim>().list(&ListParams::default()).await? {
        let allocation = claim.status.and_then(|status| status.allocation);
        let results = allocation.and_then(|allocation| allocation.devices?.results);
        for result in results.unwrap_or_default() {
            let product = result
                .device
                .rsplit_once('-')
                .map_or_else(String::new, |(product, _)| product.to_owned());
            *products.entry((result.pool, product)).or_default() += 1;
        }
    }
    Ok(products)
}

#[tokio::test]
async fn two_cards_of_one_pod_are_allocated_and_charged_both() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-two-cards").await?;
    let (a100, t4) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-T4"));
    scenario
        .nodes(&["dra-two-cards-both", "dra-two-cards-one"].map(NodeSpec::new))
        .await?;
    publish(
        &world.plane,
        "dra-two-cards-both",
        NVIDIA,
        &mixed(&[(&a100, 6), (&t4, 4)]),
    )
    .await?;
    publish(&world.plane, "dra-two-cards-one", NVIDIA, &mixed(&[(&a100, 6)])).await?;
    card_has(world, &a100, |status| status.total == 12).await?;
    card_has(world, &t4, |status| status.total == 4).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 8).quota(&t4, 2))
        .await?;
    let mut both = exactly(NVIDIA, 2, Some(&a100));
    both[0]["name"] = "a100".into();
    let mut second = exactly(NVIDIA, 1, Some(&t4))[0].clone();
    second["name"] = "t4".into();
    both.as_array_mut()
        .into_iter()
        .for_each(|both| both.push(second.clone()));
    template(world, &scenario, "both", &both).await?;
    scenario
        .create(&by_template(scenario.pod("both"), "both").deployment(3))
        .await?;
    let written = json!({ &*a100: 2, &*t4: 1 }).to_string();
    let expected = pods().running(&written, 2).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("both", &expected).await?;
    let given = |product: &str, count| (("dra-two-cards-both".to_owned(), product.to_owned()), count);
    let expected: BTreeMap<_, _> = [given("card-0", 4), given("card-1", 2)].into();
    assert_eq!(products(&scenario).await?, expected, "what the scheduler has allocated");
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (4, 0)).await?;
    card_has(world, &t4, |status| (status.used, status.unaccounted) == (2, 0)).await?;
    // Others may have what is left of the one card, and nobody of the other.
    template(world, &scenario, "a100", &exactly(NVIDIA, 4, Some(&a100))).await?;
    scenario
        .create(&by_template(scenario.pod("single"), "a100").deployment(2))
        .await?;
    let expected = pods().running(&a100, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("single", &expected).await?;
    // With its pod goes what it had of both.
    scenario.scale("both", 0).await?;
    card_has(world, &t4, |status| status.used == 0).await?;
    let expected = pods().running(&a100, 2);
    scenario.expect_for_good("single", &expected).await
}

/// A node's cards by a device plugin, of a resource that no class provides.
fn by_plugin(name: &str, product: &str) -> NodeSpec {
    NodeSpec::new(name)
        .label("huawei.com/ascend.product", product)
        .label("huawei.com/ascend.count", "4")
        .label("huawei.com/ascend.memory", "65536")
        .allocatable("huawei.com/ascend", "4")
}

#[tokio::test]
async fn cards_of_a_device_plugin_beside_claimed_ones_are_charged_too() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-beside").await?;
    let (a100, npu) = (scenario.card("NVIDIA-A100"), scenario.card("Ascend-910B"));
    let (both, plugin, devices) = ("dra-beside-both", "dra-beside-plugin", "dra-beside-devices");
    scenario
        .nodes(&[by_plugin(both, &npu), by_plugin(plugin, &npu), NodeSpec::new(devices)])
        .await?;
    for node in [both, devices] {
        publish(&world.plane, node, NVIDIA, &mixed(&[(&a100, 4)])).await?;
    }
    card_has(world, &a100, |status| status.total == 8).await?;
    card_has(world, &npu, |status| status.total == 8).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 8).quota(&npu, 3))
        .await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    // Where nothing names it, and where the annotation does.
    for (name, replicas) in [("unnamed", 1), ("named", 3)] {
        let pod = by_template(scenario.pod(name), "a100").request("huawei.com/ascend", 1);
        let pod = if name == "named" { pod.card(&npu) } else { pod };
        scenario.create(&pod.deployment(replicas)).await?;
        let written = json!({ &*a100: 1, &*npu: 1 }).to_string();
        let expected = match name {
            "named" => pods().running(&written, 2).waiting(NO_QUOTA, 1),
            _ => pods().running(&written, 1),
        };
        scenario.expect_for_good(name, &expected).await?;
    }
    let expected: BTreeMap<_, _> = [((both.to_owned(), "card-0".to_owned()), 3)].into();
    assert_eq!(products(&scenario).await?, expected, "what the scheduler has allocated");
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (3, 0)).await?;
    card_has(world, &npu, |status| (status.used, status.unaccounted) == (3, 0)).await?;
    // The queue may have more, and one is left where both are.
    scenario
        .apply_queue(scenario.queue().quota(&a100, 8).quota(&npu, 8))
        .await?;
    let written = json!({ &*a100: 1, &*npu: 1 }).to_string();
    scenario.expect_for_good("named", &pods().running(&written, 3)).await?;
    scenario.scale("named", 4).await?;
    let expected = pods().running(&written, 3).waiting("NoNodeFits", 1);
    scenario.expect_for_good("named", &expected).await?;
    scenario.scale("named", 0).await?;
    card_has(world, &npu, |status| status.used == 1).await
}

#[tokio::test]
async fn alternatives_of_different_numbers_are_each_charged_for_their_own() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-numbers").await?;
    let (a100, t4) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-T4"));
    device_nodes(&scenario, world, &[(&a100, 8), (&t4, 8)]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 3).quota(&t4, 4))
        .await?;
    let named = |name: &str, count: usize, product: &str| {
        let mut form = form(NVIDIA, count, Some(product));
        form["name"] = name.into();
        form
    };
    let either = json!([{"name": "gpu", "firstAvailable": [named("a100", 2, &a100), named("t4", 4, &t4)]}]);
    template(world, &scenario, "either", &either).await?;
    scenario
        .create(&by_template(scenario.pod("web"), "either").deployment(3))
        .await?;
    let expected = pods().running(&a100, 1).running(&t4, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("web", &expected).await?;
    wait::eventually("two and four cards", wait::PATIENCE, async || {
        let given = products(&scenario).await?;
        let counts: Vec<_> = given.iter().map(|((node, _), count)| (node.as_str(), *count)).collect();
        Ok(Seen::when(
            counts == [("dra-numbers-0", 2), ("dra-numbers-1", 4)],
            format!("{given:?}"),
        ))
    })
    .await?;
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (2, 0)).await?;
    card_has(world, &t4, |status| (status.used, status.unaccounted) == (4, 0)).await
}
