//! The door: what is refused, and in which words.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::workloads::PodBuilder;
use cardgate_tests::world::World;
use crds::keys;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Event, Pod};
use kube::api::ListParams;
use serde_json::json;

use crate::Outcome;

/// A pod with a second container that requests this.
fn beside(builder: PodBuilder, resource: &str, quantity: &str) -> PodBuilder {
    let container: Container = serde_json::from_value(json!({
        "name": "beside",
        "image": "registry.k8s.io/pause:3.10",
        "resources": { "requests": { resource: quantity }, "limits": { resource: quantity } },
    }))
    .expect("a container");
    builder.spec(|spec| spec.containers.push(container))
}

#[tokio::test]
async fn a_wrong_pod_is_refused_with_the_key_the_value_and_the_remedy() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "wrong-pods").await?;
    let (whole, shared) = (scenario.card("NVIDIA-A100"), scenario.card("NVIDIA-H800"));
    let share = format!("{shared}/mps-80g*1/2");
    scenario
        .nodes(&[
            nodes::nvidia("wrong-pods-whole", &whole, 8, 81_920),
            nodes::nvidia_mps("wrong-pods-shared", &shared, 8, 81_920, 2),
        ])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&whole, 8)).await?;
    scenario.door_knows(&[&whole, &share]).await?;

    let named = |card: &str| scenario.gpu_pod("wrong", card, 1);
    let cases: Vec<(PodBuilder, Vec<String>)> = vec![
        (
            named(""),
            vec![keys::CARD_NAME.into(), "\"\" has an empty card name".into()],
        ),
        (
            named("A100||H100"),
            vec![
                keys::CARD_NAME.into(),
                "\"A100||H100\" has an empty card name: write".into(),
            ],
        ),
        (
            named("A100 | A100"),
            vec![
                keys::CARD_NAME.into(),
                "names \"A100\" twice: name every alternative once".into(),
            ],
        ),
        (
            named("A\n100"),
            vec![keys::CARD_NAME.into(), "\"A\\n100\" holds a control character".into()],
        ),
        (
            named(&format!("{whole}|{share}")),
            vec![
                format!(
                    "{}: \"{whole}|{share}\" mixes cards of different resources",
                    keys::CARD_NAME
                ),
                format!("{whole} is nvidia.com/gpu"),
                format!("{share} is nvidia.com/gpu.shared"),
                "name only cards of one resource".into(),
            ],
        ),
        (
            scenario.pod("wrong").card(&whole),
            vec![
                format!("{}: {whole:?} stands for the resource nvidia.com/gpu", keys::CARD_NAME),
                "no container requests: add nvidia.com/gpu".into(),
            ],
        ),
        (
            named(&share),
            vec!["stands for the resource nvidia.com/gpu.shared, which no container requests".into()],
        ),
        (
            beside(
                scenario.pod("wrong").card(&whole).request("nvidia.com/gpu", i64::MAX),
                "nvidia.com/gpu",
                "1",
            ),
            vec!["the containers' requests of nvidia.com/gpu add up to more than 2^63-1: lower them".into()],
        ),
        (
            named(&whole).spec(|spec| spec.node_name = Some("wrong-pods-whole".into())),
            vec!["spec.nodeName: \"wrong-pods-whole\"".into(), "leave it empty".into()],
        ),
        (
            named(&whole).annotation(keys::SCORING_STRATEGY, "fastest"),
            vec![keys::SCORING_STRATEGY.into(), "fastest".into(), "most-allocated".into()],
        ),
        (
            named(&whole).queue("Team A"),
            vec![
                format!("{}: \"Team A\" can't be the name of a queue", keys::QUEUE_NAME),
                "see kubectl get queues".into(),
            ],
        ),
    ];
    for (builder, says) in cases {
        let message = scenario.refused(&builder.build()).await?;
        for part in says {
            assert!(message.contains(&part), "{part:?} is missing: {message}");
        }
    }
    assert_eq!(scenario.api::<Pod>().list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}

#[tokio::test]
async fn whoever_makes_a_wrong_pod_is_told_in_an_event() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "wrong-template").await?;
    let wrong = scenario.gpu_pod("wrong", "A100||H100", 1);
    scenario.create(&wrong.deployment(1)).await?;
    let events = scenario.api::<Event>();
    let about = ListParams::default().fields("involvedObject.kind=ReplicaSet,reason=FailedCreate");
    wait::eventually("the event of the ReplicaSet", wait::PATIENCE, async || {
        let found = events.list(&about).await?.items;
        let told = found.iter().any(|event| {
            event
                .message
                .as_deref()
                .is_some_and(|text| text.contains("has an empty card name"))
        });
        Ok(Seen::when(told, format!("{found:?}")))
    })
    .await
}

#[tokio::test]
async fn a_wrong_queue_is_refused_when_it_is_created_and_when_it_is_changed() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "wrong-queues").await?;
    let quota = |text: &str| scenario.queue().annotation(keys::CARD_QUOTA, text).build();
    let cases = [
        (quota("eight"), vec![keys::CARD_QUOTA, "\"eight\" is not a JSON object"]),
        (
            quota("[8]"),
            vec![keys::CARD_QUOTA, "is not a JSON object of card names"],
        ),
        (quota(""), vec![keys::CARD_QUOTA, "\"\" is not a JSON object"]),
        (
            quota(r#"{"A100": 1, "A100": 2}"#),
            vec![
                keys::CARD_QUOTA,
                "the key \"A100\" appears twice: give every card one number",
            ],
        ),
        (
            quota(r#"{"A100": 1.5}"#),
            vec![
                keys::CARD_QUOTA,
                "the key \"A100\" has the value 1.5: write a whole number",
            ],
        ),
        (
            quota(r#"{"A100": -1}"#),
            vec![
                keys::CARD_QUOTA,
                "the key \"A100\" has the value -1: write a whole number",
            ],
        ),
        (
            quota(r#"{"A100": "8"}"#),
            vec![
                keys::CARD_QUOTA,
                "the key \"A100\" has the value \"8\"",
                "without quotes",
            ],
        ),
        (
            quota(r#"{"A100": 9223372036854775808}"#),
            vec![keys::CARD_QUOTA, "the key \"A100\" has the value 9223372036854775808"],
        ),
        (
            quota(r#"{"": 1}"#),
            vec![keys::CARD_QUOTA, "the key \"\"", "has an empty card name"],
        ),
        (
            quota(r#"{"A100|H100": 1}"#),
            vec![keys::CARD_QUOTA, "the key \"A100|H100\" names alternatives"],
        ),
        (
            scenario.queue().annotation(keys::QUEUE_NAMESPACES, "").build(),
            vec![keys::QUEUE_NAMESPACES, "is empty: remove the annotation"],
        ),
        (
            scenario.queue().annotation(keys::QUEUE_NAMESPACES, "team in a").build(),
            vec![keys::QUEUE_NAMESPACES, "\"team in a\" is not a label selector"],
        ),
    ];
    let plane = scenario.plane();
    let check = async |when: &str| {
        for (queue, says) in &cases {
            let error = plane.apply(queue).await;
            let message = format!("{:#}", error.err().ok_or_else(|| anyhow::anyhow!("accepted: {queue}"))?);
            for part in says {
                assert!(message.contains(part), "{when}: {part:?} is missing: {message}");
            }
        }
        anyhow::Ok(())
    };
    check("on create").await?;
    let missing = plane.kubectl().run(["get", "queue", scenario.name()]).await;
    assert!(missing.is_err_and(|error| error.to_string().contains("NotFound")));

    scenario.apply_queue(scenario.queue().quota("A100", 4)).await?;
    check("on update").await?;
    let path = format!(
        "jsonpath={{.metadata.annotations.{}}}",
        keys::CARD_QUOTA.replace('.', "\\.")
    );
    let kept = plane
        .kubectl()
        .run(["get", "queue", scenario.name(), "-o", &path])
        .await?;
    assert_eq!(kept, r#"{"A100":4}"#);
    Ok(())
}

#[tokio::test]
async fn a_wrong_card_request_is_refused_on_groups_and_jobs() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "wrong-requests").await?;
    let (text, says) = (r#"{"A100|": 8}"#, "\"A100|\" has an empty card name");
    let group = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "wrong",
            "namespace": scenario.name(),
            "annotations": { keys::CARD_REQUEST: text },
        },
        "spec": { "minMember": 1 },
    });
    let refused = format!("{:#}", scenario.plane().apply(&group).await.unwrap_err());
    assert!(
        refused.contains(keys::CARD_REQUEST) && refused.contains(says),
        "{refused}"
    );

    let mut job = scenario.pod("wrong").job(1);
    job.metadata.annotations = Some([(keys::CARD_REQUEST.to_owned(), text.to_owned())].into());
    let refused = scenario.refused::<Job>(&job).await?;
    assert!(
        refused.contains(keys::CARD_REQUEST) && refused.contains(says),
        "{refused}"
    );

    // What is certain to be refused of every pod is refused of the Job already.
    let mut job = scenario.gpu_pod("wrong", "A100||H100", 1).job(1);
    job.metadata.annotations = Some([(keys::CARD_REQUEST.to_owned(), r#"{"A100": 1}"#.to_owned())].into());
    let refused = scenario.refused::<Job>(&job).await?;
    for part in [
        "spec.template",
        keys::CARD_NAME,
        "\"A100||H100\" has an empty card name",
    ] {
        assert!(refused.contains(part), "{part:?} is missing: {refused}");
    }
    Ok(())
}
