//! What a queue's spec says that can't all be had.

use std::collections::BTreeMap;

use crds::configuration::QueuePlugin;

use crate::amounts::Dimension;
use crate::cluster::queue::{Queue, Quota};
use crate::cluster::{Cluster, Span};
use crate::ids::QueueId;

/// What a queue's spec says more of than there is, in one word: the reason of its usage's condition `Satisfiable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsatisfiable {
    /// The queue may have more than a queue above it.
    CapabilityAboveParent,
    /// More is kept free for the queue than it may have, so nothing can use the rest.
    GuaranteeAboveCapability,
    /// The queue may have more than the cluster has.
    CapabilityAboveCluster,
    /// All queues together are guaranteed more than the cluster has.
    GuaranteesAboveCluster,
    /// All queues together deserve more than the cluster has.
    DeservedAboveCluster,
}

impl Unsatisfiable {
    /// All variants, for documents.
    pub const ALL: [Self; 5] = [
        Self::CapabilityAboveParent,
        Self::GuaranteeAboveCapability,
        Self::CapabilityAboveCluster,
        Self::GuaranteesAboveCluster,
        Self::DeservedAboveCluster,
    ];

    /// Returns the reason in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CapabilityAboveParent => "CapabilityAboveParent",
            Self::GuaranteeAboveCapability => "GuaranteeAboveCapability",
            Self::CapabilityAboveCluster => "CapabilityAboveCluster",
            Self::GuaranteesAboveCluster => "GuaranteesAboveCluster",
            Self::DeservedAboveCluster => "DeservedAboveCluster",
        }
    }
}

/// Returns what a queue's spec says that can't all be had, whichever pods ask for it, in one word and in a sentence; none where all can be
/// had.
pub(super) fn unsatisfiable(cluster: &Cluster, id: QueueId) -> Option<(Unsatisfiable, String)> {
    let quota = cluster
        .queue(id)
        .quota()
        .filter(|_| cluster.configuration().queue_plugin != QueuePlugin::Off)?;
    if let Some(above) = above_what_is_above(cluster, id, quota) {
        return Some((Unsatisfiable::CapabilityAboveParent, above));
    }
    if let Some(unusable) = above_its_own(cluster, id, quota) {
        return Some((Unsatisfiable::GuaranteeAboveCapability, unusable));
    }
    let top = cluster.top();
    let own = quota.capability.iter();
    let own = own.map(|(dimension, said)| (Unsatisfiable::CapabilityAboveCluster, dimension, i128::from(said)));
    let guaranteed = quota.guarantee.iter().map(|(dimension, _)| dimension);
    let guaranteed = guaranteed.map(|dimension| {
        (
            Unsatisfiable::GuaranteesAboveCluster,
            dimension,
            top.below.guaranteed.get(dimension),
        )
    });
    let deserved = quota.deserved.iter().map(|(dimension, _)| dimension);
    let deserved = deserved.map(|dimension| {
        (
            Unsatisfiable::DeservedAboveCluster,
            dimension,
            top.below.deserved.get(dimension),
        )
    });
    let mut said = own.chain(guaranteed).chain(deserved);
    let (reason, dimension, said) = said.find(|(_, dimension, said)| *said > cluster.to_be_had(*dimension))?;
    let (all, rest) = match reason {
        Unsatisfiable::CapabilityAboveParent
        | Unsatisfiable::GuaranteeAboveCapability
        | Unsatisfiable::CapabilityAboveCluster => ("the queue may have", ""),
        Unsatisfiable::GuaranteesAboveCluster => ("all queues together are guaranteed", ""),
        Unsatisfiable::DeservedAboveCluster => ("all queues together deserve", ": not all can have it at once"),
    };
    let (said, has) = (dimension.format(said), cluster.to_be_had(dimension));
    let name = dimension.name(cluster.names());
    if dimension.card().is_some_and(|card| cluster.is_on_no_node(card)) {
        // No number is given, since a change of it would be reported late.
        let held = match top.total.get(dimension) {
            0 => "",
            _ => "; what pods still hold of it counts until they end, and nobody gets it after them",
        };
        return Some((
            reason,
            format!("{all} {said} {name}, and no node has that card at the moment{held}"),
        ));
    }
    let has = dimension.format(has);
    Some((
        reason,
        format!("{all} {said} {name}, and the cluster has {has} at the moment{rest}"),
    ))
}

/// Whether a queue's report has to be written again: what its spec says could not all be had and now can be, or the other way round, or the
/// report shows how much there is to be had and that number has to be refreshed.
pub(super) fn says_more(
    cluster: &Cluster,
    queue: &Queue,
    spans: &BTreeMap<Dimension, Span>,
    shows_numbers: bool,
) -> bool {
    let Some(quota) = queue.quota() else { return false };
    let below = &cluster.top().below;
    let is_concerned = |dimension, said| {
        let span = spans.get(&dimension);
        span.is_some_and(|span| said > span.least && (shows_numbers || said <= span.most))
    };
    let mut own = quota.capability.iter();
    let mut guaranteed = quota.guarantee.iter().map(|(dimension, _)| dimension);
    let mut deserved = quota.deserved.iter().map(|(dimension, _)| dimension);
    own.any(|(dimension, said)| is_concerned(dimension, said.into()))
        || guaranteed.any(|dimension| is_concerned(dimension, below.guaranteed.get(dimension)))
        || deserved.any(|dimension| is_concerned(dimension, below.deserved.get(dimension)))
}

/// Returns where a queue may have more than the nearest queue above it that limits the same dimension. The admission webhook was not there
/// when one of the two was written.
fn above_what_is_above(cluster: &Cluster, id: QueueId, quota: &Quota) -> Option<String> {
    quota.capability.iter().find_map(|(dimension, said)| {
        let mut above = cluster.ancestry(id).skip(1).filter_map(|above| {
            let above = cluster.queue(above);
            Some((&above.name, above.quota()?.capability.get(dimension)?))
        });
        let (above, limit) = above.next().filter(|(_, limit)| said > *limit)?;
        let (said, limit) = (dimension.format(said.into()), dimension.format(limit.into()));
        let name = dimension.name(cluster.names());
        Some(format!(
            "the queue may have {said} {name}, and queue {above}, which it is a part of, {limit}: lower it, or raise that"
        ))
    })
}

/// Returns where more is kept free for a queue than it may have. Under `capacity-card` a queue may have nothing of what it does not name.
/// Pods with cards may use CPU and memory all the same where these are not limited for them.
fn above_its_own(cluster: &Cluster, id: QueueId, quota: &Quota) -> Option<String> {
    let unlimited = cluster.configuration().capacity_card.card_unlimited_cpu_memory;
    let mut kept = quota
        .guarantee
        .iter()
        .filter(|(dimension, _)| !(unlimited && dimension.is_cpu_or_memory()));
    kept.find_map(|(dimension, kept)| {
        let limit = cluster.capability(id, dimension)?;
        (i128::from(kept) > limit).then(|| {
            let (kept, limit) = (dimension.format(kept.into()), dimension.format(limit));
            let name = dimension.name(cluster.names());
            format!(
                "{kept} {name} are kept free for the queue, and it may have {limit}: nobody can use the others; let it have as many, or \
                 guarantee it less"
            )
        })
    })
}
