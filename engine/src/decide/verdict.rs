//! Whether a pod of a shape may be let in, and if not, what has to change before it is judged again.

use std::cell::Cell;

use crds::configuration::{AdmitOn, QueuePlugin};
use crds::mgpu::MgpuRequest;
use crds::queue_access::QueueAccess;

use super::effort::Effort;
use super::{Grant, choice, cross_quota, fit, mgpu};
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::levels::Shortage;
use crate::cluster::waiting::{Refused, Shape};
use crate::ids::{QueueId, WorkloadId};
use crate::names::{CardId, ResourceId};
use crate::policies::card_quota::Check;
use crate::reason::Reason;
use crate::task::Naming;

/// Whether a refusal still stands because nothing that it depends on has changed.
pub(super) fn stands(cluster: &Cluster, queue: QueueId, workload: Option<WorkloadId>, refused: Refused) -> bool {
    refused.queue_version == cluster.version_of(queue, refused.levels)
        && refused.cluster_version == cluster.version()
        && refused.workload_version == workload.map_or(0, |id| cluster.workload(id).version)
        && (!refused.nodes_matter || refused.node_changes == cluster.node_change_count())
}

/// Judges one pod of a shape: first the queue, then the quota, then the nodes. What an earlier refusal has found out about nodes
/// is not found out again.
pub(super) fn judge(
    cluster: &mut Cluster,
    shape: &Shape,
    earlier: Option<Refused>,
    effort: &Effort,
) -> Result<Grant, Refused> {
    let governed = cross_quota::governs(cluster, shape);
    if cluster.queue(shape.queue).is_nameless() {
        // Where nobody is charged for what claims are for, the pod's claims don't keep it waiting, whatever they are for. It was
        // held while claims were charged, or by `CrossQuota` alone, which no longer has a say about it.
        let is_left_alone = !governed && !cluster.charges_unqueued_cards(&shape.namespace);
        // Either it is not known what the pod's claims are for, so they may be for cards; or they ask for nothing.
        if let Naming::Refused(reason) = shape.task.naming
            && !is_left_alone
        {
            return Err(refusal(cluster, shape, reason));
        }
        if !governed {
            // `CrossQuota` held the pod and no longer does, or no rule ever required holding it.
            return Ok(Grant::of(None, None));
        }
    }
    // How many levels a refusal depends on: those up to the highest level that had no room for one of the alternatives.
    let levels = Cell::new(1);
    let alternatives = alternatives_with_room(cluster, shape, |shortage| levels.set(levels.get().max(shortage.levels)));
    let levels = levels.get();
    let alternatives = alternatives.map_err(|reason| refusal_by(cluster, shape, levels, reason))?;
    let lacks_some = lacks_quota_for_some(cluster, shape, &alternatives);
    let earlier = earlier.filter(|earlier| earlier.cluster_version == cluster.version());
    let on_quota = cluster.configuration().cardgate.admit_on == AdmitOn::Quota;
    if let Some(request) = mgpu::request_now(cluster, shape) {
        let placed = place_on_cards(
            cluster,
            shape,
            request,
            alternatives,
            mgpu::CardSearch::new(earlier, effort.clone()),
        );
        return placed.map_err(|refused| {
            let refused = refused.with_levels(cluster, shape.queue, levels);
            refused.unless_quota_helps(lacks_some)
        });
    }
    if on_quota && !governed {
        let alternative = alternatives
            .into_iter()
            .find(|alternative| choice::is_selectable(cluster, shape, *alternative, false, effort));
        return alternative
            .map(|alternative| Grant::of(alternative, None))
            .ok_or_else(|| {
                if effort.is_spent() {
                    return refusal_by(cluster, shape, levels, Reason::TooComplex);
                }
                if !lacks_some {
                    return refusal_by(cluster, shape, levels, Reason::NodesExcluded);
                }
                // Other cards can be selected once there is quota for them; or these cards can, by labels that nodes may get.
                Refused {
                    nodes_matter: true,
                    ..refusal_by(cluster, shape, levels, Reason::InsufficientScalarQuota)
                }
            });
    }

    let mut search = fit::NodeSearch::new(earlier, effort.clone());
    for alternative in &alternatives {
        let grant = if governed {
            cross_quota::find(cluster, shape, *alternative, &mut search)
        } else {
            let changed = search.changed(cluster, shape, *alternative);
            let node = search.find(cluster, shape, *alternative, changed.as_deref());
            node.map(|node| Grant::of(*alternative, Some(node)))
        };
        if let Some(grant) = grant {
            return Ok(grant);
        }
    }
    if on_quota && cluster.gpu_nodes().all_labelled() {
        // The pod is let in so that an autoscaler sees it.
        let mut alternatives = alternatives.into_iter();
        if let Some(alternative) =
            alternatives.find(|alternative| !cross_quota::asks_nodes(cluster, shape, *alternative, effort))
        {
            return Ok(Grant {
                off_gpu_nodes: true,
                ..Grant::of(alternative, None)
            });
        }
        // The search for a node may have left no steps to find out whether an alternative is selectable.
        if effort.is_spent() {
            return Err(refusal_by(cluster, shape, levels, Reason::TooComplex));
        }
    }
    let refused = Refused {
        searched: search.searched(),
        ..refusal_by(cluster, shape, levels, search.reason())
    };
    Err(refused.unless_quota_helps(lacks_some))
}

/// Whether a pod of this shape could have further cards that there is too little quota for now, but not for ever, besides those
/// that there is enough quota for.
fn lacks_quota_for_some(cluster: &Cluster, shape: &Shape, with_quota: &[Option<&Alternative>]) -> bool {
    // Most pods name one card.
    if shape.task.alternatives.len() <= with_quota.len() || cluster.queue(shape.queue).is_nameless() {
        return false;
    }
    let mut ever = alternatives_with_quota_ever(cluster, shape).into_iter();
    ever.any(|alternative| !with_quota.contains(&alternative))
}

/// Returns the best node and cards for an mGPU pod, for the first of its alternatives that has any.
fn place_on_cards(
    cluster: &Cluster,
    shape: &Shape,
    request: &MgpuRequest,
    alternatives: Vec<Option<&Alternative>>,
    mut search: mgpu::CardSearch,
) -> Result<Grant, Refused> {
    for alternative in alternatives {
        if let Some(grant) = search.find(cluster, shape, request, alternative) {
            return Ok(grant);
        }
    }
    Err(Refused {
        searched: search.searched(),
        ..refusal(cluster, shape, search.reason())
    })
}

/// **Task Allocatable Check**: returns the alternatives that the queue of a pod of this shape has room for, most preferred first;
/// `None` stands for a pod that has no alternatives.
pub(super) fn alternatives_with_quota<'s>(
    cluster: &Cluster,
    shape: &'s Shape,
) -> Result<Vec<Option<&'s Alternative>>, Reason> {
    alternatives_with_room(cluster, shape, |_| {})
}

/// Does the same, and calls `lacking` for every level without room.
fn alternatives_with_room<'s>(
    cluster: &Cluster,
    shape: &'s Shape,
    lacking: impl Fn(Shortage),
) -> Result<Vec<Option<&'s Alternative>>, Reason> {
    if cluster.queue(shape.queue).is_nameless() {
        let readable = shape.task.unreadable.is_none();
        return readable.then(|| vec![None]).ok_or(Reason::GetTaskRequestResourceFailed);
    }
    check_queue_takes(cluster, shape.queue, &shape.namespace)?;
    let has_room = |dimension, asked| cluster.room_for(shape, dimension, asked).map_err(&lacking).is_ok();
    let check = check_of(cluster, shape, has_room);
    check.before_cards()?;
    if is_charged_for_no_card(cluster, shape)? {
        return Ok(vec![None]);
    }
    let alternatives = check.alternatives_with_quota().map(Some).collect();
    let alternatives = cluster.in_order_of_quota(shape, alternatives);
    if alternatives.is_empty() {
        Err(Reason::InsufficientScalarQuota)
    } else {
        Ok(alternatives)
    }
}

/// Whether a pod of this shape is charged for no card. An error says why it can't be charged for what it asks.
pub(crate) fn is_charged_for_no_card(cluster: &Cluster, shape: &Shape) -> Result<bool, Reason> {
    // Under `capacity`, a queue that names no card of the resource is limited in the resource itself.
    let strict = cluster.configuration().queue_plugin == QueuePlugin::CapacityCard;
    match shape.task.naming {
        Naming::Refused(reason) => Err(reason),
        Naming::ByQueue if shape.task.alternatives.is_empty() && strict => Err(Reason::NoCardQuota),
        // Each of these cards may be what the pod asks for. If the pod were limited in the resource alone, it would have for
        // nothing what the cards are limited in.
        Naming::ByQueue if shape.task.alternatives.is_empty() && cluster.names_unseen_cards(shape.queue) => {
            Err(Reason::GetTaskRequestResourceFailed)
        }
        Naming::Own | Naming::ByQueue => Ok(shape.task.alternatives.is_empty()),
    }
}

/// Returns why a pod of this shape can't be charged for what it asks, whatever there is quota for. None where it can be charged.
pub(crate) fn why_not_charged(cluster: &Cluster, shape: &Shape) -> Option<Reason> {
    if shape.task.unreadable.is_some() {
        return Some(Reason::GetTaskRequestResourceFailed);
    }
    if cluster.queue(shape.queue).is_nameless() {
        return None;
    }
    let check = check_of(cluster, shape, |_, _| true);
    check
        .before_cards()
        .and_then(|()| is_charged_for_no_card(cluster, shape))
        .err()
}

/// Returns for how many pods of this shape, at most `most`, there is quota with each alternative, if nothing else is let in.
/// `None` stands for no card.
pub(super) fn quota_for<'s>(cluster: &Cluster, shape: &'s Shape, most: usize) -> Vec<(Option<&'s Alternative>, usize)> {
    if cluster.queue(shape.queue).is_nameless() {
        return vec![(None, most)];
    }
    if check_queue_takes(cluster, shape.queue, &shape.namespace).is_err() {
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
    match is_charged_for_no_card(cluster, shape) {
        Ok(true) => return vec![(None, most)],
        Ok(false) => {}
        Err(_) => return Vec::new(),
    }
    let check = check(1);
    let alternatives = check.known_alternatives().map(|alternative| {
        let has_room = |count| {
            let mut compared = check.compared(alternative);
            compared.all(|(dimension, asked)| has_room(count, dimension, asked))
        };
        (Some(alternative), largest(most, has_room))
    });
    alternatives.collect()
}

/// Returns the largest number up to `most` for which `holds` is true. Where it is true for a number, it must be for every smaller
/// one.
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

/// Returns the alternatives that a pod of this shape could have if others held nothing of the quota of its queue and of those
/// above. None of them where the pod asks for more of something else than there is. `None` stands for no card.
pub(crate) fn alternatives_with_quota_ever<'s>(cluster: &Cluster, shape: &'s Shape) -> Vec<Option<&'s Alternative>> {
    let has_room_ever = |dimension, asked| cluster.has_room_ever(shape.queue, dimension, asked);
    let check = check_of(cluster, shape, has_room_ever);
    if check.resources_without_room().next().is_some() {
        Vec::new()
    } else if shape.task.alternatives.is_empty() {
        vec![None]
    } else {
        check.alternatives_with_quota().map(Some).collect()
    }
}

/// Returns the document's check of this shape.
pub(crate) fn check_of<'c, 's, H: Fn(Dimension, i64) -> bool>(
    cluster: &'c Cluster,
    shape: &'s Shape,
    has_room: H,
) -> Check<'c, 's, impl Fn(CardId) -> Option<ResourceId> + 'c, H> {
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

/// Whether the queue takes anything from this namespace at all. An error says why not.
pub(crate) fn check_queue_takes(cluster: &Cluster, queue: QueueId, namespace: &str) -> Result<(), Reason> {
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
    if allows(cluster, access, namespace) {
        Ok(())
    } else {
        Err(Reason::NamespaceNotAllowed)
    }
}

/// Whether the queue is for this namespace, whatever else may be wrong with it: nobody else may know what the queue has. Nothing
/// says which namespaces a deleted queue was for: while pods are left in it, it is for none.
pub(crate) fn is_for(cluster: &Cluster, queue: QueueId, namespace: &str) -> bool {
    let queue = cluster.queue(queue);
    let Some(terms) = queue.terms() else {
        return queue.is_nameless() || !queue.is_known();
    };
    let access = terms.access.as_ref();
    access.is_ok_and(|access| allows(cluster, access, namespace))
}

fn allows(cluster: &Cluster, access: &QueueAccess, namespace: &str) -> bool {
    let labels = cluster.namespace(namespace).map(|namespace| &namespace.labels);
    access.allows(|key| labels.and_then(|labels| labels.get(key)))
}

/// Returns a refusal of a shape, as things stand now.
pub(super) fn refusal(cluster: &Cluster, shape: &Shape, reason: Reason) -> Refused {
    cluster.refusal(shape.queue, shape.group, reason)
}

/// Returns a refusal of a shape by its queue and the levels above it, `levels` in all.
fn refusal_by(cluster: &Cluster, shape: &Shape, levels: usize, reason: Reason) -> Refused {
    refusal(cluster, shape, reason).with_levels(cluster, shape.queue, levels)
}

impl Refused {
    /// Returns the same refusal, changed where the pod could also have cards that there is too little quota for now
    /// (`lacks_some`): such a pod is not said to wait in vain.
    fn unless_quota_helps(self, lacks_some: bool) -> Self {
        let reason = match self.reason {
            Reason::NodesExcluded if lacks_some => Reason::NoNodeFits,
            Reason::NoMgpuNode if lacks_some => Reason::InsufficientMgpu,
            reason => reason,
        };
        Self {
            none_would_do: reason != self.reason,
            reason,
            ..self
        }
    }

    /// Returns the same refusal, as one that depends on this many levels.
    pub(super) fn with_levels(self, cluster: &Cluster, queue: QueueId, levels: usize) -> Self {
        Self {
            levels,
            queue_version: cluster.version_of(queue, levels),
            ..self
        }
    }
}
