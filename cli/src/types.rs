//! `kubectl card types`: which cards there are, and what a queue may have of them.

use std::collections::BTreeMap;

use crds::card_type::{CardKind, CardType};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::{Answer, DASH};
use crate::queue;
use crate::who::on_no_node;

/// One card.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    card: String,
    /// Empty if no node has the card any more.
    resource: String,
    /// `None` if no node has the card any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<CardKind>,
    free: i64,
    used: i64,
    total: i64,
    nodes: i64,
    /// What the queue may have of the card. `None` if no queue is meant, or if the queue's quota does not name the card.
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

/// Shown as quota if the queue's quota does not name the card.
const UNNAMED: &str = "<none>";

/// The problem of a card that pods hold, but that no node has any more.
const ON_NO_NODE: &str = "OnNoNode";

/// What a queue may have of each card that it names.
type Quotas = BTreeMap<String, i64>;

/// Returns the queue whose quotas are shown, with these quotas, and otherwise notes on why none are shown. A queue that the
/// user asked for by name must exist.
async fn meant(cluster: &Cluster, asked: Option<&str>) -> Result<(Option<(String, Quotas)>, Vec<String>), Failure> {
    let instead = "so no quota is shown: --queue NAME shows that of one";
    let namespace = &cluster.namespace;
    let (name, is_asked) = match asked {
        Some(queue) => (queue.to_owned(), true),
        None => match cluster.queue_of_namespace().await {
            Ok(Some(queue)) => (queue, false),
            Ok(None) => return Ok((None, vec![format!("namespace {namespace} names no queue, {instead}")])),
            Err(failure) => return Ok((None, vec![format!("{failure}, {instead}")])),
        },
    };
    match queue::quotas(&cluster.queues().await?, &name) {
        Some(quotas) => Ok((Some((name, quotas)), Vec::new())),
        None if is_asked => Err(Failure::QueueUnknown(name)),
        None => {
            let note = format!("namespace {namespace} names queue {name}, which does not exist, {instead}");
            Ok((None, vec![note]))
        }
    }
}

/// Answers which cards the cluster has, with the quota of `queue` or of the namespace's queue.
pub async fn answer(cluster: &Cluster, queue: Option<&str>) -> Result<Answer, Failure> {
    let types = cluster.card_types().await?;
    let (meant, notes) = meant(cluster, queue).await?;
    // Not every user may see what queues hold.
    let gone = match cluster.usages_of_queues().await {
        Ok(usages) => on_no_node(&types, &usages),
        Err(Failure::Forbidden { .. }) => BTreeMap::new(),
        Err(failure) => return Err(failure),
    };
    let mut answer = printed(&shown(types, gone, meant))?;
    answer.notes = notes;
    Ok(answer)
}

/// Returns what is shown: the cards of nodes, then those that are held but `gone` from all nodes, with the quotas of the queue
/// that is meant.
fn shown(types: Vec<CardType>, gone: BTreeMap<String, i64>, meant: Option<(String, Quotas)>) -> Types {
    let (queue, quotas) = meant.unzip();
    let quota = |card: &str| quotas.as_ref().and_then(|quotas| quotas.get(card).copied());
    let row = |card: CardType| {
        let status = card.status.unwrap_or_default();
        Row {
            quota: quota(&card.spec.card_name),
            card: card.spec.card_name,
            resource: card.spec.resource,
            kind: Some(card.spec.kind),
            free: status.free,
            used: status.used,
            total: status.total,
            nodes: status.nodes,
            problems: status.problems,
        }
    };
    let gone = gone.into_iter().map(|(card, used)| Row {
        quota: quota(&card),
        card,
        resource: String::new(),
        kind: None,
        free: 0,
        used,
        total: 0,
        nodes: 0,
        problems: ON_NO_NODE.to_owned(),
    });
    Types {
        cards: types.into_iter().map(row).chain(gone).collect(),
        queue,
    }
}

fn printed(shown: &Types) -> Result<Answer, Failure> {
    let mut answer = Answer::new(shown).map_err(|error| Failure::unprintable(&error))?;
    // No queue at all is shown differently from a queue that may have none.
    let unnamed = if shown.queue.is_some() { UNNAMED } else { DASH };
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
                row.quota.map_or_else(|| unnamed.to_owned(), |quota| quota.to_string()),
                if row.kind.is_some() {
                    row.resource.clone()
                } else {
                    DASH.to_owned()
                },
                row.kind.map_or_else(|| DASH.to_owned(), |kind| kind.to_string()),
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
    if let Some(units) = units(
        shown
            .cards
            .iter()
            .filter_map(|row| Some((row.card.as_str(), row.kind?))),
    ) {
        answer.line(&format!("({units})"));
    }
    Ok(answer)
}

/// Returns which of the cards are counted in parts, and in which parts. Their numbers stand among numbers of whole cards.
pub fn units<'a>(cards: impl Iterator<Item = (&'a str, CardKind)>) -> Option<String> {
    let in_parts = cards.filter_map(|(card, kind)| Some((kind.part()?, card)));
    let mut by_part = BTreeMap::<&str, Vec<&str>>::new();
    for (part, card) in in_parts {
        by_part.entry(part).or_default().push(card);
    }
    let said = by_part
        .iter()
        .map(|(part, cards)| format!("{} in {part}", cards.join(", ")));
    Some(said.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_that_are_counted_in_parts_say_in_which() {
        let cards = |all: &[(&'static str, CardKind)]| units(all.iter().copied());
        assert_eq!(cards(&[("A", CardKind::Whole), ("B", CardKind::Mig)]), None);
        assert_eq!(
            cards(&[
                ("A", CardKind::Whole),
                ("A/mgpu", CardKind::Mgpu),
                ("B/mgpu", CardKind::Mgpu)
            ])
            .as_deref(),
            Some("A/mgpu, B/mgpu in hundredths of a card")
        );
    }
}
