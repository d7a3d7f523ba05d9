//! A clock on the wall that is set back, as one that ran ahead is by the network: without more ado, whoever was to wait for half a minute by
//! the clock that ran ahead would wait for as long as it did.

use jiff::{SignedDuration, Timestamp};

use super::Cluster;

/// A clock that goes back by less than this goes on as ever: nobody waits much longer by that. Such steps add up, until they are as much together.
const LEAST: SignedDuration = SignedDuration::from_secs(5);

/// How far the clock was set back, since what was noted was brought back last.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetBack {
    /// What time it is since then.
    now: Timestamp,
    by: SignedDuration,
}

impl SetBack {
    /// A time that was noted: what is ahead is as far ahead as it was, what is over stays as it is. What never comes does not come by this.
    pub(super) fn bring_back(self, time: &mut Timestamp) {
        if *time > self.now && *time != Timestamp::MAX {
            *time = time.checked_sub(self.by).unwrap_or(self.now);
        }
    }
}

impl Cluster {
    /// Takes note of what time it is. Where that is earlier than it was, all that was noted of what is ahead since is brought back by as
    /// much: so before anything is noted by the clock that was set back. What objects say of themselves stays as it is: by whose clock that is nobody knows.
    pub fn tell_time(&mut self, now: Timestamp) {
        let before = std::mem::replace(&mut self.now, now);
        let by = self.stepped_back + before.duration_since(now).max(SignedDuration::ZERO);
        self.stepped_back = if by < LEAST { by } else { SignedDuration::ZERO };
        if by < LEAST {
            return;
        }
        let back = SetBack { now, by };
        self.bring_pods_back(back);
        self.bring_deadlines_back(back);
        self.bring_workloads_back(back);
        self.lapses.bring_back(back);
        self.reclaims.bring_back(back);
        self.gpu_nodes.bring_back(back);
        self.claimed.outgrown.bring_back(back);
    }
}
