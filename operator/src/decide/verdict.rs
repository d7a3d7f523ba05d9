//! Whether the first pod of a group may be let in, and if not, what it would take to look again.

use std::sync::Arc;

use crds::configuration::AdmitOn;

use super::{Grant, fit, narrow};
use crate::cluster::Cluster;
use crate::cluster::names::CardId;
use crate::cluster::queue::{Queue, QueueId};
use crate::cluster::waiting::{Refused, Shape};
use crate::policies::Reason;
use crate::policies::card_quota::Check;

/// Whether a refusal still stands: nothing that it depends on has changed.
pub(super) fn stands(cluster: &Cluster, queue: &Queue, refused: Refused) -> bool {
    let nodes_matter = matches!(refused.reason, Reason::NoNodeFits | Reason::NodesExcluded);
    refused.queue_version == queue.version
        && refused.cluster_version == cluster.version()
        && (!nodes_matter || refused.node_changes == cluster.node_change_count())
}

/// Judges the first pod of a group: the queue, the quota, then the nodes.
pub(super) fn judge(cluster: &mut Cluster, id: QueueId, group: u64) -> Result<Grant, Refused> {
    let queue = cluster.queue(id);
    let Some(group) = queue.waiting.group(group) else {
        return Err(refusal(cluster, queue, Reason::QueueNotFound, 0));
    };
    let (shape, earlier) = (Arc::clone(&group.shape), group.refused);
    let allowed = admits(cluster, queue, &shape).and_then(|()| {
        let Some(quota) = queue.quota() else {
            return Err(Reason::QueueInvalid);
        };
        let check = Check {
            arguments: &cluster.configuration().capacity_card,
            quota,
            allocated: &queue.allocated,
            task: &shape.task,
            resource_of: |card| cluster.resource_of(card),
        };
        check.before_cards()?;
        if shape.task.cards.is_empty() {
            return Ok(vec![None]);
        }
        let cards: Vec<_> = check.cards_with_quota().map(|(card, _)| Some(card)).collect();
        if cards.is_empty() {
            Err(Reason::InsufficientScalarQuota)
        } else {
            Ok(cards)
        }
    });
    let cards = allowed.map_err(|reason| refusal(cluster, queue, reason, 0))?;
    if cluster.configuration().cardgate.admit_on == AdmitOn::Quota {
        let selectable = |card: CardId| narrow::labels_of(cluster, &shape, card).is_some();
        let card = cards.into_iter().find(|card| card.is_none_or(selectable));
        return card
            .map(|card| Grant {
                card,
                node: None,
                pinned: false,
            })
            .ok_or_else(|| refusal(cluster, cluster.queue(id), Reason::NodesExcluded, 0));
    }

    let mut search = fit::Search::new(earlier.filter(|earlier| earlier.cluster_version == cluster.version()));
    for card in cards {
        if let Some(node) = search.find(cluster, &shape, card) {
            return Ok(Grant {
                card,
                node: Some(node),
                pinned: false,
            });
        }
    }
    let queue = cluster.queue(id);
    Err(refusal(cluster, queue, search.reason(), search.searched()))
}

/// Whether the queue takes pods of this shape at all.
fn admits(cluster: &Cluster, queue: &Queue, shape: &Shape) -> Result<(), Reason> {
    let Some(terms) = &queue.terms else {
        return Err(Reason::QueueNotFound);
    };
    if terms.closed.is_some() {
        return Err(Reason::QueueNotOpen);
    }
    let Ok(access) = &terms.access else {
        return Err(Reason::QueueInvalid);
    };
    if terms.quota.is_err() {
        return Err(Reason::QueueInvalid);
    }
    let labels = cluster.namespace(&shape.namespace).map(|namespace| &namespace.labels);
    if access.allows(|key| labels.and_then(|labels| labels.get(key))) {
        Ok(())
    } else {
        Err(Reason::NamespaceNotAllowed)
    }
}

fn refusal(cluster: &Cluster, queue: &Queue, reason: Reason, searched: u64) -> Refused {
    Refused {
        reason,
        queue_version: queue.version,
        cluster_version: cluster.version(),
        node_changes: cluster.node_change_count(),
        searched,
    }
}

/// Remembers a refusal with the group, and whom it has not been told to.
pub(super) fn remember(cluster: &mut Cluster, queue: QueueId, group: u64, refused: Refused) {
    let Some(group) = cluster.queue_mut(queue).waiting.group_mut(group) else {
        return;
    };
    if group.refused.map(|earlier| earlier.reason) != Some(refused.reason) {
        group.untold.clone_from(&group.pods);
    }
    group.refused = Some(refused);
}
