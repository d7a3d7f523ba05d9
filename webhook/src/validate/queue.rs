//! The rules for a Queue: what it says by itself, and its place among others (docs/rules.md, **Card quota**, **Queues**).

use crds::configuration::QueuePlugin;
use crds::keys::{CARD_DESERVED, CARD_GUARANTEE, CARD_QUOTA};
use crds::lean::{Metadata, Text};
use crds::queue_terms::{Item, QueueTerms};
use crds::volcano::QueueSpec;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::hierarchy::{Family, check_alone, guaranteed_in_vain};
use super::{Findings, unreadable};
use crate::denial::Denial;
use crate::review::RawRequest;
use crate::stop::Stop;
use crate::view::View;
use crate::warning::{Meant, Warning};

#[derive(Deserialize)]
pub(super) struct Queue<'a> {
    #[serde(borrow, default)]
    pub metadata: Metadata<Text<'a>>,
    #[serde(default)]
    spec: QueueSpec,
}

impl Queue<'_> {
    pub(super) fn terms(&self) -> QueueTerms {
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

/// Judges a Queue as the request would make it.
fn rules(object: &RawValue, family: Family<'_>) -> Findings {
    let queue: Queue<'_> = match serde_json::from_str(object.get()) {
        Ok(queue) => queue,
        Err(error) => return unreadable("Queue", &error),
    };
    let (knowledge, configuration) = (family.view.knowledge, family.view.configuration());
    let mut findings = Findings::default();
    let terms = queue.terms();
    findings
        .denials
        .extend(terms.problems.iter().cloned().map(Denial::Queue));
    findings.check(
        terms
            .access
            .as_ref()
            .map_err(|error| Denial::Queue(error.clone().into())),
    );
    for (annotation, limits) in [
        (CARD_QUOTA, &terms.capability),
        (CARD_DESERVED, &terms.deserved),
        (CARD_GUARANTEE, &terms.guarantee),
    ] {
        // A quota may be set before its card is there, but a misspelt card name looks the same.
        let unknown = limits.keys().filter_map(|item| match item {
            Item::Card(card) if knowledge.card_types.get(card).is_none() => Some(card.to_string()),
            _ => None,
        });
        findings.warnings.extend(unknown.map(|card| Warning::QuotaCardUnknown {
            annotation,
            card,
            meant: Meant::default(),
        }));
    }
    if configuration.queue_plugin == QueuePlugin::CapacityCard {
        // Under `capacity`, a queue is not limited in what it does not name.
        let without = terms.deserved.keys().filter_map(|item| match item {
            Item::Card(card) if !terms.capability.contains_key(item) => Some(card.to_string()),
            _ => None,
        });
        let without = without.map(|card| Warning::DeservedWithoutQuota { card });
        findings.warnings.extend(without);
        findings
            .warnings
            .extend(guaranteed_in_vain(&terms, &configuration.capacity_card));
    }
    check_alone(&terms, &mut findings);
    if configuration.capacity.enable_hierarchy {
        family.check(&terms, configuration.cardgate.strict_hierarchy, &mut findings);
    }
    findings
}
