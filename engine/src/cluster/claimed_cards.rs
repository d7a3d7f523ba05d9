//! What pods claim, in cards: what their claims leave, what was written on the pods when they were let in, and what they
//! got.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Cluster;
use super::pod::Pod;
use super::reading::Reading;
use crate::alternative::{Alternative, Assigned, CardSet, Counted};
use crate::amounts::{Amounts, Dimension};
use crate::devices::{Asked, CardCounts, Obstacle, Provided, RequestAsked};
use crate::names::CardId;
use crate::reason::Reason;
use crate::task::{Claimed, Given, Task, Wanted};

/// What a pod requests as resources.
#[derive(Debug, Default)]
pub(super) struct OfClasses {
    /// Requests that stand for no class, or for a resource of cards by itself.
    pub others: Amounts,
    /// Requests by resources that are on no node, since classes hand the devices out.
    pub by_class: Amounts,
    /// Requests that stand for classes, in cards.
    pub requested: Vec<RequestAsked>,
    /// Requests that stand for classes and were already given their cards.
    pub given: Vec<CardCounts>,
    /// How many cards these requests are for, and how many more they were given; none where none was given anything.
    pub given_for: Option<Given>,
    /// Why this can't be said of one of the requests.
    pub unclear: Option<Obstacle>,
}

impl OfClasses {
    /// Whether any request stands for classes.
    pub(super) fn is_any(&self) -> bool {
        !self.requested.is_empty()
            || !self.given.is_empty()
            || self.unclear.is_some()
            || self.by_class.iter().next().is_some()
    }
}

impl Cluster {
    /// Returns what a request comes to beside claims, where `given` was already given by resource. `beside_claims` says
    /// whether the claims are for cards.
    pub(super) fn requested_of_classes(
        &self,
        request: &Amounts,
        beside_claims: bool,
        given: &BTreeMap<Box<str>, CardCounts>,
    ) -> OfClasses {
        let (mut others, mut requested, mut unclear) = (Vec::new(), Vec::new(), None);
        let (mut settled, mut by_class, mut given_for) = (Vec::new(), Vec::new(), None::<Given>);
        for (dimension, count) in request.iter() {
            let is_of_class = self.is_of_class(dimension.name(&self.names));
            let cards = given.get(dimension.name(&self.names));
            let is_own = |cards: &CardCounts| {
                let name = dimension.name(&self.names);
                !cards.is_empty() && cards.keys().all(|card| card.resource == name)
            };
            // Some schedulers ask for devices of their own for each init container.
            let beyond = |cards: &CardCounts| {
                let given = cards.values().fold(0_i64, |sum, count| sum.saturating_add(*count));
                given.saturating_sub(count).max(0)
            };
            if let Some(cards) = cards.filter(|cards| beside_claims || !is_own(cards) || beyond(cards) > 0) {
                let sums = given_for.get_or_insert_default();
                let of_cards = if cards.is_empty() { 0 } else { count };
                sums.requested = sums.requested.saturating_add(of_cards);
                sums.beyond = sums.beyond.saturating_add(beyond(cards));
                settled.push(cards.clone());
                by_class.extend(is_of_class.then_some((dimension, count)));
                continue;
            }
            match self.provided_as_requested(dimension, beside_claims).as_deref() {
                // The scheduler judges which nodes have devices that are no cards.
                None if is_of_class => by_class.push((dimension, count)),
                None => others.push((dimension, count)),
                Some(Ok(cards)) => {
                    by_class.extend(is_of_class.then_some((dimension, count)));
                    let choices = cards.iter().map(|card| CardCounts::from([(card.clone(), count)]));
                    requested.push(RequestAsked {
                        choices: choices.collect(),
                        ordered: false,
                        mixes: true,
                        more_may_come: false,
                    });
                }
                Some(Err(why)) => {
                    others.push((dimension, count));
                    unclear.get_or_insert_with(|| why.of_resource(dimension.name(&self.names)));
                }
            }
        }
        OfClasses {
            others: others.into_iter().collect(),
            by_class: by_class.into_iter().collect(),
            requested,
            given: settled,
            given_for,
            unclear,
        }
    }

    /// Returns what a class provides as this resource. Returns none where the resource counts cards by itself, unless
    /// claims are for cards as well.
    fn provided_as_requested(&self, dimension: Dimension, beside_claims: bool) -> Option<Cow<'_, Provided>> {
        let resource = dimension.resource()?;
        let name = self.names.resource_name(resource);
        let Some(provided) = self.claimed.provided.get(name) else {
            return self.claimed.devices.not_provided(name).map(|why| Cow::Owned(Err(why)));
        };
        let is_own = match provided {
            Ok(cards) => cards.iter().all(|card| card.resource == name) && !beside_claims,
            // A pod that requests it is charged for the card that it names, and gets the card from a device plugin.
            Err(_) => self.is_known_for_cards(name),
        };
        (!is_own).then_some(Cow::Borrowed(provided))
    }

    /// Returns what is requested by resources that classes provide cards for, as cards that are counted by these
    /// resources: the scheduler may take any of them.
    pub(crate) fn requested_devices(&self, request: &Amounts) -> Vec<Wanted> {
        let requested = request.iter().filter_map(|(dimension, count)| {
            let resource = dimension.resource()?;
            let cards = self
                .claimed
                .provided
                .get(self.names.resource_name(resource))?
                .as_ref()
                .ok()?;
            let ids = cards.iter().filter_map(|card| self.names.known_card(&card.name));
            let choices = ids.map(|card| [(card, resource, count)].into());
            Some(Wanted {
                choices: choices.collect(),
                ordered: false,
                mixes: true,
                more_may_come: false,
            })
        });
        requested.collect()
    }

    /// Adds what claims come to to what was read of a pod; `others` is what the pod requests besides, `by_class` what it
    /// requests by resources that are on no node.
    pub(super) fn put_asked(&mut self, reading: &mut Reading, others: Amounts, by_class: Amounts, asked: Asked) {
        let task = &mut reading.task;
        let (refusal, refusal_detail) = match asked.obstacle {
            None => (None, None),
            Some(Obstacle::Missing(why)) => (Some(Reason::ResourceClaimNotFound), Some(why.into())),
            Some(Obstacle::NoDevice(why)) => (Some(Reason::NoDeviceSelected), Some(why.into())),
            Some(Obstacle::PaidByAnother(claim)) => (Some(Reason::ResourceClaimShared), Some(claim)),
            Some(Obstacle::Unevaluated) => (Some(Reason::SelectorsNotEvaluated), None),
            Some(Obstacle::Unclear(why)) => {
                task.unreadable.get_or_insert_with(|| why.into());
                (None, None)
            }
        };
        let names = &mut self.names;
        let mut read = |choice: CardCounts| -> Box<[Counted]> {
            let counts = choice.into_iter();
            let counts = counts.map(|(card, count)| (names.card(&card.name), names.resource(&card.resource), count));
            counts.collect()
        };
        let requests: Box<[Wanted]> = asked
            .requests
            .into_iter()
            .map(|request| Wanted {
                choices: request.choices.into_iter().map(&mut read).collect(),
                ordered: request.ordered,
                mixes: request.mixes,
                more_may_come: request.more_may_come,
            })
            .collect();
        let firsts = requests.iter().filter_map(|request| request.choices.first());
        let first = CardSet::new(&others, firsts.flatten().copied());
        let uncharged = first.as_ref().map_or_else(|| others.clone(), CardSet::uncharged);
        task.request = Arc::new(uncharged);
        task.claimed = Some(Arc::new(Claimed {
            named: task.cards().collect(),
            others: Arc::new(others),
            by_class: Arc::new(by_class),
            given: None,
            uncharged: Arc::clone(&task.request),
            allocated: first
                .filter(|_| asked.allocated)
                .map(|set| Alternative::Set(Arc::new(set))),
            requests,
            unknown: asked.unknown,
            asks_for_devices: false,
            demand: None,
            shared: refusal == Some(Reason::ResourceClaimShared),
            refusal,
            refusal_detail,
        }));
    }

    /// Returns the cards that were written on a pod, or that its claims got, as the pod's alternatives count them.
    pub(super) fn assigned_of(&self, reading: &Reading, old: Option<&Pod>) -> Option<Alternative> {
        let task = &reading.task;
        let claimed = task.claimed.as_deref();
        if let Some(allocated) = claimed.and_then(|claimed| claimed.allocated.as_ref()) {
            return Some(allocated.clone());
        }
        let earlier = old.and_then(|old| old.assigned.as_ref());
        let Some(written) = &reading.assigned else {
            // While its devices are not shown, a pod keeps what it had.
            return earlier
                .filter(|_| claimed.is_some_and(|claimed| claimed.unknown > 0))
                .cloned();
        };
        let let_in = self.let_in_set(reading);
        // Where the pod asks for more by now, this counts: its claims were made anew.
        if let Some(more) = let_in.as_ref().and_then(|let_in| asks_for_more(task, let_in)) {
            return Some(more.clone());
        }
        let mut own = task.alternatives.iter().chain(earlier);
        if let Some(own) = own.find(|own| own.is(written)) {
            return Some(own.clone());
        }
        // Where the pod requests cards besides its claims, what is written may be one of those.
        let requests_none = |claimed: &Claimed| self.card_resources_of(&claimed.others).is_empty();
        let is_unclear = task.unreadable.is_some() && claimed.is_some_and(requests_none);
        let may_be_claimed = is_unclear || claimed.is_some_and(Claimed::may_be_for_cards);
        let is_claimed = may_be_claimed || matches!(written, Assigned::Counted(_));
        let Some(let_in) = let_in.filter(|_| is_claimed) else {
            return match written {
                Assigned::Card(card) => Some(Alternative::Card(*card)),
                Assigned::Counted(_) => None,
            };
        };
        Some(Alternative::Set(Arc::new(let_in)))
    }

    /// Returns the cards that a pod was let in for by its claims, as far as that is written on it.
    pub(super) fn let_in_set(&self, reading: &Reading) -> Option<CardSet> {
        let written = reading.assigned.as_ref()?;
        self.written_set(&reading.task, written)
    }

    /// Returns the cards that were written on a pod when it was let in for what it claims; none where it requests them as
    /// a resource.
    fn written_set(&self, task: &Task, written: &Assigned) -> Option<CardSet> {
        // A card by its name alone stands for as many as the pod requests, of which the scheduler may have claimed more.
        let given = task.claimed.as_ref().and_then(|claimed| claimed.given);
        let requested = given.map_or(1, |given| given.requested.max(1));
        let counts = match written {
            Assigned::Card(card) => &[(*card, requested)][..],
            Assigned::Counted(counts) => counts,
        };
        let others = task.claimed.as_ref().map_or(&task.request, |claimed| &claimed.others);
        let is_requested = |card: CardId| {
            self.resource_of(card)
                .is_some_and(|resource| others.get(Dimension::Resource(resource)) > 0)
        };
        if matches!(written, Assigned::Card(card) if is_requested(*card)) {
            return None;
        }
        let counts = counts
            .iter()
            .map(|(card, count)| (*card, self.resource_of(*card), *count));
        // What is requested beside claims was written with them.
        let is_written = |dimension: Dimension| {
            let resource = dimension.resource();
            let of_it = counts.clone().filter(|(_, of, _)| of.is_some() && *of == resource);
            of_it.fold(0, |sum: i64, (.., count)| sum.saturating_add(count)) >= others.get(dimension)
        };
        let others: Amounts = others.iter().filter(|(dimension, _)| !is_written(*dimension)).collect();
        CardSet::counted(&others, counts)
    }
}

/// Returns the first of the alternatives that a task's claims leave, where all of them are more cards than `let_in`.
fn asks_for_more<'t>(task: &'t Task, let_in: &CardSet) -> Option<&'t Alternative> {
    let is_more = |own: &Alternative| own.set().is_some_and(|set| set.total() > let_in.total());
    task.alternatives
        .first()
        .filter(|_| task.alternatives.iter().all(is_more))
}

/// Returns the UID of a pod and what it was let in for, where its claims have now been allocated other cards.
pub(super) fn let_in_for_others(new: &Pod, old: Option<&Pod>) -> Option<(Arc<str>, Alternative)> {
    let is_allocated = |pod: &Pod| {
        pod.task
            .claimed
            .as_ref()
            .is_some_and(|claimed| claimed.allocated.is_some())
    };
    let got = new
        .charge
        .as_ref()
        .filter(|_| is_allocated(new))?
        .alternative
        .as_ref()?;
    let old = old.filter(|old| !is_allocated(old))?;
    let was = old.assigned.clone().filter(|was| !was.is_same(got))?;
    Some((Arc::clone(&new.uid), was))
}
