//! One run: a world, operators and faults from one seed, step by step, judged after each.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Once;
use std::time::Duration;
use std::{io, panic};

use crds::keys::{CONFIG_MAP, NAMESPACE};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::Dice;
use crate::api::Server;
use crate::fault::Fault;
use crate::judge::Judge;
use crate::objects::{CONFIG_MAPS, EVENTS, JOBS, Key, LEASES, Objects, PODS, Write};
use crate::seat::Seat;
use crate::tally::Tally;
use crate::world::{self, World};

/// When every world begins.
const BEGIN: i64 = 1_800_000_000;
/// The longest time that an operator runs before another one does.
const SLICE: Duration = Duration::from_millis(100);
/// The same where nothing happens any more.
const QUIET_SLICE: Duration = Duration::from_secs(1);
/// How many operators there are.
const SEATS: usize = 2;
/// For so long nothing must be written before the world counts as at rest: longer than anything that an operator does at
/// intervals, and than deleted pods and groups without pods hold what they have.
const REST: Duration = Duration::from_mins(12);
/// After so long it has to be at rest: then somebody writes for ever.
const RESTLESS: Duration = Duration::from_hours(3);
/// How long what happens may take to reach an operator: while the API server can't be reached, and until a watch is found dead.
const LAG: SignedDuration = SignedDuration::from_secs(100);
/// The same where watches fall silent.
const LONG_LAG: SignedDuration = SignedDuration::from_secs(400);
/// How long an operator that is started anew has for everything that it does at the start.
const FRESH: Duration = Duration::from_mins(3);

/// What is drawn.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many steps are taken before the world comes to rest.
    pub steps: usize,
    /// Of how many steps one is a fault; 0 for none.
    pub faults: u32,
    /// Whether the world comes to rest at the end, and is judged then.
    pub rests: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 200,
            faults: 4,
            rests: true,
        }
    }
}

/// One thing that happens, and for how long operators run then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What happens.
    pub what: Happening,
    /// How long nothing else happens then.
    pub pause: Duration,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// In the world.
    World(world::Step),
    /// Between it and the operators.
    Fault(Fault),
}

/// What is broken, and what had happened.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The rule.
    pub rule: &'static str,
    /// How.
    pub what: String,
    /// All steps up to then.
    pub history: Vec<Step>,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How many steps were taken.
    pub steps: usize,
    /// Who wrote what, one line for each write.
    pub writes: Vec<String>,
    /// What happened.
    pub tally: Tally,
    /// What is broken.
    pub failure: Option<Failure>,
}

/// A rule that does not hold.
type Broken = (&'static str, String);

/// Runs a seed.
pub fn simulate(seed: u64, options: &Options) -> io::Result<Outcome> {
    let (mut run, mut dice) = Run::begin(seed);
    let mut history = Vec::new();
    for _ in 0..options.steps {
        let step = run.draw(&mut dice, options);
        history.push(step.clone());
        if let Some(broken) = run.take(&step)? {
            return Ok(run.end(history, Some(broken)));
        }
    }
    let broken = if options.rests { run.rest()? } else { None };
    Ok(run.end(history, broken))
}

/// Takes these steps in the world of a seed.
pub fn replay(seed: u64, history: &[Step], options: &Options) -> io::Result<Outcome> {
    let (mut run, _) = Run::begin(seed);
    for (count, step) in history.iter().enumerate() {
        if let Some(broken) = run.take(step)? {
            return Ok(run.end(history[..=count].to_vec(), Some(broken)));
        }
    }
    let broken = if options.rests { run.rest()? } else { None };
    Ok(run.end(history.to_vec(), broken))
}

struct Run {
    /// Whether this world lasts long enough for watches to fall silent.
    patience: bool,
    now: Timestamp,
    world: World,
    server: Server,
    seats: Vec<Seat>,
    judge: Judge,
}

impl Run {
    fn begin(seed: u64) -> (Self, Dice) {
        // What kube waits for between two tries is drawn from there.
        fastrand::seed(seed);
        note_panics();
        let mut dice = Dice::seed_from_u64(seed);
        let now = Timestamp::from_second(BEGIN).unwrap_or_default();
        let mut objects = Objects::new(now).behind_door();
        let world = World::new(&mut dice, &mut objects);
        let server = Server::new(objects);
        let seats = (0..SEATS).map(|number| Seat::new(name(number), server.clone(), now));
        let seats = seats.collect();
        let patience = seed % 4 == 3;
        let run = Self {
            patience,
            now,
            world,
            server,
            seats,
            judge: Judge::new().lag(if patience { LONG_LAG } else { LAG }),
        };
        (run, dice)
    }

    fn draw(&self, dice: &mut Dice, options: &Options) -> Step {
        let pause = [0, 1, 5, 50, 300, 2_000, 10_000][dice.random_range(0..7)];
        let is_fault = options.faults > 0 && dice.random_range(0..options.faults) == 0;
        let what = if is_fault {
            Happening::Fault(Fault::draw(dice, SEATS, self.patience))
        } else {
            Happening::World(self.world.draw(dice, &self.server.state().objects))
        };
        Step {
            what,
            pause: Duration::from_millis(pause),
        }
    }

    fn take(&mut self, step: &Step) -> io::Result<Option<Broken>> {
        let mut now = self.now;
        {
            let mut state = self.server.state();
            match &step.what {
                Happening::World(step) => self.world.take(step, &mut state.objects),
                Happening::Fault(Fault::Crash(seat, back_in)) => {
                    // What it held is dropped, and its watches take themselves off the list.
                    state.settle(|who| who == name(*seat));
                    drop(state);
                    if let Some(seat) = self.seats.get_mut(*seat) {
                        seat.crash(self.now, *back_in);
                    }
                }
                Happening::Fault(fault) => now = fault.take(self.now, &mut state, &mut self.seats),
            }
        }
        if now > self.now {
            let by = now.duration_since(self.now);
            self.judge.jump(by);
            self.seats.iter_mut().for_each(|seat| seat.jump(by));
        }
        self.now = now;
        {
            let mut state = self.server.state();
            state.objects.now = now;
            state.wake();
        }
        self.pass(step.pause, SLICE)?;
        Ok(self.judge())
    }

    fn judge(&mut self) -> Option<Broken> {
        if let Some(panicked) = PANICKED.take() {
            return Some(("nobody panics", panicked));
        }
        let judged = self.judge.after_step(&self.server.state().objects);
        judged.err().map(|broken| (broken.rule, broken.what))
    }

    /// Lets everybody run for so long.
    fn pass(&mut self, mut time: Duration, slice: Duration) -> io::Result<()> {
        while !time.is_zero() {
            let slice = time.min(slice);
            time -= slice;
            for seat in &mut self.seats {
                if seat.is_about_to_start(self.now) {
                    self.judge.started(self.now);
                }
                if let Some(why) = seat.run(self.now, slice)? {
                    tracing::info!(why, "an operator has ended");
                }
            }
            self.now = self.now.checked_add(slice).unwrap_or(self.now);
            let mut state = self.server.state();
            state.objects.pass_until(self.now);
            state.arrive();
            state.wake();
        }
        Ok(())
    }

    /// Ends all faults, lets everybody do what is left to do, and judges what is there then; and again after another operator
    /// has looked at it.
    fn rest(&mut self) -> io::Result<Option<Broken>> {
        self.server.state().faults.end();
        for seat in &mut self.seats {
            seat.thaw(self.now);
        }
        let begin = self.now;
        self.mend_configuration();
        let mut last_change = (self.now, self.server.state().objects.version());
        while self.now.duration_since(last_change.0).unsigned_abs() < REST {
            let before = self.server.state().objects.version();
            {
                let mut state = self.server.state();
                self.world.come_to_rest(&mut state.objects);
                state.wake();
            }
            self.pass(Duration::from_secs(10), QUIET_SLICE)?;
            if let Some(broken) = self.judge() {
                return Ok(Some(broken));
            }
            let state = self.server.state();
            let writes = state.objects.writes_after(before);
            if writes.iter().any(matters) || state.faults.is_something_on_its_way() {
                last_change = (self.now, state.objects.version());
            }
            if self.now.duration_since(begin).unsigned_abs() > RESTLESS {
                let last = state
                    .objects
                    .writes_after(before)
                    .iter()
                    .rev()
                    .filter(|write| matters(write));
                let last: Vec<_> = last.take(5).map(tell).collect();
                return Ok(Some(("an unchanged world gets no writes", last.join("; "))));
            }
        }
        if let Err(broken) = self.judge.at_rest(&self.server.state().objects) {
            return Ok(Some((broken.rule, broken.what)));
        }
        if self
            .server
            .state()
            .objects
            .list(&PODS)
            .any(|(_, pod)| stands_aside(pod))
        {
            return Ok(None);
        }
        let before = self.server.state().objects.version();
        for seat in &mut self.seats {
            seat.crash(self.now, Duration::ZERO);
        }
        self.pass(FRESH, QUIET_SLICE)?;
        if let Some(broken) = self.judge() {
            return Ok(Some(broken));
        }
        let state = self.server.state();
        let decided = state.objects.writes_after(before).iter().filter(|write| decides(write));
        let written: Vec<_> = decided.map(tell).collect();
        if written.is_empty() {
            Ok(None)
        } else {
            Ok(Some((
                "an operator that is started anew decides nothing else",
                written.join("; "),
            )))
        }
    }

    /// Somebody writes back the last configuration that could be read.
    fn mend_configuration(&mut self) {
        // What was written last may not have been looked at.
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

    fn end(self, history: Vec<Step>, broken: Option<Broken>) -> Outcome {
        let state = self.server.state();
        Outcome {
            steps: history.len(),
            writes: state.objects.writes_after(0).iter().map(tell).collect(),
            tally: Tally::of(state.objects.writes_after(0), &history),
            failure: broken.map(|(rule, what)| Failure { rule, what, history }),
        }
    }
}

/// The name of the operator of this seat.
fn name(seat: usize) -> String {
    format!("operator-{seat}")
}

/// Whether a write is more than the sign that somebody lives.
fn matters(write: &Write) -> bool {
    write.resource != &LEASES
}

/// What those are told who stand aside for a time of which another operator knows nothing.
const ASIDE: [&str; 3] = ["ReservationTimeout", "InqueueTimeout", "RefusedByAPIServer"];

/// Whether a pod stands aside.
fn stands_aside(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|told| told["reason"].as_str().is_some_and(|reason| ASIDE.contains(&reason)))
}

/// Whether a write lets somebody in, or takes somebody back.
fn decides(write: &Write) -> bool {
    let Some(after) = &write.after else {
        return write.resource == &PODS;
    };
    let before = write.before.as_deref().unwrap_or(&Value::Null);
    (write.resource == &PODS || write.resource == &JOBS)
        && (before["spec"] != after["spec"]
            || after["metadata"]["deletionTimestamp"] != before["metadata"]["deletionTimestamp"])
}

fn tell(write: &Write) -> String {
    let (what, how) = match (&write.before, &write.after) {
        (None, Some(after)) => ("creates", after["note"].as_str().unwrap_or_default().to_owned()),
        (Some(before), Some(after)) => ("changes", difference("", before, after).join(", ")),
        _ => ("removes", String::new()),
    };
    let (time, who, plural) = (write.at, &write.who, write.resource.plural);
    // Some events are named by a clock that is told nothing.
    let about = write.after.as_ref().filter(|_| write.resource == &EVENTS);
    let about = about.and_then(|event| event["regarding"]["name"].as_str());
    let name = about.map_or_else(|| write.key.to_string(), |about| format!("about {about}"));
    format!("{time} {who} {what} {plural} {name}: {how}")
}

/// What differs, place by place.
fn difference(place: &str, before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        (Value::Object(had), Value::Object(has)) => {
            let keys: BTreeSet<_> = had.keys().chain(has.keys()).collect();
            let of_key = |key: &&String| difference(&format!("{place}.{key}"), &before[&***key], &after[&***key]);
            keys.iter()
                .filter(|key| ***key != "resourceVersion")
                .flat_map(of_key)
                .collect()
        }
        (Value::Array(had), Value::Array(has)) if had.len() == has.len() => {
            let pairs = had.iter().zip(has).enumerate();
            let of_pair = |(index, (before, after))| difference(&format!("{place}[{index}]"), before, after);
            pairs.flat_map(of_pair).collect()
        }
        (before, after) if before == after => Vec::new(),
        (before, after) => vec![format!("{place} {before} -> {after}")],
    }
}

thread_local! {
    /// The last panic on this thread.
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes who panics, besides showing it.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let show = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            PANICKED.set(Some(panicked.to_string()));
            show(panicked);
        }));
    });
    PANICKED.take();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_history() {
        let options = Options {
            steps: 120,
            rests: false,
            ..Options::default()
        };
        for seed in 0..2 {
            let (one, other) = (simulate(seed, &options).unwrap(), simulate(seed, &options).unwrap());
            let differing = one.writes.iter().zip(&other.writes).find(|(one, other)| one != other);
            assert_eq!(differing, None, "seed {seed}");
            assert_eq!(one.writes.len(), other.writes.len(), "seed {seed}");
        }
    }
}
