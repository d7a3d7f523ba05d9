//! The rules for a `PodGroup`: its card request, and the least that it needs (docs/rules.md, **Enqueue**).

use crds::card_counts::CardRequest;
use crds::keys::CARD_REQUEST;
use crds::lean::{Metadata, Text, TextMap};
use crds::volcano::{PodGroupSpec, min_resources};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Findings, unreadable};
use crate::denial::Denial;

#[derive(Deserialize)]
struct PodGroup<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
    #[serde(default)]
    spec: PodGroupSpec,
}

/// Judges a `PodGroup` by itself.
pub fn rules(object: &RawValue) -> Findings {
    match serde_json::from_str::<PodGroup<'_>>(object.get()) {
        Ok(group) => {
            let mut findings = Findings::default();
            // The cards of the request need not be the cards that the pods name: once the first pod is let in, the request
            // has no effect.
            check_card_request(&group.metadata.annotations, &mut findings);
            // If the operator can't read this, all pods of the group wait.
            let least = group.spec.min_resources.as_ref().map(min_resources).transpose();
            findings.check(least.map_err(Denial::MinResources));
            findings.check(group.spec.least_of_tasks().map_err(Denial::MinTaskMember));
            findings
        }
        Err(error) => unreadable("PodGroup", &error),
    }
}

/// Checks `volcano.sh/card.request`, which Jobs have too, and returns it if it can be read.
pub(super) fn check_card_request(annotations: &TextMap<Text<'_>>, findings: &mut Findings) -> Option<CardRequest> {
    let text = annotations.get(CARD_REQUEST)?;
    findings.check(CardRequest::parse(text).map_err(Denial::CardRequest))
}
