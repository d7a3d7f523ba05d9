//! What is: nodes with their cards, queues, pods, and what each pod holds. Plain data, updated event by event.
//!
//! Every event costs what it changes, not what the cluster holds. Nothing here reads a clock or talks to anybody: time
//! comes with the event. All sums live beside what they are sums of, and the ledger alone can change them ([`Booked`]).

mod admissions;
pub mod below;
mod bindings;
mod cards;
mod claims;
pub mod constraints;
mod deadlines;
pub mod gpu_nodes;
pub mod gpus;
mod lapses;
mod ledger;
pub mod levels;
mod members;
mod naming;
pub mod node;
mod nodes;
pub mod pod;
mod pods;
pub mod queue;
mod queues;
pub mod reclaims;
mod reservations;
mod total;
pub mod tree;
mod unused_names;
pub mod waiting;
pub mod workload;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crds::configuration::Configuration;
use crds::lean::TextMap;
use jiff::Timestamp;

use crate::ids::{NodeId, PodId, QueueId, WorkloadId};
use crate::names::{CardId, Names, ResourceId};
use crate::refs::WorkloadKind;
use crate::table::Table;
pub use admissions::Bookmark;
pub use cards::{Card, Meaning, Tally};
pub use deadlines::Due;
use gpu_nodes::GpuNodes;
pub use ledger::Booked;
use node::Node;
use pod::{Controller, Pod};
use queue::Queue;
use workload::Workload;

/// Texts that many objects share: label keys and values, namespaces.
#[derive(Debug, Default)]
pub struct TextPool {
    texts: HashSet<Arc<str>>,
    /// How many texts there were after the last sweep.
    swept: usize,
}

/// Below so many texts a pool is not swept.
const SMALL_POOL: usize = 1024;

impl TextPool {
    /// The shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        // Nodes come and go, each with its own name among its labels. Swept when it has doubled, so that a text costs the
        // same however many there are.
        if self.texts.len() >= 2 * self.swept.max(SMALL_POOL) {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.swept = self.texts.len();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        shared
    }
}

/// What a namespace says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels, which queues select by.
    pub labels: TextMap<Box<str>>,
    /// The queue of its pods that name none.
    pub queue: Option<Box<str>>,
    epoch: u64,
}

/// The kinds of objects that are watched, each listed anew by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Queues.
    Queue,
    /// Namespaces.
    Namespace,
    /// `PodGroup`s.
    PodGroup,
    /// Jobs.
    Job,
    /// Pods.
    Pod,
    /// Pods that have succeeded: they hold nothing, and count toward the minimum of their groups.
    SucceededPod,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::Queue,
        Self::Namespace,
        Self::PodGroup,
        Self::Job,
        Self::Pod,
        Self::SucceededPod,
    ];

    /// The kind's name in lists.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Queue => "queues",
            Self::Namespace => "namespaces",
            Self::PodGroup => "podgroups",
            Self::Job => "jobs",
            Self::Pod => "pods",
            Self::SucceededPod => "succeeded pods",
        }
    }
}

/// What there is to show again: what has changed since it was shown last.
#[derive(Debug, Default)]
pub struct Changes {
    /// Nodes that say something else than before.
    pub nodes: BTreeSet<NodeId>,
    /// Nodes whose room is used differently.
    pub node_usage: BTreeSet<NodeId>,
    /// Nodes that are gone, by name and uid.
    pub nodes_gone: Vec<(Arc<str>, Box<str>)>,
    /// Nodes whose annotations on quotas for pods without GPU can't be read, or can be read again.
    pub bad_quotas: BTreeSet<NodeId>,
    /// Cards whose nodes have changed.
    pub cards: BTreeSet<CardId>,
    /// Cards whose use has changed.
    pub card_usage: BTreeSet<CardId>,
    /// Bound pods whose mGPU cards nobody has written on them, by uid.
    pub unplaced_gpu_pods: Vec<Arc<str>>,
    /// Admitted pods whose condition still says that they wait, by uid.
    pub shown_as_waiting: Vec<Arc<str>>,
    /// Queues that say or hold something else than before.
    pub queues: BTreeSet<QueueId>,
    /// Whether the cluster has more or less of anything.
    pub total: bool,
}

/// Everything that decisions are made from.
#[derive(Debug)]
pub struct Cluster {
    names: Names,
    configuration: Arc<Configuration>,
    texts: TextPool,
    nodes: Table<NodeId, Node>,
    /// Nodes that are there, by name.
    node_order: Vec<NodeId>,
    /// Node by node, each change that may make room, oldest first.
    node_changes: Vec<NodeId>,
    node_changes_before: u64,
    /// Nodes that share cards through mGPU, by name.
    mgpu_nodes: Vec<NodeId>,
    /// Where the search for a node goes on for pods that name no card.
    cursor: usize,
    cards: Vec<Card>,
    /// The resources by which nodes have been found to have cards.
    card_resources: BTreeSet<ResourceId>,
    gpu_nodes: GpuNodes,
    queues: Table<QueueId, Queue>,
    /// What all queues are parts of.
    top: tree::Top,
    /// Whether queues say something else about their places or guarantees than the tree has.
    tree_is_stale: bool,
    /// Queues that were looked at for what others are to give back.
    reclaims: BTreeMap<QueueId, reclaims::Reclaim>,
    namespaces: BTreeMap<Box<str>, Namespace>,
    workloads: Table<WorkloadId, Workload>,
    /// Workloads of which some pods hold quota, and others that belong to the minimum wait.
    incomplete: BTreeSet<WorkloadId>,
    workload_deadlines: BTreeSet<(Timestamp, WorkloadId)>,
    /// Workloads that were in their queues when this program began to lead.
    let_in_before: BTreeSet<WorkloadId>,
    /// Whether anything has been decided yet.
    has_decided: bool,
    /// Reservations that nobody used.
    lapses: lapses::Lapses,
    /// Queues that may have come to refuse those for whom they keep something.
    unreviewed: BTreeSet<QueueId>,
    /// When what time brings was looked at last.
    now: Timestamp,
    /// Members of groups that have succeeded, by uid.
    succeeded: BTreeMap<Arc<str>, members::Succeeded>,
    /// Whether the cluster has no `PodGroup`s at all: then pods that name one are pods like others.
    groups_absent: bool,
    pods: Table<PodId, Option<Pod>>,
    /// How many pods ask for devices by resource claims.
    pods_with_resource_claims: usize,
    deadlines: BTreeSet<(Timestamp, PodId)>,
    returns: HashMap<Controller, deadlines::Return>,
    arrivals: u64,
    version: u64,
    epochs: BTreeMap<Kind, u64>,
    changes: Changes,
    /// Workloads that are elsewhere on their way than when it was last said how far they are, or may be.
    moved_workloads: BTreeSet<WorkloadId>,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(configuration: Arc<Configuration>) -> Self {
        let mut cluster = Self {
            names: Names::default(),
            configuration,
            texts: TextPool::default(),
            nodes: Table::default(),
            node_order: Vec::new(),
            node_changes: Vec::new(),
            node_changes_before: 0,
            mgpu_nodes: Vec::new(),
            cursor: 0,
            cards: Vec::new(),
            card_resources: BTreeSet::new(),
            gpu_nodes: GpuNodes::default(),
            queues: Table::default(),
            top: tree::Top::default(),
            tree_is_stale: false,
            reclaims: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            workloads: Table::default(),
            incomplete: BTreeSet::new(),
            workload_deadlines: BTreeSet::new(),
            let_in_before: BTreeSet::new(),
            has_decided: false,
            lapses: lapses::Lapses::default(),
            unreviewed: BTreeSet::new(),
            now: Timestamp::MIN,
            succeeded: BTreeMap::new(),
            groups_absent: false,
            pods: Table::default(),
            pods_with_resource_claims: 0,
            deadlines: BTreeSet::new(),
            returns: HashMap::new(),
            arrivals: 0,
            version: 0,
            epochs: BTreeMap::new(),
            changes: Changes::default(),
            moved_workloads: BTreeSet::new(),
        };
        cluster.refresh_gpu_nodes();
        cluster
    }

    /// The names of cards and resources that were seen so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What has changed since this was asked last.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// The workloads of which it is to be said how far they are, since they have moved or were put off.
    pub(crate) fn take_moved_workloads(&mut self) -> BTreeSet<WorkloadId> {
        std::mem::take(&mut self.moved_workloads)
    }

    /// How far these workloads are is said another time.
    pub(crate) fn put_off(&mut self, workloads: impl IntoIterator<Item = WorkloadId>) {
        self.moved_workloads.extend(workloads);
    }

    /// The configuration in force.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Puts another configuration in force: what pods hold is counted anew under it, and every refusal looked at again.
    pub fn set_configuration(&mut self, configuration: Arc<Configuration>, now: Timestamp) {
        let before = std::mem::replace(&mut self.configuration, configuration);
        if before.cross_quota != self.configuration.cross_quota {
            self.refresh_gpu_nodes();
        }
        self.tree_is_stale = true;
        self.changes.queues.extend(self.queues.ids());
        self.name_cards_anew(|_| true);
        self.recharge(now, |_| true);
        if before.cardgate.default_queue != self.configuration.cardgate.default_queue {
            self.find_queues(|_| true, now);
        }
        self.resettle_workloads();
        self.review_all();
        self.version += 1;
    }

    /// Rises whenever a refused pod could now be let in for a reason that no queue and no node knows of.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A list of all objects of a kind begins: what it does not name is gone when it ends. A list that is broken off and
    /// begun again forgets nothing.
    pub fn begin_list(&mut self, kind: Kind) {
        *self.epochs.entry(kind).or_default() += 1;
    }

    /// The list is complete.
    pub fn end_list(&mut self, kind: Kind, now: Timestamp) {
        let epoch = self.epoch(kind);
        match kind {
            Kind::Node => {
                let stale: Vec<_> = self
                    .node_order
                    .iter()
                    .copied()
                    .filter(|id| self.node(*id).epoch < epoch)
                    .collect();
                for id in stale {
                    self.remove_node_by_id(id, now);
                }
            }
            Kind::Queue => {
                let stale = |queue: &Queue| queue.terms.is_some() && queue.epoch < epoch;
                let stale = self.queues().filter(|(_, queue)| stale(queue));
                for name in stale.map(|(_, queue)| Arc::clone(&queue.name)).collect::<Vec<_>>() {
                    self.remove_queue(&name);
                }
            }
            Kind::Namespace => {
                let stale = self.namespaces.iter().filter(|(_, namespace)| namespace.epoch < epoch);
                for name in stale.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                    self.remove_namespace(&name, now);
                }
                self.version += 1;
            }
            Kind::PodGroup => {
                if std::mem::take(&mut self.groups_absent) {
                    self.version += 1;
                }
                self.remove_unlisted_workloads(WorkloadKind::PodGroup, epoch);
            }
            Kind::Job => self.remove_unlisted_workloads(WorkloadKind::Job, epoch),
            Kind::Pod => {
                let stale = self.pods().filter(|pod| pod.epoch < epoch);
                for uid in stale.map(|pod| Arc::clone(&pod.uid)).collect::<Vec<_>>() {
                    self.remove_pod(&uid);
                }
            }
            Kind::SucceededPod => self.forget_unlisted_succeeded(epoch),
        }
    }

    /// A kind is not installed: it has no objects.
    pub fn not_installed(&mut self, kind: Kind, now: Timestamp) {
        self.end_list(kind, now);
        if kind == Kind::PodGroup && !std::mem::replace(&mut self.groups_absent, true) {
            self.version += 1;
        }
    }

    /// Whether the cluster has no `PodGroup`s at all: then pods that name one are pods like others.
    pub fn groups_are_absent(&self) -> bool {
        self.groups_absent
    }

    /// Workloads of which some pods hold quota, and others that belong to the minimum wait.
    pub fn incomplete(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        self.incomplete.iter().copied()
    }

    fn epoch(&self, kind: Kind) -> u64 {
        self.epochs.get(&kind).copied().unwrap_or_default()
    }

    /// Takes what a namespace says.
    pub fn apply_namespace(&mut self, name: &str, labels: TextMap<Box<str>>, queue: Option<&str>, now: Timestamp) {
        let namespace = Namespace {
            labels,
            queue: queue.filter(|name| !name.is_empty()).map(Into::into),
            epoch: self.epoch(Kind::Namespace),
        };
        let before = self.namespaces.insert(name.into(), namespace.clone());
        if before.as_ref() != Some(&namespace) {
            let same_queue = before.and_then(|before| before.queue) == namespace.queue;
            self.namespace_changed(name, same_queue, now);
        }
    }

    /// Forgets a namespace.
    pub fn remove_namespace(&mut self, name: &str, now: Timestamp) {
        if let Some(before) = self.namespaces.remove(name) {
            self.namespace_changed(name, before.queue.is_none(), now);
        }
    }

    /// A namespace says something else, which queues select by, and which names a queue for what names none.
    fn namespace_changed(&mut self, name: &str, same_queue: bool, now: Timestamp) {
        self.version += 1;
        self.review_all();
        if !same_queue {
            self.find_queues(|workload| &*workload.namespace == name, now);
        }
    }

    /// What a namespace says.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }
}
