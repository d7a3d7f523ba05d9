//! A tile for each card.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::bars::{Part, bar, of_queue};
use crate::top::state::State;

/// The tiles, and what their looks mean.
pub fn show(state: &State) -> Markup {
    let names: BTreeSet<_> = state.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let names: Vec<_> = names.into_iter().collect();
    html! {
        @if state.cards.is_empty() {
            p data-part="none" { "No node has a card that Cardgate knows. " code { "kubectl card check" } " says what is missing." }
        }
        ul.tiles {
            @for card in &state.cards {
                @let holders: Vec<_> = state.queues.iter().filter(|queue| queue.card == card.card && queue.used > Some(0)).collect();
                @let looks: Vec<_> = holders.iter().map(|holder| of_queue(&names, &holder.queue)).collect();
                @let told: i64 = holders.iter().filter_map(|holder| holder.used).sum();
                @let untold = (card.charged - told).max(0);
                @let parts = {
                    let of_queues = holders.iter().zip(&looks);
                    let of_queues = of_queues.map(|(holder, class)| Part { amount: holder.used.unwrap_or(0), class });
                    let others = [
                        Part { amount: untold, class: "charged" },
                        Part { amount: card.unaccounted, class: "unaccounted" },
                        Part { amount: card.unusable, class: "unusable" },
                    ];
                    of_queues.chain(others).collect::<Vec<_>>()
                };
                @let text = format!(
                    "{} of {} free, {} charged to queues, {} charged to nobody, {} on nodes that take no pods",
                    card.free, card.total, card.charged, card.unaccounted, card.unusable
                );
                li.tile data-part={ "card " (card.card) } {
                    h2 { (card.card) }
                    p.number { strong { (card.free) } " of " (card.total) " free" }
                    (bar(&parts, &[], card.total, &text))
                    ul.legend {
                        @for (holder, look) in holders.iter().zip(&looks) {
                            li {
                                span class={ "key " (look) } aria-hidden="true" {}
                                a id={ "card-" (card.card) "-" (holder.queue) } href={ "queue?name=" (holder.queue) } { (holder.queue) }
                                " " (holder.used.unwrap_or(0))
                                @if let Some(waiting) = holder.waiting.filter(|waiting| *waiting > 0) { ", " (waiting) " waiting" }
                            }
                        }
                        @if untold > 0 { li { span.key.charged aria-hidden="true" {} "charged to queues " (untold) } }
                        @if card.unaccounted > 0 { li { span.key.unaccounted aria-hidden="true" {} "charged to nobody " (card.unaccounted) } }
                        @if card.unusable > 0 { li { span.key.unusable aria-hidden="true" {} "on nodes that take no pods " (card.unusable) } }
                    }
                }
            }
        }
        (super::unseen(state))
    }
}
