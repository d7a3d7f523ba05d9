//! What time alone brings: reservations that run out, deletions that take too long, pods that may try again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::pod::{Controller, Pod, Stage};
use super::set_back::SetBack;
use crate::ids::PodId;

/// How long a controller's pods stand aside after the first one came back unplaced; doubled every time.
const FIRST_RETURN: Duration = Duration::from_secs(30);
/// The longest that they stand aside.
const LONGEST_RETURN: Duration = Duration::from_hours(1);
/// How long who could not be let in stands aside; doubled every further time that the API server refuses it.
const REFUSED_WRITE: Duration = Duration::from_secs(5);
/// How long a pod is left alone that may not be evicted; doubled every further time. What its budget allows is not seen.
const REFUSED_EVICTION: Duration = Duration::from_secs(30);

/// After so long, that pods came back once says nothing about today.
pub(super) const RETURN_MEMORY: SignedDuration = SignedDuration::from_hours(2);

/// How often the pods of a controller came back unplaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Return {
    /// In a row; each time it waits longer.
    pub times: u32,
    /// Until when they stand aside.
    pub until: Timestamp,
    /// Whether one that was let in since then has been placed.
    pub placed_since: bool,
}

impl Return {
    fn forgotten(self) -> Option<Timestamp> {
        self.until.checked_add(RETURN_MEMORY).ok()
    }

    fn is_forgotten(self, now: Timestamp) -> bool {
        now.duration_since(self.until) >= RETURN_MEMORY
    }
}

/// When time alone changes something.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    pods: BTreeSet<(Timestamp, PodId)>,
    /// The same by pod, of which each has one at most.
    by_pod: HashMap<PodId, Timestamp>,
    returns: HashMap<Controller, Return>,
    /// How many they were when those were last looked for that are forgotten.
    returns_swept: usize,
    /// When the first of them is forgotten, or somewhat before; none where that is to be looked for.
    next_forgotten: Option<Timestamp>,
}

impl Deadlines {
    /// When time alone changes something about a pod, in place of when it did.
    pub fn set(&mut self, id: PodId, time: Option<Timestamp>) {
        let before = match time {
            Some(time) => self.by_pod.insert(id, time),
            None => self.by_pod.remove(&id),
        };
        if before != time {
            if let Some(before) = before {
                self.pods.remove(&(before, id));
            }
            self.pods.extend(time.map(|time| (time, id)));
        }
    }

    /// The first pod whose time has come, which it has no longer then.
    fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, PodId)> {
        let due = self.pods.first().copied().filter(|(time, _)| *time <= now)?;
        self.set(due.1, None);
        Some(due)
    }

    /// Remembers it. Whoever is forgotten is looked for when there are twice as many as there were then, not each time: thousands may come
    /// back at once.
    fn note_return(&mut self, controller: Controller, returned: Return, now: Timestamp) {
        self.returns.insert(controller, returned);
        let next = self.next_forgotten.zip(returned.forgotten());
        self.next_forgotten = next.map(|(one, other)| one.min(other));
        if self.returns.len() > 2 * self.returns_swept {
            self.returns.retain(|_, earlier| !earlier.is_forgotten(now));
            self.returns_swept = self.returns.len();
        }
    }
}

/// Until when those stand aside who came back for the nth time.
pub(super) fn aside(times: u32, now: Timestamp) -> Timestamp {
    doubled(FIRST_RETURN, times, now)
}

/// Until when those stand aside whom the API server has refused for the nth time.
pub(super) fn after_refused_writes(times: u32, now: Timestamp) -> Timestamp {
    doubled(REFUSED_WRITE, times, now)
}

/// Until when a pod is left alone of which the API server has refused the eviction for the nth time.
pub(super) fn after_refused_eviction(times: u32, now: Timestamp) -> Timestamp {
    doubled(REFUSED_EVICTION, times, now)
}

fn doubled(first: Duration, times: u32, now: Timestamp) -> Timestamp {
    let doubled = first.saturating_mul(1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX));
    let aside = SignedDuration::try_from(doubled.min(LONGEST_RETURN)).unwrap_or(SignedDuration::ZERO);
    now.checked_add(aside).unwrap_or(now)
}

/// What has become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The scheduler could not place an admitted pod in time.
    Reservation(PodId),
}

impl Cluster {
    /// Takes note of what time has brought, and returns what somebody must act on.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Due> {
        self.tell_time(now);
        self.move_jobs_of_groups(now);
        self.advance_workloads(now);
        let mut due = Vec::new();
        while let Some((time, id)) = self.deadlines.take_due(now) {
            let Some(pod) = self.pod(id) else { continue };
            if self.deadline_of(pod) != Some(time) {
                continue;
            }
            match pod.stage {
                Stage::Admitting { until, written: false } if until <= now => {
                    // Of a gang that is on its way, whoever waits again is the next to be let in.
                    let started = self.belongs_to_started_gang(id);
                    self.withdraw(id, (!started).then(|| after_refused_writes(1, now)));
                }
                Stage::Waiting => self.update_pod(id, |pod| {
                    if let Some(waits) = &mut pod.waits {
                        waits.aside_until = None;
                    }
                }),
                Stage::Unbound { .. } if pod.deleted.is_none() && !self.is_let_in_by_nobody(pod) => {
                    due.push(Due::Reservation(id));
                }
                Stage::Blocked | Stage::Admitting { .. } | Stage::Unbound { .. } | Stage::Bound => {
                    let charge = self.charge_for(pod, now);
                    self.update_pod(id, |pod| pod.charge = charge);
                    self.settle_payers(id);
                }
            }
        }
        self.read_on(now);
        self.read_again(now);
        due
    }

    /// The clock was set back: what time alone brings comes no later by that. What is brought to pods has been brought back already.
    pub(super) fn bring_deadlines_back(&mut self, back: SetBack) {
        let returns = self.deadlines.returns.values_mut();
        returns.for_each(|returned| back.bring_back(&mut returned.until));
        self.deadlines.next_forgotten = None;
        for id in self.pods_by_id().map(|(id, _)| id).collect::<Vec<_>>() {
            self.set_deadline(id);
        }
    }

    /// When time alone next changes something about a pod.
    pub(crate) fn deadline_of(&self, pod: &Pod) -> Option<Timestamp> {
        pod.queue?;
        let quota_end = self.quota_end(pod).filter(|_| pod.charge.is_some());
        match pod.stage {
            Stage::Admitting { until, written: false } => Some(quota_end.map_or(until, |end| end.min(until))),
            Stage::Waiting => pod.waits.as_ref()?.aside_until,
            // Whom nobody has let in, nobody sends back: what comes after it would not be held either.
            Stage::Unbound { since, looks } if pod.deleted.is_none() && !self.is_let_in_by_nobody(pod) => {
                let timeout = self.configuration.cardgate.reservation_timeout;
                let longer = timeout.saturating_mul(1_u32.checked_shl(looks.into()).unwrap_or(u32::MAX));
                let timeout = longer.min(timeout.max(LONGEST_RETURN));
                since.checked_add(SignedDuration::try_from(timeout).ok()?).ok()
            }
            // What is written is true, whenever it is seen.
            Stage::Blocked | Stage::Admitting { written: true, .. } | Stage::Unbound { .. } | Stage::Bound => quota_end,
        }
    }

    pub(super) fn set_deadline(&mut self, id: PodId) {
        let time = self.pod(id).and_then(|pod| self.deadline_of(pod));
        self.deadlines.set(id, time);
    }

    /// The scheduler could not place a pod: it keeps its place, and is looked at again later. Where nobody takes it away
    /// meanwhile, it is `left` there: each time twice as much later, since nothing but words comes of it.
    pub(crate) fn renew_reservation(&mut self, id: PodId, left: bool, now: Timestamp) {
        let looks = match self.pod(id).map(|pod| pod.stage) {
            Some(Stage::Unbound { looks, .. }) => looks.saturating_add(left.into()),
            _ => 0,
        };
        self.prolong_stage(id, Stage::Unbound { since: now, looks });
    }

    /// A pod is on its way out. One that the scheduler could not place is sent back again later, should nothing come of it: until the
    /// watch tells, each time twice as much later.
    pub(super) fn expect_end(&mut self, id: PodId, now: Timestamp) {
        if self
            .pod(id)
            .is_some_and(|pod| matches!(pod.stage, Stage::Unbound { .. }))
        {
            self.renew_reservation(id, true, now);
        }
    }

    /// A controller's pod is sent back unplaced: those that come after it stand aside, longer every time. Pods that were let
    /// in after the same number of returns are of one wave, and count once. Those that wait for one another's quota are not of
    /// one, though they came together: each is a further one.
    pub(crate) fn note_return(&mut self, controller: &Controller, returns: u32, now: Timestamp) {
        let earlier = self.return_of(Some(controller), now);
        let times = returns
            .saturating_add(1)
            .max(earlier.map_or(0, |earlier| earlier.times));
        let returned = Return {
            times,
            until: aside(times, now),
            // Further ones of the same wave say nothing new.
            placed_since: earlier.is_some_and(|earlier| earlier.times >= times && earlier.placed_since),
        };
        self.deadlines.note_return(controller.clone(), returned, now);
    }

    /// A pod was placed. Where it was let in after others of its controller came back, the scheduler places those by now.
    pub(super) fn note_placed(&mut self, id: PodId) {
        let pod = self.pods.get(id).and_then(Option::as_ref);
        let returned = pod.and_then(|pod| {
            let returned = self.deadlines.returns.get_mut(pod.controller.as_ref()?)?;
            Some(returned).filter(|returned| pod.returns >= returned.times)
        });
        if let Some(returned) = returned {
            returned.placed_since = true;
        }
    }

    /// Whether the scheduler did not place a pod of this one's controller in time, which is not forgotten yet, nor any that was let in since.
    pub(crate) fn has_come_back(&self, pod: &Pod, now: Timestamp) -> bool {
        let returned = self.return_of(pod.controller.as_ref(), now);
        returned.is_some_and(|returned| !returned.placed_since)
    }

    /// When the next controller is forgotten of which pods came back, or somewhat before.
    pub(super) fn next_forgotten_return(&mut self, now: Timestamp) -> Option<Timestamp> {
        let deadlines = &mut self.deadlines;
        if deadlines.next_forgotten.is_none_or(|next| next <= now) {
            deadlines.returns.retain(|_, returned| !returned.is_forgotten(now));
            let returns = deadlines.returns.values();
            deadlines.next_forgotten = returns.filter_map(|returned| returned.forgotten()).min();
        }
        deadlines.next_forgotten
    }

    /// How the pods of a controller have fared.
    pub(super) fn return_of(&self, controller: Option<&Controller>, now: Timestamp) -> Option<Return> {
        let returned = self.deadlines.returns.get(controller?).copied();
        returned.filter(|returned| !returned.is_forgotten(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id as _;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_pod_has_one_deadline_at_most_and_none_when_it_is_gone() {
        let mut deadlines = Deadlines::default();
        let (first, second) = (PodId::of(0), PodId::of(1));
        deadlines.set(first, Some(at(31_536_000)));
        deadlines.set(first, Some(at(5)));
        deadlines.set(second, Some(at(31_536_000)));
        deadlines.set(second, None);
        assert_eq!(deadlines.pods.len(), 1);
        assert_eq!(deadlines.take_due(at(4)), None);
        assert_eq!(deadlines.take_due(at(5)), Some((at(5), first)));
        assert!(deadlines.pods.is_empty() && deadlines.by_pod.is_empty());
    }

    #[test]
    fn of_those_who_came_back_long_ago_no_more_are_kept_than_of_the_others() {
        let mut deadlines = Deadlines::default();
        for second in 0..100_000 {
            let controller = Controller::new("team", "ReplicaSet", &second.to_string());
            let returned = Return {
                times: 1,
                until: at(second),
                placed_since: false,
            };
            deadlines.note_return(controller, returned, at(second));
        }
        let remembered = usize::try_from(RETURN_MEMORY.as_secs()).unwrap();
        assert!((remembered..=2 * remembered).contains(&deadlines.returns.len()));
    }
}
