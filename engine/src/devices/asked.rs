//! What a pod's claims come to in cards, request by request, and in all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::card::DeviceCard;

/// What a pod's claims come to in cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// What each request leaves; empty where the claims ask for no cards.
    pub requests: Vec<RequestAsked>,
    /// Whether `requests` says what was allocated, and not only what is asked for.
    pub allocated: bool,
    /// How many devices are asked for or allocated, where it is not known of all of them which cards they are.
    pub unknown: i64,
    /// Why the claims can't be charged, or not yet.
    pub obstacle: Option<Obstacle>,
}

/// Cards, and how many of each.
pub type CardCounts = BTreeMap<Arc<DeviceCard>, i64>;

/// What one request leaves to choose from, as far as it is for cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAsked {
    /// The request gets one of these: the most preferred first where the claim orders them, else ordered by the cards' names.
    pub choices: Vec<CardCounts>,
    /// Whether the claim says which choice it prefers.
    pub ordered: bool,
    /// Whether the request may get a mix of several choices with the same count, because one form of it leaves several cards.
    pub mixes: bool,
    /// Whether it may get what is none of the choices once further devices come: those of an alternative that no device is there for now, or
    /// more on a node of which it gets all.
    pub more_may_come: bool,
}

/// Why a pod's claims can't be charged as things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A claim does not exist yet: Kubernetes' controller makes it from its template, or a user creates it. The text names the claim, in
    /// words for the user.
    Missing(String),
    /// No existing device is what a request asks for. The text says which request, and what of it, in words for the user.
    NoDevice(String),
    /// Another pod of the same namespace pays for this claim, which both pods name. That pod is not let in yet, or is in another queue.
    PaidByAnother(Box<str>),
    /// What a claim asks for can't be charged. The text says why, in words for the user.
    Unclear(String),
    /// The steps were spent before all selectors of the claims were evaluated. What was found is remembered, and the rest follows.
    Unevaluated,
}

impl Obstacle {
    /// Returns the same obstacle, worded for this requested resource.
    #[must_use]
    pub fn of_resource(&self, name: &str) -> Self {
        match self {
            Self::NoDevice(why) => Self::NoDevice(format!("resource {name}: {why}")),
            Self::Unclear(why) => Self::Unclear(format!("resource {name}: {why}")),
            Self::Missing(_) | Self::PaidByAnother(_) | Self::Unevaluated => self.clone(),
        }
    }
}

impl RequestAsked {
    /// Returns what a request leaves that was allocated these cards: no choice.
    pub(super) fn given(cards: CardCounts) -> Self {
        Self {
            choices: vec![cards],
            ordered: false,
            mixes: false,
            more_may_come: false,
        }
    }
}

impl Asked {
    /// Whether any of the claims is for cards.
    pub fn is_for_cards(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Adds what the pod requests as resources that classes provide. `given` is the part of it that was allocated already; `unclear` says
    /// why the cards of some of it can't be said.
    #[must_use]
    pub fn and_provided(
        mut self,
        requested: Vec<RequestAsked>,
        given: Vec<CardCounts>,
        unclear: Option<Obstacle>,
    ) -> Self {
        self.obstacle = self.obstacle.or(unclear);
        let is_open = |obstacle: &Obstacle| matches!(obstacle, Obstacle::PaidByAnother(_));
        if self.obstacle.as_ref().is_none_or(is_open) {
            let is_allocated = self.allocated || self.requests.is_empty();
            let given = given.into_iter().filter(|cards| !cards.is_empty());
            self.requests.extend(given.map(RequestAsked::given));
            self.allocated = is_allocated && requested.is_empty() && !self.requests.is_empty();
            self.requests.extend(requested);
        }
        self
    }

    /// Returns the answer for claims that can't be charged for this reason.
    pub fn unclear(why: String) -> Self {
        Self::kept_by(Obstacle::Unclear(why))
    }

    pub(super) fn kept_by(obstacle: Obstacle) -> Self {
        Self {
            obstacle: Some(obstacle),
            ..Self::default()
        }
    }
}

/// The sum of what all claims of a pod ask for.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// What was allocated, claim by claim.
    pub(super) requests: Vec<RequestAsked>,
    /// What is still to be allocated.
    pub(super) asked_for: Vec<RequestAsked>,
    pub(super) devices: i64,
    /// Why it is not known which cards the devices are, where that is so.
    pub(super) unknown: Option<String>,
    /// The first claim that another pod pays for.
    paid_by_another: Option<Box<str>>,
}

impl Sum {
    /// Notes that another pod pays for a claim. That matters only where the claim is for cards.
    pub(super) fn note_paid(&mut self, claim: &str, is_for_cards: bool) {
        if is_for_cards {
            self.paid_by_another.get_or_insert_with(|| claim.into());
        }
    }

    pub(super) fn asked(mut self) -> Asked {
        if let Some(why) = self.unknown {
            return Asked {
                unknown: self.devices,
                ..Asked::kept_by(Obstacle::NoDevice(why))
            };
        }
        let allocated = !self.requests.is_empty() && self.asked_for.is_empty();
        for request in self.asked_for {
            // Requests that leave the same cards and prefer none of them get the same cards.
            let alike = self.requests.iter_mut().find(|other| are_alike(other, &request));
            let Some(alike) = alike else {
                self.requests.push(request);
                continue;
            };
            alike.more_may_come |= request.more_may_come;
            for (sum, further) in alike.choices.iter_mut().zip(request.choices) {
                for (card, count) in further {
                    let sum = sum.entry(card).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
        }
        Asked {
            requests: self.requests,
            allocated,
            unknown: 0,
            obstacle: self.paid_by_another.map(Obstacle::PaidByAnother),
        }
    }
}

/// Whether two requests leave the same cards, and prefer none of them.
fn are_alike(one: &RequestAsked, other: &RequestAsked) -> bool {
    let cards = |request: &RequestAsked| -> Vec<Vec<Arc<DeviceCard>>> {
        let choices = request.choices.iter();
        choices.map(|choice| choice.keys().cloned().collect()).collect()
    };
    !one.ordered && !other.ordered && cards(one) == cards(other)
}
