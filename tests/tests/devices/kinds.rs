//! What else devices may be, and claims may say of them: what can be had is had by the scheduler's own judgement, and no more is let in.

use cardgate_tests::devices::{class, gpus};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use crds::card_type::CardType;
use crds::slug::slug;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::{
    MIG, NO_QUOTA, NVIDIA, Outcome, allocated, by_template, card_has, exactly, form, nodes, pods, publish, template,
    world,
};

const INTEL: &str = "gpu.intel.com";
const NO_NODE: &str = "NoNodeFits";

/// Creates a slice of a node's pool of NVIDIA's devices, of which there are so many in this generation; `content` is its devices or
/// counters.
async fn slice(world: &World, name: &str, node: &str, of: (i64, i64), content: &Value) -> Outcome {
    let (generation, count) = of;
    let mut slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": NVIDIA, "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count}}});
    for (key, value) in content.as_object().into_iter().flatten() {
        slice["spec"][key] = value.clone();
    }
    world.plane.apply(&slice).await.map(drop)
}

/// A claim's template with more than requests, and a pod by it.
async fn create(world: &World, scenario: &Scenario<'_>, name: &str, devices: &Value) -> Outcome {
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": scenario.name()}, "spec": {"spec": {"devices": devices}}});
    world.plane.apply(&template).await?;
    let pod = by_template(scenario.pod(name), name).build();
    scenario.create(&pod).await.map(drop)
}

#[tokio::test]
async fn a_card_and_its_parts_are_had_one_way_at_a_time() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-parts").await?;
    let whole = scenario.card("NVIDIA-A30");
    let half = format!("{whole}/mig-2g.12gb-mixed");
    let device = |name: &str, attributes: Value, slices: i64| {
        let mut attributes = attributes;
        attributes["productName"] = json!({"string": whole});
        json!({"name": name, "attributes": attributes, "consumesCounters":
            [{"counterSet": "gpu-0", "counters": {"slices": {"value": slices.to_string()}}}]})
    };
    let part = json!({"type": {"string": "mig"}, "profile": {"string": "2g.12gb"}});
    let devices = json!({"devices": [
        device("gpu-0", json!({"type": {"string": "gpu"}}), 2),
        device("gpu-0-mig-0", part.clone(), 1),
        device("gpu-0-mig-1", part, 1),
    ]});
    let counters = json!({"sharedCounters": [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]});
    scenario.nodes(&[NodeSpec::new("dra-parts")]).await?;
    slice(world, "dra-parts-counters", "dra-parts", (1, 2), &counters).await?;
    slice(world, "dra-parts-devices", "dra-parts", (1, 2), &devices).await?;
    card_has(world, &half, |status| (status.total, status.free) == (2, 2)).await?;
    scenario
        .apply_queue(scenario.queue().quota(&whole, 9).quota(&half, 9))
        .await?;
    template(world, &scenario, "half", &exactly(MIG, 1, Some(&whole))).await?;
    template(world, &scenario, "whole", &exactly(NVIDIA, 1, Some(&whole))).await?;
    scenario
        .create(&by_template(scenario.pod("half"), "half").deployment(1))
        .await?;
    scenario.expect("half", &pods().running(&half, 1)).await?;
    card_has(world, &whole, |status| status.free == 0).await?;
    scenario
        .create(&by_template(scenario.pod("whole"), "whole").build())
        .await?;
    scenario.waits("whole", NO_NODE).await?;
    // The other half is free, and a third there is none.
    scenario.scale("half", 3).await?;
    let expected = pods().running(&half, 2).waiting(NO_NODE, 1);
    scenario.expect_for_good("half", &expected).await?;
    scenario.scale("half", 0).await?;
    scenario.expect("whole", &pods().running(&whole, 1)).await
}

#[tokio::test]
async fn a_tainted_device_is_for_who_tolerates_it() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-taints").await?;
    let a100 = scenario.card("NVIDIA-A100");
    let mut devices = gpus(&a100, 2);
    devices[1]["taints"] = json!([{"key": "example.com/unhealthy", "value": "true", "effect": "NoSchedule"}]);
    scenario.nodes(&[NodeSpec::new("dra-taints")]).await?;
    publish(&world.plane, "dra-taints", NVIDIA, &devices).await?;
    card_has(world, &a100, |status| status.total == 1).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 9)).await?;
    template(world, &scenario, "healthy", &exactly(NVIDIA, 1, Some(&a100))).await?;
    scenario
        .create(&by_template(scenario.pod("healthy"), "healthy").deployment(2))
        .await?;
    let expected = pods().running(&a100, 1).waiting(NO_NODE, 1);
    scenario.expect_for_good("healthy", &expected).await?;
    let mut tolerating = exactly(NVIDIA, 1, Some(&a100));
    tolerating[0]["exactly"]["tolerations"] = json!([{"key": "example.com/unhealthy", "operator": "Exists"}]);
    template(world, &scenario, "brave", &tolerating).await?;
    scenario
        .create(&by_template(scenario.pod("brave"), "brave").build())
        .await?;
    scenario.expect("brave", &pods().running(&a100, 1)).await?;
    // The driver finds it well again.
    publish(&world.plane, "dra-taints", NVIDIA, &gpus(&a100, 3)).await?;
    scenario.expect("healthy", &pods().running(&a100, 2)).await
}

/// Kubernetes 1.37 has `DeviceTaintRule`s on: its scheduler gives no device that one taints, and its controllers evict who has one by `NoExecute`.
#[tokio::test]
async fn a_device_that_an_administrator_taints_is_nobodys_until_he_takes_that_back() -> Outcome {
    let world = world().await?;
    let client = world.plane.client().await?;
    let served = client.list_api_group_resources("resource.k8s.io/v1").await?;
    if !served
        .resources
        .iter()
        .any(|resource| resource.name == "devicetaintrules")
    {
        println!("this API server knows no DeviceTaintRules");
        return Ok(());
    }
    let scenario = Scenario::begin(world, "dra-taint-rules").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 2)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 9)).await?;
    let rule = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": scenario.name()},
        "spec": {"deviceSelector": {"driver": NVIDIA, "pool": "dra-taint-rules-0", "device": "gpu-0"},
            "taint": {"key": "example.com/unhealthy", "effect": "NoSchedule"}}});
    world.plane.apply(&rule).await?;
    card_has(world, &a100, |status| (status.total, status.free) == (1, 1)).await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    scenario
        .create(&by_template(scenario.pod("pods"), "a100").deployment(2))
        .await?;
    let expected = pods().running(&a100, 1).waiting(NO_NODE, 1);
    scenario.expect_for_good("pods", &expected).await?;
    let rules = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("resource.k8s.io", "v1", "DeviceTaintRule"),
        "devicetaintrules",
    );
    let rules: Api<DynamicObject> = Api::all_with(client, &rules);
    rules.delete(scenario.name(), &DeleteParams::default()).await?;
    scenario.expect("pods", &pods().running(&a100, 2)).await
}

#[tokio::test]
async fn devices_that_have_to_be_of_one_card_are_waited_for() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-alike").await?;
    let product = scenario.card("NVIDIA-A100");
    let card = format!("{product}/mig-1g.5gb-mixed");
    let part = |parent: usize, index: usize| {
        json!({"name": format!("gpu-{parent}-mig-{index}"), "attributes": {"type": {"string": "mig"},
            "productName": {"string": product}, "profile": {"string": "1g.5gb"},
            "parentUUID": {"string": format!("GPU-{parent}")}}})
    };
    scenario.nodes(&[NodeSpec::new("dra-alike")]).await?;
    publish(&world.plane, "dra-alike", NVIDIA, &[part(0, 0), part(1, 0)]).await?;
    card_has(world, &card, |status| status.total == 2).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 9)).await?;
    let request = |name: &str| json!({"name": name, "exactly": form(MIG, 1, Some(&product))});
    let alike = json!({"requests": [request("one"), request("other")],
        "constraints": [{"requests": ["one", "other"], "matchAttribute": format!("{NVIDIA}/parentUUID")}]});
    create(world, &scenario, "alike", &alike).await?;
    scenario.waits("alike", NO_NODE).await?;
    publish(&world.plane, "dra-alike", NVIDIA, &[part(0, 0), part(1, 0), part(1, 1)]).await?;
    scenario.expect("alike", &pods().running(&card, 1)).await?;
    card_has(world, &card, |status| (status.total, status.used) == (3, 2)).await
}

#[tokio::test]
async fn all_of_a_node_are_charged_as_many_as_they_are() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-all").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 3), (&a100, 3)]).await?;
    card_has(world, &a100, |status| status.total == 6).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 5)).await?;
    let mut all = exactly(NVIDIA, 1, Some(&a100));
    all[0]["exactly"]["allocationMode"] = "All".into();
    all[0]["exactly"]["count"].take();
    template(world, &scenario, "all", &all).await?;
    scenario
        .create(&by_template(scenario.pod("all"), "all").deployment(2))
        .await?;
    let expected = pods().running(&a100, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("all", &expected).await?;
    assert_eq!(allocated(&scenario).await?.into_values().collect::<Vec<_>>(), [3]);
    // With quota for all, the other node has to be free as a whole.
    template(world, &scenario, "one", &exactly(NVIDIA, 1, Some(&a100))).await?;
    scenario
        .create(&by_template(scenario.pod("one"), "one").build())
        .await?;
    scenario.expect("one", &pods().running(&a100, 1)).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 9)).await?;
    scenario
        .expect_for_good("all", &pods().running(&a100, 1).waiting(NO_NODE, 1))
        .await?;
    scenario.delete::<Pod>("one").await?;
    scenario.expect("all", &pods().running(&a100, 2)).await
}

#[tokio::test]
async fn a_pool_counts_when_it_is_complete_and_by_its_highest_generation() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-pools").await?;
    let a100 = scenario.card("NVIDIA-A100");
    let devices = |count: usize| json!({ "devices": gpus(&a100, count) });
    scenario.nodes(&[NodeSpec::new("dra-pools")]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 9)).await?;
    template(world, &scenario, "one", &exactly(NVIDIA, 1, Some(&a100))).await?;
    slice(world, "dra-pools-a", "dra-pools", (1, 2), &devices(2)).await?;
    scenario
        .create(&by_template(scenario.pod("one"), "one").deployment(3))
        .await?;
    let unknown = pods().waiting("GetTaskRequestResourceFailed", 3);
    scenario.expect_for_good("one", &unknown).await?;
    slice(world, "dra-pools-b", "dra-pools", (1, 2), &json!({ "devices": [] })).await?;
    let expected = pods().running(&a100, 2).waiting(NO_NODE, 1);
    scenario.expect_for_good("one", &expected).await?;
    // A newer generation of which one slice is missing yet: what was published before counts no more.
    slice(world, "dra-pools-a", "dra-pools", (2, 2), &devices(3)).await?;
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    wait::object(&types, &slug(&a100), "no such card", |found| {
        Seen::when(found.is_none(), format!("{:?}", found.map(|card| &card.status)))
    })
    .await?;
    slice(world, "dra-pools-b", "dra-pools", (2, 2), &json!({ "devices": [] })).await?;
    scenario.expect("one", &pods().running(&a100, 3)).await
}

#[tokio::test]
async fn intels_cards_are_named_by_their_model_and_selected_by_what_they_have() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-intel").await?;
    let model = scenario.card("A770");
    class(&world.plane, INTEL, &format!("device.driver == '{INTEL}'"), None).await?;
    let device = |index: usize, memory: &str| {
        json!({"name": format!("0000-00-0{index}-0-0x56a0"), "attributes": {"model": {"string": model},
            "family": {"string": "Arc A-Series"}, "type": {"string": "gpu"}},
            "capacity": {"memory": {"value": memory}, "millicores": {"value": "1000"}}})
    };
    scenario.nodes(&[NodeSpec::new("dra-intel")]).await?;
    publish(
        &world.plane,
        "dra-intel",
        INTEL,
        &[device(1, "16Gi"), device(2, "16Gi")],
    )
    .await?;
    card_has(world, &model, |status| status.total == 2).await?;
    scenario.apply_queue(scenario.queue().quota(&model, 1)).await?;
    let of = |memory: &str| {
        let expression = format!(
            "device.attributes['{INTEL}'].family.startsWith('Arc') && device.attributes['{INTEL}'].model == '{model}' && \
             device.capacity['{INTEL}'].memory.compareTo(quantity('{memory}')) >= 0"
        );
        json!([{"name": "gpu", "exactly": {"deviceClassName": INTEL, "selectors": [{"cel": {"expression": expression}}]}}])
    };
    template(world, &scenario, "some", &of("4Gi")).await?;
    template(world, &scenario, "more", &of("64Gi")).await?;
    scenario
        .create(&by_template(scenario.pod("some"), "some").deployment(2))
        .await?;
    let expected = pods().running(&model, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("some", &expected).await?;
    scenario
        .create(&by_template(scenario.pod("more"), "more").build())
        .await?;
    scenario.waits("more", "NoDeviceSelected").await.map(drop)
}

#[tokio::test]
async fn a_class_that_is_not_evaluated_gives_nothing_away() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-odd-class").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 1)).await?;
    let of_product = format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].productName == '{a100}'");
    let odd = format!("{of_product}.replace('x', 'y')");
    class(&world.plane, "dra-odd", &odd, Some("example.com/dra-odd")).await?;
    for (name, resource) in [
        ("extended", "example.com/dra-odd"),
        ("implicit", "deviceclass.resource.kubernetes.io/dra-odd"),
    ] {
        scenario
            .create(&scenario.pod(name).request(resource, 1).build())
            .await?;
        let told = scenario.waits(name, "GetTaskRequestResourceFailed").await?;
        let message = told.message.unwrap_or_default();
        assert!(message.contains("DeviceClass dra-odd"), "{message}");
    }
    assert_eq!(allocated(&scenario).await?.len(), 0);
    // What it gives is charged from the moment that it can be said.
    class(&world.plane, "dra-odd", &of_product, Some("example.com/dra-odd")).await?;
    scenario.expect("extended", &pods().running(&a100, 1)).await?;
    scenario.expect_for_good("implicit", &pods().waiting(NO_QUOTA, 1)).await
}

#[tokio::test]
async fn a_class_that_comes_after_the_pods_lets_them_in() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-late-class").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 1)).await?;
    for name in ["first", "second"] {
        scenario
            .create(&scenario.pod(name).request("example.com/dra-late", 1).build())
            .await?;
        scenario.waits(name, NO_NODE).await?;
    }
    let of_product = format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].productName == '{a100}'");
    class(&world.plane, "dra-late", &of_product, Some("example.com/dra-late")).await?;
    scenario.expect("first", &pods().running(&a100, 1)).await?;
    scenario.expect_for_good("second", &pods().waiting(NO_QUOTA, 1)).await
}

#[tokio::test]
async fn devices_of_another_driver_are_cards_as_soon_as_the_configuration_says_so() -> Outcome {
    const NPU: &str = "npu.example.com";
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-npu").await?;
    let whole = scenario.card("NPU-9");
    let part = format!("{whole}/quarter");
    class(&world.plane, NPU, &format!("device.driver == '{NPU}'"), None).await?;
    let product = json!({"string": whole});
    let devices = [
        json!({"name": "npu-0", "attributes": {"productName": product}}),
        json!({"name": "npu-1", "attributes": {"productName": product}}),
        json!({"name": "npu-2-0", "attributes": {"productName": product, "partition": {"string": "quarter"}}}),
    ];
    scenario.nodes(&[NodeSpec::new("dra-npu")]).await?;
    publish(&world.plane, "dra-npu", NPU, &devices).await?;
    scenario.apply_queue(scenario.queue().quota(&whole, 1)).await?;
    let of = |parts: bool| {
        let attributes = format!("device.attributes['{NPU}']");
        let expression = format!("{}('partition' in {attributes})", if parts { "" } else { "!" });
        json!([{"name": "npu", "exactly": {"deviceClassName": NPU, "selectors": [{"cel": {"expression": expression}}]}}])
    };
    template(world, &scenario, "whole", &of(false)).await?;
    template(world, &scenario, "part", &of(true)).await?;
    // Nobody knows yet that these are cards.
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    assert!(types.get_opt(&slug(&whole)).await?.is_none());
    let drivers = format!("cardDrivers: [{{driver: {NPU}, product: productName, profile: partition}}]");
    world.cardgate.configure(&world.plane, None, Some(&drivers)).await?;
    card_has(world, &whole, |status| status.total == 2).await?;
    card_has(world, &part, |status| status.total == 1).await?;
    scenario
        .create(&by_template(scenario.pod("whole"), "whole").deployment(2))
        .await?;
    let expected = pods().running(&whole, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("whole", &expected).await?;
    scenario
        .create(&by_template(scenario.pod("part"), "part").build())
        .await?;
    scenario.waits("part", NO_QUOTA).await.map(drop)
}
