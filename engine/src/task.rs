//! What a pod asks for.

use std::sync::Arc;

use crds::mgpu::MgpuRequest;

use crate::alternative::{Alternative, Counted};
use crate::amounts::{Amounts, Dimension};
use crate::devices::DeviceDemand;
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;

/// How it is known which cards a pod asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Naming {
    /// The pod names them itself, or is charged for none.
    #[default]
    Own,
    /// Its queue has a quota for them (docs/rules.md, **Card quota**, `unnamedCards`).
    ByQueue,
    /// It can't be charged for what it asks, for this reason.
    Refused(Reason),
}

/// What a pod's claims select (docs/rules.md, **Cards by Dynamic Resource Allocation**).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claimed {
    /// What each of the claims' requests leaves to choose from; empty where the claims are for other devices.
    pub requests: Box<[Wanted]>,
    /// The cards that the pod's annotation names.
    pub named: Arc<[CardId]>,
    /// What the pod requests besides the claims.
    pub others: Arc<Amounts>,
    /// What it requests by extended resources that device classes hand out (`extendedResourceName`) and that no node has itself. Queues may
    /// limit these too.
    pub by_class: Arc<Amounts>,
    /// What the scheduler claimed for what it requests by resources; none where nothing was given for them.
    pub given: Option<Given>,
    /// `others` with what the first choices of the requests add, by the resources alone: what the pod counts as requesting where
    /// it is charged for no card.
    pub uncharged: Arc<Amounts>,
    /// What was allocated, where all of it has been.
    pub allocated: Option<Alternative>,
    /// Whether other pods are charged for claims that it shares.
    pub shared: bool,
    /// How many devices of an unknown kind are asked for or allocated.
    pub unknown: i64,
    /// Whether any of the existing claims asks for a device, whether that is a card or not, or the pod requests devices by a class.
    pub asks_for_devices: bool,
    /// Why the pod can't be charged for the claims, or not yet.
    pub refusal: Option<Reason>,
    /// Which claim that is about, and what of it, in words for the user; for a shared claim, the claim's name.
    pub refusal_detail: Option<Box<str>>,
    /// What the pod asks of the devices of its node; none where it asks for none.
    pub demand: Option<Arc<DeviceDemand>>,
}

/// How many cards a pod was given for what it requests by resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Given {
    /// How many it requests of those resources that cards were given for.
    pub requested: i64,
    /// How many more cards it was given.
    pub beyond: i64,
}

impl Claimed {
    /// Whether any of the claims is for cards.
    pub fn is_for_cards(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether any of the claims is for cards, or may be: claims, or the devices that they were given, may be missing.
    pub fn may_be_for_cards(&self) -> bool {
        let is_away = matches!(
            self.refusal,
            Some(Reason::ResourceClaimNotFound | Reason::NoDeviceSelected | Reason::SelectorsNotEvaluated)
        );
        self.is_for_cards() || self.unknown > 0 || is_away
    }

    /// Whether the claims are for cards, and each of their requests says itself which: it leaves one choice, or its choices are
    /// in order.
    pub fn names_cards(&self) -> bool {
        self.is_for_cards() && self.requests.iter().all(Wanted::is_settled)
    }

    /// Returns the cards that the claims leave to choose from, as often as they appear there.
    pub fn cards(&self) -> impl Iterator<Item = CardId> + '_ {
        let choices = self.requests.iter().flat_map(|request| &request.choices);
        choices.flat_map(|choice| choice.iter().map(|(card, ..)| *card))
    }
}

/// What one request of a claim leaves to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The choices, each with its cards and how many of each. The request gets one of them.
    pub choices: Vec<Box<[Counted]>>,
    /// Whether the choices are in the order of the claim.
    pub ordered: bool,
    /// Whether it may get some of several choices that have equal numbers.
    pub mixes: bool,
    /// Whether it may get what is none of the choices once further devices come.
    pub more_may_come: bool,
}

impl Wanted {
    /// Whether the request itself says which of its choices it gets, or which first.
    pub fn is_settled(&self) -> bool {
        self.ordered || self.choices.len() == 1
    }
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Its resources, and one slot for a pod.
    pub request: Arc<Amounts>,
    /// The cards that the pod could get, most preferred first: the cards that it names, or is read to name, by name; or what its
    /// claims leave.
    pub alternatives: Arc<[Alternative]>,
    /// Whether the pod names its cards itself.
    pub says_cards: bool,
    /// How it is known which cards the pod asks for.
    pub naming: Naming,
    /// What the pod claims of devices; none where it claims none.
    pub claimed: Option<Arc<Claimed>>,
    /// Whether neither the pod nor its group nor its namespace names a queue.
    pub unqueued: bool,
    /// The shares of cards that its containers ask for; none where they ask for none.
    pub mgpu: Option<Arc<MgpuRequest>>,
    /// Why the request can't be read, where it can't. Then nothing lets the pod in.
    pub unreadable: Option<Box<str>>,
}

impl Task {
    /// Whether the pod is charged for cards: then CPU and memory may be unlimited.
    pub(crate) fn is_for_cards(&self) -> bool {
        !self.alternatives.is_empty() || self.naming == Naming::ByQueue
    }

    /// Whether any of its claims is for cards.
    pub(crate) fn claims_cards(&self) -> bool {
        self.claimed.as_ref().is_some_and(|claimed| claimed.is_for_cards())
    }

    /// Whether another pod is charged for cards that this one shares.
    pub(crate) fn shares_cards(&self) -> bool {
        self.claimed.as_ref().is_some_and(|claimed| claimed.shared)
    }

    /// Whether any of its claims asks for a device, whether that is a card or not, or it requests devices by a class.
    pub(crate) fn asks_for_devices(&self) -> bool {
        self.claimed.as_ref().is_some_and(|claimed| claimed.asks_for_devices)
    }

    /// Returns what the pod requests with one of its alternatives, or without cards.
    #[inline]
    pub fn request_with<'t>(&'t self, alternative: Option<&'t Alternative>) -> &'t Arc<Amounts> {
        match alternative.and_then(Alternative::set) {
            Some(set) => set.request(),
            None => &self.request,
        }
    }

    /// Returns what the pod requests by resources that are on no node, since classes hand the devices out.
    pub fn by_class(&self) -> impl Iterator<Item = (Dimension, i64)> + '_ {
        self.claimed.iter().flat_map(|claimed| claimed.by_class.iter())
    }

    /// Returns what the pod requests with the first of its alternatives.
    pub fn first_request(&self) -> &Arc<Amounts> {
        self.request_with(self.alternatives.first())
    }

    /// Returns what the pod requests with any of its alternatives; its own request, where its cards are named.
    pub fn requests(&self) -> impl Iterator<Item = &Amounts> {
        let own = (!self.alternatives.iter().any(|alternative| alternative.set().is_some())).then_some(&*self.request);
        let sets = self.alternatives.iter().filter_map(Alternative::set);
        own.into_iter().chain(sets.map(|set| &**set.request()))
    }

    /// Returns the cards of its alternatives, as often as they appear there.
    pub fn cards(&self) -> impl Iterator<Item = CardId> + '_ {
        self.alternatives.iter().flat_map(Alternative::cards)
    }

    /// Returns how many cards it asks for, where each is one of `resource`.
    pub fn count(&self, resource: ResourceId) -> i64 {
        self.request.get(Dimension::Resource(resource))
    }
}
