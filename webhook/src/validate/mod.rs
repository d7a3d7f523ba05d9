//! The rules for what users write, one module per kind of thing.

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

use crate::denial::Denial;
use crate::review::RawRequest;
use crate::warning::Warning;

/// What is wrong with an object, and what its author should know.
#[derive(Debug, Default, PartialEq)]
pub struct Findings {
    /// What is wrong.
    pub denials: Vec<Denial>,
    /// What is not wrong and yet worth a word.
    pub warnings: Vec<Warning>,
}

impl Findings {
    /// Keeps what is wrong.
    fn check<T>(&mut self, result: Result<T, Denial>) -> Option<T> {
        result.map_err(|denial| self.denials.push(denial)).ok()
    }
}

/// Judges an object that is created or updated. An update answers for what it changes: what was wrong before, and is no more so
/// now, is warned about; otherwise nobody could mend one thing, or remove a finalizer, before everything is mended.
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
    // What reads the same is the same, and there can be thousands.
    let mut told: HashSet<_> = before.warnings.iter().map(Warning::to_string).collect();
    warnings.extend(
        now.warnings
            .into_iter()
            .filter(|warning| told.insert(warning.to_string())),
    );
    Ok(warnings)
}

/// The denial of an object that its kind's rules can't be applied to.
fn unreadable(kind: &str, error: &serde_json::Error) -> Findings {
    Findings {
        denials: vec![Denial::Object {
            kind: kind.to_owned(),
            error: error.to_string(),
        }],
        warnings: Vec::new(),
    }
}
