//! Devices that pods claim, counted as cards: what nodes have, what claims ask for or were given, and which pod is charged
//! for it (docs/rules.md, **Cards by Dynamic Resource Allocation**).

use std::collections::{BTreeMap, BTreeSet};

use crds::keys::{DEVICE_LABEL_PREFIX, NODE_LABEL_SET};
use crds::slug::label_name;
use serde_json::Value;

use super::cards::{self, Card, Supply};
use super::nodes::Node;
use super::pods::Pod;
use super::stored::ByKind;
use super::view::View;
use super::{Finding, broken};
use crate::devices::{self, Device};
use crate::objects::{DEVICE_CLASSES, Key, RESOURCE_CLAIMS, SLICES};

/// The rule about claims that several pods name.
pub const SHARED: &str = "a claim that pods share is of one queue";

/// The cards that a pod claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts, each of which may hold beside any of the others"
)]
pub struct Claimed {
    /// The cards, of which the pod gets one kind, in the order of a claim, else by name. Empty if it claims none.
    pub cards: Vec<String>,
    /// Whether a claim orders them.
    pub ordered: bool,
    /// Whether these were allocated, and not only requested.
    pub allocated: bool,
    /// Whether these were requested as a resource that a class provides.
    pub provided: bool,
    /// How many of each card the pod has by its claims, if that is known: what was allocated, or what it was let in for.
    pub counted: BTreeMap<String, i128>,
    /// Claims that other pods may name as well.
    pub shared: Vec<Key>,
    /// Whether another pod is charged for one of those.
    pub paid_by_another: bool,
    /// Whether the pod gets cards by that.
    pub gets_cards: bool,
    /// Whether any existing claim asks for a device, whether a card or not.
    pub asks_for_devices: bool,
    /// Whether the pod's own claims are for cards, even if it is unknown for which, or how many of each.
    pub is_for_cards: bool,
    /// Whether nothing is allocated to one of the pod's claims.
    pub open: bool,
    /// Whether it is unknown what the pod claims, or not known yet.
    pub unclear: bool,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    cards: Vec<(String, String)>,
    ordered: bool,
    count: i128,
}

/// Adds the cards that nodes have as devices to the cards of their labels.
pub fn put_on_nodes(stored: &ByKind, nodes: &mut [Node]) {
    let slices = stored.get(&SLICES).into_iter().flatten().map(|(_, slice)| &**slice);
    let claims = stored.get(&RESOURCE_CLAIMS).into_iter().flatten();
    let in_use: BTreeSet<_> = claims.flat_map(|(_, claim)| results(claim)).collect();
    let mut by_node = BTreeMap::<_, BTreeMap<_, i128>>::new();
    for device in devices::complete(slices) {
        if let Some(card) = device.card() {
            if device.is_kept_away() && in_use.contains(&device.id) {
                let node = nodes.iter_mut().find(|node| node.name == device.node);
                if let Some(node) = node {
                    *node.away.entry(card.0.clone()).or_default() += 1;
                }
            }
            // A device that a taint keeps pods away from exists, but is not available.
            let count = by_node.entry(device.node).or_default().entry(card).or_default();
            *count += i128::from(!device.is_kept_away());
        }
    }
    for node in nodes {
        let mut sums = BTreeMap::<String, i128>::new();
        for ((name, resource), count) in by_node.remove(&*node.name).into_iter().flatten() {
            *sums.entry(resource.clone()).or_default() += count;
            if let Some(known) = node.cards.iter_mut().find(|known| known.name == name) {
                known.supply = Supply::Both;
                known.count = known.count.max(count);
                continue;
            }
            let label = format!("{DEVICE_LABEL_PREFIX}{}", label_name(&name));
            node.cards.push(Card {
                name,
                resource,
                count,
                labels: vec![(label, NODE_LABEL_SET.to_owned())],
                supply: Supply::Devices,
            });
        }
        for (resource, count) in sums {
            let is_other = |card: &&Card| card.resource == resource && card.supply == Supply::Plugin;
            let others: i128 = node.cards.iter().filter(is_other).map(|card| card.count).sum();
            let has = node.allocatable.entry(resource).or_default();
            *has = count.max(*has - others) + others;
        }
    }
}

/// Returns the resources by which pods may request devices without a claim.
pub fn provided(stored: &ByKind) -> BTreeSet<String> {
    let classes = stored.get(&DEVICE_CLASSES).into_iter().flatten();
    let provided = classes.filter_map(|(_, class)| class["spec"]["extendedResourceName"].as_str());
    provided.map(str::to_owned).collect()
}

/// Reads what pods claim, and adds it to their requests. `last` is the pod that is let in just now: a pod that shares a
/// claim with it and was let in before is charged for the claim, even if younger. Otherwise a pod on which it is written
/// that it was let in for cards is charged, before pods that only shared them then; among equals the oldest. A pod that is
/// gone except for its name leaves the charge to others.
pub fn put_on_pods(stored: &ByKind, pods: &mut [Pod], last: Option<&Key>, is_late: impl Fn(&Pod) -> bool) {
    for pod in pods.iter_mut() {
        let claims = named(pod).map(|(claim, _)| stored.get(&RESOURCE_CLAIMS)?.get(&claim?));
        let is_open = claims
            .into_iter()
            .any(|claim| claim.is_none_or(|claim| !is_allocated(claim)));
        pod.claimed.open = is_open;
    }
    let is_gone = |pod: &Pod| is_late(pod) || pod.never_runs() && pod.claimed.open;
    let mut payers = BTreeMap::new();
    let mut holders: Vec<_> = pods.iter().filter(|pod| !pod.is_held && !pod.is_over).collect();
    let turn = |pod: &Pod| (is_gone(pod), Some(&pod.key) == last, pod.assigned().is_none());
    holders.sort_by(|one, other| (turn(one), &one.born).cmp(&(turn(other), &other.born)));
    for pod in holders {
        for (claim, shared) in named(pod) {
            if let Some(claim) = claim.filter(|_| shared) {
                payers.entry(claim).or_insert_with(|| pod.key.clone());
            }
        }
    }
    let slices = stored.get(&SLICES).into_iter().flatten().map(|(_, slice)| &**slice);
    let there = devices::all(slices);
    for pod in pods {
        if pod.spec["resourceClaims"].is_array() || pod.provided_claim.is_some() {
            read(stored, &there, &payers, pod);
        }
    }
}

/// Returns the claims that a pod names, and whether others may name them; `None` for a claim that is not made yet.
fn named(pod: &Pod) -> impl Iterator<Item = (Option<Key>, bool)> + '_ {
    let claims = pod.spec["resourceClaims"].as_array().into_iter().flatten();
    claims.map(|named| {
        let by_name = named["resourceClaimName"].as_str();
        let made = named["name"].as_str().and_then(|name| pod.made_claims.get(name));
        let claim = by_name.or(made.map(String::as_str));
        (
            claim.map(|claim| Key::new(&*pod.key.namespace, claim)),
            by_name.is_some(),
        )
    })
}

fn read(stored: &ByKind, there: &[Device<'_>], payers: &BTreeMap<Key, Key>, pod: &mut Pod) {
    let mut claimed = Claimed {
        open: pod.claimed.open,
        ..Claimed::default()
    };
    let (mut asked, mut given) = (Vec::new(), Vec::new());
    let claims: Vec<_> = named(pod).collect();
    for (key, shared) in claims {
        let found = key.as_ref().and_then(|key| stored.get(&RESOURCE_CLAIMS)?.get(key));
        let (Some(key), Some(claim)) = (key, found) else {
            claimed.unclear = true;
            continue;
        };
        let asks_for = claim["spec"]["devices"]["requests"].as_array();
        claimed.asks_for_devices |= asks_for.is_some_and(|requests| !requests.is_empty());
        let is_paid = shared && payers.get(&key).is_some_and(|payer| *payer != pod.key);
        if shared {
            claimed.shared.push(key);
        }
        if is_paid {
            claimed.paid_by_another = true;
            let given = allocated(claim, there).map(|cards| !cards.is_empty());
            // Whether the claim is for cards can no longer be seen.
            claimed.unclear |= is_allocated(claim) && given.is_none();
            let asked = || requests(stored, there, claim).is_some_and(|requests| !requests.is_empty());
            claimed.gets_cards |= given.unwrap_or_else(|| !is_allocated(claim) && asked());
            continue;
        }
        match allocated(claim, there) {
            Some(cards) => given.extend(cards),
            // What its devices were can no longer be seen.
            None if is_allocated(claim) => claimed.unclear = true,
            None => match requests(stored, there, claim) {
                Some(requests) => asked.extend(requests),
                None => claimed.unclear = true,
            },
        }
    }
    claimed.is_for_cards = !asked.is_empty() || !given.is_empty();
    let is_settled = !claimed.unclear && asked.is_empty() && !given.is_empty();
    let counted = if is_settled {
        count(given.clone())
    } else {
        let_in_for(pod, there)
    };
    if !counted.is_empty() {
        for ((card, resource), count) in counted {
            *pod.request.entry(resource).or_default() += count;
            claimed.cards.push(card.clone());
            claimed.counted.insert(card, count);
        }
        (claimed.allocated, claimed.unclear) = (is_settled, false);
    } else if !claimed.unclear {
        let first_given = given.iter().min().cloned();
        let of = |sum: &Asked, other: &Asked| sum.cards == other.cards;
        claimed.unclear = asked.windows(2).any(|pair| !of(&pair[0], &pair[1]))
            || first_given.is_some() && !asked.is_empty()
            || asked
                .iter()
                .any(|asked| asked.cards.iter().any(|(_, resource)| *resource != asked.cards[0].1));
        let count = asked.iter().map(|asked| asked.count).sum::<i128>() + i128::try_from(given.len()).unwrap_or(0);
        claimed.allocated = first_given.is_some();
        claimed.ordered = asked.iter().any(|asked| asked.ordered);
        let cards: Vec<_> = match (first_given, asked.first()) {
            (Some(card), _) => vec![card],
            (None, Some(asked)) => asked.cards.clone(),
            (None, None) => Vec::new(),
        };
        if let Some((_, resource)) = cards.first().filter(|_| !claimed.unclear) {
            *pod.request.entry(resource.clone()).or_default() += count;
            claimed.cards = cards.into_iter().map(|(name, _)| name).collect();
        }
    }
    // What the scheduler made a claim for by itself counts as requested by a resource.
    let made = pod
        .provided_claim
        .as_ref()
        .map(|name| Key::new(&*pod.key.namespace, &**name));
    let made = made.and_then(|key| allocated(stored.get(&RESOURCE_CLAIMS)?.get(&key)?, there));
    if let Some((card, _)) = made
        .and_then(|cards| cards.into_iter().min())
        .filter(|_| claimed.cards.is_empty())
    {
        claimed.cards = vec![card];
        (claimed.allocated, claimed.provided) = (true, true);
    }
    pod.claimed = claimed;
}

/// Counts how many there are of each.
fn count(cards: impl IntoIterator<Item = (String, String)>) -> BTreeMap<(String, String), i128> {
    let mut counts = BTreeMap::new();
    for card in cards {
        *counts.entry(card).or_default() += 1;
    }
    counts
}

/// Returns the cards that a pod was let in for, if it says how many of each, and each exists.
fn let_in_for(pod: &Pod, there: &[Device<'_>]) -> BTreeMap<(String, String), i128> {
    let said = pod.assigned().filter(|said| said.starts_with('{'));
    let said = said.and_then(cards::counts).unwrap_or_default();
    let known: BTreeMap<_, _> = there.iter().filter_map(Device::card).collect();
    let of_each = said.into_iter().filter_map(|(card, count)| {
        let resource = known.get(&card)?.clone();
        Some(((card, resource), count))
    });
    of_each.collect()
}

fn is_allocated(claim: &Value) -> bool {
    claim["status"]["allocation"]["devices"]["results"].is_array()
}

/// Returns the cards that were allocated to a claim; `None` if nothing is, or if a device is no longer known.
fn allocated(claim: &Value, there: &[Device<'_>]) -> Option<Vec<(String, String)>> {
    is_allocated(claim).then_some(())?;
    let mut cards = Vec::new();
    for id in results(claim) {
        cards.extend(there.iter().find(|device| device.id == id)?.card());
    }
    Some(cards)
}

/// Returns the devices that a claim was given: driver, pool and name of each.
fn results(claim: &Value) -> impl Iterator<Item = [&str; 3]> {
    fn id(result: &Value) -> [&str; 3] {
        ["driver", "pool", "device"].map(|field| result[field].as_str().unwrap_or_default())
    }
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    results.into_iter().flatten().map(id)
}

/// Returns what the requests of a claim ask for; `None` if that can't be expressed in cards.
fn requests(stored: &ByKind, there: &[Device<'_>], claim: &Value) -> Option<Vec<Asked>> {
    let requests = claim["spec"]["devices"]["requests"].as_array()?;
    let mut all = Vec::new();
    for request in requests {
        let alternatives = request["firstAvailable"].as_array().map_or(&[][..], Vec::as_slice);
        let forms = [&request["exactly"]]
            .into_iter()
            .filter(|form| form.is_object())
            .chain(alternatives);
        let (mut cards, mut counts) = (Vec::new(), BTreeSet::new());
        for form in forms {
            let class = Key::new("", form["deviceClassName"].as_str().unwrap_or_default());
            let class = stored.get(&DEVICE_CLASSES)?.get(&class)?;
            let is_meant = |device: &&Device<'_>| {
                devices::selects(&class["spec"]["selectors"], device) && devices::selects(&form["selectors"], device)
            };
            let meant: BTreeSet<_> = there.iter().filter(is_meant).filter_map(Device::card).collect();
            if !meant.is_empty() {
                counts.insert(form["count"].as_i64().unwrap_or(1));
            }
            cards.extend(
                meant
                    .into_iter()
                    .filter(|card| !cards.contains(card))
                    .collect::<Vec<_>>(),
            );
        }
        let mut counts = counts.into_iter();
        let (Some(count), None) = (counts.next(), counts.next()) else {
            return None;
        };
        all.push(Asked {
            cards,
            ordered: !alternatives.is_empty(),
            count: count.into(),
        });
    }
    Some(all)
}

/// Whether a pod holds devices, but its claim or the slice is gone, so that this can't be seen any more. An operator
/// remembers what the pod was let in for, but a restarted operator can't.
pub fn is_charged_unseen(view: &View) -> bool {
    view.pods.iter().any(|pod| pod.claimed.unclear && view.holds(pod))
}

/// Judges a pod that is let in: pods that share a claim with it are charged to the same queue.
pub fn judge(view: &View, key: &Key) -> Finding {
    let Some(pod) = view.pods.iter().find(|pod| pod.key == *key) else {
        return Ok(());
    };
    let Some(queue) = view.queue_of(pod) else { return Ok(()) };
    let others = view.pods.iter().filter(|other| other.key != *key && view.holds(other));
    for other in others.filter(|other| other.key.namespace == key.namespace) {
        let shared = other
            .claimed
            .shared
            .iter()
            .find(|claim| pod.claimed.shared.contains(claim));
        if let (Some(claim), Some(of)) = (shared, view.queue_of(other).filter(|of| *of != queue)) {
            let other = &other.key;
            return broken(
                SHARED,
                format!("{key} is let into {queue}, and shares {claim} with {other}, which is in {of}"),
            );
        }
    }
    Ok(())
}
