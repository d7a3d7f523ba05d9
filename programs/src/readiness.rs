//! Whether a program is ready, and what there is to say of that.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether a program has seen what it needs, and what else there is to know.
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
    /// Readiness that waits for each of these.
    pub fn waiting_for(parts: impl IntoIterator<Item = &'static str>) -> Self {
        Self(Mutex::new(State {
            missing: parts.into_iter().collect(),
            ..State::default()
        }))
    }

    /// One more is waited for, from now on.
    pub fn awaits(&self, part: &'static str) {
        let missing = &mut self.state().missing;
        missing.push(part);
        missing.sort_unstable();
        missing.dedup();
    }

    /// One of them is there.
    pub fn arrived(&self, part: &'static str) {
        self.state().missing.retain(|missing| *missing != part);
    }

    /// These are waited for now, and no others.
    pub fn lacks(&self, missing: Vec<&'static str>) {
        self.state().missing = missing;
    }

    /// Whether this operator leads or stands by. Both are ready: who stands by can take over at any time.
    pub fn leads(&self, leads: bool) {
        self.state().leads = Some(leads);
    }

    /// Why the newest configuration is not in force; none when it is. The program stays ready: the last good one rules.
    pub fn configuration(&self, problem: Option<String>) {
        self.state().configuration_problem = problem;
    }

    /// What of the installation is missing or changed, each with what to do. The program stays ready: what it does still
    /// holds, and taking it out of service would put nothing back.
    pub fn installation(&self, problems: Vec<String>) {
        self.state().installation_problems = problems;
    }

    /// From now on nothing should be expected from it.
    pub fn drain(&self) {
        self.state().draining = true;
    }

    /// Whether nothing should be expected from it any more.
    pub fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Whether the program is ready, which it is once nothing is missing and until it drains; and a text for people.
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
        // Each change is one assignment, so whoever panicked meanwhile left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
