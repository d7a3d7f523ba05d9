//! Why a group would not be let in with pods that are asked about and do not exist.

use std::sync::Arc;

use crds::card_review::{self, Block};

use super::explanation::{Explanation, Extent, Together, Whose};
use super::found::What;
use super::short::At;
use super::{pod, queue, short, workload};
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::cluster::workload::Step;
use crate::decide::census::Looks;
use crate::decide::enqueue::could_ever_take;
use crate::decide::gang::{Hindrance, check_alone, check_group};
use crate::decide::verdict::check_queue_takes;
use crate::ids::{QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::reason::{About, Reason};

/// The message where each pod would be let in by itself.
const NOT_FOR_ALL: &str = "there is enough for it by itself, and not for all of them";

/// The pods that are asked about: their shapes, and how many of each.
pub(super) type Joining<'s> = &'s [(Arc<Shape>, u64)];

/// Returns what keeps out a group that these pods join.
pub(super) fn blocks_of_group(
    cluster: &mut Cluster,
    namespace: &str,
    id: WorkloadId,
    joining: Joining<'_>,
) -> Vec<Block> {
    let workload = cluster.workload(id);
    let Some(terms) = &workload.terms else {
        return Vec::new();
    };
    if terms.problem.is_some() {
        let said = workload::say(cluster, id, terms, Reason::PodGroupInvalid);
        return said.iter().map(|said| Reason::PodGroupInvalid.block(said)).collect();
    }
    if workload.missing() == 0 {
        return Vec::new();
    }
    let found = check_group(cluster, id, joining);
    let found = found.iter();
    found
        .map(|found| block(cluster, namespace, id, joining, found))
        .collect()
}

/// Returns what keeps a Job from being resumed, where these are its first pods.
pub(super) fn block_of_job(cluster: &Cluster, namespace: &str, id: WorkloadId, joining: Joining<'_>) -> Option<Block> {
    let found = check_alone(cluster, id)?;
    Some(block(cluster, namespace, id, joining, &found))
}

/// Returns what is said of a Job that would be held until something is kept again for workloads of its namespace.
pub(super) fn block_aside(cluster: &Cluster, id: WorkloadId) -> Option<Block> {
    cluster.stands_aside_until(id)?;
    let terms = cluster.workload(id).terms.as_ref()?;
    let said = workload::say(cluster, id, terms, Reason::InqueueTimeout)?;
    Some(Reason::InqueueTimeout.block(&said))
}

fn block(cluster: &Cluster, namespace: &str, id: WorkloadId, joining: Joining<'_>, found: &Hindrance) -> Block {
    let workload = cluster.workload(id);
    let who = format!("{} {}", workload.kind.as_str(), workload.name);
    match found {
        Hindrance::Incomplete(there, free) => {
            let there = if *there == 1 {
                "it is the first".to_owned()
            } else {
                format!("with it {there} are there")
            };
            Reason::PodGroupIncomplete.block(&workload::incomplete(workload, &there, free))
        }
        Hindrance::TooMany => Block {
            reason: Reason::TooComplex.as_str().to_owned(),
            message: format!(
                "whether the {} pods of {who} would be let in together is not found out for an answer: they are too many",
                workload.missing()
            ),
            outlook: card_review::Outlook::NotYet,
            remedy: "ask kubectl card simulate, which judges more of them".to_owned(),
            shortages: Vec::new(),
        },
        Hindrance::Refused { step, reason, asked } => {
            refused(cluster, id, joining, (*step, *reason), asked.as_ref()).block(namespace)
        }
    }
}

fn refused<'c>(
    cluster: &'c Cluster,
    id: WorkloadId,
    joining: Joining<'c>,
    (step, reason): (Step, Reason),
    asked: Option<&(QueueId, Demand)>,
) -> Explanation<'c> {
    let (extent, what, is_ever) = if step == Step::Enqueue {
        as_a_whole(cluster, id, joining, reason, asked)
    } else {
        in_pods(cluster, id, joining, step, reason)
    };
    Explanation {
        cluster,
        reason,
        outlook: reason.outlook(|| is_ever),
        is_of_pod: false,
        extent,
        what,
        replaces: None,
        beyond: None,
    }
}

/// Returns what a queue says to the workload as a whole, and whether that may ever change.
fn as_a_whole<'c>(
    cluster: &'c Cluster,
    id: WorkloadId,
    joining: Joining<'_>,
    reason: Reason,
    asked: Option<&(QueueId, Demand)>,
) -> (Extent<'c>, What<'c>, bool) {
    let workload = cluster.workload(id);
    let of_pods = joining.iter().map(|(shape, _)| shape.queue);
    let mut queues = workload.terms.iter().map(|terms| terms.queue).chain(of_pods);
    if let About::Quota(_) = reason.about() {
        let itself = || {
            let terms = workload.terms.as_ref()?;
            Some((terms.queue, cluster.metered(workload, &terms.demand)))
        };
        let Some((queue, demand)) = asked.cloned().or_else(itself) else {
            return (Extent::Alone, What::Said(String::new()), true);
        };
        let level = workload::level_in_excess(cluster, id, queue, &demand);
        let short = short::of_whole(cluster, id, (queue, &demand), level, reason);
        let is_ever = could_ever_take(cluster, id, (queue, &demand), level);
        let extent = Extent::Whole(id, At { own: queue, level });
        return (extent, What::Quota(short), is_ever);
    }
    if let (About::Nodes | About::Mgpu, Some(queue)) = (reason.about(), queues.clone().next()) {
        let at = At {
            own: queue,
            level: Some(queue),
        };
        let said = workload::too_few_fit(cluster, id);
        return (Extent::Whole(id, at), What::Said(said), false);
    }
    let refuses = |queue: &QueueId| check_queue_takes(cluster, *queue, &workload.namespace) == Err(reason);
    let said = queues.find(refuses);
    let said = said.map(|queue| queue::say(cluster, queue, &workload.namespace, reason));
    (Extent::Alone, What::Said(said.unwrap_or_default()), true)
}

/// Returns what the workload's pods lack that would be let in together, and whether the pod that is told may ever have it.
fn in_pods<'c>(
    cluster: &'c Cluster,
    id: WorkloadId,
    joining: Joining<'c>,
    step: Step,
    reason: Reason,
) -> (Extent<'c>, What<'c>, bool) {
    let workload = cluster.workload(id);
    let looks = Looks::of_message();
    let of_joining = joining.iter().map(|(shape, _)| &**shape);
    let mut shapes = of_joining.clone().chain(workload::shapes_of(cluster, workload));
    let mut last = None;
    let lacking =
        shapes.find(|shape| last.replace(*shape) != Some(*shape) && pod::lacks(cluster, shape, reason, &looks));
    let first = of_joining.clone().next();
    let are_alike = first.is_some_and(|first| {
        of_joining.clone().all(|shape| shape == first) && workload::are_all_like(cluster, workload, first)
    });
    let whose = match lacking {
        _ if are_alike => Whose::Each,
        Some(_) if lacking != first => Whose::One,
        _ => Whose::Told,
    };
    let extent = Extent::Together(Together {
        workload,
        whose,
        was_given_up: step == Step::GivenUp,
    });
    let what = lacking.map_or_else(
        || What::Said(NOT_FOR_ALL.to_owned()),
        |shape| pod::find(cluster, shape, reason),
    );
    let is_ever = lacking.is_none_or(|shape| pod::could_ever_be_let_in(cluster, shape, reason));
    (extent, what, is_ever)
}
