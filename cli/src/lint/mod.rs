//! `kubectl card lint`: what would be refused or warned of, before anything is applied. The webhook's own code judges it.

pub mod before;
mod claims;
mod judge;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::known::Known;
use crate::manifests::Manifest;
use crate::print::Answer;
use before::Before;
pub use claims::selectors_not_evaluated;
use judge::Judge;

/// Exit code if something would be refused.
pub const REFUSED: u8 = 7;

/// What would become of one object.
#[derive(Debug, Serialize)]
struct Linted {
    file: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    operation: Operation,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
    warnings: Vec<String>,
}

/// What would be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Operation {
    Create,
    Update,
}

/// Why an object, or what it makes, would be refused.
#[derive(Debug, Serialize)]
struct Refused {
    /// The reason in one word, for programs.
    reason: &'static str,
    message: String,
}

impl Linted {
    /// Whether a text is reported already, with or without its place.
    fn says(&self, text: &str) -> bool {
        let with_place = |said: &String| said.strip_suffix(text).is_some_and(|place| place.ends_with(": "));
        self.warnings.iter().any(|said| said == text || with_place(said))
    }

    fn result(&self) -> &'static str {
        match (&self.refused, self.warnings.is_empty()) {
            (Some(_), _) => "REFUSED",
            (None, false) => "warning",
            (None, true) => "ok",
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    objects: Vec<Linted>,
    /// What could not be checked, and what was assumed instead.
    unchecked: BTreeSet<String>,
}

/// Answers what would become of each of these objects, as if all were created together, or changed where they exist in
/// `before`.
pub async fn answer(
    manifests: &[Manifest],
    before: &Before,
    cluster: Option<&Cluster>,
    namespace: &str,
    strict: bool,
) -> Result<Answer, Failure> {
    let known = Arc::new(Known::of(manifests, cluster, namespace).await?);
    let mut judge = Judge::new(&known, before, namespace).map_err(|error| Failure::Unprintable(error.to_string()))?;
    let mut objects = Vec::new();
    for manifest in manifests {
        objects.extend(judge.judge(manifest).await);
    }
    let report = Report {
        objects,
        unchecked: judge.unchecked,
    };
    let mut answer = Answer::new(&report).map_err(|error| Failure::unprintable(&error))?;
    show(&report, manifests.len(), &mut answer);
    let is_refused = |linted: &Linted| linted.refused.is_some() || strict && !linted.warnings.is_empty();
    if report.objects.iter().any(is_refused) {
        answer.code = REFUSED;
    }
    Ok(answer)
}

fn show(report: &Report, manifests: usize, answer: &mut Answer) {
    for linted in &report.objects {
        let name = match &linted.namespace {
            Some(namespace) => format!("{} {namespace}/{}", linted.kind, linted.name),
            None => format!("{} {}", linted.kind, linted.name),
        };
        let change = match linted.operation {
            Operation::Create => "",
            Operation::Update => ", a change",
        };
        answer.line(&format!("{:<8} {name} ({}{change})", linted.result(), linted.file));
        if let Some(refused) = &linted.refused {
            answer.line(&format!("         refused: {}", refused.message));
        }
        for warning in &linted.warnings {
            answer.line(&format!("         warning: {warning}"));
        }
    }
    let (refused, warned) = report.objects.iter().fold((0, 0), |(refused, warned), linted| {
        let is_refused = linted.refused.is_some();
        (
            refused + usize::from(is_refused),
            warned + usize::from(!is_refused && !linted.warnings.is_empty()),
        )
    });
    let others = manifests - report.objects.len();
    answer.line(&format!(
        "{} of {manifests} objects judged, {refused} refused, {warned} with warnings; {others} are of no concern to Cardgate",
        report.objects.len()
    ));
    for unchecked in &report.unchecked {
        answer.notes.push(format!("not checked: {unchecked}"));
    }
}
