//! What is set aside for pods that other pods are evicted for. It counts as taken for everybody else until the pods that
//! it is for are let in or no longer wait.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use super::pod::Stage;
use super::waiting::Shape;
use crate::alternative::Alternative;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::metering::Charge;
use crate::names::ResourceId;
use crate::policies::mgpu::CardLists;
use crate::steps::Steps;

/// What is set aside for one waiting pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    uid: Arc<str>,
    /// The queue whose look set this aside. For a gang in several queues this is the first of them.
    pub(crate) looked_for: QueueId,
    /// The shape of the pod, which tells what other pods may have it.
    pub(crate) shape: Arc<Shape>,
    /// The cards that the pod is charged for.
    alternative: Option<Alternative>,
    /// What is set aside of the pod's queue and of the queues above it.
    pub(super) charge: Charge,
    /// What is set aside of the node that the pod is expected on.
    pub(super) room: Option<RoomAside>,
    /// Whether other pods were evicted for it. Those would have been evicted in vain if anything of it were taken
    /// meanwhile.
    pub(super) is_by_eviction: bool,
    /// The dimensions of which its queue, or a queue above it, gets more than it deserves, beside what other pods were
    /// evicted for. Pods of other queues that deserve these dimensions go before.
    pub(crate) borrowed: BTreeSet<Dimension>,
}

/// What is set aside of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoomAside {
    /// The node, by name, since nodes may go meanwhile.
    pub(super) node: Arc<str>,
    /// What the pod requests.
    request: Arc<Amounts>,
    /// The cards of the pod's containers, of the cards that the pod shares.
    gpus: Option<CardLists>,
    /// What others have to leave to the pod. For shares of cards this is all that the node has, as they may be free on one
    /// card only, unless there is room already.
    kept: Amounts,
    /// Whether the devices that the pod claims are kept from others as well. They are not where the pod claims devices in
    /// so many ways that it can't be said whether there are any: such a pod keeps nobody off the node.
    pub(super) keeps_devices: bool,
}

impl RoomAside {
    /// Returns what counts as taken: for a pod that was `judged_beside` this pod, or for everybody else.
    pub(super) fn held(&self, judged_beside: bool) -> &Amounts {
        if judged_beside { &self.request } else { &self.kept }
    }
}

/// What is set aside for all pods of a look: by queue, as a gang may be in several queues, and by node name.
struct SumsAside<'a> {
    charged: BTreeMap<QueueId, Totals>,
    on_nodes: BTreeMap<&'a str, Totals>,
}

impl<'a> SumsAside<'a> {
    fn of(asides: &'a [SetAside]) -> Self {
        let (mut charged, mut on_nodes) = (BTreeMap::<_, Totals>::new(), BTreeMap::<&str, Totals>::new());
        for aside in asides {
            charged
                .entry(aside.shape.queue)
                .or_default()
                .add_all(&aside.charge.amounts);
            if let Some(room) = &aside.room {
                on_nodes.entry(&room.node).or_default().add_all(&room.request);
            }
        }
        Self { charged, on_nodes }
    }
}

/// What pods on their way out give back that queues wait for. It is summed up, as there may be thousands of such pods.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// What is given back, by the queue that waits for it.
    pub(super) by_queue: BTreeMap<QueueId, GivenBack>,
    /// Those of the pods that have claims.
    pub(super) claiming: Arc<HashSet<PodId>>,
}

/// What some pods give back.
#[derive(Debug, Default)]
pub(super) struct GivenBack {
    /// What is given back to queues.
    pub(super) charged: BTreeMap<QueueId, Totals>,
    /// What is given back to nodes.
    pub(super) on_nodes: BTreeMap<NodeId, OfNode>,
}

/// What is given back to a node, or set aside of it.
#[derive(Debug, Default)]
pub(super) struct OfNode {
    pub(super) used: Totals,
    /// The part of `used` that counts against the node's quota for pods without GPU.
    pub(super) without_gpu: Totals,
}

impl SetAside {
    /// Returns the UID of the pod.
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the node that the pod is expected on.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.room.as_ref().map(|room| &room.node)
    }

    /// Returns the cards that the pod is charged for.
    pub(crate) fn alternative(&self) -> Option<&Alternative> {
        self.alternative.as_ref()
    }

    /// Returns the cards of the pod's containers on that node, of the cards that the pod shares.
    pub(crate) fn gpus(&self) -> Option<CardLists> {
        self.room.as_ref()?.gpus.clone()
    }

    /// Whether other pods were evicted for it.
    pub(crate) fn is_by_eviction(&self) -> bool {
        self.is_by_eviction
    }

    /// The dimensions that the pod is charged for.
    pub(crate) fn charged(&self) -> impl Iterator<Item = Dimension> + '_ {
        self.charge.amounts.iter().map(|(dimension, _)| dimension)
    }

    /// Whether pods of this shape may have it in their turn: pods like the one that it is for, pods of the same group, and
    /// pods that go before it in its queue.
    pub(crate) fn is_for(&self, shape: &Shape) -> bool {
        let own = &*self.shape;
        self.is_behind(shape) || own == shape || (own.group.is_some() && own.group == shape.group)
    }

    /// Whether pods of this shape go before the pod that it is for, in the same queue.
    fn is_behind(&self, shape: &Shape) -> bool {
        self.shape.queue == shape.queue && self.shape.priority < shape.priority
    }

    /// Returns the node that the pod is expected on, where nobody was evicted for the pod.
    pub(crate) fn node_of_unevicted(&self) -> Option<&Arc<str>> {
        self.node().filter(|_| !self.is_by_eviction)
    }

    /// Reduces what others have to leave of the node to what the pod requests.
    pub(crate) fn keep_what_it_requests(&mut self) {
        if let Some(room) = &mut self.room {
            room.kept = Amounts::clone(&room.request);
        }
    }

    /// Returns the dimensions of what is set aside.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = Dimension> + '_ {
        let of_room = self.room.iter().flat_map(|room| room.request.iter());
        self.charge
            .amounts
            .iter()
            .chain(of_room)
            .map(|(dimension, _)| dimension)
    }
}

impl Cluster {
    /// Returns what would be set aside for a pod that is assumed to be let in: what the pod is charged, and on its node
    /// what it requests. Of the dimensions that `whole` chooses, others have to leave all that the node has.
    pub(crate) fn to_set_aside(
        &self,
        id: PodId,
        looked_for: QueueId,
        whole: impl Fn(Dimension) -> bool,
        steps: &Steps,
    ) -> Option<SetAside> {
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
            let kept = request.map(|(dimension, asked)| (dimension, amount(dimension, asked)));
            Some(RoomAside {
                node: Arc::clone(&node.name),
                request: Arc::clone(pod.request()),
                gpus: pod.gpus.clone(),
                kept: kept.collect(),
                keeps_devices: self.is_device_room_known(&pod.task, pod.assigned.as_ref(), node, steps),
            })
        };
        Some(SetAside {
            uid: Arc::clone(&pod.uid),
            looked_for,
            shape: Arc::clone(&pod.waits.as_ref()?.shape),
            alternative: pod.assigned.clone(),
            charge: pod.charge.clone()?,
            room: pod.room.and_then(on_node),
            is_by_eviction: false,
            borrowed: BTreeSet::new(),
        })
    }

    /// Returns the dimensions that others have to leave to the pods of a queue for which this is set aside, each with the
    /// highest priority of these pods. These are the dimensions that the pods lack as things are. For pods that others
    /// were evicted for, they are all dimensions that the pods are charged, except CPU and memory of which there is
    /// enough: otherwise others would by then have used up what the queue deserves, and the evictions would have been in
    /// vain.
    pub(crate) fn claim_of(&self, queue: QueueId, asides: &[SetAside]) -> BTreeMap<Dimension, i32> {
        let sums = SumsAside::of(asides);
        let charged = sums.charged.values().flat_map(Totals::iter);
        let charged: BTreeSet<_> = charged.map(|(dimension, _)| dimension).collect();
        let shared_out = charged
            .into_iter()
            .filter(|dimension| self.is_shared_out(queue, *dimension));
        let claims = shared_out.filter_map(|dimension| {
            let is_enough = self.has_enough_for(dimension, &sums);
            if is_enough && self.may_be_left(queue, dimension, asides) {
                return None;
            }
            let claiming = asides.iter().filter(|aside| !is_enough || aside.is_by_eviction);
            let claiming = claiming.filter(|aside| aside.charge.amounts.get(dimension) > 0);
            let highest = claiming.map(|aside| aside.shape.priority).max()?;
            Some((dimension, highest))
        });
        claims.collect()
    }

    /// Whether the queues and all queues above them, and also the nodes, have enough of a dimension for what is set aside,
    /// as things are.
    fn has_enough_for(&self, dimension: Dimension, sums: &SumsAside<'_>) -> bool {
        let has_quota = |(queue, charged): (&QueueId, &Totals)| {
            let asked = i64::try_from(charged.get(dimension)).unwrap_or(i64::MAX);
            self.room(*queue, dimension, asked).is_ok()
        };
        let lacks = |(name, asked): (&&str, &Totals)| {
            let node = self.nodes.id(name).map(|id| self.node(id));
            let offer = node.and_then(|node| Some((node, node.offer()?)));
            offer.is_none_or(|(node, offer)| {
                node.used.get(dimension) + asked.get(dimension) > i128::from(offer.amount(dimension))
            })
        };
        sums.charged.iter().all(has_quota) && !sums.on_nodes.iter().any(lacks)
    }

    /// Whether a dimension of which there is enough need not be left to pods that others were evicted for. This holds for
    /// CPU and memory, where no level says what it deserves of these and no GPU node limits how much of them pods without
    /// GPU may have.
    fn may_be_left(&self, queue: QueueId, dimension: Dimension, asides: &[SetAside]) -> bool {
        let is_deserved = |level| self.deserved_by_spec(level, dimension).is_some();
        [ResourceId::CPU, ResourceId::MEMORY]
            .map(Dimension::Resource)
            .contains(&dimension)
            && !self.ancestry(queue).any(is_deserved)
            && !asides.iter().any(|aside| aside.shape.cross_quota.is_some())
    }

    /// Returns what is set aside for pods that still wait, except what a look at the queue `but` has set aside.
    pub(crate) fn set_aside(&self, but: Option<QueueId>) -> Vec<SetAside> {
        let others = self.reclaims.asides().filter(|aside| Some(aside.looked_for) != but);
        others.filter(|aside| self.still_waits(aside)).cloned().collect()
    }

    /// Returns what the last look at a queue has set aside, by the pods that it is for.
    pub(crate) fn asides_of(&self, queue: QueueId) -> BTreeMap<PodId, SetAside> {
        let own = self.reclaims.asides().filter(|aside| aside.looked_for == queue);
        own.filter_map(|aside| Some((self.pod_with_uid(&aside.uid)?, aside.clone())))
            .collect()
    }

    /// Returns what is still on its way out, of what queues wait for.
    pub(crate) fn awaited(&self, now: Timestamp) -> Awaited {
        let (mut by_queue, mut claiming) = (BTreeMap::<_, GivenBack>::new(), HashSet::new());
        for (queue, awaited) in self.reclaims.awaited() {
            let given = by_queue.entry(queue).or_default();
            let awaited = awaited.iter().filter_map(|uid| self.pod_with_uid(uid));
            let awaited = awaited.filter_map(|id| Some((id, self.pod(id)?)));
            for (id, pod) in awaited.filter(|(_, pod)| self.is_leaving(pod, now)) {
                if let (Some(queue), Some(charge)) = (pod.queue, &pod.charge) {
                    given.charged.entry(queue).or_default().add_all(&charge.amounts);
                }
                if let Some(node) = pod.room {
                    let given = given.on_nodes.entry(node).or_default();
                    given.used.add_all(pod.request());
                    if self.counts_without_gpu(pod) {
                        given.without_gpu.add_all(pod.request());
                    }
                }
                if pod.task.claimed.is_some() {
                    claiming.insert(id);
                }
            }
        }
        Awaited {
            by_queue,
            claiming: Arc::new(claiming),
        }
    }

    /// Returns the pods, by uid, that queues other than this one wait for to be gone.
    pub(crate) fn awaited_by_others(&self, queue: QueueId) -> HashSet<Arc<str>> {
        let others = self.reclaims.awaited().filter(|(other, _)| *other != queue);
        others.flat_map(|(_, awaited)| awaited.iter().cloned()).collect()
    }

    /// Returns for how many pods something is set aside.
    pub(crate) fn count_asides(&self) -> usize {
        self.reclaims.count_asides()
    }

    /// Whether anything is set aside.
    pub(crate) fn sets_aside(&self) -> bool {
        self.reclaims.asides().next().is_some()
    }

    /// Whether something is set aside for pods of a group.
    pub(crate) fn sets_aside_for(&self, group: WorkloadId) -> bool {
        self.reclaims.asides().any(|aside| aside.shape.group == Some(group))
    }

    /// Whether others were evicted for this pod, or for a pod that it goes before in its queue.
    pub(crate) fn was_evicted_for(&self, id: PodId, shape: &Shape) -> bool {
        let uid = self.pod(id).map(|pod| &pod.uid);
        let asides = self.reclaims.asides().filter(|aside| aside.is_by_eviction);
        let mut own = asides.filter(|aside| Some(&aside.uid) == uid || aside.is_behind(shape));
        own.any(|aside| self.still_waits(aside))
    }

    /// Whether others were evicted for any of these pods.
    pub(crate) fn was_evicted_for_any(&self, mut pods: impl Iterator<Item = PodId>) -> bool {
        let asides = self.reclaims.asides().filter(|aside| aside.is_by_eviction);
        let asides = asides.filter(|aside| self.still_waits(aside));
        let evicted_for: HashSet<_> = asides.filter_map(|aside| self.pod_with_uid(&aside.uid)).collect();
        pods.any(|pod| evicted_for.contains(&pod))
    }

    /// Marks, in what is to be set aside, what others are evicted for: now, for the pods in `evicted_for`, or earlier, for
    /// the same pods. A marked pod that gets nothing any more hands its mark on to a pod that goes before it in its queue.
    /// For the gangs in `groups`, whose pods get in together, others were evicted for all pods or for none. In any other
    /// group each pod stands for itself: otherwise one pod that somebody was evicted for would keep room for all pods that
    /// name the group.
    pub(crate) fn mark_those_evicted_for(
        &self,
        asides: &mut [SetAside],
        evicted_for: &BTreeSet<PodId>,
        groups: &BTreeSet<WorkloadId>,
    ) {
        let before = self.reclaims.asides().filter(|aside| aside.is_by_eviction);
        let before = before.filter(|aside| self.still_waits(aside));
        let before: BTreeMap<_, _> = before.map(|aside| (&aside.uid, aside)).collect();
        for aside in &mut *asides {
            let is_new = self
                .pod_with_uid(&aside.uid)
                .is_some_and(|id| evicted_for.contains(&id));
            aside.is_by_eviction = is_new || before.contains_key(&aside.uid);
        }
        let kept: BTreeSet<_> = asides.iter().map(|aside| Arc::clone(&aside.uid)).collect();
        for gone in before.values().filter(|before| !kept.contains(&before.uid)) {
            let mut others = asides.iter_mut().filter(|aside| !aside.is_by_eviction);
            if let Some(heir) = others.find(|aside| gone.is_behind(&aside.shape)) {
                heir.is_by_eviction = true;
            }
        }
        let marked = asides.iter().filter(|aside| aside.is_by_eviction);
        let marked = marked.filter_map(|aside| aside.shape.group);
        let gangs: BTreeSet<_> = marked.filter(|group| groups.contains(group)).collect();
        for aside in asides {
            aside.is_by_eviction |= aside.shape.group.is_some_and(|group| gangs.contains(&group));
        }
    }

    /// Returns the nodes of which something is set aside for pods of other shapes, which pods of this shape may not have.
    pub(crate) fn nodes_set_aside_for_others(&self, shape: &Shape) -> BTreeSet<NodeId> {
        let asides = self.reclaims.asides().filter(|aside| !aside.is_for(shape));
        let nodes = asides
            .filter(|aside| self.still_waits(aside))
            .filter_map(|aside| self.nodes.id(aside.node()?));
        nodes.collect()
    }

    /// Whether the pod that something is set aside for still waits, and asks for what it asked for then.
    pub(crate) fn still_waits(&self, aside: &SetAside) -> bool {
        let pod = self.pod_with_uid(&aside.uid).and_then(|id| self.pod(id));
        let waits = pod
            .filter(|pod| pod.stage == Stage::Waiting)
            .and_then(|pod| pod.waits.as_ref());
        waits.is_some_and(|waits| waits.aside_until.is_none() && waits.shape == aside.shape)
    }

    /// Gives up what was set aside. Pods that it stood in the way of are judged anew.
    pub(super) fn give_up(&mut self, asides: &[SetAside]) {
        if !asides.is_empty() {
            self.top.rose();
        }
        // It counted as taken in its queue and in every queue above: pods of others may have been refused by one of these.
        let queues: BTreeSet<_> = asides.iter().map(|aside| aside.shape.queue).collect();
        for queue in queues {
            if self.queues.get(queue).is_some() {
                self.room_grew(queue);
            }
        }
        for room in asides.iter().filter_map(|aside| aside.room.as_ref()) {
            if let Some(node) = self.nodes.id(&room.node) {
                self.node_changes.note(node);
            }
        }
    }
}
