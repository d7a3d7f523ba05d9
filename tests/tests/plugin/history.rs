//! `kubectl card history`: what Kubernetes keeps of the past, as far as whoever asks may see it.

use anyhow::Context as _;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use crds::keys::CARD_QUOTA;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Outcome, answers, card, editor, two_run_and_one_waits, viewer};

fn of<'d>(data: &'d Value, what: &str) -> Vec<&'d Value> {
    let entries = data["entries"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["what"] == what).collect()
}

/// An event of the operator's, as somebody who may write events can forge it.
async fn tell(scenario: &Scenario<'_>, name: &str, reason: &str, message: &str) -> Outcome {
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": scenario.name() },
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "namespace": scenario.name(), "name": "gone\u{1b}[2J" },
        "reason": reason, "message": message, "type": "Warning", "action": "Observe",
        "eventTime": format!("{:.6}", Timestamp::now()), "reportingComponent": "card.volcano.sh/operator",
        "reportingInstance": "operator-0",
    });
    scenario.plane().apply(&event).await?;
    Ok(())
}

#[tokio::test]
async fn an_editor_reads_who_was_let_in_who_was_evicted_and_what_changed_the_quota() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-history").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;
    let quota = format!("{CARD_QUOTA}={}", json!({ &name: 3 }));
    let annotate = [
        "annotate",
        "queue",
        scenario.name(),
        &quota,
        "--overwrite",
        "--field-manager=the-boss",
    ];
    scenario.plane().kubectl().run(annotate).await?;
    let message = "evicted for a pod of queue \u{1b}]0;owned\u{7}, which asks 1 card\nFORGED   ROW";
    tell(&scenario, "history-evicted", "Reclaimed", message).await?;
    tell(
        &scenario,
        "history-waits",
        "InsufficientScalarQuota",
        "that it waits is no part of the history",
    )
    .await?;

    let all_in = |data: &Value| of(data, "Admitted").len() == 3;
    let data = answers(&scenario, &edits, &["history"], all_in).await?;
    let times: Vec<_> = data["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| entry["time"].as_str().unwrap_or_default().parse::<Timestamp>())
        .collect::<Result<_, _>>()?;
    assert!(times.is_sorted(), "{data}");
    let admitted: Vec<_> = of(&data, "Admitted")
        .into_iter()
        .map(|entry| entry["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(admitted.last(), Some(&"pod/three"), "{data}");
    let let_in = format!("let in by queue plugin-history with {name}");
    assert_eq!(of(&data, "Admitted")[0]["details"], json!(let_in), "{data}");
    let [evicted] = of(&data, "Evicted")[..] else {
        panic!("{data}")
    };
    assert_eq!(evicted["source"], "Event", "{data}");
    let by: Vec<_> = of(&data, "Queue")
        .into_iter()
        .map(|entry| (&entry["by"], &entry["details"]))
        .collect();
    let expected = (&json!("the-boss"), &json!(format!("has written {CARD_QUOTA}")));
    assert!(by.contains(&expected), "{data}");
    assert!(
        data["oldestEvent"].is_string() && data["unknown"][0].as_str().unwrap_or_default().contains("--event-ttl"),
        "{data}"
    );

    // Nothing that others write commands the terminal, or makes a row of its own.
    for output in ["wide", "json", "yaml"] {
        let answer = card(&scenario, &edits, &["history", "--output", output]).await?;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.out.contains("owned"), "{answer:?}");
        let is_bad = |character: char| character.is_control() && character != '\n';
        assert!(!answer.out.contains(is_bad), "{answer:?}");
        assert!(!answer.out.lines().any(|line| line.starts_with("FORGED")), "{answer:?}");
    }
    let answer = card(&scenario, &edits, &["history"]).await?;
    assert!(answer.err.contains("audit log knows"), "{answer:?}");
    let row = answer.out.lines().find(|line| line.contains("pod/three"));
    assert!(row.context("no row")?.contains(" Admitted "), "{answer:?}");

    // Of others, for who may see them; of the past, as far as it is asked for.
    let answer = card(&scenario, &edits, &["history", "-A"]).await?;
    assert_eq!((answer.code, &*answer.out), (Some(3), ""), "{answer:?}");
    assert!(answer.err.contains("in all namespaces"), "{answer:?}");
    let answer = card(&scenario, &views, &["history", "-A"]).await?;
    let is_row = |line: &str| line.starts_with("plugin-history ") && line.contains("pod/three");
    assert!(answer.out.lines().any(is_row), "{answer:?}");
    let answer = card(&scenario, "plugin-history-stranger", &["history"]).await?;
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let answer = card(&scenario, &edits, &["history", "--since", "tomorrow"]).await?;
    assert_eq!(answer.code, Some(2), "{answer:?}");
    Ok(())
}
