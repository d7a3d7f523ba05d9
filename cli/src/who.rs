//! `kubectl card who`: which queues hold a card.

use std::collections::BTreeMap;

use crds::card_type::{CardKind, CardType};
use crds::card_usage::CardUsage;
use crds::spelling;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::{Answer, number_or_dash};

/// What the pods of one queue itself have of the card. Those of queues below it are listed under these queues.
#[derive(Debug, Serialize)]
struct Holder {
    queue: String,
    allocated: i64,
    /// `None` if it is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<i64>,
    waiting: i64,
    requested: i64,
    /// The largest part in use of anything that the queue deserves.
    share: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Holders {
    card: String,
    /// `None` for a card that no node has any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<CardKind>,
    total: i64,
    free: i64,
    /// What pods hold that no queue is charged for.
    unaccounted: i64,
    /// `None` if the user may not see it.
    queues: Option<Vec<Holder>>,
}

/// Answers which queues hold the card or wait for it, the largest holder first. A user who may not see that learns how much
/// is free.
pub async fn answer(cluster: &Cluster, card: &str) -> Result<Answer, Failure> {
    let types = cluster.card_types().await?;
    let (queues, note) = match cluster.usages_of_queues().await {
        Ok(usages) => (Some(usages), None),
        Err(failure @ Failure::Forbidden { .. }) => (None, Some(format!("without the queues: {failure}"))),
        Err(failure) => return Err(failure),
    };
    let found = types.iter().find(|found| found.spec.card_name == card);
    let is_held = || on_no_node(&types, queues.as_deref().unwrap_or_default()).contains_key(card);
    if found.is_none() && !is_held() {
        let known = types.iter().map(|known| known.spec.card_name.as_str());
        return Err(Failure::CardUnknown {
            card: card.to_owned(),
            meant: spelling::meant_card(card, known).map(str::to_owned),
        });
    }
    let queues = queues.map(|usages| holders(usages, card));
    let status = found.and_then(|found| found.status.clone()).unwrap_or_default();
    let mut answer = printed(&Holders {
        card: card.to_owned(),
        kind: found.map(|found| found.spec.kind),
        total: status.total,
        free: status.free,
        unaccounted: status.unaccounted,
        queues,
    })?;
    answer.notes.extend(note);
    Ok(answer)
}

fn printed(shown: &Holders) -> Result<Answer, Failure> {
    let mut answer = Answer::new(shown).map_err(|error| Failure::unprintable(&error))?;
    answer.line(&match shown.kind {
        Some(kind) => format!(
            "{}: {} of {} free, {} charged to no queue",
            shown.card,
            shown.free,
            kind.count(shown.total),
            shown.unaccounted
        ),
        None => format!(
            "{}: no node has it any more, as after nodes have left or their labels have changed; what pods hold of it counts until they end",
            shown.card
        ),
    });
    let Some(queues) = &shown.queues else {
        return Ok(answer);
    };
    answer.line("");
    if queues.is_empty() {
        answer.line("No queue holds it or waits for it.");
        return Ok(answer);
    }
    let cells: Vec<_> = queues
        .iter()
        .map(|holder| {
            [
                holder.queue.clone(),
                holder.allocated.to_string(),
                number_or_dash(holder.quota),
                holder.waiting.to_string(),
                holder.requested.to_string(),
                holder.share.clone(),
            ]
        })
        .collect();
    answer.table(
        ["QUEUE", "ALLOCATED", "QUOTA", "WAITING", "REQUESTED", "SHARE"],
        2,
        &cells,
    );
    Ok(answer)
}

/// Returns the cards that pods of these queues hold but that no node has any more, by name, and how many of each.
pub fn on_no_node(types: &[CardType], usages: &[CardUsage]) -> BTreeMap<String, i64> {
    let statuses = usages.iter().filter_map(|usage| usage.status.as_ref());
    let cards = statuses.flat_map(|status| &status.cards);
    let mut held = BTreeMap::new();
    for card in cards.filter(|card| card.own().allocated > 0) {
        if types.iter().all(|known| known.spec.card_name != card.name) {
            *held.entry(card.name.clone()).or_default() += card.own().allocated;
        }
    }
    held
}

/// Returns the queues whose own pods hold the card or wait for it, the largest holder first.
fn holders(usages: Vec<CardUsage>, card: &str) -> Vec<Holder> {
    let mut queues = Vec::new();
    for usage in usages {
        let status = usage.status.unwrap_or_default();
        let held = status.cards.into_iter().find(|of| of.name == card);
        let held = held.map(|of| (of.own(), of.quota));
        let held = held.filter(|(own, _)| own.allocated > 0 || own.waiting > 0);
        queues.extend(held.map(|(own, quota)| Holder {
            queue: usage.spec.queue,
            allocated: own.allocated,
            quota,
            waiting: own.waiting,
            requested: own.allocated + own.waiting,
            share: status.share,
        }));
    }
    queues.sort_by_key(|holder| std::cmp::Reverse(holder.allocated));
    queues
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::of_queues;

    /// `kubectl card queue` showed such cards, but this command said that no node has them.
    #[test]
    fn what_is_held_of_cards_that_no_node_has_any_more_is_known() {
        let types: Vec<CardType> = serde_json::from_value(json!([{
            "metadata": { "name": "a" }, "spec": { "cardName": "A", "resource": "nvidia.com/gpu", "kind": "Whole" },
        }]))
        .unwrap();
        let usage = |queue: &str, card: &str, allocated: i64| -> CardUsage {
            let own = json!({ "allocated": allocated, "waiting": 1 });
            let card = json!({ "name": card, "allocated": 4, "requested": 4, "waiting": 1, "own": own });
            let object =
                json!({ "metadata": { "name": "u" }, "spec": { "queue": queue }, "status": { "cards": [card] } });
            serde_json::from_value(object).unwrap()
        };
        let usages = of_queues(vec![
            usage("a", "A", 1),
            usage("a", "gone", 2),
            usage("b", "gone", 1),
            // The first is only waited for, as with a mistyped name; the second is of no queue.
            usage("a", "mistyped", 0),
            usage("", "uncharged", 3),
        ]);
        assert_eq!(on_no_node(&types, &usages), BTreeMap::from([("gone".to_owned(), 3)]));
    }

    #[test]
    fn what_queues_below_another_hold_is_told_of_once() {
        let usage = |queue: &str, card: serde_json::Value| -> CardUsage {
            let object =
                json!({ "metadata": { "name": queue }, "spec": { "queue": queue }, "status": { "cards": [card] } });
            serde_json::from_value(object).unwrap()
        };
        let card = |allocated: i64, waiting: i64, own: serde_json::Value| json!({ "name": "A", "quota": 8, "allocated": allocated, "requested": allocated + waiting, "waiting": waiting, "own": own });
        let own = |allocated: i64, waiting: i64| json!({ "allocated": allocated, "waiting": waiting });
        let usages = vec![
            usage("department", card(6, 2, own(0, 0))),
            usage("small", card(2, 2, own(2, 2))),
            usage("large", card(4, 0, own(4, 0))),
            // The form that an operator of an earlier release writes.
            usage("earlier", card(1, 0, json!(null))),
        ];
        let told: Vec<_> = holders(usages, "A")
            .into_iter()
            .map(|holder| (holder.queue, holder.allocated, holder.waiting, holder.requested))
            .collect();
        let expected = [("large", 4, 0, 4), ("small", 2, 2, 4), ("earlier", 1, 0, 1)];
        assert_eq!(told, expected.map(|(queue, a, w, r)| (queue.to_owned(), a, w, r)));
    }
}
