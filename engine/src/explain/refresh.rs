//! Keeps true what those who wait were told: their reason may stay while its numbers change.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::notices::{Notice, notice};
use super::progress::{Progress, progress_of};
use crate::cluster::Cluster;
use crate::refs::WorkloadRef;

/// How long numbers are kept that may have changed: a queue in which much happens must not write about all that waits in it all the
/// time.
const REFRESH: SignedDuration = SignedDuration::from_mins(2);

/// How many are remembered. Whoever is told something beyond that is told anew by another reason only: somebody may make and
/// delete pods and groups faster than they are looked at again.
const MOST: usize = 50_000;

/// Who waits and was told why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Waiter {
    /// A pod, by its unique id.
    Pod(Arc<str>),
    Workload(WorkloadRef),
}

/// What to tell anew.
#[derive(Debug)]
pub enum Fresh {
    /// A pod.
    Pod(Notice),
    /// A workload.
    Workload(Progress),
}

/// What those who wait were told, in the order in which it is looked at again.
#[derive(Debug, Default)]
pub struct Refresher {
    looks: VecDeque<(Timestamp, Waiter)>,
    /// Each is looked at once, however often it is told something.
    told: HashMap<Waiter, Told>,
}

#[derive(Debug)]
struct Told {
    /// Of the message, which may be long; none where it was told before this began.
    hash: Option<u64>,
    look_at: Timestamp,
}

impl Refresher {
    /// Remembers all pods that wait and have been told why, by whoever decided before. Workloads are told again by whoever begins
    /// to decide.
    pub fn take_over(&mut self, cluster: &Cluster, now: Timestamp) {
        for pod in cluster.pods().filter(|pod| pod.told.is_some() && pod.waits.is_some()) {
            self.remember(Waiter::Pod(Arc::clone(&pod.uid)), None, now);
        }
    }

    /// How many looks are ahead.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.looks.len()
    }

    /// A pod is told this.
    pub fn note(&mut self, notice: &Notice, now: Timestamp) {
        let waiter = Waiter::Pod(Arc::clone(&notice.pod.uid));
        self.remember(waiter, Some(hash(&notice.message)), now);
    }

    /// A workload is told this.
    pub fn note_progress(&mut self, progress: &Progress, now: Timestamp) {
        if let Some((_, message)) = &progress.refused {
            let waiter = Waiter::Workload(progress.workload.clone());
            self.remember(waiter, Some(hash(message)), now);
        }
    }

    fn remember(&mut self, waiter: Waiter, hash: Option<u64>, now: Timestamp) {
        if self.looks.len() >= MOST {
            return;
        }
        let look_at = now + REFRESH;
        self.looks.push_back((look_at, waiter.clone()));
        self.told.insert(waiter, Told { hash, look_at });
    }

    /// Looks at the next few: what to tell those whose reason is the same, and its numbers are not.
    pub fn refresh(&mut self, cluster: &Cluster, now: Timestamp, limit: usize) -> Vec<Fresh> {
        let mut anew = Vec::new();
        for _ in 0..limit {
            let Some((look_at, waiter)) = self.looks.pop_front_if(|(look_at, _)| *look_at <= now) else {
                break;
            };
            // Told something else since.
            let Some(told) = self.told.remove(&waiter) else {
                continue;
            };
            if told.look_at != look_at {
                self.told.insert(waiter, told);
                continue;
            }
            // Who was let in, or is told another reason now, is done with.
            let Some(fresh) = fresh(cluster, &waiter) else { continue };
            let hash = Some(hash(fresh.message()));
            self.remember(waiter, hash, now);
            if told.hash != hash {
                anew.push(fresh);
            }
        }
        anew
    }
}

impl Fresh {
    fn message(&self) -> &str {
        match self {
            Self::Pod(notice) => &notice.message,
            Self::Workload(progress) => progress.refused.as_ref().map_or("", |(_, message)| message),
        }
    }
}

/// What to tell somebody at this moment, for the reason that it was told last.
fn fresh(cluster: &Cluster, waiter: &Waiter) -> Option<Fresh> {
    match waiter {
        Waiter::Pod(uid) => {
            let id = cluster.pod_with_uid(uid)?;
            let told = cluster.pod(id)?.told?;
            let fresh = notice(cluster, id).filter(|fresh| fresh.reason == told)?;
            Some(Fresh::Pod(fresh))
        }
        Waiter::Workload(workload) => {
            let id = cluster.workload_named(workload.kind, &workload.namespace, &workload.name)?;
            let told = cluster.workload(id).told?;
            let fresh = progress_of(cluster, id, true).filter(|fresh| fresh.workload == *workload)?;
            let is_same = fresh.refused.as_ref().is_some_and(|(reason, _)| *reason == told);
            is_same.then_some(Fresh::Workload(fresh))
        }
    }
}

fn hash(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}
