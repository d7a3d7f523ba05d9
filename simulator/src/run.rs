//! One run: a world, operators and faults from one seed, judged after each step.

mod asked;
mod besides;
mod rest;

use std::cell::RefCell;
use std::sync::Once;
use std::time::Duration;
use std::{io, panic};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rand::{RngExt as _, SeedableRng as _};

use crate::Dice;
use crate::api::Server;
use crate::api::faults::Forbidden;
use crate::fault::Fault;
use crate::judge::{Broken, Judge};
use crate::objects::{Objects, Write};
use crate::seat::Seat;
use crate::tally::Tally;
use crate::world::{self, World};
use crate::writes::tell;
use besides::Besides;

/// When every world begins.
const BEGIN: i64 = 1_800_000_000;
/// The longest time that one operator runs before another one does.
const SLICE: Duration = Duration::from_millis(100);
/// The same once nothing happens any more.
const QUIET_SLICE: Duration = Duration::from_secs(1);
/// How many operators there are.
const SEATS: usize = 2;
/// How long an event may take to reach an operator: while the API server is unreachable, and until a dead watch is noticed.
const LAG: SignedDuration = SignedDuration::from_secs(100);
/// The same in worlds where watches fall silent.
const LONG_LAG: SignedDuration = SignedDuration::from_secs(400);
/// How long a gang may be cut in two after the last fault, beyond the time that consequences of the fault may be on their
/// way: the time that another operator needs to lead, to read everything, and to let the rest in.
const HEALS: SignedDuration = SignedDuration::from_secs(200);

/// What is drawn.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches")]
pub struct Options {
    /// How many steps are taken before the world comes to rest.
    pub steps: usize,
    /// One of so many steps is a fault; 0 for no faults.
    pub faults: u32,
    /// Whether the world comes to rest at the end, and is judged then.
    pub rests: bool,
    /// Whether drivers publish devices, in some worlds.
    pub devices: bool,
    /// Whether writes of some kind are refused for a while, in some worlds.
    pub refusals: bool,
    /// Whether users edit existing objects, in some worlds.
    pub edits: bool,
    /// Whether more is asked for than there is, so that much is reclaimed, in some worlds.
    pub crowded: bool,
    /// Whether rarely used keys of the configuration are written, in some worlds.
    pub keys: bool,
    /// Whether the wall clock runs ahead and is set back, in some worlds.
    pub clock: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 200,
            faults: 4,
            rests: true,
            devices: true,
            refusals: true,
            edits: true,
            crowded: true,
            keys: true,
            clock: true,
        }
    }
}

/// One event, and how long operators then run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What happens.
    pub what: Happening,
    /// How long nothing else happens afterwards.
    pub pause: Duration,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// An event in the world.
    World(world::Step),
    /// A fault between the world and the operators.
    Fault(Fault),
}

/// A broken rule, and what had happened before.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The rule.
    pub rule: &'static str,
    /// In which way it is broken.
    pub what: String,
    /// All steps so far.
    pub history: Vec<Step>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many steps were taken.
    pub steps: usize,
    /// The writes, with their authors.
    pub writes: Vec<Write>,
    /// What happened.
    pub tally: Tally,
    /// The broken rule, if one is.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Returns the writes, one line each. Lines show what differs, which is costly, so they are computed only on demand.
    pub fn told(&self) -> Vec<String> {
        self.writes.iter().map(tell).collect()
    }
}

/// Runs a seed.
pub fn simulate(seed: u64, options: &Options) -> io::Result<Outcome> {
    let (mut run, mut dice) = Run::begin(seed, options);
    let mut besides = Besides::new(seed, options);
    let mut history = Vec::new();
    for _ in 0..options.steps {
        let besides = besides.draw(&run.server.state().objects);
        for step in besides.into_iter().chain([run.draw(&mut dice, options)]) {
            history.push(step.clone());
            if let Some(broken) = run.take(&step)? {
                return Ok(run.end(history, Some(broken)));
            }
        }
    }
    let broken = if options.rests { run.rest()? } else { None };
    Ok(run.end(history, broken))
}

/// Takes these steps in the world of a seed.
pub fn replay(seed: u64, history: &[Step], options: &Options) -> io::Result<Outcome> {
    let (mut run, _) = Run::begin(seed, options);
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
    /// What no write and no step shows.
    tally: Tally,
}

impl Run {
    fn begin(seed: u64, options: &Options) -> (Self, Dice) {
        // kube draws its pauses between two tries from this generator.
        fastrand::seed(seed);
        note_panics();
        let mut dice = Dice::seed_from_u64(seed);
        let now = Timestamp::from_second(BEGIN).unwrap_or_default();
        let mut objects = Objects::new(now).behind_door();
        objects.has_devices = options.devices && world::has_devices(seed);
        let world = World::new(&mut dice, &mut objects);
        let server = Server::new(objects);
        let seats = (0..SEATS).map(|number| Seat::new(name(number), server.clone(), now));
        let seats = seats.collect();
        let patience = seed % 4 == 3;
        let lag = if patience { LONG_LAG } else { LAG };
        let run = Self {
            patience,
            now,
            world,
            server,
            seats,
            judge: Judge::new().lag(lag).heal_within(lag + HEALS),
            tally: Tally::default(),
        };
        (run, dice)
    }

    fn draw(&self, dice: &mut Dice, options: &Options) -> Step {
        let pause = [0, 1, 5, 50, 300, 2_000, 10_000][dice.random_range(0..7)];
        let is_fault = options.faults > 0 && dice.random_range(0..options.faults) == 0;
        let what = if is_fault {
            let has_devices = self.server.state().objects.has_devices;
            Happening::Fault(Fault::draw(dice, SEATS, self.patience, has_devices))
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
                    // What the operator held is dropped, and its watches unregister.
                    state.settle(|who| who == name(*seat));
                    drop(state);
                    if let Some(seat) = self.seats.get_mut(*seat) {
                        seat.crash(self.now, *back_in);
                    }
                }
                Happening::Fault(fault) => now = fault.take(self.now, &mut state, &mut self.seats),
            }
        }
        if now != self.now {
            let by = now.duration_since(self.now);
            self.judge.jump(self.now, by);
            self.seats.iter_mut().for_each(|seat| seat.jump(by));
        }
        self.now = now;
        if matches!(step.what, Happening::Fault(_)) {
            self.judge.disturb(now);
        }
        if let Happening::Fault(Fault::Forbid(Forbidden::Groups, _, time)) = step.what {
            let age = self.server.state().objects.age;
            self.judge.phases_are_refused(age.saturating_add(time));
        }
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
            let rule = "nobody panics";
            return Some(Broken { rule, what: panicked });
        }
        self.judge.after_step(&self.server.state().objects).err()
    }

    /// Lets everything run for this time.
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

    fn end(self, history: Vec<Step>, broken: Option<Broken>) -> Outcome {
        let writes = self.server.state().objects.take_writes();
        let mut tally = Tally::of(&writes, &history);
        tally += self.tally;
        Outcome {
            steps: history.len(),
            writes,
            tally,
            failure: broken.map(|Broken { rule, what }| Failure { rule, what, history }),
        }
    }
}

/// The name of the operator of this seat.
fn name(seat: usize) -> String {
    format!("operator-{seat}")
}

thread_local! {
    /// The last panic on this thread.
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records panics, besides showing them.
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
            let [one, other] = [(); 2].map(|()| simulate(seed, &options).unwrap().told());
            let differing = one.iter().zip(&other).find(|(one, other)| one != other);
            assert_eq!(differing, None, "seed {seed}");
            assert_eq!(one.len(), other.len(), "seed {seed}");
        }
    }
}
