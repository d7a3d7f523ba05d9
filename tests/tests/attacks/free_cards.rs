//! Cards for nothing: pods that do not say whose they are, or which cards they ask for, or that call themselves what they are not.

use anyhow::Result;
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::world::World;
use crds::card_type::CardType;
use crds::card_usage::{CardUsage, UNACCOUNTED};
use crds::keys;
use crds::slug::slug;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodResourceClaim};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::Outcome;
use crate::bounds::mgpu_node;
use crate::tenant::Tenant;

const GPU: &str = "nvidia.com/gpu";

/// A namespace of a tenant, one node with 8 cards that only this scenario has, and its queue with so many of them.
async fn scene<'w>(world: &'w World, name: &str, quota: u64) -> Result<(Scenario<'w>, Tenant, String)> {
    let scenario = Scenario::begin(world, name).await?;
    let card = scenario.card("NVIDIA-H100");
    scenario.nodes(&[nodes::nvidia(name, &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, quota)).await?;
    scenario.door_knows(&[&card]).await?;
    let tenant = Tenant::of(&world.plane, name).await?;
    Ok((scenario, tenant, card))
}

/// Has the namespace name its queue, and waits until the door and the API server's policies know.
async fn name_queue(scenario: &Scenario<'_>) -> Outcome {
    let annotation = format!("{}={}", keys::QUEUE_NAME, scenario.name());
    let annotate = ["annotate", "namespace", scenario.name(), &annotation];
    scenario.plane().kubectl().run(annotate).await?;
    let probe = pod("probe").namespace(scenario.name()).request(GPU, 1).build();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::eventually("the namespace's queue", wait::PATIENCE, async || {
        let created = scenario.api::<Pod>().create(&dry_run, &probe).await?;
        let queue = created.annotations().get(keys::QUEUE_NAME).cloned();
        Ok(Seen::when(queue.is_some(), format!("{queue:?}")))
    })
    .await
}

fn unnamed(scenario: &Scenario<'_>, name: &str, count: u32) -> PodBuilder {
    pod(name).namespace(scenario.name()).request(GPU, count)
}

#[tokio::test]
async fn cards_without_annotations_are_charged_where_the_namespace_names_a_queue() -> Outcome {
    let (scenario, tenant, card) = scene(World::shared().await?, "free-by-namespace", 2).await?;
    name_queue(&scenario).await?;
    let greedy = unnamed(&scenario, "greedy", 8);
    // Kubernetes admits this class in every namespace; a pod that waits behind its gate preempts nobody.
    let greedy = greedy.priority_class("system-node-critical");
    tenant.create(&greedy.build()).await?;
    let waits = scenario.waits("greedy", "InsufficientScalarQuota").await?;
    assert!(
        waits
            .message
            .unwrap_or_default()
            .contains(&format!("{card} asked 8, used 0, quota 2"))
    );
    tenant.create(&unnamed(&scenario, "modest", 2).build()).await?;
    scenario.expect("modest", &Tally::none().running(&card, 1)).await?;
    let modest = scenario.api::<Pod>().get("modest").await?;
    assert_eq!(modest.annotations()[keys::CARD_ASSIGNED], card);
    Ok(())
}

#[tokio::test]
async fn cards_without_a_name_are_charged_to_the_queue_that_the_pod_names() -> Outcome {
    let (scenario, tenant, card) = scene(World::shared().await?, "free-by-name", 1).await?;
    let queued = |name: &str| unnamed(&scenario, name, 1).queue(scenario.name());
    tenant.create(&queued("first").build()).await?;
    scenario.expect("first", &Tally::none().running(&card, 1)).await?;
    tenant.create(&queued("second").build()).await?;
    scenario.waits("second", "InsufficientScalarQuota").await?;
    // Another kind of card, of which the queue has none.
    let other = pod("other").namespace(scenario.name()).queue(scenario.name());
    for resource in ["amd.com/gpu", "huawei.com/ascend-910", keys::MGPU_CORE] {
        let name = resource.replace(['.', '/'], "-");
        let other = pod(&name)
            .namespace(scenario.name())
            .queue(scenario.name())
            .request(resource, 100);
        tenant.create(&other.build()).await?;
        let waits = scenario.waits(&name, "NoCardQuota").await?;
        let message = waits.message.unwrap_or_default();
        assert!(
            message.contains(resource) && message.contains(keys::CARD_QUOTA),
            "{message}"
        );
    }
    // Two at once, of which one would be free.
    let several = other.request(GPU, 1).request("nvidia.com/mig-1g.5gb", 1);
    tenant
        .is_refused(&several.build(), "can be charged for those of one resource only")
        .await?;
    let beside = scenario.gpu_pod("beside", &card, 1).request(keys::MGPU_CORE, 100);
    tenant.is_refused(&beside.build(), "covers only one resource").await
}

#[tokio::test]
async fn what_nobody_is_charged_for_is_shown() -> Outcome {
    let world = World::shared().await?;
    let (scenario, tenant, card) = scene(world, "free-unqueued", 2).await?;
    let free = unnamed(&scenario, "free", 3).node_selector("nvidia.com/gpu.product", &card);
    tenant.create(&free.build()).await?;
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    wait::object(&types, &slug(&card), "3 unaccounted cards", |found| {
        let status = found.and_then(|found| found.status.clone());
        Seen::when(
            status.as_ref().is_some_and(|status| status.unaccounted == 3),
            format!("{status:?}"),
        )
    })
    .await?;
    // Devices by a claim, which nobody is charged for either. The claim does not exist, so the pod stays pending.
    let claiming = pod("claiming").namespace(scenario.name()).spec(|spec| {
        spec.resource_claims = Some(vec![PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_name: Some("missing".to_owned()),
            resource_claim_template_name: None,
        }]);
    });
    tenant.create(&claiming.build()).await?;
    let usages: Api<CardUsage> = Api::all(world.plane.client().await?);
    wait::object(&usages, UNACCOUNTED, "3 cards, and a pod with claims", |found| {
        let status = found.and_then(|found| found.status.clone()).unwrap_or_default();
        let cards = status.cards.iter().find(|found| found.name == card);
        let is_nobodys = found.is_some_and(|found| found.spec.queue.is_empty() && found.owner_references().is_empty());
        Seen::when(
            is_nobodys && cards.is_some_and(|card| card.allocated == 3) && status.pods_with_resource_claims >= Some(1),
            format!("{found:?}"),
        )
    })
    .await?;
    let series = "cardgate_pods_with_resource_claims";
    wait::eventually(series, wait::PATIENCE, async || {
        let now = world.cardgate.operator().metric(series).await?;
        Ok(Seen::when(now >= Some(1.0), format!("{now:?}")))
    })
    .await
}

/// Compute of cards has its quota too, where every pod has to say of which card.
#[tokio::test]
async fn shares_are_no_way_around_the_duty_to_name_a_card() -> Outcome {
    let world = &World::start().await?;
    let scenario = Scenario::begin(world, "free-shares").await?;
    scenario.nodes(&[mgpu_node(&scenario)]).await?;
    let shares = format!("{}/mgpu", scenario.card("NVIDIA-A100"));
    let queue = scenario.queue().capability("cpu", "1000").capability("memory", "1Ti");
    scenario.apply_queue(queue.quota(&shares, 200)).await?;
    world
        .cardgate
        .configure(&world.plane, None, Some("unnamedCards: deny\n"))
        .await?;
    let tenant = Tenant::of(&world.plane, "free-shares").await?;
    let core = |name: &str, core: u32| scenario.pod(name).request(keys::MGPU_CORE, core);
    tenant
        .is_refused(&core("nameless", 800).build(), "(unnamedCards: deny)")
        .await?;
    let named = |name: &str, amount: u32| core(name, amount).annotation(keys::CARD_NAME, &shares).build();
    tenant.create(&named("greedy", 800)).await?;
    let waits = scenario.waits("greedy", "InsufficientScalarQuota").await?;
    let numbers = format!("{shares} asked 800, used 0, quota 200");
    assert!(waits.message.unwrap_or_default().contains(&numbers));
    for name in ["first", "second"] {
        tenant.create(&named(name, 100)).await?;
        scenario.expect(name, &Tally::none().running(&shares, 1)).await?;
    }
    tenant.create(&named("third", 100)).await?;
    let waits = scenario.waits("third", "InsufficientScalarQuota").await?;
    let numbers = format!("{shares} asked 100, used 200, quota 200");
    assert!(waits.message.unwrap_or_default().contains(&numbers));
    Ok(())
}

/// What a node runs by itself passes every door. It is seen, counted and shown.
#[tokio::test]
async fn what_a_node_runs_by_itself_is_shown() -> Outcome {
    let world = World::shared().await?;
    let (scenario, _, card) = scene(world, "free-static", 8).await?;
    let on_its_node = unnamed(&scenario, "static", 3).spec(|spec| spec.node_name = Some("free-static".to_owned()));
    let mut mirror = serde_json::to_value(on_its_node.annotation(keys::MIRROR_POD, "hash").build())?;
    mirror["apiVersion"] = json!("v1");
    mirror["kind"] = json!("Pod");
    // Rights as the node authorizer would give them.
    let kubelet = scenario.plane().kubectl_of_user("system:node:free-static");
    let create = [
        "--as-group",
        "system:nodes",
        "--as-group",
        "system:masters",
        "create",
        "-f",
        "-",
    ];
    let created = kubelet.output(create, Some(&mirror.to_string())).await?;
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    wait::object(&types, &slug(&card), "3 unaccounted cards", |found| {
        let status = found.and_then(|found| found.status.clone());
        Seen::when(
            status.as_ref().is_some_and(|status| status.unaccounted == 3),
            format!("{status:?}"),
        )
    })
    .await?;
    let series = format!("cardgate_unaccounted_cards{{card=\"{card}\"}}");
    wait::eventually(&series, wait::PATIENCE, async || {
        let now = world.cardgate.operator().metric(&series).await?;
        Ok(Seen::when(now == Some(3.0), format!("{now:?}")))
    })
    .await
}

#[tokio::test]
async fn nobody_passes_for_a_node() -> Outcome {
    let (scenario, tenant, _) = scene(World::shared().await?, "free-mirrors", 1).await?;
    let mirror = unnamed(&scenario, "mirror", 8)
        .annotation(keys::MIRROR_POD, "hash")
        .spec(|spec| {
            spec.node_name = Some("free-mirrors".to_owned());
        });
    tenant
        .is_refused(&mirror.clone().build(), "written by kubelets only")
        .await?;
    let queued = mirror.queue(scenario.name());
    tenant
        .is_refused(&queued.build(), "passes by the scheduler and the queue's quota")
        .await
}

/// With the webhooks deleted, the API server itself refuses what must be held, also what only nodes make a card.
#[tokio::test]
async fn without_webhooks_nothing_that_must_be_held_is_created() -> Outcome {
    let world = &World::start().await?;
    let scenario = Scenario::begin(world, "free-doorless").await?;
    scenario.nodes(&[nodes::mi300x_8("free-doorless")]).await?;
    let tenant = Tenant::of(&world.plane, "free-doorless").await?;
    name_queue(&scenario).await?;
    world
        .cardgate
        .configure(&world.plane, None, Some("cardResources: [example.com/accelerator]\n"))
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.plane.client().await?, keys::NAMESPACE);
    let is_written = |map: Option<&ConfigMap>| {
        let list = map.and_then(|map| map.data.as_ref()?.get("cardResources").cloned());
        Seen::when(
            list.as_ref()
                .is_some_and(|list| list.split(',').any(|card| card == "example.com/accelerator")),
            format!("{list:?}"),
        )
    };
    wait::object(&maps, keys::POLICY_PARAMETERS, "the configured resource", is_written).await?;
    // Whoever changes or removes what the policies read finds it restored.
    let forged = json!({ "data": { "cardResources": "none.example.com/x" } });
    let params = PatchParams::default();
    maps.patch(keys::POLICY_PARAMETERS, &params, &Patch::Merge(forged))
        .await?;
    wait::object(&maps, keys::POLICY_PARAMETERS, "the change undone", is_written).await?;
    maps.delete(keys::POLICY_PARAMETERS, &DeleteParams::default()).await?;
    wait::object(&maps, keys::POLICY_PARAMETERS, "the object restored", is_written).await?;

    let kubectl = world.plane.kubectl();
    kubectl
        .run(["delete", "mutatingwebhookconfiguration", "cardgate"])
        .await?;
    for resource in [
        GPU,
        "amd.com/gpu",
        "huawei.com/ascend-910",
        "example.com/accelerator",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        keys::MGPU_CORE,
    ] {
        let free = pod("free").namespace(scenario.name()).request(resource, 8).build();
        wait::eventually(format!("{resource} to be refused"), wait::PATIENCE, async || {
            let refused = tenant.is_refused(&free, "must hold \"card.volcano.sh/quota\"").await;
            Ok(match refused {
                Ok(()) => Seen::Done(()),
                Err(error) => {
                    // Created before the API server had learned of a change.
                    let _ = scenario.delete::<Pod>("free").await;
                    Seen::NotYet(format!("{error:#}"))
                }
            })
        })
        .await?;
    }
    let plain = pod("plain").namespace(scenario.name()).request("rdma/hca", 1);
    tenant.create(&plain.build()).await?;
    Ok(())
}
