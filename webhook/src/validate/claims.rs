//! The rules for claims of devices beside `volcano.sh/card.name` (docs/rules.md, **Cards by Dynamic Resource Allocation**).
//!
//! The operator decides what claims come to. Here the author of a pod is told what is certain already: that the pod's claims
//! ask for other cards than the pod names. A claim that can't be looked up contradicts nothing.

use std::collections::BTreeSet;

use crds::bounds::excerpt;
use crds::card::CardAlternatives;
use crds::dra::ClaimSpec;
use crds::keys::CARD_NAME;
use crds::managed::requests_any;
use crds::names::is_object_name;
use crds::pod::{Pod, PodResourceClaim};
use engine::devices::{Catalogue, TURN, Unknown};
use engine::steps::Steps;

use crate::denial::Denial;
use crate::stop::Stop;
use crate::view::{Lookup, View};
use crate::warning::Warning;

/// How many claims of a pod are looked at: each costs a question to the API server.
const MOST_CLAIMS: usize = 4;
/// How many classes are looked at in all, for the same reason. If the claims name more, nothing is said of them.
const MOST_CLASSES: usize = 8;

/// Checks the claims of a pod against the cards that it names, if it names any.
pub fn check<S: AsRef<str>>(
    pod: &Pod<S>,
    namespace: &str,
    view: View<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), Stop> {
    let mut found = Vec::new();
    for claim in pod.spec.resource_claims.iter().take(MOST_CLAIMS) {
        if let Some(lookup) = lookup_of(claim, namespace)
            && let Some(spec) = view.claim(&lookup)?
        {
            found.push((lookup, spec));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let classes = classes_of(found.iter().map(|(_, spec)| *spec));
    if classes.len() > MOST_CLASSES {
        return Ok(());
    }
    let mut catalogue = catalogue(&classes, view)?;
    let steps = Steps::new(TURN);
    let mut asked = BTreeSet::new();
    let mut is_all_known = pod.spec.resource_claims.len() == found.len();
    for (lookup, spec) in &found {
        for (request, cards) in catalogue.requests(spec, &steps) {
            let place = || format!("{lookup}, request {:?}", excerpt(request));
            match cards {
                Ok(cards) => asked.extend(cards),
                Err(unknown) => {
                    is_all_known = false;
                    match unknown {
                        Unknown::Class(class) if view.fresh.is_unanswered(&Lookup::Class(class.clone())) => {}
                        Unknown::Class(class) => warnings.push(Warning::DeviceClassMissing { place: place(), class }),
                        Unknown::Selector(why) => warnings.push(Warning::SelectorNotEvaluated { place: place(), why }),
                        Unknown::None(why) => warnings.push(Warning::NoDeviceSelected { place: place(), why }),
                        Unknown::Devices => {}
                    }
                }
            }
        }
    }
    let Some(text) = pod
        .metadata
        .annotations
        .get(CARD_NAME)
        .filter(|_| is_all_known && !asked.is_empty())
    else {
        return Ok(());
    };
    // What is wrong with the names is reported where they are read.
    let Ok(named) = CardAlternatives::parse(text) else {
        return Ok(());
    };
    // A node with a card that no node has yet may join, and the claims may select that card.
    let may_be_selected = |card: &str| {
        view.knowledge.card_types.get(card).is_none() || !catalogue.knows_all_of(card) || asked.contains(card)
    };
    if named.iter().any(may_be_selected) || named.iter().any(|card| is_requested(pod, card, view)) {
        return Ok(());
    }
    Err(Denial::ClaimsOtherCards {
        card_name: text.to_owned(),
        claims: found.iter().map(|(lookup, _)| lookup.to_string()).collect(),
        cards: asked,
    }
    .into())
}

/// Whether a pod requests a card by a resource beside its claims. Then the pod may name the card for that request.
fn is_requested<S: AsRef<str>>(pod: &Pod<S>, card: &str, view: View<'_>) -> bool {
    let known = view.knowledge.card_types.get(card);
    known.is_some_and(|known| requests_any(pod, |resource| *known.resource == *resource))
}

/// The lookup for what a claim of a pod asks for. `None` where the claim names no possible object: such a name must not
/// become part of a request's path.
fn lookup_of<S: AsRef<str>>(claim: &PodResourceClaim<S>, namespace: &str) -> Option<Lookup> {
    let named = |name: &Option<S>| Some(name.as_ref()?.as_ref().to_owned()).filter(|name| is_object_name(name));
    let namespace = namespace.to_owned();
    match named(&claim.resource_claim_name) {
        Some(name) => Some(Lookup::Claim { namespace, name }),
        None => named(&claim.resource_claim_template_name).map(|name| Lookup::ClaimTemplate { namespace, name }),
    }
}

/// The classes that these claims name.
fn classes_of<'s>(specs: impl Iterator<Item = &'s ClaimSpec>) -> BTreeSet<&'s str> {
    let requests = specs.flat_map(|spec| &spec.devices.requests);
    let forms = requests.flat_map(|request| request.exactly.iter().chain(&request.first_available));
    forms.map(|form| &*form.device_class_name).collect()
}

/// The catalogue of all known devices and of these classes.
fn catalogue(classes: &BTreeSet<&str>, view: View<'_>) -> Result<Catalogue, Stop> {
    let mut catalogue = view.knowledge.catalogue();
    for name in classes {
        if let Some(class) = view.class(name)? {
            catalogue.add_class(class.clone());
        }
    }
    Ok(catalogue)
}
