//! Other or more cards than a pod was let in for: what a tenant tries where the scheduler has a choice that Cardgate must not leave to it.

use std::collections::BTreeMap;

use anyhow::Result;
use cardgate_tests::devices::{NVIDIA, by_name, by_template, card_has, class, classes, exactly, form, gpus, publish};
use cardgate_tests::nodes::NodeSpec;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::world::World;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
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

async fn show(scenario: &Scenario<'_>, what: &str) -> Result<()> {
    for pod in scenario.api::<Pod>().list(&ListParams::default()).await? {
        let status = pod.status.unwrap_or_default();
        let conditions: Vec<_> = status
            .conditions
            .iter()
            .flatten()
            .map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone(), c.message.clone()))
            .collect();
        eprintln!(
            "{what}: {:?} phase {:?} node {:?} {:?} {conditions:?}",
            pod.metadata.name,
            status.phase,
            pod.spec.and_then(|s| s.node_name),
            pod.metadata
                .annotations
                .unwrap_or_default()
                .get("volcano.sh/card.assigned")
        );
    }
    Ok(())
}

#[tokio::test]
async fn scratch_mixed() -> Outcome {
    let (_, scenario, tenant) = scene("other-mixed", &[&[("H100", 4), ("T4", 4)]]).await?;
    scenario
        .apply_queue(
            scenario
                .queue()
                .quota(&scenario.card("T4"), 1)
                .quota(&scenario.card("H100"), 0),
        )
        .await?;
    tenant.create(&template("any", &exactly(NVIDIA, 1, None))?).await?;
    let mut any = exactly(NVIDIA, 1, None);
    any[0]["exactly"]["selectors"] =
        json!([{"cel": {"expression": format!("{} || {}", selects("T4", &scenario), selects("H100", &scenario))}}]);
    tenant.create(&template("either", &any)?).await?;
    let pod = by_template(scenario.pod("any").card(&scenario.card("T4")), "either");
    tenant.create(&pod.deployment(4)).await?;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    show(&scenario, "mixed").await?;
    eprintln!(
        "MIXED: {} H100 given, {} T4",
        given(&scenario, "card-0").await?,
        given(&scenario, "card-1").await?
    );
    Ok(())
}

#[tokio::test]
async fn scratch_first_of() -> Outcome {
    let (_, scenario, tenant) = scene("other-first", &[&[("H100", 8)]]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&scenario.card("H100"), 1))
        .await?;
    tenant
        .create(&template("four", &first_of(&scenario, &[("H100", 4), ("H100", 1)]))?)
        .await?;
    tenant
        .create(&by_template(scenario.pod("four"), "four").deployment(2))
        .await?;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    show(&scenario, "first").await?;
    eprintln!("FIRST: {} H100 given", given(&scenario, "card-0").await?);
    Ok(())
}

#[tokio::test]
async fn scratch_init() -> Outcome {
    let (world, scenario, tenant) = scene("other-init", &[&[("H100", 8)]]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&scenario.card("H100"), 2))
        .await?;
    class(
        &world.plane,
        "init.example.com",
        &selects("H100", &scenario),
        Some("example.com/init"),
    )
    .await?;
    let container = |name: &str, count: i64, always: bool| Container {
        name: name.to_owned(),
        image: Some("x".to_owned()),
        restart_policy: always.then(|| "Always".to_owned()),
        resources: Some(ResourceRequirements {
            limits: Some([("example.com/init".to_owned(), Quantity(count.to_string()))].into()),
            requests: Some([("example.com/init".to_owned(), Quantity(count.to_string()))].into()),
            ..Default::default()
        }),
        ..Default::default()
    };
    for (name, inits, main) in [(
        "inits",
        vec![
            container("i1", 2, false),
            container("i2", 2, false),
            container("i3", 2, false),
        ],
        2,
    )] {
        let pod = scenario
            .pod(name)
            .request("example.com/init", main)
            .spec(|spec| spec.init_containers = Some(inits));
        tenant.create(&pod.build()).await?;
    }
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    show(&scenario, "init").await?;
    eprintln!("INIT: {} H100 given", given(&scenario, "card-0").await?);
    Ok(())
}

#[tokio::test]
async fn scratch_node_name() -> Outcome {
    let (_, scenario, tenant) = scene("other-node", &[&[("H100", 8)]]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&scenario.card("H100"), 1))
        .await?;
    tenant
        .create(&template("one", &exactly(NVIDIA, 4, Some(&scenario.card("H100"))))?)
        .await?;
    let pod = by_template(scenario.pod("named"), "one").spec(|spec| spec.node_name = Some("other-node-0".to_owned()));
    let created = tenant.api::<Pod>().create(&Default::default(), &pod.build()).await;
    eprintln!(
        "NODE: {:?}",
        created.as_ref().map(|pod| pod
            .spec
            .as_ref()
            .map(|s| (s.node_name.clone(), s.scheduling_gates.clone())))
    );
    let claim: ResourceClaim = serde_json::from_value(
        json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": exactly(NVIDIA, i64::MAX as usize, Some(&scenario.card("H100")))}}}),
    )?;
    eprintln!(
        "HUGE: {:?}",
        tenant
            .api::<ResourceClaim>()
            .create(&Default::default(), &claim)
            .await
            .map(drop)
    );
    let zero: ResourceClaim = serde_json::from_value(
        json!({"metadata": {"name": "z"}, "spec": {"devices": {"requests": exactly(NVIDIA, 0, Some(&scenario.card("H100")))}}}),
    )?;
    eprintln!(
        "ZERO: {:?}",
        tenant
            .api::<ResourceClaim>()
            .create(&Default::default(), &zero)
            .await
            .map(drop)
    );
    tenant.create(&by_name(scenario.pod("huge"), "c").build()).await?;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    show(&scenario, "node").await?;
    let _ = Tally::none();
    Ok(())
}
