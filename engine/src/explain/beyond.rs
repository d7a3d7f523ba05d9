//! What keeps somebody out for good who is told first of what time may bring.
//!
//! Quota is asked before nodes, and the Capacity Card document gives each check its event, so what is asked first stays the reason. But
//! whoever reads "used 3, quota 8" waits, and waits in vain where no node has as many cards as one pod asks for: that is said with it.

use super::{Case, explanation, pod, workload};
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::enqueue::could_ever_run;
use crate::decide::obstacles::of_nodes;
use crate::reason::{About, Outlook, Reason};

/// What no waiting cures.
#[derive(Debug)]
pub(super) struct Beyond {
    /// In one word.
    pub reason: Reason,
    /// In a sentence without numbers.
    pub said: String,
}

/// What keeps somebody out for good besides this reason, which time may cure; none where nothing does.
pub(super) fn beyond(cluster: &Cluster, case: Case<'_>, reason: Reason) -> Option<Beyond> {
    if !matches!(reason.about(), About::Quota(_)) {
        return None;
    }
    match case {
        Case::Pod(shape) => of_shape(cluster, shape),
        Case::Workload(id) => match workload::shape_refused_for(cluster, cluster.workload(id), reason) {
            Some(shape) => of_shape(cluster, shape),
            None => (!could_ever_run(cluster, id)).then(|| Beyond {
                reason: Reason::NoNodeFits,
                said: explanation::too_few_fit(cluster, id),
            }),
        },
        Case::HeldElsewhere | Case::Queue(_) => None,
    }
}

fn of_shape(cluster: &Cluster, shape: &Shape) -> Option<Beyond> {
    let of_cards = shape.task.mgpu.is_some();
    // The first node that could take the pod ends the search, so only a pod that never runs is looked for on all of them.
    if !of_cards && pod::could_ever_be_let_in(cluster, shape, Reason::NoNodeFits) {
        return None;
    }
    let reason = of_nodes(cluster, shape)?;
    let said = match reason {
        Reason::NodesExcluded => pod::ALL_EXCLUDED,
        Reason::NoMgpuNode => pod::NO_MGPU_NODE,
        Reason::CrossQuotaExceeded if !of_cards => {
            "no GPU node's quota for pods without GPU is large enough for the pod"
        }
        Reason::NoNodeFits if !of_cards => "no node could take the pod even if nothing ran on it",
        _ => return None,
    };
    Some(Beyond {
        reason,
        said: said.to_owned(),
    })
}

impl Beyond {
    /// What to do about it.
    pub(super) fn remedy(&self, is_of_pod: bool) -> &'static str {
        self.reason.remedy(Outlook::Never, is_of_pod)
    }
}
