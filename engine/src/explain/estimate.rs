//! Estimates when something may be let in, from what is known of the pods that hold what it lacks: pods that have a time limit, that are
//! being deleted, or that are sent back where no node is found for them. Where that does not suffice, there is no estimate.
//!
//! An estimate tells only numbers, and looks at each holder once.

use std::collections::{BTreeMap, BTreeSet};

use crds::card_review::Estimate;
use jiff::Timestamp;

use super::explanation::{Explanation, Extent};
use super::found::What;
use super::holders::below;
use super::short::{Kept, Place, Short, Used};
use crate::cluster::Cluster;
use crate::cluster::pod::{Pod, Stage};
use crate::ids::{NodeId, PodId};
use crate::reason::{Outlook, Reason};

/// The most pods before the waiting one that are looked at.
pub(super) const MOST_BEFORE: usize = 10_000;

/// Why a pod gives back what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    Deadline,
    Deletion,
    Reservation,
}

impl Why {
    /// Returns the reason in words, for this number of pods.
    fn say(self, pods: usize) -> String {
        let (one, more) = match self {
            Self::Deadline => (
                "pod has run as long as its activeDeadlineSeconds say",
                "pods have run as long as their activeDeadlineSeconds say",
            ),
            Self::Deletion => (
                "pod that is being deleted is gone",
                "pods that are being deleted are gone",
            ),
            Self::Reservation => (
                "pod is sent back unless it finds a node (reservationTimeout)",
                "pods are sent back unless they find nodes (reservationTimeout)",
            ),
        };
        format!("{pods} {}", if pods == 1 { one } else { more })
    }
}

/// A time to wait for, and the pods that end by then.
#[derive(Debug, Default)]
struct Wait {
    until: Timestamp,
    by: BTreeSet<(Why, PodId)>,
}

impl Wait {
    /// Waits for both.
    fn and(mut self, other: Self) -> Self {
        self.until = self.until.max(other.until);
        self.by.extend(other.by);
        self
    }
}

/// Returns when everything that is in the way may be gone; none where that is not known. `before` are the pods of the queue that are let in
/// first.
pub(super) fn estimate(
    cluster: &Cluster,
    in_the_way: &[Explanation<'_>],
    before: &[PodId],
    now: Timestamp,
) -> Option<Estimate> {
    if in_the_way.is_empty() || before.len() > MOST_BEFORE {
        return None;
    }
    let all = in_the_way.iter().map(|why| until_gone(cluster, why, before, now));
    let wait = all.reduce(|one, other| Some(one?.and(other?)))??;
    let mut kinds = BTreeMap::<Why, usize>::new();
    for (why, _) in &wait.by {
        *kinds.entry(*why).or_default() += 1;
    }
    let kinds: Vec<_> = kinds.into_iter().map(|(why, pods)| why.say(pods)).collect();
    Some(Estimate {
        seconds: wait.until.duration_since(now).as_secs().max(0),
        basis: format!("by then {}; others may end sooner, or take it first", kinds.join(", ")),
    })
}

/// Returns when one reason is no longer in the way.
fn until_gone(cluster: &Cluster, why: &Explanation<'_>, before: &[PodId], now: Timestamp) -> Option<Wait> {
    if why.outlook == Outlook::Never || matches!(why.extent, Extent::Together(..)) {
        return None;
    }
    match &why.what {
        What::Quota(short) => {
            let of_all = |lacking: &dyn Fn(&Short) -> bool| {
                let mut lacking = short.iter().filter(|short| lacking(short));
                lacking.try_fold(Wait::default(), |all, short| {
                    Some(all.and(of_level(cluster, short, before, now)?))
                })
            };
            let anyway = of_all(&|short| short.ways == 0)?;
            let ways = short.iter().fold(0, |ways, short| ways | short.ways);
            if ways == 0 {
                return (!short.is_empty()).then_some(anyway);
            }
            // Of alternatives, the first one that becomes free will do, with all of its cards.
            let ways = (0..u64::BITS).map(|place| 1 << place).filter(|way| ways & way != 0);
            let ways = ways.filter_map(|way| of_all(&|short| short.ways & way != 0));
            Some(anyway.and(ways.min_by_key(|wait| wait.until)?))
        }
        // A pod before it may take any node.
        What::Nodes(_) if why.reason == Reason::NoNodeFits && before.is_empty() => {
            let mut by_node = BTreeMap::<NodeId, Vec<Short>>::new();
            for short in why.short() {
                if let Place::Node(node) = short.place {
                    by_node.entry(node).or_default().push(short);
                }
            }
            let by_node = by_node.into_iter();
            let waits = by_node.filter_map(|(node, short)| {
                let each = short.iter().map(|short| of_node(cluster, node, short, now));
                each.reduce(|one, other| Some(one?.and(other?)))?
            });
            waits.min_by_key(|wait| wait.until)
        }
        What::Said(_) | What::Nodes(_) => None,
    }
}

/// Returns when enough has been given back at a level, also for the pods that are let in before.
fn of_level(cluster: &Cluster, short: &Short, before: &[PodId], now: Timestamp) -> Option<Wait> {
    let (Place::Level(at), Some(limit), [dimension]) = (&short.place, short.limit, &*short.of) else {
        return None;
    };
    match &short.used {
        Used::ByPods { .. } if short.kept == Kept::ForNobody => {}
        // What is kept for other workloads, or counts as free, comes and goes with workloads.
        Used::ByWorkloads { sums, .. } if sums.inqueue == 0 && sums.elastic == 0 => {}
        Used::ByPods { .. } | Used::ByWorkloads { .. } => return None,
    }
    let asked_before = before.iter().filter_map(|id| cluster.pod(*id)?.waits.as_ref());
    let asked_before: i128 = asked_before
        .map(|waits| i128::from(waits.asked.amounts.get(*dimension)))
        .sum();
    let need = short.asked + short.in_use() + asked_before - limit;
    let charged = |pod: &Pod| pod.charge.as_ref().map_or(0, |charge| charge.amounts.get(*dimension));
    let holders = below(cluster, at.level).map(|(_, pod)| pod);
    until_given_back(cluster, holders, charged, need, now, |pod| cluster.quota_end(pod))
}

/// Returns when a node has enough room.
fn of_node(cluster: &Cluster, node: NodeId, short: &Short, now: Timestamp) -> Option<Wait> {
    let [dimension] = &*short.of else { return None };
    let need = short.asked + short.in_use() - short.limit?;
    let held = |pod: &Pod| pod.request().get(*dimension);
    let pods = cluster.node(node).pods.iter().copied();
    until_given_back(cluster, pods, held, need, now, |pod| pod.deleted)
}

/// Returns when these pods have given back `need`. `gone` returns when a pod that is being deleted gives back what it holds.
fn until_given_back(
    cluster: &Cluster,
    pods: impl Iterator<Item = PodId>,
    held: impl Fn(&Pod) -> i64,
    mut need: i128,
    now: Timestamp,
    gone: impl Fn(&Pod) -> Option<Timestamp>,
) -> Option<Wait> {
    let ends = pods.filter_map(|id| {
        let pod = cluster.pod(id)?;
        let amount = held(pod);
        let (until, why) = end(cluster, pod, &gone).filter(|_| amount > 0)?;
        // A time that has passed although the pod is still there says nothing.
        (until > now).then_some((until, why, id, amount))
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    let mut wait = Wait::default();
    for (until, why, id, amount) in ends {
        if need <= 0 {
            break;
        }
        need -= i128::from(amount);
        wait.until = until;
        wait.by.insert((why, id));
    }
    (need <= 0 && !wait.by.is_empty()).then_some(wait)
}

/// Returns when a pod gives back what it has, and why; none where that is not known.
fn end(cluster: &Cluster, pod: &Pod, gone: impl Fn(&Pod) -> Option<Timestamp>) -> Option<(Timestamp, Why)> {
    if pod.deleted.is_some() {
        // A deletion that never ends gives no time.
        let until = gone(pod).filter(|until| *until != Timestamp::MAX)?;
        return Some((until, Why::Deletion));
    }
    let of_job = pod.job.and_then(|job| cluster.workload(job).terms.as_ref());
    let of_job = of_job.filter(|job| pod.job_uid.as_deref() == Some(&*job.uid));
    let of_job = of_job.and_then(|job| job.ends);
    let deadline = pod.ends.into_iter().chain(of_job).map(|ends| (ends, Why::Deadline));
    // A pod without a controller is not sent back, since nothing would create it again: it keeps its place.
    let is_unplaced = matches!(pod.stage, Stage::Unbound { .. }) && !pod.is_placed();
    let is_sent_back = is_unplaced && pod.controller.is_some() && !cluster.is_let_in_by_nobody(pod);
    let reservation = cluster.deadline_of(pod).filter(|_| is_sent_back);
    let reservation = reservation.map(|until| (until, Why::Reservation));
    deadline.chain(reservation).min()
}
