//! The document's examples, the real nodes, and what holds for any node.

mod capacity_card;
mod problems;
mod properties;
mod real_nodes;

use crds::lean::TextMap;

use super::*;

fn map(entries: &[(&str, &str)]) -> TextMap<String> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn node(labels: &[(&str, &str)], allocatable: &[(&str, &str)]) -> Discovery {
    discover(&map(labels), &map(allocatable))
}

/// Cards as `name = resource x count (kind)`.
fn cards(found: &Discovery) -> Vec<String> {
    let cards = found.cards.iter();
    cards
        .map(|card| format!("{} = {} x{} ({})", card.name, card.resource, card.count, card.kind))
        .collect()
}

fn reasons(found: &Discovery) -> Vec<&'static str> {
    found.problems.iter().map(Problem::reason).collect()
}

#[track_caller]
fn assert_cards(found: &Discovery, expected: &[&str]) {
    assert_eq!(cards(found), expected);
    assert_eq!(found.problems, []);
}

/// One problem, with its message; no cards.
#[track_caller]
fn assert_problem(found: &Discovery, reason: &str, message: &str) {
    assert_eq!(cards(found), [""; 0]);
    assert_eq!(reasons(found), [reason], "{:?}", found.problems);
    assert_eq!(found.problems[0].to_string(), message);
}
