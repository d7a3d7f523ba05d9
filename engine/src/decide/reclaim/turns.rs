//! Which queues are looked at in a round for what others could give back.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use super::sets::waiting_sets;
use crate::cluster::Cluster;
use crate::ids::QueueId;

/// How many queues are looked at in one round for their waiting pods: each look goes over many pods.
const QUEUES_PER_ROUND: usize = 4;

/// Returns those of these queues whose turn it is: highest priority first, then smallest share. Where more queues claim than one
/// round looks at, those that have waited longest for a look are taken, or the others would never be looked at.
pub(super) fn in_turn(cluster: &mut Cluster, waiting: &[QueueId], now: Timestamp) -> Vec<QueueId> {
    let mut due = Vec::new();
    for id in waiting.iter().copied() {
        if let Some(since) = cluster.reclaim_due_since(id, now) {
            let queue = cluster.queue(id);
            let priority = queue.terms().map_or(0, |terms| terms.priority);
            let rank = (Reverse(priority), cluster.share(id), Arc::clone(&queue.name));
            due.push((since, rank, id));
        }
    }
    due.sort_unstable();
    let mut turns = Vec::new();
    for (_, rank, id) in due {
        if turns.len() == QUEUES_PER_ROUND {
            break;
        }
        if waiting_sets(cluster, id, now).is_empty() {
            cluster.looked_for_nobody(id, now);
        } else {
            turns.push((rank, id));
        }
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, id)| id).collect()
}

/// Returns one of these queues, another one each second.
pub(super) fn one_in_turn(queues: &[QueueId], now: Timestamp) -> Option<QueueId> {
    let seconds = usize::try_from(now.as_second()).ok()?;
    queues.get(seconds.checked_rem(queues.len())?).copied()
}
