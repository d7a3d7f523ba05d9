//! `kubectl card types`: which cards there are, and what a queue may have of them.

use crds::card_type::{CardKind, CardType};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use crate::queue;

/// One card.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    card: String,
    resource: String,
    kind: CardKind,
    free: i64,
    used: i64,
    total: i64,
    nodes: i64,
    /// What the queue may have of it; none where no queue is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<i64>,
    problems: String,
}

#[derive(Debug, Serialize)]
struct Types {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    cards: Vec<Row>,
}

/// The cards of the cluster, and the quota of `queue` or of the namespace's.
pub async fn answer(cluster: &Cluster, queue: Option<&str>) -> Result<Answer, Failure> {
    let types = cluster.card_types().await?;
    let named = match queue {
        Some(queue) => Some(queue.to_owned()),
        None => cluster.queue_of_namespace().await,
    };
    let quotas = match &named {
        Some(name) => Some(queue::quotas(&cluster.queues().await?, name)?),
        None => None,
    };
    let row = |card: CardType| {
        let status = card.status.unwrap_or_default();
        Row {
            quota: quotas
                .as_ref()
                .map(|quotas| quotas.get(&card.spec.card_name).copied().unwrap_or_default()),
            card: card.spec.card_name,
            resource: card.spec.resource,
            kind: card.spec.kind,
            free: status.free,
            used: status.used,
            total: status.total,
            nodes: status.nodes,
            problems: status.problems,
        }
    };
    let shown = Types {
        cards: types.into_iter().map(row).collect(),
        queue: named,
    };
    let mut answer = Answer::new(&shown).map_err(|error| Failure::unprintable(&error))?;
    if shown.queue.is_none() {
        answer.notes.push(format!(
            "namespace {} names no queue, so no quota is shown: --queue NAME shows that of one",
            cluster.namespace
        ));
    }
    let quota_column = shown
        .queue
        .as_ref()
        .map_or_else(|| "QUOTA".to_owned(), |queue| format!("QUOTA OF {queue}"));
    let cells: Vec<_> = shown
        .cards
        .iter()
        .map(|row| {
            [
                row.card.clone(),
                row.free.to_string(),
                row.total.to_string(),
                row.quota.map_or_else(|| "-".to_owned(), |quota| quota.to_string()),
                row.resource.clone(),
                row.kind.to_string(),
                row.nodes.to_string(),
                row.problems.clone(),
            ]
        })
        .collect();
    let head = [
        "CARD",
        "FREE",
        "TOTAL",
        &quota_column,
        "RESOURCE",
        "KIND",
        "NODES",
        "PROBLEMS",
    ];
    answer.table(head, 3, &cells);
    Ok(answer)
}
