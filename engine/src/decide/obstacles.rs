//! Everything that says no to a pod at this moment, not only what is asked first. Asking changes nothing.

use crds::mgpu::MgpuRequest;

use super::census::{Looks, ask_to_say};
use super::effort::Effort;
use super::line::alternatives_of;
use super::verdict::{check_of, check_queue_takes, is_charged_for_no_card, is_for, judge};
use super::{cross_quota, fit, mgpu};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::policies::cross_quota::exceeded;
use crate::reason::Reason;

/// Returns what stands in the way of a pod of this shape by itself, in the order in which it is asked; its group is left out.
/// About a queue that is not for the pod's namespace, quotas are left out too: each would tell a number.
pub(crate) fn obstacles(cluster: &Cluster, shape: &Shape) -> Vec<Reason> {
    let mut found = Vec::new();
    if !cluster.queue(shape.queue).is_nameless() {
        found.extend(check_queue_takes(cluster, shape.queue, &shape.namespace).err());
        if cluster.queue(shape.queue).terms().is_some() && is_for(cluster, shape.queue, &shape.namespace) {
            found.extend(of_quota(cluster, shape));
        }
    }
    let unreadable = shape.task.unreadable.is_some() || found.contains(&Reason::GetTaskRequestResourceFailed);
    if unreadable {
        found.push(Reason::GetTaskRequestResourceFailed);
    } else {
        found.extend(match mgpu::request_now(cluster, shape) {
            Some(request) => of_cards(cluster, shape, request),
            None => of_nodes(cluster, shape),
        });
    }
    let mut each = Vec::with_capacity(found.len());
    for reason in found {
        if !each.contains(&reason) {
            each.push(reason);
        }
    }
    each
}

/// Returns why a pod of this shape would not be let in now, as it is decided. There may be a reason also where nothing stands in
/// its way by itself: one of its alternatives may have quota, and another one room.
pub(crate) fn refusal(cluster: &mut Cluster, shape: &Shape) -> Option<Reason> {
    let judged = judge(cluster, shape, None, &Effort::of_pod());
    judged.err().map(|refused| refused.reason)
}

fn of_quota(cluster: &Cluster, shape: &Shape) -> Vec<Reason> {
    let has_room = |dimension, asked| cluster.room_for(shape, dimension, asked).is_ok();
    let check = check_of(cluster, shape, has_room);
    let mut found: Vec<_> = check.before_cards().err().into_iter().collect();
    found.extend(
        check
            .resources_without_room()
            .map(|(dimension, _)| dimension.shortage()),
    );
    match is_charged_for_no_card(cluster, shape) {
        Err(reason) => found.push(reason),
        Ok(true) => {}
        Ok(false) => {
            let lacks_cards =
                check.known_alternatives().next().is_some() && check.alternatives_with_quota().next().is_none();
            found.extend(lacks_cards.then_some(Reason::InsufficientScalarQuota));
        }
    }
    found
}

/// Whether a pod of this shape waits until a node has room for it.
pub(crate) fn asks_nodes(cluster: &Cluster, shape: &Shape) -> bool {
    let effort = Effort::of_pod();
    let mut alternatives = alternatives_of(shape).into_iter();
    alternatives.all(|alternative| cross_quota::asks_nodes(cluster, shape, alternative, &effort))
}

/// Returns the alternatives of a pod of this shape that the cluster has, or no card.
fn known_alternatives<'s>(cluster: &Cluster, shape: &'s Shape) -> impl Iterator<Item = Option<&'s Alternative>> {
    let is_known = |alternative: &Alternative| alternative.all(|card| cluster.resource_of(card).is_some());
    let known = alternatives_of(shape).into_iter();
    known.filter(move |alternative| alternative.is_none_or(is_known))
}

/// Returns why no node has cards for an mGPU pod at this moment. None where one does. It searches as long as decisions do, which
/// is more than a message may cost: with fewer steps, the answer could differ from what is decided.
fn of_cards(cluster: &Cluster, shape: &Shape, request: &MgpuRequest) -> Option<Reason> {
    let mut search = mgpu::CardSearch::new(None, Effort::of_pod());
    for alternative in known_alternatives(cluster, shape) {
        if search.find(cluster, shape, request, alternative).is_some() {
            return None;
        }
    }
    Some(search.reason())
}

/// Returns why no node takes a pod of this shape at this moment, or why none ever could, where the pod is to get its shares of
/// cards now. None where a node does, where nodes are not asked, or where asking would cost more than a message may.
pub(crate) fn of_nodes(cluster: &Cluster, shape: &Shape) -> Option<Reason> {
    let governed = cross_quota::governs(cluster, shape);
    let looks = Looks::of_message();
    let known = known_alternatives(cluster, shape);
    if let Some(request) = mgpu::request_now(cluster, shape) {
        let mut reason = Reason::NoMgpuNode;
        for own in known {
            match mgpu::ever(cluster, shape, request, own, &looks) {
                mgpu::Ever::Takes => return None,
                mgpu::Ever::TooSmall => reason = Reason::InsufficientMgpu,
                mgpu::Ever::Unsuited => {}
            }
        }
        return Some(reason);
    }
    if !asks_nodes(cluster, shape) {
        return None;
    }
    let request = cluster.gpu_nodes().request(&shape.task.request);
    let is_within = |node| {
        let lines = cluster.gpu_nodes().lines(node).filter(|_| governed);
        lines.is_none_or(|lines| exceeded(lines, &request).is_none())
    };
    let (mut over_quota, mut excluded, mut would_do) = (false, false, false);
    for alternative in known {
        for node in fit::nodes_for(cluster, alternative) {
            match ask_to_say(cluster, shape, alternative, cluster.node(*node), &looks)? {
                fit::Answer::Takes if is_within(*node) => return None,
                fit::Answer::Takes => over_quota = true,
                fit::Answer::LacksRoom | fit::Answer::LacksDevices | fit::Answer::Unusable => would_do = true,
                fit::Answer::Excluded
                | fit::Answer::LeavesChoice
                | fit::Answer::FailsSelector
                | fit::Answer::GivesOtherwise => excluded = true,
                fit::Answer::Unrelated => {}
            }
        }
    }
    Some(if over_quota {
        Reason::CrossQuotaExceeded
    } else if excluded && !would_do {
        Reason::NodesExcluded
    } else {
        Reason::NoNodeFits
    })
}
