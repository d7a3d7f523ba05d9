//! The waiting pods of one queue, grouped by shape. Pods that nothing tells apart have the same shape and share one
//! verdict.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crds::scoring_strategy::ScoringStrategy;

use super::constraints::NodeConstraints;
use super::place::Place;
use super::wholes::{Whole, Wholes};
use crate::amounts::{Amounts, Totals};
use crate::ids::{PodId, QueueId, WorkloadId};
use crate::reason::Reason;
use crate::task::Task;

/// Everything that decides whether a pod gets in, except its age.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Traits {
    /// The queue that is charged for it.
    pub queue: QueueId,
    /// Its namespace, which the queue may exclude.
    pub namespace: Arc<str>,
    /// The group that it belongs to.
    pub group: Option<WorkloadId>,
    /// The task that it does in that group.
    pub task_spec: Option<Arc<str>>,
    /// Pods of higher priority go first within their queue.
    pub priority: i32,
    /// Whether pods of lower priority in its queue may be evicted for it. They may not where its priority class says
    /// `preemptionPolicy: Never`.
    pub preempts: bool,
    /// What it asks for.
    pub task: Task,
    /// Which nodes it may run on.
    pub constraints: NodeConstraints,
    /// How it orders GPU nodes, where `CrossQuota` decides where it goes.
    pub cross_quota: Option<ScoringStrategy>,
}

impl Traits {
    /// Returns the priority below which pods of its queue may be evicted for it.
    pub(crate) fn preempts_below(&self) -> i32 {
        if self.preempts { self.priority } else { i32::MIN }
    }
}

/// The traits together with their hash. Shapes are looked up several times in each decision, and hashing all traits each
/// time cost more than deciding.
#[derive(Debug)]
pub struct Shape {
    traits: Traits,
    hash: u64,
    /// A hash of the traits without the group, the task in it, and whether pods are evicted for it.
    hash_in_any_group: u64,
}

impl Shape {
    /// Returns a hash of the traits that is the same in whatever group.
    pub(crate) fn hash_in_any_group(&self) -> u64 {
        self.hash_in_any_group
    }
}

impl From<Traits> for Shape {
    fn from(traits: Traits) -> Self {
        let mut hasher = DefaultHasher::new();
        let Traits {
            queue,
            namespace,
            group,
            task_spec,
            priority,
            preempts,
            task,
            constraints,
            cross_quota,
        } = &traits;
        (queue, namespace, priority, cross_quota).hash(&mut hasher);
        (task, constraints).hash(&mut hasher);
        let hash_in_any_group = hasher.finish();
        (group, task_spec, preempts).hash(&mut hasher);
        Self {
            hash: hasher.finish(),
            hash_in_any_group,
            traits,
        }
    }
}

impl Deref for Shape {
    type Target = Traits;

    #[inline]
    fn deref(&self) -> &Traits {
        &self.traits
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.hash == other.hash && self.traits == other.traits
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Why a shape was refused, and what has to change before it is judged again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The reason in one word, as the pod's condition gives it.
    pub reason: Reason,
    /// How many levels from the queue upwards the refusal depends on.
    pub levels: usize,
    /// The sum of the versions of these levels at the refusal.
    pub queue_version: u64,
    /// The cluster's version at the refusal.
    pub cluster_version: u64,
    /// The workload's version at the refusal.
    pub workload_version: u64,
    /// How many node changes had happened by then.
    pub node_changes: u64,
    /// Whether a change of a node could help.
    pub nodes_matter: bool,
    /// The cards for which all nodes had been searched in vain, as bits.
    pub searched: u64,
    /// Whether no node that was searched would do, whatever came free on it, though the reason says that waiting may help:
    /// the pod may have other cards, for which quota is lacking.
    pub none_would_do: bool,
}

/// The waiting pods of one shape.
#[derive(Debug)]
pub struct Peers {
    /// The shape of these pods.
    pub shape: Arc<Shape>,
    /// The pods, in the order in which they go.
    pub pods: BTreeSet<Place>,
    /// The last verdict, where it was a refusal.
    pub refused: Option<Refused>,
    /// The pods that have not been told `refused.reason`, in the order in which they go.
    pub untold: BTreeSet<Place>,
}

/// The waiting pods of one queue.
#[derive(Debug, Default)]
pub struct Waiting {
    peers: BTreeMap<u64, Peers>,
    ids: HashMap<Arc<Shape>, u64>,
    /// The same pods, by the group or controller that they are parts of.
    wholes: Wholes,
    next_id: u64,
    /// The shapes with pods that have not been told why they wait.
    untold: BTreeSet<u64>,
    requested: Totals,
    count: usize,
    /// Pods that stand aside for a while, and the reason. Nobody looks at them, but they count, and are told why they
    /// wait, like the others.
    aside: BTreeMap<PodId, Reason>,
}

impl Waiting {
    /// Returns how many pods wait in line.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no pod waits in line.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how many pods wait, including pods that stand aside.
    pub fn len_in_all(&self) -> usize {
        self.count + self.aside.len()
    }

    /// Returns the pods that stand aside, and the reason.
    pub fn aside(&self) -> impl Iterator<Item = (PodId, Reason)> {
        self.aside.iter().map(|(id, reason)| (*id, *reason))
    }

    /// Notes that a pod stands aside, or with no reason that it does so no longer.
    pub(super) fn set_aside(&mut self, pod: PodId, reason: Option<Reason>) {
        match reason {
            Some(reason) => self.aside.insert(pod, reason),
            None => self.aside.remove(&pod),
        };
    }

    /// Returns what the pods in line ask for in all. A pod with alternatives counts with its first.
    pub fn requested(&self) -> &Totals {
        &self.requested
    }

    /// Returns the pods of each shape, in the order in which the shapes first appeared.
    pub fn peers(&self) -> impl Iterator<Item = (u64, &Peers)> {
        self.peers.iter().map(|(id, peers)| (*id, peers))
    }

    /// Returns the same pods, by the group or controller that they are parts of.
    pub fn wholes(&self) -> &Wholes {
        &self.wholes
    }

    /// Returns the shapes with pods that have not been told why they wait, in the order of [`Self::peers`].
    pub(crate) fn untold(&self) -> impl Iterator<Item = &Peers> {
        self.untold.iter().filter_map(|id| self.peers.get(id))
    }

    /// Returns the pods of the shape with this id.
    pub fn get(&self, id: u64) -> Option<&Peers> {
        self.peers.get(&id)
    }

    /// Remembers a refusal for the pods of a shape, and which pods have to be told about it.
    pub(super) fn remember(&mut self, shape: &Shape, refused: Refused) {
        let Some((id, peers)) = self.peers_to_change(shape) else {
            return;
        };
        let earlier = peers.refused.replace(refused);
        if earlier.map(|earlier| earlier.reason) != Some(refused.reason) {
            peers.untold.clone_from(&peers.pods);
            self.untold.insert(id);
        }
    }

    /// Notes that a pod of a shape has been told why it waits.
    pub(super) fn note_told(&mut self, shape: &Shape, place: Place) {
        if let Some((id, peers)) = self.peers_to_change(shape) {
            peers.untold.remove(&place);
            if peers.untold.is_empty() {
                self.untold.remove(&id);
            }
        }
    }

    fn peers_to_change(&mut self, shape: &Shape) -> Option<(u64, &mut Peers)> {
        let id = *self.ids.get(shape)?;
        Some((id, self.peers.get_mut(&id)?))
    }

    /// Returns the pods of this shape.
    pub fn peers_of(&self, shape: &Shape) -> Option<(u64, &Peers)> {
        let id = *self.ids.get(shape)?;
        Some((id, &self.peers[&id]))
    }

    /// Adds the pod that waits in this place, with what it asks for, what it is a part of, and what it was told. Returns
    /// whether the pod was not there before.
    pub(super) fn insert(
        &mut self,
        shape: &Arc<Shape>,
        place: Place,
        asked: &Amounts,
        whole: Option<Whole>,
        told: Option<Reason>,
    ) -> bool {
        let shape = Arc::clone(shape);
        let turn = (Reverse(shape.priority), place);
        let id = *self.ids.entry(Arc::clone(&shape)).or_insert_with(|| {
            self.next_id += 1;
            self.next_id
        });
        let peers = self.peers.entry(id).or_insert_with(|| Peers {
            shape,
            pods: BTreeSet::new(),
            refused: None,
            untold: BTreeSet::new(),
        });
        let is_new = peers.pods.insert(place);
        if is_new {
            self.wholes.insert(whole, turn, asked);
            self.count += 1;
            self.requested.add_all(asked);
        }
        if told.is_none() || told != peers.refused.map(|refused| refused.reason) {
            peers.untold.insert(place);
            self.untold.insert(id);
        }
        is_new
    }

    /// Removes the pod that waits or waited in this place, with what it asks for and what it is a part of. Returns whether
    /// the pod was there.
    pub(super) fn remove(&mut self, shape: &Shape, place: Place, asked: &Amounts, whole: Option<&Whole>) -> bool {
        let Some(id) = self.ids.get(shape).copied() else {
            return false;
        };
        let Some(peers) = self.peers.get_mut(&id) else {
            return false;
        };
        if peers.untold.remove(&place) && peers.untold.is_empty() {
            self.untold.remove(&id);
        }
        let was_there = peers.pods.remove(&place);
        if was_there {
            let turn = (Reverse(shape.priority), place);
            self.wholes.remove(whole, turn, asked);
            self.count -= 1;
            self.requested.subtract_all(asked);
        }
        if peers.pods.is_empty() {
            self.peers.remove(&id);
            self.ids.remove(shape);
        }
        was_there
    }
}
