//! What there is to see of the cluster: reports on nodes, cards and queues whose figures have changed.

mod figures;
mod gpus;
pub mod status;
mod unaccounted;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crds::card_inventory::{CardInventoryStatus, NodeQuota};
use crds::card_type::{CardTypeSpec, CardTypeStatus};
use crds::card_usage::{CardUsageStatus, QueueCard, WaitingWorkload};
use crds::configuration::QueuePlugin;
use crds::format::format_amount;

use crate::amounts::Dimension;
use crate::cluster::node::{Node, NodeCard, Offer};
use crate::cluster::queue::Queue;
use crate::cluster::{Changes, Cluster};
use crate::decide::missing;
use crate::discovery::Problem;
use crate::ids::{NodeId, QueueId};
use crate::names::{CardId, ResourceId};
use crate::reason::Reason;
pub use figures::{CardFigures, GpuFigures, QueueFigures, ResourceFigures, StandingFigures};
pub use gpus::{first_fit, gpu_figures};
use status::{Quotas, Usability};
pub use unaccounted::Unaccounted;

/// What there is to see of one thing, complete: it replaces whatever was shown of it before.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// The cards of one node.
    Inventory {
        /// Name of the node, and of the inventory.
        node: Arc<str>,
        /// Its unique id: the node owns the inventory.
        node_uid: Box<str>,
        /// What it has; none removes the inventory.
        status: Option<CardInventoryStatus>,
        /// Whether anything but the use of its cards has changed: then it is written at once.
        prompt: bool,
    },
    /// One card name.
    CardType {
        /// The card name.
        card: Arc<str>,
        /// What it stands for and how many there are; none removes it.
        content: Option<(CardTypeSpec, CardTypeStatus)>,
        /// Whether anything but the use of the cards has changed: then it is written at once.
        prompt: bool,
    },
    /// What one queue has.
    Usage {
        /// Name of the queue, and of the usage.
        queue: Arc<str>,
        /// Its unique id: the queue owns the usage.
        queue_uid: Box<str>,
        /// What it has; none removes the usage.
        status: Option<CardUsageStatus>,
    },
    /// What no queue is charged for. While a queue has the name of the object, the object is the queue's.
    Unaccounted {
        /// What that is; none removes the object.
        status: Option<CardUsageStatus>,
    },
}

/// How many of a queue's waiting pods its usage shows.
const FIRST_WAITING: usize = 5;

/// What there is to see of everything that has changed; how far workloads are is told apart from this, some at a time.
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
    // A node that names a card first decides for all others what the card means.
    let concerned = changes.cards.iter().flat_map(|card| conflicting_nodes(cluster, *card));
    let nodes: BTreeSet<_> = concerned.chain(changes.nodes.iter().copied()).collect();
    let usage_only = changes
        .node_usage
        .difference(&nodes)
        .map(|node| (*node, false))
        .collect::<Vec<_>>();
    for (id, prompt) in nodes.into_iter().map(|node| (node, true)).chain(usage_only) {
        let node = cluster.node(id);
        let Some(offer) = &node.offer else { continue };
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
    if changes.total {
        let plugin = cluster.configuration().queue_plugin;
        let concerned = cluster.queues().filter(|(_, queue)| queue.compares_with_total(plugin));
        queues.extend(concerned.map(|(id, _)| id));
    }
    for id in queues {
        let queue = cluster.queue(id);
        if let Some(terms) = &queue.terms {
            reports.push(Shown::Usage {
                queue: Arc::clone(&queue.name),
                queue_uid: terms.uid.clone(),
                status: Some(usage(cluster, id)),
            });
        }
    }
    reports
}

/// What a node's inventory says; none for a node that has no card, no sign of one and no other GPU.
fn inventory(cluster: &Cluster, id: NodeId, node: &Node, offer: &Offer) -> Option<CardInventoryStatus> {
    let quotas = quotas(cluster, id);
    if offer.cards.is_empty() && offer.problems.is_empty() && offer.mgpu.is_none() && quotas.is_none() {
        return None;
    }
    let conflicts = offer.cards.iter().filter_map(|card| conflict(cluster, id, card));
    let problems: Vec<_> = offer.problems.iter().cloned().chain(conflicts).collect();
    let published = offer
        .cards
        .iter()
        .filter(|card| cluster.resource_of(card.card) == Some(card.resource));
    let cards: Vec<_> = published
        .map(|card| (&card.found, node.used_of(card.resource)))
        .collect();
    Some(CardInventoryStatus {
        gpus: gpus::shared(cluster, id),
        ..status::inventory(&cards, usability(offer), &problems, quotas)
    })
}

/// The node that counts a card by another resource than this one, as this one shows it: of the nodes that agree, the first by
/// name does.
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

/// What pods without GPU may hold of a GPU node, and do.
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

/// The nodes that count a card by another resource than the first, by name. They are searched for only where there are
/// any.
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

/// What a card type says; none once no node has the card.
fn card_type(cluster: &Cluster, id: CardId) -> Option<(CardTypeSpec, CardTypeStatus)> {
    let card = cluster.card(id).filter(|card| !card.nodes.is_empty())?;
    let (resource, kind) = card.meaning.as_ref().map(|meaning| (meaning.resource, meaning.kind))?;
    let tally = card.tallies.get(&resource).copied().unwrap_or_default();
    let counts = CardTypeStatus {
        nodes: tally.nodes,
        total: to_i64(tally.total),
        used: to_i64(tally.used),
        free: to_i64(tally.free),
        unaccounted: to_i64(tally.unaccounted),
        ..CardTypeStatus::default()
    };
    let conflicts: Vec<_> = conflicting_nodes(cluster, id)
        .map(|node| cluster.node(node))
        .filter_map(|node| Some((&*node.name, node.card(id)?.found.resource.as_str())))
        .collect();
    let resource = cluster.names().resource_name(resource);
    let spec = CardTypeSpec {
        card_name: cluster.names().card_name(id).to_owned(),
        resource: resource.to_owned(),
        kind,
    };
    Some((spec, status::card_type(&counts, resource, &conflicts)))
}

/// What a queue's usage says.
fn usage(cluster: &Cluster, id: QueueId) -> CardUsageStatus {
    let queue = cluster.queue(id);
    let quota = |dimension| queue.quota().map_or(0, |quota| quota.limit(dimension));
    let against = |resource| {
        let dimension = Dimension::Resource(resource);
        let format = |amount| dimension.format(amount);
        let limit = match queue.quota() {
            Some(_) => cluster.capability(id, dimension),
            None => Some(0),
        };
        format!(
            "{} / {}",
            format(queue.allocated_in_all(dimension)),
            limit.map_or_else(|| "unlimited".to_owned(), format)
        )
    };
    let cards = cards_of(cluster, queue).into_iter().map(|(name, card)| {
        let dimension = Dimension::Card(card);
        let (allocated, requested) = (queue.allocated_in_all(dimension), queue.request_in_all(dimension));
        QueueCard {
            name: name.to_owned(),
            quota: quota(dimension),
            allocated: to_i64(allocated),
            requested: to_i64(requested),
            waiting: to_i64(requested - allocated),
        }
    });
    let figures = CardUsageStatus {
        cards: cards.collect(),
        cpu: against(ResourceId::CPU),
        memory: against(ResourceId::MEMORY),
        admitted_pods: i64::try_from(queue.holders.len()).unwrap_or(i64::MAX),
        waiting_pods: i64::try_from(queue.waiting.len()).unwrap_or(i64::MAX),
        share: cluster.share(id).to_string(),
        first_waiting: first_waiting(cluster, id),
        ..CardUsageStatus::default()
    };
    let problem = queue.problem().map(|problem| (Reason::QueueInvalid.as_str(), problem));
    let unsatisfiable = unsatisfiable(cluster, id);
    let unsatisfiable = unsatisfiable.as_ref().map(|(reason, text)| (*reason, text.as_str()));
    status::usage(figures, problem, unsatisfiable)
}

/// The pods of a queue that are next, and what they wait for.
fn first_waiting(cluster: &Cluster, id: QueueId) -> Vec<WaitingWorkload> {
    let all = cluster.queue(id).waiting.peers();
    let mut first: Vec<_> = all
        .flat_map(|(_, peers)| {
            let priority = Reverse(peers.shape.priority);
            let places = peers.pods.iter().take(FIRST_WAITING);
            places.map(move |place| (priority, *place, peers))
        })
        .collect();
    first.sort_unstable_by_key(|(priority, place, _)| (*priority, *place));
    first.truncate(FIRST_WAITING);
    let described = first.into_iter().enumerate().filter_map(|(index, (_, place, peers))| {
        let pod = cluster.pod(place.pod)?;
        let refused = peers.refused.map(|refused| refused.reason);
        Some(WaitingWorkload {
            position: i64::try_from(index).unwrap_or(i64::MAX) + 1,
            name: format!("{}/{}", pod.namespace, pod.name),
            reason: refused.map_or_else(String::new, |reason| reason.as_str().to_owned()),
            missing: refused.map_or_else(String::new, |reason| missing(cluster, &peers.shape, reason)),
        })
    });
    described.collect()
}

/// What a queue says that can't all be had, whoever asks for it: in one word and in a sentence.
fn unsatisfiable(cluster: &Cluster, id: QueueId) -> Option<(&'static str, String)> {
    let queue = cluster.queue(id);
    let quota = queue
        .quota()
        .filter(|_| cluster.configuration().queue_plugin != QueuePlugin::Off)?;
    let name = |dimension: Dimension| dimension.name(cluster.names());
    let total = |dimension| cluster.top().total.get(dimension);
    let is_above = |(dimension, said): &(Dimension, i64)| i128::from(*said) > total(*dimension);
    // Under `capacity-card` a quota may be there before its cards.
    let counts = cluster.configuration().queue_plugin == QueuePlugin::Capacity;
    let capability = quota.capability.iter().filter(|_| counts).find(is_above);
    if let Some((dimension, said)) = capability {
        let (said, has) = (dimension.format(said.into()), dimension.format(total(dimension)));
        let text = format!(
            "the queue may have {said} {}, and the cluster has {has} at the moment",
            name(dimension)
        );
        return Some(("CapabilityAboveCluster", text));
    }
    let guaranteed = |dimension| cluster.top().below.guaranteed.get(dimension);
    let mut promises = quota.guarantee.iter().map(|(dimension, _)| dimension);
    if let Some(dimension) = promises.find(|dimension| guaranteed(*dimension) > total(*dimension)) {
        let (sum, has) = (
            dimension.format(guaranteed(dimension)),
            dimension.format(total(dimension)),
        );
        let text = format!(
            "all queues together are guaranteed {sum} {}, and the cluster has {has} at the moment",
            name(dimension)
        );
        return Some(("GuaranteesAboveCluster", text));
    }
    let deserved = |dimension| cluster.top().below.deserved.get(dimension);
    let mut claims = quota.deserved.iter().map(|(dimension, _)| dimension);
    let dimension = claims.find(|dimension| deserved(*dimension) > total(*dimension))?;
    let (sum, has) = (
        dimension.format(deserved(dimension)),
        dimension.format(total(dimension)),
    );
    let text = format!(
        "all queues together deserve {sum} {}, and the cluster has {has} at the moment: not all can have it at once",
        name(dimension)
    );
    Some(("DeservedAboveCluster", text))
}

/// The cards that a queue, with all that is below it, may have, has or waits for, by name.
fn cards_of<'a>(cluster: &'a Cluster, queue: &Queue) -> BTreeSet<(&'a str, CardId)> {
    let quota = queue.quota().into_iter().flat_map(|quota| quota.cards.iter().copied());
    let below = &queue.below;
    let sums = [
        &queue.allocated,
        &below.allocated,
        queue.waiting.requested(),
        &below.requested,
    ];
    // Of what pods wait for, only cards that some node has, or had: a tenant can make up any number of names.
    let known = sums
        .into_iter()
        .flat_map(|sums| sums.iter().filter_map(|(dimension, _)| dimension.card()))
        .filter(|card| cluster.resource_of(*card).is_some());
    quota
        .chain(known)
        .map(|card| (cluster.names().card_name(card), card))
        .collect()
}

/// The figures of every queue that is there, for the metrics; and of the pods that wait in no queue, for `CrossQuota` alone.
pub fn figures(cluster: &Cluster) -> Vec<QueueFigures> {
    let there = cluster.queues().filter(|(_, queue)| {
        if queue.is_nameless() {
            !queue.waiting.is_empty()
        } else {
            queue.terms.is_some() || !queue.holders.is_empty()
        }
    });
    there.map(|(id, queue)| queue_figures(cluster, id, queue)).collect()
}

fn queue_figures(cluster: &Cluster, id: QueueId, queue: &Queue) -> QueueFigures {
    let quota = |dimension| queue.quota().map_or(0, |quota| quota.limit(dimension));
    let is_shown = cluster.configuration().capacity.metrics_enabled && !queue.is_nameless();
    let cards = cards_of(cluster, queue).into_iter().filter(|_| is_shown);
    let cards = cards.map(|(name, card)| {
        let dimension = Dimension::Card(card);
        CardFigures {
            card: name.into(),
            deserved: to_i64(cluster.deserved(id, dimension)),
            allocated: to_i64(queue.allocated_in_all(dimension)),
            request: to_i64(queue.request_in_all(dimension)),
            capacity: quota(dimension),
        }
    });
    let mut waiting = std::collections::BTreeMap::<Reason, usize>::new();
    for (reason, pods) in crate::decide::refusals(cluster, id) {
        *waiting.entry(reason).or_default() += pods;
    }
    QueueFigures {
        queue: Arc::clone(&queue.name),
        cards: cards.collect(),
        waiting: waiting.into_iter().collect(),
        standing: is_shown.then(|| standing(cluster, id, queue)),
    }
}

/// How a queue stands to what it deserves, resource by resource.
fn standing(cluster: &Cluster, id: QueueId, queue: &Queue) -> StandingFigures {
    let named = queue.quota().into_iter().flat_map(|quota| {
        let bounds = quota.capability.iter().chain(quota.deserved.iter());
        bounds.chain(quota.guarantee.iter()).map(|(dimension, _)| dimension)
    });
    let requested = [queue.waiting.requested(), &queue.below.requested];
    let used = [&queue.allocated, &queue.below.allocated].into_iter().chain(requested);
    let used = used
        .into_iter()
        .flat_map(|totals| totals.iter().map(|(dimension, _)| dimension));
    let reserved = [&queue.inqueue, &queue.below.inqueue];
    let reserved_of = |dimension| reserved.iter().map(|inqueue| inqueue.resource(dimension)).sum();
    let kept = reserved.iter().flat_map(|inqueue| inqueue.resources());
    // Of what pods and groups ask for, only resources that the cluster has: a tenant can make up any number of names.
    let asked = used.chain(kept).filter(|dimension| cluster.has(*dimension));
    let all: BTreeSet<_> = named.chain(asked).collect();
    let resources = all
        .iter()
        .filter_map(|dimension| Some((*dimension, cluster.names().resource_name(dimension.resource()?))));
    let resources = resources.map(|(dimension, name)| {
        let allocated = queue.allocated_in_all(dimension);
        let capability = queue.quota().and_then(|quota| quota.capability.get(dimension));
        ResourceFigures {
            resource: name.into(),
            deserved: to_i64(cluster.deserved(id, dimension)),
            allocated: to_i64(allocated),
            request: to_i64(queue.request_in_all(dimension)),
            inqueue: to_i64(reserved_of(dimension)),
            capacity: capability,
            real_capacity: cluster.real_capability(id, dimension).map(to_i64),
        }
    });
    let is_over = |dimension: &Dimension| {
        cluster.compares(queue, *dimension) && queue.allocated_in_all(*dimension) > cluster.deserved(id, *dimension)
    };
    StandingFigures {
        resources: resources.collect(),
        share: cluster.share(id).to_f64(),
        overused: all.iter().any(is_over),
    }
}

fn to_i64(total: i128) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
