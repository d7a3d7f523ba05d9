//! The door for `batch/v1` Jobs that ask for their cards in advance: they are suspended until their queue lets them in as a
//! whole (docs/rules.md, **Enqueue**).

use crds::job::Job;
use crds::keys::{CARD_REQUEST, JOB_HELD};
use crds::lean::Text;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::patch::PodPatch;
use crate::review::RawRequest;
use crate::warning::Warning;

/// A Job that is let through.
#[derive(Debug, Default, PartialEq)]
pub struct Held {
    /// What is written on it.
    pub patch: PodPatch,
    /// What its author is told.
    pub warnings: Vec<Warning>,
}

/// Holds a Job that is created to run, and one that is resumed by anybody but the operator, which the API server does not
/// send here. Only the first of the two is what its author wanted: the other is told. One that asks for nothing in advance any more is let go.
pub fn hold(request: &RawRequest<'_>) -> Result<Held, Denial> {
    let Some(object) = request.object else {
        return Ok(Held::default());
    };
    let job = read(object)?;
    // It makes no pods any more, and its finalizers are taken off, open door or not.
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(Held::default());
    }
    let old = request.old_object.filter(|_| request.is("UPDATE"));
    let old = old.map(read).transpose()?;
    if !job.metadata.annotations.contains_key(CARD_REQUEST) {
        return Ok(let_go(&job, old.as_ref()));
    }
    let resumed = old.as_ref().is_some_and(Job::is_suspended);
    if job.is_suspended() || is_over(old.as_ref()) || !(request.is("CREATE") || resumed) {
        return Ok(Held::default());
    }
    let warnings = if resumed { vec![Warning::JobHeld] } else { Vec::new() };
    Ok(Held {
        patch: PodPatch::suspend(&job),
        warnings,
    })
}

/// A Job without a request carries no mark: nobody would ever take it off. Where it was held until now, it is resumed; where its author has
/// suspended it, it stays so.
fn let_go(job: &Job<Text<'_>>, old: Option<&Job<Text<'_>>>) -> Held {
    let is_held = |job: &Job<Text<'_>>| job.metadata.annotations.contains_key(JOB_HELD);
    if !is_held(job) {
        return Held::default();
    }
    let was_held = old.is_some_and(|old| is_held(old) && old.is_suspended());
    let is_resumed = was_held && job.is_suspended() && !is_over(old);
    Held {
        patch: PodPatch::let_go(is_resumed),
        warnings: is_resumed.then_some(Warning::JobLetGo).into_iter().collect(),
    }
}

/// Whether it makes no pods any more: as the API server has it. The status in what is asked for says whatever its author wrote there, or left there
/// of an earlier Job, and is dropped after webhooks have seen it.
fn is_over(old: Option<&Job<Text<'_>>>) -> bool {
    old.is_some_and(Job::is_finished)
}

fn read(object: &RawValue) -> Result<Job<Text<'_>>, Denial> {
    serde_json::from_str(object.get()).map_err(|error| Denial::Object {
        kind: "Job".to_owned(),
        error: error.to_string(),
    })
}
