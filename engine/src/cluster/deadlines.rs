//! What happens by the passing of time alone: reservations run out, deletions take too long, pods may try again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Cluster;
use super::node::Node;
use super::pod::{Controller, NotTaken, Pod, Stage};
use super::set_back::SetBack;
use crate::ids::{NodeId, PodId};

/// How long a controller's pods stand aside after the first pod came back unplaced. It doubles every time.
const FIRST_RETURN: Duration = Duration::from_secs(30);
/// The longest time that they stand aside.
const LONGEST_RETURN: Duration = Duration::from_hours(1);
/// How long a pod or workload stands aside that could not be let in. It doubles every further time that the API server
/// refuses.
const REFUSED_WRITE: Duration = Duration::from_secs(5);
/// What writes that failed, of which a later one may work, count for at most: then 80 seconds pass before the next one. What
/// made them fail may be over at any moment.
const MOST_FAILED_WRITES: u32 = 5;
/// How long a pod is left alone that may not be evicted. It doubles every further time. What the disruption budget allows
/// is not seen.
const REFUSED_EVICTION: Duration = Duration::from_secs(30);

/// After this time it says nothing about today that pods came back once.
pub(super) const RETURN_MEMORY: SignedDuration = SignedDuration::from_hours(2);

/// Why a pod is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The scheduler did not place it in time.
    Unplaced,
    /// The scheduler claimed more for it than it requests.
    GivenBeyond,
}

/// How often the pods of a controller came back.
#[derive(Debug)]
pub(super) struct Return {
    /// Why the last of them did.
    pub cause: Cause,
    /// How often in a row. Each time the pods stand aside for longer.
    pub times: u32,
    /// Until when they stand aside.
    pub until: Timestamp,
    /// Whether a pod that was let in since then has been placed, or all that were to be sent back have been after all.
    pub placed_since: bool,
    /// The pods of the last wave that the scheduler did not place in time, as far as it has not placed them by now.
    pub unplaced: BTreeSet<PodId>,
}

impl Return {
    fn forgotten(&self) -> Option<Timestamp> {
        self.until.checked_add(RETURN_MEMORY).ok()
    }

    fn is_forgotten(&self, now: Timestamp) -> bool {
        now.duration_since(self.until) >= RETURN_MEMORY
    }
}

/// When time alone changes something.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    pods: BTreeSet<(Timestamp, PodId)>,
    /// The same by pod. Each pod has one deadline at most.
    by_pod: HashMap<PodId, Timestamp>,
    returns: HashMap<Controller, Return>,
    /// How many there were when forgotten returns were last looked for.
    returns_swept: usize,
    /// When the first of them is forgotten, or somewhat before; none where that has yet to be found.
    next_forgotten: Option<Timestamp>,
}

impl Deadlines {
    /// Sets when time alone changes something about a pod, in place of the time set before.
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

    /// Returns the first pod whose time has come, and removes that time.
    fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, PodId)> {
        let due = self.pods.first().copied().filter(|(time, _)| *time <= now)?;
        self.set(due.1, None);
        Some(due)
    }

    /// Remembers a return. Forgotten returns are looked for only when there are twice as many returns as there were the
    /// last time, since thousands of pods may come back at once.
    fn note_return(&mut self, controller: Controller, returned: Return, now: Timestamp) {
        let next = self.next_forgotten.zip(returned.forgotten());
        self.returns.insert(controller, returned);
        self.next_forgotten = next.map(|(one, other)| one.min(other));
        if self.returns.len() > 2 * self.returns_swept {
            self.returns.retain(|_, earlier| !earlier.is_forgotten(now));
            self.returns_swept = self.returns.len();
        }
    }
}

/// Returns until when pods stand aside that came back for the nth time.
pub(super) fn after_returns(times: u32, now: Timestamp) -> Timestamp {
    doubled(FIRST_RETURN, times, now)
}

/// Returns for how many writes in a row that the API server has not taken this one counts, after those before.
pub(super) fn times_not_taken(how: NotTaken, before: u32) -> u32 {
    let times = before.saturating_add(1);
    match how {
        NotTaken::Refused => times,
        NotTaken::Failed => times.min(MOST_FAILED_WRITES),
    }
}

/// Returns until when a pod or workload stands aside of which the API server has not taken a write for the nth time.
pub(super) fn after_refused_writes(times: u32, now: Timestamp) -> Timestamp {
    doubled(REFUSED_WRITE, times, now)
}

/// Returns until when a pod is left alone whose eviction the API server has refused for the nth time.
pub(super) fn after_refused_eviction(times: u32, now: Timestamp) -> Timestamp {
    doubled(REFUSED_EVICTION, times, now)
}

fn doubled(first: Duration, times: u32, now: Timestamp) -> Timestamp {
    let doubled = first.saturating_mul(1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX));
    let aside = SignedDuration::try_from(doubled.min(LONGEST_RETURN)).unwrap_or(SignedDuration::ZERO);
    now.checked_add(aside).unwrap_or(now)
}

impl Cluster {
    /// Takes note of what time has brought, and returns the admitted pods that the scheduler has not placed in time.
    pub fn advance(&mut self, now: Timestamp) -> Vec<PodId> {
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
                    // Of a gang that is on its way, a pod that waits again is the next to be let in.
                    let started = self.belongs_to_started_gang(id);
                    self.withdraw(id, (!started).then(|| after_refused_writes(1, now)));
                }
                Stage::Waiting => self.update_pod(id, |pod| {
                    if let Some(waits) = &mut pod.waits {
                        waits.aside_until = None;
                    }
                }),
                Stage::Unbound { .. } if pod.deleted.is_none() && !self.is_let_in_by_nobody(pod) => {
                    due.push(id);
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

    /// Moves times back after the clock was set back, so that what time alone brings comes no later because of that. The
    /// times of pods have been moved back already.
    pub(super) fn bring_deadlines_back(&mut self, back: SetBack) {
        let returns = self.deadlines.returns.values_mut();
        returns.for_each(|returned| back.bring_back(&mut returned.until));
        self.deadlines.next_forgotten = None;
        for id in self.pods_by_id().map(|(id, _)| id).collect::<Vec<_>>() {
            self.set_deadline(id);
        }
    }

    /// Returns when time alone next changes something about a pod.
    pub(crate) fn deadline_of(&self, pod: &Pod) -> Option<Timestamp> {
        pod.queue?;
        let quota_end = self.quota_end(pod).filter(|_| pod.charge.is_some());
        match pod.stage {
            Stage::Admitting { until, written: false } => Some(quota_end.map_or(until, |end| end.min(until))),
            Stage::Waiting => pod.waits.as_ref()?.aside_until,
            // A pod that nobody has let in is not sent back: the pod that would replace it would not be held either.
            Stage::Unbound { since, looks } if pod.deleted.is_none() && !self.is_let_in_by_nobody(pod) => {
                if looks == 0 && self.lost_node(pod).is_some() {
                    return Some(since);
                }
                let timeout = self.configuration.cardgate.reservation_timeout;
                let longer = timeout.saturating_mul(1_u32.checked_shl(looks.into()).unwrap_or(u32::MAX));
                let timeout = longer.min(timeout.max(LONGEST_RETURN));
                since.checked_add(SignedDuration::try_from(timeout).ok()?).ok()
            }
            // What is written stays valid, whenever it is seen.
            Stage::Blocked | Stage::Admitting { written: true, .. } | Stage::Unbound { .. } | Stage::Bound => quota_end,
        }
    }

    pub(super) fn set_deadline(&mut self, id: PodId) {
        let time = self.pod(id).and_then(|pod| self.deadline_of(pod));
        self.deadlines.set(id, time);
    }

    /// Sets the times anew of pods that may run on this node alone, which has come or gone: the scheduler can place them nowhere
    /// else.
    pub(super) fn set_deadlines_on(&mut self, node: NodeId) {
        for id in self.node(node).pods.clone() {
            if self.pod(id).is_some_and(|pod| pod.has_one_node) {
                self.set_deadline(id);
            }
        }
    }

    /// Returns the node that a pod which may run on that node alone was let in for, where the node was removed.
    pub(crate) fn lost_node(&self, pod: &Pod) -> Option<&Node> {
        let node = pod.room.filter(|_| pod.has_one_node)?;
        Some(self.node(node)).filter(|node| node.is_gone())
    }

    /// Keeps a pod's place when the scheduler could not place the pod, and has it checked again later. Where nobody takes
    /// the pod away meanwhile (`left`), each check comes after twice as long, since nothing but messages comes of it.
    pub(crate) fn renew_reservation(&mut self, id: PodId, left: bool, now: Timestamp) {
        let looks = match self.pod(id).map(|pod| pod.stage) {
            Some(Stage::Unbound { looks, .. }) => looks.saturating_add(left.into()),
            _ => 0,
        };
        self.prolong_stage(id, Stage::Unbound { since: now, looks });
    }

    /// Notes that a pod is on its way out. A pod that the scheduler could not place is sent back again later if nothing
    /// comes of it: until the watch shows something, each time after twice as long.
    pub(super) fn expect_end(&mut self, id: PodId, now: Timestamp) {
        if self
            .pod(id)
            .is_some_and(|pod| matches!(pod.stage, Stage::Unbound { .. }))
        {
            self.renew_reservation(id, true, now);
        }
    }

    /// Notes that a pod is sent back to its controller. The pods that come after it stand aside, longer every time.
    /// Pods that were let in after the same number of returns belong to one wave, and count once. Pods that wait for one
    /// another's quota do not belong to one wave, though they came together: each counts as a further return.
    pub(crate) fn note_return(&mut self, id: PodId, cause: Cause, now: Timestamp) {
        let known = self
            .pod(id)
            .and_then(|pod| Some((pod.controller.clone()?, pod.returns)));
        let Some((controller, returns)) = known else { return };
        let mut earlier = self.deadlines.returns.remove(&controller);
        earlier = earlier.filter(|earlier| !earlier.is_forgotten(now));
        let times = returns
            .saturating_add(1)
            .max(earlier.as_ref().map_or(0, |earlier| earlier.times));
        let wave = earlier.filter(|earlier| earlier.times >= times);
        let (placed_since, mut unplaced) =
            wave.map_or_else(Default::default, |wave| (wave.placed_since, wave.unplaced));
        if cause == Cause::Unplaced {
            unplaced.insert(id);
        }
        let returned = Return {
            cause,
            times,
            until: after_returns(times, now),
            // Further ones of the same wave say nothing new.
            placed_since,
            unplaced,
        };
        self.deadlines.note_return(controller, returned, now);
    }

    /// Notes that a pod was placed. Where the pod was let in after others of its controller came back, the scheduler
    /// places that controller's pods by now. It does so too where all that were to be sent back have a node after all: the watch
    /// that was to show it was late.
    pub(super) fn note_placed(&mut self, id: PodId) {
        let pod = self.pods.get(id).and_then(Option::as_ref);
        let returned = pod.and_then(|pod| {
            let returned = self.deadlines.returns.get_mut(pod.controller.as_ref()?)?;
            Some((pod.returns, returned))
        });
        if let Some((returns, returned)) = returned {
            let were_all_placed = returned.unplaced.remove(&id) && returned.unplaced.is_empty();
            returned.placed_since |= returns >= returned.times || were_all_placed && returned.cause == Cause::Unplaced;
        }
    }

    /// Takes out the next pod that stands aside from the beginning and has not been told so: one of each namespace in turn.
    pub(crate) fn next_to_stand_aside(&mut self) -> Option<PodId> {
        while let Some(uid) = self.standing_aside.take_next(|_| true) {
            let id = self.pod_with_uid(&uid);
            let is_aside = |pod: &Pod| {
                let waits = pod.waits.as_ref().filter(|waits| waits.write_refusals == 0)?;
                let returned = self.deadlines.returns.get(pod.controller.as_ref()?)?;
                // Who stands aside for longer has had its turn, and does so for a write that was not taken.
                Some(waits.aside_until? <= returned.until)
            };
            if id.and_then(|id| self.pod(id)).and_then(is_aside) == Some(true) {
                return id;
            }
        }
        None
    }

    /// Whether a pod of this pod's controller was sent back, and this is not forgotten yet, and no pod that was let in since
    /// has been placed.
    pub(crate) fn has_come_back(&self, pod: &Pod, now: Timestamp) -> bool {
        let returned = self.return_of(pod.controller.as_ref(), now);
        returned.is_some_and(|returned| !returned.placed_since)
    }

    /// Returns when the next controller is forgotten whose pods came back, or a time somewhat before that.
    pub(super) fn next_forgotten_return(&mut self, now: Timestamp) -> Option<Timestamp> {
        let deadlines = &mut self.deadlines;
        if deadlines.next_forgotten.is_none_or(|next| next <= now) {
            deadlines.returns.retain(|_, returned| !returned.is_forgotten(now));
            let returns = deadlines.returns.values();
            deadlines.next_forgotten = returns.filter_map(Return::forgotten).min();
        }
        deadlines.next_forgotten
    }

    /// Returns why the last pod of this pod's controller was sent back, where one was.
    pub(crate) fn cause_of_return(&self, pod: &Pod) -> Option<Cause> {
        let returned = self.deadlines.returns.get(pod.controller.as_ref()?);
        returned.map(|returned| returned.cause)
    }

    /// Returns how the pods of a controller have fared.
    pub(super) fn return_of(&self, controller: Option<&Controller>, now: Timestamp) -> Option<&Return> {
        let returned = self.deadlines.returns.get(controller?);
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
                cause: Cause::Unplaced,
                times: 1,
                until: at(second),
                placed_since: false,
                unplaced: BTreeSet::new(),
            };
            deadlines.note_return(controller, returned, at(second));
        }
        let remembered = usize::try_from(RETURN_MEMORY.as_secs()).unwrap();
        assert!((remembered..=2 * remembered).contains(&deadlines.returns.len()));
    }
}
