//! Groups whose Jobs have to follow them into another queue: of many Jobs only now and then, since whoever writes the group decides how often
//! it moves.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::ids::WorkloadId;

/// A group with at most this many Jobs is followed by them in every round.
const FEW: usize = 1000;
/// Jobs of a larger group that have followed it stay in that queue for this time, multiplied by the number of Jobs. Moving one Job takes
/// about 15 µs, so a group takes at most a twentieth of the operator's time.
const PER_JOB: SignedDuration = SignedDuration::from_micros(300);

/// Groups that have come, gone or moved to another queue, and whose Jobs have not followed yet.
#[derive(Debug, Default)]
pub(super) struct MovedGroups {
    moved: BTreeSet<WorkloadId>,
    /// When Jobs have last followed a group of many, and until when they stay.
    resting: BTreeMap<WorkloadId, (Timestamp, Timestamp)>,
}

impl MovedGroups {
    pub fn insert(&mut self, group: WorkloadId) {
        self.moved.insert(group);
    }

    /// Takes out the groups whose Jobs follow them now.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<WorkloadId> {
        // A rest that began later than now was noted before the clock was set back. Nobody knows how much of it is left, so it ends.
        self.resting.retain(|_, (since, until)| (*since..*until).contains(&now));
        self.moved
            .extract_if(.., |group| !self.resting.contains_key(group))
            .collect()
    }

    /// Notes that so many Jobs have followed a group.
    pub fn have_followed(&mut self, group: WorkloadId, jobs: usize, now: Timestamp) {
        if jobs > FEW {
            let rest = PER_JOB.saturating_mul(i32::try_from(jobs).unwrap_or(i32::MAX));
            self.resting
                .insert(group, (now, now.saturating_add(rest).unwrap_or(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id as _;

    #[test]
    fn the_jobs_of_a_group_of_many_follow_it_now_and_then() {
        let (small, large) = (WorkloadId::of(0), WorkloadId::of(1));
        let mut groups = MovedGroups::default();
        let followed = |groups: &mut MovedGroups, millisecond: i64| {
            let now = Timestamp::from_millisecond(1_000_000 + millisecond).unwrap();
            groups.insert(small);
            groups.insert(large);
            let due = groups.take_due(now);
            for group in &due {
                groups.have_followed(*group, if *group == large { 20 * FEW } else { FEW }, now);
            }
            due
        };
        assert_eq!(followed(&mut groups, 0), [small, large]);
        // 20,000 Jobs stay for six seconds.
        assert_eq!(followed(&mut groups, 1), [small]);
        assert_eq!(followed(&mut groups, 5999), [small]);
        assert_eq!(followed(&mut groups, 6000), [small, large]);
        // A clock that is set back keeps nobody.
        assert_eq!(followed(&mut groups, 3000), [small, large]);
        // What has moved meanwhile is not forgotten.
        assert_eq!(followed(&mut groups, 3001), [small]);
        let due = groups.take_due(Timestamp::from_millisecond(1_010_000).unwrap());
        assert_eq!(due, [large]);
    }
}
