//! `kubectl card why` about nothing in particular: what waits in a namespace, or in all.

use cardgate_tests::nodes;
use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use crds::keys::{CARD_REQUEST, GROUP_NAME};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{NO_QUOTA, Outcome, answers, card, editor, plugin, two_run_and_one_waits, viewer};

#[tokio::test]
async fn an_editor_lists_what_waits_in_their_namespace_and_a_viewer_in_all() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-list").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;
    let said = |data: &Value| data[0]["reason"] == NO_QUOTA;
    let data = answers(&scenario, &edits, &["why"], said).await?;
    assert_eq!(data.as_array().map(Vec::len), Some(1), "{data}");
    assert_eq!(
        (&data[0]["kind"], &data[0]["name"]),
        (&json!("Pod"), &json!("three")),
        "{data}"
    );

    let answer = card(&scenario, &edits, &["why"]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(4), ""), "{answer:?}");
    let missing = format!("queue plugin-list: {name} asked 1, used 2, quota 2");
    let is_listed = |line: &str| line.starts_with("pod/three ") && line.contains(NO_QUOTA) && line.ends_with(&missing);
    assert!(answer.out.lines().any(is_listed), "{answer:?}");

    // The others' are not theirs to list.
    let answer = card(&scenario, &edits, &["why", "-A"]).await?;
    assert_eq!((answer.code, &*answer.out), (Some(3), ""), "{answer:?}");
    assert!(
        answer.err.contains("you may not list pods in all namespaces"),
        "{answer:?}"
    );
    let answer = card(&scenario, &views, &["why", "--all-namespaces"]).await?;
    assert_eq!(answer.code, Some(4), "{answer:?}");
    let is_listed = |line: &str| line.starts_with("plugin-list ") && line.contains(" pod/three ");
    assert!(answer.out.lines().any(is_listed), "{answer:?}");
    let answer = card(&scenario, "plugin-list-stranger", &["why"]).await?;
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(
        answer.err.contains("you may not list pods in namespace plugin-list"),
        "{answer:?}"
    );

    // A namespace that is not there is none in which nothing waits, nor one without Cardgate.
    for (args, code, said) in [
        (&["why"][..], 0, "note: there is no namespace plugin-lost\n"),
        (&["why", "three"], 1, "error: there is no namespace plugin-lost\n"),
    ] {
        let output = Command::new(plugin().await?)
            .args(args)
            .args(["--namespace", "plugin-lost", "--as", &views])
            .env("KUBECONFIG", scenario.plane().kubectl().kubeconfig())
            .output()
            .await?;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(String::from_utf8(output.stderr)?, said);
    }
    Ok(())
}

#[tokio::test]
async fn jobs_and_gangs_are_listed_with_why_they_wait_and_are_one_of_what_waits_in_their_queue() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-wholes").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = scenario.card("NVIDIA-A100");
    scenario
        .nodes(&[nodes::nvidia(scenario.name(), &name, 4, 81_920)])
        .await?;
    scenario.apply_queue(scenario.queue().quota(&name, 2)).await?;
    let gang = json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": { "name": "gang", "namespace": scenario.name() },
        "spec": { "queue": scenario.name(), "minMember": 3 },
    });
    scenario.plane().apply(&gang).await?;
    let members = scenario.gpu_pod("member", &name, 1).annotation(GROUP_NAME, "gang");
    scenario.create(&members.deployment(3)).await?;
    // A gang has a condition; of a Job, whoever decides is asked.
    let said = |data: &Value, kind: &str, missing: &str| {
        let rows = data.as_array().into_iter().flatten();
        let mut rows = rows.filter(|row| row["kind"] == kind);
        let is_right =
            |row: &Value| row["reason"] == NO_QUOTA && row["message"].as_str().unwrap_or("").contains(missing);
        rows.next().is_some_and(is_right)
    };
    // Who comes later stands behind.
    answers(&scenario, &edits, &["why"], |data| said(data, "PodGroup", "asked 3")).await?;
    let mut held = scenario.gpu_pod("train", &name, 1).job(8);
    let request = format!("{{\"{name}\": 8}}");
    held.metadata
        .annotations
        .get_or_insert_default()
        .insert(CARD_REQUEST.to_owned(), request);
    scenario.create(&held).await?;
    let both = |data: &Value| said(data, "PodGroup", "asked 3") && said(data, "Job", "asked 8");
    let data = answers(&scenario, &edits, &["why"], both).await?;
    assert_eq!(
        data.as_array().map(Vec::len),
        Some(5),
        "three pods, their gang and the Job: {data}"
    );
    let answer = card(&scenario, &edits, &["why"]).await?;
    let is_told = |start: &str| {
        let told = answer.out.lines().find(|line| line.starts_with(start));
        told.is_some_and(|line| line.contains(NO_QUOTA))
    };
    assert!(is_told("podgroup/gang ") && is_told("job/train "), "{answer:?}");
    assert_eq!((answer.code, &*answer.err), (Some(4), ""), "{answer:?}");

    let rows = |data: &Value| {
        let shown = data["usage"]["firstWaiting"].as_array().into_iter().flatten();
        let row = |row: &Value| json!([row["kind"], row["name"], row["pods"], row["cards"][&name]]);
        shown.map(row).collect::<Vec<_>>()
    };
    let expected = [
        json!(["PodGroup", "plugin-wholes/gang", 3, 3]),
        json!(["Job", "plugin-wholes/train", 0, 8]),
    ];
    let as_wholes = |data: &Value| rows(data) == expected;
    answers(&scenario, &views, &["queue", scenario.name()], as_wholes).await?;
    let answer = card(&scenario, &views, &["queue", scenario.name()]).await?;
    assert!(
        answer
            .out
            .contains("2 of 2 that wait (3 pods in all), first to go first:"),
        "{answer:?}"
    );
    Ok(())
}
