//! The one form that every reason has: what there is too little of, by how much, where, whether waiting can help, and whose pod stands in
//! the way. `words` makes sentences of it, `answer` makes answers of it.

use super::beyond::{Beyond, beyond};
use super::found::What;
use super::short::{At, Short};
use super::{Case, holders, pod, queue, short, workload};
use crate::cluster::Cluster;
use crate::cluster::pod::{NotTaken, Pod};
use crate::cluster::waiting::Shape;
use crate::cluster::workload::{Step, Workload};
use crate::ids::{PodId, WorkloadId};
use crate::reason::{About, Outlook, Reason};

/// Why something waits, with everything that there is to say about it.
#[derive(Debug)]
pub struct Explanation<'c> {
    pub(super) cluster: &'c Cluster,
    /// The reason, in one word.
    pub reason: Reason,
    /// Whether waiting can help. It never does where the request is more than could be had if nothing else held anything.
    pub outlook: Outlook,
    /// Whether what waits is a pod, and not a workload or a queue.
    pub(super) is_of_pod: bool,
    pub(super) extent: Extent<'c>,
    pub(super) what: What<'c>,
    /// The pod that this one is to replace, and that holds what it lacks.
    pub(super) replaces: Option<&'c Pod>,
    /// What waiting does not cure, where the reason itself may pass.
    pub(super) beyond: Option<Beyond>,
}

/// How a pod or workload waits.
#[derive(Debug)]
pub(super) enum Extent<'c> {
    /// By itself.
    Alone,
    /// As a workload that is taken as a whole or not at all, asked at this level.
    Whole(WorkloadId, At),
    /// Together with the other pods of its workload.
    Together(Together<'c>),
}

/// The pods of a workload that are let in together.
#[derive(Debug)]
pub(super) struct Together<'c> {
    pub workload: &'c Workload,
    /// Which pod's lack is told.
    pub whose: Whose,
    /// Whether the search for places was given up.
    pub was_given_up: bool,
}

/// Which of the pods that are let in together lacks what is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Each of them, since they have one shape.
    Each,
    /// The pod that is told.
    Told,
    /// One of them.
    One,
}

impl Explanation<'_> {
    /// Adds what else keeps it out for good. Waiting helps only where nothing does.
    pub(super) fn with_what_is_beyond(mut self, case: Case<'_>) -> Self {
        // For nodes, this distinguishes nodes that exclude the pod from nodes that are too small.
        if self.outlook == Outlook::NotYet || self.reason == Reason::NoNodeFits {
            self.beyond = beyond(self.cluster, case, self.reason);
        }
        if self.beyond.is_some() {
            self.outlook = Outlook::Never;
        }
        self
    }

    /// Returns what there is too little of, if anything. Of nodes, only the one that comes nearest is looked at.
    pub(super) fn short(&self) -> Vec<Short> {
        match &self.what {
            What::Said(_) => Vec::new(),
            What::Quota(short) => short.clone(),
            What::Nodes(nodes) => {
                let of_nodes = short::of_nodes(self.cluster, nodes.shape, &nodes.alternatives);
                nodes.over_quota.iter().cloned().chain(of_nodes).collect()
            }
        }
    }
}

/// Returns everything that there is to say of a reason why something waits. `told` is the pod that is told, where one is.
pub(super) fn find<'c>(cluster: &'c Cluster, case: Case<'c>, told: Option<PodId>, reason: Reason) -> Explanation<'c> {
    let alone = |what| (Extent::Alone, what);
    let (extent, what) = match case {
        Case::Pod(shape) => match speaker(cluster, shape, reason) {
            Some(group) => of_workload(cluster, group, Some(shape), reason),
            None => alone(pod::find(cluster, shape, reason)),
        },
        Case::Workload(id) => of_workload(cluster, id, None, reason),
        Case::Queue(problem) => alone(What::Said(problem.to_owned())),
        Case::HeldElsewhere(gates) => alone(What::Said(pod::held_elsewhere(gates))),
    };
    let could_ever = || match case {
        Case::Pod(shape) => match speaker(cluster, shape, reason) {
            Some(group) => workload::could_ever_be_let_in(cluster, group, Some(shape), reason),
            None => pod::could_ever_be_let_in(cluster, shape, reason),
        },
        Case::Workload(id) => workload::could_ever_be_let_in(cluster, id, None, reason),
        Case::HeldElsewhere(_) => true,
        Case::Queue(_) => false,
    };
    let may_be_written = may_be_written(cluster, case, told, reason);
    let what = match case {
        Case::Pod(_) if may_be_written => {
            What::Said("the API server could not let the pod in, which may work later".to_owned())
        }
        _ => what,
    };
    let outlook = if may_be_written {
        Outlook::NotYet
    } else {
        reason.outlook(could_ever)
    };
    let would_do = matches!(reason.about(), About::Quota(_)) && outlook == Outlook::NotYet;
    let makes_room = |old: &&Pod| matches!(&what, What::Quota(short) if holders::would_make_room(short, old));
    let replaces = told
        .filter(|_| would_do)
        .and_then(|pod| holders::old_replica(cluster, pod))
        .filter(makes_room);
    Explanation {
        cluster,
        reason,
        outlook,
        is_of_pod: matches!(case, Case::Pod(_) | Case::HeldElsewhere(_)),
        extent,
        what,
        replaces,
        beyond: None,
    }
}

/// Whether it waits because the API server has not let it in, and a later write may work.
fn may_be_written(cluster: &Cluster, case: Case<'_>, told: Option<PodId>, reason: Reason) -> bool {
    let has_failed = || match case {
        Case::Pod(_) => {
            let pod = told.and_then(|id| cluster.pod(id));
            pod.and_then(|pod| pod.waits.as_ref())
                .is_some_and(|waits| waits.write_failed)
        }
        Case::Workload(id) => {
            let refused = cluster.workload(id).write_refused.as_ref();
            refused.is_some_and(|refused| refused.how == NotTaken::Failed)
        }
        Case::HeldElsewhere(_) | Case::Queue(_) => false,
    };
    reason == Reason::RefusedByApiServer && has_failed()
}

/// Returns the group of a pod that waits because its group waits as a whole, and not by itself.
fn speaker(cluster: &Cluster, shape: &Shape, reason: Reason) -> Option<WorkloadId> {
    shape
        .group
        .filter(|group| workload::speaks_for_its_pods(cluster, *group, reason))
}

/// Returns what is in the way of a workload. `told` is the shape of the pod that is told, where one is.
fn of_workload<'c>(
    cluster: &'c Cluster,
    id: WorkloadId,
    told: Option<&'c Shape>,
    reason: Reason,
) -> (Extent<'c>, What<'c>) {
    let workload = cluster.workload(id);
    let Some(terms) = &workload.terms else {
        return (Extent::Alone, What::Said(workload::not_found(workload)));
    };
    if let Some(said) = workload::say(cluster, id, terms, reason) {
        return (Extent::Alone, What::Said(said));
    }
    if let Some((step @ (Step::Together | Step::GivenUp), _)) = workload.refused {
        let shape = workload::shape_refused_for(cluster, workload, told, reason);
        let what = shape.map(|shape| pod::find(cluster, shape, reason));
        let whose = if shape.is_none_or(|shape| workload::are_all_like(cluster, workload, shape)) {
            Whose::Each
        } else if shape == told {
            Whose::Told
        } else {
            Whose::One
        };
        let extent = Extent::Together(Together {
            workload,
            whose,
            was_given_up: step == Step::GivenUp,
        });
        return (extent, what.unwrap_or(What::Said(String::new())));
    }
    let (queue, demand) = workload::asked_as_a_whole(cluster, id, terms.queue);
    if let About::Quota(_) = reason.about()
        && let Some(said) = workload::only_stands_aside(cluster, id, (queue, &demand), reason)
    {
        return (Extent::Alone, What::Said(said));
    }
    let at = workload::level_in_excess(cluster, id, queue, &demand);
    let what = match reason.about() {
        About::Quota(_) => What::Quota(short::of_whole(cluster, id, (queue, &demand), at, reason)),
        About::Nodes | About::Mgpu => What::Said(workload::too_few_fit(cluster, id)),
        About::Request | About::Queue | About::Workload => {
            What::Said(queue::say(cluster, queue, &workload.namespace, reason))
        }
    };
    match reason.about() {
        About::Quota(_) | About::Nodes | About::Mgpu => (Extent::Whole(id, At { own: queue, level: at }), what),
        // What the queue refuses here, it refuses to every pod.
        About::Request | About::Queue | About::Workload => (Extent::Alone, what),
    }
}
