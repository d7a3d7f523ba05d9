//! Seeds that have found something: worlds in which a mistake of the operator shows, or one that was planted.
//!
//! A seed is a world of the day on which it was written down: who changes what is drawn may have to look for others, by
//! `cargo simulate` and `cargo planted`.

mod devices;
mod worlds;

use std::num::NonZero;
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};

use devices::{DEVICES, TOGETHER};
use simulator::run::{Options, simulate};
use worlds::{
    CLOCK, CLUSTER, EDITS, GROUPS, KEPT, KEYS, NO_QUEUE, PLANTED, PLANTED_AT_REST, REFUSALS, RINGS, SET_BACK,
};

/// A seed, how many steps are taken, of how many one is a fault, whether the world comes to rest then, and what it found.
type Found = (u64, usize, u32, bool, &'static str);

/// What is drawn in worlds as they were at first.
const AT_FIRST: Options = Options {
    steps: 0,
    faults: 0,
    rests: false,
    devices: false,
    refusals: false,
    edits: false,
    crowded: false,
    keys: false,
    clock: false,
};

/// The same with what came one after the other.
const WITH_DEVICES: Options = Options {
    devices: true,
    ..AT_FIRST
};
const WITH_REFUSALS: Options = Options {
    refusals: true,
    ..WITH_DEVICES
};
const WITH_EDITS: Options = Options {
    edits: true,
    ..WITH_REFUSALS
};
const WITH_KEYS: Options = Options {
    crowded: true,
    keys: true,
    ..WITH_EDITS
};
const WITH_CLOCK: Options = Options {
    clock: true,
    ..WITH_KEYS
};

/// Runs these seeds in worlds as they were at first.
fn run(found: &[Found]) -> anyhow::Result<()> {
    run_with(found, &AT_FIRST)
}

/// Runs these seeds, with what there was when they were found.
fn run_with(found: &[Found], drawn: &Options) -> anyhow::Result<()> {
    let switches = [
        (drawn.devices, " --no-devices"),
        (drawn.refusals, " --no-refusals"),
        (drawn.edits, " --no-edits"),
        (drawn.crowded, " --no-crowded"),
        (drawn.keys, " --no-keys"),
        (drawn.clock, " --no-clock"),
    ];
    let off: String = switches
        .iter()
        .filter(|(is_on, _)| !is_on)
        .map(|(_, off)| *off)
        .collect();
    let play = |(seed, steps, faults, rests, what): &Found| -> anyhow::Result<()> {
        let options = Options {
            steps: *steps,
            faults: *faults,
            rests: *rests,
            ..drawn.clone()
        };
        if let Some(failure) = simulate(*seed, &options)?.failure {
            anyhow::bail!(
                "{} does not hold: {}\nthis seed has found: {what}\ncargo simulate --seed {seed} --seeds 1 --steps {steps} --faults {faults}{off}",
                failure.rule,
                failure.what,
            );
        }
        Ok(())
    };
    // A list of many is played by all cores, so that none waits for it at the end.
    let next = Mutex::new(found.iter());
    let play_next = || {
        // A statement of its own: otherwise the lock would be held while the world is played.
        let found = next.lock().ok()?.next()?;
        Some(play(found))
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let players: Vec<_> = (0..cores)
            .map(|_| scope.spawn(|| std::iter::from_fn(play_next).collect::<anyhow::Result<()>>()))
            .collect();
        let mut ended = players.into_iter().map(ScopedJoinHandle::join);
        ended.try_for_each(|ended| ended.map_err(|_| anyhow::anyhow!("a world panicked"))?)
    })
}

#[test]
fn groups_that_send_nobody_let_the_world_come_to_rest() -> anyhow::Result<()> {
    run(&GROUPS)
}

#[test]
fn cards_that_the_cluster_has_lost_let_nobody_in() -> anyhow::Result<()> {
    run(&CLUSTER)
}

#[test]
fn a_clock_that_jumps_ends_no_write() -> anyhow::Result<()> {
    run(&CLOCK)
}

#[test]
fn queues_that_are_above_themselves_are_judged() -> anyhow::Result<()> {
    run(&RINGS)
}

#[test]
fn what_was_kept_beyond_the_room_there_is_is_given_to_others_after_a_restart() -> anyhow::Result<()> {
    run(&KEPT)
}

#[test]
fn worlds_with_devices_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&DEVICES, &WITH_DEVICES)
}

#[test]
fn worlds_with_gangs_and_shared_claims_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&TOGETHER, &WITH_DEVICES)
}

#[test]
fn worlds_with_pods_in_no_queue_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&NO_QUEUE, &WITH_DEVICES)
}

#[test]
fn worlds_in_which_writes_are_refused_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&REFUSALS, &WITH_REFUSALS)
}

#[test]
fn worlds_in_which_users_write_on_what_is_there_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&EDITS, &WITH_EDITS)
}

#[test]
fn worlds_with_crowds_that_have_found_something_pass() -> anyhow::Result<()> {
    run_with(&KEYS, &WITH_KEYS)
}

#[test]
fn a_clock_that_is_set_back_gives_nothing_to_two() -> anyhow::Result<()> {
    run_with(&SET_BACK, &WITH_CLOCK)
}

#[test]
fn worlds_that_find_planted_bugs_pass() -> anyhow::Result<()> {
    run(&PLANTED)
}

#[test]
fn worlds_that_find_planted_bugs_pass_at_rest() -> anyhow::Result<()> {
    run(&PLANTED_AT_REST)
}
