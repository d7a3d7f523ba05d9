//! Pods on their way out: those that others may wait for, since what they hold will be free.

use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::pod::Pod;
use crate::amounts::Dimension;
use crate::ids::{NodeId, PodId};
use crate::metering::is_of_every_pod;
use crate::names::ResourceId;

/// How long an eviction may show no sign of taking effect before the pod counts as staying.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);
/// What every pod takes of a node.
const SLOT: Dimension = Dimension::Resource(ResourceId::PODS);

impl Cluster {
    /// Whether a pod is on its way out, so that what it holds will be free.
    pub(crate) fn is_leaving(&self, pod: &Pod, now: Timestamp) -> bool {
        let evicted = pod
            .eviction
            .since
            .is_some_and(|since| (SignedDuration::ZERO..EVICTION_TIMEOUT).contains(&now.duration_since(since)));
        evicted || self.quota_end(pod).is_some_and(|end| end > now)
    }

    /// Returns the pods that are on their way out and hold something that could help others, where `waiting` pods wait. Pods
    /// that hold nothing are left out: a user may keep thousands of them half deleted, by a finalizer, and each look would
    /// have to count each of them.
    pub(crate) fn leaving(&self, waiting: usize, now: Timestamp) -> Vec<PodId> {
        let limits_slots = self.pods.leaving().next().is_some() && self.limits_slots();
        let holds = |pod: &Pod| {
            let has_slot_alone = || !limits_slots && self.has_slot_alone(pod, waiting);
            (pod.charge.is_some() || pod.room.is_some()) && !has_slot_alone()
        };
        let is_one = |(_, pod): &(PodId, &Pod)| self.is_leaving(pod, now) && holds(pod);
        let leaving: Vec<_> = self.pods.leaving().filter(is_one).map(|(id, _)| id).collect();
        debug_assert!(
            leaving
                .iter()
                .copied()
                .eq(self.pods_by_id().filter(is_one).map(|(id, _)| id)),
            "a pod is on its way out that nobody has marked"
        );
        leaving
    }

    /// Whether a pod that is being deleted holds nothing but its slot on a node, and the node has free slots for all `waiting`
    /// pods anyway. Then none of these gets in because the pod goes.
    fn has_slot_alone(&self, pod: &Pod, waiting: usize) -> bool {
        let is_slot = |(dimension, amount): (Dimension, i64)| amount == 0 || is_of_every_pod(dimension);
        let mut charged = pod.charge.iter().flat_map(|charge| charge.amounts.iter());
        let claims = pod.task.claimed.is_some() || pod.claims_other_devices;
        let has_slots = |node: NodeId| {
            let node = self.node(node);
            let slots = node.offer().map_or(0, |offer| offer.amount(SLOT));
            i128::from(slots) - node.used.get(SLOT) >= i128::try_from(waiting).unwrap_or(i128::MAX)
        };
        pod.eviction.since.is_none()
            && !claims
            && pod.request().iter().all(is_slot)
            && charged.all(is_slot)
            && pod.room.is_none_or(has_slots)
    }

    /// Whether anything but nodes limits how many pods there are.
    fn limits_slots(&self) -> bool {
        let mut quotas = self.queues().filter_map(|(_, queue)| queue.quota());
        self.gpu_nodes.resources().contains(&ResourceId::PODS) || quotas.any(|quota| quota.says_anything_of(SLOT))
    }
}
