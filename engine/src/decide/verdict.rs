//! Whether a pod of a shape may be let in, and if not, what it would take to look again.

use std::cell::Cell;

use crds::configuration::{AdmitOn, QueuePlugin};
use crds::mgpu::MgpuRequest;

use super::effort::Effort;
use super::{Grant, cross_quota, fit, mgpu, narrow};
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::levels::Shortage;
use crate::cluster::waiting::{Refused, Shape};
use crate::ids::{QueueId, WorkloadId};
use crate::names::{CardId, ResourceId};
use crate::policies::card_quota::Check;
use crate::reason::Reason;
use crate::task::Naming;

/// Whether a refusal still stands: nothing that it depends on has changed.
pub(super) fn stands(cluster: &Cluster, queue: QueueId, workload: Option<WorkloadId>, refused: Refused) -> bool {
    refused.queue_version == cluster.version_of(queue, refused.levels)
        && refused.cluster_version == cluster.version()
        && refused.workload_version == workload.map_or(0, |id| cluster.workload(id).version)
        && (!refused.nodes_matter || refused.node_changes == cluster.node_change_count())
}

/// Judges one pod of a shape: the queue, the quota, then the nodes. What an earlier refusal has found out about nodes is not
/// found out again.
pub(super) fn judge(
    cluster: &mut Cluster,
    shape: &Shape,
    earlier: Option<Refused>,
    effort: &Effort,
) -> Result<Grant, Refused> {
    let governed = cross_quota::governs(cluster, shape);
    if cluster.queue(shape.queue).is_nameless() && !governed {
        // Nothing is known of what its claims are for, so it may be cards.
        if let Naming::Refused(reason) = shape.task.naming {
            return Err(refusal(cluster, shape, reason));
        }
        // CrossQuota held the pod, and does so no longer: nothing else asks for it.
        return Ok(Grant::of(None, None));
    }
    // How many levels a refusal depends on: those up to the highest one that had no room for one of the alternatives.
    let levels = Cell::new(1);
    let cards = cards_with_room(cluster, shape, |shortage| levels.set(levels.get().max(shortage.levels)));
    let levels = levels.get();
    let cards = cards.map_err(|reason| refusal_by(cluster, shape, levels, reason))?;
    let earlier = earlier.filter(|earlier| earlier.cluster_version == cluster.version());
    let on_quota = cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
    if let Some(request) = mgpu::request_now(cluster, shape) {
        let placed = place_on_cards(
            cluster,
            shape,
            request,
            cards,
            mgpu::CardSearch::new(earlier, effort.clone()),
        );
        return placed.map_err(|refused| refused.with_levels(cluster, shape.queue, levels));
    }
    let selectable = |cluster: &Cluster, card: Option<CardId>| {
        card.is_none_or(|card| narrow::labels_of(cluster, shape, card).is_some())
    };
    if on_quota && !governed {
        let card = cards.into_iter().find(|card| selectable(cluster, *card));
        return card
            .map(|card| Grant::of(card, None))
            .ok_or_else(|| refusal_by(cluster, shape, levels, Reason::NodesExcluded));
    }

    let mut search = fit::NodeSearch::new(earlier, effort.clone());
    for card in &cards {
        let grant = if governed {
            cross_quota::find(cluster, shape, *card, &mut search)
        } else {
            let node = search.find(cluster, shape, *card);
            node.map(|node| Grant::of(*card, Some(node)))
        };
        if let Some(grant) = grant {
            return Ok(grant);
        }
    }
    if on_quota && cluster.gpu_nodes().all_labelled() {
        // For an autoscaler to see, which may add nodes without GPU: those have no quota.
        if let Some(card) = cards.into_iter().find(|card| selectable(cluster, *card)) {
            return Ok(Grant {
                off_gpu_nodes: true,
                ..Grant::of(card, None)
            });
        }
    }
    Err(Refused {
        searched: search.searched(),
        ..refusal_by(cluster, shape, levels, search.reason())
    })
}

/// The best node and cards for an mGPU pod, for the first card name that has any.
fn place_on_cards(
    cluster: &Cluster,
    shape: &Shape,
    request: &MgpuRequest,
    cards: Vec<Option<CardId>>,
    mut search: mgpu::CardSearch,
) -> Result<Grant, Refused> {
    for card in cards {
        if let Some(grant) = search.find(cluster, shape, request, card) {
            return Ok(grant);
        }
    }
    Err(Refused {
        searched: search.searched(),
        ..refusal(cluster, shape, search.reason())
    })
}

/// **Task Allocatable Check**: the cards that a pod of this shape could have as far as its queue is concerned, most
/// preferred first; `None` for a pod that names none.
pub(super) fn cards_with_quota(cluster: &Cluster, shape: &Shape) -> Result<Vec<Option<CardId>>, Reason> {
    cards_with_room(cluster, shape, |_| {})
}

/// The same; `lacking` is told of every level without room.
fn cards_with_room(
    cluster: &Cluster,
    shape: &Shape,
    lacking: impl Fn(Shortage),
) -> Result<Vec<Option<CardId>>, Reason> {
    if cluster.queue(shape.queue).is_nameless() {
        let readable = shape.task.unreadable.is_none();
        return readable.then(|| vec![None]).ok_or(Reason::GetTaskRequestResourceFailed);
    }
    admits(cluster, shape.queue, &shape.namespace)?;
    let has_room = |dimension, asked| {
        cluster
            .room_for(shape.queue, shape.priority, dimension, asked)
            .map_err(&lacking)
            .is_ok()
    };
    let check = check_of(cluster, shape, has_room);
    check.before_cards()?;
    if names_none(cluster, shape)? {
        return Ok(vec![None]);
    }
    let cards: Vec<_> = check.cards_with_quota().map(|(card, _)| card).collect();
    let cards: Vec<_> = cluster.in_order_of_quota(shape, cards).into_iter().map(Some).collect();
    if cards.is_empty() {
        Err(Reason::InsufficientScalarQuota)
    } else {
        Ok(cards)
    }
}

/// Whether a pod of this shape is charged for no card; why it can't be charged for what it asks, where it can't.
pub(super) fn names_none(cluster: &Cluster, shape: &Shape) -> Result<bool, Reason> {
    // Under `capacity`, a queue without card quotas is limited in the resource itself.
    let strict = cluster.configuration().queue_plugin == QueuePlugin::CapacityCard;
    match shape.task.naming {
        Naming::Refused(reason) => Err(reason),
        Naming::ByQueue if shape.task.cards.is_empty() && strict => Err(Reason::NoCardQuota),
        Naming::Own | Naming::ByQueue => Ok(shape.task.cards.is_empty()),
    }
}

/// How many pods of this shape, at most so many, there is quota for with each card, if nothing else is let in; `None` stands
/// for no card.
pub(super) fn quota_for(cluster: &Cluster, shape: &Shape, most: usize) -> Vec<(Option<CardId>, usize)> {
    if cluster.queue(shape.queue).is_nameless() {
        return vec![(None, most)];
    }
    if admits(cluster, shape.queue, &shape.namespace).is_err() {
        return Vec::new();
    }
    let has_room = |count: i64, dimension, asked: i64| {
        let asked = asked.saturating_mul(count);
        cluster.room(shape.queue, dimension, asked).is_ok()
    };
    let check = |count: i64| {
        check_of(cluster, shape, move |dimension, asked| {
            has_room(count, dimension, asked)
        })
    };
    let most = largest(most, |count| check(count).before_cards().is_ok());
    match names_none(cluster, shape) {
        Ok(true) => return vec![(None, most)],
        Ok(false) => {}
        Err(_) => return Vec::new(),
    }
    let cards = check(1);
    let cards = cards.known_alternatives();
    cards
        .map(|(card, asked)| {
            let has_room = |count| has_room(count, Dimension::Card(card), asked);
            (Some(card), largest(most, has_room))
        })
        .collect()
}

/// The largest number up to `most` for which something holds that holds for every smaller one.
fn largest(most: usize, holds: impl Fn(i64) -> bool) -> usize {
    let (mut least, mut most) = (0, most);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if i64::try_from(middle).is_ok_and(&holds) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    least
}

/// The document's check of this shape.
pub(crate) fn check_of<'c, H: Fn(Dimension, i64) -> bool>(
    cluster: &'c Cluster,
    shape: &'c Shape,
    has_room: H,
) -> Check<'c, impl Fn(CardId) -> Option<ResourceId> + 'c, H> {
    let configuration = cluster.configuration();
    let quota = cluster.queue(shape.queue).quota();
    Check {
        plugin: configuration.queue_plugin,
        arguments: &configuration.capacity_card,
        queue_is_empty: quota.is_none_or(|quota| quota.is_empty),
        task: &shape.task,
        asks_all: cluster.is_anything_claimed(),
        resource_of: |card| cluster.resource_of(card),
        has_room,
    }
}

/// Whether the queue takes anything from this namespace at all.
pub(super) fn admits(cluster: &Cluster, queue: QueueId, namespace: &str) -> Result<(), Reason> {
    let Some(terms) = cluster.queue(queue).terms() else {
        return Err(Reason::QueueNotFound);
    };
    if terms.closed.is_some() {
        return Err(Reason::QueueNotOpen);
    }
    let Ok(access) = &terms.access else {
        return Err(Reason::QueueInvalid);
    };
    if cluster.unusable(queue).is_some() {
        return Err(Reason::QueueInvalid);
    }
    if cluster.is_inner(queue) {
        return Err(Reason::InnerQueue);
    }
    let labels = cluster.namespace(namespace).map(|namespace| &namespace.labels);
    if access.allows(|key| labels.and_then(|labels| labels.get(key))) {
        Ok(())
    } else {
        Err(Reason::NamespaceNotAllowed)
    }
}

/// A refusal of a shape, as things stand.
pub(super) fn refusal(cluster: &Cluster, shape: &Shape, reason: Reason) -> Refused {
    cluster.refusal(shape.queue, shape.group, reason)
}

/// A refusal of a shape by its queue and so many levels above it, itself counted.
fn refusal_by(cluster: &Cluster, shape: &Shape, levels: usize, reason: Reason) -> Refused {
    refusal(cluster, shape, reason).with_levels(cluster, shape.queue, levels)
}

impl Refused {
    /// The same, as one that depends on so many levels.
    pub(super) fn with_levels(self, cluster: &Cluster, queue: QueueId, levels: usize) -> Self {
        Self {
            levels,
            queue_version: cluster.version_of(queue, levels),
            ..self
        }
    }
}
