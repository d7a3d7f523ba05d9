//! Looks that run out of steps. The next look goes on where this one ended, and pods that no steps were left for keep what was
//! set aside for them. Nothing has shown that they are entitled to less by now, and the pods evicted for them would else have
//! gone in vain.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sets::Set;
use super::{Grant, Look, PODS_PER_LOOK};
use crate::cluster::Cluster;
use crate::cluster::aside::SetAside;
use crate::cluster::waiting::Shape;
use crate::decide::line::InLine;
use crate::decide::{fit, trail_pod};
use crate::ids::{NodeId, PodId, QueueId};
use crate::trail::Trail;

/// How many steps of a look that is cut short go into counting what others borrow as free for pods that keep something.
const STEPS_TO_KEEP: u64 = 1 << 20;

/// What the look before has set aside, by the pods that it is for.
type Earlier = BTreeMap<PodId, SetAside>;

/// A set, and the place of its first pod that no steps were left for.
type Left<'a> = (&'a Set, usize);

impl Look {
    /// Looks at all that waits in a queue, from where the last look at it ended. Returns how many sets the next look starts
    /// behind: 0 where all were looked at.
    pub(super) fn look_at_sets(
        &mut self,
        cluster: &mut Cluster,
        queue: QueueId,
        sets: &[Set],
        trail: &dyn Trail,
    ) -> usize {
        let earlier = cluster.asides_of(queue);
        let begun = Some(cluster.sets_looked_at(queue)).filter(|begun| *begun < sets.len());
        let begun = begun.unwrap_or(0);
        // The sets that no steps were left for come first now, or they never would. They get nothing of what is kept for the sets
        // before them.
        let (before, behind) = sets.split_at(begun);
        self.keep_for(cluster, &earlier, before.iter().map(|set| (set, 0)));
        let (kept, groups) = (self.assumed.len(), self.groups.clone());
        let mut left = Vec::new();
        let mut next = None;
        for (index, set) in behind.iter().chain(before).enumerate() {
            if index == behind.len() && kept > 0 && !self.effort.is_spent() {
                self.forget_first(cluster, kept);
                self.groups.retain(|group| !groups.contains(group));
            }
            let left_from = if self.effort.is_spent() {
                Some(0)
            } else if self.assumed.len() >= PODS_PER_LOOK {
                None
            } else {
                trail_pod(cluster, set.first(), queue, trail);
                self.look_at_set(cluster, set, index == 0)
            };
            if let Some(from) = left_from {
                left.push((set, from));
                // A set that has had all steps of a look is passed over next time, or it would be looked at for ever.
                next = next.or(Some(begun + index.max(1)));
            }
        }
        self.keep_for(cluster, &earlier, left.into_iter());
        next.filter(|next| *next < sets.len()).unwrap_or(0)
    }

    /// Looks at one set. Returns the place of its first pod that no steps were left for, or none. A pod or a gang that had all
    /// steps of a look is given up.
    fn look_at_set(&mut self, cluster: &mut Cluster, set: &Set, has_all_steps: bool) -> Option<usize> {
        match set {
            Set::OneByOne(shape, pods) => {
                for (index, pod) in pods.iter().enumerate() {
                    // Without steps, nothing would show which of the victims could be spared.
                    if self.effort.is_spent() {
                        return Some(index);
                    }
                    if self.assumed.len() >= PODS_PER_LOOK {
                        return None;
                    }
                    let (pods, effort) = ([(*pod, Arc::clone(shape))], self.effort.clone());
                    let make_room = |look: &mut Self, cluster: &mut _| look.make_room(cluster, shape, *pod, false);
                    if !self.before_borrowers(cluster, &pods, &effort, make_room) {
                        let is_given_up = has_all_steps && index == 0;
                        return (self.effort.is_spent() && !is_given_up).then_some(index);
                    }
                }
                None
            }
            Set::Together(id, pods) => {
                let effort = self.effort.clone();
                let make_room = |look: &mut Self, cluster: &mut _| look.make_room_for_all(cluster, *id, pods);
                let is_made = self.before_borrowers(cluster, pods, &effort, make_room);
                (!is_made && self.effort.is_spent() && !has_all_steps).then_some(0)
            }
        }
    }

    /// Counts these pods as let in where the look before expected them, as far as there still is room.
    fn keep_for<'s>(&mut self, cluster: &mut Cluster, earlier: &Earlier, left: impl Iterator<Item = Left<'s>>) {
        if earlier.is_empty() {
            return;
        }
        for (set, from) in left {
            match set {
                Set::OneByOne(shape, pods) => {
                    for pod in &pods[from..] {
                        if self.assumed.len() < PODS_PER_LOOK && earlier.contains_key(pod) {
                            self.keep_before_borrowers(cluster, &[(*pod, Arc::clone(shape))], |look, cluster| {
                                look.assume_again(cluster, earlier, *pod, shape, false)
                            });
                        }
                    }
                }
                Set::Together(id, pods) => {
                    let assumed = self.assumed.len();
                    let assume_again = |look: &mut Self, cluster: &mut Cluster| {
                        let mut pods = pods.iter();
                        pods.all(|(pod, shape)| look.assume_again(cluster, earlier, *pod, shape, true))
                    };
                    let is_kept = pods.iter().all(|(pod, _)| earlier.contains_key(pod));
                    if is_kept && assumed < PODS_PER_LOOK && self.keep_before_borrowers(cluster, pods, assume_again) {
                        self.groups.insert(*id);
                    } else {
                        self.forget_assumptions(cluster, assumed);
                    }
                }
            }
        }
    }

    /// Keeps what pods had before, [before borrowers](Self::before_borrowers), as long as there are steps for that. Then it is looked at beside all
    /// that is set aside.
    fn keep_before_borrowers(
        &mut self,
        cluster: &mut Cluster,
        pods: &[InLine],
        keep: impl FnOnce(&mut Self, &mut Cluster) -> bool,
    ) -> bool {
        if self.keeping.spent() > STEPS_TO_KEEP {
            return keep(self, cluster);
        }
        let effort = self.keeping.clone();
        self.before_borrowers(cluster, pods, &effort, keep)
    }

    fn assume_again(
        &mut self,
        cluster: &mut Cluster,
        earlier: &Earlier,
        id: PodId,
        shape: &Shape,
        may_borrow: bool,
    ) -> bool {
        let Some(aside) = earlier.get(&id).filter(|aside| cluster.still_waits(aside)) else {
            return false;
        };
        let alternative = aside.alternative();
        let something_gives_way = aside.is_by_eviction() || self.gives_way();
        let is_due = self.deserves(cluster, shape, id, alternative) || (may_borrow && aside.is_by_eviction());
        if !something_gives_way || !is_due || !cluster.has_quota_for(aside) {
            return false;
        }
        let node = match aside.node() {
            Some(name) => {
                self.keeping.look_at_node(shape);
                let takes =
                    |node: &NodeId| fit::ask(cluster, shape, alternative, cluster.node(*node)) == fit::Answer::Takes;
                let node = cluster.node_named(name).filter(takes);
                if node.is_none() {
                    return false;
                }
                node
            }
            None => None,
        };
        let grant = Grant {
            gpus: aside.gpus(),
            ..Grant::of(alternative, node)
        };
        self.assume(cluster, id, grant)
    }

    /// Counts the first `count` assumed pods as waiting again: it is their turn.
    fn forget_first(&mut self, cluster: &mut Cluster, count: usize) {
        for assumed in self.assumed.drain(..count).rev() {
            cluster.no_longer_assume(assumed);
        }
        // What was found out about other pods may rest on what was assumed.
        self.pools.close();
    }
}
