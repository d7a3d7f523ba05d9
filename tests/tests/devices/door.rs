//! What whoever writes a pod with claims is told at once, before anything waits.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::{PodBuilder, pod};
use cardgate_tests::world::World;
use crds::card_type::CardType;
use crds::keys::{CARD_NAME, QUEUE_NAME};
use crds::slug::slug;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::{MIG, NVIDIA, Outcome, by_name, by_template, claim, exactly, nodes, pods, template, world};

/// Waits until the door knows what the devices of these cards say of themselves, so that claims can contradict them.
async fn door_knows(world: &World, scenario: &Scenario<'_>, contradiction: &PodBuilder, cards: &[&str]) -> Outcome {
    let types: Api<CardType> = Api::all(world.plane.client().await?);
    for card in cards {
        wait::object(&types, &slug(card), "its devices", |found| {
            let status = found.and_then(|found| found.status.as_ref());
            let devices = status.map(|status| status.devices.clone()).unwrap_or_default();
            Seen::when(
                devices.iter().any(|device| device.driver == NVIDIA),
                format!("{devices:?}"),
            )
        })
        .await?;
    }
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe = contradiction.clone().name("probe").build();
    wait::eventually("the door to know the devices", wait::PATIENCE, async || {
        let answer = scenario.api::<Pod>().create(&dry_run, &probe).await;
        Ok(match answer {
            Err(kube::Error::Api(status)) if status.message.contains("claims ask for") => Seen::Done(()),
            other => Seen::NotYet(format!("{:?}", other.map(|_| "accepted"))),
        })
    })
    .await
}

#[tokio::test]
async fn claims_for_other_cards_than_the_pod_names_are_refused_and_workloads_are_warned() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-door").await?;
    let (a100, h100) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H100"));
    nodes(&scenario, world, &[(&a100, 2), (&h100, 2)]).await?;
    scenario
        .apply_queue(scenario.queue().quota(&a100, 2).quota(&h100, 2))
        .await?;
    template(world, &scenario, "a100", &exactly(NVIDIA, 1, Some(&a100))).await?;
    claim(world, &scenario, "mine", &exactly(NVIDIA, 1, Some(&a100))).await?;
    template(world, &scenario, "mig", &exactly(MIG, 1, None)).await?;
    let naming = |card: &str| scenario.pod("p").card(card);
    let contradiction = by_template(naming(&h100), "a100");
    door_knows(world, &scenario, &contradiction, &[&a100, &h100]).await?;
    for (pod, named) in [
        (contradiction.clone(), "ResourceClaimTemplate \"a100\""),
        (by_name(naming(&h100), "mine"), "ResourceClaim \"mine\""),
    ] {
        let refused = scenario.refused(&pod.build()).await?;
        for says in [CARD_NAME, named, &*format!("{a100})"), "name one of these"] {
            assert!(refused.contains(says), "{says} is missing in: {refused}");
        }
    }
    // Who makes such pods is told when that is made.
    let web = by_template(scenario.pod("web").card(&h100), "a100");
    let told = scenario.kubectl_create(&web.deployment(1)).await?;
    let told = told.map_err(anyhow::Error::msg)?;
    assert!(
        told.contains("Warning: spec.template: annotation volcano.sh/card.name"),
        "{told}"
    );
    scenario.delete::<Deployment>("web").await?;
    // What fits, in any of the names, is let in.
    let either = format!("{h100}|{a100}");
    scenario.create(&by_template(naming(&either), "a100").build()).await?;
    scenario.expect("p", &pods().running(&a100, 1)).await
}

#[tokio::test]
async fn what_no_claim_can_be_charged_for_is_told_when_it_is_written() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-told").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 1)]).await?;
    let mut odd = exactly(NVIDIA, 1, None);
    let expression = format!("device.attributes['{NVIDIA}'].productName.matches('(A|B){{2}}')");
    odd[0]["exactly"]["selectors"] = json!([{ "cel": { "expression": expression } }]);
    template(world, &scenario, "odd", &odd).await?;
    template(world, &scenario, "classless", &exactly("nowhere.example.com", 1, None)).await?;
    for (name, says) in [
        ("odd", "Cardgate does not evaluate matches with a pattern"),
        ("classless", "DeviceClass \"nowhere.example.com\" does not exist"),
    ] {
        // Without any word of cards or queues on it, but that of its claims.
        let plain = by_template(pod(name).namespace(scenario.name()).queue(scenario.name()), name);
        let told = scenario.kubectl_create(&plain.deployment(1)).await?;
        let told = told.map_err(anyhow::Error::msg)?;
        assert!(told.contains(says), "{says} is missing in: {told}");
    }
    Ok(())
}

/// The door is told which resources classes provide: where the namespace names a queue, they are held for it like cards by claims.
#[tokio::test]
async fn what_classes_provide_is_held_where_the_namespace_names_a_queue() -> Outcome {
    let world = world().await?;
    let scenario = Scenario::begin(world, "dra-provided").await?;
    let a100 = scenario.card("NVIDIA-A100");
    nodes(&scenario, world, &[(&a100, 4)]).await?;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "provided.example.com"},
        "spec": {"extendedResourceName": "example.com/provided", "selectors": [{"cel": {"expression":
            format!("device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].productName == '{a100}'")}}]}});
    world.plane.apply(&class).await?;
    scenario.apply_queue(scenario.queue().quota(&a100, 2)).await?;
    let annotated = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.name(),
        "annotations": {QUEUE_NAME: scenario.name()}}});
    world.plane.apply(&annotated).await?;
    let of = |name: &str, resource: &str| pod(name).namespace(scenario.name()).request(resource, 1);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for (name, resource) in [
        ("extended", "example.com/provided"),
        ("implicit", "deviceclass.resource.kubernetes.io/provided.example.com"),
    ] {
        wait::eventually(format!("the door to hold {resource}"), wait::PATIENCE, async || {
            let answer = scenario
                .api::<Pod>()
                .create(&dry_run, &of("probe", resource).build())
                .await;
            let queue = answer.as_ref().map(|pod| pod.annotations().get(QUEUE_NAME).cloned());
            Ok(Seen::when(matches!(&queue, Ok(Some(_))), format!("{queue:?}")))
        })
        .await?;
        scenario.create(&of(name, resource).build()).await?;
        scenario.expect(name, &pods().running(&a100, 1)).await?;
    }
    scenario.create(&of("third", "example.com/provided").build()).await?;
    scenario
        .expect_for_good("third", &pods().waiting(crate::NO_QUOTA, 1))
        .await?;
    // Beside the card's name, too.
    let named = of("named", "deviceclass.resource.kubernetes.io/provided.example.com").card(&a100);
    scenario.create(&named.build()).await?;
    scenario.waits("named", crate::NO_QUOTA).await.map(drop)
}
