//! Judges whether the stored objects are as they must be, from the objects and from who wrote what, and from nothing else.
//!
//! It shares no code with what decides. Quantities, cards, queues and configurations are read by small readers of its own,
//! and everything is counted anew from the objects each time. A reader should be able to verify it by reading.
//!
//! # What is held against Cardgate
//! Only what Cardgate wrote itself. What others bind around it, lowered quotas and shrinking nodes are not its fault. It
//! reads by watches, so what others changed within the last [`Judge::lag`] may not have reached it: there the old or the new
//! state counts, whichever is more lenient. It knows its own admissions at once, and so does the next leader, who lists
//! before it decides. So admissions always count.
//!
//! `cargo faults` has the same judge look at a real control plane, with the writes that watches deliver.

mod admission;
mod amounts;
pub mod attempts;
mod cards;
mod claims;
mod configuration;
mod cross_quota;
mod deserves;
mod evictions;
mod gangs;
mod in_vain;
mod kept;
mod lapses;
mod leadership;
mod memo;
mod moved;
mod nodes;
mod places;
mod pods;
mod queues;
mod quota;
mod repeats;
mod rest;
mod results;
mod returns;
mod shares;
mod shown;
mod stored;
#[cfg(test)]
mod tests;
mod together;
mod told;
mod view;
mod workloads;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::faults::Forbidden;
use crate::objects::{Objects, PODS, Write};
use stored::Stored;
use view::View;

pub use pods::is_held;
pub use rest::why_it_waits;

/// The prefix of operators' names, such as `operator-0`.
const OPERATORS: &str = "operator";

/// How long what others changed may take to reach an operator, unless the judge is told otherwise.
const LAG: SignedDuration = SignedDuration::from_secs(30);

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule, in a few words that stay the same.
    pub rule: &'static str,
    /// The objects concerned, and the numbers.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// A broken rule, or none.
type Finding = Result<(), Broken>;

/// Returns a broken rule and how it is broken.
pub(crate) fn broken(rule: &'static str, what: impl Into<String>) -> Finding {
    Err(Broken {
        rule,
        what: what.into(),
    })
}

/// Whether this is an operator's name.
fn is_operator(who: &str) -> bool {
    who.starts_with(OPERATORS)
}

/// How much of a world at rest can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// Everything.
    AtEverything,
    /// Only what is kept for workloads, since an operator knows of charges that the objects no longer show.
    AtWhatIsKept,
}

/// Judges every write, in the order of the writes, and the state when all is quiet.
#[derive(Debug)]
pub struct Judge {
    /// The newest version that was judged.
    seen: u64,
    /// What is stored after the judged writes.
    stored: Stored,
    /// How long what others changed may take to reach an operator.
    lag: SignedDuration,
    /// Whether a rest is long enough for pods to be told their reasons again.
    tells_anew: bool,
    leadership: leadership::Leadership,
    evictions: evictions::Evictions,
    gangs: gangs::Gangs,
    in_vain: in_vain::InVain,
    repeats: repeats::Repeats,
    kept: kept::Kept,
    /// The age of the world from which the phases of groups, by which kept quota is judged, are written in time again.
    phases_late_until: Duration,
    moved: moved::Moved,
    /// The starts of operators that were not processed yet.
    starts: VecDeque<Timestamp>,
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// A judge that has seen nothing yet.
    pub fn new() -> Self {
        Self {
            seen: 0,
            stored: Stored::default(),
            lag: LAG,
            tells_anew: true,
            leadership: leadership::Leadership::default(),
            evictions: evictions::Evictions::default(),
            gangs: gangs::Gangs::default(),
            in_vain: in_vain::InVain::default(),
            repeats: repeats::Repeats::default(),
            kept: kept::Kept::default(),
            phases_late_until: Duration::ZERO,
            moved: moved::Moved::default(),
            starts: VecDeque::new(),
        }
    }

    /// The same for a world in which what others change reaches an operator after this time at the latest.
    #[must_use]
    pub fn lag(mut self, lag: SignedDuration) -> Self {
        self.lag = lag;
        self
    }

    /// The same for a world in which only the death of an operator cuts a gang in two: it may stay so for this time.
    #[must_use]
    pub fn cut_at_most(mut self, most: SignedDuration) -> Self {
        self.gangs = gangs::Gangs::cut_at_most(most);
        self
    }

    /// The same for a world with many faults: after the last of them, no gang stays cut in two for longer than this.
    #[must_use]
    pub fn heal_within(mut self, most: SignedDuration) -> Self {
        self.gangs = gangs::Gangs::heal_within(most);
        self
    }

    /// The same for a world whose rest is too short for pods to be told their reasons again: the numbers may be old.
    #[must_use]
    pub fn short_rest(mut self) -> Self {
        self.tells_anew = false;
        self
    }

    /// Judges the writes since the last call.
    pub fn after_step(&mut self, objects: &Objects) -> Result<(), Broken> {
        for write in objects.writes_after(self.seen) {
            self.hear(write)?;
        }
        Ok(())
    }

    /// Notes that an operator is started.
    pub fn started(&mut self, at: Timestamp) {
        self.starts.push_back(at);
    }

    /// Notes a fault between an operator and the API server, now or up to now.
    pub fn disturb(&mut self, at: Timestamp) {
        self.gangs.disturb(at);
    }

    /// Notes that phases of groups are refused until this age of the world: what is kept for groups is shown later than it
    /// is decided.
    pub fn phases_are_refused(&mut self, until: Duration) {
        let shown = until.saturating_add(self.lag.unsigned_abs());
        self.phases_late_until = self.phases_late_until.max(shown);
    }

    /// Returns the newest configuration that can be put in force.
    pub fn configuration(&self) -> Option<&Arc<Value>> {
        self.stored.configuration()
    }

    /// Notes that the wall clock jumps forward or back, from then by so much. Recent events stay recent.
    pub fn jump(&mut self, from: Timestamp, by: SignedDuration) {
        let starts = self.starts.iter_mut();
        starts.for_each(|at| *at = at.checked_add(by).unwrap_or(*at));
        self.gangs.jump(by);
        self.kept.jump(by);
        self.stored.jump(from, by);
    }

    /// Judges one write, which follows those before.
    pub fn hear(&mut self, write: &Write) -> Result<(), Broken> {
        self.seen = self.seen.max(write.version);
        let mut begins_anew = leadership::passes_on(write);
        while self.starts.pop_front_if(|at| *at <= write.at).is_some() {
            self.kept.forget_all();
            begins_anew = true;
        }
        if begins_anew {
            self.in_vain.forget_all();
            self.repeats.forget_all();
        }
        let since = earlier(write.at, self.lag);
        let finding = self.judge(write, since);
        let kept = self.kept.hear(write, &self.stored, since);
        let finding = if write.age < self.phases_late_until {
            self.kept.forget_all();
            finding
        } else {
            finding.and(kept)
        };
        // An operator's own writes excuse nothing: it tells a group why it waits, and labels nodes, all the time.
        let changes_terms = stored::changes_terms(write) && !is_operator(&write.who);
        let finding = finding.and(self.evictions.hear(write, &self.stored, changes_terms));
        let finding = finding.and(self.repeats.hear(write, changes_terms, &self.stored));
        self.in_vain.hear(write, &self.stored, changes_terms);
        self.gangs.hear(write, changes_terms, self.lag);
        let charged = moved::charged(write, &self.stored);
        self.stored.take(write, since);
        self.moved.hear(write, charged, &self.stored);
        finding.and(self.gangs.cut(write, &self.stored))
    }

    fn judge(&mut self, write: &Write, since: Timestamp) -> Finding {
        self.leadership.judge(write)?;
        if !is_operator(&write.who) || write.resource != &PODS {
            return Ok(());
        }
        results::judge(write)?;
        if admission::is_one(write) {
            admission::judge(write, &self.stored, &self.moved, since)?;
        }
        Ok(())
    }

    /// Judges the state when the world has become quiet, after all writes were judged. What depends on writes that are
    /// `forbidden` to operators is not judged.
    pub fn at_rest(&self, now: Timestamp, forbidden: &BTreeSet<Forbidden>) -> Result<Looked, Broken> {
        let may = |what| !forbidden.contains(&what);
        let may_tell = may(Forbidden::Conditions);
        self.kept.certain(now)?;
        let view = View::read(&self.stored.now, now, &BTreeSet::new());
        if view.is_some_and(|view| claims::is_charged_unseen(&view) || self.moved.hold(&view)) {
            return Ok(Looked::AtWhatIsKept);
        }
        if may_tell {
            let tells_anew = self.tells_anew && may(Forbidden::Groups);
            rest::judge(&self.stored, tells_anew.then_some(&self.kept), now)?;
            together::judge(&self.stored, now)?;
        }
        self.gangs.at_rest(&self.stored)?;
        if may_tell && may(Forbidden::Evictions) {
            self.in_vain.at_rest(&self.stored)?;
        }
        if may(Forbidden::Reports) {
            shown::judge(&self.stored, now)?;
        }
        Ok(Looked::AtEverything)
    }

    /// Returns how often what was kept for a group lapsed in vain by these writes, in a world that only operators change.
    pub fn kept_in_vain(&self, writes: &[Write], now: Timestamp) -> Result<u32, Broken> {
        let view = View::read(&self.stored.now, now, &BTreeSet::new());
        view.map_or(Ok(0), |view| lapses::judge(writes, view.configuration.inqueue))
    }

    /// Returns how often pods were sent back by these writes, in such a world.
    pub fn sent_back(&self, writes: &[Write]) -> Result<usize, Broken> {
        returns::judge(writes, &self.stored.now)
    }

    /// Whether something may be kept in vain for a Job, which lapses and begins again at ever longer intervals, and shows
    /// only in what others are told.
    pub fn is_kept_unseen(&self, now: Timestamp) -> bool {
        let view = View::read(&self.stored.now, now, &BTreeSet::new());
        view.is_some_and(|view| kept::is_for_jobs(&view, &self.stored))
    }

    /// Whether an operator may know more than the objects show: that there once was room for what it keeps for workloads,
    /// for which devices, now gone, a pod was let in, or on which node it expects a pod without a node. A restarted operator
    /// knows none of this. It may admit other pods, or evict pods for them.
    pub fn is_more_known_than_seen(&self, now: Timestamp) -> bool {
        let view = View::read(&self.stored.now, now, &BTreeSet::new());
        view.is_some_and(|view| {
            kept::is_beyond_room(&view, &self.stored) || claims::is_charged_unseen(&view) || view.is_expected_unseen()
        })
    }

    /// Whether the objects do not show which queue a pod is charged to. A restarted operator may charge the pod to another
    /// queue, and decide differently about both queues.
    pub fn is_account_unseen(&self, now: Timestamp) -> bool {
        let view = View::read(&self.stored.now, now, &BTreeSet::new());
        view.is_some_and(|view| self.moved.hold(&view))
    }
}

/// Returns a time so much before another.
fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}
