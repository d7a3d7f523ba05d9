//! Lists of all objects of a kind: what they do not name is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Cluster;
use crate::refs::WorkloadKind;

/// The kinds of objects that are watched, each listed anew by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What has cards, and all else that pods use.
    Node,
    /// What pods are charged to.
    Queue,
    /// Their labels, by which queues take pods, and the queues that they name.
    Namespace,
    /// Groups that are let in as a whole.
    PodGroup,
    /// Those that Cardgate may hold until their queue takes them.
    Job,
    /// Those that run or wait, Cardgate's and others.
    Pod,
    /// Devices that drivers publish.
    ResourceSlice,
    /// What administrators name of devices.
    DeviceClass,
    /// Taints that administrators put on devices.
    DeviceTaintRule,
    /// What pods claim of devices.
    ResourceClaim,
    /// Pods that have succeeded: they hold nothing, and count toward the minimum of their groups.
    SucceededPod,
}

impl Kind {
    /// Each of them once.
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

/// How often each kind was listed, and what is not there to be listed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Whether pods are to be seen as for the first time, of which more is to be known than was kept.
    pub(super) pods_again: bool,
    /// How many lists of each kind have begun.
    epochs: BTreeMap<Kind, u64>,
    /// Whether the cluster has no `PodGroup`s at all: then pods that name one are pods like others.
    groups_absent: bool,
}

impl Cluster {
    /// A list of all objects of a kind begins: what it does not name is gone when it ends. A list that is broken off and
    /// begun again forgets nothing.
    pub(crate) fn begin_list(&mut self, kind: Kind) {
        *self.lists.epochs.entry(kind).or_default() += 1;
    }

    /// Whether all pods are to be listed once more, since this was asked last: some say more than was kept of them, which matters now, or
    /// would be read otherwise were they seen for the first time.
    pub fn take_pods_wanted(&mut self) -> bool {
        std::mem::take(&mut self.lists.pods_again)
    }

    /// The list is complete.
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

    /// A kind is not installed: it has no objects.
    pub(crate) fn not_installed(&mut self, kind: Kind, now: Timestamp) {
        // What was there is gone, though no list names it.
        self.begin_list(kind);
        self.end_list(kind, now);
        if kind == Kind::ResourceClaim {
            self.claims_are_there(false);
        }
        if kind == Kind::PodGroup && !std::mem::replace(&mut self.lists.groups_absent, true) {
            self.version += 1;
        }
    }

    /// Whether the cluster has no `PodGroup`s at all: then pods that name one are pods like others.
    pub(crate) fn groups_are_absent(&self) -> bool {
        self.lists.groups_absent
    }

    pub(super) fn epoch(&self, kind: Kind) -> u64 {
        self.lists.epochs.get(&kind).copied().unwrap_or_default()
    }
}
