//! The logs in JSON, as collectors read them.

use cardgate_tests::cardgate::{Cardgate, Instance, Settings};
use cardgate_tests::controlplane::{ControlPlane, Options};
use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::tally::Tally;
use cardgate_tests::wait::{self, Seen};
use cardgate_tests::world::World;
use serde_json::{Value, json};

type Outcome = anyhow::Result<()>;

/// Waits until a line has all of these fields; every line is JSON.
async fn logs(instance: &Instance, expected: Value) -> Outcome {
    let has = |line: &Value| {
        let mut fields = expected.as_object().into_iter().flatten();
        fields.all(|(name, value)| line[name] == *value)
    };
    wait::eventually(
        format!("{} to log {expected}", instance.name()),
        wait::PATIENCE,
        async || {
            let lines = instance.log()?;
            let lines: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
            let lines = lines?;
            Ok(Seen::when(lines.iter().any(has), format!("{:?}", lines.last())))
        },
    )
    .await
}

#[tokio::test]
async fn decisions_and_refusals_have_pod_queue_card_and_reason_as_fields() -> Outcome {
    let plane = ControlPlane::start(Options::default()).await?;
    let in_json = vec![("LOG_FORMAT".to_owned(), "json".to_owned())];
    let settings = Settings {
        operator_env: in_json.clone(),
        webhook_env: in_json,
        ..Settings::default()
    };
    let cardgate = Cardgate::start_with(&plane, settings).await?;
    let world = World { cardgate, plane };
    let scenario = Scenario::begin(&world, "logged").await?;
    let card = scenario.card("NVIDIA-A100");
    scenario.nodes(&[nodes::nvidia("logged", &card, 8, 81_920)]).await?;
    scenario.apply_queue(scenario.queue().quota(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("first", &card, 1).build()).await?;
    scenario.expect("first", &Tally::none().running(&card, 1)).await?;
    scenario.create(&scenario.gpu_pod("second", &card, 1).build()).await?;
    scenario.waits("second", "InsufficientScalarQuota").await?;
    scenario.refused(&scenario.gpu_pod("wrong", "A||B", 1).build()).await?;

    let (operator, webhook) = (world.cardgate.operator(), world.cardgate.webhook());
    let admitted = json!({ "message": "admitted", "pod": "logged/first", "queue": "logged", "card": card });
    logs(operator, admitted).await?;
    logs(
        operator,
        json!({
            "message": "waits", "pod": "logged/second", "queue": "logged", "card": card,
            "reason": "InsufficientScalarQuota",
        }),
    )
    .await?;
    logs(
        webhook,
        json!({
            "namespace": "logged", "pod": "wrong", "queue": "logged", "card": "A||B", "reason": "CardNameInvalid",
        }),
    )
    .await
}
