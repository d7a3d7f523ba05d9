//! `enqueue: false`: beside Volcano's scheduler.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use crds::keys::{CARD_REQUEST, GROUP_NAME};
use crds::volcano::PodGroup;
use serde_json::json;

use crate::{NO_QUOTA, Outcome, configured};

async fn phase(scenario: &Scenario<'_>, group: &str) -> anyhow::Result<Option<String>> {
    let group = scenario.api::<PodGroup>().get(group).await?;
    Ok(group.status.and_then(|status| status.phase))
}

#[tokio::test]
async fn beside_volcano_phases_are_left_alone_and_gangs_stay_whole() -> Outcome {
    let (world, _turn) = configured(None, Some("enqueue: false\n")).await?;
    let scenario = Scenario::begin(world, "beside-volcano").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia("beside-volcano", &card, 8, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&card, 4)).await?;
    for (name, asks) in [("small", 3), ("large", 5)] {
        let request = format!("{{\"{card}\": {asks}}}");
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": { "name": name, "namespace": scenario.name(), "annotations": { CARD_REQUEST: request } },
            "spec": { "minMember": 3, "queue": scenario.name() },
        });
        scenario.plane().apply(&group).await?;
    }
    // What a group asks for is checked with its pods, and a gang gets in whole.
    let member = |name: &str| scenario.gpu_pod(name, &card, 1).annotation(GROUP_NAME, name);
    scenario.create(&member("large").deployment(3)).await?;
    scenario
        .expect_for_good("large", &Tally::none().waiting(NO_QUOTA, 3))
        .await?;
    scenario.create(&member("small").deployment(3)).await?;
    scenario.expect("small", &Tally::none().running(&card, 3)).await?;
    for group in ["small", "large"] {
        assert_eq!(phase(&scenario, group).await?, None, "{group}");
    }
    // The same groups, without Volcano.
    world.cardgate.configure(&world.plane, None, None).await?;
    cardgate_tests::wait::eventually("the phase Running", cardgate_tests::wait::PATIENCE, async || {
        let phase = phase(&scenario, "small").await?;
        Ok(cardgate_tests::wait::Seen::when(
            phase.as_deref() == Some("Running"),
            format!("{phase:?}"),
        ))
    })
    .await
}

#[tokio::test]
async fn volcanos_scheduler_beside_enqueue_is_noticed_and_said() -> Outcome {
    let (world, _turn) = configured(None, Some("enqueue: true\n")).await?;
    let scenario = Scenario::begin(world, "both-enqueue").await?;
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "seen", "namespace": scenario.name() },
        "spec": { "minMember": 1, "queue": scenario.name() },
        "status": { "conditions": [{
            "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "7",
            "lastTransitionTime": k8s_openapi::jiff::Timestamp::now().to_string(),
        }] },
    });
    scenario.plane().apply(&group).await?;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(scenario.plane().client().await?, crds::keys::NAMESPACE);
    let about =
        kube::api::ListParams::default().fields("involvedObject.name=cardgate-config,reason=EnqueueBesideVolcano");
    cardgate_tests::wait::eventually("the event", cardgate_tests::wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let said = found.iter().filter_map(|event| event.message.as_deref());
        Ok(cardgate_tests::wait::Seen::when(
            said.clone().any(|message| message.contains("set enqueue: false")),
            format!("{:?}", said.collect::<Vec<_>>()),
        ))
    })
    .await
}
