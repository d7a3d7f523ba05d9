//! The cards of pods that claim devices (docs/rules.md, **Cards by Dynamic Resource Allocation**): of what their claims
//! leave, the annotation, the claims' own order or the queue chooses.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::configuration::{QueuePlugin, UnnamedCards};

use super::Cluster;
use crate::alternative::{Alternative, CardSet, Counted, combine};
use crate::ids::QueueId;
use crate::names::CardId;
use crate::reason::Reason;
use crate::task::{Claimed, Naming, Task, Wanted};

/// Cards that one request could get.
pub(super) type Choice = Box<[Counted]>;

impl Cluster {
    /// Sets what a task gets by its claims in a queue, or, without a queue, as far as the task says that itself.
    pub(super) fn name_claimed(&self, task: &mut Task, claimed: &Claimed, queue: Option<QueueId>) {
        let beside = match self.asked_beside(claimed, queue) {
            Ok(beside) => beside,
            Err(reason) => {
                task.naming = Naming::Refused(reason);
                return;
            }
        };
        let (mut is_named, mut is_open) = (!task.says_cards, false);
        let mut questions = Vec::with_capacity(claimed.requests.len());
        for request in &claimed.requests {
            let named = named(request, &claimed.named);
            if !named.is_empty() {
                is_named = true;
                questions.push(named);
            } else if let Some(queue) = queue.filter(|_| !request.is_settled()) {
                is_open = true;
                questions.push(self.choices_of_queue(queue, request));
            } else {
                questions.push(request.choices.iter().collect());
            }
        }
        if let Some(beside) = &beside {
            is_named |= beside.is_named;
            is_open |= !beside.is_named;
            questions.push(beside.choices.iter().collect());
        }
        if !is_named {
            task.naming = Naming::Refused(Reason::NoClaimForCard);
            return;
        }
        if is_open {
            if self.configuration.cardgate.unnamed_cards == UnnamedCards::Deny {
                task.naming = Naming::Refused(Reason::CardNameMissing);
                return;
            }
            task.naming = Naming::ByQueue;
        }
        let Some(combined) = combine(&questions) else {
            task.naming = Naming::Refused(Reason::TooManyAlternatives);
            return;
        };
        let mut sets = Vec::with_capacity(combined.len());
        for mut choices in combined {
            let requested = beside.as_ref().and_then(|_| choices.pop()?.first().copied());
            let cards = choices.into_iter().flat_map(|choice| choice.iter().copied());
            let set = CardSet::new(&claimed.others, cards);
            let and_requested = |set: CardSet| requested.map(|requested| set.and_requested(requested)).unwrap_or(set);
            sets.extend(set.map(and_requested).filter(|set| !sets.contains(set)));
        }
        // Where some cards are counted by a resource that is requested besides, the sum is what counts.
        let resources: BTreeSet<_> = sets.iter().flat_map(CardSet::resources).collect();
        if !sets.is_empty() {
            let others = claimed.others.iter();
            task.request = Arc::new(others.filter(|(dimension, _)| !resources.contains(dimension)).collect());
        }
        let sets = sets.into_iter().map(|set| Arc::new(set.adding(&resources)));
        let alternatives: Vec<_> = sets.map(Alternative::Set).collect();
        task.alternatives = alternatives.into();
    }

    /// Returns what a request leaves of cards that a queue has a quota for. Where the queue names none of them, and limits
    /// what it does not name by the resource alone, all that the request leaves is returned.
    fn choices_of_queue<'c>(&self, queue: QueueId, request: &'c Wanted) -> Vec<&'c Choice> {
        let quotas = self.cards_of_queue(queue, |_| true);
        let has_quota = |choice: &&Choice| choice.iter().all(|(card, ..)| quotas.contains(card));
        let chosen: Vec<_> = request.choices.iter().filter(has_quota).collect();
        if chosen.is_empty() && self.configuration.queue_plugin != QueuePlugin::CapacityCard {
            return request.choices.iter().collect();
        }
        chosen
    }
}

/// Returns the choices of a request of which all cards are named, in the order of the names.
fn named<'c>(request: &'c Wanted, names: &[CardId]) -> Vec<&'c Choice> {
    let places = |choice: &Choice| -> Option<Vec<usize>> {
        let place = |(card, ..): &Counted| names.iter().position(|name| name == card);
        let mut places = choice.iter().map(place).collect::<Option<Vec<_>>>()?;
        places.sort_unstable();
        Some(places)
    };
    let choices = request.choices.iter();
    let mut in_turn: Vec<_> = choices.filter_map(|choice| Some((places(choice)?, choice))).collect();
    in_turn.sort_by(|(one, _), (other, _)| one.cmp(other));
    in_turn.into_iter().map(|(_, choice)| choice).collect()
}
