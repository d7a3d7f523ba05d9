//! The rules for a Queue: what it says by itself, and its place among others (docs/rules.md, **Card quota**, **Queues**).

use crds::card_counts::CardQuota;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA, QUEUE_NAMESPACES};
use crds::lean::{Metadata, Text};
use crds::queue_access::QueueAccess;
use crds::volcano::{QueueSpec, ResourceQuantities, resource_vector};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::hierarchy::{Family, check_alone};
use super::{Findings, unreadable};
use crate::denial::Denial;
use crate::pod::Stop;
use crate::queue_terms::QueueTerms;
use crate::review::RawRequest;
use crate::view::View;
use crate::warning::Warning;

#[derive(Deserialize)]
struct Queue<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<Text<'a>>,
    #[serde(default)]
    spec: QueueSpec,
}

impl Queue<'_> {
    fn terms(&self) -> QueueTerms {
        QueueTerms::read(&self.spec, |key| self.metadata.annotations.get(key))
    }
}

/// Judges a Queue that is created, changed or removed.
pub fn judge(request: &RawRequest<'_>, view: View<'_>) -> Result<Vec<Warning>, Stop> {
    let family = Family {
        view,
        name: request.name(),
    };
    if request.is("DELETE") {
        if let Some(lookup) = family.lookup_before_removal() {
            return Err(lookup.into());
        }
        family.check_removal()?;
        return Ok(Vec::new());
    }
    if view.configuration().capacity.enable_hierarchy {
        let terms = |object: Option<&RawValue>| {
            let queue: Queue<'_> = serde_json::from_str(object?.get()).ok()?;
            Some(queue.terms())
        };
        let before = terms(request.old_object.filter(|_| request.is("UPDATE")));
        let lookup = terms(request.object).and_then(|terms| family.lookup(&terms, before.as_ref()));
        if let Some(lookup) = lookup {
            return Err(lookup.into());
        }
    }
    Ok(super::judge(request, |object| rules(object, family))?)
}

/// Judges a Queue as it would be.
fn rules(object: &RawValue, family: Family<'_>) -> Findings {
    let queue: Queue<'_> = match serde_json::from_str(object.get()) {
        Ok(queue) => queue,
        Err(error) => return unreadable("Queue", &error),
    };
    let (knowledge, configuration) = (family.view.knowledge, family.view.configuration());
    let annotations = &queue.metadata.annotations;
    let mut findings = Findings::default();
    for (annotation, denial) in [
        (CARD_QUOTA, Denial::CardQuota as fn(_) -> _),
        (CARD_DESERVED, Denial::CardDeserved as fn(_) -> _),
        (CARD_GUARANTEE, Denial::CardGuarantee as fn(_) -> _),
    ] {
        if let Some(text) = annotations.get(annotation)
            && let Some(cards) = findings.check(CardQuota::parse(text).map_err(denial))
        {
            // It may be set before its card is there; but a slip in the name would look just so.
            let unknown = cards
                .iter()
                .filter(|(card, _)| knowledge.card_types.get(card).is_none());
            findings
                .warnings
                .extend(unknown.map(|(card, _)| Warning::QuotaCardUnknown {
                    annotation,
                    card: card.to_owned(),
                }));
        }
    }
    findings.check(QueueAccess::parse(annotations.get(QUEUE_NAMESPACES)).map_err(Denial::Namespaces));
    let guarantee = queue
        .spec
        .guarantee
        .as_ref()
        .and_then(|guarantee| guarantee.resource.as_ref());
    let mut check_resources = |field, resources: Option<&ResourceQuantities>| {
        let vector = resources.map(resource_vector).transpose();
        findings.check(vector.map_err(|error| Denial::Resources { field, error }));
    };
    check_resources("spec.capability", queue.spec.capability.as_ref());
    check_resources("spec.deserved", queue.spec.deserved.as_ref());
    check_resources("spec.guarantee.resource", guarantee);

    let terms = queue.terms();
    check_alone(&terms, &mut findings);
    if configuration.capacity.enable_hierarchy {
        family.check(&terms, configuration.cardgate.strict_hierarchy, &mut findings);
    }
    findings
}
