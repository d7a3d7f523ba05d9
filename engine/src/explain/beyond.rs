//! What keeps a pod or workload out for good, although the reason that it is told first may pass with time.
//!
//! Quota is asked before nodes, and the Capacity Card document gives each check its event, so the check that is asked first stays the
//! reason. But a user who reads "used 3, quota 8" waits, and waits in vain where no node has as many cards as one pod asks for. So that is
//! said with the reason. Likewise, quota may come for one of several cards and a node for another, but never both for the same card.

use super::found::What;
use super::pod::{ALL_EXCLUDED, NO_MGPU_NODE, cards_to_name, could_ever_be_let_in, has_node_ever, list, names};
use super::{Case, pod, workload};
use crate::alternative::Alternative;
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::census::Looks;
use crate::decide::enqueue::could_ever_run;
use crate::decide::fit::nodes_for;
use crate::decide::obstacles::{asks_nodes, of_nodes};
use crate::decide::verdict::{alternatives_with_quota_ever, is_charged_for_no_card, is_for};
use crate::ids::WorkloadId;
use crate::reason::{About, Outlook, Reason};

/// The remedy where no node has any of the cards that a pod may have. Asking for fewer of them would not help.
const OF_ANOTHER_CARD: &str = "create the pod anew with a card that the cluster has (kubectl get cardtypes lists them), or have a node added \
                               that has it";

/// An obstacle that waiting does not remove.
#[derive(Debug)]
pub(super) struct Beyond {
    /// The reason, in one word.
    pub reason: Reason,
    /// The obstacle, in a sentence without numbers.
    pub said: String,
    /// The remedy, where it differs from that of the reason.
    instead: Option<&'static str>,
}

/// Returns what keeps a pod or workload out for good besides this reason, which time may cure; none where nothing does.
pub(super) fn beyond(cluster: &Cluster, case: Case<'_>, reason: Reason) -> Option<Beyond> {
    if !matches!(reason.about(), About::Quota(_)) && reason != Reason::NoNodeFits {
        return None;
    }
    match case {
        Case::Pod(shape) => of_shape(cluster, shape, reason),
        Case::Workload(id) => match workload::shape_refused_for(cluster, cluster.workload(id), None, reason) {
            Some(shape) => of_shape(cluster, shape, reason),
            None => of_whole(cluster, id, reason),
        },
        Case::HeldElsewhere(_) | Case::Queue(_) => None,
    }
}

/// The most kinds of pods of a workload that are looked at.
const MOST_SHAPES: usize = 16;

/// Does the same for a workload that waits as a whole.
fn of_whole(cluster: &Cluster, id: WorkloadId, told: Reason) -> Option<Beyond> {
    // Pods of one shape usually stand in line one behind the other.
    let mut last = None;
    let shapes =
        workload::shapes_of(cluster, cluster.workload(id)).filter(|shape| last.replace(*shape) != Some(*shape));
    let gone = shapes
        .take(MOST_SHAPES)
        .find_map(|shape| of_cards_that_are_gone(cluster, shape));
    gone.or_else(|| {
        (told != Reason::NoNodeFits && !could_ever_run(cluster, id)).then(|| Beyond {
            reason: Reason::NoNodeFits,
            said: workload::too_few_fit(cluster, id),
            instead: None,
        })
    })
}

fn of_cards_that_are_gone(cluster: &Cluster, shape: &Shape) -> Option<Beyond> {
    // Pods that are let in without asking nodes are left out: a node may come for such a pod later.
    let of_nodes = shape.task.mgpu.is_none() && asks_nodes(cluster, shape);
    let said = no_node_has(cluster, shape).filter(|_| of_nodes)?;
    Some(Beyond {
        reason: Reason::NoNodeFits,
        said,
        instead: Some(OF_ANOTHER_CARD),
    })
}

/// Says that no node has any of the cards that a pod may have, where that is so, and which cards the pod could name instead.
fn no_node_has(cluster: &Cluster, shape: &Shape) -> Option<String> {
    let mut alternatives = shape.task.alternatives.iter();
    let is_there = |alternative: &Alternative| !nodes_for(cluster, Some(alternative)).is_empty();
    if shape.task.alternatives.is_empty() || alternatives.any(is_there) {
        return None;
    }
    let gone = list(cluster, shape.task.cards());
    if shape.task.claims_cards() {
        return Some(format!("no node has {gone} now"));
    }
    let unknown = names(cluster, shape.task.cards());
    Some(format!(
        "no node has {gone} now; {}",
        cards_to_name(cluster, shape, &unknown)
    ))
}

/// Says that a pod can't be charged for what it asks for, whatever quota there is.
fn of_request(cluster: &Cluster, shape: &Shape) -> Option<Beyond> {
    if cluster.queue(shape.queue).is_nameless() || !is_for(cluster, shape.queue, &shape.namespace) {
        return None;
    }
    let reason = is_charged_for_no_card(cluster, shape).err()?;
    let What::Said(said) = pod::find(cluster, shape, reason) else {
        return None;
    };
    (reason.outlook(|| true) == Outlook::Never).then_some(Beyond {
        reason,
        said,
        instead: None,
    })
}

fn of_shape(cluster: &Cluster, shape: &Shape, told: Reason) -> Option<Beyond> {
    let known = of_request(cluster, shape).or_else(|| of_cards_that_are_gone(cluster, shape));
    if known.is_some() {
        return known;
    }
    let of_cards = shape.task.mgpu.is_some();
    if !of_cards && asks_nodes(cluster, shape) {
        // The search ends at the first node that could take the pod, so all nodes are searched only for a pod that never runs.
        let with_quota = alternatives_with_quota_ever(cluster, shape);
        let (mut both, looks) = (with_quota.iter(), Looks::of_message());
        if both.any(|alternative| has_node_ever(cluster, shape, *alternative, &looks)) {
            return None;
        }
        if could_ever_be_let_in(cluster, shape, Reason::NoNodeFits) {
            return (!with_quota.is_empty()).then(|| Beyond {
                reason: Reason::NoNodeFits,
                said: "of the cards that it may have, those with enough quota have no node that could take it"
                    .to_owned(),
                instead: None,
            });
        }
    }
    let reason = of_nodes(cluster, shape).filter(|reason| *reason != told)?;
    let said = match reason {
        Reason::NodesExcluded => ALL_EXCLUDED,
        Reason::NoMgpuNode => NO_MGPU_NODE,
        Reason::InsufficientMgpu => "no mGPU node could take the pod even if nothing ran on it",
        Reason::CrossQuotaExceeded if !of_cards => {
            "no GPU node's quota for pods without GPU is large enough for the pod"
        }
        Reason::NoNodeFits if !of_cards => "no node could take the pod even if nothing ran on it",
        _ => return None,
    };
    Some(Beyond {
        reason,
        said: said.to_owned(),
        instead: None,
    })
}

impl Beyond {
    /// Returns what to do about the obstacle.
    pub(super) fn remedy(&self, is_of_pod: bool) -> &'static str {
        self.instead
            .unwrap_or_else(|| self.reason.remedy(Outlook::Never, is_of_pod))
    }
}
