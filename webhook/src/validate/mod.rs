//! The rules for what users write, one module for each kind of object.

pub mod advice;
pub mod card;
pub mod claims;
pub mod hierarchy;
pub mod job;
pub mod pod;
pub mod pod_group;
pub mod queue;
mod scalar;
pub mod workload;

use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::brief::brief;
use crate::denial::Denial;
use crate::review::RawRequest;
use crate::warning::Warning;

/// What is wrong with an object, and what its author should know.
#[derive(Debug, Default, PartialEq)]
pub struct Findings {
    /// What is wrong.
    pub denials: Vec<Denial>,
    /// What is not wrong, but worth a warning.
    pub warnings: Vec<Warning>,
}

impl Findings {
    /// Keeps the denial, if there is one.
    fn check<T>(&mut self, result: Result<T, Denial>) -> Option<T> {
        result.map_err(|denial| self.denials.push(denial)).ok()
    }
}

/// Judges an object that is created or updated. An update is refused only for what it changes: a fault that was there
/// before, and is no worse now, becomes a warning. Otherwise nobody could mend one fault, or remove a finalizer, before all
/// faults are mended.
pub fn judge(request: &RawRequest<'_>, mut rules: impl FnMut(&RawValue) -> Findings) -> Result<Vec<Warning>, Denial> {
    let before = match request.old_object {
        Some(old) if request.is("UPDATE") => rules(old),
        _ => Findings::default(),
    };
    let now = request.object.map(&mut rules).unwrap_or_default();
    let mut warnings = Vec::new();
    for denial in now.denials {
        if !before.denials.iter().any(|before| denial.is_no_worse_than(before)) {
            return Err(denial);
        }
        warnings.push(Warning::Unchanged(denial));
    }
    // Warnings with the same text are the same, and there can be thousands.
    let mut told: HashSet<_> = before.warnings.iter().map(brief).collect();
    warnings.extend(now.warnings.into_iter().filter(|warning| told.insert(brief(warning))));
    Ok(warnings)
}

/// The denial of an object that can't be parsed as its kind.
fn unreadable(kind: &str, error: &serde_json::Error) -> Findings {
    Findings {
        denials: vec![Denial::Object {
            kind: kind.to_owned(),
            error: error.to_string(),
        }],
        warnings: Vec::new(),
    }
}
