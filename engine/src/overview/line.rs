//! What waits in a queue, next first. A workload counts once, however many pods it has.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use crds::card_usage::WaitingWorkload;

use super::to_i64;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::pod::Pod;
use crate::cluster::queue::Queue;
use crate::cluster::wholes::{Parts, Whole};
use crate::explain::{Subject, explain_in_brief, reason};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::inqueue::Demand;
use crate::names::CardId;
use crate::reason::{About, Reason};
use crate::refs::WorkloadKind;

/// The most waiting entries that a queue's usage shows.
const FIRST_WAITING: usize = 5;

/// One entry that waits in a queue.
enum Waiting<'c> {
    /// Waiting pods: the first of them, and the workload that they are part of; none for a pod that stands for itself.
    Pods(PodId, Option<&'c Parts>),
    /// A workload of which no pod waits yet.
    Whole(WorkloadId),
}

/// Returns how many workloads wait in a queue. A pod that stands for itself counts as one, and so does a workload of which all pods stand
/// aside.
pub(super) fn waiting_workloads(cluster: &Cluster, queue: &Queue) -> usize {
    let wholes = queue.waiting.wholes();
    let aside = queue.waiting.aside().filter_map(|(id, _)| cluster.pod(id));
    let (of_wholes, alone): (Vec<_>, Vec<_>) = aside.map(Pod::whole).partition(Option::is_some);
    let of_wholes: HashSet<_> = of_wholes.into_iter().flatten().collect();
    let aside = of_wholes.iter().filter(|whole| !wholes.has(whole)).count() + alone.len();
    wholes.count() + wholes_without_pods(cluster, queue).count() + aside
}

/// Returns workloads that are to be let in as a whole and of which no pod waits.
fn wholes_without_pods<'c>(cluster: &'c Cluster, queue: &'c Queue) -> impl Iterator<Item = WorkloadId> {
    let wholes = cluster.wholes_in_line(queue);
    // A suspended Job whose pods are still there is shown by these pods.
    let is_shown = |id: WorkloadId| {
        let controller = cluster.workload(id).controller();
        queue.waiting.wholes().has(&Whole::Controller(controller))
    };
    wholes
        .filter(move |(id, whole)| whole.kind != WorkloadKind::Job || !is_shown(*id))
        .map(|(id, _)| id)
}

/// Returns the first entries that wait in a queue, and what they wait for.
pub(super) fn first_waiting(cluster: &Cluster, id: QueueId) -> Vec<WaitingWorkload> {
    let queue = cluster.queue(id);
    let pods = queue.waiting.wholes().in_order().take(FIRST_WAITING);
    let pods = pods.map(|(turn, first, parts)| (turn, Waiting::Pods(first, parts)));
    let wholes = wholes_without_pods(cluster, queue).map(|id| (cluster.workload(id).turn(), Waiting::Whole(id)));
    let mut first: Vec<_> = pods.chain(wholes).collect();
    first.sort_by_key(|(turn, _)| *turn);
    first.truncate(FIRST_WAITING);
    let described = first.iter().filter_map(|(_, waiting)| describe(cluster, waiting));
    (1..)
        .zip(described)
        .map(|(position, described)| WaitingWorkload { position, ..described })
        .collect()
}

fn describe(cluster: &Cluster, waiting: &Waiting) -> Option<WaitingWorkload> {
    let of_workload = |id: WorkloadId| {
        let workload = cluster.workload(id);
        let kind = workload.kind.as_str().to_owned();
        (kind, format!("{}/{}", workload.namespace, workload.name))
    };
    let ((kind, name), pods, cards, subject) = match waiting {
        Waiting::Whole(id) => {
            let demand = cluster.workload(*id).terms.as_ref().map(|terms| &terms.demand);
            let cards = demand.map(|demand| first_cards(cluster, demand).collect());
            (of_workload(*id), 0, cards.unwrap_or_default(), Subject::Workload(*id))
        }
        Waiting::Pods(first, parts) => {
            let pod = cluster.pod(*first)?;
            let name = match parts.map(|parts| &parts.whole) {
                Some(Whole::Group(id)) => of_workload(*id),
                Some(Whole::Controller(controller)) => {
                    let (kind, name) = controller.object()?;
                    (kind.to_owned(), format!("{}/{name}", pod.namespace))
                }
                None => ("Pod".to_owned(), format!("{}/{}", pod.namespace, pod.name)),
            };
            let cards = if let Some(parts) = parts {
                cards_among(parts.requested.iter()).collect()
            } else {
                let asked = pod.waits.as_ref()?.asked.amounts.iter();
                cards_among(asked.map(|(dimension, amount)| (dimension, amount.into()))).collect()
            };
            let count = parts.map_or(1, Parts::count);
            (name, count, cards, speaker(cluster, *first, *parts))
        }
    };
    let why = explain_in_brief(cluster, subject);
    Some(WaitingWorkload {
        position: 0,
        kind,
        name,
        pods: i64::try_from(pods).unwrap_or(i64::MAX),
        cards: known(cluster, cards),
        reason: why
            .as_ref()
            .map_or_else(String::new, |(reason, _)| reason.as_str().to_owned()),
        missing: why.map_or_else(String::new, |(_, said)| said),
    })
}

/// Returns the subject that says what pods wait for: their group, if it lacks quota for the pods that it needs together; else the first pod.
fn speaker(cluster: &Cluster, first: PodId, parts: Option<&Parts>) -> Subject {
    let group = match parts.map(|parts| &parts.whole) {
        Some(Whole::Group(id)) => Some(*id).filter(|id| cluster.workload(*id).missing() > 0),
        Some(Whole::Controller(_)) | None => None,
    };
    let group = group.map(Subject::Workload).filter(|group| {
        let about = reason(cluster, *group).map(Reason::about);
        matches!(about, Some(About::Quota(_) | About::Workload))
    });
    group.unwrap_or(Subject::Pod(first))
}

/// Returns how many entries are gone through to show the usage of a queue: the workloads in its line, and the pods that stand aside; and
/// for a queue that has parts, all queues and the workloads in the lines of those below.
pub fn entries_of_usage(cluster: &Cluster, id: QueueId) -> usize {
    let queue = cluster.queue(id);
    let others: usize = if cluster.is_inner(id) {
        let in_lines = lines_below(cluster, id).map(|(_, below)| below.in_line().len());
        cluster.queues().count() + in_lines.sum::<usize>()
    } else {
        queue.in_line().len()
    };
    others + queue.waiting.aside().count()
}

/// Returns the queues at and below a queue in which workloads are in line.
fn lines_below(cluster: &Cluster, id: QueueId) -> impl Iterator<Item = (QueueId, &Queue)> {
    let with_lines = cluster.queues().filter(|(_, queue)| !queue.in_line().is_empty());
    with_lines.filter(move |(queue, _)| *queue == id || cluster.ancestry(*queue).any(|above| above == id))
}

/// Returns what the workloads ask for that a queue, and the queues below it, are to let in as a whole.
pub(super) fn asked_as_wholes<'a>(
    cluster: &Cluster,
    id: QueueId,
    own: &'a BTreeMap<CardId, i128>,
) -> Cow<'a, BTreeMap<CardId, i128>> {
    if !cluster.is_inner(id) {
        return Cow::Borrowed(own);
    }
    Cow::Owned(asked_in(cluster, lines_below(cluster, id).map(|(queue, _)| queue)))
}

/// Returns what the workloads ask for that these queues are to let in as a whole.
pub(super) fn asked_in(cluster: &Cluster, queues: impl IntoIterator<Item = QueueId>) -> BTreeMap<CardId, i128> {
    let queues = queues.into_iter();
    let wholes = queues.flat_map(|queue| cluster.wholes_in_line(cluster.queue(queue)));
    let claims = wholes.filter_map(|(_, whole)| whole.terms.as_ref());
    let mut asked = BTreeMap::new();
    for (card, count) in claims.flat_map(|terms| first_cards(cluster, &terms.demand)) {
        *asked.entry(card).or_default() += count;
    }
    asked
}

/// Returns the cards that are asked for as a whole; of alternatives, the first by name.
fn first_cards<'c>(cluster: &'c Cluster, demand: &'c Demand) -> impl Iterator<Item = (CardId, i128)> {
    demand.cards.iter().filter_map(|(set, count)| {
        let first = set.iter().min_by_key(|card| cluster.names().card_name(**card))?;
        Some((*first, i128::from(*count)))
    })
}

/// Returns the cards among what is asked for.
fn cards_among(asked: impl Iterator<Item = (Dimension, i128)>) -> impl Iterator<Item = (CardId, i128)> {
    asked.filter_map(|(dimension, amount)| Some((dimension.card()?, amount)))
}

/// Returns only the cards that the cluster has, by name: a tenant can invent any number of others.
fn known(cluster: &Cluster, cards: Vec<(CardId, i128)>) -> BTreeMap<String, i64> {
    let mut known = BTreeMap::<String, i64>::new();
    for (card, count) in cards {
        if cluster.resource_of(card).is_some() {
            *known.entry(cluster.names().card_name(card).to_owned()).or_default() += to_i64(count);
        }
    }
    known
}
