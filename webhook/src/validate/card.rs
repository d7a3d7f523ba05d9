//! The rules of `volcano.sh/card.name` (docs/rules.md, **Card quota**).
//!
//! A pod has one card name, and its card count is what it requests of the one resource that this name stands for. A pod
//! without a card name is charged for a card that its queue has a quota for, so it too may request cards of one resource
//! only. Cards of a second resource could be charged to nobody. They are refused, unless `unnamedCards: free` says that they
//! need not be charged.

use std::sync::Arc;

use crds::card::CardAlternatives;
use crds::card_resources::{counts_cards, is_extended};
use crds::configuration::{QueuePlugin, UnnamedCards};
use crds::resources::ResourceVector;

use crate::denial::Denial;
use crate::view::View;
use crate::warning::{Meant, Warning};

/// What a card name stands for.
#[derive(Debug)]
pub struct Cards<'a> {
    text: &'a str,
    /// The resource of those named cards that some node has.
    pub resource: Option<Arc<str>>,
    unknown: Vec<&'a str>,
}

impl<'a> Cards<'a> {
    /// Reads the annotation and looks its cards up. Cards that no node has contradict nothing, since a node may join later.
    pub fn read(text: &'a str, view: View<'_>) -> Result<Self, Denial> {
        let alternatives = CardAlternatives::parse(text)?;
        let mut cards = Self {
            text,
            resource: None,
            unknown: Vec::new(),
        };
        for card in alternatives.iter() {
            match (view.knowledge.card_types.get(card), &cards.resource) {
                (None, _) => cards.unknown.push(card),
                (Some(known), None) => cards.resource = Some(known.resource),
                (Some(known), Some(first)) if known.resource == *first => {}
                (Some(_), Some(_)) => return Err(differing(text, &alternatives, view)),
            }
        }
        Ok(cards)
    }

    /// Checks a pod's request against its card name. A pod that claims devices need not request cards as well.
    pub fn check_request(
        &self,
        request: &ResourceVector<'_>,
        claims_devices: bool,
        view: View<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Denial> {
        // A resource that a class of devices provides is treated like a claim, whatever its name.
        let is_provided = |resource: &str| self.resource.as_deref() != Some(resource) && view.provides(resource);
        let claims_devices = claims_devices || request.iter().any(|(resource, _)| is_provided(resource));
        let mut card_resources = card_resources(request, view);
        card_resources.retain(|resource| !is_provided(resource));
        let unnamed_cards = view.configuration().cardgate.unnamed_cards;
        // The card name may be for the claims. Then the requested cards are judged as if nothing named them.
        let is_one_beside_claims = claims_devices && card_resources.len() == 1 && unnamed_cards == UnnamedCards::Charge;
        let mut card_resources = card_resources.into_iter();
        let counted = match &self.resource {
            Some(resource) if request.get(resource) == 0 && !claims_devices => {
                return Err(Denial::CardNotRequested {
                    card_name: self.text.to_owned(),
                    resource: resource.to_string(),
                });
            }
            Some(resource) => Some(&**resource),
            // The resource of the card is not known yet, but it can be only one.
            None => card_resources.next().or_else(|| {
                let mut resources = request.iter().map(|(resource, _)| resource);
                resources.find(|resource| is_extended(resource))
            }),
        };
        for card in &self.unknown {
            let (card, meant) = ((*card).to_owned(), Meant::default());
            warnings.push(match self.resource {
                Some(_) => Warning::AlternativeUnknown { card, meant },
                None => Warning::CardUnknown { card, meant },
            });
        }
        if counted.is_none() && !claims_devices {
            warnings.push(Warning::NoCardRequested);
        }
        for resource in card_resources.filter(|resource| Some(*resource) != counted && !is_one_beside_claims) {
            if unnamed_cards != UnnamedCards::Free {
                return Err(Denial::SecondCardResource {
                    card_name: self.text.to_owned(),
                    resource: resource.to_owned(),
                });
            }
            if !limits_resources(view) {
                warnings.push(Warning::SecondCardResource {
                    resource: resource.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Checks the request of a pod without a card name. `is_charged` says whether any queue is charged for the pod's cards.
pub fn check_unnamed(
    request: &ResourceVector<'_>,
    is_charged: bool,
    view: View<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<(), Denial> {
    let resources: Vec<_> = card_resources(request, view).into_iter().map(str::to_owned).collect();
    match (view.configuration().cardgate.unnamed_cards, resources.as_slice()) {
        (_, []) => {}
        (UnnamedCards::Free, _) if is_charged && limits_resources(view) => {}
        (UnnamedCards::Free, _) if is_charged => {
            let unnamed = resources.into_iter().filter(|resource| !view.names_its_card(resource));
            warnings.extend(unnamed.map(|resource| Warning::NotMetered { resource }));
        }
        (UnnamedCards::Deny, [resource, ..]) => {
            return Err(Denial::CardNameMissing {
                resource: resource.clone(),
            });
        }
        (UnnamedCards::Charge, _) if view.configuration().queue_plugin == QueuePlugin::Off => {}
        (UnnamedCards::Charge, [_, _, ..]) if is_charged => return Err(Denial::SeveralCardResources { resources }),
        (UnnamedCards::Charge, _) if is_charged => {}
        _ => warnings.extend(resources.into_iter().map(|resource| Warning::Unaccounted { resource })),
    }
    Ok(())
}

/// Whether queues are limited in the resources that pods request, so that cards count without any card name.
fn limits_resources(view: View<'_>) -> bool {
    view.configuration().queue_plugin == QueuePlugin::Capacity
}

/// The requested resources that count cards.
pub(super) fn card_resources<'r>(request: &ResourceVector<'r>, view: View<'_>) -> Vec<&'r str> {
    let resources = request.iter().map(|(resource, _)| resource);
    let cards: Vec<_> = resources.filter(|resource| view.is_card_resource(resource)).collect();
    if cards.iter().any(|resource| counts_cards(resource)) {
        cards.into_iter().filter(|resource| counts_cards(resource)).collect()
    } else {
        cards
    }
}

fn differing(text: &str, alternatives: &CardAlternatives<'_>, view: View<'_>) -> Denial {
    let cards = alternatives.iter().filter_map(|card| {
        let known = view.knowledge.card_types.get(card)?;
        Some((card.to_owned(), known.resource.to_string()))
    });
    Denial::CardResourcesDiffer {
        card_name: text.to_owned(),
        cards: cards.collect(),
    }
}
