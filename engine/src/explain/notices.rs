//! What waiting pods are told: why they wait.

use std::sync::Arc;

use crds::bounds::told;
use jiff::Timestamp;

use super::turns::{Untold, untold_pods};
use super::workload::shapes_of;
use super::{Subject, explain, has_been_patient, pod, refusal_of_write};
use crate::cluster::Cluster;
use crate::cluster::deadlines::Cause;
use crate::cluster::pod::{NotTaken, Waits};
use crate::cluster::waiting::Shape;
use crate::decide::census;
use crate::decide::effort::STEPS_OF_MESSAGE;
use crate::ids::{PodId, WorkloadId};
use crate::reason::{About, Outlook, Reason};
use crate::refs::PodRef;
use crate::steps::Steps;
use crate::trail::{Trail, Work};

/// What a waiting pod is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The pod whose condition and event it is for.
    pub pod: PodRef,
    /// The queue that the pod waits in.
    pub queue: Arc<str>,
    /// The card or alternatives that the pod asks for.
    pub card: Option<String>,
    /// Whether the pod was told any reason before.
    pub told_before: bool,
    /// The reason, in one word.
    pub reason: Reason,
    /// The reason, with the numbers of this moment.
    pub message: String,
    /// Whether waiting can help, as the message says.
    pub outlook: Outlook,
}

/// The most steps that may be spent on telling reasons at once. Pods that say much about nodes where there are many nodes, and pods of
/// groups of thousands, get further turns, and other work is done in between.
pub(super) const STEPS_AT_ONCE: u64 = 4_000_000;
/// The cost for each waiting pod of a group, whenever one of the pods, or the group, is told something.
const STEPS_OF_MEMBER: u64 = 256;

/// Returns what to tell waiting pods, and remembers them as told: at most `limit` pods, and fewer where much has to be compared with nodes.
/// Pods that have waited for less than a moment are passed over, since they may yet get in at once.
pub fn notices(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Vec<Notice> {
    notices_watched(cluster, now, limit, &())
}

/// Does the same as [`notices`]. `trail` is told which pod's waiting is being explained.
pub fn notices_watched(cluster: &mut Cluster, now: Timestamp, limit: usize, trail: &dyn Trail) -> Vec<Notice> {
    debug_assert!(
        has_found_all(cluster),
        "a pod has not been told why it waits, and nobody knows"
    );
    // Pods that others hold get a turn too.
    let may_be_told = |created| has_been_patient(created, now);
    let of_own = limit.saturating_sub(usize::from(limit > 1 && cluster.has_held_elsewhere(may_be_told)));
    let untold = untold_pods(cluster, now, of_own);
    let mut notices = Vec::with_capacity(untold.len());
    let steps = Steps::new(STEPS_AT_ONCE);
    for Untold {
        lane,
        pod: id,
        reason,
        shape,
    } in untold
    {
        if steps.are_spent() {
            break;
        }
        let told = cluster.pod(id).and_then(|pod| pod.told);
        if told != Some(reason) {
            steps.spend(cost_of_pod(cluster, &shape, reason));
            if let Some(pod) = cluster.pod(id) {
                trail.at(Work {
                    doing: "explaining",
                    object: pod.to_ref().into(),
                    queue: Some(Arc::clone(&cluster.queue(shape.queue).name)),
                });
            }
            notices.extend(notice(cluster, id));
        }
        cluster.tell(id, reason);
        cluster.note_told_lane(lane);
    }
    while notices.len() < limit
        && let Some(id) = cluster.next_held_elsewhere(may_be_told)
    {
        notices.extend(notice(cluster, id));
        cluster.tell(id, Reason::HeldByAnotherGate);
    }
    trail.over();
    notices
}

/// Returns the cost of finding what to tell a pod of this shape that waits for this reason. The pod is compared with all nodes, and with the
/// pods of its group.
pub(super) fn cost_of_pod(cluster: &Cluster, shape: &Shape, reason: Reason) -> u64 {
    let of_group = shape.group.map_or(0, |group| cost_of_workload(cluster, group));
    cost_of_shape(cluster, shape, Some(reason)).saturating_add(of_group)
}

/// Returns the cost for one shape. Cards are searched only for pods that wait for shares of cards.
fn cost_of_shape(cluster: &Cluster, shape: &Shape, reason: Option<Reason>) -> u64 {
    let of_cards = match reason.map(Reason::about) {
        Some(About::Mgpu) => census::cost_of_cards(cluster, shape),
        _ => 0,
    };
    census::cost_of_all(cluster, shape).saturating_add(of_cards)
}

/// Returns the cost of finding what to tell a workload. Its pods are gone through, and nodes are asked for one shape of them after the other
/// until one lacks something.
pub(super) fn cost_of_workload(cluster: &Cluster, id: WorkloadId) -> u64 {
    let line = &cluster.workload(id).line;
    let members = STEPS_OF_MEMBER.saturating_mul(u64::try_from(line.len()).unwrap_or(u64::MAX));
    let reason = cluster.workload(id).refused.map(|(_, refused)| refused.reason);
    let mut asked = 0_u64;
    let mut last = None;
    for shape in shapes_of(cluster, cluster.workload(id)) {
        if asked >= STEPS_OF_MESSAGE {
            break;
        }
        if last.replace(shape) != Some(shape) {
            asked = asked.saturating_add(cost_of_shape(cluster, shape, reason));
        }
    }
    members.saturating_add(asked)
}

/// Whether the list of pods that may have to be told something agrees with a look at all waiting pods.
fn has_found_all(cluster: &Cluster) -> bool {
    let found = cluster
        .untold_queues_from(None)
        .flat_map(|(_, queue)| queue.waiting.untold());
    let all = cluster.queues().flat_map(|(_, queue)| queue.waiting.peers());
    let all = all.map(|(_, peers)| peers).filter(|peers| !peers.untold.is_empty());
    found.map(|peers| &peers.shape).eq(all.map(|peers| &peers.shape))
}

/// Returns what to tell a waiting pod at this moment; none where nothing has been found in its way.
pub(super) fn notice(cluster: &Cluster, id: PodId) -> Option<Notice> {
    let known = cluster.pod(id)?;
    let explanation = explain(cluster, Subject::Pod(id))?;
    let shape = known.waits.as_ref().map(|waits| &waits.shape);
    Some(Notice {
        pod: known.to_ref(),
        queue: Arc::clone(&cluster.queue(known.queue?).name),
        card: shape.and_then(|shape| pod::alternatives(cluster, shape)),
        told_before: known.told.is_some(),
        reason: explanation.reason,
        message: explanation.message(),
        outlook: explanation.outlook,
    })
}

/// Returns what to tell pods that stand aside from the beginning, because earlier pods like them were sent back, and remembers them as told:
/// at most `limit` pods, one of each namespace in turn. Nothing is judged for them meanwhile, so [`notices`] has nothing to say of them.
pub fn stand_aside(cluster: &mut Cluster, limit: usize) -> Vec<Notice> {
    let mut notices = Vec::new();
    while notices.len() < limit
        && let Some(id) = cluster.next_to_stand_aside()
    {
        notices.extend(stands_aside(cluster, id));
    }
    notices
}

fn stands_aside(cluster: &mut Cluster, id: PodId) -> Option<Notice> {
    tell_aside(cluster, id, Reason::ReservationTimeout, |waits, cause| {
        let until = waits.aside_until?;
        let (what, remedy) = match cause {
            Some(Cause::GivenBeyond) => (
                "the scheduler claimed more for earlier pods of the same controller than they request, which their queue has no quota for",
                "request cards in no init container, or have the quota raised",
            ),
            Some(Cause::Unplaced) | None => (
                "the scheduler did not place earlier pods of the same controller in time",
                "make room on a node that it may run on, or have it ask for less",
            ),
        };
        Some(format!(
            "{what}, so this one lets others go first until {until}, and those after it longer each time: {remedy}"
        ))
    })
}

/// Returns what to tell a pod that the API server has not let in, with the API server's message. The pod stands aside, so it is told
/// nothing else.
pub fn refused_write(cluster: &mut Cluster, uid: &str, message: &str) -> Option<Notice> {
    let reason = Reason::RefusedByApiServer;
    let id = cluster.pod_with_uid(uid)?;
    tell_aside(cluster, id, reason, |waits, _| {
        let said = |how| refusal_of_write("the pod", how, message, waits.aside_until);
        (waits.write_refusals > 0).then(|| {
            if waits.write_failed {
                told(said(NotTaken::Failed))
            } else {
                reason.message(&said(NotTaken::Refused))
            }
        })
    })
}

/// Tells a pod that stands aside why, where there is a message for it. That may depend on why earlier pods like it were sent back last.
fn tell_aside(
    cluster: &mut Cluster,
    id: PodId,
    reason: Reason,
    message: impl FnOnce(&Waits, Option<Cause>) -> Option<String>,
) -> Option<Notice> {
    let known = cluster.pod(id)?;
    let waits = known.waits.as_ref()?;
    let notice = Notice {
        pod: known.to_ref(),
        queue: Arc::clone(&cluster.queue(waits.shape.queue).name),
        card: pod::alternatives(cluster, &waits.shape),
        told_before: known.told.is_some(),
        reason,
        message: message(waits, cluster.cause_of_return(known))?,
        outlook: if waits.write_failed {
            Outlook::NotYet
        } else {
            reason.outlook(|| true)
        },
    };
    cluster.tell(id, reason);
    Some(notice)
}
