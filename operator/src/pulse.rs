//! The pulse of the mind: what it is doing, reported by the mind itself and read by those that watch over it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::trail::{Trail, Work};
use tokio::time::Instant;

use crate::metrics::Step;

/// The mind goes around five times a second, even when idle. A mind that has not done so for this long hangs, and the kubelet is told to
/// restart this operator.
pub const SILENCE: Duration = Duration::from_secs(30);

/// A step that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How long it took.
    pub took: Duration,
    /// The piece of work that took longest, and how long it took.
    pub longest: Option<(Work, Duration)>,
}

/// The pulse of one mind.
#[derive(Debug)]
pub struct Pulse(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When the mind went around last.
    beat: Instant,
    /// The present step, and since when.
    step: Option<(Step, Instant)>,
    /// The present piece of work, and since when.
    work: Option<(Work, Instant)>,
    longest: Option<(Work, Duration)>,
    /// A number that rises with every piece of work.
    pieces: u64,
}

/// What the mind is doing, as seen by those that watch over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The number of the piece of work, which no other piece has.
    pub piece: u64,
    /// The piece of work, if there is one.
    pub work: Option<Work>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(State {
            beat: Instant::now(),
            step: None,
            work: None,
            longest: None,
            pieces: 0,
        }))
    }
}

impl Pulse {
    /// Notes that the mind has gone around once more.
    pub fn beat(&self) {
        self.state().beat = Instant::now();
    }

    /// Notes that a step begins.
    pub fn begin(&self, step: Step) {
        let mut state = self.state();
        let now = Instant::now();
        state.end_piece(now);
        state.step = Some((step, now));
        state.longest = None;
    }

    /// Notes that the step has ended.
    pub fn end(&self) -> Ended {
        let mut state = self.state();
        let now = Instant::now();
        state.end_piece(now);
        let took = state.step.take().map(|(_, since)| now.duration_since(since));
        Ended {
            took: took.unwrap_or_default(),
            longest: state.longest.take(),
        }
    }

    /// Returns what the mind is doing now.
    pub fn place(&self) -> Place {
        let state = self.state();
        Place {
            piece: state.pieces,
            work: state.work.as_ref().map(|(work, _)| work.clone()),
        }
    }

    /// Returns why the mind does not seem to be alive; none if it does. The text contains no names, since everybody who reaches the port
    /// may read it.
    pub fn trouble(&self) -> Option<String> {
        let state = self.state();
        let now = Instant::now();
        let silent = now.duration_since(state.beat);
        if silent < SILENCE {
            return None;
        }
        let seconds = silent.as_secs();
        let at = match (&state.work, state.step) {
            (Some((work, since)), _) => format!(
                "it has been {} a {} (uid {}) for {} s; its name is in the log",
                work.doing,
                work.object.kind.as_str(),
                work.object.uid,
                now.duration_since(*since).as_secs()
            ),
            (None, Some((step, since))) => {
                format!(
                    "its step \"{}\" has lasted {} s",
                    step.as_str(),
                    now.duration_since(since).as_secs()
                )
            }
            (None, None) => "it is at no step: it has ended, or is not woken".to_owned(),
        };
        Some(format!("the deciding thread has not answered for {seconds} s: {at}"))
    }

    #[cfg(test)]
    pub(crate) fn silent_for(time: Duration) -> Self {
        let pulse = Self::default();
        pulse.state().beat = Instant::now().checked_sub(time).unwrap_or_else(Instant::now);
        pulse
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock panics between two assignments that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end_piece(&mut self, now: Instant) {
        self.pieces += 1;
        if let Some((work, since)) = self.work.take() {
            let took = now.duration_since(since);
            if self.longest.as_ref().is_none_or(|(_, longest)| took > *longest) {
                self.longest = Some((work, took));
            }
        }
    }
}

impl Trail for Pulse {
    fn at(&self, work: Work) {
        let mut state = self.state();
        let now = Instant::now();
        state.end_piece(now);
        state.work = Some((work, now));
    }

    fn over(&self) {
        self.state().end_piece(Instant::now());
    }
}

/// Whether the present mind is alive.
#[derive(Debug, Default)]
pub struct Liveness(ArcSwap<Pulse>);

impl Liveness {
    /// Follows this pulse from now on: that of the present mind.
    pub fn follow(&self, pulse: Arc<Pulse>) {
        self.0.store(pulse);
    }

    /// Returns why the mind does not seem to be alive; none if it does.
    pub fn trouble(&self) -> Option<String> {
        self.0.load().trouble()
    }
}

#[cfg(test)]
mod tests;
