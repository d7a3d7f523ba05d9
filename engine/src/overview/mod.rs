//! What is shown of the cluster: reports on nodes, cards and queues whose figures have changed.

mod figures;
mod gpus;
mod line;
pub mod status;
mod unaccounted;
mod unsatisfiable;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crds::card_inventory::{CardInventoryStatus, NodeQuota};
use crds::card_type::{CardTypeSpec, CardTypeStatus};
use crds::card_usage::CardUsageStatus;
use crds::format::format_amount;

use crate::cluster::node::{Node, NodeCard, Offer};
use crate::cluster::{Changes, Cluster};
use crate::discovery::Problem;
use crate::ids::NodeId;
use crate::names::CardId;
pub use figures::{CardFigures, GpuFigures, QueueFigures, ResourceFigures, StandingFigures, figures};
pub use gpus::{first_fit, gpu_figures};
pub use line::entries_of_usage;
use status::{Quotas, Usability};
pub use unaccounted::Unaccounted;
pub use unsatisfiable::Unsatisfiable;

/// What is shown of one thing, complete: it replaces whatever was shown of it before.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The cards of one node.
    Inventory {
        /// Name of the node, and of the inventory.
        node: Arc<str>,
        /// The node's unique id: the node owns the inventory.
        node_uid: Box<str>,
        /// The content; none removes the inventory.
        status: Option<CardInventoryStatus>,
        /// Whether anything but the use of the cards has changed: then it is written at once.
        prompt: bool,
    },
    /// One card name.
    CardType {
        /// The card name.
        card: Arc<str>,
        /// What the name stands for and how many cards there are; none removes the object.
        content: Option<(CardTypeSpec, CardTypeStatus)>,
        /// Whether anything but the use of the cards has changed: then it is written at once.
        prompt: bool,
    },
    /// What one queue has.
    Usage {
        /// Name of the queue, and of the usage.
        queue: Arc<str>,
        /// The queue's unique id: the queue owns the usage.
        queue_uid: Box<str>,
        /// The content; none removes the usage.
        status: Option<CardUsageStatus>,
    },
    /// What no queue is charged for. While a queue has the same name as this object, the object is that queue's usage.
    Unaccounted {
        /// The content; none removes the object.
        status: Option<CardUsageStatus>,
    },
}

/// Returns what is shown of everything that has changed. The progress of workloads is reported separately, some at a time.
pub fn changed(cluster: &Cluster, changes: Changes) -> Vec<Shown> {
    let mut reports = Vec::new();
    for (node, node_uid) in changes.nodes_gone {
        reports.push(Shown::Inventory {
            node,
            node_uid,
            status: None,
            prompt: true,
        });
    }
    // Kubernetes removes the objects that a queue owned; they must not be created again.
    for (queue, queue_uid) in changes.queues_gone {
        reports.push(Shown::Usage {
            queue,
            queue_uid,
            status: None,
        });
    }
    // One node that has a card decides for all other nodes what the card's name means.
    let concerned = changes.cards.iter().flat_map(|card| conflicting_nodes(cluster, *card));
    let nodes: BTreeSet<_> = concerned.chain(changes.nodes.iter().copied()).collect();
    let usage_only = changes
        .node_usage
        .difference(&nodes)
        .map(|node| (*node, false))
        .collect::<Vec<_>>();
    for (id, prompt) in nodes.into_iter().map(|node| (node, true)).chain(usage_only) {
        let node = cluster.node(id);
        let Some(offer) = node.offer() else { continue };
        reports.push(Shown::Inventory {
            node: Arc::clone(&node.name),
            node_uid: offer.uid.clone(),
            status: inventory(cluster, id, node, offer),
            prompt,
        });
    }
    let usage_only: Vec<_> = changes
        .card_usage
        .difference(&changes.cards)
        .map(|card| (*card, false))
        .collect();
    for (card, prompt) in changes.cards.into_iter().map(|card| (card, true)).chain(usage_only) {
        let content = card_type(cluster, card);
        reports.push(Shown::CardType {
            card: cluster.names().card_name(card).into(),
            content,
            prompt,
        });
    }
    let mut queues = changes.queues;
    // A total that did not move matters to no queue until numbers are shown.
    let moved = || changes.total.values().any(|span| span.least < span.most);
    if changes.shows_numbers || moved() {
        let concerned = cluster
            .queues()
            .filter(|(_, queue)| unsatisfiable::says_more(cluster, queue, &changes.total, changes.shows_numbers));
        queues.extend(concerned.map(|(id, _)| id));
    }
    for id in queues {
        let queue = cluster.queue(id);
        if let Some(terms) = queue.terms() {
            reports.push(Shown::Usage {
                queue: Arc::clone(&queue.name),
                queue_uid: terms.uid.clone(),
                status: Some(usage::usage(cluster, id)),
            });
        }
    }
    reports
}

/// Returns a node's inventory; none for a node that has no card, no sign of one and no other GPU.
fn inventory(cluster: &Cluster, id: NodeId, node: &Node, offer: &Offer) -> Option<CardInventoryStatus> {
    let quotas = quotas(cluster, id);
    if !offer.has_signs_of_cards() && quotas.is_none() {
        return None;
    }
    let conflicts = offer.cards.iter().filter_map(|card| conflict(cluster, id, card));
    let problems: Vec<_> = offer.problems.iter().cloned().chain(conflicts).collect();
    let published = offer
        .cards
        .iter()
        .filter(|card| cluster.resource_of(card.card) == Some(card.resource));
    let cards: Vec<_> = published.map(|card| (&card.found, node.use_of(card))).collect();
    let status = CardInventoryStatus {
        gpus: gpus::shared(cluster, id),
        ..status::inventory(&cards, usability(offer), &problems, quotas)
    };
    let outside = cards_outside_cross_quota(cluster, id, offer);
    Some(match outside {
        Some(cards) => status::outside_cross_quota(status, &cards),
        None => status,
    })
}

/// Returns the cards, by resource, of a node that `CrossQuota` takes for a node without GPU: cards of a vendor that its patterns don't name,
/// cards of mGPU, or no cards yet.
fn cards_outside_cross_quota(cluster: &Cluster, id: NodeId, offer: &Offer) -> Option<String> {
    let is_outside = cluster.configuration().cross_quota.is_some()
        && !cluster.gpu_nodes().contains(id)
        && offer.has_signs_of_cards();
    if !is_outside {
        return None;
    }
    let found = offer.cards.iter().map(|card| card.found.resource.as_str());
    // Includes cards that no label names, or that can't be published.
    let settings = &cluster.configuration().cardgate;
    let offered = offer.allocatable.iter().filter(|(_, amount)| *amount > 0);
    let offered = offered.filter_map(|(dimension, _)| Some(cluster.names().resource_name(dimension.resource()?)));
    let known = offered.filter(|resource| settings.is_card_resource(resource));
    let resources: BTreeSet<_> = found.chain(known).collect();
    let named = Vec::from_iter(resources).join(", ");
    Some(if named.is_empty() {
        "no cards yet".to_owned()
    } else {
        named
    })
}

/// Returns the cards of a node that `CrossQuota` takes for a node without GPU; none for other nodes, or where `CrossQuota` is not
/// configured.
pub fn node_outside_cross_quota(cluster: &Cluster, id: NodeId) -> Option<String> {
    cluster.configuration().cross_quota.as_ref()?;
    cards_outside_cross_quota(cluster, id, cluster.node(id).offer()?)
}

/// Returns which resources are cards on nodes that `CrossQuota` takes for nodes without GPU: by resources, how many nodes have them, and the
/// first of these nodes.
pub fn outside_cross_quota(cluster: &Cluster) -> BTreeMap<String, (usize, Arc<str>)> {
    let mut outside = BTreeMap::new();
    // If it is not configured, no nodes are looked at.
    let nodes = cluster.nodes_by_name().iter();
    for id in nodes.filter(|_| cluster.configuration().cross_quota.is_some()) {
        if let Some(cards) = node_outside_cross_quota(cluster, *id) {
            let name = &cluster.node(*id).name;
            outside.entry(cards).or_insert_with(|| (0, Arc::clone(name))).0 += 1;
        }
    }
    outside
}

/// Returns the problem that another node counts a card by another resource, as this node shows it. Of the nodes that agree with each other,
/// the first by name shows it.
fn conflict(cluster: &Cluster, id: NodeId, card: &NodeCard) -> Option<Problem> {
    let conflict = cluster.card(card.card)?.conflict?;
    let decides = conflict.first == id;
    let (node, resource) = if decides {
        (conflict.other, conflict.resource)
    } else {
        let meant = cluster.resource_of(card.card)?;
        (conflict.first, Some(meant).filter(|meant| *meant != card.resource)?)
    };
    Some(Problem::ConflictingResource {
        card: card.found.name.clone(),
        resource: card.found.resource.clone(),
        other_resource: cluster.names().resource_name(resource).to_owned(),
        other_node: cluster.node(node).name.to_string(),
        decides,
    })
}

/// Returns what pods without GPU may hold of a GPU node, and what they hold.
fn quotas(cluster: &Cluster, id: NodeId) -> Option<Quotas> {
    let table = cluster.gpu_nodes();
    let lines = table.lines(id)?.iter().zip(table.sources(id)?).zip(table.resources());
    let resources = lines.map(|((line, source), resource)| {
        let resource = cluster.names().resource_name(*resource);
        let quota = i128::from(line.quota);
        NodeQuota {
            resource: resource.to_owned(),
            quota: format_amount(resource, quota),
            used: format_amount(resource, line.used),
            free: format_amount(resource, (quota - line.used).max(0)),
            source: source.describe(resource),
        }
    });
    let bad = table.bad_annotations(id).iter();
    Some(Quotas {
        resources: resources.collect(),
        problems: bad.map(ToString::to_string).collect(),
    })
}

fn usability(offer: &Offer) -> Usability {
    match (offer.ready, offer.cordoned) {
        (false, _) => Usability::NotReady,
        (true, true) => Usability::Cordoned,
        (true, false) => Usability::Usable,
    }
}

/// Returns the nodes, by name, that count a card by another resource than the node that decides. They are searched for only where there are any.
fn conflicting_nodes(cluster: &Cluster, id: CardId) -> impl Iterator<Item = NodeId> + '_ {
    let meant = cluster.resource_of(id);
    let card = cluster.card(id).filter(|card| card.tallies.len() > 1);
    let nodes = card.into_iter().flat_map(|card| card.nodes.iter().copied());
    nodes.filter(move |node| {
        cluster
            .node(*node)
            .card(id)
            .is_some_and(|card| Some(card.resource) != meant)
    })
}

/// Returns a card type; none once no node has the card, and no device of it is reached by several nodes.
fn card_type(cluster: &Cluster, id: CardId) -> Option<(CardTypeSpec, CardTypeStatus)> {
    let card = cluster.card(id).filter(|card| !card.nodes.is_empty());
    let meaning = card.and_then(|card| Some((card, card.meaning.as_ref()?)));
    let not_counted = i64::try_from(cluster.devices_apart(id)).unwrap_or(i64::MAX);
    let (resource, kind, tally) = if let Some((card, meaning)) = meaning {
        let tally = card.tallies.get(&meaning.resource).copied();
        (cluster.names().resource_name(meaning.resource), meaning.kind, tally)
    } else {
        let card = cluster.device_card(id).filter(|_| not_counted > 0)?;
        (card.resource.as_str(), card.kind, None)
    };
    let tally = tally.unwrap_or_default();
    let counts = CardTypeStatus {
        nodes: tally.nodes,
        total: to_i64(tally.total),
        used: to_i64(tally.used),
        free: to_i64(tally.free),
        unaccounted: to_i64(tally.unaccounted),
        not_counted,
        devices: cluster.devices_of(id),
        provided_as: cluster.provided_as(id),
        ..CardTypeStatus::default()
    };
    let conflicts: Vec<_> = conflicting_nodes(cluster, id)
        .map(|node| cluster.node(node))
        .filter_map(|node| Some((&*node.name, node.card(id)?.found.resource.as_str())))
        .collect();
    let spec = CardTypeSpec {
        card_name: cluster.names().card_name(id).to_owned(),
        resource: resource.to_owned(),
        kind,
    };
    Some((spec, status::card_type(counts, resource, &conflicts)))
}

fn to_i64(total: i128) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
