//! The queue of writes: decides what is written next and when. Urgent writes go first, all writes keep to a budget, and each object has at
//! most one write at a time.
//!
//! This module is pure: time comes as an argument, and the contents of the writes are kept elsewhere.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Number of writes that run at the same time. More would only wait for each other inside the API server.
const CONCURRENCY: usize = 4;
/// Number of writes that may run in addition to these because the API server did not answer them in time.
const LATE: usize = 16;
/// Time between two sustained writes: 100 writes a second, some 10 % of what a small API server can take.
const INTERVAL: Duration = Duration::from_millis(10);
/// One of every `SHARE` writes is a less urgent one, if one is due. So many urgent writes, which one user can cause, never keep the others
/// from being written.
const SHARE: u32 = 4;
/// Number of writes that may follow each other at once after a pause, so that the pods of a new Deployment learn of their quota together.
const BURST: u32 = 200;
/// For how long usage numbers must not have changed before they are written. While pods are being admitted, each write would be outdated
/// before anybody reads it.
const QUIET: Duration = Duration::from_millis(500);
/// The same of nodes after a long burst. Its last pods are let in some seconds before they are placed, and nearly every node has changed.
const LONGEST_QUIET: Duration = Duration::from_secs(3);
/// After a burst, the usage numbers of nodes must not have changed for one of so many parts of its length.
const QUIET_OF_BUSY: u32 = 16;
/// The pace of the usage numbers of cards and queues while there is no quiet. These objects are few, and people watch them.
const BUSY: Pace = Pace {
    longest_wait: Duration::from_secs(10),
    interval: Duration::from_millis(100),
};
/// The pace of the usage numbers of nodes while there is no quiet. Each admitted pod changes one node, so a burst would write nodes about
/// as often as it admits pods.
const BUSY_NODES: Pace = Pace {
    longest_wait: Duration::from_secs(30),
    interval: Duration::from_millis(200),
};
/// Time between two writes of usage numbers about the same object.
const USAGE_INTERVAL: Duration = Duration::from_secs(2);
/// Pause after the first failed write of an object. Every further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failed write.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pause of a write that was not tried.
const PAUSE_UNTRIED: Duration = Duration::from_secs(5);
/// The longest pause after a refused write: a user's admission policy may refuse thousands of writes, for hours.
const LONGEST_OF_REFUSED: Duration = Duration::from_mins(10);

/// What a write is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// The inventory of this node.
    Inventory(Arc<str>),
    /// The object for this card.
    CardType(Arc<str>),
    /// The usage of this queue.
    Usage(Arc<str>),
    /// The condition of the pod with this unique id.
    Condition(Arc<str>),
    /// The status of the group with this unique id.
    Group(Arc<str>),
    /// The event about the pod with this unique id.
    PodEvent(Arc<str>),
    /// The event with this key.
    Event(Arc<str>),
}

/// Priority of a write: smaller values go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Somebody waits to read it: conditions, discoveries.
    Prompt,
    Event,
    /// Usage numbers of a card or a queue.
    Usage,
    /// Usage numbers of a node.
    NodeUsage,
}

const URGENCIES: [Urgency; 4] = [Urgency::Prompt, Urgency::Event, Urgency::Usage, Urgency::NodeUsage];

/// How usage numbers are written while pods are being admitted all the time.
#[derive(Debug)]
struct Pace {
    /// How long usage numbers wait for quiet at most.
    longest_wait: Duration,
    /// Time between two writes of usage numbers that have waited for so long.
    interval: Duration,
}

/// Changes of usage numbers that followed each other without quiet.
#[derive(Debug, Clone, Copy)]
struct Busy {
    since: Instant,
    last: Instant,
    /// When usage numbers of nodes may be written, if none change any more: the longer they have changed, the later.
    nodes_at: Instant,
}

impl Busy {
    /// Returns what a change makes of what was before. A single change soon after a burst is none of it, and puts little off.
    fn after(before: Option<Self>, now: Instant) -> Self {
        let going_on = before.filter(|before| now < before.last + QUIET);
        let since = going_on.map_or(now, |before| before.since);
        let nodes_at = now + ((now - since) / QUIET_OF_BUSY).clamp(QUIET, LONGEST_QUIET);
        Self {
            since,
            last: now,
            nodes_at: before.map_or(nodes_at, |before| nodes_at.max(before.nodes_at)),
        }
    }
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The write is done, or no longer needed.
    Settled,
    /// The write failed and is to be tried again.
    Failed,
    /// The write was not tried, because other writes of its namespace are not answered.
    NotBegun,
    /// The write was refused. It is to be tried again, since the policy that refused it may change.
    Refused,
}

/// A place in a line: the time from which the write may be made, and a number that orders writes of equal time.
type Place = (Instant, u64);

#[derive(Debug)]
struct Slot {
    urgency: Urgency,
    /// The place in the line; none while a write runs and nothing else waits, or after a recent write.
    place: Option<Place>,
    in_flight: bool,
    /// Whether the running write is late and no longer counts among the `CONCURRENCY` regular writes.
    is_late: bool,
    /// Urgency of what was offered while the write was running.
    again: Option<Urgency>,
    /// Whether the target was withdrawn while its write was running.
    withdrawn: bool,
    failures: u32,
    /// When the last write ended.
    ended: Option<Instant>,
}

/// The queue of writes, with one line per urgency.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    slots: HashMap<Target, Slot>,
    lines: [BTreeMap<Place, Target>; URGENCIES.len()],
    /// Recently written objects, oldest first. The interval between writes of usage numbers counts from these times.
    resting: VecDeque<(Instant, Target)>,
    in_flight: usize,
    /// Number of late writes, which run in addition to `in_flight`.
    late: usize,
    arrivals: u64,
    /// How many writes in a row went ahead of less urgent ones that were due.
    passed_over: u32,
    /// When the budget is full again.
    budget_full: Option<Instant>,
    /// The changes of usage numbers that followed each other without quiet.
    busy: Option<Busy>,
    /// When the last write of each urgency began.
    last_write: [Option<Instant>; URGENCIES.len()],
    /// Whether nothing but events is written any more.
    only_events: bool,
}

impl WriteQueue {
    /// Notes that there is something to write about `target`, not before `not_before`.
    pub(super) fn offer(&mut self, target: &Target, urgency: Urgency, not_before: Instant, now: Instant) {
        if urgency.pace().is_some() {
            self.busy = Some(Busy::after(self.busy, now));
        }
        let Some(slot) = self.slots.get_mut(target) else {
            self.slots.insert(target.clone(), Slot::new(urgency));
            self.line_up(target, urgency, not_before);
            return;
        };
        slot.withdrawn = false;
        if slot.in_flight {
            slot.again = Some(slot.again.map_or(urgency, |known| known.min(urgency)));
            return;
        }
        match slot.place {
            // The write does not move back in the line, and a pause after a failure is not cut short.
            Some(place) if urgency < slot.urgency => {
                let earliest = if slot.failures > 0 {
                    place.0
                } else {
                    place.0.min(not_before)
                };
                self.lines[slot.urgency as usize].remove(&place);
                self.line_up(target, urgency, earliest);
            }
            Some(_) => {}
            None => {
                let not_before = slot.earliest(urgency, not_before);
                self.line_up(target, urgency, not_before);
            }
        }
    }

    /// Notes that there is nothing to write about `target` any more.
    pub(super) fn withdraw(&mut self, target: &Target) {
        let Some(slot) = self.slots.get_mut(target) else { return };
        slot.again = None;
        if let Some(place) = slot.place.take() {
            self.lines[slot.urgency as usize].remove(&place);
        }
        if slot.in_flight {
            slot.withdrawn = true;
        } else {
            self.slots.remove(target);
        }
    }

    /// From now on, no write begins that is not about an event.
    pub(super) fn leave_only_events(&mut self) {
        self.only_events = true;
    }

    /// Returns the next write that may be made now. The caller must report its end with [`Self::done`].
    pub(super) fn take(&mut self, now: Instant) -> Option<Target> {
        self.forget_rested(now);
        if self.in_flight == CONCURRENCY || self.budget_at().is_some_and(|at| at > now) {
            return None;
        }
        let urgency = self.next(now)?;
        let (_, target) = self.lines[urgency as usize].pop_first()?;
        let slot = self.slots.get_mut(&target)?;
        slot.place = None;
        slot.in_flight = true;
        self.in_flight += 1;
        self.last_write[urgency as usize] = Some(now);
        self.spend(1, now);
        Some(target)
    }

    /// Returns the highest urgency that is due. Every [`SHARE`]th time it returns instead, of the less urgent ones, the urgency that has
    /// been due for longest.
    fn next(&mut self, now: Instant) -> Option<Urgency> {
        let due = URGENCIES
            .into_iter()
            .filter_map(|urgency| Some((self.due(urgency)?, urgency)));
        let mut due = due.filter(|(at, _)| *at <= now);
        let (_, first) = due.next()?;
        let Some((_, longest)) = due.min() else {
            return Some(first);
        };
        self.passed_over = (self.passed_over + 1) % SHARE;
        Some(if self.passed_over == 0 { longest } else { first })
    }

    /// Notes that a write is not answered in time. The next write may begin, unless too many writes are late already.
    pub(super) fn late(&mut self, target: &Target) {
        let Some(slot) = self.slots.get_mut(target) else { return };
        if slot.in_flight && !slot.is_late && self.late < LATE {
            slot.is_late = true;
            self.late += 1;
            self.in_flight -= 1;
        }
    }

    /// Notes that a write has ended, and how many requests it took.
    pub(super) fn done(&mut self, target: &Target, outcome: Outcome, requests: u32, now: Instant) {
        let Some(slot) = self.slots.get_mut(target) else { return };
        slot.in_flight = false;
        slot.ended = Some(now);
        if std::mem::take(&mut slot.is_late) {
            self.late -= 1;
        } else {
            self.in_flight -= 1;
        }
        let again = slot.again.take();
        let withdrawn = std::mem::take(&mut slot.withdrawn);
        let retry = match outcome {
            Outcome::Settled => {
                slot.failures = 0;
                again.map(|urgency| (urgency, slot.earliest(urgency, now)))
            }
            Outcome::NotBegun => {
                let urgency = again.map_or(slot.urgency, |again| again.min(slot.urgency));
                (!withdrawn).then_some((urgency, now + PAUSE_UNTRIED))
            }
            Outcome::Failed | Outcome::Refused => {
                let longest = if outcome == Outcome::Refused {
                    LONGEST_OF_REFUSED
                } else {
                    LONGEST_PAUSE
                };
                let pause = FIRST_PAUSE.saturating_mul(1 << slot.failures.min(16)).min(longest);
                slot.failures += 1;
                let urgency = again.map_or(slot.urgency, |again| again.min(slot.urgency));
                (!withdrawn).then_some((urgency, now + pause))
            }
        };
        // `take` counted one request when the write began.
        if requests == 0 {
            self.budget_full = self.budget_full.and_then(|full| full.checked_sub(INTERVAL));
        }
        self.spend(requests.saturating_sub(1), now);
        match retry {
            Some((urgency, not_before)) => self.line_up(target, urgency, not_before),
            None if matches!(target, Target::Inventory(_) | Target::CardType(_) | Target::Usage(_)) => {
                self.resting.push_back((now, target.clone()));
            }
            None => {
                self.slots.remove(target);
            }
        }
    }

    /// Returns when [`Self::take`] may next return a write; none while only the end of a write, or an offer, can change that.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        if self.in_flight == CONCURRENCY {
            return None;
        }
        let due = URGENCIES.into_iter().filter_map(|urgency| self.due(urgency)).min()?;
        Some(self.budget_at().map_or(due, |at| at.max(due)))
    }

    /// Whether a write about `target` is waiting or going on.
    pub(super) fn is_pending(&self, target: &Target) -> bool {
        self.slots
            .get(target)
            .is_some_and(|slot| slot.place.is_some() || slot.in_flight)
    }

    /// Whether the last write about `target` has failed.
    pub(super) fn has_failed(&self, target: &Target) -> bool {
        self.slots.get(target).is_some_and(|slot| slot.failures > 0)
    }

    fn line_up(&mut self, target: &Target, urgency: Urgency, not_before: Instant) {
        let place = (not_before, self.arrivals);
        self.arrivals += 1;
        if let Some(slot) = self.slots.get_mut(target) {
            slot.urgency = urgency;
            slot.place = Some(place);
            self.lines[urgency as usize].insert(place, target.clone());
        }
    }

    /// Returns when the first write of this urgency may be made.
    fn due(&self, urgency: Urgency) -> Option<Instant> {
        if self.only_events && urgency != Urgency::Event {
            return None;
        }
        let ((not_before, _), _) = self.lines[urgency as usize].first_key_value()?;
        let (Some(pace), Some(busy)) = (urgency.pace(), self.busy) else {
            return Some(*not_before);
        };
        let quiet = match urgency {
            Urgency::NodeUsage => busy.nodes_at,
            Urgency::Prompt | Urgency::Event | Urgency::Usage => busy.last + QUIET,
        };
        let paced = self.last_write[urgency as usize].map(|last| last + pace.interval);
        let overdue = paced.into_iter().fold(*not_before + pace.longest_wait, Instant::max);
        Some(quiet.min(overdue).max(*not_before))
    }

    /// Returns when the budget allows the next write. A burst may overdraw the budget.
    fn budget_at(&self) -> Option<Instant> {
        self.budget_full
            .and_then(|full| full.checked_sub(INTERVAL * (BURST - 1)))
    }

    fn spend(&mut self, requests: u32, now: Instant) {
        let from = self.budget_full.map_or(now, |full| full.max(now));
        self.budget_full = Some(from + INTERVAL * requests);
    }

    fn forget_rested(&mut self, now: Instant) {
        while let Some((ended, target)) = self.resting.pop_front_if(|(ended, _)| *ended + USAGE_INTERVAL <= now) {
            let is_idle = |slot: &Slot| slot.place.is_none() && !slot.in_flight && slot.ended == Some(ended);
            if self.slots.get(&target).is_some_and(is_idle) {
                self.slots.remove(&target);
            }
        }
    }
}

impl Urgency {
    /// Returns the urgency of a write of `target` that shows usage numbers.
    pub(super) fn of_use(target: &Target) -> Self {
        if matches!(target, Target::Inventory(_)) {
            Self::NodeUsage
        } else {
            Self::Usage
        }
    }

    fn pace(self) -> Option<Pace> {
        match self {
            Self::Prompt | Self::Event => None,
            Self::Usage => Some(BUSY),
            Self::NodeUsage => Some(BUSY_NODES),
        }
    }
}

impl Slot {
    fn new(urgency: Urgency) -> Self {
        Self {
            urgency,
            place: None,
            in_flight: false,
            is_late: false,
            again: None,
            withdrawn: false,
            failures: 0,
            ended: None,
        }
    }

    fn earliest(&self, urgency: Urgency, not_before: Instant) -> Instant {
        match (urgency.pace(), self.ended) {
            (Some(_), Some(ended)) => not_before.max(ended + USAGE_INTERVAL),
            _ => not_before,
        }
    }
}
