//! Whether a group would be let in with pods that do not exist yet, so that a user can ask what would come of them. These pods
//! are judged as if they waited, by the search that decides, and everything is taken back afterwards.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Cause, judge_pods};
use crate::cluster::Cluster;
use crate::cluster::waiting::{Refused, Shape};
use crate::cluster::workload::Step;
use crate::decide::effort::Effort;
use crate::decide::enqueue::{asked_by_pods, check_as_a_whole, lack};
use crate::decide::line::{InLine, chosen, line};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::lacking::{Free, Places};
use crate::reason::Reason;

/// The most pods that are judged without being there. For a group that needs more, the answer is not found out.
const MOST: usize = 1_000;

/// Why a group would not be let in with the pods that join it.
#[derive(Debug)]
pub(crate) enum Hindrance {
    /// This many pods would be there, and the group would still need these.
    Incomplete(usize, Free),
    /// More of its pods are missing than are judged here.
    TooMany,
    /// The group is refused, as a whole or for what its pods lack together.
    Refused {
        step: Step,
        reason: Reason,
        /// What its pods ask for together of the queue that has too little for that, where the group is judged as a whole by its
        /// pods.
        asked: Option<(QueueId, Demand)>,
    },
}

/// Returns why the queue of a workload would not take it as a whole, by what the workload asks for itself.
pub(crate) fn check_alone(cluster: &Cluster, id: WorkloadId) -> Option<Hindrance> {
    alone(cluster, id, &Effort::of_gang())
}

fn alone(cluster: &Cluster, id: WorkloadId, effort: &Effort) -> Option<Hindrance> {
    let refused = check_as_a_whole(cluster, id, effort).err()?;
    Some(Hindrance::Refused {
        step: Step::Enqueue,
        reason: refused.reason,
        asked: None,
    })
}

/// Returns what keeps a group out once this many pods of these shapes join it; nothing where it would be let in with them. Where
/// further pods are still missing, they are assumed to be like the last of these, as far as they can be.
pub(crate) fn check_group(cluster: &mut Cluster, id: WorkloadId, joining: &[(Arc<Shape>, u64)]) -> Vec<Hindrance> {
    let effort = Effort::of_gang();
    if let Some(refused) = alone(cluster, id, &effort) {
        return vec![refused];
    }
    let workload = cluster.workload(id);
    let there = workload.admitted() + workload.succeeded() + workload.line.len();
    let lacking = workload.lacking();
    let missing = lacking.count();
    let waiting = line(cluster, id);
    let mut places = lacking.places();
    let taken = waiting
        .iter()
        .filter(|(_, shape)| places.take(shape.task_spec.as_deref()));
    let others = missing - taken.count();
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX).min(missing);
    let come = joining
        .iter()
        .fold(0, |sum: usize, (_, more)| sum.saturating_add(count(*more)));
    if others > MOST {
        return vec![if come < others {
            for (shape, more) in joining {
                places.take_up_to(shape.task_spec.as_deref(), count(*more));
            }
            Hindrance::Incomplete(there + come, places.free())
        } else {
            Hindrance::TooMany
        }];
    }
    // However many templates there are, no more pods join than there are places.
    let mut shapes = Vec::new();
    let mut join = |shape: &Arc<Shape>, most: usize, places: &mut Places| {
        let task = shape.task_spec.as_deref();
        let pods = most.min(places.free_for(task));
        places.take_up_to(task, pods);
        shapes.extend(std::iter::repeat_n(Arc::clone(shape), pods));
    };
    for (shape, more) in joining {
        join(shape, count(*more), &mut places);
    }
    let mut found = Vec::new();
    if !places.are_taken() {
        found.push(Hindrance::Incomplete(there.saturating_add(come), places.free()));
        if let Some((like, _)) = joining.last() {
            join(like, missing, &mut places);
        }
    }
    if places.are_taken() {
        found.extend(judged(cluster, id, waiting, shapes, &effort));
    }
    found
}

/// Returns what keeps a group out when all its missing pods are there: pods of these shapes join those that wait.
fn judged(
    cluster: &mut Cluster,
    id: WorkloadId,
    waiting: Vec<InLine>,
    shapes: Vec<Arc<Shape>>,
    effort: &Effort,
) -> Option<Hindrance> {
    let told = remembered(cluster, &waiting);
    let before = cluster.bookmark(waiting.iter().map(|(pod, _)| *pod));
    let new = cluster.put_stand_ins(id, &shapes);
    let mut line = waiting;
    line.extend(new.iter().copied().zip(shapes));
    for (_, shape) in &line {
        effort.look_at_node(shape);
    }
    let mut bookmark = before;
    cluster.add_to_bookmark(&mut bookmark, new.iter().copied());
    let judged = judge_pods(cluster, id, &line, effort);
    let found = match judged {
        Ok(_) => {
            let all: Vec<_> = line.iter().map(|(pod, _)| *pod).collect();
            cluster.take_back(&all, &bookmark);
            None
        }
        Err((step, Cause { reason, .. })) => Some(Hindrance::Refused {
            step,
            reason,
            asked: (step == Step::Enqueue)
                .then(|| asked_by_first(cluster, id, &line))
                .flatten(),
        }),
    };
    cluster.take_stand_ins(&new);
    cluster.take_back(&[], &bookmark);
    for (shape, refused, pods) in told {
        cluster.remember_refusal(&shape, refused);
        for pod in pods {
            cluster.tell(pod, refused.reason);
        }
    }
    found
}

/// Returns what stands in the way of waiting pods, and which of these pods have been told so. This is forgotten with the last pod
/// of a shape that is let in, and these pods must not become pods that nobody has judged.
fn remembered(cluster: &Cluster, waiting: &[InLine]) -> Vec<(Arc<Shape>, Refused, Vec<PodId>)> {
    let mut known = HashSet::new();
    let shapes = waiting
        .iter()
        .map(|(_, shape)| shape)
        .filter(|shape| known.insert(Arc::clone(shape)));
    let remembered = shapes.filter_map(|shape| {
        let (_, peers) = cluster.queue(shape.queue).waiting.peers_of(shape)?;
        let refused = peers.refused?;
        let told = |pod: &PodId| cluster.pod(*pod).is_some_and(|pod| pod.told == Some(refused.reason));
        let pods = peers.pods.iter().map(|place| place.pod).filter(told);
        Some((Arc::clone(shape), refused, pods.collect()))
    });
    remembered.collect()
}

/// Returns what the first of these pods ask for of the queue that has too little for them together.
fn asked_by_first(cluster: &Cluster, id: WorkloadId, line: &[InLine]) -> Option<(QueueId, Demand)> {
    let first = chosen(cluster.workload(id).lacking(), line);
    let first: Vec<_> = first.into_iter().map(|(pod, _)| *pod).collect();
    let mut asked = asked_by_pods(cluster, &first).into_iter();
    asked.find(|(queue, demand)| lack(cluster, id, *queue, demand).is_some())
}
