//! Handles a wall clock that is set back, as the network does with a clock that ran ahead. Otherwise a pod that was to
//! wait half a minute by the clock that ran ahead would also wait for as long as the clock had run ahead.

use jiff::{SignedDuration, Timestamp};

use super::Cluster;

/// A clock that goes back by less than this changes nothing, as nobody waits much longer because of it. Such steps add up
/// until together they are as much.
const LEAST: SignedDuration = SignedDuration::from_secs(5);

/// How far the clock was set back, since noted times were last moved back.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetBack {
    /// The time after the clock was set back.
    now: Timestamp,
    by: SignedDuration,
}

impl SetBack {
    /// Moves a noted time back. A time in the future stays as far ahead as it was, a time in the past stays as it is, and
    /// a time that never comes still never comes.
    pub(super) fn bring_back(self, time: &mut Timestamp) {
        if *time > self.now && *time != Timestamp::MAX {
            *time = time.checked_sub(self.by).unwrap_or(self.now);
        }
    }
}

impl Cluster {
    /// Takes note of what time it is. Where that is earlier than before, all noted times in the future are moved back by
    /// as much, before anything is noted by the clock that was set back. What objects say of themselves stays as it is,
    /// since nobody knows by whose clock it was written.
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
