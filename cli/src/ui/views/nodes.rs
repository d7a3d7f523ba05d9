//! Nodes as a heat map, down to the shares of their cards.

use crds::card_inventory::{CardInventory, SharedGpu};
use maud::{Markup, html};

use super::bars::{Part, bar};

/// Nodes that are shown: a page of more is no page for people.
const MOST: usize = 500;
/// The condition of nodes that take pods.
const USABLE: &str = "NodeUsable";

/// The nodes by name, each with its cards.
pub fn show(inventories: &[CardInventory]) -> Markup {
    let mut nodes: Vec<_> = inventories.iter().collect();
    nodes.sort_by(|a, b| a.spec.node_name.cmp(&b.spec.node_name));
    html! {
        @if nodes.is_empty() {
            p data-part="none" { "No node has a card that Cardgate knows." }
        }
        ul.tiles {
            @for inventory in nodes.iter().take(MOST) {
                @let name = &inventory.spec.node_name;
                @let status = inventory.status.clone().unwrap_or_default();
                @let unusable = status.conditions.iter().find(|told| told.type_ == USABLE && told.status == "False");
                li class={ "tile" @if unusable.is_some() { " cordoned" } } data-part={ "node " (name) } {
                    h2 { (name) }
                    @if let Some(told) = unusable { p.note { (told.message) } }
                    @for card in &status.cards {
                        @let unusable = (card.total - card.used - card.free).max(0);
                        @let parts = [
                            Part { amount: card.used, class: heat(card.used, card.total) },
                            Part { amount: unusable, class: "unusable" },
                        ];
                        @let text = format!("{}: {} of {} used, {} free", card.name, card.used, card.total, card.free);
                        p.number { (text) }
                        (bar(&parts, &[], card.total, &text))
                    }
                    @if !status.gpus.is_empty() {
                        ol.shares {
                            @for gpu in &status.gpus { li { (share(gpu)) } }
                        }
                    }
                    @if !status.problems.is_empty() { p.note { "Problems: " (status.problems) } }
                }
            }
        }
        @if nodes.len() > MOST {
            p.note data-part="more" { (nodes.len() - MOST) " further nodes are not shown: " code { "kubectl get cardinventory" } " lists all." }
        }
    }
}

/// A card that is shared: its compute and its memory.
fn share(gpu: &SharedGpu) -> Markup {
    let text = format!(
        "card {}: {} of 100 compute, {} of {} MiB, {} containers",
        gpu.index,
        gpu.core_used,
        gpu.memory_used,
        gpu.memory,
        gpu.containers.len()
    );
    let part = |amount, whole| {
        [Part {
            amount,
            class: heat(amount, whole),
        }]
    };
    html! {
        span.number { (text) }
        (bar(&part(gpu.core_used, 100), &[], 100, &text))
        (bar(&part(gpu.memory_used, gpu.memory), &[], gpu.memory, &text))
    }
}

/// How hot: by how much is used.
fn heat(used: i64, whole: i64) -> &'static str {
    match (i128::from(used) * 4).checked_div(i128::from(whole)) {
        None | Some(..=0) => "heat0",
        Some(1) => "heat1",
        Some(2) => "heat2",
        Some(3) => "heat3",
        Some(_) => "heat4",
    }
}
