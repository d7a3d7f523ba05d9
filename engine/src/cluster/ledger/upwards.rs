//! Counts what a queue holds at all levels above it too. The queue that stands for no queue is part of nothing: what no
//! queue is charged for counts for no level.

use super::PEN;
use crate::amounts::{Amounts, Dimension, Totals};
use crate::cluster::Cluster;
use crate::cluster::below::Below;
use crate::ids::{Id as _, QueueId, WorkloadId};
use crate::inqueue::Demand;

impl Cluster {
    /// Changes what a queue's pods have, and with it what all levels above have.
    pub(in crate::cluster) fn change_allocated(
        &mut self,
        id: QueueId,
        amounts: impl Iterator<Item = (Dimension, i128)>,
    ) {
        for (dimension, amount) in amounts {
            let queue = &mut self.queues[id];
            let before = queue.held(dimension);
            queue.books(PEN).allocated.add(dimension, amount);
            if self.top.is_stale() || queue.is_nameless() {
                continue;
            }
            let mut held = queue.held(dimension) - before;
            let mut next = queue.parent();
            while let Some(id) = next {
                let queue = &mut self.queues[id];
                let before = queue.held(dimension);
                queue.books(PEN).below.change(dimension, amount, held);
                if amount < 0 {
                    queue.wake();
                }
                held = queue.held(dimension) - before;
                next = queue.parent();
                self.changes.queues.insert(id);
            }
            self.top.books(PEN).below.change(dimension, amount, held);
            if amount < 0 {
                self.top.rose();
            }
        }
    }

    /// Changes the sums of every level above a queue. Where `has_grown`, there may be more room in these levels. While the
    /// tree is stale nothing is done, since the sums will be counted anew.
    fn change_above(&mut self, id: QueueId, has_grown: bool, change: impl Fn(&mut Below)) {
        if self.top.is_stale() || self.queues[id].is_nameless() {
            return;
        }
        let mut next = self.queues[id].parent();
        while let Some(id) = next {
            let queue = &mut self.queues[id];
            change(&mut queue.books(PEN).below);
            if has_grown {
                queue.wake();
            }
            next = queue.parent();
            self.changes.queues.insert(id);
        }
        change(&mut self.top.books(PEN).below);
        if has_grown {
            self.top.rose();
        }
    }

    /// Changes what the waiting pods of a queue ask for, as far as the levels above count it.
    pub(in crate::cluster) fn change_requested_above(&mut self, id: QueueId, asked: &Amounts, sign: i128) {
        self.change_above(id, false, |below| {
            for (dimension, amount) in asked.iter() {
                below.requested.add(dimension, sign * i128::from(amount));
            }
        });
    }

    /// Keeps something for a workload in a queue.
    pub(in crate::cluster) fn reserve_in(&mut self, id: QueueId, workload: WorkloadId, demand: &Demand) {
        let queue = &mut self.queues[id];
        queue.books(PEN).inqueue.add(demand);
        queue.books(PEN).keeps_for.insert(workload);
        self.changes.queues.insert(id);
        self.change_above(id, false, |below| below.inqueue.add(demand));
    }

    /// Ends keeping something for a workload in a queue.
    pub(in crate::cluster) fn release_in(&mut self, id: QueueId, workload: WorkloadId, demand: &Demand) {
        let queue = &mut self.queues[id];
        queue.books(PEN).inqueue.subtract(demand);
        queue.books(PEN).keeps_for.remove(&workload);
        queue.wake();
        self.changes.queues.insert(id);
        self.change_above(id, true, |below| below.inqueue.subtract(demand));
    }

    /// Changes what the workloads of a queue hold beyond their minimum.
    pub(in crate::cluster) fn change_elastic(&mut self, id: QueueId, amounts: &Totals) {
        self.queues[id].books(PEN).elastic.add_totals(amounts);
        self.change_above(id, false, |below| below.elastic.add_totals(amounts));
    }

    /// Notes that there is more room in a queue and above it, though its pods have what they had.
    pub(in crate::cluster) fn room_grew(&mut self, id: QueueId) {
        self.queues[id].wake();
        self.change_above(id, true, |_| ());
    }

    /// Counts the sums of every level anew, when queues have changed their places.
    pub(in crate::cluster) fn add_up(&mut self) {
        let all_before = std::mem::take(&mut self.top.books(PEN).below);
        let queues = self.queues.iter_mut();
        let before: Vec<_> = queues
            .map(|(_, queue)| std::mem::take(&mut queue.books(PEN).below))
            .collect();
        for id in self.leaves_first() {
            let queue = &self.queues[id];
            if queue.is_nameless() {
                continue;
            }
            let (part, parent) = (queue.as_part(), queue.parent());
            let above = match parent {
                Some(parent) => &mut self.queues[parent].books(PEN).below,
                None => &mut self.top.books(PEN).below,
            };
            above.add(&part);
        }
        let changed = self.queues.ids();
        let changed = changed.filter(|id| self.queues[*id].below != before[id.index()]);
        self.changes.queues.extend(changed);
        self.show_who_is_promised_too_much(&all_before);
    }
}

impl Below {
    fn add(&mut self, part: &Self) {
        self.children += part.children;
        self.allocated.add_totals(&part.allocated);
        self.held.add_totals(&part.held);
        self.guaranteed.add_totals(&part.guaranteed);
        self.deserved.add_totals(&part.deserved);
        self.requested.add_totals(&part.requested);
        self.inqueue.add_all(&part.inqueue);
        self.elastic.add_totals(&part.elastic);
    }

    fn change(&mut self, dimension: Dimension, allocated: i128, held: i128) {
        self.allocated.add(dimension, allocated);
        self.held.add(dimension, held);
    }
}
