//! Which cards a pod could get: its alternatives, each of them one card or several at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::amounts::{Amounts, Dimension};
use crate::names::{CardId, Names, ResourceId};
use crds::card_assigned::AssignedCards;

/// The most alternatives that a pod may have: what was found out about each is kept as a bit.
pub const MOST_ALTERNATIVES: usize = 62;

/// The cards that a pod could get, or was let in for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Alternative {
    /// One card by its name: as many of it as the pod requests of the resource that the card stands for.
    Card(CardId),
    /// A number of each of these cards, by the pod's claims.
    Set(Arc<CardSet>),
}

/// Cards and how many of each, at least one card, together with all that a pod asks for with them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardSet {
    cards: Box<[(CardId, i64)]>,
    /// The card, and how many of it, that is not claimed but requested, by a resource that device plugins count.
    requested: Option<(CardId, i64)>,
    /// The cards, and all that is requested of the resources by which the cards are counted.
    added: Amounts,
    /// The cards, the resources by which they are counted, and all else that the pod requests.
    request: Arc<Amounts>,
}

/// A card, the resource by which it is counted, and how many.
pub type Counted = (CardId, ResourceId, i64);

impl CardSet {
    /// Returns a set of these cards, beside what a pod requests otherwise. None where there are no cards.
    pub fn new(others: &Amounts, cards: impl IntoIterator<Item = Counted>) -> Option<Self> {
        let cards = cards.into_iter();
        Self::counted(
            others,
            cards.map(|(card, resource, count)| (card, Some(resource), count)),
        )
    }

    /// Returns the same set, where it may be unknown how a card is counted because no node has it at the moment.
    pub fn counted(
        others: &Amounts,
        cards: impl IntoIterator<Item = (CardId, Option<ResourceId>, i64)>,
    ) -> Option<Self> {
        let mut counts = BTreeMap::<CardId, i64>::new();
        let mut request: BTreeMap<Dimension, i64> = others.iter().collect();
        let mut resources = BTreeSet::new();
        for (card, resource, count) in cards.into_iter().filter(|(.., count)| *count > 0) {
            let resource = resource.map(Dimension::Resource);
            resources.extend(resource);
            for dimension in [Dimension::Card(card)].into_iter().chain(resource) {
                let sum = request.entry(dimension).or_default();
                *sum = sum.saturating_add(count);
            }
            let sum = counts.entry(card).or_default();
            *sum = sum.saturating_add(count);
        }
        let set = Self {
            cards: counts.into_iter().collect(),
            requested: None,
            added: Amounts::default(),
            request: Arc::new(request.into_iter().collect()),
        };
        (!set.cards.is_empty()).then(|| set.adding(&resources))
    }

    /// Returns the same set with further cards that are requested beside what is claimed. Their resource is part of what a pod
    /// requests otherwise.
    #[must_use]
    pub fn and_requested(&self, (card, resource, count): Counted) -> Self {
        let mut counts: BTreeMap<_, _> = self.cards.iter().copied().collect();
        let of_card = counts.entry(card).or_insert(0);
        *of_card = of_card.saturating_add(count);
        let mut request: BTreeMap<_, _> = self.request.iter().collect();
        request.insert(Dimension::Card(card), *of_card);
        let resources = self.resources().chain([Dimension::Resource(resource)]).collect();
        let set = Self {
            cards: counts.into_iter().collect(),
            requested: Some((card, count)),
            added: Amounts::default(),
            request: Arc::new(request.into_iter().collect()),
        };
        set.adding(&resources)
    }

    /// Returns the same set, where all that is requested of these resources counts as added by the cards, and nothing of it as
    /// requested besides.
    #[must_use]
    pub fn adding(self, resources: &BTreeSet<Dimension>) -> Self {
        let is_added = |dimension: Dimension| dimension.card().is_some() || resources.contains(&dimension);
        let added = self.request.iter().filter(|(dimension, _)| is_added(*dimension));
        Self {
            added: added.collect(),
            ..self
        }
    }

    /// Returns the resources by which its cards are counted.
    pub fn resources(&self) -> impl Iterator<Item = Dimension> + '_ {
        let added = self.added.iter().map(|(dimension, _)| dimension);
        added.filter(|dimension| dimension.resource().is_some())
    }

    /// Returns the cards, and how many of each.
    pub fn cards(&self) -> &[(CardId, i64)] {
        &self.cards
    }

    /// Returns the card of which some are requested and not claimed, and how many.
    pub fn requested(&self) -> Option<(CardId, i64)> {
        self.requested
    }

    /// Returns the cards that are claimed, and how many of each.
    pub fn claimed(&self) -> impl Iterator<Item = (CardId, i64)> + '_ {
        let beside = |card: CardId| self.requested.filter(|(own, _)| *own == card);
        let cards = self.cards.iter();
        let claimed = cards.map(move |(card, count)| (*card, count - beside(*card).map_or(0, |(_, count)| count)));
        claimed.filter(|(_, count)| *count > 0)
    }

    /// Returns how many cards there are in all.
    pub fn total(&self) -> i64 {
        let counts = self.cards.iter().map(|(_, count)| *count);
        counts.fold(0, i64::saturating_add)
    }

    /// Returns what it adds more of than another set does, or than no set.
    pub fn beyond<'s>(&'s self, other: Option<&'s Self>) -> impl Iterator<Item = Dimension> + 's {
        let of_other = move |dimension| other.map_or(0, |other| other.added.get(dimension));
        let more = self
            .added
            .iter()
            .filter(move |(dimension, count)| *count > of_other(*dimension));
        more.map(|(dimension, _)| dimension)
    }

    /// Returns the one of its cards of which there is the least, as `there` counts it.
    pub fn scarcest(&self, there: impl Fn(CardId) -> usize) -> Option<CardId> {
        let cards = self.cards.iter().map(|(card, _)| *card);
        cards.min_by_key(|card| there(*card))
    }

    /// Returns the cards, and all that is requested of the resources by which they are counted.
    pub fn added(&self) -> &Amounts {
        &self.added
    }

    /// Returns the request with the resources alone: what a pod requests that is charged for no card.
    pub fn uncharged(&self) -> Amounts {
        let resources = self.request.iter().filter(|(dimension, _)| dimension.card().is_none());
        resources.collect()
    }

    /// Returns all that a pod asks for with these cards.
    pub fn request(&self) -> &Arc<Amounts> {
        &self.request
    }
}

impl Alternative {
    /// Returns the cards, each once.
    pub fn cards(&self) -> impl Iterator<Item = CardId> + '_ {
        let (one, several) = match self {
            Self::Card(card) => (Some(*card), None),
            Self::Set(set) => (None, Some(set)),
        };
        let several = several.into_iter().flat_map(|set| &set.cards);
        one.into_iter().chain(several.map(|(card, _)| *card))
    }

    /// Whether something holds for all of its cards.
    #[inline]
    pub fn all(&self, mut holds: impl FnMut(CardId) -> bool) -> bool {
        match self {
            Self::Card(card) => holds(*card),
            Self::Set(set) => set.cards.iter().all(|(card, _)| holds(*card)),
        }
    }

    /// Whether it has a card.
    pub fn has(&self, card: CardId) -> bool {
        !self.all(|own| own != card)
    }

    /// Returns the set, where its cards are counted one by one.
    pub fn set(&self) -> Option<&CardSet> {
        match self {
            Self::Card(_) => None,
            Self::Set(set) => Some(set),
        }
    }

    /// Returns its only card; none where it has several.
    pub fn only(&self) -> Option<CardId> {
        match self {
            Self::Card(card) => Some(*card),
            Self::Set(set) => match *set.cards {
                [(card, _)] => Some(card),
                _ => None,
            },
        }
    }

    /// Returns the text that is written on a pod that is let in for it. Where the cards are claimed, a name alone stands for one
    /// card: the claims may be gone or different when the text is read.
    pub fn written(&self, names: &Names) -> String {
        match self {
            Self::Card(card) => names.card_name(*card).to_owned(),
            Self::Set(set) => {
                if let [(card, 1)] = *set.cards {
                    return names.card_name(card).to_owned();
                }
                let counts = set.cards.iter();
                AssignedCards::counted(counts.map(|(card, count)| (names.card_name(*card), *count)))
            }
        }
    }

    /// Whether another alternative has the same cards, and as many of each, as far as both are counted one by one.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(own), Self::Set(other)) => own.cards == other.cards,
            (own, other) => own.only() == other.only(),
        }
    }

    /// Whether this is what was written.
    pub fn is(&self, assigned: &Assigned) -> bool {
        match (self, assigned) {
            (Self::Card(own), Assigned::Card(card)) => own == card,
            (Self::Set(set), Assigned::Card(card)) => *set.cards == [(*card, 1)],
            (Self::Set(set), Assigned::Counted(counts)) => set.cards == *counts,
            (Self::Card(_), Assigned::Counted(_)) => false,
        }
    }

    /// Returns it for people: `A`, or `2 A and 1 B`.
    pub fn said(&self, names: &Names) -> String {
        let Some(set) = self.set() else {
            return self.joined(names, "");
        };
        let counts = set.cards.iter().map(|(card, count)| (names.card_name(*card), *count));
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable();
        let counts: Vec<_> = counts
            .into_iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        counts.join(" and ")
    }

    /// Returns the names of its cards, for people.
    pub fn joined(&self, names: &Names, by: &str) -> String {
        let mut cards: Vec<_> = self.cards().map(|card| names.card_name(card)).collect();
        cards.sort_unstable();
        cards.join(by)
    }
}

/// What is written on a pod about the cards that it was let in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assigned {
    /// One card by its name.
    Card(CardId),
    /// A number of each card, sorted by card.
    Counted(Box<[(CardId, i64)]>),
}

impl Assigned {
    /// Reads what was written.
    pub fn read(text: &str, names: &mut Names) -> Self {
        match AssignedCards::parse(text) {
            AssignedCards::One(name) => Self::Card(names.card(&name)),
            AssignedCards::Counted(counts) => {
                let mut counts: Vec<_> = counts
                    .into_iter()
                    .map(|(name, count)| (names.card(&name), count))
                    .collect();
                counts.sort_unstable();
                Self::Counted(counts.into())
            }
        }
    }
}

/// Returns all ways to choose one answer to each of several questions; the last question's choice changes first. None where there
/// are more ways than a pod may have alternatives.
pub fn combine<'c, T>(questions: &'c [Vec<T>]) -> Option<Vec<Vec<&'c T>>> {
    let ways = questions.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul);
    ways.filter(|ways| *ways <= MOST_ALTERNATIVES)?;
    let mut combined: Vec<Vec<&T>> = vec![Vec::new()];
    for choices in questions {
        let longer = |way: &Vec<&'c T>| {
            let way = way.clone();
            choices.iter().map(move |choice| {
                let mut way = way.clone();
                way.push(choice);
                way
            })
        };
        combined = combined.iter().flat_map(longer).collect();
    }
    Some(combined)
}
