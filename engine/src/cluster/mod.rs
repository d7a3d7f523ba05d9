//! The state of the cluster: nodes with their cards, queues, pods, and what each pod holds. This is plain data, updated
//! event by event.
//!
//! The cost of an event depends on what it changes, not on the size of the cluster. Nothing here reads a clock or does
//! I/O: the time comes with the event. All sums are kept beside what they are sums of, and only the ledger can change them
//! (`Pen`).

mod admissions;
pub(crate) mod aside;
pub mod below;
mod beside_claims;
mod bindings;
mod cards;
mod changes;
pub(crate) mod choice;
mod claimed_cards;
pub(crate) mod claiming;
pub(crate) mod compared;
pub mod constraints;
mod controller;
pub(crate) mod deadlines;
pub mod device_cards;
pub(crate) mod device_room;
mod devices;
mod evaluating;
pub mod gates;
mod gpu_nodes;
pub mod gpus;
pub mod holders;
mod in_turn;
pub(crate) mod kept;
mod lapses;
mod leaving;
pub(crate) mod ledger;
pub mod levels;
mod lists;
mod members;
mod moved_groups;
mod namespaces;
mod naming;
mod naming_claims;
mod narrowed;
pub mod node;
mod node_changes;
mod node_order;
mod nodes;
mod other_gates;
mod outgrown;
mod parts;
mod paying;
pub mod place;
pub mod pod;
mod pods;
pub mod queue;
mod queues;
mod reading;
mod reading_claims;
pub mod reclaims;
mod reservations;
mod restless;
mod set_back;
mod times;
mod total;
pub mod tree;
mod unused_names;
pub mod waiting;
pub mod wholes;
pub mod workload;
mod workload_terms;
mod workloads;

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::configuration::Configuration;
use jiff::{SignedDuration, Timestamp};

use crate::ids::{NodeId, QueueId, WorkloadId};
use crate::names::Names;
use crate::table::Table;
use crate::texts::TextPool;
pub use admissions::Bookmark;
use cards::Cards;
pub use cards::{Card, Meaning, Tally};
pub use changes::{Changes, Span};
use deadlines::Deadlines;
use devices::ClaimedDevices;
use gpu_nodes::GpuNodes;
use in_turn::InTurn;
use lapses::Lapses;
use ledger::Pods;
pub use lists::Kind;
use lists::Lists;
use members::Members;
use moved_groups::MovedGroups;
pub use namespaces::Namespace;
use namespaces::Namespaces;
use node::Node;
use node_changes::NodeChanges;
use node_order::NodeOrder;
pub(crate) use pods::Allowance;
use queue::Queue;
use reclaims::Reclaims;
use reservations::Reservations;
pub(crate) use restless::Dependence;
use restless::{Rest, Watched};
use workload::Workload;

/// The state that all decisions are made from.
#[derive(Debug)]
pub struct Cluster {
    names: Names,
    configuration: Arc<Configuration>,
    texts: TextPool,
    nodes: Table<NodeId, Node>,
    /// Nodes that are there, by name.
    node_order: NodeOrder,
    node_changes: NodeChanges,
    /// Nodes that share cards through mGPU, by name.
    mgpu_nodes: NodeOrder,
    cards: Cards,
    gpu_nodes: GpuNodes,
    claimed: ClaimedDevices,
    kept_away: choice::KnownKeptAway,
    narrowed: narrowed::Narrowed,
    queues: Watched<QueueId, Queue>,
    rest: Rest,
    /// The queues in which pods have not been told why they wait.
    untold: BTreeSet<QueueId>,
    /// The root that all queues are parts of.
    top: tree::Top,
    reclaims: Reclaims,
    namespaces: Namespaces,
    workloads: Watched<WorkloadId, Workload>,
    members: Members,
    reservations: Reservations,
    /// Reservations that ran out unused.
    lapses: Lapses,
    /// Pods that somebody else's gate holds, and that have not been told so.
    held_elsewhere: InTurn,
    /// Pods that stand aside from the beginning, and have not been told so.
    standing_aside: InTurn,
    /// The time up to which due deadlines were last handled.
    now: Timestamp,
    /// By how much the clock has gone back since, in steps so small that no other times were moved back for them.
    stepped_back: SignedDuration,
    pods: Pods,
    deadlines: Deadlines,
    arrivals: u64,
    version: u64,
    /// Rises with everything, other than queues and workloads, that decisions depend on.
    stirred: u64,
    /// How often nodes, devices, queues or the configuration have said something else.
    prospects: u64,
    lists: Lists,
    changes: Changes,
    /// When it was last shown how much the cluster has.
    numbers_shown: Option<Timestamp>,
    /// Workloads whose progress is, or may be, another than it was last said to be.
    moved_workloads: BTreeSet<WorkloadId>,
    /// Groups that have come, gone or moved to another queue, and whose Jobs have not followed yet.
    moved_groups: MovedGroups,
    /// The pods and the workload that were told something last: others come first the next time.
    last_told: LastTold,
}

/// The pods that share a turn when pods are told why they wait: those of one namespace in one queue.
pub(crate) type Lane = (QueueId, Arc<str>);

/// Which pods and which workload were told something last.
#[derive(Debug, Default)]
struct LastTold {
    lane: Option<Lane>,
    workload: Option<(WorkloadId, Arc<str>)>,
}

impl Cluster {
    /// Returns a cluster of which nothing has been seen.
    pub fn new(configuration: Arc<Configuration>) -> Self {
        let mut cluster = Self {
            names: Names::default(),
            configuration,
            texts: TextPool::default(),
            nodes: Table::default(),
            node_order: NodeOrder::default(),
            node_changes: NodeChanges::default(),
            mgpu_nodes: NodeOrder::default(),
            cards: Cards::default(),
            gpu_nodes: GpuNodes::default(),
            claimed: ClaimedDevices::default(),
            kept_away: choice::KnownKeptAway::default(),
            narrowed: narrowed::Narrowed::default(),
            queues: Watched::default(),
            rest: Rest::default(),
            untold: BTreeSet::new(),
            top: tree::Top::default(),
            reclaims: Reclaims::default(),
            namespaces: Namespaces::default(),
            workloads: Watched::default(),
            members: Members::default(),
            reservations: Reservations::default(),
            lapses: Lapses::default(),
            held_elsewhere: InTurn::default(),
            standing_aside: InTurn::default(),
            now: Timestamp::MIN,
            stepped_back: SignedDuration::ZERO,
            pods: Pods::default(),
            deadlines: Deadlines::default(),
            arrivals: 0,
            version: 0,
            stirred: 0,
            prospects: 0,
            lists: Lists::default(),
            changes: Changes::default(),
            numbers_shown: None,
            moved_workloads: BTreeSet::new(),
            moved_groups: MovedGroups::default(),
            last_told: LastTold::default(),
        };
        cluster.refresh_gpu_nodes();
        cluster.refresh_card_drivers(Timestamp::MIN);
        cluster
    }

    /// Returns the names of cards and resources that were seen so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the workloads whose progress is to be told, since they have moved or were put off.
    pub(crate) fn take_moved_workloads(&mut self) -> BTreeSet<WorkloadId> {
        std::mem::take(&mut self.moved_workloads)
    }

    /// Leaves the progress of these workloads to be told another time.
    pub(crate) fn put_off(&mut self, workloads: impl IntoIterator<Item = WorkloadId>) {
        self.moved_workloads.extend(workloads);
    }

    /// Returns the lane whose pods were last told why they wait.
    pub(crate) fn last_told_lane(&self) -> Option<&Lane> {
        self.last_told.lane.as_ref()
    }

    /// Notes that a pod of this lane was told why it waits.
    pub(crate) fn note_told_lane(&mut self, lane: Lane) {
        self.last_told.lane = Some(lane);
    }

    /// Returns the workload that was last told how far it is, and its namespace.
    pub(crate) fn last_told_workload(&self) -> Option<(WorkloadId, Arc<str>)> {
        self.last_told.workload.clone()
    }

    /// Notes that a workload was told how far it is.
    pub(crate) fn note_told_workload(&mut self, id: WorkloadId) {
        self.last_told.workload = Some((id, Arc::clone(&self.workload(id).namespace)));
    }

    /// Returns the configuration in force.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Puts another configuration in force. What pods hold is counted anew under it, and every refusal is looked at again.
    pub fn set_configuration(&mut self, configuration: Arc<Configuration>, now: Timestamp) {
        let before = std::mem::replace(&mut self.configuration, configuration);
        self.prospects += 1;
        let enforced = before.cardgate.enforce_cross_quota;
        if before.cross_quota != self.configuration.cross_quota
            || enforced != self.configuration.cardgate.enforce_cross_quota
            || gpus::pins(&before) != gpus::pins(&self.configuration)
        {
            self.refresh_gpu_nodes();
        }
        self.refresh_card_drivers(now);
        self.top.go_stale(true);
        self.changes.queues.extend(self.queues.ids());
        self.name_cards_anew(|_| true);
        self.recharge(now, |_| true);
        if self.configuration.mgpu.enable && !before.mgpu.enable {
            self.note_all_unplaced();
        }
        if before.cardgate.unqueued_cards != self.configuration.cardgate.unqueued_cards {
            self.see_unqueued_anew(|_| true);
            self.charge_unqueued(|_| true, now);
            self.give_back_unqueued(now);
        }
        if before.cardgate.card_resources != self.configuration.cardgate.card_resources {
            self.resources_of_cards_changed();
            self.see_unqueued_anew(|_| true);
            self.charge_unqueued(|_| true, now);
            self.give_back_without_cards(now);
        }
        if before.cardgate.default_queue != self.configuration.cardgate.default_queue {
            self.see_unqueued_anew(|_| true);
            self.follow_names_of_queues(|_| true, now);
            self.find_queues(|_| true, now);
        }
        self.resettle_workloads(&before);
        self.review_all();
        self.version += 1;
    }

    /// A counter that rises with everything that may change what could be had if others held nothing: what nodes, devices,
    /// queues and the configuration say.
    pub(crate) fn prospects(&self) -> u64 {
        self.prospects
    }

    /// A counter that rises whenever a refused pod could now be let in for a reason that no queue and no node knows of.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}
