//! The rules for objects that ask for something as a whole, `PodGroup`s and Jobs of either kind: the rules of their kind,
//! and whether their namespace may use the queue that they name.
//!
//! The operator checks the same when it decides. Here the author of such an object is told at once.

use crds::keys::{CARD_REQUEST, GROUP_NAME, QUEUE_NAME};
use crds::lean::{Metadata, Text};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{job, pod_group};
use crate::queue_resolution::{Naming, check_access, find};
use crate::queue_source::QueueSource;
use crate::review::RawRequest;
use crate::stop::Stop;
use crate::view::View;
use crate::warning::Warning;

#[derive(Default, Deserialize)]
struct Workload<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
    #[serde(borrow, default)]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    /// Only in Volcano's kinds.
    #[serde(borrow)]
    queue: Option<Text<'a>>,
    /// Only in a `PodGroup`.
    #[serde(borrow)]
    min_resources: Option<&'a RawValue>,
    /// Only in a Kubernetes Job, whose pods name the queue.
    #[serde(borrow)]
    template: Option<Template<'a>>,
}

#[derive(Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
}

impl Workload<'_> {
    /// Returns what the workload's queue depends on, its card request, and its `minResources`.
    fn claim(&self) -> (Naming<'_>, Option<&str>, Option<&str>) {
        let in_template = |key| {
            let template = self.spec.template.as_ref()?;
            template.metadata.annotations.get(key).filter(|name| !name.is_empty())
        };
        let in_spec = self
            .spec
            .queue
            .as_ref()
            .map(AsRef::as_ref)
            .filter(|queue: &&str| !queue.is_empty());
        let in_spec = in_spec.map(|queue| (queue, QueueSource::Spec));
        let own = || in_template(QUEUE_NAME).map(|queue| (queue, QueueSource::Template));
        let naming = Naming {
            own: in_spec.or_else(own),
            group: in_template(GROUP_NAME),
        };
        let least = self
            .spec
            .min_resources
            .map(RawValue::get)
            .filter(|least| *least != "null");
        (naming, self.metadata.annotations.get(CARD_REQUEST), least)
    }
}

/// Judges a `PodGroup` or Job that is created or changed.
pub fn judge(request: &RawRequest<'_>, view: View<'_>) -> Result<Vec<Warning>, Stop> {
    let is_job = request.kind.as_pair().1 == "Job";
    if is_job && !view.is_complete() {
        return Err(Stop::NotReady);
    }
    let mut warnings = if is_job {
        super::judge(request, |object| job::rules(object, view))
    } else {
        super::judge(request, pod_group::rules)
    }?;
    check_queue(request, view, &mut warnings)?;
    Ok(warnings)
}

fn read(object: &RawValue) -> Option<Workload<'_>> {
    serde_json::from_str(object.get()).ok()
}

/// Checks the right to the queue whenever the object names another queue, or asks that queue for something else.
fn check_queue(request: &RawRequest<'_>, view: View<'_>, warnings: &mut Vec<Warning>) -> Result<(), Stop> {
    // An object that can't be read has been refused by the rules of its kind, or has not become worse.
    let Some(workload) = request.object.and_then(read) else {
        return Ok(());
    };
    let before = request.old_object.filter(|_| request.is("UPDATE"));
    let before = before.map(|before| read(before).unwrap_or_default());
    let claim = workload.claim();
    let (naming, request_of_cards, least) = &claim;
    let names_or_asks = naming.own.is_some() || request_of_cards.is_some() || least.is_some();
    if !names_or_asks || before.as_ref().is_some_and(|before| before.claim() == claim) {
        return Ok(());
    }
    if !view.is_complete() {
        return Err(Stop::NotReady);
    }
    let resolved = find(naming, request.namespace(), view, warnings)?;
    check_access(&resolved, request.namespace(), view, warnings)
}
