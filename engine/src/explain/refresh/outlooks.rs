//! Finds waiters for which it has changed whether waiting can help, since they were told. It looks when nodes, queues or the configuration
//! have changed: nothing that pods do changes what could ever be had.

use std::collections::HashMap;

use super::{STEPS_AT_ONCE, Told, Waiter, cost};
use crate::cluster::Cluster;
use crate::explain::{Subject, explain};
use crate::ids::QueueId;
use crate::reason::{Outlook, Reason};
use crate::steps::Steps;

/// The most waiters that are compared at once with what they were told.
const MOST_COMPARED: usize = 1_000;
/// The most steps for that, beside everything else that is told at once.
const STEPS_OF_OUTLOOKS: u64 = STEPS_AT_ONCE / 4;

/// One round of looks at all waiters, one after the other.
#[derive(Debug, Default)]
pub(super) struct Outlooks {
    /// The number of changes (`Cluster::prospects`) when this round began; none before the first round.
    began: Option<u64>,
    /// The waiters that are still to be looked at in this round.
    ahead: Vec<Waiter>,
    /// The number of changes when `found` was found.
    found_at: u64,
    /// The outlook for all pods of a shape that wait for this reason.
    found: HashMap<(QueueId, u64, Reason), Option<Outlook>>,
}

impl Outlooks {
    /// Returns those of the next waiters for which what they were told about waiting is no longer so. Each round looks at `all` waiters that
    /// were told anything.
    pub(super) fn changed<'a>(
        &mut self,
        cluster: &Cluster,
        told: &HashMap<Waiter, Told>,
        all: impl Iterator<Item = &'a Waiter>,
    ) -> Vec<Waiter> {
        let said = cluster.prospects();
        if self.ahead.is_empty() {
            if self.began.replace(said) == Some(said) {
                return Vec::new();
            }
            self.ahead = all.cloned().collect();
        }
        if self.found_at != said {
            self.found.clear();
            self.found_at = said;
        }
        let steps = Steps::new(STEPS_OF_OUTLOOKS);
        let mut changed = Vec::new();
        for _ in 0..MOST_COMPARED {
            if steps.are_spent() {
                break;
            }
            let Some(waiter) = self.ahead.pop() else { break };
            let Some(was) = told.get(&waiter).and_then(|told| told.outlook) else {
                continue;
            };
            if self.outlook(cluster, &waiter, &steps).is_some_and(|now| now != was) {
                changed.push(waiter);
            }
        }
        if self.ahead.is_empty() {
            self.found = HashMap::new();
        }
        changed
    }

    /// Returns whether waiting can help; none where the reason alone decides that, or where the waiter has another reason by now: it is told
    /// the outlook with that reason.
    fn outlook(&mut self, cluster: &Cluster, waiter: &Waiter, steps: &Steps) -> Option<Outlook> {
        let depends = |reason: Reason| reason.outlook(|| true) != reason.outlook(|| false);
        match waiter {
            Waiter::Pod(uid) => {
                let id = cluster.pod_with_uid(uid)?;
                let pod = cluster.pod(id)?;
                let shape = &pod.waits.as_ref()?.shape;
                let (peers, known) = cluster.queue(shape.queue).waiting.peers_of(shape)?;
                let reason = known.refused?.reason;
                if pod.told != Some(reason) || !depends(reason) {
                    return None;
                }
                let found = self.found.entry((shape.queue, peers, reason));
                *found.or_insert_with(|| {
                    steps.spend(cost(cluster, waiter));
                    explain(cluster, Subject::Pod(id)).map(|why| why.outlook)
                })
            }
            Waiter::Workload(workload) => {
                let id = cluster.workload_named(workload.kind, &workload.namespace, &workload.name)?;
                let known = cluster.workload(id);
                let (_, refused) = known.refused?;
                if known.told != Some(refused.reason) || !depends(refused.reason) {
                    return None;
                }
                steps.spend(cost(cluster, waiter));
                explain(cluster, Subject::Workload(id)).map(|why| why.outlook)
            }
        }
    }
}
