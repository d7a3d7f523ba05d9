//! Groups whose Jobs have to follow them into another queue: of a namespace with many such Jobs only now and then, since whoever writes the
//! groups decides how often they move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::ids::WorkloadId;

/// Where at most this many Jobs of a namespace have moved in a round, its groups are followed in the next round again.
const FEW: usize = 10;
/// Where more have moved, none of that namespace moves for this time, multiplied by the number of Jobs. Moving one Job takes about 15 µs, so
/// the groups of a namespace take at most a twentieth of the operator's time.
const PER_JOB: SignedDuration = SignedDuration::from_micros(300);

/// Groups that have come, gone or moved to another queue, and whose Jobs have not followed yet.
#[derive(Debug, Default)]
pub(super) struct MovedGroups {
    moved: BTreeSet<WorkloadId>,
    /// The namespaces of which no Job moves for now: since when, and until when.
    resting: BTreeMap<Arc<str>, (Timestamp, Timestamp)>,
}

impl MovedGroups {
    pub fn insert(&mut self, group: WorkloadId) {
        self.moved.insert(group);
    }

    /// Takes out the groups whose Jobs follow them now. A group without namespace is gone.
    pub fn take_due(
        &mut self,
        now: Timestamp,
        namespace_of: impl Fn(WorkloadId) -> Option<Arc<str>>,
    ) -> Vec<WorkloadId> {
        // A rest that began later than now was noted before the clock was set back. Nobody knows how much of it is left, so it ends.
        self.resting.retain(|_, (since, until)| (*since..*until).contains(&now));
        let rests = |group| namespace_of(group).is_some_and(|namespace| self.resting.contains_key(&namespace));
        self.moved.extract_if(.., |group| !rests(*group)).collect()
    }

    /// Notes that so many Jobs of a namespace have followed their groups in this round.
    pub fn have_followed(&mut self, namespace: Arc<str>, jobs: usize, now: Timestamp) {
        if jobs > FEW {
            let rest = PER_JOB.saturating_mul(i32::try_from(jobs).unwrap_or(i32::MAX));
            let until = now.saturating_add(rest).unwrap_or(now);
            self.resting.insert(namespace, (now, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id as _;

    #[test]
    fn the_jobs_of_a_namespace_with_many_follow_their_groups_now_and_then() {
        let (small, large) = (WorkloadId::of(0), WorkloadId::of(1));
        let namespace_of = |group| Some(Arc::from(if group == small { "small" } else { "large" }));
        let mut groups = MovedGroups::default();
        let followed = |groups: &mut MovedGroups, millisecond: i64| {
            let now = Timestamp::from_millisecond(1_000_000 + millisecond).unwrap();
            groups.insert(small);
            groups.insert(large);
            let due = groups.take_due(now, namespace_of);
            for group in &due {
                let jobs = if *group == large { 20_000 } else { FEW };
                groups.have_followed(namespace_of(*group).unwrap(), jobs, now);
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
        let due = groups.take_due(Timestamp::from_millisecond(1_010_000).unwrap(), namespace_of);
        assert_eq!(due, [large]);
    }
}
