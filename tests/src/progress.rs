//! Progress of long work on stderr: one line that is redrawn on a terminal, a new line now and then elsewhere.
//!
//! It writes to stderr itself: what `eprintln!` prints in a test is hidden until the test fails.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal's line is redrawn.
const REDRAW: Duration = Duration::from_millis(500);
/// How often a line is added where there is no terminal.
const REPEAT: Duration = Duration::from_secs(20);

/// Progress of one piece of work.
pub struct Progress {
    title: String,
    begin: Instant,
    last: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// Starts the clock.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            begin: Instant::now(),
            last: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Shows how far the work is, if it is time to show it again.
    pub fn show(&mut self, state: &str) {
        let interval = if self.terminal { REDRAW } else { REPEAT };
        if self.last.is_some_and(|last| last.elapsed() < interval) {
            return;
        }
        self.last = Some(Instant::now());
        self.write(state, if self.terminal { "" } else { "\n" });
    }

    /// Shows the final state.
    pub fn finish(self, state: &str) {
        self.write(state, "\n");
    }

    fn write(&self, state: &str, end: &str) {
        // Back to the line's start and clear it, so that a shorter text leaves nothing of a longer one.
        let start = if self.terminal { "\r\x1b[2K" } else { "" };
        let elapsed = self.begin.elapsed().as_secs();
        let mut stderr = std::io::stderr().lock();
        // Nobody can be told that stderr is closed.
        let _ = write!(
            stderr,
            "{start}{}: {state} [{}:{:02}]{end}",
            self.title,
            elapsed / 60,
            elapsed % 60
        );
        let _ = stderr.flush();
    }
}
