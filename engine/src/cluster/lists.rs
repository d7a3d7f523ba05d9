//! Lists of all objects of a kind: objects that a complete list does not name are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use crate::refs::WorkloadKind;

/// The kinds of objects that are watched. Each kind is listed anew by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes, which have cards and everything else that pods use.
    Node,
    /// Queues, which are charged for pods.
    Queue,
    /// Namespaces: their labels, by which queues take pods, and the queues that they name.
    Namespace,
    /// Groups, which are let in as a whole.
    PodGroup,
    /// Jobs, which Cardgate may hold until their queue takes them.
    Job,
    /// Pods that run or wait, managed by Cardgate or not.
    Pod,
    /// Devices that drivers publish.
    ResourceSlice,
    /// The names that administrators give to kinds of devices.
    DeviceClass,
    /// Taints that administrators put on devices.
    DeviceTaintRule,
    /// The devices that pods claim.
    ResourceClaim,
    /// Pods that have succeeded. They hold nothing, and count toward the minimum of their groups.
    SucceededPod,
}

impl Kind {
    /// All kinds, each once.
    pub const ALL: [Self; 11] = [
        Self::Node,
        Self::Queue,
        Self::Namespace,
        Self::PodGroup,
        Self::Job,
        Self::Pod,
        Self::ResourceSlice,
        Self::DeviceClass,
        Self::DeviceTaintRule,
        Self::ResourceClaim,
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
            Self::ResourceSlice => "resourceslices",
            Self::DeviceClass => "deviceclasses",
            Self::DeviceTaintRule => "devicetaintrules",
            Self::ResourceClaim => "resourceclaims",
            Self::SucceededPod => "succeeded pods",
        }
    }
}

/// How often each kind was listed, and which kinds do not exist.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Whether all pods are to be listed once more as if seen for the first time, since more is to be known of some of
    /// them than was kept.
    pub(super) pods_again: bool,
    /// How many lists of each kind have begun.
    epochs: BTreeMap<Kind, u64>,
    /// Whether the cluster has no `PodGroup`s at all. Pods that name a group are then pods like others.
    groups_absent: bool,
}

impl Cluster {
    /// Begins a list of all objects of a kind. Objects that the list does not name are gone when it ends. A list that is
    /// broken off and begun again forgets nothing.
    pub(crate) fn begin_list(&mut self, kind: Kind) {
        *self.lists.epochs.entry(kind).or_default() += 1;
    }

    /// Returns whether all pods are to be listed once more, since the last call: some say more than was kept of them, and
    /// it matters now, or they would be read otherwise if they were seen for the first time.
    pub fn take_pods_wanted(&mut self) -> bool {
        std::mem::take(&mut self.lists.pods_again)
    }

    /// Ends a list that is complete.
    pub(crate) fn end_list(&mut self, kind: Kind, now: Timestamp) {
        let epoch = self.epoch(kind);
        match kind {
            Kind::Node => {
                let stale = self.nodes_by_name().iter().copied();
                let stale = stale.filter(|id| self.node(*id).is_missing_in(epoch));
                for id in stale.collect::<Vec<_>>() {
                    self.remove_node_by_id(id, now);
                }
            }
            Kind::Queue => {
                let stale = self.queues().filter(|(_, queue)| queue.is_missing_in(epoch));
                for name in stale.map(|(_, queue)| Arc::clone(&queue.name)).collect::<Vec<_>>() {
                    self.remove_queue(&name);
                }
            }
            Kind::Namespace => {
                self.remove_unlisted_namespaces(epoch, now);
                self.version += 1;
            }
            Kind::PodGroup => {
                if std::mem::take(&mut self.lists.groups_absent) {
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
            Kind::ResourceSlice | Kind::DeviceClass | Kind::DeviceTaintRule | Kind::ResourceClaim => {
                self.forget_unlisted_devices(kind, epoch, now);
                if kind == Kind::ResourceClaim {
                    self.claims_are_there(true);
                }
            }
            Kind::SucceededPod => self.forget_unlisted_succeeded(epoch),
        }
    }

    /// Notes that a kind is not installed and has no objects.
    pub(crate) fn not_installed(&mut self, kind: Kind, now: Timestamp) {
        // Objects that were there are gone, though no list says so.
        self.begin_list(kind);
        self.end_list(kind, now);
        if kind == Kind::ResourceClaim {
            self.claims_are_there(false);
        }
        if kind == Kind::PodGroup && !std::mem::replace(&mut self.lists.groups_absent, true) {
            self.version += 1;
        }
    }

    /// Whether the cluster has no `PodGroup`s at all. Pods that name a group are then pods like others.
    pub(crate) fn groups_are_absent(&self) -> bool {
        self.lists.groups_absent
    }

    pub(super) fn epoch(&self, kind: Kind) -> u64 {
        self.lists.epochs.get(&kind).copied().unwrap_or_default()
    }
}
