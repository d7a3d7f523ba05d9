//! `kubectl card queue`: what queues may have, have and wait for.

use std::collections::BTreeMap;

use crds::card_usage::{CardUsage, CardUsageStatus};
use crds::format::column;
use crds::queue_terms::{Item, QueueTerms};
use crds::volcano::Queue;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::{Answer, DASH, number_or_dash};

/// How long a list of cards may be in the table of all queues, in characters, so that a line fits 120.
const COLUMN: usize = 34;
/// The longest text in a table on what is missing.
const LONGEST_MISSING: usize = 120;

/// One queue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    queue: String,
    /// What the queue may have, by card.
    quota: BTreeMap<String, i64>,
    /// What the queue has and waits for; `None` if the user may not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<CardUsageStatus>,
}

/// Returns what a queue may have of each card that it names; `None` if there is no such queue.
pub fn quotas(queues: &[Queue], name: &str) -> Option<BTreeMap<String, i64>> {
    queues.iter().find(|queue| queue.name_any() == name).map(quota)
}

/// Returns what a queue says that it may have of each card.
fn quota(queue: &Queue) -> BTreeMap<String, i64> {
    let terms = QueueTerms::read(&queue.spec, |key| queue.annotations().get(key).map(String::as_str));
    let cards = terms.capability.into_iter().filter_map(|(item, amount)| match item {
        Item::Card(card) => Some((card.into(), amount)),
        Item::Resource(_) => None,
    });
    cards.collect()
}

/// Returns all queues, with what they have if the user may see that, and otherwise a note on why not.
async fn rows(cluster: &Cluster) -> Result<(Vec<Row>, Option<String>), Failure> {
    let queues = cluster.queues().await?;
    let (usages, note) = match cluster.usages_of_queues().await {
        Ok(usages) => (usages, None),
        Err(failure @ Failure::Forbidden { .. }) => (Vec::new(), Some(format!("quotas only: {failure}"))),
        Err(failure) => return Err(failure),
    };
    let usage = |name: &str| usages.iter().find(|usage| usage.spec.queue == name).cloned();
    let row = |queue: &Queue| Row {
        queue: queue.name_any(),
        quota: quota(queue),
        usage: usage(&queue.name_any()).and_then(|usage: CardUsage| usage.status),
    };
    let mut rows: Vec<Row> = queues.iter().map(row).collect();
    rows.sort_by(|a, b| a.queue.cmp(&b.queue));
    Ok((rows, note))
}

/// Answers for all queues.
pub async fn answer(cluster: &Cluster) -> Result<Answer, Failure> {
    let (rows, note) = rows(cluster).await?;
    let mut answer = of_all(&rows)?;
    answer.notes.extend(note);
    Ok(answer)
}

/// Shows all of these queues.
fn of_all(rows: &[Row]) -> Result<Answer, Failure> {
    let mut answer = Answer::new(&rows).map_err(|error| Failure::unprintable(&error))?;
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            let of_usage =
                |text: fn(&CardUsageStatus) -> String| row.usage.as_ref().map_or_else(|| DASH.to_owned(), text);
            [
                row.queue.clone(),
                in_a_column(row.quota.iter().map(|(card, amount)| (card, *amount)), COLUMN),
                of_usage(|usage| {
                    let held = usage.cards.iter().filter(|card| card.allocated > 0);
                    in_a_column(held.map(|card| (&card.name, card.allocated)), COLUMN)
                }),
                of_usage(|usage| usage.waiting.to_string()),
                of_usage(|usage| usage.problems.clone()),
                of_usage(|usage| usage.share.clone()),
                of_usage(|usage| usage.cpu.clone()),
                of_usage(|usage| usage.memory.clone()),
            ]
        })
        .collect();
    let head = [
        "QUEUE",
        "QUOTA",
        "ALLOCATED",
        "WAITING",
        "PROBLEMS",
        "SHARE",
        "CPU",
        "MEMORY",
    ];
    answer.table(head, 3, &cells);
    Ok(answer)
}

/// Answers for one queue, card by card, with what waits in it.
pub async fn answer_of_one(cluster: &Cluster, name: &str) -> Result<Answer, Failure> {
    let (rows, note) = rows(cluster).await?;
    let Some(row) = rows.into_iter().find(|row| row.queue == name) else {
        return Err(Failure::QueueUnknown(name.to_owned()));
    };
    let mut answer = of_one(&row)?;
    answer.notes.extend(note);
    Ok(answer)
}

fn of_one(row: &Row) -> Result<Answer, Failure> {
    let mut answer = Answer::new(row).map_err(|error| Failure::unprintable(&error))?;
    let Some(usage) = &row.usage else {
        let cells: Vec<_> = row
            .quota
            .iter()
            .map(|(card, quota)| [card.clone(), quota.to_string()])
            .collect();
        answer.table(["CARD", "QUOTA"], 0, &cells);
        return Ok(answer);
    };
    let cells: Vec<_> = usage
        .cards
        .iter()
        .map(|card| {
            [
                card.name.clone(),
                number_or_dash(card.quota),
                card.allocated.to_string(),
                card.waiting.to_string(),
                card.requested.to_string(),
            ]
        })
        .collect();
    answer.table(["CARD", "QUOTA", "ALLOCATED", "WAITING", "REQUESTED"], 1, &cells);
    for condition in usage.conditions.iter().filter(|condition| condition.status == "False") {
        answer.line(&format!("\n{}: {}", condition.reason, condition.message));
    }
    if usage.first_waiting.is_empty() {
        answer.line(&format!("\n{}", usage.none_waiting()));
        return Ok(answer);
    }
    answer.line(&format!("\n{}:", usage.title_of_waiting()));
    let cells: Vec<_> = usage
        .first_waiting
        .iter()
        .map(|waiting| {
            [
                waiting.position.to_string(),
                waiting.kind.clone(),
                waiting.name.clone(),
                waiting.pods.to_string(),
                in_one_line(&waiting.cards),
                in_brief(&waiting.missing),
                waiting.reason.clone(),
            ]
        })
        .collect();
    answer.table(
        ["POSITION", "KIND", "NAME", "PODS", "CARDS", "MISSING", "REASON"],
        1,
        &cells,
    );
    Ok(answer)
}

/// Returns as much of what is missing as fits into a line. `kubectl card why` shows all of it.
fn in_brief(missing: &str) -> String {
    let words = missing.split_inclusive(' ');
    let mut shown = String::new();
    for word in words {
        if shown.chars().count() + word.chars().count() > LONGEST_MISSING {
            return format!("{} ...", shown.trim_end());
        }
        shown.push_str(word);
    }
    shown
}

/// Formats cards in one line, as `kubectl get` shows them.
pub fn in_one_line(cards: &BTreeMap<String, i64>) -> String {
    in_a_column(cards.iter().map(|(card, amount)| (card, *amount)), usize::MAX)
}

/// Formats as many cards as fit into a column of this width, and how many more there are.
fn in_a_column<'c>(cards: impl Iterator<Item = (&'c String, i64)>, most: usize) -> String {
    let texts: Vec<_> = cards.map(|(card, amount)| format!("{card} x{amount}")).collect();
    if texts.is_empty() {
        "<none>".to_owned()
    } else {
        column(&texts, most)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_stays_in_its_line() {
        assert_eq!(in_brief("2 NVIDIA-A100"), "2 NVIDIA-A100");
        let told = "queue team-a: NVIDIA-A100 asked 1, used 2, quota 2; and much more than fits into a line, as whoever can never run is told \
                    what to change";
        let shown = in_brief(told);
        assert!(
            shown.starts_with("queue team-a: NVIDIA-A100 asked 1, used 2, quota 2; and much")
                && shown.ends_with(" ..."),
            "{shown}"
        );
        assert!(shown.chars().count() <= LONGEST_MISSING + 4, "{shown}");
    }

    /// If a queue has queues below it, the cards count all of them, but the list shows only what waits in the queue itself.
    #[test]
    fn what_waits_below_a_queue_is_not_said_to_be_nothing() {
        let printed = |waiting: i64| {
            let own = json!({ "allocated": 0, "waiting": 0 });
            let card = json!({ "name": "A", "quota": 8, "allocated": 8, "requested": 8 + waiting, "waiting": waiting, "own": own });
            let row = Row {
                queue: "research".to_owned(),
                quota: BTreeMap::new(),
                usage: Some(serde_json::from_value(json!({ "cards": [card], "waiting": 0 })).unwrap()),
            };
            of_one(&row).unwrap().write(None).unwrap()
        };
        assert!(printed(0).ends_with("\nNothing waits.\n"), "{}", printed(0));
        let below = "\nNothing waits in this queue itself: what is counted as waiting waits in queues below it.\n";
        assert!(printed(2).ends_with(below), "{}", printed(2));
    }

    #[test]
    fn a_line_of_all_queues_fits_a_terminal() {
        let cards = ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-32GB"];
        let of_card =
            |name: &str| json!({ "name": name, "quota": 128, "allocated": 128, "requested": 128, "waiting": 0 });
        let status = json!({ "cards": cards.map(of_card), "waiting": 1000, "problems": "CapabilityAboveCluster" });
        let row = Row {
            queue: "research".to_owned(),
            quota: cards.map(|card| (card.to_owned(), 128)).into(),
            usage: Some(serde_json::from_value(status).unwrap()),
        };
        let printed = of_all(&[row]).unwrap().write(None).unwrap();
        for line in printed.lines() {
            assert!(line.chars().count() <= 120, "{}: {line}", line.chars().count());
        }
        assert_eq!(
            printed.matches("NVIDIA-A100-SXM4-80GB x128, +2 more").count(),
            2,
            "{printed}"
        );
    }
}
