//! The rules for a Queue: its card quota, the namespaces that may use it, and its capability (semantics, **Card quota**).

use crds::card_counts::CardQuota;
use crds::keys::{CARD_QUOTA, QUEUE_NAMESPACES};
use crds::lean::{Metadata, Text};
use crds::queue_access::QueueAccess;
use crds::volcano::{ResourceQuantities, resource_vector};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Findings, unreadable};
use crate::denial::Denial;
use crate::knowledge::Knowledge;
use crate::warning::Warning;

#[derive(Deserialize)]
struct Queue<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    capability: Option<ResourceQuantities>,
}

/// Judges a Queue by itself.
pub fn rules(object: &RawValue, knowledge: &Knowledge) -> Findings {
    let queue: Queue<'_> = match serde_json::from_str(object.get()) {
        Ok(queue) => queue,
        Err(error) => return unreadable("Queue", &error),
    };
    let annotations = &queue.metadata.annotations;
    let mut findings = Findings::default();
    if let Some(text) = annotations.get(CARD_QUOTA)
        && let Some(quota) = findings.check(CardQuota::parse(text).map_err(Denial::CardQuota))
    {
        // A quota may be set before its card is there; but a slip in the name would look just so.
        let unknown = quota
            .iter()
            .filter(|(card, _)| knowledge.card_types.get(card).is_none());
        findings.warnings = unknown
            .map(|(card, _)| Warning::QuotaCardUnknown { card: card.to_owned() })
            .collect();
    }
    findings.check(QueueAccess::parse(annotations.get(QUEUE_NAMESPACES)).map_err(Denial::Namespaces));
    let capability = queue.spec.unwrap_or_default().capability.unwrap_or_default();
    findings.check(resource_vector(&capability).map_err(Denial::Capability));
    findings
}
