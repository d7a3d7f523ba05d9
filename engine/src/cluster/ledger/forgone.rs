//! Room on nodes that is not kept from others for pods that wait for what comes free anyway.

use std::collections::{BTreeMap, BTreeSet};

use crate::amounts::Totals;
use crate::cluster::Cluster;
use crate::cluster::aside::SetAside;
use crate::ids::{NodeId, PodId, QueueId, WorkloadId};

/// The number of steps that it costs to try whether quotas suffice for what is set aside for one pod.
const STEPS_OF_QUOTA: usize = 128;

/// Amounts by queue.
type ByQueue = BTreeMap<QueueId, Totals>;

/// A node of which something is set aside.
#[derive(Default)]
struct OfNode {
    /// What is given back there.
    given: ByQueue,
    /// What the pods are charged for which room is kept there.
    kept: ByQueue,
    /// What currently counts as given back there.
    open: ByQueue,
}

impl OfNode {
    /// Returns what is given back to the pods for which room is kept there. What a queue gives beyond what its own pods
    /// get goes to other pods that get less from their own queues.
    fn goes_to_kept(&self) -> ByQueue {
        let (mut goes, mut lacking) = (ByQueue::new(), Totals::default());
        for (queue, kept) in &self.kept {
            let given = self.given.get(queue);
            for (dimension, amount) in kept.iter() {
                let own = given.map_or(0, |given| given.get(dimension)).min(amount);
                goes.entry(*queue).or_default().add(dimension, own);
                lacking.add(dimension, amount - own);
            }
        }
        for (queue, given) in &self.given {
            let goes = goes.entry(*queue).or_default();
            for (dimension, amount) in given.iter() {
                let more = (amount - goes.get(dimension)).min(lacking.get(dimension));
                goes.add(dimension, more);
                lacking.add(dimension, -more);
            }
        }
        goes
    }
}

impl Cluster {
    /// Takes room off what is set aside for pods that wait for what comes free anyway, as nobody was evicted for them.
    /// Such a pod keeps room from others only where that is within its quota, counted beside all that its queue still has,
    /// except what is given back on the same nodes. Otherwise a pod that lacks only quota would keep a second card from
    /// others for as long as a pod of its own queue takes to end. What is given back on a node beyond what is kept there
    /// counts for no pod on another node. The pods of one of these `groups` all keep their room, or none of them does.
    /// Returns what it costs to find out, in steps.
    pub(crate) fn forgo_room(
        &mut self,
        asides: &mut [SetAside],
        groups: &BTreeSet<WorkloadId>,
        leaving: &[PodId],
    ) -> usize {
        if !asides.iter().any(|aside| !aside.is_by_eviction && aside.room.is_some()) {
            return 0;
        }
        let nodes = asides.iter().filter_map(|aside| self.room_of(aside));
        let mut nodes: BTreeMap<_, _> = nodes.map(|(node, _)| (node, OfNode::default())).collect();
        for pod in leaving.iter().filter_map(|id| self.pod(*id)) {
            let node = pod.room.and_then(|node| nodes.get_mut(&node));
            if let (Some(node), Some(queue), Some(charge)) = (node, pod.queue, &pod.charge) {
                node.given.entry(queue).or_default().add_all(&charge.amounts);
            }
        }
        let queues = nodes.values().flat_map(|node| node.given.keys().copied());
        let queues: BTreeSet<_> = queues.chain(asides.iter().map(|aside| aside.shape.queue)).collect();
        self.without_waking(queues, |cluster| {
            let mut counted = Vec::new();
            for together in in_groups(asides, groups) {
                if cluster.is_within_quota(asides, &together, &mut nodes) {
                    counted.extend(together);
                } else {
                    for index in together {
                        asides[index].room = None;
                    }
                }
            }
            for index in counted {
                cluster.charge_aside(&asides[index], -1);
            }
            for node in nodes.values_mut() {
                cluster.give(node, ByQueue::new());
            }
        });
        leaving
            .len()
            .saturating_add(STEPS_OF_QUOTA.saturating_mul(asides.len()))
    }

    /// Whether these pods are within their quotas, or others were evicted for them. If so, they are counted.
    fn is_within_quota(
        &mut self,
        asides: &[SetAside],
        together: &[usize],
        nodes: &mut BTreeMap<NodeId, OfNode>,
    ) -> bool {
        let together = || together.iter().map(|index| &asides[*index]);
        let on: BTreeSet<_> = together().filter_map(|aside| Some(self.room_of(aside)?.0)).collect();
        for id in &on {
            if let Some(node) = nodes.get_mut(id) {
                let given = node.given.clone();
                self.give(node, given);
            }
        }
        let mut is_kept = true;
        for aside in together() {
            is_kept &= self.has_quota_for(aside);
            self.charge_aside(aside, 1);
        }
        is_kept |= together().any(|aside| aside.is_by_eviction);
        for aside in together() {
            let node = self.room_of(aside).and_then(|(node, _)| nodes.get_mut(&node));
            match node {
                _ if !is_kept => self.charge_aside(aside, -1),
                Some(node) => {
                    let kept = node.kept.entry(aside.shape.queue).or_default();
                    kept.add_all(&aside.charge.amounts);
                }
                None => {}
            }
        }
        for id in &on {
            if let Some(node) = nodes.get_mut(id) {
                let given = node.goes_to_kept();
                self.give(node, given);
            }
        }
        is_kept
    }

    /// Counts this much as given back on a node, in place of what counted before.
    fn give(&mut self, node: &mut OfNode, given: ByQueue) {
        let before = std::mem::replace(&mut node.open, given);
        for (queue, before) in before {
            self.change_allocated(queue, before.iter());
        }
        for (queue, now) in &node.open {
            self.change_allocated(*queue, now.iter().map(|(dimension, amount)| (dimension, -amount)));
        }
    }
}

/// Returns the indexes of what is set aside, in order: together for all pods of one of these groups, and alone for every
/// other pod.
fn in_groups(asides: &[SetAside], groups: &BTreeSet<WorkloadId>) -> Vec<Vec<usize>> {
    let (mut all, mut by_group) = (Vec::<Vec<_>>::new(), BTreeMap::new());
    for (index, aside) in asides.iter().enumerate() {
        let group = aside.shape.group.filter(|group| groups.contains(group));
        let place = group.map_or(all.len(), |group| *by_group.entry(group).or_insert(all.len()));
        match all.get_mut(place) {
            Some(together) => together.push(index),
            None => all.push(vec![index]),
        }
    }
    all
}
