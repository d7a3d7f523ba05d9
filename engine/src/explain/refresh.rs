//! Keeps what waiting pods were told true: their reason may stay while its numbers change.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::notices::{Notice, notice};
use crate::cluster::Cluster;

/// How long a pod keeps numbers that may have changed: a queue in which much happens must not write about all of its pods all the
/// time.
const REFRESH: SignedDuration = SignedDuration::from_mins(2);

/// What waiting pods were told, in the order in which it is looked at again.
#[derive(Debug, Default)]
pub struct Refresher {
    looks: VecDeque<(Timestamp, Arc<str>)>,
    /// By pod, so that each is looked at once however often it is told something.
    told: HashMap<Arc<str>, Told>,
}

#[derive(Debug)]
struct Told {
    /// Of the message, which may be long; none where it was told before this began.
    hash: Option<u64>,
    look_at: Timestamp,
}

impl Refresher {
    /// Remembers all that wait and have been told why, by whoever decided before.
    pub fn take_over(&mut self, cluster: &Cluster, now: Timestamp) {
        for pod in cluster.pods().filter(|pod| pod.told.is_some() && pod.waits.is_some()) {
            self.remember(Arc::clone(&pod.uid), None, now);
        }
    }

    /// A pod is told this.
    pub fn note(&mut self, notice: &Notice, now: Timestamp) {
        self.remember(Arc::clone(&notice.pod.uid), Some(hash(&notice.message)), now);
    }

    fn remember(&mut self, uid: Arc<str>, hash: Option<u64>, now: Timestamp) {
        let look_at = now + REFRESH;
        self.looks.push_back((look_at, Arc::clone(&uid)));
        self.told.insert(uid, Told { hash, look_at });
    }

    /// Looks at the next few: what to tell those whose reason is the same, and its numbers are not.
    pub fn refresh(&mut self, cluster: &Cluster, now: Timestamp, limit: usize) -> Vec<Notice> {
        let mut notices = Vec::new();
        for _ in 0..limit {
            let Some((look_at, uid)) = self.looks.pop_front_if(|(look_at, _)| *look_at <= now) else {
                break;
            };
            // Told something else since.
            let Some(told) = self.told.remove(&uid) else { continue };
            if told.look_at != look_at {
                self.told.insert(uid, told);
                continue;
            }
            // Who was let in, or is told another reason now, is done with.
            let id = cluster.pod_with_uid(&uid);
            let pod = id.and_then(|id| Some((id, cluster.pod(id)?.told?)));
            let fresh = pod.and_then(|(id, reason)| notice(cluster, id).filter(|fresh| fresh.reason == reason));
            let Some(fresh) = fresh else { continue };
            let hash = Some(hash(&fresh.message));
            self.remember(uid, hash, now);
            if told.hash != hash {
                notices.push(fresh);
            }
        }
        notices
    }
}

fn hash(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}
