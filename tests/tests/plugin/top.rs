//! `kubectl card top`: bars of cards, queues and nodes, as far as whoever asks may see them.

use cardgate_tests::scenario::Scenario;
use cardgate_tests::world::World;
use serde_json::{Value, json};

use super::{Outcome, answers, card, editor, two_run_and_one_waits, viewer};

#[tokio::test]
async fn everybody_sees_cards_and_quotas_and_a_viewer_of_the_cluster_also_use_and_nodes() -> Outcome {
    let scenario = Scenario::begin(World::shared().await?, "plugin-top").await?;
    let (edits, views) = (editor(&scenario).await?, viewer(&scenario).await?);
    let name = two_run_and_one_waits(&scenario).await?;
    let row = |data: &Value, of: &str| -> Option<Value> {
        let rows = data[of].as_array()?;
        rows.iter().find(|row| row["card"] == *name).cloned()
    };
    let queue = json!({
        "queue": "plugin-top", "card": name, "guaranteed": 0, "deserved": 2, "quota": 2, "used": 2, "borrowed": 0, "waiting": 1,
        "own": { "allocated": 2, "waiting": 1 },
    });
    let node = json!({ "node": "plugin-top", "card": name, "total": 4, "used": 2, "free": 2, "usable": true });
    let cards =
        json!({ "card": name, "kind": "Whole", "total": 4, "charged": 2, "unaccounted": 0, "free": 2, "unusable": 0 });
    let is_seen = |data: &Value| {
        row(data, "queues").as_ref() == Some(&queue)
            && row(data, "nodes").as_ref() == Some(&node)
            && row(data, "cards").as_ref() == Some(&cards)
    };
    answers(&scenario, &views, &["top"], is_seen).await?;
    let answer = card(&scenario, &views, &["top"]).await?;
    assert_eq!((answer.code, &*answer.err), (Some(0), ""), "{answer:?}");
    let line = |start: &str| {
        let line = answer
            .out
            .lines()
            .find(|line| line.starts_with(start) && line.contains(&name));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    let (half, full) = ("##########..........", "####################");
    assert_eq!(line(&name), [&*name, half, "2", "4", "0"], "{answer:?}");
    let cells: Vec<_> = answer
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    let of_queue = ["plugin-top", &*name, full, "2", "0", "0", "2", "2", "1"];
    assert!(cells.iter().any(|cells| cells == &of_queue), "{answer:?}");
    let of_node = ["plugin-top", &*name, half, "2", "2", "4"];
    assert!(cells.iter().any(|cells| cells == &of_node), "{answer:?}");

    // What is not theirs to see is said, and nothing is guessed.
    let data = answers(&scenario, &edits, &["top"], |data| {
        row(data, "cards").as_ref() == Some(&cards)
    })
    .await?;
    assert!(
        data["nodes"].is_null() && row(&data, "queues").is_some_and(|row| row["used"].is_null()),
        "{data}"
    );
    let answer = card(&scenario, &edits, &["top", "--watch"]).await?;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.err.contains("no terminal"), "{answer:?}");
    for said in [
        "not shown: what queues use: ",
        "not shown: nodes: you may not list cardinventories",
    ] {
        assert!(answer.out.contains(said), "{answer:?}");
    }
    assert!(!answer.out.contains("NODE "), "{answer:?}");
    Ok(())
}
