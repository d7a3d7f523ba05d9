//! Whether a workload is let into its queue as a whole (Capacity Card, **Job Enqueueable Check**). This is decided before its
//! pods exist, or before the first of them is let in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::configuration::QueuePlugin;

use super::Round;
use super::effort::Effort;
use super::line::could_ever_fit;
use super::trail_workload;
use super::verdict::check_queue_takes;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::levels::{ALL_LEVELS, Supply};
use crate::cluster::queue::Queue;
use crate::cluster::waiting::Refused;
use crate::cluster::workload::{Step, WorkloadTerms};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::policies::job_mode::{JobCheck, Load};
use crate::reason::Reason;
use crate::trail::Trail;

/// What the workloads of each namespace may cost in one review: users can have any number of workloads, and say themselves that
/// these are in their queues.
#[derive(Default)]
struct Shares(BTreeMap<Arc<str>, Effort>);

impl Shares {
    fn of(&mut self, namespace: &Arc<str>) -> Effort {
        let share = self.0.entry(Arc::clone(namespace)).or_insert_with(Effort::of_pod);
        share.clone()
    }

    fn spent(&self) -> u64 {
        self.0.values().map(Effort::spent).sum()
    }
}

/// Reviews what is kept already, since a queue may have come to refuse workloads that it keeps something for. Workloads that an
/// earlier leader has let in are judged like everything else, but before whatever waits. When the share of their namespace is
/// spent, they are judged in their turn, as if they were new. Returns whether something is left to be reviewed in the next round.
pub(super) fn review(cluster: &mut Cluster, round: &mut Round, trail: &dyn Trail) -> bool {
    for id in cluster.take_unreviewed() {
        let workload = cluster.workload(id);
        let Some(queue) = workload.terms.as_ref().map(|terms| terms.queue) else {
            continue;
        };
        if let Err(reason) = check_queue_takes(cluster, queue, &workload.namespace) {
            let refused = cluster.refusal(queue, Some(id), reason);
            cluster.dequeue(id);
            cluster.refuse_workload(id, Some((Step::Enqueue, refused)));
        }
    }
    let (mut shares, mut postponed) = (Shares::default(), false);
    // A workload may keep more now than was checked.
    for grown in cluster.take_grown() {
        let (id, queue) = (grown.id, grown.queue);
        let namespace = Arc::clone(&cluster.workload(id).namespace);
        let effort = shares.of(&namespace);
        if effort.is_spent() {
            cluster.check_later(&grown);
            postponed = true;
            continue;
        }
        effort.spend(LOOK_AT_WORKLOAD);
        match check(cluster, id, queue, &namespace, &grown.demand, &effort) {
            Ok(()) => cluster.note_checked(id),
            Err(refused) => {
                if grown.is_configured {
                    cluster.dequeue(id);
                } else {
                    // It is remembered how long something was kept in vain: a user who makes such pods and deletes them in turn
                    // would else keep quota for ever.
                    cluster.dequeue_in_vain(id);
                }
                cluster.refuse_workload(id, Some((Step::Enqueue, refused)));
            }
        }
    }
    for id in cluster.take_enqueued_before() {
        let effort = shares.of(&cluster.workload(id).namespace);
        if !effort.is_spent() {
            trail_workload(cluster, id, trail);
            // A refusal is remembered with the workload.
            let _ = enqueue(cluster, id, &effort);
        }
    }
    round.steps += shares.spent();
    postponed
}

/// Lets a workload into its queue, or remembers why it is not let in.
pub(super) fn enqueue(cluster: &mut Cluster, id: WorkloadId, effort: &Effort) -> Result<(), ()> {
    match judge(cluster, id, effort) {
        Ok(()) => {
            cluster.enqueue(id);
            Ok(())
        }
        Err(refused) => {
            cluster.refuse_workload(id, Some((Step::Enqueue, refused)));
            Err(())
        }
    }
}

/// Whether pods of a group wait in the line of another queue than the group's own: that line may have had its turn already.
pub(super) fn pods_wait_elsewhere(cluster: &Cluster, id: WorkloadId) -> bool {
    let workload = cluster.workload(id);
    let queue = workload.terms.as_ref().map(|terms| terms.queue);
    let line = workload.line.iter().filter_map(|(_, place)| cluster.pod(place.pod));
    line.map(|pod| pod.queue).any(|of_pod| of_pod != queue)
}

/// Judges whether a workload's queue can take what it asks for as a whole.
fn judge(cluster: &Cluster, id: WorkloadId, effort: &Effort) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let Some(terms) = &workload.terms else {
        return Ok(());
    };
    let because = |reason| cluster.refusal(terms.queue, Some(id), reason);
    if terms.problem.is_some() {
        return Err(because(Reason::PodGroupInvalid));
    }
    let demand = cluster.metered(workload, &terms.demand);
    effort.spend(LOOK_AT_WORKLOAD);
    check(cluster, id, terms.queue, &workload.namespace, &demand, effort)?;
    // A workload that can never run must keep no quota from those that can.
    if could_ever_fit(cluster, id, effort) {
        Ok(())
    } else {
        Err(because(Reason::NoNodeFits))
    }
}

/// The cost of looking at a workload as a whole, besides the sets of cards that are compared.
const LOOK_AT_WORKLOAD: usize = 512;

/// Returns the cost of comparing the sets of cards that are asked for with those that are reserved. A user can have any number of
/// sets reserved that nobody limits, or a few cards of each.
fn cost_of_sets(cluster: &Cluster, id: WorkloadId, queue: QueueId, demand: &Demand) -> usize {
    let configuration = cluster.configuration();
    if demand.cards.is_empty() || !configuration.has_action("enqueue") {
        return 0;
    }
    let hierarchy = configuration.capacity.enable_hierarchy;
    let levels = cluster.ancestry(queue).map(Some).chain(hierarchy.then_some(None));
    let costs = levels.map(|at| check_at(cluster, id, queue, at).cost(demand));
    costs.fold(0, usize::saturating_add)
}

/// Whether enough of a workload's pods could run if nothing else did, as far as its pods are there and that is known.
pub(crate) fn could_ever_run(cluster: &Cluster, id: WorkloadId) -> bool {
    could_ever_fit(cluster, id, &Effort::of_message_of_gang())
}

/// Lets a group into its queue if it stands in line there, and refuses its pods while it can't be let in. Once the first of its
/// pods is let in, they may be looked at one by one. Before that, the group is judged as a whole: by what it asks for itself
/// where it says so, and otherwise by its pods ([`check_pods_together`]). While the group stands aside, nothing is kept for it,
/// and it is judged as if in line: otherwise it would be told something else each time that it comes or goes.
pub(super) fn enqueue_if_in_line(cluster: &mut Cluster, id: WorkloadId, effort: &Effort) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let Some(terms) = workload.terms.as_ref().filter(|_| !workload.is_started()) else {
        return Ok(());
    };
    let queue = terms.queue;
    if cluster.queue(queue).in_line().contains(&id) {
        return enqueue(cluster, id, effort).map_err(|()| {
            let refused = cluster.workload(id).refused;
            refused.map_or_else(
                || cluster.refusal(queue, Some(id), Reason::QueueNotFound),
                |(_, refused)| refused,
            )
        });
    }
    if workload.aside_until().is_some() {
        return judge(cluster, id, effort);
    }
    check_unreserved(cluster, id, terms, effort)
}

/// Whether a workload waits to be let into its queue by what it asks for itself.
pub(crate) fn is_in_line(cluster: &Cluster, id: WorkloadId) -> bool {
    let terms = cluster.workload(id).terms.as_ref();
    terms.is_some_and(|terms| cluster.queue(terms.queue).in_line().contains(&id))
}

/// Checks what a group asks for where nothing is reserved for it, as beside Volcano.
fn check_unreserved(cluster: &Cluster, id: WorkloadId, terms: &WorkloadTerms, effort: &Effort) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    if terms.demand.cards.is_empty() || workload.reserved().is_some() {
        return Ok(());
    }
    check(
        cluster,
        id,
        terms.queue,
        &workload.namespace,
        &cluster.metered(workload, &terms.demand),
        effort,
    )
}

/// Whether its queue would take a group as a whole, and these pods of it, as things stand.
pub(super) fn would_take(cluster: &Cluster, id: WorkloadId, pods: &[PodId], effort: &Effort) -> bool {
    check_as_a_whole(cluster, id, effort).is_ok() && check_pods_together(cluster, id, pods, effort).is_ok()
}

/// Checks whether [`enqueue_if_in_line`] would refuse a group's pods because of the group itself. Changes nothing.
pub(super) fn check_as_a_whole(cluster: &Cluster, id: WorkloadId, effort: &Effort) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let Some(terms) = workload.terms.as_ref().filter(|_| !workload.is_started()) else {
        return Ok(());
    };
    if workload.aside_until().is_some() || cluster.queue(terms.queue).in_line().contains(&id) {
        judge(cluster, id, effort)
    } else {
        check_unreserved(cluster, id, terms, effort)
    }
}

/// Checks whether the queues of these pods of a group can take them as a whole, where the group is judged by its pods.
pub(super) fn check_pods_together(
    cluster: &Cluster,
    id: WorkloadId,
    pods: &[PodId],
    effort: &Effort,
) -> Result<(), Refused> {
    let workload = cluster.workload(id);
    let asks_for_cards = |terms: &WorkloadTerms| !terms.demand.cards.is_empty();
    if workload.is_started() || workload.terms.as_ref().is_none_or(asks_for_cards) {
        return Ok(());
    }
    for (queue, demand) in asked_by_pods(cluster, pods) {
        check(cluster, id, queue, &workload.namespace, &demand, effort)?;
    }
    Ok(())
}

/// Returns what these pods ask for together, by queue.
pub(crate) fn asked_by_pods(cluster: &Cluster, pods: &[PodId]) -> Vec<(QueueId, Demand)> {
    let mut by_queue = BTreeMap::<QueueId, Vec<PodId>>::new();
    for pod in pods {
        if let Some(queue) = cluster.pod(*pod).and_then(|pod| pod.queue) {
            by_queue.entry(queue).or_default().push(*pod);
        }
    }
    let by_queue = by_queue.into_iter();
    by_queue.map(|(queue, pods)| (queue, cluster.demand_of(pods))).collect()
}

/// Checks whether a queue takes the workload at all, and whether it and every level above it have room for a demand besides what
/// is reserved for others.
fn check(
    cluster: &Cluster,
    id: WorkloadId,
    queue: QueueId,
    namespace: &str,
    demand: &Demand,
    effort: &Effort,
) -> Result<(), Refused> {
    let because = |reason| cluster.refusal(queue, Some(id), reason);
    check_queue_takes(cluster, queue, namespace).map_err(because)?;
    effort.spend(cost_of_sets(cluster, id, queue, demand));
    match lack(cluster, id, queue, demand) {
        None => Ok(()),
        Some(lack) => Err(because(lack.reason).with_levels(cluster, queue, lack.levels)),
    }
}

/// Where a workload finds no room as a whole, and for what.
pub(crate) struct Lack {
    /// What there is no room for.
    pub(super) reason: Reason,
    /// Its queue or one above it; none where the cluster has no room.
    pub(crate) at: Option<QueueId>,
    /// How many levels, from the queue upwards, the refusal depends on.
    levels: usize,
}

/// Returns the first level, from a queue upwards, that has no room for a demand. Without a hierarchy, the document asks the queue
/// alone.
///
/// What a workload asks for within what its queue deserves, others give back once its pods wait. So a full parent or cluster does
/// not keep it out; otherwise nothing would ever wait to be served.
pub(crate) fn lack(cluster: &Cluster, id: WorkloadId, queue: QueueId, demand: &Demand) -> Option<Lack> {
    let configuration = cluster.configuration();
    // Without the action `enqueue`, no queue is asked about a group as a whole.
    if !configuration.has_action("enqueue") {
        return None;
    }
    let hierarchy = configuration.capacity.enable_hierarchy;
    let levels = cluster.ancestry(queue).map(Some).chain(hierarchy.then_some(None));
    let (place, at, reason) = levels.enumerate().find_map(|(place, at)| {
        let checked = check_at(cluster, id, queue, at).check(demand);
        checked.err().map(|reason| (place, at, reason))
    })?;
    if place > 0 && is_owed_by_others(cluster, id, queue, demand) {
        return None;
    }
    let is_limited_above = |at| {
        demand
            .dimensions()
            .any(|dimension| cluster.is_limited_above(at, dimension))
    };
    Some(Lack {
        reason,
        at,
        levels: if at.is_some_and(is_limited_above) {
            ALL_LEVELS
        } else {
            place + 1
        },
    })
}

/// Whether a workload still finds too little of what this reason is about: in its queue, in any queue above it, or in the
/// cluster.
pub(crate) fn lacks_still(cluster: &Cluster, id: WorkloadId, queue: QueueId, demand: &Demand, reason: Reason) -> bool {
    let mut levels = cluster.ancestry(queue).map(Some).chain([None]);
    levels.any(|at| {
        let check = check_at(cluster, id, queue, at);
        let of_resources = check
            .resources_in_excess(demand)
            .any(|(dimension, _)| dimension.shortage() == reason);
        of_resources || reason == Reason::InsufficientScalarQuota && check.first_excess(demand).is_some()
    })
}

/// Whether others are to give back what a workload asks for. That is so if its queue says what it deserves or is guaranteed and
/// stays within that with the workload, and no level above deserves less than that by itself. Whether there is enough to give
/// back shows once its pods wait.
fn is_owed_by_others(cluster: &Cluster, id: WorkloadId, queue: QueueId, demand: &Demand) -> bool {
    let says = |dimension| cluster.floor(queue, dimension).is_some();
    let keeps = |dimension| {
        let above = cluster.ancestry(queue).skip(1);
        let above = above.filter_map(|level| cluster.deserved_by_spec(level, dimension));
        let keeps = cluster.floor(queue, dimension).into_iter().chain(above).min();
        keeps.filter(|_| cluster.is_compared(queue, dimension))
    };
    let check = check_against(cluster, id, queue, Some(queue), keeps);
    cluster.configuration().reclaims() && demand.dimensions().any(says) && check.check(demand).is_ok()
}

/// Returns what a workload is checked against at a level from its queue upwards; without `at`, in the cluster.
pub(crate) fn check_at(
    cluster: &Cluster,
    id: WorkloadId,
    queue: QueueId,
    at: Option<QueueId>,
) -> JobCheck<'_, impl Fn(Dimension) -> Option<i128> + '_> {
    check_against(cluster, id, queue, at, limits(cluster, queue, at, Supply::Now))
}

/// Whether a level could take what a workload asks for as a whole, if others held nothing there and all nodes took pods.
pub(crate) fn could_ever_take(
    cluster: &Cluster,
    id: WorkloadId,
    (queue, demand): (QueueId, &Demand),
    at: Option<QueueId>,
) -> bool {
    let check = JobCheck {
        loads: Vec::new(),
        own: Vec::new(),
        ..check_against(cluster, id, queue, at, limits(cluster, queue, at, Supply::Ever))
    };
    check.check(demand).is_ok()
}

/// Returns the most that a level from a queue upwards may have; without `at`, the most that the cluster may have.
fn limits(
    cluster: &Cluster,
    queue: QueueId,
    at: Option<QueueId>,
    supply: Supply,
) -> impl Fn(Dimension) -> Option<i128> + '_ {
    move |dimension| match at {
        Some(level) => cluster.limit_as_a_whole(level, dimension, supply),
        None => cluster.cluster_limit_for(queue, dimension, supply),
    }
}

/// Returns the same check against other limits.
fn check_against<L: Fn(Dimension) -> Option<i128>>(
    cluster: &Cluster,
    id: WorkloadId,
    queue: QueueId,
    at: Option<QueueId>,
    limit: L,
) -> JobCheck<'_, L> {
    let configuration = cluster.configuration();
    let level = at.map(|at| cluster.queue(at));
    let below = level.map_or(&cluster.top().below, |level| &level.below);
    let own = level.map(|level| Load {
        allocated: &level.allocated,
        inqueue: &level.inqueue,
        elastic: &level.elastic,
    });
    let below = Load {
        allocated: &below.allocated,
        inqueue: &below.inqueue,
        elastic: &below.elastic,
    };
    let counts = |queue: QueueId| at.is_none_or(|at| cluster.ancestry(queue).any(|level| level == at));
    let for_own_pods = cluster.kept_for_pods_of(id).filter(|(queue, _)| counts(*queue));
    let is_empty = level.and_then(Queue::quota).is_some_and(|quota| quota.is_empty);
    JobCheck {
        arguments: &configuration.capacity_card,
        is_empty: is_empty && at == Some(queue) && configuration.queue_plugin == QueuePlugin::CapacityCard,
        limit,
        loads: own.into_iter().chain([below]).collect(),
        own: for_own_pods.map(|(_, demand)| demand).collect(),
    }
}
