//! The door for `batch/v1` Jobs that ask for their cards in advance. They are suspended until their queue lets them in as a
//! whole (docs/rules.md, **Enqueue**).

use crds::job::Job;
use crds::keys::{CARD_REQUEST, JOB_HELD};
use crds::lean::Text;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::patch::ObjectPatch;
use crate::review::RawRequest;
use crate::warning::Warning;

/// A Job whose request is allowed, suspended or not.
#[derive(Debug, Default, PartialEq)]
pub struct AllowedJob {
    /// What is written on the Job.
    pub patch: ObjectPatch,
    /// What the Job's author is told.
    pub warnings: Vec<Warning>,
}

/// Suspends a Job that is created to run, and a Job that anybody but the operator resumes; the API server does not send the
/// operator's updates here. Only in the first case this is what the author wants, so the second gets a warning. A Job that
/// no longer asks for cards in advance is let go.
pub fn hold(request: &RawRequest<'_>) -> Result<AllowedJob, Denial> {
    let Some(object) = request.object else {
        return Ok(AllowedJob::default());
    };
    let job = read(object)?;
    // A Job being deleted makes no pods any more. Its finalizers are then taken off, and this must pass the door.
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(AllowedJob::default());
    }
    let old = request.old_object.filter(|_| request.is("UPDATE"));
    let old = old.map(read).transpose()?;
    if !job.metadata.annotations.contains_key(CARD_REQUEST) {
        return Ok(let_go(&job, old.as_ref()));
    }
    let resumed = old.as_ref().is_some_and(Job::is_suspended);
    if job.is_suspended() || is_over(old.as_ref()) || !(request.is("CREATE") || resumed) {
        return Ok(AllowedJob::default());
    }
    let warnings = if resumed { vec![Warning::JobHeld] } else { Vec::new() };
    Ok(AllowedJob {
        patch: ObjectPatch::suspend(&job),
        warnings,
    })
}

/// Removes the mark from a Job without a card request, since nobody would remove it later. A Job that was held until now is
/// resumed. A Job that its author has suspended stays suspended.
fn let_go(job: &Job<Text<'_>>, old: Option<&Job<Text<'_>>>) -> AllowedJob {
    let is_held = |job: &Job<Text<'_>>| job.metadata.annotations.contains_key(JOB_HELD);
    if !is_held(job) {
        return AllowedJob::default();
    }
    let was_held = old.is_some_and(|old| is_held(old) && old.is_suspended());
    let is_resumed = was_held && job.is_suspended() && !is_over(old);
    AllowedJob {
        patch: ObjectPatch::let_go(is_resumed),
        warnings: is_resumed.then_some(Warning::JobLetGo).into_iter().collect(),
    }
}

/// Whether the Job has finished and makes no pods any more, as the API server has stored it. The status in the submitted
/// object says whatever its author wrote there, or left there of an earlier Job. The API server drops it after the webhooks
/// have seen it.
fn is_over(old: Option<&Job<Text<'_>>>) -> bool {
    old.is_some_and(Job::is_finished)
}

fn read(object: &RawValue) -> Result<Job<Text<'_>>, Denial> {
    serde_json::from_str(object.get()).map_err(|error| Denial::Object {
        kind: "Job".to_owned(),
        error: error.to_string(),
    })
}
