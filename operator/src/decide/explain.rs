//! Why a pod waits, in words and numbers that a user can act on.

mod workload;

use crds::keys::{CARD_NAME, CARD_QUOTA, QUEUE_NAMESPACES};

use super::{cross_quota, fit, mgpu};
use crate::cluster::Cluster;
use crate::cluster::amounts::Dimension;
use crate::cluster::names::{CardId, ResourceId};
use crate::cluster::queue::Queue;
use crate::cluster::waiting::Shape;
use crate::policies::Reason;
use crate::policies::card_quota::Check;
use crate::quantities::{format_bytes, format_cpu};

pub(super) use workload::explain_workload;

/// The message for a refusal, with the numbers of this moment.
pub(super) fn explain(cluster: &Cluster, shape: &Shape, reason: Reason) -> String {
    match shape.group {
        Some(group) if workload::speaks_for_its_pods(cluster, group, reason) => {
            explain_workload(cluster, group, reason)
        }
        _ => explain_pod(cluster, shape, reason),
    }
}

fn explain_pod(cluster: &Cluster, shape: &Shape, reason: Reason) -> String {
    match reason {
        Reason::GetTaskRequestResourceFailed => unreadable(cluster, shape),
        Reason::InsufficientCpuQuota => {
            insufficient(cluster.queue(shape.queue), shape, ResourceId::CPU, "CPU", format_cpu)
        }
        Reason::InsufficientMemoryQuota => insufficient(
            cluster.queue(shape.queue),
            shape,
            ResourceId::MEMORY,
            "memory",
            format_bytes,
        ),
        Reason::InsufficientScalarQuota => insufficient_cards(cluster, cluster.queue(shape.queue), shape),
        Reason::NoNodeFits | Reason::NodesExcluded => no_node(cluster, shape, reason),
        Reason::CrossQuotaExceeded => format!(
            "{}; {}",
            cross_quota::explain(cluster, shape),
            no_node(cluster, shape, Reason::NoNodeFits)
        ),
        Reason::InsufficientMgpu | Reason::NoMgpuNode => no_cards(cluster, shape, reason),
        Reason::PodGroupNotFound | Reason::PodGroupInvalid | Reason::PodGroupIncomplete => shape
            .group
            .map_or_else(String::new, |group| explain_workload(cluster, group, reason)),
        Reason::EmptyQueueCapability
        | Reason::QueueNotFound
        | Reason::QueueNotOpen
        | Reason::QueueInvalid
        | Reason::NamespaceNotAllowed => explain_queue(cluster.queue(shape.queue), &shape.namespace, reason),
    }
}

/// Why a queue takes nothing from a namespace.
fn explain_queue(queue: &Queue, namespace: &str, reason: Reason) -> String {
    let name = &queue.name;
    let terms = queue.terms.as_ref();
    match reason {
        Reason::EmptyQueueCapability => {
            format!("queue {name} has neither spec.capability nor a card quota: set the annotation {CARD_QUOTA} on it")
        }
        Reason::QueueNotFound => format!("queue {name} does not exist: create it, or name another queue"),
        Reason::QueueNotOpen => {
            let state = terms.and_then(|terms| terms.closed.as_deref()).unwrap_or("Open");
            format!("queue {name} is {state}, not Open: it takes no pods until it is opened")
        }
        Reason::NamespaceNotAllowed => format!(
            "queue {name} is not for namespace {namespace}: its annotation {QUEUE_NAMESPACES} selects other namespaces"
        ),
        _ => {
            let problem = terms.and_then(|terms| terms.problem()).unwrap_or("it can't be read");
            format!("queue {name} can't be used until it is mended: {problem}")
        }
    }
}

fn unreadable(cluster: &Cluster, shape: &Shape) -> String {
    if let Some(text) = &shape.task.unreadable {
        return text.to_string();
    }
    let unknown: Vec<_> = names(
        cluster,
        shape
            .task
            .cards
            .iter()
            .copied()
            .filter(|card| cluster.resource_of(*card).is_none()),
    );
    if unknown.len() == shape.task.cards.len() {
        return format!(
            "annotation {CARD_NAME}: no node has {} yet; kubectl get cardtypes lists the cards of the cluster",
            unknown.join(" or ")
        );
    }
    let known = shape
        .task
        .cards
        .iter()
        .find_map(|card| Some((*card, cluster.resource_of(*card)?)));
    known.map_or_else(String::new, |(card, resource)| {
        let resource = cluster.names.resource_name(resource);
        let card = cluster.names.card_name(card);
        format!("annotation {CARD_NAME} names {card}, which is requested as {resource}: no container requests it")
    })
}

fn insufficient(
    queue: &Queue,
    shape: &Shape,
    resource: ResourceId,
    what: &str,
    format: impl Fn(i128) -> String,
) -> String {
    let dimension = Dimension::Resource(resource);
    let quota = queue.quota().map_or(0, |quota| quota.limit(dimension));
    format!(
        "queue {}: {what} asked {}, used {}, quota {}",
        queue.name,
        format(i128::from(shape.task.count(resource))),
        format(queue.allocated.get(dimension)),
        format(i128::from(quota)),
    )
}

fn insufficient_cards(cluster: &Cluster, queue: &Queue, shape: &Shape) -> String {
    let Some(quota) = queue.quota() else {
        return String::new();
    };
    let check = Check {
        arguments: &cluster.configuration().capacity_card,
        quota,
        allocated: &queue.allocated,
        task: &shape.task,
        resource_of: |card| cluster.resource_of(card),
    };
    let cards: Vec<_> = check
        .known_alternatives()
        .map(|(card, asked)| {
            let used = queue.allocated.get(Dimension::Card(card));
            let quota = quota.limit(Dimension::Card(card));
            format!(
                "{} asked {asked}, used {used}, quota {quota}",
                cluster.names.card_name(card)
            )
        })
        .collect();
    format!("queue {}: {}", queue.name, cards.join("; "))
}

fn no_node(cluster: &Cluster, shape: &Shape, reason: Reason) -> String {
    let said = |census: fit::Census, what: &str| {
        let parts = [
            (census.lack_room, "without enough room"),
            (
                census.excluded,
                "excluded by the pod's node selector, affinity or tolerations",
            ),
            (census.unusable, "not ready or cordoned"),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, text)| format!("{count} {text}"))
            .collect();
        let nodes = if census.nodes == 1 { "node" } else { "nodes" };
        format!(
            "{} {nodes}{what}: {}",
            census.nodes,
            if parts.is_empty() {
                "none".to_owned()
            } else {
                parts.join(", ")
            }
        )
    };
    let known: Vec<_> = shape
        .task
        .cards
        .iter()
        .copied()
        .filter(|card| cluster.resource_of(*card).is_some())
        .collect();
    let parts: Vec<_> = if known.is_empty() {
        vec![said(fit::census(cluster, shape, None), "")]
    } else {
        let of = |card| {
            said(
                fit::census(cluster, shape, Some(card)),
                &format!(" with {}", cluster.names.card_name(card)),
            )
        };
        known.into_iter().map(of).collect()
    };
    let lead = if reason == Reason::NodesExcluded {
        "the pod excludes every node that has what it asks for"
    } else {
        "no node can take the pod now"
    };
    format!("{lead}: {}", parts.join("; "))
}

fn no_cards(cluster: &Cluster, shape: &Shape, reason: Reason) -> String {
    let Some(request) = &shape.task.mgpu else {
        return String::new();
    };
    let census = mgpu::census(cluster, shape, request);
    let policy = format!(
        "with another compute policy than {}",
        request.policy.unwrap_or_default()
    );
    let parts = [
        (census.cards_in_use, "whose cards have no room for its containers"),
        (census.lack_room, "without enough room"),
        (census.other_policy, &policy),
        (census.too_few_cards, "with fewer cards than a container asks for"),
        (census.no_device_ids, "without device ids"),
        (
            census.excluded,
            "excluded by the pod's node selector, affinity or tolerations",
        ),
        (census.unusable, "not ready or cordoned"),
    ];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    let lead = if reason == Reason::NoMgpuNode {
        "no mGPU node would take the pod, whatever is free on it"
    } else {
        "no mGPU node can take the pod now"
    };
    let nodes = if census.nodes == 1 { "mGPU node" } else { "mGPU nodes" };
    let parts = if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    };
    format!("{lead}: {} {nodes}: {parts}", census.nodes)
}

fn names(cluster: &Cluster, cards: impl Iterator<Item = CardId>) -> Vec<String> {
    cards.map(|card| cluster.names.card_name(card).to_owned()).collect()
}
