//! Whom what is set aside is for, while others are judged.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::aside::{Awaited, SetAside};
use crate::cluster::ledger::Hold;
use crate::cluster::waiting::Shape;
use crate::decide::effort::Effort;
use crate::ids::WorkloadId;

/// What it costs to count as taken what is set aside for one pod, of its queues and its node.
const STEPS_OF_ASIDE: usize = 256;

/// What is set aside for pods that others are evicted for: it counts as taken until it ends, except for those whose turn it is.
pub(in crate::decide) struct Aside {
    asides: Vec<SetAside>,
    /// Who is on his way out for them.
    leaving: Awaited,
    hold: Hold,
    /// Whether some of it counts as free at the moment.
    is_open: bool,
}

impl Aside {
    /// Counts everything that is set aside as taken.
    pub(in crate::decide) fn begin(cluster: &mut Cluster, now: Timestamp) -> Self {
        let mut aside = Self {
            asides: cluster.set_aside(None),
            leaving: Awaited::default(),
            hold: Hold::default(),
            is_open: false,
        };
        if !aside.asides.is_empty() {
            aside.leaving = cluster.awaited(now);
            aside.hold = cluster.hold(aside.asides.iter(), &aside.leaving, &BTreeSet::new());
        }
        aside
    }

    /// It is the turn of a shape: what is set aside for pods like it counts as free, and what is for those that stand behind it
    /// in its queue.
    pub(in crate::decide) fn open_for(&mut self, cluster: &mut Cluster, shape: &Shape) {
        self.open(cluster, |aside| aside.is_for(shape));
    }

    /// It is the turn of a group as a whole.
    pub(in crate::decide) fn open_for_group(&mut self, cluster: &mut Cluster, group: WorkloadId) {
        self.open(cluster, |aside| aside.shape.group == Some(group));
    }

    fn open(&mut self, cluster: &mut Cluster, whose: impl Fn(&SetAside) -> bool) {
        let (own, others): (Vec<_>, Vec<_>) = self.asides.iter().partition(|aside| whose(aside));
        if !own.is_empty() {
            cluster.release(&self.hold);
            let queues = own.iter().map(|aside| aside.looked_for).collect();
            self.hold = cluster.hold(others.into_iter(), &self.leaving, &queues);
            self.is_open = true;
        }
    }

    /// Its turn is over: whoever of them still waits keeps what is set aside for him. What it cost to count all that twice is the turn's.
    pub(in crate::decide) fn close(&mut self, cluster: &mut Cluster, effort: &Effort) {
        if std::mem::take(&mut self.is_open) {
            effort.spend(STEPS_OF_ASIDE.saturating_mul(self.asides.len()));
            cluster.release(&self.hold);
            self.asides.retain(|aside| cluster.still_waits(aside));
            self.hold = cluster.hold(self.asides.iter(), &self.leaving, &BTreeSet::new());
        }
    }

    /// Nothing counts as taken but what is.
    pub(in crate::decide) fn end(self, cluster: &mut Cluster) {
        cluster.release(&self.hold);
    }
}
