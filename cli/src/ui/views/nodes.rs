//! Nodes as a heat map, down to the shares of their cards.

use crds::card_inventory::{CardInventory, SharedGpu};
use maud::{Markup, html};
use serde::Deserialize;

use super::bars::{Part, bar};

/// Nodes on one page. More are too many for people, and for their browsers.
const MOST: usize = 500;
/// The longest name of a node.
const LONGEST_NAME: usize = 253;
/// The condition of nodes that take pods.
const USABLE: &str = "NodeUsable";

/// Which nodes are asked for.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Asked {
    /// The page, from 1 on.
    #[serde(default)]
    page: usize,
    /// A text that the names of the nodes contain.
    #[serde(default)]
    name: String,
}

impl Asked {
    /// Returns the address of a page of the same nodes.
    fn address(&self, page: usize) -> String {
        format!("nodes?page={page}&name={}", self.name)
    }

    /// Keeps only characters that names of nodes can have, since the text becomes a part of addresses.
    fn in_letters_of_names(&self) -> Self {
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || ['-', '.'].contains(letter);
        Self {
            page: self.page,
            name: self.name.trim().chars().filter(is_part).take(LONGEST_NAME).collect(),
        }
    }
}

/// Returns a page of nodes by name, each with its cards.
pub fn show(inventories: &[CardInventory], asked: &Asked) -> Markup {
    let asked = asked.in_letters_of_names();
    let is_meant = |node: &&CardInventory| node.spec.node_name.contains(&*asked.name);
    let mut nodes: Vec<_> = inventories.iter().filter(is_meant).collect();
    nodes.sort_by(|a, b| a.spec.node_name.cmp(&b.spec.node_name));
    let pages: Vec<_> = nodes.chunks(MOST).collect();
    // Nodes may have disappeared since the address was made.
    let at = asked.page.clamp(1, pages.len().max(1));
    let page = pages.get(at - 1).copied().unwrap_or_default();
    html! {
        @if inventories.is_empty() {
            p data-part="none" { "No node has a card that Cardgate knows." }
        } @else {
            (finder(&asked))
            p.number data-part="range" { (range(&nodes, at, page.len(), inventories.len())) }
        }
        @if pages.len() > 1 {
            nav aria-label="Pages of nodes" data-part="pages" {
                @for (number, page) in (1..).zip(&pages) {
                    @let names = [page.first(), page.last()].map(|node| node.map_or("", |node| &node.spec.node_name));
                    a #{ "page-" (number) } href=(asked.address(number)) aria-current=[(number == at).then_some("page")] {
                        (names[0]) " to " (names[1])
                    }
                    " "
                }
            }
        }
        ul.tiles {
            @for inventory in page {
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
    }
}

/// Returns the field in which the user enters a part of a name.
fn finder(asked: &Asked) -> Markup {
    html! {
        form method="get" action="nodes" {
            label for="name" { "Part of a node's name" }
            input #name name="name" value=(asked.name) maxlength=(LONGEST_NAME) autocomplete="off" spellcheck="false";
            button { "Show" }
        }
    }
}

/// Says which nodes are shown, of how many.
fn range(nodes: &[&CardInventory], at: usize, on_page: usize, all: usize) -> String {
    let found = nodes.len();
    let of = if found == all {
        format!("{all} nodes")
    } else {
        format!("{found} nodes with such names, {all} in all")
    };
    if found <= MOST {
        return format!("{of}.");
    }
    let first = (at - 1) * MOST + 1;
    format!("{first} to {} of {of}, by name.", first + on_page - 1)
}

/// Returns a card that is shared: its compute and its memory.
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

/// Returns the colour on the heat map, by how much is used.
fn heat(used: i64, whole: i64) -> &'static str {
    match (i128::from(used) * 4).checked_div(i128::from(whole)) {
        None | Some(..=0) => "heat0",
        Some(1) => "heat1",
        Some(2) => "heat2",
        Some(3) => "heat3",
        Some(_) => "heat4",
    }
}
