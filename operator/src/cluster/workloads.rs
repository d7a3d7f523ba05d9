//! Workloads come, change and go.

use std::sync::Arc;

use super::workload::{Claim, Said, Workload, WorkloadId, WorkloadKind};
use super::{Cluster, Kind};

impl Cluster {
    pub(super) fn apply_claim(&mut self, kind: WorkloadKind, namespace: &str, name: &str, claim: Claim) {
        let id = self.workload_id(kind, namespace, name);
        let epoch = self.epoch(kind.watched());
        let workload = &mut self.workloads[id.index()];
        workload.epoch = epoch;
        if workload.claim.as_ref() == Some(&claim) {
            return;
        }
        let queue = claim.queue;
        let (said, uid) = (claim.said, Arc::clone(&claim.uid));
        // Somebody else has made it show something else.
        let shows = claim.phase.clone();
        let before = workload.claim.replace(claim);
        let changed = before.as_ref().is_some_and(|before| before.phase != shows);
        if changed && shows.as_deref() != workload.shown.map(|(phase, _)| phase.as_str()) {
            workload.shown = None;
        }
        let another = before.as_ref().is_some_and(|before| before.uid != uid);
        // A Job that is suspended again has given up its place; its pods are gone or going.
        let again = kind == WorkloadKind::Job
            && said == Said::Waiting
            && before.as_ref().is_some_and(|before| before.said != Said::Waiting);
        if before.is_none() || another {
            // What ran for an earlier one of its name has nothing to do with it.
            workload.ran = workload.admitted() > 0;
        }
        if again {
            workload.ran = false;
        }
        if another || again {
            workload.enqueued = false;
            workload.told = None;
            workload.shown = None;
        }
        workload.refused = None;
        workload.version += 1;
        self.queues[queue.index()].members += 1;
        self.unreserve(id);
        if let Some(before) = before {
            self.queues[before.queue.index()].members -= 1;
            self.forget_empty_queue(before.queue);
        }
        self.rebalance(id);
        self.settle(id);
    }

    pub(super) fn remove_claim(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        let Some(id) = self.workload_named(kind, namespace, name) else {
            return;
        };
        let workload = &mut self.workloads[id.index()];
        let Some(claim) = workload.claim.take() else { return };
        workload.enqueued = false;
        workload.refused = None;
        workload.told = None;
        workload.shown = None;
        workload.version += 1;
        self.rebalance(id);
        self.settle(id);
        self.queues[claim.queue.index()].held.remove(&id);
        self.queues[claim.queue.index()].members -= 1;
        self.forget_empty_queue(claim.queue);
        self.forget_empty_workload(id);
    }

    /// Forgets what workloads of this kind said that a complete list has not named.
    pub(super) fn remove_unlisted_workloads(&mut self, kind: WorkloadKind, epoch: u64) {
        let stale = |workload: &&Workload| workload.kind == kind && workload.claim.is_some() && workload.epoch < epoch;
        let stale = self.workloads.iter().filter(stale);
        let names: Vec<_> = stale
            .map(|stale| (Arc::clone(&stale.namespace), Arc::clone(&stale.name)))
            .collect();
        for (namespace, name) in names {
            self.remove_claim(kind, &namespace, &name);
        }
    }

    /// The workload with this id.
    pub fn workload(&self, id: WorkloadId) -> &Workload {
        &self.workloads[id.index()]
    }

    /// The workload with this id, to be changed.
    pub(crate) fn workload_mut(&mut self, id: WorkloadId) -> &mut Workload {
        &mut self.workloads[id.index()]
    }

    /// The workload with this name.
    pub fn workload_named(&self, kind: WorkloadKind, namespace: &str, name: &str) -> Option<WorkloadId> {
        self.workload_ids.get(&*key(kind, namespace, name)).copied()
    }

    /// Every workload that is there or that pods name.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadId, &Workload)> {
        let there = |workload: &Workload| workload.claim.is_some() || workload.named > 0;
        let ids = (0..).map(WorkloadId);
        ids.zip(&self.workloads).filter(move |(_, workload)| there(workload))
    }

    /// The id of a workload, whether it is there or only named by a pod.
    pub(super) fn workload_id(&mut self, kind: WorkloadKind, namespace: &str, name: &str) -> WorkloadId {
        let key = key(kind, namespace, name);
        if let Some(id) = self.workload_ids.get(&*key) {
            return *id;
        }
        self.arrivals += 1;
        let workload = Workload::new(kind, self.texts.get(namespace), name, self.arrivals);
        let id = if let Some(id) = self.free_workloads.pop() {
            self.workloads[id.index()] = workload;
            id
        } else {
            self.workloads.push(workload);
            WorkloadId(u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX))
        };
        self.workload_ids.insert(key, id);
        id
    }

    pub(super) fn forget_empty_workload(&mut self, id: WorkloadId) {
        let workload = &self.workloads[id.index()];
        if workload.claim.is_none() && workload.named == 0 {
            let key = key(workload.kind, &workload.namespace, &workload.name);
            if self.workload_ids.remove(&*key).is_some() {
                self.free_workloads.push(id);
            }
        }
    }
}

impl WorkloadKind {
    /// The kind under which objects of this kind are watched.
    const fn watched(self) -> Kind {
        match self {
            Self::PodGroup => Kind::PodGroup,
            Self::Job => Kind::Job,
        }
    }
}

/// The same text as a pod's controller has, where a Job makes its pods.
fn key(kind: WorkloadKind, namespace: &str, name: &str) -> Box<str> {
    [namespace, "/", kind.as_str(), "/", name].concat().into()
}
