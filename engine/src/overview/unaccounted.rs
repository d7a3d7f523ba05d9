//! What is shown of cards that no queue is charged for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::card_usage::UNACCOUNTED;

use super::{Cluster, Shown, status};

/// What no queue is charged for, as it was last shown.
#[derive(Debug, Default)]
pub struct Unaccounted {
    /// How many of each card, where there are any. Only cards of nodes are here, so tenants can't invent names.
    cards: BTreeMap<Arc<str>, i64>,
    cards_changed: bool,
    pods_with_resource_claims: usize,
    /// Whether the current state, even an empty one, is shown: not before the first time, and not while a queue has the object's name.
    is_shown: bool,
}

impl Unaccounted {
    /// Sets how many of a card are held by pods for which no queue is charged; none where no node has the card.
    pub fn card(&mut self, card: &Arc<str>, count: Option<i64>) {
        let count = count.filter(|count| *count > 0);
        let before = match count {
            Some(count) => self.cards.insert(Arc::clone(card), count),
            None => self.cards.remove(card),
        };
        self.cards_changed |= before != count;
    }

    /// Returns what to show, where that differs from what was last shown.
    pub fn report(&mut self, cluster: &Cluster) -> Option<Shown> {
        let queue = cluster.queue_named(UNACCOUNTED).map(|id| cluster.queue(id));
        if queue.is_some_and(|queue| queue.terms().is_some()) {
            self.is_shown = false;
            return None;
        }
        let claiming = cluster.pods_with_resource_claims();
        if self.is_shown && !self.cards_changed && self.pods_with_resource_claims == claiming {
            return None;
        }
        (self.is_shown, self.cards_changed, self.pods_with_resource_claims) = (true, false, claiming);
        let cards = self.cards.iter().map(|(card, count)| (&**card, *count));
        let status = status::unaccounted(cards, i64::try_from(claiming).unwrap_or(i64::MAX));
        Some(Shown::Unaccounted { status })
    }
}
