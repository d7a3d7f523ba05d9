//! Which queues and pods hold what another pod or workload lacks.

use std::collections::BTreeMap;

use crds::card_review::{Count, Holder, KeptFor};
use jiff::SignedDuration;

use super::short::Short;
use crate::amounts::Dimension;
use crate::cluster::Cluster;
use crate::cluster::pod::Pod;
use crate::decide::verdict::is_for;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::refs::WorkloadKind;

/// The most names of pods that an answer lists in one place.
pub(super) const MOST_NAMES: usize = 32;
/// The most queues that are listed.
const MOST_QUEUES: usize = 32;
/// The most pods that are looked at. Beyond that, some queues are missing from the answer.
const MOST_LOOKS: usize = 50_000;
/// The most pods among which the pod to be replaced is searched for. A queue with more pods is seldom full of one workload's pods.
const MOST_REPLICAS: usize = 256;

/// Counts one more pod. Its name is listed only where the asking namespace may read it.
pub(super) fn count(count: &mut Count, pod: &Pod, namespace: &str) {
    if *pod.namespace == *namespace {
        count.own_count += 1;
        if count.own.len() < MOST_NAMES {
            count.own.push(pod.name.to_string());
        }
    } else {
        count.others += 1;
    }
}

/// Returns which queues hold a dimension below a queue, or in the whole cluster: first queues with pods of this namespace, then the queues
/// that hold most, and last, as one entry, all pods that are in no queue or in a queue that is not for this namespace. Of such a queue only
/// the namespace's own pods are told.
pub(super) fn holders(cluster: &Cluster, at: Option<QueueId>, dimension: Dimension, namespace: &str) -> Vec<Holder> {
    let charged = |pod: &Pod| pod.charge.as_ref().map_or(0, |charge| charge.amounts.get(dimension));
    let pods = below(cluster, at).map(|(id, pod)| (Some(id), pod));
    by_queue(cluster, pods, charged, dimension, namespace)
}

/// Returns what is kept of a dimension, below a queue or in the whole cluster, for workloads other than this one whose pods are not let in
/// yet. What is kept for the Jobs of a group, or for the group of a Job, is not kept from that group or Job.
pub(super) fn kept(
    cluster: &Cluster,
    of: Option<WorkloadId>,
    at: Option<QueueId>,
    dimension: Dimension,
    namespace: &str,
) -> Option<KeptFor> {
    let kin: Vec<_> = of.iter().flat_map(|of| cluster.kin_of(*of)).collect();
    // Queues that keep other things don't count towards the limit.
    let keeping = cluster.queues().filter(|(_, queue)| queue.inqueue.is_for(dimension));
    let keeping = keeping.filter(|(id, _)| is_below(cluster, *id, at));
    let kept = keeping.flat_map(|(id, _)| cluster.keeps_for(id)).take(MOST_LOOKS);
    let (mut sum, mut longest, mut workloads) = (0, SignedDuration::ZERO, Count::default());
    for (id, demand, left) in kept {
        let (workload, amount) = (cluster.workload(id), demand.most_of(dimension));
        if amount > 0 && !kin.contains(&id) {
            sum += amount;
            longest = longest.max(left);
            if *workload.namespace == *namespace {
                workloads.own_count += 1;
                if workloads.own.len() < MOST_NAMES {
                    workloads
                        .own
                        .push(format!("{} {}", workload.kind.as_str(), workload.name));
                }
            } else {
                workloads.others += 1;
            }
        }
    }
    workloads.own.sort_unstable();
    (sum > 0).then(|| KeptFor {
        amount: dimension.format(sum),
        workloads,
        seconds: longest.as_secs(),
    })
}

/// Whether a queue is this one or below it. Every queue is below the cluster.
fn is_below(cluster: &Cluster, id: QueueId, at: Option<QueueId>) -> bool {
    at.is_none_or(|at| cluster.ancestry(id).any(|above| above == at))
}

/// Returns the pods that hold anything below a queue, or in the whole cluster, each with its queue; at most as many as are looked at.
pub(super) fn below(cluster: &Cluster, at: Option<QueueId>) -> impl Iterator<Item = (QueueId, PodId)> + '_ {
    let queues = cluster
        .queues()
        .filter(move |(id, queue)| !queue.holders.is_empty() && !queue.is_nameless() && is_below(cluster, *id, at));
    let pods = queues.flat_map(|(id, queue)| queue.holders.iter().map(move |pod| (id, pod)));
    pods.take(MOST_LOOKS)
}

/// Returns which queues hold a resource of a node.
pub(super) fn holders_on(cluster: &Cluster, node: NodeId, dimension: Dimension, namespace: &str) -> Vec<Holder> {
    let pods = cluster.node(node).pods.iter();
    let pods = pods.filter_map(|pod| Some((cluster.pod(*pod)?.queue, *pod)));
    // What the pod takes on the node, including the cards that it claims.
    let held = |pod: &Pod| pod.request().get(dimension);
    by_queue(cluster, pods, held, dimension, namespace)
}

fn by_queue(
    cluster: &Cluster,
    pods: impl Iterator<Item = (Option<QueueId>, PodId)>,
    held: impl Fn(&Pod) -> i64,
    dimension: Dimension,
    namespace: &str,
) -> Vec<Holder> {
    let mut are_told: BTreeMap<QueueId, bool> = BTreeMap::new();
    let mut found: BTreeMap<Option<QueueId>, (i128, Count)> = BTreeMap::new();
    for (id, pod) in pods {
        let Some(pod) = cluster.pod(pod) else { continue };
        let held = held(pod);
        if held > 0 {
            let queue = id.filter(|id| !cluster.queue(*id).is_nameless());
            let queue = queue.filter(|id| {
                let is_told = || is_for(cluster, *id, namespace);
                *pod.namespace == *namespace || *are_told.entry(*id).or_insert_with(is_told)
            });
            let (amount, pods) = found.entry(queue).or_default();
            *amount += i128::from(held);
            count(pods, pod, namespace);
        }
    }
    let of_others = found.remove(&None);
    let mut told: Vec<_> = found.into_iter().collect();
    told.sort_by_key(|(_, (amount, pods))| (pods.own_count == 0, -amount));
    told.truncate(MOST_QUEUES);
    let all = told.into_iter().chain(of_others.map(|held| (None, held)));
    let holders = all.map(|(queue, (amount, mut pods))| {
        pods.own.sort_unstable();
        Holder {
            queue: queue.map_or_else(String::new, |id| cluster.queue(id).name.to_string()),
            amount: dimension.format(amount),
            pods,
        }
    });
    holders.collect()
}

/// Returns a pod of the same Deployment that holds quota of the same queue and that this pod is to replace. In an update that makes new pods
/// before it ends old ones, both wait for each other. Returns none where an older pod of the Deployment waits too: it would come before this
/// one, so the update alone does not explain the waiting.
pub(super) fn old_replica(cluster: &Cluster, id: PodId) -> Option<&Pod> {
    let pod = cluster.pod(id)?;
    let family = family(pod)?;
    let queue = cluster.queue(pod.queue?);
    // The pods of one `ReplicaSet`, Job or `StatefulSet` are all meant to run at once.
    let is_old = |other: &&Pod| {
        other.controller != pod.controller && other.namespace == pod.namespace && family_is(other, family)
    };
    let waiting = queue.waiting.peers().flat_map(|(_, peers)| &peers.pods);
    let mut waiting = waiting.take(MOST_REPLICAS).filter_map(|place| cluster.pod(place.pod));
    if waiting.any(|other| is_old(&other) && other.created <= pod.created) {
        return None;
    }
    let holders = queue.holders.iter().take(MOST_REPLICAS);
    holders.filter_map(|holder| cluster.pod(holder)).find(is_old)
}

/// Whether a waiting pod would get in if another pod gave back what it holds.
pub(super) fn would_make_room(short: &[Short], other: &Pod) -> bool {
    let Some(charge) = &other.charge else { return false };
    short.iter().all(|short| {
        let given: i128 = short
            .of
            .iter()
            .map(|dimension| i128::from(charge.amounts.get(*dimension)))
            .sum();
        short
            .limit
            .is_none_or(|limit| short.in_use() - given + short.asked <= limit)
    })
}

fn family_is(pod: &Pod, wanted: &str) -> bool {
    family(pod) == Some(wanted)
}

/// The letters and digits that Kubernetes uses in hashes.
const OF_HASHES: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns the name of a pod's Deployment, taken from the name of its `ReplicaSet`: that name followed by the hash of the pod's template. A
/// `ReplicaSet` that a user makes by hand seldom has such a name.
fn family(pod: &Pod) -> Option<&str> {
    let (kind, name) = pod.controller.as_ref()?.object()?;
    let (deployment, hash) = name.rsplit_once('-')?;
    let is_hash = (6..=10).contains(&hash.len()) && hash.chars().all(|letter| OF_HASHES.contains(letter));
    (kind == "ReplicaSet" && is_hash).then_some(deployment)
}

/// Whether this controller of the pod's namespace made a pod: by the controller's kind and name, or for a Deployment by its `ReplicaSet`.
pub(super) fn is_of(pod: &Pod, kind: &str, name: &str) -> bool {
    if kind == "Deployment" {
        return family_is(pod, name);
    }
    // Compared without building a string: names may be a megabyte long, and many pods are looked at.
    pod.controller.as_ref().and_then(|controller| controller.object()) == Some((kind, name))
}

/// Whether this Job made a pod.
pub(super) fn is_of_job(pod: &Pod, name: &str) -> bool {
    is_of(pod, WorkloadKind::Job.as_str(), name)
}
