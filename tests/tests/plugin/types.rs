//! `kubectl card types`: what to write, what is free, and what a queue may have.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use crds::keys::{CARD_QUOTA, QUEUE_NAME};
use serde_json::{Value, json};

use super::{Answer, Outcome, answers, card, editor, of_card, two_run_and_one_waits};

#[tokio::test]
async fn an_editor_of_one_namespace_sees_what_to_write_what_is_free_and_the_quota() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-types").await?;
    let user = editor(&scenario).await?;
    let name = two_run_and_one_waits(&scenario).await?;
    let of_queue = ["types", "--queue", scenario.name()];
    let counted = |data: &Value| of_card(data, &name).is_some_and(|row| row["free"] == 2);
    let data = answers(&scenario, &user, &of_queue, counted).await?;
    let expected = json!({
        "card": name, "resource": "nvidia.com/gpu", "kind": "Whole", "free": 2, "used": 2, "total": 4, "nodes": 1, "quota": 2,
        "problems": "",
    });
    assert_eq!(of_card(&data, &name), Some(&expected), "{data}");

    // Whose namespace names no queue is told so; whose does is shown that queue's quota.
    let answer = card(&scenario, &user, &["types"]).await?;
    assert!(answer.err.contains("names no queue"), "{answer:?}");
    let line = answer.out.lines().find(|line| line.starts_with(&name));
    let cells: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells, [name.as_str(), "2", "4", "-", "nvidia.com/gpu"], "{answer:?}");
    let named = format!("{QUEUE_NAME}={}", scenario.name());
    let annotate = ["annotate", "namespace", scenario.name(), &named];
    scenario.plane().kubectl().run(annotate).await?;
    let answer = card(&scenario, &user, &["types"]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(0), ""), "{answer:?}");
    assert!(answer.out.contains("QUOTA OF plugin-types"), "{answer:?}");

    let answer = card(&scenario, &user, &["types", "--queue", "plugin-nobody"]).await?;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("there is no queue \"plugin-nobody\""), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_queue_may_have_of_a_card_is_none_nothing_or_not_known() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-quotas").await?;
    let user = editor(&scenario).await?;
    let name = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia(scenario.name(), &name, 4, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&name, 0)).await?;
    let kubectl = scenario.plane().kubectl();
    let counted = |data: &Value| of_card(data, &name).is_some();
    let of_queue = ["types", "--queue", scenario.name()];
    answers(&scenario, &user, &of_queue, counted).await?;
    let quota = |answer: &Answer| {
        let line = answer.out.lines().find(|line| line.starts_with(&name));
        line.and_then(|line| line.split_whitespace().nth(3)).map(str::to_owned)
    };
    let answer = card(&scenario, &user, &of_queue).await?;
    assert_eq!(quota(&answer).as_deref(), Some("0"), "{answer:?}");
    let others = format!("{CARD_QUOTA}={{\"{name}-other\": 1}}");
    kubectl
        .run(["annotate", "queue", scenario.name(), &others, "--overwrite"])
        .await?;
    let answer = card(&scenario, &user, &of_queue).await?;
    assert_eq!(quota(&answer).as_deref(), Some("<none>"), "{answer:?}");

    // Cards are there all the same where the namespace names a queue that is not, or can't be read.
    let missing = format!("{QUEUE_NAME}=plugin-quotas-gone");
    kubectl
        .run(["annotate", "namespace", scenario.name(), &missing])
        .await?;
    let answer = card(&scenario, &user, &["types"]).await?;
    assert_eq!(
        (answer.code, quota(&answer).as_deref()),
        (Some(0), Some("-")),
        "{answer:?}"
    );
    let said =
        "note: namespace plugin-quotas names queue plugin-quotas-gone, which does not exist, so no quota is shown";
    assert!(answer.err.starts_with(said), "{answer:?}");
    let answer = card(&scenario, "plugin-quotas-stranger", &["types"]).await?;
    assert_eq!(
        (answer.code, quota(&answer).as_deref()),
        (Some(0), Some("-")),
        "{answer:?}"
    );
    let said = "which queue namespace plugin-quotas names is not known: you may not get namespaces";
    assert!(answer.err.contains(said), "{answer:?}");
    Ok(())
}
