//! The election as a state machine: it says what to do next, given what was seen and the local clock. It has no clock and no I/O of its
//! own.
//!
//! The Lease is a register with compare-and-swap: every write names the version that it replaces. Times in the Lease are for people and are
//! never compared with a clock; a holder's time runs from the moment when *this* machine saw the Lease change. So clocks may disagree by
//! any amount, as long as they run at about the same speed.
//!
//! The holder of the Lease leads for [`TERM`], counted from before its last successful write was *sent*. Others take over [`DURATION`]
//! after they have *seen* that write. The holder's term is therefore always over before another process takes over.

use std::time::Duration;

use tokio::time::Instant;

/// How long others wait for a holder that is silent; what `leaseDurationSeconds` says. Kubernetes' own components use the
/// same.
pub const DURATION: Duration = Duration::from_secs(15);
/// How long one write lets its writer lead. It is a third less than [`DURATION`]. This leaves room for clocks that run at different speeds,
/// and for requests that the holder sent in its last moment.
pub const TERM: Duration = Duration::from_secs(10);
/// When the holder writes again. It is half of [`TERM`], so that one failure costs nothing.
pub const RENEW: Duration = Duration::from_secs(5);
/// How often a process that stands by reads the Lease. This bounds how long a released Lease stays free.
const LOOK: Duration = Duration::from_secs(2);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// The longest duration that is believed from another holder: a slip in a Lease must not stop Cardgate for ever.
const MAX_DURATION: Duration = Duration::from_mins(5);

/// What a Lease says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The holder; none if the Lease is free.
    pub holder: Option<String>,
    /// How long others wait for the holder.
    pub duration: Duration,
    /// When the holder took the Lease, in microseconds since 1970 of the holder's clock.
    pub acquired: i64,
    /// When the holder wrote last, likewise.
    pub renewed: i64,
    /// How often the holder changed.
    pub transitions: i32,
}

/// A version of the Lease, for compare-and-swap; none while there is no Lease.
pub(super) type Version = Option<String>;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing until then.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write this record, if the Lease still has this version.
    Write(Record, Version),
}

/// The last state of the Lease that was seen.
#[derive(Debug)]
struct Seen {
    record: Record,
    version: Version,
    /// When the Lease is free for processes other than its holder.
    free: Instant,
}

/// One contender's view of the election.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    seen: Option<Seen>,
    /// Until when this contender leads.
    term: Option<Instant>,
    /// When the holder's last successful write was sent.
    renewed: Option<Instant>,
    /// A write whose outcome is unknown, and when it was sent.
    unknown: Option<(Record, Instant)>,
    /// Whether the Lease has to be read before anything else.
    stale: bool,
    /// Nothing is done before this time.
    pause: Instant,
}

impl Election {
    pub fn new(identity: String, now: Instant) -> Self {
        Self {
            identity,
            seen: None,
            term: None,
            renewed: None,
            unknown: None,
            stale: true,
            pause: now,
        }
    }

    /// Until when this contender leads; none if it does not.
    pub fn term(&self) -> Option<Instant> {
        self.term
    }

    /// Whether this contender leads.
    pub fn leads(&self, now: Instant) -> bool {
        self.term.is_some_and(|end| now < end)
    }

    /// Returns what to do now. `wall` is this machine's clock in microseconds since 1970; it is only for people to read.
    pub fn next(&self, now: Instant, wall: i64) -> Step {
        if now < self.pause {
            return Step::Wait(self.pause);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.stale) else {
            return Step::Read;
        };
        if let Some(renewed) = self.renewed {
            let due = renewed + RENEW;
            if now < due {
                return Step::Wait(due);
            }
        } else if now < seen.free {
            return Step::Read;
        }
        Step::Write(self.claim(&seen.record, wall), seen.version.clone())
    }

    fn claim(&self, record: &Record, wall: i64) -> Record {
        let is_mine = record.holder.as_ref() == Some(&self.identity);
        let has_changed_hands = record.holder.is_some() && !is_mine;
        Record {
            holder: Some(self.identity.clone()),
            duration: DURATION,
            acquired: if is_mine { record.acquired } else { wall },
            renewed: wall,
            transitions: record.transitions.saturating_add(has_changed_hands.into()),
        }
    }

    /// Returns what to write to give the Lease back; none if this contender does not hold it.
    pub fn release(&self, wall: i64) -> Option<(Record, Version)> {
        let seen = self.seen.as_ref().filter(|_| self.renewed.is_some())?;
        let free = Record {
            holder: None,
            renewed: wall,
            ..seen.record.clone()
        };
        Some((free, seen.version.clone()))
    }

    /// Notes that a write went through.
    pub fn written(&mut self, record: Record, sent: Instant, version: Version) {
        self.hold(record, sent, version);
        self.pause = sent;
    }

    /// Notes that a write did not go through, since the Lease has another version.
    pub fn refused(&mut self) {
        self.stale = true;
    }

    /// Notes that a write failed, and may have gone through or not.
    pub fn failed(&mut self, record: Record, sent: Instant, now: Instant) {
        self.unknown = Some((record, sent));
        self.stale = true;
        self.pause = now + RETRY;
    }

    /// Notes that the Lease could not be read.
    pub fn unreadable(&mut self, now: Instant) {
        self.stale = true;
        self.pause = now + RETRY;
    }

    /// Notes what the Lease says; `found` is none if there is no Lease.
    pub fn read(&mut self, found: Option<(Record, Version)>, now: Instant) {
        self.stale = false;
        let (record, version) = found.unwrap_or_default();
        if let Some((_, sent)) = self.unknown.take_if(|(unknown, _)| *unknown == record) {
            self.hold(record, sent, version);
            return;
        }
        if let Some(seen) = self.seen.as_ref().filter(|seen| seen.version == version) {
            if self.renewed.is_none() {
                self.pause = next_look(now, seen.free);
            }
            return;
        }
        // Somebody else overwrote or removed the Lease that this contender held.
        self.term = None;
        self.renewed = None;
        let free = match (&record.holder, &self.seen) {
            // The Lease was removed, and its holder may not know that yet.
            _ if version.is_none() => self.seen.as_ref().map_or(now, |seen| seen.free.max(now)),
            (None, _) => now,
            // The holder is this contender's predecessor: a process of the same pod, which has ended.
            (Some(holder), None) if *holder == self.identity => now,
            (Some(_), _) => now + record.duration.clamp(DURATION, MAX_DURATION),
        };
        self.seen = Some(Seen { record, version, free });
        self.pause = next_look(now, free);
    }

    fn hold(&mut self, record: Record, sent: Instant, version: Version) {
        self.term = Some(sent + TERM);
        self.renewed = Some(sent);
        self.unknown = None;
        self.stale = false;
        self.seen = Some(Seen {
            record,
            version,
            free: sent,
        });
    }
}

/// Returns when a process that stands by reads the Lease next: after [`LOOK`], and at the latest when the Lease becomes free.
fn next_look(now: Instant, free: Instant) -> Instant {
    (now + LOOK).min(free.max(now))
}
