//! Who runs on which cards by claims of their own.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{
    MIG, NO_QUOTA, NVIDIA, Outcome, allocated, by_template, card_has, exactly, form, migs, nodes as device_nodes, pods,
    publish, template, world,
};

#[tokio::test]
async fn claims_by_template_are_charged_by_the_card_that_they_select() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-template").await?;
    let (a100, h100) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    device_nodes(&scenario, world, &[(&a100, 4), (&h100, 4)]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 3).quota(&h100, 1))
        .await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    template(world, &scenario, "h100", &exactly(NVIDIA, 1, Some(&h100))).await?;
    scenario
        .create(&by_template(scenario.pod("large"), "h100").deployment(2))
        .await?;
    scenario
        .create(&by_template(scenario.pod("small"), "a100").deployment(5))
        .await?;
    let small = pods().running(&a100, 3).waiting(NO_QUOTA, 2);
    scenario.expect_for_good("small", &small).await?;
    let large = pods().running(&h100, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("large", &large).await?;
    let given = allocated(&scenario).await?;
    assert_eq!(
        given.into_iter().collect::<Vec<_>>(),
        [("dra-template-0".to_owned(), 3), ("dra-template-1".to_owned(), 1)]
    );
    card_has(world, &a100, |status| {
        (status.total, status.used, status.free) == (4, 3, 1)
    })
    .await?;
    // What a claim got is given back when its pod goes.
    scenario.scale("small", 1).await?;
    card_has(world, &a100, |status| status.used == 1).await?;
    scenario.scale("small", 4).await?;
    let small = pods().running(&a100, 3).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("small", &small).await
}

#[tokio::test]
async fn alternatives_are_taken_in_the_order_of_the_claim() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-alternatives").await?;
    let (a100, h100) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    device_nodes(&scenario, world, &[(&a100, 4), (&h100, 4)]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 1).quota(&h100, 2))
        .await?;
    let named = |name: &str, product: &str| {
        let mut form = form(NVIDIA, 1, Some(product));
        form["name"] = name.into();
        form
    };
    let either = json!([{"name": "gpu", "firstAvailable": [named("h100", &h100), named("a100", &a100)]}]);
    template(world, &scenario, "either", &either).await?;
    scenario
        .create(&by_template(scenario.pod("web"), "either").deployment(4))
        .await?;
    let expected = pods().running(&h100, 2).running(&a100, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("web", &expected).await?;
    let given = allocated(&scenario).await?;
    let expected = [
        ("dra-alternatives-0".to_owned(), 1),
        ("dra-alternatives-1".to_owned(), 2),
    ];
    assert_eq!(
        given.into_iter().collect::<Vec<_>>(),
        expected,
        "where they are charged"
    );
    Ok(())
}

#[tokio::test]
async fn a_resource_that_a_class_provides_is_charged_as_the_same_card() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-extended").await?;
    let a100 = scenario.card("NVIDIA-A100");
    device_nodes(&scenario, world, &[(&a100, 4)]).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 2)).await?;
    scenario
        .create(&scenario.gpu_pod("web", &a100, 1).deployment(3))
        .await?;
    let expected = pods().running(&a100, 2).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("web", &expected).await?;
    assert_eq!(allocated(&scenario).await?.values().sum::<usize>(), 2);
    card_has(world, &a100, |status| (status.used, status.unaccounted) == (2, 0)).await
}

#[tokio::test]
async fn a_class_itself_can_be_requested_as_a_resource() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-implicit").await?;
    let product = scenario.card("NVIDIA-A100");
    let card = format!("{product}/mig-1g.5gb-mixed");
    scenario.nodes(&[nodes::NodeSpec::new("dra-implicit")]).await?;
    publish(&world.plane, "dra-implicit", NVIDIA, &migs(&product, "1g.5gb", 7)).await?;
    card_has(world, &card, |status| status.total == 7).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 2)).await?;
    let resource = format!("deviceclass.resource.kubernetes.io/{MIG}");
    scenario
        .create(&scenario.pod("web").request(&resource, 1).deployment(3))
        .await?;
    let expected = pods().running(&card, 2).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("web", &expected).await
}

#[tokio::test]
async fn both_worlds_share_one_quota() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-mixed").await?;
    let a100 = scenario.card("NVIDIA-A100");
    device_nodes(&scenario, world, &[(&a100, 2)]).await?;
    scenario
        .nodes(&[nodes::nvidia("dra-mixed-plugin", &a100, 2, 81_920)])
        .await?;
    card_has(world, &a100, |status| status.total == 4).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 3)).await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 2, Some(&a100))).await?;
    scenario
        .create(&by_template(scenario.pod("claiming"), "a100").build())
        .await?;
    scenario.expect("claiming", &pods().running(&a100, 1)).await?;
    scenario
        .create(&scenario.gpu_pod("requesting", &a100, 1).deployment(2))
        .await?;
    let expected = pods().running(&a100, 1).waiting(NO_QUOTA, 1);
    scenario.expect_for_good("requesting", &expected).await?;
    card_has(world, &a100, |status| (status.used, status.free) == (3, 1)).await
}

/// Pods are narrowed by a label that nobody else keeps on such nodes.
#[tokio::test]
async fn nodes_are_labelled_while_they_have_cards_by_devices() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-labels").await?;
    let a100 = scenario.card("NVIDIA-A100");
    device_nodes(&scenario, world, &[(&a100, 1)]).await?;
    let label = engine::cluster::device_cards::device_label(&a100);
    let nodes: Api<Node> = Api::all(world.plane.client().await?);
    let value = |found: Option<&Node>| found.and_then(|node| node.labels().get(&label).cloned());
    wait::object(&nodes, "dra-labels-0", "its label", |found| {
        Seen::when(value(found).as_deref() == Some("true"), format!("{:?}", value(found)))
    })
    .await?;
    publish(&world.plane, "dra-labels-0", NVIDIA, &[]).await?;
    wait::object(&nodes, "dra-labels-0", "no label", |found| {
        Seen::when(found.is_some() && value(found).is_none(), format!("{:?}", value(found)))
    })
    .await
    .map(drop)
}
