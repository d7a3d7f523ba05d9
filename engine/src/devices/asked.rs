//! What claims come to, request by request, and in all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::card::DeviceCard;

/// What a pod's claims come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// What each request leaves; none where the claims ask for no cards.
    pub requests: Vec<RequestAsked>,
    /// Whether that is what was allocated, and not only what is asked for.
    pub allocated: bool,
    /// How many devices are asked for or allocated, where it is not known of all of them what they are.
    pub unknown: i64,
    /// Why it can't be said, or not yet.
    pub obstacle: Option<Obstacle>,
}

/// Cards, and how many of each.
pub type CardCounts = BTreeMap<Arc<DeviceCard>, i64>;

/// What one request leaves, as far as it is for cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAsked {
    /// It gets one of these: most preferred first where the claim orders them, else by the cards' names.
    pub choices: Vec<CardCounts>,
    /// Whether the claim says which it prefers.
    pub ordered: bool,
    /// Whether it may get some of several choices that are as many: one form of it leaves several cards.
    pub mixes: bool,
}

/// Why a pod's claims can't be charged as things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A claim is not there yet: Kubernetes' controller makes it from its template, or somebody by hand. Which one, in words for the user.
    Missing(String),
    /// No device that is there is what a request asks for: which request, and what of it, in words for the user.
    NoDevice(String),
    /// Another pod of the same namespace pays for this claim that both name, and is not let in yet, or is in another queue.
    PaidByAnother(Box<str>),
    /// What it asks for can't be charged: in words for the user.
    Unclear(String),
    /// The steps were spent before all of its selectors were evaluated: what was found is remembered, and the rest follows.
    Unevaluated,
}

impl Obstacle {
    /// The same, of what is requested by this resource.
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
    /// What was allocated leaves no choice.
    pub(super) fn given(cards: CardCounts) -> Self {
        Self {
            choices: vec![cards],
            ordered: false,
            mixes: false,
        }
    }
}

impl Asked {
    /// Whether any of it is for cards.
    pub fn is_for_cards(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The same, with what is requested as resources that classes provide, of which some was `given` already; `unclear` says why that
    /// can't be said of some.
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

    /// Of claims that can't be charged: why.
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

/// What is asked for in all.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// What was allocated, claim by claim.
    pub(super) requests: Vec<RequestAsked>,
    /// What is yet to be.
    pub(super) asked_for: Vec<RequestAsked>,
    pub(super) devices: i64,
    /// Why it is not known what it is for, where it is not.
    pub(super) unknown: Option<String>,
    /// The first claim that another pod pays for.
    paid_by_another: Option<Box<str>>,
}

impl Sum {
    /// Another pod pays for a claim, which matters where it is for cards.
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
            // What leaves the same cards, and prefers none, gets them alike.
            let alike = self.requests.iter_mut().find(|other| are_alike(other, &request));
            let Some(alike) = alike else {
                self.requests.push(request);
                continue;
            };
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
