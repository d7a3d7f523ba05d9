//! `kubectl card who`: which queues hold a card.

use crds::card_type::CardKind;
use crds::card_usage::CardUsage;
use crds::spelling;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;
use crate::queue::in_a_cell;

/// What the pods of one queue itself have of the card: those of queues below it are told of with these.
#[derive(Debug, Serialize)]
struct Holder {
    queue: String,
    allocated: i64,
    /// None where it is unlimited.
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
    kind: CardKind,
    total: i64,
    free: i64,
    /// What pods hold for which no queue is charged.
    unaccounted: i64,
    /// None where the user may not see it.
    queues: Option<Vec<Holder>>,
}

/// Which queues hold the card or wait for it, the largest holder first; for who may not see that, how much of it is free.
pub async fn answer(cluster: &Cluster, card: &str) -> Result<Answer, Failure> {
    let types = cluster.card_types().await?;
    let Some(found) = types.iter().find(|found| found.spec.card_name == card) else {
        let known = types.iter().map(|known| known.spec.card_name.as_str());
        return Err(Failure::CardUnknown {
            card: card.to_owned(),
            meant: spelling::meant_card(card, known).map(str::to_owned),
        });
    };
    let (queues, note) = match cluster.usages().await {
        Ok(usages) => (Some(holders(usages, card)), None),
        Err(failure @ Failure::Forbidden { .. }) => (None, Some(format!("without the queues: {failure}"))),
        Err(failure) => return Err(failure),
    };
    let status = found.status.clone().unwrap_or_default();
    let shown = Holders {
        card: card.to_owned(),
        kind: found.spec.kind,
        total: status.total,
        free: status.free,
        unaccounted: status.unaccounted,
        queues,
    };
    let mut answer = Answer::new(&shown).map_err(|error| Failure::unprintable(&error))?;
    answer.notes.extend(note);
    answer.line(&format!(
        "{}: {} of {} free, {} charged to no queue",
        shown.card,
        shown.free,
        shown.kind.count(shown.total),
        shown.unaccounted
    ));
    let Some(queues) = shown.queues else {
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
                in_a_cell(holder.quota),
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

/// The queues whose own pods hold the card or wait for it, the largest holder first.
fn holders(usages: Vec<CardUsage>, card: &str) -> Vec<Holder> {
    let mut queues = Vec::new();
    // The object of what no queue is charged for names none.
    for usage in usages.into_iter().filter(|usage| !usage.spec.queue.is_empty()) {
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
            // As an operator of an earlier release writes it.
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
