//! Cards that a pod requests beside the cards that it claims, by a resource that device plugins count (docs/rules.md,
//! **Cards by Dynamic Resource Allocation**). This is one more request, and the annotation or the queue says for which
//! card it is.

use crds::card_assigned::AssignedCards;
use crds::configuration::{QueuePlugin, UnnamedCards};
use crds::keys::CARD_ASSIGNED;

use super::Cluster;
use super::naming_claims::Choice;
use super::node::Supply;
use super::pod::Pod;
use crate::alternative::{Alternative, CardSet};
use crate::amounts::Dimension;
use crate::ids::QueueId;
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;
use crate::task::{Claimed, Naming};

/// What is requested beside claims and charged as cards.
pub(super) struct Beside {
    /// The cards that it may be, each a choice by itself.
    pub(super) choices: Vec<Choice>,
    /// Whether the annotation names these cards.
    pub(super) is_named: bool,
}

impl Cluster {
    /// Returns the cards that a pod may get for what it requests beside its claims; none where it requests no cards, or is
    /// charged for none of them. Where it requests several card resources this is an error, since only one could be
    /// charged.
    pub(super) fn asked_beside(&self, claimed: &Claimed, queue: Option<QueueId>) -> Result<Option<Beside>, Reason> {
        let is_free = self.configuration.cardgate.unnamed_cards == UnnamedCards::Free;
        let resource = match self.card_resources_of(&claimed.others)[..] {
            [] => return Ok(None),
            [resource] => resource,
            [_, _, ..] if is_free && claimed.named.is_empty() => return Ok(None),
            [_, _, ..] => return Err(Reason::SecondCardResource),
        };
        let count = claimed.others.get(Dimension::Resource(resource));
        let is_of_claims = |card: CardId| claimed.cards().any(|own| own == card);
        // A card that no node has yet, and that no claim selects, can be meant for nothing else.
        let may_be = |card: &CardId| {
            self.resource_of(*card)
                .map_or(!is_of_claims(*card), |of| of == resource)
        };
        let mut cards: Vec<_> = claimed.named.iter().copied().filter(may_be).collect();
        let is_named = !cards.is_empty();
        if !is_named {
            let Some(queue) = queue.filter(|_| !is_free) else {
                return Ok(None);
            };
            cards = self.cards_of_queue(queue, |card| self.resource_of(card) == Some(resource));
            // Such a queue is limited by the resource itself.
            if cards.is_empty() && self.configuration.queue_plugin != QueuePlugin::CapacityCard {
                return Ok(None);
            }
        }
        let choices = cards.into_iter().map(|card| [(card, resource, count)].into());
        Ok(Some(Beside {
            choices: choices.collect(),
            is_named,
        }))
    }

    /// Returns what a pod counts for: what was allocated to its claims, together with the card that it requests beside
    /// them.
    pub(super) fn and_beside(&self, pod: &Pod, alternative: Alternative) -> Alternative {
        let and_requested = || {
            let claimed = pod.task.claimed.as_ref()?;
            let set = alternative
                .set()
                .filter(|_| claimed.allocated.as_ref() == Some(&alternative))?;
            let mut sets = pod.task.alternatives.iter().filter_map(Alternative::set);
            let first = sets.next().map(CardSet::requested);
            let is_charged = first.map_or(pod.task.naming == Naming::ByQueue, |first| first.is_some());
            let [resource] = self.card_resources_of(&claimed.others)[..] else {
                return None;
            };
            let count = claimed.others.get(Dimension::Resource(resource)).max(0);
            let of_queue = || first.flatten().map(|(card, _)| card);
            let card = self
                .written_beside(pod, set, resource)
                .or_else(|| self.plugin_card(pod, resource));
            let card = card.or_else(of_queue).filter(|_| is_charged && count > 0)?;
            Some(set.and_requested((card, resource, count)))
        };
        match and_requested() {
            Some(set) => Alternative::Set(set.into()),
            None => alternative,
        }
    }

    /// Returns the card of a resource that was written on a pod beside what its claims were given.
    fn written_beside(&self, pod: &Pod, given: &CardSet, resource: ResourceId) -> Option<CardId> {
        let text = self.claimed.pods.get(&pod.uid)?.annotation(CARD_ASSIGNED)?;
        let AssignedCards::Counted(written) = AssignedCards::parse(text) else {
            return None;
        };
        let given = |card: CardId| {
            let own = given.cards().iter().find(|(own, _)| *own == card);
            own.map_or(0, |(_, count)| *count)
        };
        let known = written
            .into_iter()
            .filter_map(|(name, count)| Some((self.names.known_card(&name)?, count)));
        let of_resource = known.filter(|(card, _)| self.resource_of(*card) == Some(resource));
        let most = of_resource.max_by_key(|(card, count)| (*count > given(*card), *count));
        most.map(|(card, _)| card)
    }

    /// Returns the card that the device plugin of a pod's node hands out for a resource.
    fn plugin_card(&self, pod: &Pod, resource: ResourceId) -> Option<CardId> {
        let offer = self.node(pod.room?).offer()?;
        let mut cards = offer.cards.iter();
        let card = cards.find(|card| card.resource == resource && card.supply != Supply::Devices)?;
        Some(card.card)
    }
}
