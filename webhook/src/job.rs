//! The door for `batch/v1` Jobs that ask for their cards in advance: they are suspended until their queue lets them in as a
//! whole (docs/rules.md, **Enqueue**).

use crds::job::Job;
use crds::keys::CARD_REQUEST;
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
/// send here. Only the first of the two is what its author wanted: the other is told.
pub fn hold(request: &RawRequest<'_>) -> Result<Held, Denial> {
    let Some(object) = request.object else {
        return Ok(Held::default());
    };
    let job = read(object)?;
    let asks = job.metadata.annotations.contains_key(CARD_REQUEST);
    let resumed = match request.old_object.filter(|_| request.is("UPDATE")) {
        Some(old) => read(old)?.is_suspended(),
        None => false,
    };
    if !asks || job.is_suspended() || job.is_finished() || !(request.is("CREATE") || resumed) {
        return Ok(Held::default());
    }
    let warnings = if resumed { vec![Warning::JobHeld] } else { Vec::new() };
    Ok(Held {
        patch: PodPatch::suspend(&job),
        warnings,
    })
}

fn read(object: &RawValue) -> Result<Job<Text<'_>>, Denial> {
    serde_json::from_str(object.get()).map_err(|error| Denial::Object {
        kind: "Job".to_owned(),
        error: error.to_string(),
    })
}
