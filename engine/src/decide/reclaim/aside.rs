//! Room that is set aside, and for which pods it counts as free while others are judged.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::entitled::Asked;
use crate::cluster::Cluster;
use crate::cluster::aside::{Awaited, SetAside};
use crate::cluster::ledger::Hold;
use crate::cluster::levels::ALL_LEVELS;
use crate::cluster::waiting::{Refused, Shape};
use crate::decide::effort::Effort;
use crate::decide::line::{InLine, first_missing, line};
use crate::decide::verdict;
use crate::ids::WorkloadId;

/// The steps that it costs to count as taken what is set aside for one pod, in its queues and on its node.
pub(super) const STEPS_OF_ASIDE: usize = 256;

/// What is set aside for pods that others are evicted for. It counts as taken until [`Self::end`], except for the pods whose turn
/// it is.
pub(in crate::decide) struct Aside {
    asides: Vec<SetAside>,
    /// The pods that are on their way out for them.
    leaving: Awaited,
    hold: Hold,
    /// Whether some of it counts as free in the present turn.
    is_open: bool,
    /// What that has cost, in steps, which the turn pays.
    cost: usize,
    /// The shapes whose turn it is and that are not entitled to what others borrow. Whether they are depends on all levels above.
    not_entitled: Vec<Arc<Shape>>,
}

impl Aside {
    /// Counts everything that is set aside as taken.
    pub(in crate::decide) fn begin(cluster: &mut Cluster, now: Timestamp) -> Self {
        let mut aside = Self {
            asides: cluster.set_aside(None),
            leaving: Awaited::default(),
            hold: Hold::default(),
            is_open: false,
            cost: 0,
            not_entitled: Vec::new(),
        };
        if !aside.asides.is_empty() {
            aside.leaving = cluster.awaited(now);
            aside.hold = cluster.hold(aside.asides.iter(), &aside.leaving, &BTreeSet::new());
        }
        aside
    }

    /// Begins the turn of a shape: of the pods that its `gang` is missing, or of the first pod of the shape. What is set aside for pods
    /// like it counts as free now, and what is set aside for pods that stand behind it in its queue. Where the pods are entitled to
    /// what they ask for, so does what is set aside for pods of other queues that merely borrow that.
    pub(in crate::decide) fn open_for(&mut self, cluster: &mut Cluster, shape: &Arc<Shape>, gang: Option<WorkloadId>) {
        let is_own = |aside: &SetAside| aside.is_for(shape);
        if self.asides.iter().any(|aside| !aside.borrowed.is_empty()) {
            let pods = gang.map_or_else(|| first_of(cluster, shape), |gang| all_that_may_get_in(cluster, gang));
            let asked = Asked::by(cluster, &pods);
            self.cost += asked.cost;
            let lent = self.asides.iter().enumerate();
            let lent: BTreeSet<_> = lent
                .filter(|(_, aside)| asked.goes_before(cluster, aside))
                .map(|(index, _)| index)
                .collect();
            if !lent.is_empty() {
                let shapes: HashSet<_> = pods.iter().map(|(_, shape)| Arc::clone(shape)).collect();
                if asked.is_within_own_deserved(cluster) {
                    self.open(cluster, is_own, &lent);
                    if asked.is_within_deserved(cluster) {
                        for shape in &shapes {
                            search_all_again(cluster, shape);
                        }
                        return;
                    }
                }
                self.not_entitled.extend(shapes);
            }
        }
        self.open(cluster, is_own, &BTreeSet::new());
    }

    /// Begins the turn of a group as a whole.
    pub(in crate::decide) fn open_for_group(&mut self, cluster: &mut Cluster, group: WorkloadId) {
        self.open(cluster, |aside| aside.shape.group == Some(group), &BTreeSet::new());
    }

    /// Counts what is set aside for the pods whose turn it is as free, and what is lent to them: the asides at these places.
    fn open(&mut self, cluster: &mut Cluster, is_own: impl Fn(&SetAside) -> bool, lent: &BTreeSet<usize>) {
        let own = self.asides.iter().filter(|aside| is_own(aside));
        let queues: BTreeSet<_> = own.map(|aside| aside.looked_for).collect();
        if queues.is_empty() && lent.is_empty() && !self.is_open {
            return;
        }
        let others = self.asides.iter().enumerate();
        let others = others.filter(|(index, aside)| !is_own(aside) && !lent.contains(index));
        cluster.release(&self.hold);
        self.hold = cluster.hold(others.map(|(_, aside)| aside), &self.leaving, &queues);
        self.is_open = true;
        self.cost += STEPS_OF_ASIDE.saturating_mul(self.asides.len());
    }

    /// Ends the turn. Pods that still wait keep what is set aside for them. The turn pays for counting all that again.
    pub(in crate::decide) fn close(&mut self, cluster: &mut Cluster, effort: &Effort) {
        for shape in self.not_entitled.drain(..) {
            depend_on_all_levels(cluster, &shape);
        }
        effort.spend(std::mem::take(&mut self.cost));
        if std::mem::take(&mut self.is_open) {
            cluster.release(&self.hold);
            self.asides.retain(|aside| cluster.still_waits(aside));
            self.hold = cluster.hold(self.asides.iter(), &self.leaving, &BTreeSet::new());
        }
    }

    /// Stops counting anything as taken but what is.
    pub(in crate::decide) fn end(self, cluster: &mut Cluster) {
        cluster.release(&self.hold);
    }
}

/// Returns the first of the waiting pods of a shape.
fn first_of(cluster: &Cluster, shape: &Arc<Shape>) -> Vec<InLine> {
    let peers = cluster.queue(shape.queue).waiting.peers_of(shape);
    let first = peers.and_then(|(_, peers)| peers.pods.first());
    first.map(|place| (place.pod, Arc::clone(shape))).into_iter().collect()
}

/// Returns the pods that a gang is missing, first to go first. It returns none where other pods of the gang may get in in their place, which
/// ask for something else: nothing can be lent to those that then may go to others.
fn all_that_may_get_in(cluster: &Cluster, gang: WorkloadId) -> Vec<InLine> {
    let (pods, line) = (first_missing(cluster, gang), line(cluster, gang));
    let are_alike = || line.iter().all(|(_, shape)| *shape == line[0].1);
    if pods.len() == line.len() || are_alike() {
        pods
    } else {
        Vec::new()
    }
}

/// Makes the next search ask all nodes: what was found out earlier does not hold for the nodes that others borrow.
fn search_all_again(cluster: &mut Cluster, shape: &Shape) {
    if let Some(refused) = refused(cluster, shape) {
        cluster.remember_refusal(shape, Refused { searched: 0, ..refused });
    }
}

/// Makes a refusal of the shape, whatever its reason, depend on all levels: anything that its queue, or one above it, gives back
/// may entitle the shape to what others borrow.
fn depend_on_all_levels(cluster: &mut Cluster, shape: &Shape) {
    let refused = refused(cluster, shape);
    if let Some(refused) = refused.filter(|refused| verdict::stands(cluster, shape.queue, shape.group, *refused)) {
        cluster.remember_refusal(shape, refused.with_levels(cluster, shape.queue, ALL_LEVELS));
    }
}

fn refused(cluster: &Cluster, shape: &Shape) -> Option<Refused> {
    cluster.queue(shape.queue).waiting.peers_of(shape)?.1.refused
}
