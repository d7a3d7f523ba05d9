//! `kubectl card who`: which queues hold a card.

use crds::spelling;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::print::Answer;

/// What one queue has of the card.
#[derive(Debug, Serialize)]
struct Holder {
    queue: String,
    allocated: i64,
    quota: i64,
    waiting: i64,
    requested: i64,
    /// The largest part in use of anything that the queue deserves.
    share: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Holders {
    card: String,
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
    let (queues, note) = match holders(cluster, card).await {
        Ok(holders) => (Some(holders), None),
        Err(failure @ Failure::Forbidden { .. }) => (None, Some(format!("without the queues: {failure}"))),
        Err(failure) => return Err(failure),
    };
    let status = found.status.clone().unwrap_or_default();
    let shown = Holders {
        card: card.to_owned(),
        total: status.total,
        free: status.free,
        unaccounted: status.unaccounted,
        queues,
    };
    let mut answer = Answer::new(&shown).map_err(|error| Failure::unprintable(&error))?;
    answer.notes.extend(note);
    answer.line(&format!(
        "{}: {} of {} free, {} charged to no queue",
        shown.card, shown.free, shown.total, shown.unaccounted
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
                holder.quota.to_string(),
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

async fn holders(cluster: &Cluster, card: &str) -> Result<Vec<Holder>, Failure> {
    let mut queues = Vec::new();
    // The object of what no queue is charged for names none.
    for usage in cluster
        .usages()
        .await?
        .into_iter()
        .filter(|usage| !usage.spec.queue.is_empty())
    {
        let status = usage.status.unwrap_or_default();
        let held = status.cards.into_iter().find(|of| of.name == card);
        queues.extend(held.filter(|of| of.allocated > 0 || of.waiting > 0).map(|of| Holder {
            queue: usage.spec.queue,
            allocated: of.allocated,
            quota: of.quota,
            waiting: of.waiting,
            requested: of.requested,
            share: status.share,
        }));
    }
    queues.sort_by_key(|holder| std::cmp::Reverse(holder.allocated));
    Ok(queues)
}
