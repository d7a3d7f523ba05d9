//! Card names found in the cluster: which resource each name stands for, and which nodes have the card.

use std::collections::{BTreeMap, BTreeSet};

use crds::card_type::CardKind;
use jiff::Timestamp;

use super::Cluster;
use super::constraints::NodeConstraints;
use super::node::{Node, NodeCard, Offer, Supply};
use super::node_order::NodeOrder;
use super::pod::Pod;
use crate::alternative::Alternative;
use crate::amounts::Dimension;
use crate::ids::NodeId;
use crate::names::{CardId, ResourceId};

/// What a card name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// The resource that pods request for it.
    pub resource: ResourceId,
    /// What kind of card it is.
    pub kind: CardKind,
    /// The node labels that make up the name, keys and values.
    pub labels: Vec<(String, String)>,
    /// Whether the node had to guess the resource.
    is_guess: bool,
}

/// How many of a card there are, over the nodes that count it by the same resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many nodes have it.
    pub nodes: i64,
    /// How many of these had to guess its resource.
    guesses: i64,
    /// How many there are.
    pub total: i128,
    /// How many pods hold.
    pub used: i128,
    /// How many new pods could get. Cards on nodes that are cordoned or not ready are not included.
    pub free: i128,
    /// How many are held by pods for which no queue is charged.
    pub unaccounted: i128,
}

impl Tally {
    /// Returns what one node has of one of its cards.
    fn of(node: &Node, offer: &Offer, card: &NodeCard) -> Self {
        let (total, (used, free)) = (i128::from(card.found.count), node.use_of(card));
        Self {
            nodes: 1,
            guesses: i64::from(card.found.is_guess),
            total,
            used,
            free: if offer.is_usable() { free } else { 0 },
            unaccounted: (used - node.charged.get(Dimension::Card(card.card))).max(0),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            guesses: self.guesses + other.guesses,
            total: self.total + other.total,
            used: self.used + other.used,
            free: self.free + other.free,
            unaccounted: self.unaccounted + other.unaccounted,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes - other.nodes,
            guesses: self.guesses - other.guesses,
            total: self.total - other.total,
            used: self.used - other.used,
            free: self.free - other.free,
            unaccounted: self.unaccounted - other.unaccounted,
        }
    }
}

/// A disagreement between two nodes that count a card by different resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The first node by name that counts the card by the resource that it stands for.
    pub first: NodeId,
    /// The next node by name that counts the card by another resource.
    pub other: NodeId,
    /// The resource by which that other node counts the card.
    pub resource: ResourceId,
}

/// The resource that counts a card on a node, and the labels that make up its name there.
type Labelled = (ResourceId, Vec<(String, String)>);

/// What the nodes that have a card say of it together.
#[derive(Debug, Default)]
pub struct Card {
    /// What the card stands for on the node that decides. This outlasts the last node, so that pods that
    /// still run there keep their charge.
    pub meaning: Option<Meaning>,
    /// The nodes that have the card, by name. Nodes that mean another resource by it are included.
    pub nodes: NodeOrder,
    /// The nodes where a device plugin hands the card out, and nobody can claim it.
    pub by_plugin: NodeOrder,
    /// By which resource and labels nodes have the card, and how many nodes by each. Cards of one name may differ in
    /// labels, since memory is rounded.
    labelled: BTreeMap<Labelled, usize>,
    /// How many there are, by the resource that nodes count the card by. More than one resource is a conflict.
    pub tallies: BTreeMap<ResourceId, Tally>,
    /// The conflict, where there is one.
    pub conflict: Option<Conflict>,
    /// Where the next search for a node goes on, so that equal pods spread over the nodes.
    pub cursor: usize,
}

impl Card {
    /// Whether its nodes have it by several sets of labels, of which a pod can be narrowed to one.
    pub(crate) fn has_several_labels(&self) -> bool {
        let meant = self.meaning.as_ref().map(|meaning| meaning.resource);
        let there = self.labelled.keys();
        there.filter(|(resource, _)| Some(*resource) == meant).nth(1).is_some()
    }

    /// Whether a pod with these constraints may select, by labels, any of the nodes that have the card. For a card that no
    /// node has now, the labels count that its nodes had last.
    pub(crate) fn may_be_selected(&self, constraints: &NodeConstraints) -> bool {
        let Some(meaning) = &self.meaning else { return true };
        let there = self.labelled.keys();
        let mut there = there.filter(|(resource, _)| *resource == meaning.resource).peekable();
        match there.peek() {
            Some(_) => there.any(|(_, labels)| constraints.may_select(labels)),
            None => constraints.may_select(&meaning.labels),
        }
    }
}

/// The card names that nodes have, or had.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// The cards, each at the index that is its number.
    known: Vec<Card>,
    /// The resources by which nodes have been found to have cards.
    resources: BTreeSet<ResourceId>,
    /// Where the next search for a node goes on, for pods that name no card.
    cursor: usize,
}

/// Where the next searches for nodes go on.
#[derive(Debug)]
pub(crate) struct Cursors {
    /// For pods with each card, by number.
    of_cards: Vec<usize>,
    /// For pods that name no card.
    without_card: usize,
}

impl Cards {
    /// Whether nodes have been found to have cards by this resource.
    pub(super) fn are_counted_by(&self, resource: ResourceId) -> bool {
        self.resources.contains(&resource)
    }

    /// Returns the resources by which nodes were found to have cards.
    pub(super) fn resources(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.resources.iter().copied()
    }

    /// Returns all cards, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Card> {
        self.known.iter()
    }

    /// Forgets card names that nobody uses any more, and all names from this number on.
    pub(super) fn forget(&mut self, unused: Vec<CardId>, numbers: usize) {
        for card in unused {
            if let Some(known) = self.known.get_mut(card.index()) {
                *known = Card::default();
            }
        }
        self.known.truncate(numbers);
    }

    fn get_mut(&mut self, id: CardId) -> &mut Card {
        if self.known.len() <= id.index() {
            self.known.resize_with(id.index() + 1, Card::default);
        }
        &mut self.known[id.index()]
    }
}

impl Cluster {
    /// Returns what is known of a card name.
    pub fn card(&self, id: CardId) -> Option<&Card> {
        self.cards.known.get(id.index())
    }

    /// Returns the names of the cards that nodes have now, in order.
    pub fn cards_of_nodes(&self) -> Vec<&str> {
        self.cards_counted_by(|_| true)
    }

    /// Returns the names of the cards that nodes have now, of the resources that `wanted` chooses, in order.
    pub(crate) fn cards_counted_by(&self, wanted: impl Fn(ResourceId) -> bool) -> Vec<&str> {
        let is_there = |card: &Card| {
            let meaning = card.meaning.as_ref().filter(|_| !card.nodes.is_empty());
            meaning.is_some_and(|meaning| wanted(meaning.resource))
        };
        let cards = self.names.card_names().zip(&self.cards.known);
        let mut names: Vec<_> = cards.filter(|(_, card)| is_there(card)).map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// Returns the resources by which nodes were found to have cards, including resources of nodes that are gone.
    pub fn resources_of_cards(&self) -> BTreeSet<&str> {
        let resources = self.cards.resources();
        let resources = resources.map(|resource| self.names.resource_name(resource));
        resources.chain(self.claimed.provided()).collect()
    }

    /// Returns the resource that a card name stands for; none where no node ever had the card.
    pub fn resource_of(&self, id: CardId) -> Option<ResourceId> {
        Some(self.card(id)?.meaning.as_ref()?.resource)
    }

    /// Returns where the next search for a node goes on, for pods with this card or without any card.
    pub(crate) fn cursor(&self, card: Option<CardId>) -> usize {
        card.map_or(self.cards.cursor, |card| self.card(card).map_or(0, |card| card.cursor))
    }

    /// Sets where the next search for a node goes on.
    pub(crate) fn set_cursor(&mut self, card: Option<CardId>, place: usize) {
        match card {
            Some(card) => self.cards.get_mut(card).cursor = place,
            None => self.cards.cursor = place,
        }
    }

    /// Returns where the next searches for nodes go on, for pods with each card and without any card.
    pub(crate) fn cursors(&self) -> Cursors {
        Cursors {
            of_cards: self.cards.known.iter().map(|card| card.cursor).collect(),
            without_card: self.cards.cursor,
        }
    }

    /// Sets back where the next searches for nodes go on.
    pub(crate) fn set_cursors(&mut self, cursors: &Cursors) {
        for (card, cursor) in self.cards.known.iter_mut().zip(&cursors.of_cards) {
            card.cursor = *cursor;
        }
        self.cards.cursor = cursors.without_card;
    }

    /// Adds what a node has of its cards to their tallies. Before the node changes, or what pods hold of it, its cards are
    /// counted out; afterwards they are counted in again.
    pub(super) fn count_cards_in(&mut self, node: NodeId) {
        let node = &self.nodes[node];
        let Some(offer) = node.offer() else { return };
        for card in &offer.cards {
            let tallies = &mut self.cards.get_mut(card.card).tallies;
            let tally = tallies.entry(card.resource).or_default();
            *tally = tally.plus(Tally::of(node, offer, card));
        }
    }

    /// Subtracts what a node has of its cards from their tallies.
    pub(super) fn count_cards_out(&mut self, node: NodeId) {
        let node = &self.nodes[node];
        let Some(offer) = node.offer() else { return };
        for card in &offer.cards {
            let tallies = &mut self.cards.get_mut(card.card).tallies;
            let Some(tally) = tallies.get_mut(&card.resource) else {
                continue;
            };
            *tally = tally.minus(Tally::of(node, offer, card));
            if tally.nodes == 0 {
                tallies.remove(&card.resource);
            }
        }
    }

    /// Updates the cards after a node has come to have other cards than before, or is gone.
    pub(super) fn cards_changed(&mut self, node: NodeId, before: Option<&Offer>, now: Timestamp) {
        let cards_of = |offer: Option<&Offer>| -> Vec<(CardId, ResourceId)> {
            offer.map_or_else(Vec::new, |offer| {
                offer.cards.iter().map(|card| (card.card, card.resource)).collect()
            })
        };
        let by_plugin = |offer: Option<&Offer>| -> BTreeSet<CardId> {
            let cards = offer.into_iter().flat_map(|offer| &offer.cards);
            let by_plugin = cards.filter(|card| card.supply == Supply::Plugin);
            by_plugin.map(|card| card.card).collect()
        };
        let labelled = labelled_cards(before);
        let plugged = by_plugin(self.node(node).offer());
        for card in by_plugin(before).symmetric_difference(&plugged) {
            let order = &mut self.cards.get_mut(*card).by_plugin;
            order.set(node, plugged.contains(card), &self.nodes);
        }
        let (before, after) = (cards_of(before), cards_of(self.node(node).offer()));
        for (card, _) in before.iter().filter(|card| !after.contains(card)) {
            let nodes = &mut self.cards.get_mut(*card).nodes;
            nodes.set(node, false, &self.nodes);
            if nodes.is_empty() {
                self.note_coming_or_going(*card);
            }
            self.card_meaning_changed(*card, now);
        }
        for (card, _) in after.iter().filter(|card| !before.contains(card)) {
            let nodes = &mut self.cards.get_mut(*card).nodes;
            let is_first = nodes.is_empty();
            // A pod that waited because it was not known whether its request is this card is looked at again.
            self.version += u64::from(is_first);
            nodes.set(node, true, &self.nodes);
            if is_first {
                self.note_coming_or_going(*card);
            }
            self.card_meaning_changed(*card, now);
        }
        self.card_labels_changed(node, labelled, now);
        if before != after {
            // The meaning of the cards, and with it their counts, may be the same as before, but not which of the cards
            // such a pod has.
            for pod in self.node(node).undecided.clone() {
                self.recharge_pod(pod, now);
            }
        }
        for (card, _) in before.iter().chain(&after) {
            self.conflict_changed(*card);
            self.changes.cards.insert(*card);
        }
    }

    /// Updates the labels of the cards after a node has come to have its cards by other labels than `before`, or is gone.
    fn card_labels_changed(&mut self, node: NodeId, before: Vec<(CardId, Labelled)>, now: Timestamp) {
        let after = labelled_cards(self.node(node).offer());
        let come: Vec<_> = after.iter().filter(|card| !before.contains(card)).cloned().collect();
        let gone: Vec<_> = before.into_iter().filter(|card| !after.contains(card)).collect();
        for (card, labels) in come.iter().cloned() {
            let labelled = &mut self.cards.get_mut(card).labelled;
            let nodes = labelled.entry(labels).or_default();
            *nodes += 1;
            let is_new = *nodes == 1 && labelled.len() > 1;
            // A pod that may select none of the other nodes is looked at again.
            self.version += u64::from(is_new);
        }
        for (card, labels) in gone {
            let labelled = &mut self.cards.get_mut(card).labelled;
            if let Some(nodes) = labelled.get_mut(&labels) {
                *nodes -= 1;
                if *nodes == 0 {
                    labelled.remove(&labels);
                    self.version += u64::from(!labelled.is_empty());
                }
            }
        }
        for (card, _) in come {
            self.card_meaning_changed(card, now);
        }
    }

    /// Updates the conflict. The node that decides what a card means shows with which node it disagrees, as the other
    /// nodes do.
    fn conflict_changed(&mut self, id: CardId) {
        let Some(card) = self.card(id) else { return };
        let (before, now) = (card.conflict, self.conflict(card, id));
        if before != now {
            let first = |conflict: Option<Conflict>| conflict.map(|conflict| conflict.first);
            self.changes.nodes.extend(first(before).into_iter().chain(first(now)));
            self.cards.get_mut(id).conflict = now;
        }
    }

    /// Returns the conflict about a card. It is searched for only where there is one.
    fn conflict(&self, card: &Card, id: CardId) -> Option<Conflict> {
        let meant = self.resource_of(id).filter(|_| card.tallies.len() > 1)?;
        let resources = || {
            let nodes = card.nodes.iter();
            nodes.filter_map(|node| Some((*node, self.node(*node).card(id)?.resource)))
        };
        let (first, _) = resources().find(|(_, resource)| *resource == meant)?;
        let (other, resource) = resources().find(|(_, resource)| *resource != meant)?;
        Some(Conflict { first, other, resource })
    }

    /// Returns the node that decides what a card means: the first by name, of those that did not have to guess its resource
    /// if there are any.
    fn deciding_node(&self, card: &Card, id: CardId) -> Option<&NodeCard> {
        let mut nodes = card.nodes.iter().filter_map(|node| self.node(*node).card(id));
        let is_known = card.tallies.values().any(|tally| tally.guesses < tally.nodes);
        if is_known {
            nodes.find(|card| !card.found.is_guess)
        } else {
            nodes.next()
        }
    }

    /// Forgets a resource that was taken for that of a card by a guess, unless a card still means it: it is another plugin's.
    fn forget_guess(&mut self, resource: ResourceId, now: Timestamp) {
        let mut meanings = self.cards.known.iter().filter_map(|card| card.meaning.as_ref());
        if meanings.any(|meaning| meaning.resource == resource) {
            return;
        }
        self.cards.resources.remove(&resource);
        self.changes.resources_of_cards = true;
        self.resources_of_cards_changed();
        self.see_unqueued_anew(|_| true);
        self.give_back_without_cards(now);
    }

    fn card_meaning_changed(&mut self, id: CardId, now: Timestamp) {
        let Some(card) = self.card(id) else { return };
        let Some(meaning) = self.deciding_node(card, id).map(|card| Meaning {
            resource: card.resource,
            kind: card.found.kind,
            labels: card.found.labels.clone(),
            is_guess: card.found.is_guess,
        }) else {
            return;
        };
        if card.meaning.as_ref() == Some(&meaning) {
            return;
        }
        let is_new = self.cards.resources.insert(meaning.resource);
        let is_sure = !meaning.is_guess;
        let before = self.cards.get_mut(id).meaning.replace(meaning);
        // Of two guesses, nobody knows which is wrong.
        if let Some(guess) = before.as_ref().filter(|before| before.is_guess && is_sure) {
            self.forget_guess(guess.resource, now);
        }
        let before = before.map(|before| before.resource);
        self.name_cards_anew(|_| true);
        if is_new {
            self.resources_of_cards_changed();
            // Nobody was charged for this resource while nobody knew that it was a card's.
            self.charge_unqueued(|_| true, now);
        }
        self.version += 1;
        if before != self.resource_of(id) {
            // These are nodes that count for the card now, and nodes that no longer do.
            self.changes.nodes.extend(self.cards.known[id.index()].nodes.iter());
            let has = |alternative: Option<&Alternative>| alternative.is_some_and(|alternative| alternative.has(id));
            // A pod that names no card may still be charged for one: the card of its node.
            let is_charged = |pod: &Pod| {
                pod.charge
                    .as_ref()
                    .is_some_and(|charge| has(charge.alternative.as_ref()))
            };
            self.recharge(now, |pod| {
                pod.task.alternatives.iter().any(|alternative| alternative.has(id))
                    || has(pod.assigned.as_ref())
                    || is_charged(pod)
                    // Whether the webhook holds such a pod depends on whether what it requests is a card.
                    || pod.joined_later()
            });
        }
    }
}

/// Returns the cards of a node, each with the labels that make up its name there.
fn labelled_cards(offer: Option<&Offer>) -> Vec<(CardId, Labelled)> {
    let cards = offer.into_iter().flat_map(|offer| &offer.cards);
    let labelled = cards.map(|card| (card.card, (card.resource, card.found.labels.clone())));
    labelled.collect()
}
