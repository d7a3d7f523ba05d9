//! What workloads are told: how far they have come, and why not further.

use std::sync::Arc;

use jiff::Timestamp;

use super::notices::{STEPS_AT_ONCE, cost_of_workload};
use super::turns::moved_workloads;
use super::{Subject, explain, has_been_patient};
use crate::cluster::Cluster;
use crate::cluster::pod::Stage;
use crate::cluster::workload::{Phase, Said};
use crate::ids::WorkloadId;
use crate::reason::{Outlook, Reason};
use crate::refs::{WorkloadKind, WorkloadRef};
use crate::steps::Steps;

/// What there is to say about a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The workload whose phase, conditions and events these are.
    pub workload: WorkloadRef,
    /// The queue in which the workload asks for a place.
    pub queue: Arc<str>,
    /// The phase that the workload is to show; none for a Job, and for a group whose phase another component sets.
    pub phase: Option<Phase>,
    /// Why the workload has not come further, in one word, and with the numbers of this moment.
    pub refused: Option<(Reason, String)>,
    /// Whether waiting can help, where the workload is refused.
    pub outlook: Option<Outlook>,
    /// Whether the workload has not been told that reason before.
    pub news: bool,
}

/// Returns what is new about workloads, at most `limit` of them, and remembers it as told. As with pods, workloads that have waited for less
/// than a moment are passed over.
pub fn progress(cluster: &mut Cluster, now: Timestamp, limit: usize) -> Vec<Progress> {
    let mut told = Vec::new();
    let mut later = cluster.take_moved_workloads();
    let mut looked = moved_workloads(cluster, &mut later).into_iter();
    let steps = Steps::new(STEPS_AT_ONCE);
    while told.len() < limit
        && !steps.are_spent()
        && let Some(id) = looked.next()
    {
        let workload = cluster.workload(id);
        let Some(terms) = &workload.terms else { continue };
        let refused = workload.refused.map(|(_, refused)| refused.reason);
        if refused.is_some() && !has_been_patient(terms.created, now) {
            cluster.put_off([id]);
            continue;
        }
        let phase = phase(cluster, id);
        let news = refused.is_some() && refused != workload.told;
        let shown = phase.map(|phase| (phase, refused));
        if !news && (shown.is_none() || shown == workload.shown || (refused.is_none() && phase_is_there(cluster, id))) {
            continue;
        }
        steps.spend(cost_of_workload(cluster, id));
        told.extend(progress_of(cluster, id, news));
        cluster.workload_is_told(id, shown, refused);
        cluster.note_told_workload(id);
    }
    cluster.put_off(looked);
    cluster.put_off(later);
    told
}

/// Returns what there is to say about a workload at this moment; none where its object does not exist.
pub(super) fn progress_of(cluster: &Cluster, id: WorkloadId, news: bool) -> Option<Progress> {
    let workload = cluster.workload(id);
    let terms = workload.terms.as_ref()?;
    let why = explain(cluster, Subject::Workload(id));
    Some(Progress {
        workload: workload.to_ref(terms),
        queue: Arc::clone(&cluster.queue(terms.queue).name),
        phase: phase(cluster, id),
        refused: why.as_ref().map(|why| (why.reason, why.message())),
        outlook: why.map(|why| why.outlook),
        news,
    })
}

/// Whether a group that Cardgate has not shown anything yet already shows its phase.
fn phase_is_there(cluster: &Cluster, id: WorkloadId) -> bool {
    let workload = cluster.workload(id);
    let shows = workload.terms.as_ref().and_then(|terms| terms.phase.as_deref());
    workload.shown.is_none() && shows == phase(cluster, id).map(Phase::as_str)
}

/// Returns the phase that a group is to show: Inqueue from when it is let into its queue, Running from when its first `minMember` pods are
/// on their nodes.
fn phase(cluster: &Cluster, id: WorkloadId) -> Option<Phase> {
    let workload = cluster.workload(id);
    let terms = workload.terms.as_ref()?;
    if workload.kind == WorkloadKind::Job || !cluster.configuration().cardgate.enqueue || terms.said == Said::Over {
        return None;
    }
    let is_bound = |id| cluster.pod(id).is_some_and(|pod| pod.stage == Stage::Bound);
    let bound = workload
        .members()
        .filter(|member| is_bound(*member))
        .take(terms.min_member);
    let there = bound.count() + workload.succeeded();
    let is_whole = there >= terms.min_member && workload.missing() == 0;
    Some(if terms.said == Said::Started || is_whole {
        Phase::Running
    } else if workload.is_enqueued() || workload.is_started() {
        Phase::Inqueue
    } else {
        Phase::Pending
    })
}
