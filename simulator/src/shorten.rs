//! Shortens a history that breaks a rule. Steps are left out as long as the same rule is still broken.

use std::io;
use std::time::{Duration, Instant};

use crate::run::{Failure, Options, replay};

/// How long shortening is tried.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns a failure of the same rule, with as few steps as could be found.
pub fn shorten(seed: u64, failure: Failure, options: &Options) -> io::Result<Failure> {
    let begin = Instant::now();
    let mut best = failure;
    let mut chunk = best.history.len().div_ceil(2);
    while chunk > 0 {
        let mut from = 0;
        let mut is_shorter = false;
        while from < best.history.len() && begin.elapsed() < PATIENCE {
            let mut history = best.history.clone();
            history.drain(from..(from + chunk).min(history.len()));
            match replay(seed, &history, options)?.failure {
                Some(failure) if failure.rule == best.rule => {
                    best = failure;
                    is_shorter = true;
                }
                _ => from += chunk,
            }
        }
        if begin.elapsed() >= PATIENCE {
            break;
        }
        if !is_shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    Ok(best)
}
