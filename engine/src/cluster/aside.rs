//! What is set aside for pods that others are evicted for: it counts as taken for everybody else until they are let in or no
//! longer wait.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::Stage;
use super::waiting::Shape;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::metering::Charge;
use crate::names::ResourceId;

/// What is set aside for one waiting pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    uid: Arc<str>,
    /// What tells who may have it.
    pub(crate) shape: Arc<Shape>,
    /// Of its queue and those above.
    pub(super) charge: Charge,
    /// Of the node that it is expected on, by name: nodes may go meanwhile.
    pub(super) room: Option<(Arc<str>, Amounts)>,
}

/// The pods on their way out that each queue waits for.
pub(crate) type Awaited = BTreeMap<QueueId, Vec<PodId>>;

impl SetAside {
    /// The dimensions of it.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        let of_room = self.room.iter().flat_map(|(_, request)| request.iter());
        self.charge
            .amounts
            .iter()
            .chain(of_room)
            .map(|(dimension, _)| dimension)
    }
}

impl Cluster {
    /// What a pod that is assumed to be let in would have, to be set aside for it: what it is charged, and on its node what it
    /// requests, of these dimensions all that the node has.
    pub(crate) fn to_set_aside(&self, id: PodId, whole: impl Fn(Dimension) -> bool) -> Option<SetAside> {
        let pod = self.pod(id)?;
        let on_node = |node| {
            let node = self.node(node);
            let all = node.offer()?;
            let amount = |dimension, amount| {
                if whole(dimension) {
                    all.amount(dimension)
                } else {
                    amount
                }
            };
            let request = pod.request().iter();
            let request = request.map(|(dimension, asked)| (dimension, amount(dimension, asked)));
            Some((Arc::clone(&node.name), request.collect()))
        };
        Some(SetAside {
            uid: Arc::clone(&pod.uid),
            shape: Arc::clone(&pod.waits.as_ref()?.shape),
            charge: pod.charge.clone()?,
            room: pod.room.and_then(on_node),
        })
    }

    /// Of the CPU and the memory that are set aside for pods of a queue, what nobody need leave to them: their nodes and all levels have enough for
    /// these as things are. Not where a level says what it deserves of it, or a GPU node how much of it pods without GPU may have: there others
    /// would have used that up by the time that the rest is free, and the eviction would be in vain.
    pub(crate) fn plenty_for(&self, queue: QueueId, asides: &[SetAside]) -> Vec<Dimension> {
        let dimensions = [ResourceId::CPU, ResourceId::MEMORY].map(Dimension::Resource);
        let (mut charged, mut on_nodes) = (Totals::default(), BTreeMap::<&str, Totals>::new());
        for aside in asides {
            charged.add_all(&aside.charge.amounts);
            if let Some((node, request)) = &aside.room {
                on_nodes.entry(node).or_default().add_all(request);
            }
        }
        let is_under_cross_quota = asides.iter().any(|aside| aside.shape.cross_quota.is_some());
        let is_enough = |dimension: &Dimension| {
            let asked = i64::try_from(charged.get(*dimension)).unwrap_or(i64::MAX);
            let is_deserved = |level| self.deserved_by_spec(level, *dimension).is_some();
            let lacks = |(name, asked): (&&str, &Totals)| {
                let node = self.nodes.id(name).map(|id| self.node(id));
                let offer = node.and_then(|node| Some((node, node.offer()?)));
                offer.is_none_or(|(node, offer)| {
                    node.used.get(*dimension) + asked.get(*dimension) > i128::from(offer.amount(*dimension))
                })
            };
            !self.ancestry(queue).any(is_deserved)
                && self.room(queue, *dimension, asked).is_ok()
                && !on_nodes.iter().any(lacks)
        };
        let in_plenty = dimensions.into_iter().filter(is_enough);
        in_plenty.filter(|_| !is_under_cross_quota).collect()
    }

    /// What is set aside for pods that still wait, but for what a look at one queue has set aside.
    pub(crate) fn set_aside(&self, but: Option<QueueId>) -> Vec<SetAside> {
        let others = self.reclaims.asides_by_queue().filter(|(queue, _)| Some(*queue) != but);
        let asides = others.map(|(_, aside)| aside);
        asides.filter(|aside| self.still_waits(aside)).cloned().collect()
    }

    /// The pods that are still on their way out, of those that it is to come from, queue by queue.
    pub(crate) fn awaited(&self, now: Timestamp) -> Awaited {
        let of_queue = |awaited: &[Arc<str>]| {
            let awaited = awaited.iter().filter_map(|uid| self.pod_with_uid(uid));
            let leaving = awaited.filter(|id| self.pod(*id).is_some_and(|pod| self.is_leaving(pod, now)));
            leaving.collect()
        };
        self.reclaims
            .awaited()
            .map(|(queue, awaited)| (queue, of_queue(awaited)))
            .collect()
    }

    /// The pods, by uid, that other queues than this wait for to be gone.
    pub(crate) fn awaited_by_others(&self, queue: QueueId) -> HashSet<Arc<str>> {
        let others = self.reclaims.awaited().filter(|(other, _)| *other != queue);
        others.flat_map(|(_, awaited)| awaited.iter().cloned()).collect()
    }

    /// Whether anything is set aside.
    pub(crate) fn sets_aside(&self) -> bool {
        self.reclaims.asides().next().is_some()
    }

    /// Whether something is set aside for pods of a group.
    pub(crate) fn sets_aside_for(&self, group: WorkloadId) -> bool {
        self.reclaims.asides().any(|aside| aside.shape.group == Some(group))
    }

    /// Whether something is set aside for this pod.
    pub(crate) fn sets_aside_for_pod(&self, id: PodId) -> bool {
        let uid = self.pod(id).map(|pod| &pod.uid);
        self.reclaims.asides().any(|aside| Some(&aside.uid) == uid)
    }

    /// Whether a pod still waits that something is set aside for, and asks for what it did.
    pub(crate) fn still_waits(&self, aside: &SetAside) -> bool {
        let pod = self.pod_with_uid(&aside.uid).and_then(|id| self.pod(id));
        let waits = pod
            .filter(|pod| pod.stage == Stage::Waiting)
            .and_then(|pod| pod.waits.as_ref());
        waits.is_some_and(|waits| waits.aside_until.is_none() && waits.shape == aside.shape)
    }

    /// Nothing is set aside for these any more: whoever it stood in the way of is judged anew.
    pub(super) fn give_up(&mut self, asides: &[SetAside]) {
        if !asides.is_empty() {
            self.top.rose();
        }
        for (node, _) in asides.iter().filter_map(|aside| aside.room.as_ref()) {
            if let Some(node) = self.nodes.id(node) {
                self.node_changes.note(node);
            }
        }
    }
}
