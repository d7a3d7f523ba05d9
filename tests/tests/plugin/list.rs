//! `kubectl card why` about nothing in particular: what waits in a namespace, or in all.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use serde_json::json;

use super::{NO_QUOTA, Outcome, answers, card, editor, two_run_and_one_waits, viewer};

#[tokio::test]
async fn an_editor_lists_what_waits_in_their_namespace_and_a_viewer_in_all() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-list").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;
    let said = |data: &serde_json::Value| data[0]["reason"] == NO_QUOTA;
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
    Ok(())
}
