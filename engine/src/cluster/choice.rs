//! What is left to the scheduler. Where a node has several cards that a pod's claims select, or more of one card than the
//! pod is charged for, the scheduler gives whichever it likes (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Cluster;
use super::node::{Node, NodeCard, Supply};
use crate::alternative::{Alternative, Counted};
use crate::amounts::Dimension;
use crate::names::{CardId, ResourceId};
use crate::task::{Task, Wanted};

/// How a pod that is charged for an alternative is kept away from nodes where the scheduler could give it other cards or
/// more cards, or would give up on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptAway {
    /// The labels of nodes that the pod must not go to.
    pub labels: Vec<String>,
    /// The cards of those labels.
    pub cards: BTreeSet<CardId>,
    /// Whether the labels do not suffice: they miss a node that the pod must not go to, such a node may come (`could_exceed`), or they
    /// exclude every node where the pod may go. The pod must then be given its node.
    pub is_open: bool,
}

impl KeptAway {
    /// Whether a node has any of the labels.
    pub fn has_label(&self, node: &Node) -> bool {
        let mut cards = self.cards.iter().filter_map(|card| node.card(*card));
        cards.any(|card| card.supply == Supply::Devices)
    }
}

/// What was found out in this round about pods that ask for the same. Nodes and classes don't change while decisions are
/// made.
#[derive(Debug, Default)]
pub(super) struct KnownKeptAway(RefCell<HashMap<Task, BTreeMap<Alternative, Arc<KeptAway>>>>);

impl Cluster {
    /// Forgets what was found out, since a round begins and nodes and classes may have changed since the last round.
    pub(crate) fn forget_kept_away(&mut self) {
        self.kept_away.0.get_mut().clear();
    }

    /// Returns how pods of this task are kept away with this alternative: as known in this round, or found out now.
    pub(crate) fn kept_away(
        &self,
        task: &Task,
        alternative: &Alternative,
        find: impl FnOnce() -> KeptAway,
    ) -> Arc<KeptAway> {
        let known = |known: &HashMap<Task, BTreeMap<_, _>>| known.get(task)?.get(alternative).map(Arc::clone);
        if let Some(known) = known(&self.kept_away.0.borrow()) {
            return known;
        }
        let found = Arc::new(find());
        let mut known = self.kept_away.0.borrow_mut();
        known
            .entry(task.clone())
            .or_default()
            .insert(alternative.clone(), Arc::clone(&found));
        found
    }
}

/// Whether the scheduler could give a pod on a node more of any card than an alternative has of it, if all devices of the
/// node were free, and also all devices that several nodes reach.
pub(crate) fn exceeds(cluster: &Cluster, task: &Task, alternative: &Alternative, node: &Node) -> bool {
    let Some(requests) = open_requests(cluster, task) else {
        return false;
    };
    let by_claims = claims_cards(task);
    let there = |card: CardId, resource: ResourceId| {
        let offer = node.offer().filter(|_| !by_claims);
        if offer.is_some_and(|offer| offer.by_plugin(Dimension::Resource(resource)) > 0) {
            // What a device plugin hands out there, the scheduler takes from the plugin.
            0
        } else if cluster.devices_apart(card) > 0 {
            i64::MAX
        } else {
            node.card(card).map_or(0, NodeCard::all_devices)
        }
    };
    let mut most = most_of(&requests, there).into_iter();
    most.any(|(card, count)| count > charged(cluster, task, alternative, card))
}

/// Whether the scheduler could give a pod more of a card of an alternative than the alternative has, on a node that has as many as anybody
/// likes, or what nobody knows yet. No label tells how many of a card a node has, and such a node may come at any time.
pub(crate) fn could_exceed(cluster: &Cluster, task: &Task, alternative: &Alternative) -> bool {
    let Some(requests) = open_requests(cluster, task) else {
        return false;
    };
    let mut most = most_of(&requests, |_, _| i64::MAX).into_iter();
    requests.iter().any(|request| request.more_may_come)
        || most.any(|(card, count)| alternative.has(card) && count > charged(cluster, task, alternative, card))
}

/// Returns the most that the scheduler could give of each card for these requests, where this many cards are there.
fn most_of(requests: &[Wanted], there: impl Fn(CardId, ResourceId) -> i64) -> BTreeMap<CardId, i64> {
    // The scheduler gives what is settled in any case.
    let (settled, open): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.choices.len() == 1);
    let mut most = BTreeMap::<CardId, i64>::new();
    for (card, _, count) in settled.iter().flat_map(|request| request.choices.iter().flatten()) {
        let sum = most.entry(*card).or_default();
        *sum = sum.saturating_add(*count);
    }
    let sure = most.clone();
    let left = |card: CardId, resource: ResourceId| {
        let taken = sure.get(&card).copied().unwrap_or(0);
        there(card, resource).saturating_sub(taken).max(0)
    };
    for request in open {
        let mut of_request = BTreeMap::<CardId, i64>::new();
        for choice in &request.choices {
            for (card, count) in could_be_given(choice, request, &left) {
                let most = of_request.entry(card).or_default();
                *most = count.max(*most);
            }
        }
        for (card, count) in of_request {
            let sum = most.entry(card).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    most
}

/// Returns what the scheduler could give of a choice where this many cards are there. Where devices of several cards would
/// do for one request, the scheduler may mix them.
fn could_be_given<'c>(
    choice: &'c [Counted],
    request: &Wanted,
    there: impl Fn(CardId, ResourceId) -> i64 + Copy + 'c,
) -> impl Iterator<Item = (CardId, i64)> + 'c {
    let suffices = choice.iter().all(|(card, of, count)| there(*card, *of) >= *count);
    let may_be_mixed = match choice {
        [(card, _, count)] if request.mixes => request.choices.iter().any(|other| {
            matches!(**other, [(other, of, as_many)] if other != *card && as_many == *count && there(other, of) > 0)
        }),
        [_] => false,
        // All that a node has.
        _ => choice.iter().all(|(card, of, _)| there(*card, *of) > 0),
    };
    let given = choice
        .iter()
        .map(move |(card, of, count)| (*card, (*count).min(there(*card, *of))));
    given.filter(move |(_, count)| (suffices || may_be_mixed) && *count > 0)
}

/// Returns how many of a card a pod is charged for with an alternative.
fn charged(cluster: &Cluster, task: &Task, alternative: &Alternative, card: CardId) -> i64 {
    match alternative {
        Alternative::Set(set) => {
            // What is requested beside claims can't be given to these requests.
            let own = set.claimed().find(|(own, _)| *own == card);
            own.map_or(0, |(_, count)| count)
        }
        Alternative::Card(own) if *own == card => cluster.resource_of(card).map_or(0, |resource| task.count(resource)),
        Alternative::Card(_) => 0,
    }
}

/// Returns the requests of a pod for devices, where any of them leaves the scheduler a choice of cards or of their number, or will once further
/// devices come.
pub(crate) fn open_requests<'t>(cluster: &Cluster, task: &'t Task) -> Option<Cow<'t, [Wanted]>> {
    let claimed = task.claimed.as_ref()?;
    let requests = if claims_cards(task) {
        Cow::Borrowed(&*claimed.requests)
    } else {
        Cow::Owned(cluster.requested_devices(&task.request))
    };
    requests
        .iter()
        .any(|request| request.choices.len() > 1 || request.more_may_come)
        .then_some(requests)
}

/// Whether a pod claims cards, and does not only request them as a resource.
fn claims_cards(task: &Task) -> bool {
    task.claimed.as_ref().is_some_and(|claimed| claimed.is_for_cards())
}
