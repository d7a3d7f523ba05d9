//! A tile for each card.

use std::collections::BTreeSet;

use crds::card_usage::OwnCards;
use maud::{Markup, html};

use super::bars::{Part, bar, of_queue};
use crate::top::state::State;

/// A queue whose own pods hold a card. What pods of queues below it hold is shown under these queues.
struct Holder<'s> {
    queue: &'s str,
    own: OwnCards,
}

fn holders<'s>(state: &'s State, card: &str) -> Vec<Holder<'s>> {
    let of_card = state.queues.iter().filter(|queue| queue.card == card);
    let held = of_card.filter_map(|queue| {
        let own = queue.own.filter(|own| own.allocated > 0)?;
        Some(Holder {
            queue: &queue.queue,
            own,
        })
    });
    held.collect()
}

/// Returns the tiles, and a legend.
pub fn show(state: &State) -> Markup {
    let names: BTreeSet<_> = state.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let names: Vec<_> = names.into_iter().collect();
    html! {
        @if state.cards.is_empty() {
            p data-part="none" { "No node has a card that Cardgate knows. " code { "kubectl card check" } " says what is missing." }
        }
        ul.tiles {
            @for card in &state.cards {
                @let holders: Vec<_> = holders(state, &card.card);
                @let looks: Vec<_> = holders.iter().map(|holder| of_queue(&names, holder.queue)).collect();
                @let told: i64 = holders.iter().map(|holder| holder.own.allocated).sum();
                @let untold = (card.charged - told).max(0);
                @let parts = {
                    let of_queues = holders.iter().zip(&looks);
                    let of_queues = of_queues.map(|(holder, class)| Part { amount: holder.own.allocated, class });
                    let others = [
                        Part { amount: untold, class: "charged" },
                        Part { amount: card.unaccounted, class: "unaccounted" },
                        Part { amount: card.unusable, class: "unusable" },
                    ];
                    of_queues.chain(others).collect::<Vec<_>>()
                };
                @let text = format!(
                    "{} of {} free, {} charged to queues, {} charged to nobody, {} on nodes that take no pods",
                    card.free, card.kind.count(card.total), card.charged, card.unaccounted, card.unusable
                );
                li.tile data-part={ "card " (card.card) } {
                    h2 { (card.card) }
                    p.number { strong { (card.free) } " of " (card.kind.count(card.total)) " free" }
                    (bar(&parts, &[], card.total, &text))
                    ul.legend {
                        @for (holder, look) in holders.iter().zip(&looks) {
                            li {
                                span class={ "key " (look) } aria-hidden="true" {}
                                a id={ "card-" (card.card) "-" (holder.queue) } href={ "queue?name=" (holder.queue) } { (holder.queue) }
                                " " (holder.own.allocated)
                                @if holder.own.waiting > 0 { ", " (holder.own.waiting) " waiting" }
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
