//! Whether a program is ready, and what there is to say of that.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metric that says what `/readyz` says, for alarms. Clones show the same.
#[derive(Debug, Clone, Default)]
pub struct ReadyGauge(Gauge);

impl ReadyGauge {
    /// Registers the metric.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "ready",
            "1 if this program has what it needs, as /readyz says; an operator that stands by is ready too",
            self.0.clone(),
        );
    }

    /// Shows whether the program is ready.
    pub fn show(&self, ready: bool) {
        self.0.set(ready.into());
    }
}

/// Whether a program has seen what it needs, and the messages in the readiness text.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    missing: Vec<&'static str>,
    leads: Option<bool>,
    configuration_problem: Option<String>,
    installation_problems: Vec<String>,
    draining: bool,
}

impl Readiness {
    /// Returns a readiness that waits for each of these parts.
    pub fn waiting_for(parts: impl IntoIterator<Item = &'static str>) -> Self {
        Self(Mutex::new(State {
            missing: parts.into_iter().collect(),
            ..State::default()
        }))
    }

    /// Waits for one more part from now on.
    pub fn awaits(&self, part: &'static str) {
        let missing = &mut self.state().missing;
        missing.push(part);
        missing.sort_unstable();
        missing.dedup();
    }

    /// Notes that a part has arrived.
    pub fn arrived(&self, part: &'static str) {
        self.state().missing.retain(|missing| *missing != part);
    }

    /// Waits for exactly these parts from now on.
    pub fn lacks(&self, missing: Vec<&'static str>) {
        self.state().missing = missing;
    }

    /// Notes whether this operator leads or stands by. Both count as ready, since an operator that stands by can take over at any time.
    pub fn leads(&self, leads: bool) {
        self.state().leads = Some(leads);
    }

    /// Sets why the newest configuration is not in force; none if it is. The program stays ready, because the last good configuration is in
    /// force.
    pub fn configuration(&self, problem: Option<String>) {
        self.state().configuration_problem = problem;
    }

    /// Sets which objects of the installation are missing or changed, each with what to do. The program stays ready: its work still holds,
    /// and taking it out of service would restore nothing.
    pub fn installation(&self, problems: Vec<String>) {
        self.state().installation_problems = problems;
    }

    /// Notes that the program is about to end, so nothing should be expected from it any more.
    pub fn drain(&self) {
        self.state().draining = true;
    }

    /// Whether nothing should be expected from it any more.
    pub fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Returns whether the program is ready, and a text for people. It is ready from when nothing is missing until it drains.
    pub fn report(&self) -> (bool, String) {
        let state = self.state();
        let ready = state.missing.is_empty() && !state.draining;
        let mut text = match (state.draining, ready) {
            (true, _) => "not ready: shutting down\n".to_owned(),
            (false, true) => "ok\n".to_owned(),
            (false, false) => format!("not ready, waiting for: {}\n", state.missing.join(", ")),
        };
        match state.leads {
            Some(true) => text.push_str("this operator leads\n"),
            Some(false) => text.push_str("this operator stands by\n"),
            None => {}
        }
        if let Some(problem) = &state.configuration_problem {
            // Writing to a String can't fail.
            let _ = writeln!(text, "the configuration is invalid: {problem}");
        }
        for problem in &state.installation_problems {
            let _ = writeln!(text, "installation: {problem}");
        }
        (ready, text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
