//! The number of cards of each type: gauges with the numbers that the `CardType` shows.

use crds::card_type::CardTypeStatus;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::CardLabels;

/// For each number, a gauge of each type.
#[derive(Debug, Default)]
pub(super) struct Cards {
    total: Family<CardLabels, Gauge>,
    free: Family<CardLabels, Gauge>,
    unaccounted: Family<CardLabels, Gauge>,
    not_counted: Family<CardLabels, Gauge>,
}

impl Cards {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("cards", "Cards that nodes have, by type", self.total.clone());
        registry.register(
            "free_cards",
            "Cards that new pods could get, on nodes that are usable, by type",
            self.free.clone(),
        );
        registry.register(
            "unaccounted_cards",
            "Cards that pods hold for which no queue is charged",
            self.unaccounted.clone(),
        );
        registry.register(
            "uncounted_cards",
            "Devices that are such a card and that several nodes reach: no other number has them",
            self.not_counted.clone(),
        );
    }

    /// Shows the status of a type; without a status, the type is removed.
    pub(super) fn show(&self, card: &str, status: Option<&CardTypeStatus>) {
        let labels = CardLabels { card: card.to_owned() };
        let figures = [
            (&self.total, status.map(|status| status.total)),
            (&self.free, status.map(|status| status.free)),
            (&self.unaccounted, status.map(|status| status.unaccounted)),
            (&self.not_counted, status.map(|status| status.not_counted)),
        ];
        for (family, figure) in figures {
            if let Some(figure) = figure {
                family.get_or_create(&labels).set(figure);
            } else {
                family.remove(&labels);
            }
        }
    }
}
