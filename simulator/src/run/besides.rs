//! What is drawn separately, each kind from a stream of its own, so that everything else is drawn as it always was.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};

use super::{Happening, Options, Step};
use crate::Dice;
use crate::fault::Fault;
use crate::objects::Objects;
use crate::world::World;

/// Writes are refused for a while.
const REFUSALS: Kind = Kind {
    stream: 0x4e0_5a1d,
    worlds: 40,
    each: 60,
};
/// Users edit existing objects.
const EDITS: Kind = Kind {
    stream: 0xed_1715,
    worlds: 40,
    each: 12,
};
/// A crowd comes.
const CROWD: Kind = Kind {
    stream: 0xc0ad_ed00,
    worlds: 30,
    each: 2,
};
/// Rarely used keys of the configuration are written.
const KEYS: Kind = Kind {
    stream: 0x6b_e75,
    worlds: 25,
    each: 30,
};

/// The clock runs ahead, or is set back.
const CLOCK: Kind = Kind {
    stream: 0xc1_0c4b,
    worlds: 20,
    each: 40,
};

/// One kind of thing that is drawn from a seed.
struct Kind {
    /// What distinguishes its stream from others.
    stream: u64,
    /// In how many of a hundred worlds it happens.
    worlds: u32,
    /// In such a world it happens once for so many other things.
    each: u32,
}

/// The stream of one kind, in a world in which the kind happens.
struct Stream {
    dice: Dice,
    each: u32,
}

impl Kind {
    fn begin(&self, seed: u64, is_on: bool) -> Option<Stream> {
        let mut dice = Dice::seed_from_u64(seed ^ self.stream);
        let happens = is_on && dice.random_range(0..100) < self.worlds;
        happens.then_some(Stream { dice, each: self.each })
    }
}

/// Returns the dice if it is time for the next event.
fn due(stream: &mut Option<Stream>) -> Option<&mut Dice> {
    let Stream { dice, each } = stream.as_mut()?;
    (dice.random_range(0..*each) == 0).then_some(dice)
}

/// The streams of a seed.
pub(super) struct Besides {
    refusals: Option<Stream>,
    edits: Option<Stream>,
    crowd: Option<Stream>,
    keys: Option<Stream>,
    clock: Option<Stream>,
    /// How far the clock runs ahead.
    ahead: Option<Duration>,
}

impl Besides {
    pub(super) fn new(seed: u64, options: &Options) -> Self {
        Self {
            refusals: REFUSALS.begin(seed, options.refusals),
            edits: EDITS.begin(seed, options.edits),
            crowd: CROWD.begin(seed, options.crowded),
            keys: KEYS.begin(seed, options.keys),
            clock: CLOCK.begin(seed, options.clock),
            ahead: None,
        }
    }

    /// Returns what happens besides the next step, all at once. But pods that a crowd drives out have some time to go.
    pub(super) fn draw(&mut self, objects: &Objects) -> Vec<Step> {
        let refusal = due(&mut self.refusals).map(Fault::draw_refusal);
        let clock = due(&mut self.clock).map(|dice| Fault::draw_clock(dice, &mut self.ahead));
        let faults = refusal.into_iter().chain(clock).map(Happening::Fault);
        let mut steps: Vec<_> = due(&mut self.edits)
            .and_then(|dice| World::draw_edit(dice, objects))
            .into_iter()
            .collect();
        let mut pause = Duration::ZERO;
        if let Some(dice) = due(&mut self.crowd) {
            steps.extend(World::draw_crowd(dice, objects));
            pause = Duration::from_secs([0, 1, 5, 15][dice.random_range(0..4)]);
        }
        steps.extend(due(&mut self.keys).and_then(|dice| World::draw_key(dice, objects)));
        let steps = steps.into_iter().map(Happening::World);
        let all = faults.chain(steps);
        let at_once = |what| Step {
            what,
            pause: Duration::ZERO,
        };
        let mut all: Vec<_> = all.map(at_once).collect();
        if let Some(last) = all.last_mut() {
            last.pause = pause;
        }
        all
    }
}
