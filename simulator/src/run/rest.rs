//! The end of a run: the world comes to rest, and is judged then. It is judged once more after restarted operators have
//! looked at it.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use crds::keys::{CONFIG_MAP, NAMESPACE};

use super::{QUIET_SLICE, Run};
use crate::api::faults::Forbidden;
use crate::judge::{Broken, Looked, attempts};
use crate::objects::{CONFIG_MAPS, Key, POD_GROUPS, PODS, Write};
use crate::writes::{decides, is_reminder, matters, set_aside, stands_aside, tell};

/// The world counts as at rest after this time without a write. It is longer than the intervals of anything that an operator
/// does regularly, and than deleted pods and groups without pods hold what they have.
const REST: Duration = Duration::from_mins(12);
/// The world has to be at rest after this time; otherwise writes never end. Reservations for groups that send no pods lapse
/// at ever longer intervals, up to an hour, and pods that no node takes are sent back at such intervals too. In such worlds
/// a shorter rest has to do.
const RESTLESS: Duration = Duration::from_hours(3);
/// That shorter rest. It is longer than the numbers in a reason may be out of date.
const SHORT_REST: Duration = Duration::from_mins(4);
/// How long the shorter rest is waited for.
const SHORT_RESTLESS: Duration = Duration::from_hours(2);
/// How long after the last fault an operator may still finish what it had begun.
const SETTLED: Duration = Duration::from_mins(15);
/// How long at most a pod is spared after its eviction was refused.
const SPARED: Duration = Duration::from_hours(1);
/// How long a restarted operator has for everything that it does at the start.
const FRESH: Duration = Duration::from_mins(3);

impl Run {
    /// Ends all faults, lets everything finish, and judges the result; and again after restarted operators have looked at
    /// it.
    pub(super) fn rest(&mut self) -> io::Result<Option<Broken>> {
        self.server.state().faults.end();
        for seat in &mut self.seats {
            seat.thaw(self.now);
        }
        self.judge.disturb(self.now);
        self.mend_configuration();
        let rest = match self.come_to_rest(REST)? {
            Ok(rest) => rest,
            Err(broken) => return Ok(Some(broken)),
        };
        self.tally.rested += 1;
        if let Err(broken) = self.not_asked_again(rest) {
            return Ok(Some(broken));
        }
        let (now, forbidden) = {
            let state = self.server.state();
            (state.objects.now, state.faults.forbidden(state.objects.age).collect())
        };
        match self.judge.at_rest(now, &forbidden) {
            Ok(Looked::AtEverything) => self.tally.judged += 1,
            Ok(Looked::AtWhatIsKept) => {}
            Err(broken) => return Ok(Some(broken)),
        }
        let is_anybody_aside = || {
            let state = self.server.state();
            let mut all = state.objects.list(&PODS).chain(state.objects.list(&POD_GROUPS));
            all.any(|(_, object)| stands_aside(object))
        };
        // An operator that knows less than the one before admits other pods, and evicts pods for them.
        let is_seen = !forbidden.contains(&Forbidden::Conditions) && !forbidden.contains(&Forbidden::Groups);
        let is_as_before = rest == REST
            && is_seen
            && !self.is_anybody_spared()
            && !is_anybody_aside()
            && !self.judge.is_account_unseen(self.now)
            && !self.judge.is_more_known_than_seen(self.now);
        let before = self.server.state().objects.version();
        for seat in &mut self.seats {
            seat.crash(self.now, Duration::ZERO);
        }
        self.pass(FRESH, QUIET_SLICE)?;
        if let Some(broken) = self.judge() {
            return Ok(Some(broken));
        }
        if is_as_before {
            let state = self.server.state();
            let aside = set_aside(state.objects.writes_after(0));
            let knows = |write: &&Write| write.resource != &POD_GROUPS || !aside.contains(&write.key.namespace);
            let written = state.objects.writes_after(before).iter();
            let decided = written.filter(|write| decides(write)).filter(knows);
            let written: Vec<_> = decided.map(tell).collect();
            if !written.is_empty() {
                let rule = "an operator that is started anew decides nothing else";
                let what = written.join("; ");
                return Ok(Some(Broken { rule, what }));
            }
            self.tally.begun_anew += 1;
        }
        self.server.state().faults.allow_all();
        let rest = match self.come_to_rest(SHORT_REST)? {
            Ok(rest) => rest,
            Err(broken) => return Ok(Some(broken)),
        };
        if let Err(broken) = self.not_asked_again(rest) {
            return Ok(Some(broken));
        }
        let now = self.server.state().objects.now;
        let judged = self.judge.at_rest(now, &BTreeSet::new());
        Ok(judged.err().or_else(|| self.ask()))
    }

    /// Whether a pod is spared for a while because its eviction was refused. A restarted operator tries it at once.
    fn is_anybody_spared(&self) -> bool {
        let state = self.server.state();
        let since = state.objects.age.saturating_sub(SPARED);
        let mut late = state.attempts.iter().rev().take_while(|attempt| attempt.age >= since);
        late.any(|attempt| attempt.resource == &PODS && attempt.subresource == "eviction" && attempt.code >= 400)
    }

    /// Judges the requests that changed nothing, in a world that has rested for this time.
    fn not_asked_again(&self, rest: Duration) -> Result<(), Broken> {
        let state = self.server.state();
        let now = state.objects.age;
        attempts::judge(&state.attempts, now.saturating_sub(rest), now)
    }

    /// Lets everything finish, until nothing is written for `rest`. Returns a shorter time if reservations lapse in vain
    /// again and again, and nothing is written for that.
    fn come_to_rest(&mut self, mut rest: Duration) -> io::Result<Result<Duration, Broken>> {
        let begin = self.now;
        let settled_at = self.server.state().objects.age + SETTLED;
        let (mut last_change, mut last_writes) = (self.now, Vec::new());
        let (mut is_shortened, mut restless) = (false, RESTLESS);
        // The newest version at which nothing in the world had anything left to do. No clock gives the world anything to do.
        let mut settled = None;
        while self.now.duration_since(last_change).unsigned_abs() < rest {
            let (before, age) = {
                let objects = &self.server.state().objects;
                (objects.version(), objects.age)
            };
            {
                let mut state = self.server.state();
                let is_new = |version| state.objects.writes_after(version).iter().any(matters);
                if settled.is_none_or(is_new) {
                    let has_changed = self.world.come_to_rest(&mut state.objects);
                    settled = (!has_changed).then(|| state.objects.version());
                }
                state.wake();
            }
            self.pass(Duration::from_secs(10), QUIET_SLICE)?;
            if let Some(broken) = self.judge() {
                return Ok(Err(broken));
            }
            let state = self.server.state();
            let writes = state.objects.writes_after(before);
            let matters = |write: &&Write| matters(write) && !is_reminder(write, state.objects.writes_after(0));
            let faults = &state.faults;
            let is_allowed_again = faults.forbidden(age).count() > faults.forbidden(state.objects.age).count();
            if writes.iter().any(|write| matters(&write)) || faults.is_something_on_its_way() || is_allowed_again {
                last_change = self.now;
                last_writes = writes.iter().filter(matters).take(5).map(tell).collect();
            }
            if self.now.duration_since(begin).unsigned_abs() > restless {
                let all = state.objects.writes_after(0);
                let writes = &all[all.partition_point(|write| write.age < settled_at)..];
                let in_vain = self.judge.kept_in_vain(writes, self.now);
                let (in_vain, sent_back) = match in_vain.and_then(|times| Ok((times, self.judge.sent_back(writes)?))) {
                    Ok(times) => times,
                    Err(broken) => return Ok(Err(broken)),
                };
                let is_in_vain = in_vain > 0 || sent_back > 0 || self.judge.is_kept_unseen(self.now);
                if !is_in_vain || is_shortened {
                    let rule = "an unchanged world gets no writes";
                    let what = last_writes.join("; ");
                    return Ok(Err(Broken { rule, what }));
                }
                (rest, is_shortened) = (SHORT_REST, true);
                restless += SHORT_RESTLESS;
            }
        }
        Ok(Ok(rest))
    }

    /// Writes back the last configuration that could be read.
    fn mend_configuration(&mut self) {
        // The last writes may not have been judged yet.
        let Ok(()) = self.judge.after_step(&self.server.state().objects) else {
            return;
        };
        let state = &mut *self.server.state();
        let key = Key::new(NAMESPACE, CONFIG_MAP);
        if let (Some(sound), Some(now)) = (self.judge.configuration(), state.objects.get(&CONFIG_MAPS, &key))
            && sound["data"] != now["data"]
        {
            let written = state.objects.change(&"admin".into(), &CONFIG_MAPS, &key, |map| {
                map["data"] = sound["data"].clone();
                Ok(())
            });
            debug_assert!(written.is_ok(), "what was stored once can be stored again");
        }
    }
}
