//! What is set aside for waiting pods, counted as taken while others are judged.

use std::collections::{BTreeMap, BTreeSet};

use super::PEN;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::aside::{Awaited, SetAside};
use crate::ids::{NodeId, PodId, QueueId};

/// What counts as taken though nobody has it: of queues, where none is the cluster, and of nodes.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    levels: Vec<(Option<QueueId>, Sums)>,
    nodes: Vec<(NodeId, Amounts)>,
    /// What of that counts against quotas for pods without GPU.
    without_gpu: Vec<(NodeId, Amounts)>,
}

/// What a level's own pods have, what those below have, and what those hold.
type Sums = [Vec<(Dimension, i128)>; 3];

impl Cluster {
    /// Counts what is set aside for a pod as taken, or as free again (`sign`). As it is not really given back, nobody is woken.
    pub(crate) fn count_aside(&mut self, aside: &SetAside, sign: i128) {
        let queue = aside.shape.queue;
        self.without_waking([queue], |cluster| cluster.charge_aside(aside, sign));
        let Some((node, request)) = self.room_of(aside) else {
            return;
        };
        self.nodes[node].books(PEN).set_aside(request, sign);
        self.count_request_without_gpu(node, aside.shape.task.first_request(), false, sign);
    }

    /// Counts as taken what is free now and will not be once these pods have gone and those have what is set aside for them. What
    /// is still to come free for a queue is not counted twice.
    pub(crate) fn hold<'a>(&mut self, asides: impl Iterator<Item = &'a SetAside>, leaving: &Awaited) -> Hold {
        let mut by_queue = BTreeMap::<QueueId, Vec<&SetAside>>::new();
        for aside in asides {
            by_queue.entry(aside.shape.queue).or_default().push(aside);
        }
        let mut hold = Hold::default();
        for (queue, asides) in by_queue {
            let leaving = leaving.get(&queue).map_or(&[][..], Vec::as_slice);
            self.hold_of_levels(&mut hold, queue, &asides, leaving);
            self.hold_of_nodes(&mut hold, &asides, leaving);
        }
        self.count_hold(&hold, 1);
        hold
    }

    /// Counts it as free again.
    pub(crate) fn release(&mut self, hold: &Hold) {
        self.count_hold(hold, -1);
    }

    fn hold_of_levels(&mut self, hold: &mut Hold, queue: QueueId, asides: &[&SetAside], leaving: &[PodId]) {
        let charges = leaving.iter().filter_map(|id| {
            let pod = self.pod(*id)?;
            Some((pod.queue?, pod.charge.as_ref()?.amounts.clone()))
        });
        let charges: Vec<_> = charges.collect();
        let queues: BTreeSet<_> = charges.iter().map(|(queue, _)| *queue).chain([queue]).collect();
        let levels = queues.iter().flat_map(|queue| self.ancestry(*queue)).map(Some);
        let levels: BTreeSet<_> = levels.chain([None]).collect();
        let before: Vec<_> = levels.iter().map(|level| (*level, self.sums(*level))).collect();
        let count = |cluster: &mut Self, sign: i128| {
            for aside in asides {
                cluster.charge_aside(aside, sign);
            }
            for (queue, charge) in &charges {
                let given = charge.iter();
                let given = given.map(|(dimension, amount)| (dimension, -sign * i128::from(amount)));
                cluster.change_allocated(*queue, given);
            }
        };
        self.without_waking(queues, |cluster| {
            count(cluster, 1);
            hold.levels.extend(before.into_iter().map(|(level, before)| {
                let after = cluster.sums(level);
                (
                    level,
                    std::array::from_fn(|index| growth(&before[index], &after[index])),
                )
            }));
            count(cluster, -1);
        });
    }

    fn hold_of_nodes(&self, hold: &mut Hold, asides: &[&SetAside], leaving: &[PodId]) {
        let mut nodes = BTreeMap::<NodeId, [Totals; 2]>::new();
        for aside in asides {
            let Some((node, request)) = self.room_of(aside) else {
                continue;
            };
            let [used, without_gpu] = nodes.entry(node).or_default();
            used.add_all(request);
            if !self.asks_for_gpu(aside.shape.task.first_request()) {
                without_gpu.add_all(aside.shape.task.first_request());
            }
        }
        for pod in leaving.iter().filter_map(|id| self.pod(*id)) {
            let Some([used, without_gpu]) = pod.room.and_then(|node| nodes.get_mut(&node)) else {
                continue;
            };
            used.subtract_all(pod.request());
            if !self.asks_for_gpu(pod.request()) {
                without_gpu.subtract_all(pod.request());
            }
        }
        for (node, [used, without_gpu]) in nodes {
            hold.nodes.push((node, what_remains(&used)));
            hold.without_gpu.push((node, what_remains(&without_gpu)));
        }
    }

    fn count_hold(&mut self, hold: &Hold, sign: i128) {
        for (level, [own, allocated, held]) in &hold.levels {
            let below = if let Some(queue) = level {
                let books = self.queues[*queue].books(PEN);
                add(&mut books.allocated, own, sign);
                &mut books.below
            } else {
                &mut self.top.books(PEN).below
            };
            add(&mut below.allocated, allocated, sign);
            add(&mut below.held, held, sign);
        }
        for (node, request) in &hold.nodes {
            self.nodes[*node].books(PEN).set_aside(request, sign);
        }
        for (node, request) in &hold.without_gpu {
            // Of a pod that Cardgate does not place nobody knows where it will be (`enforceCrossQuota: extender`).
            self.count_request_without_gpu(*node, request, false, sign);
        }
    }

    fn charge_aside(&mut self, aside: &SetAside, sign: i128) {
        let amounts = aside.charge.amounts.iter();
        let amounts = amounts.map(|(dimension, amount)| (dimension, sign * i128::from(amount)));
        self.change_allocated(aside.shape.queue, amounts);
    }

    fn sums(&self, level: Option<QueueId>) -> [Totals; 3] {
        let (own, below) = match level {
            Some(queue) => {
                let queue = self.queue(queue);
                (queue.allocated.clone(), &queue.below)
            }
            None => (Totals::default(), &self.top.below),
        };
        [own, below.allocated.clone(), below.held.clone()]
    }

    fn room_of<'a>(&self, aside: &'a SetAside) -> Option<(NodeId, &'a Amounts)> {
        let (node, request) = aside.room.as_ref()?;
        Some((self.nodes.id(node)?, request))
    }

    /// Changes sums of these queues and those above, which are only tried.
    fn without_waking<R>(
        &mut self,
        queues: impl IntoIterator<Item = QueueId>,
        change: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let levels = queues.into_iter().flat_map(|queue| self.ancestry(queue));
        let versions: Vec<_> = levels.map(|queue| (queue, self.queue(queue).version())).collect();
        let top = self.top_version();
        let changed = change(self);
        for (queue, version) in versions {
            self.queues[queue].set_version(version);
        }
        self.set_top_version(top);
        changed
    }
}

/// What is more than nothing.
fn what_remains(totals: &Totals) -> Amounts {
    let more = totals.iter().filter(|(_, amount)| *amount > 0);
    more.map(|(dimension, amount)| (dimension, i64::try_from(amount).unwrap_or(i64::MAX)))
        .collect()
}

/// By how much more there is, where there is more.
fn growth(before: &Totals, after: &Totals) -> Vec<(Dimension, i128)> {
    let grows = after
        .iter()
        .map(|(dimension, after)| (dimension, after - before.get(dimension)));
    grows.filter(|(_, growth)| *growth > 0).collect()
}

fn add(totals: &mut Totals, amounts: &[(Dimension, i128)], sign: i128) {
    for (dimension, amount) in amounts {
        totals.add(*dimension, sign * amount);
    }
}
