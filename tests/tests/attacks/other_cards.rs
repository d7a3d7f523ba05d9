//! Other or more cards than a pod was let in for: what a tenant tries where the scheduler has a choice that Cardgate must not leave to it.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use cardgate_tests::devices::{NVIDIA, by_template, card_has, class, classes, exactly, form, gpus, publish};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::Outcome;
use crate::tenant::Tenant;

/// A namespace of a tenant, and nodes of their own, each with devices of these products.
async fn scene<'w>(name: &str, nodes: &[&[(&str, usize)]]) -> Result<(&'w World, Scenario<'w>, Tenant)> {
    static CLASSES: OnceCell<()> = OnceCell::const_new();
    let world = World::shared().await?;
    CLASSES.get_or_try_init(|| classes(&world.plane)).await?;
    let scenario = Scenario::begin(world, name).await?;
    let of = |place: usize| format!("{name}-{place}");
    let specs: Vec<_> = (0..nodes.len()).map(|place| NodeSpec::new(of(place))).collect();
    scenario.nodes(&specs).await?;
    for (place, products) in nodes.iter().enumerate() {
        let mut devices = Vec::new();
        for (kind, (product, count)) in products.iter().enumerate() {
            for mut device in gpus(&scenario.card(product), *count) {
                device["name"] = format!("card-{kind}-{}", devices.len()).into();
                devices.push(device);
            }
        }
        publish(&world.plane, &of(place), NVIDIA, &devices).await?;
    }
    let mut totals = BTreeMap::<&str, usize>::new();
    for (product, count) in nodes.iter().flat_map(|products| products.iter()) {
        *totals.entry(product).or_default() += count;
    }
    for (product, count) in totals {
        let count = i64::try_from(count)?;
        card_has(world, &scenario.card(product), |status| status.total == count).await?;
    }
    let tenant = Tenant::of(&world.plane, name).await?;
    Ok((world, scenario, tenant))
}

fn template(name: &str, requests: &Value) -> Result<ResourceClaimTemplate> {
    let template = json!({ "metadata": { "name": name }, "spec": { "spec": { "devices": { "requests": requests } } } });
    Ok(serde_json::from_value(template)?)
}

/// How many devices whose names begin so are allocated in the namespace.
async fn given(scenario: &Scenario<'_>, prefix: &str) -> Result<usize> {
    let claims = scenario.api::<ResourceClaim>().list(&ListParams::default()).await?;
    let allocations = claims
        .items
        .into_iter()
        .filter_map(|claim| claim.status?.allocation?.devices?.results);
    Ok(allocations
        .flatten()
        .filter(|result| result.device.starts_with(prefix))
        .count())
}

fn first_of(scenario: &Scenario<'_>, forms: &[(&str, usize)]) -> Value {
    let forms = forms.iter().enumerate().map(|(place, (product, count))| {
        let mut form = form(NVIDIA, *count, Some(&scenario.card(product)));
        form["name"] = format!("f{place}").into();
        form
    });
    json!([{ "name": "gpu", "firstAvailable": forms.collect::<Vec<_>>() }])
}

fn selects(product: &str, scenario: &Scenario<'_>) -> String {
    format!(
        "device.attributes['{NVIDIA}'].productName == '{}'",
        scenario.card(product)
    )
}

/// A container, or one that runs before, with so many of a resource.
fn container(name: &str, resource: &str, count: u32) -> Container {
    let amounts = BTreeMap::from([(resource.to_owned(), Quantity(count.to_string()))]);
    Container {
        name: name.to_owned(),
        image: Some("x".to_owned()),
        resources: Some(ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}

/// Whoever has a quota for cheap cards lets the scheduler choose, where dear ones are on the same node.
#[tokio::test]
async fn what_may_be_one_card_or_another_goes_where_only_one_of_them_is() -> Outcome {
    let (world, scenario, tenant) = scene("other-mixed", &[&[("H100", 4), ("T4", 4)]]).await?;
    let (h100, t4) = (scenario.card("H100"), scenario.card("T4"));
    scenario
        .apply_queue(scenario.queue().quota(&h100, 0).quota(&t4, 2))
        .await?;
    let both = format!("{} || {}", selects("T4", &scenario), selects("H100", &scenario));
    class(
        &world.plane,
        "other-mixed.example.com",
        &both,
        Some("example.com/other-mixed"),
    )
    .await?;
    let mut either = exactly(NVIDIA, 1, None);
    either[0]["exactly"]["selectors"] = json!([{ "cel": { "expression": both } }]);
    tenant.create(&template("either", &either)?).await?;
    tenant
        .create(&template("first", &first_of(&scenario, &[("H100", 1), ("T4", 1)]))?)
        .await?;
    let by_resource = |name: &str, resource: &str| scenario.pod(name).card(&t4).request(resource, 1);
    for pod in [
        by_template(scenario.pod("either").card(&t4), "either"),
        by_template(scenario.pod("first"), "first"),
        by_resource("extended", "example.com/other-mixed"),
        by_resource("implicit", "deviceclass.resource.kubernetes.io/other-mixed.example.com"),
    ] {
        let pod = pod.build();
        // The door learns from CardTypes, a moment later, which resources classes provide.
        wait::eventually("the door to know the class", wait::PATIENCE, async || {
            let created = tenant.create(&pod).await;
            Ok(created.map_or_else(|error| Seen::NotYet(format!("{error:#}")), |_| Seen::Done(())))
        })
        .await?;
    }
    for name in ["either", "first", "extended", "implicit"] {
        scenario.waits(name, "NodesExcluded").await?;
    }
    scenario.nodes(&[NodeSpec::new("other-mixed-pure")]).await?;
    publish(&world.plane, "other-mixed-pure", NVIDIA, &gpus(&t4, 4)).await?;
    card_has(world, &t4, |status| status.used == 2 && status.total == 8).await?;
    wait::eventually("two cards to be allocated", wait::PATIENCE, async || {
        let count = given(&scenario, "gpu-").await?;
        Ok(Seen::when(count == 2, count.to_string()))
    })
    .await?;
    assert_eq!(given(&scenario, "card-").await?, 0, "nothing of the node with both");
    Ok(())
}

/// Four, or if need be one: let in for the one, the scheduler would give four.
#[tokio::test]
async fn fewer_of_a_card_is_not_let_in_where_the_scheduler_would_give_more() -> Outcome {
    let (world, scenario, tenant) = scene("other-fewer", &[&[("H100", 8)]]).await?;
    let card = scenario.card("H100");
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let four_or_one = first_of(&scenario, &[("H100", 4), ("H100", 1)]);
    tenant.create(&template("four-or-one", &four_or_one)?).await?;
    tenant
        .create(&by_template(scenario.pod("greedy"), "four-or-one").build())
        .await?;
    scenario.waits("greedy", "NodesExcluded").await?;
    assert_eq!(given(&scenario, "").await?, 0);
    // A node that has no four gives one.
    scenario.nodes(&[NodeSpec::new("other-fewer-small")]).await?;
    publish(&world.plane, "other-fewer-small", NVIDIA, &gpus(&card, 2)).await?;
    scenario.expect("greedy", &Tally::none().running(&card, 1)).await?;
    assert_eq!(given(&scenario, "").await?, 1);
    card_has(world, &card, |status| status.used == 1).await
}

/// What containers have that run one after the other, the scheduler gives once, as it is charged.
#[tokio::test]
async fn containers_that_run_before_take_no_cards_of_their_own() -> Outcome {
    let (world, scenario, tenant) = scene("other-init", &[&[("H100", 8)]]).await?;
    let card = scenario.card("H100");
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    let resource = "example.com/other-init";
    class(
        &world.plane,
        "other-init.example.com",
        &selects("H100", &scenario),
        Some(resource),
    )
    .await?;
    let before = ["i1", "i2", "i3"].map(|name| container(name, resource, 2));
    let pod = scenario.pod("inits").request(resource, 2);
    let pod = pod.spec(|spec| spec.init_containers = Some(before.into()));
    tenant.create(&pod.build()).await?;
    scenario.expect("inits", &Tally::none().running(&card, 1)).await?;
    assert_eq!(given(&scenario, "").await?, 2);
    card_has(world, &card, |status| (status.used, status.unaccounted) == (2, 0)).await
}

/// Past the scheduler, or with numbers that overflow.
#[tokio::test]
async fn claims_pass_neither_by_the_scheduler_nor_by_numbers() -> Outcome {
    let (_, scenario, tenant) = scene("other-numbers", &[&[("H100", 8)]]).await?;
    let card = scenario.card("H100");
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    let most = usize::try_from(i64::MAX)?;
    let mut requests = exactly(NVIDIA, most, Some(&card));
    for number in 1..32 {
        let mut further = requests[0].clone();
        further["name"] = format!("r{number}").into();
        requests
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(further.clone()));
    }
    tenant.create(&template("most", &requests)?).await?;
    let named = by_template(scenario.pod("named"), "most");
    let named = named.spec(|spec| spec.node_name = Some("other-numbers-0".to_owned()));
    tenant.is_refused(&named.build(), "passes by the scheduler").await?;
    tenant
        .create(&by_template(scenario.pod("most"), "most").build())
        .await?;
    let waits = scenario.waits("most", "InsufficientScalarQuota").await?;
    let message = waits.message.unwrap_or_default();
    ensure!(
        message.contains(&format!("asked {}, used 0, quota 1", i64::MAX)),
        "{message}"
    );
    Ok(())
}
