//! Why a pod waits, in words and numbers that a user can act on.

use std::cmp::Reverse;

use crds::bounds::excerpt;
use crds::keys::{CARD_NAME, CARD_QUOTA};
use crds::spelling::meant_card;

use super::cross_quota::over_quota;
use super::found::{Nodes, What};
use super::{nodes, queue, short};
use crate::alternative::{Alternative, MOST_ALTERNATIVES};
use crate::cluster::Cluster;
use crate::cluster::waiting::Shape;
use crate::decide::census::Looks;
use crate::decide::gang::STEPS_OF_QUOTA;
use crate::decide::line::alternatives_of;
use crate::decide::obstacles::of_nodes;
use crate::decide::verdict::{alternatives_with_quota_ever, is_for, why_not_charged};
use crate::decide::{census, cross_quota, fit};
use crate::names::{CardId, ResourceId};
use crate::reason::{About, Reason};
use crate::task::Naming;

/// What a pod is told that excludes all nodes.
pub(super) const ALL_EXCLUDED: &str = "the pod excludes every node that has what it asks for";

/// What a pod is told that no mGPU node would take.
pub(super) const NO_MGPU_NODE: &str = "no mGPU node would take the pod, whatever is free on it";

/// Returns what a pod is told that others hold, by scheduling gates of these names.
pub(super) fn held_elsewhere(gates: &str) -> String {
    format!(
        "the pod is held by others' scheduling gates ({gates}): it holds no quota, and it is not its turn before they are gone"
    )
}

/// Returns why a pod waits, with the numbers of this moment.
pub(super) fn find<'c>(cluster: &'c Cluster, shape: &'c Shape, reason: Reason) -> What<'c> {
    const NOT_NOW: &str = "no node can take the pod now";
    let said = match reason {
        Reason::GetTaskRequestResourceFailed => unreadable(cluster, shape),
        Reason::NoCardQuota => format!(
            "queue {} has a quota for no card that {} stands for (annotation {CARD_QUOTA}); {}",
            cluster.queue(shape.queue).name,
            requested_cards(cluster, shape),
            cards_to_name(cluster, shape, &[])
        ),
        Reason::CardNameMissing => format!(
            "the pod requests {} without saying of which card, and this cluster requires it (unnamedCards: deny); {}",
            requested_cards(cluster, shape),
            cards_to_name(cluster, shape, &[])
        ),
        Reason::SecondCardResource if shape.task.claims_cards() => format!(
            "the pod requests cards by {} beside those that it claims, and only those of one resource can be charged there",
            requested_besides(cluster, shape)
        ),
        Reason::SecondCardResource => format!(
            "the pod requests cards by {}, and only those of one resource can be charged",
            requested_cards(cluster, shape)
        ),
        Reason::ResourceClaimNotFound | Reason::NoDeviceSelected => refused_claim(shape).to_owned(),
        Reason::ResourceClaimShared => {
            let claim = refused_claim(shape);
            let payer = cluster.payer_of(&shape.namespace, claim);
            let payer = payer.map_or_else(|| "another pod".to_owned(), |pod| format!("pod {}", pod.name));
            format!(
                "the pod shares ResourceClaim {claim} with {payer} of its namespace, which is charged for it: that pod is not let in \
                 or has no devices yet, or is in another queue"
            )
        }
        Reason::SelectorsNotEvaluated => {
            "the selectors of the pod's resource claims are not evaluated yet: they are long, or look at what tells single devices \
             apart, and are evaluated some at a time, namespace by namespace"
                .to_owned()
        }
        Reason::NoClaimForCard => format!(
            "annotation {CARD_NAME} names {}, and the pod's resource claims select {}",
            list(cluster, shape.task.claimed.iter().flat_map(|claimed| claimed.named.iter().copied())),
            list(cluster, shape.task.claimed.iter().flat_map(|claimed| claimed.cards())),
        ),
        Reason::TooManyAlternatives => format!(
            "the cards that the requests of the pod's resource claims leave can be combined in more than {MOST_ALTERNATIVES} ways"
        ),
        Reason::RefusedByApiServer => "the API server refuses to let the pod in".to_owned(),
        Reason::ReservationTimeout => {
            "the pod lets others go first for a while: the scheduler could not place earlier ones of its controller, or claimed more for \
             them than they request"
                .to_owned()
        }
        // A pod may wait for what another pod of its gang lacks, while its own queue is not for its namespace. What that queue has is then
        // not told to the pod.
        Reason::InsufficientCpuQuota | Reason::InsufficientMemoryQuota | Reason::InsufficientScalarQuota
            if !is_for(cluster, shape.queue, &shape.namespace) =>
        {
            queue::say(cluster, shape.queue, &shape.namespace, Reason::NamespaceNotAllowed)
        }
        Reason::InsufficientCpuQuota | Reason::InsufficientMemoryQuota | Reason::InsufficientScalarQuota => {
            return What::Quota(short::of_pod(cluster, shape, reason));
        }
        Reason::NoNodeFits => return What::Nodes(nodes::none_takes(cluster, shape, NOT_NOW)),
        Reason::NodesExcluded => return What::Nodes(nodes::none_takes(cluster, shape, ALL_EXCLUDED)),
        Reason::CrossQuotaExceeded => {
            return What::Nodes(Nodes {
                over_quota: over_quota(cluster, shape),
                ..nodes::none_takes(cluster, shape, NOT_NOW)
            });
        }
        Reason::InsufficientMgpu => return nodes::none_has_cards(cluster, shape, "no mGPU node can take the pod now".to_owned()),
        Reason::NoMgpuNode => return nodes::none_has_cards(cluster, shape, NO_MGPU_NODE.to_owned()),
        Reason::TooComplex if shape.task.mgpu.is_none() => TOO_MANY_WAYS.to_owned(),
        Reason::TooComplex => {
            let containers = shape.task.mgpu.as_ref().map_or(0, |request| request.containers.len());
            let lead = format!(
                "too complex: the shares of the pod's {containers} containers can be combined in more ways than are tried, \
                 and none of those fits: split the pod, or wait for cards that are less in use"
            );
            return nodes::none_has_cards(cluster, shape, lead);
        }
        // The pod's group, or whatever holds the pod, says this.
        Reason::HeldByAnotherGate
        | Reason::PodGroupNotFound
        | Reason::PodGroupInvalid
        | Reason::PodGroupIncomplete
        | Reason::InqueueTimeout => String::new(),
        Reason::EmptyQueueCapability
        | Reason::QueueNotFound
        | Reason::QueueNotOpen
        | Reason::QueueInvalid
        | Reason::InnerQueue
        | Reason::NamespaceNotAllowed => queue::say(cluster, shape.queue, &shape.namespace, reason),
    };
    What::Said(said)
}

/// Said of a pod that names cards, or claims them, under `admitOn: quota`.
const TOO_MANY_WAYS: &str = "too complex: the cards that the pod names, or that its resource claims leave, would have to be compared with \
                             more nodes than are looked at in one question: leave fewer of them to choose from, and say less about nodes";

/// Whether a pod could be let in if others held nothing of what the reason is about.
pub(super) fn could_ever_be_let_in(cluster: &Cluster, shape: &Shape, reason: Reason) -> bool {
    match reason.about() {
        // A pod may not learn whether a queue that is not for its namespace could ever have room.
        About::Quota(_) => {
            !is_for(cluster, shape.queue, &shape.namespace)
                || !alternatives_with_quota_ever(cluster, shape).is_empty()
                || [Reason::InsufficientCpuQuota, Reason::InsufficientMemoryQuota].contains(&reason)
                    && is_charged_as_others_pay(cluster, shape)
        }
        About::Nodes => {
            let looks = Looks::of_message();
            let mut alternatives = alternatives_of(shape).into_iter();
            alternatives.any(|alternative| has_node_ever(cluster, shape, alternative, &looks))
        }
        About::Mgpu => of_nodes(cluster, shape).is_none(),
        About::Request | About::Queue | About::Workload => true,
    }
}

/// Whether a pod is charged CPU and memory only because another pod pays for a claim that both share. When that pod ends, this one is
/// charged for the claim, and no longer for CPU and memory (`cardUnlimitedCpuMemory`).
fn is_charged_as_others_pay(cluster: &Cluster, shape: &Shape) -> bool {
    cluster.configuration().capacity_card.card_unlimited_cpu_memory
        && shape.task.claimed.as_ref().is_some_and(|claimed| claimed.shared)
}

/// Whether a pod itself lacks what the reason is about, as things stand.
pub(super) fn lacks(cluster: &Cluster, shape: &Shape, reason: Reason, looks: &Looks) -> bool {
    match reason.about() {
        About::Quota(_) => {
            looks.spend(STEPS_OF_QUOTA * shape.task.alternatives.len().max(1));
            is_for(cluster, shape.queue, &shape.namespace) && !short::without_room(cluster, shape).is_empty()
        }
        About::Nodes => {
            let mut alternatives = alternatives_of(shape).into_iter();
            !alternatives.any(|alternative| census::some_node_takes(cluster, shape, alternative, looks))
        }
        About::Request if !reason.is_of_one_pod() => why_not_charged(cluster, shape) == Some(reason),
        About::Request | About::Queue | About::Workload | About::Mgpu => true,
    }
}

/// Whether some node could take a pod with this alternative if others held nothing of the node. Also true where not all nodes may be asked.
pub(super) fn has_node_ever(
    cluster: &Cluster,
    shape: &Shape,
    alternative: Option<&Alternative>,
    looks: &Looks,
) -> bool {
    let mut nodes = fit::nodes_for(cluster, alternative).iter();
    nodes.any(|node| {
        !looks.may_look(shape)
            || census::could_take(cluster, shape, alternative, *node, looks.searches())
                && cross_quota::is_within(cluster, shape, *node)
    })
}

/// Returns which of a pod's claims can't be charged, and what of it.
fn refused_claim(shape: &Shape) -> &str {
    let claimed = shape.task.claimed.as_ref();
    claimed
        .and_then(|claimed| claimed.refusal_detail.as_deref())
        .unwrap_or_default()
}

/// The most names in a sentence.
const MOST_NAMES: usize = 8;

pub(super) fn list(cluster: &Cluster, cards: impl Iterator<Item = CardId>) -> String {
    let mut seen = Vec::new();
    for card in cards {
        if !seen.contains(&card) && seen.len() < MOST_NAMES {
            seen.push(card);
        }
    }
    names(cluster, seen.into_iter()).join(" or ")
}

fn unreadable(cluster: &Cluster, shape: &Shape) -> String {
    if let Some(text) = &shape.task.unreadable {
        return text.to_string();
    }
    if shape.task.naming == Naming::ByQueue && shape.task.alternatives.is_empty() {
        let unseen = cluster.unseen_cards_of_queue(shape.queue).into_iter();
        return format!(
            "queue {} has a quota for no card that {} stands for on any node, and no node has {}, which it may stand for; {}",
            cluster.queue(shape.queue).name,
            requested_cards(cluster, shape),
            names(cluster, unseen).join(" or "),
            cards_to_name(cluster, shape, &[])
        );
    }
    let unknown: Vec<_> = names(
        cluster,
        shape.task.cards().filter(|card| cluster.resource_of(*card).is_none()),
    );
    if shape
        .task
        .claimed
        .as_ref()
        .is_some_and(|claimed| claimed.is_for_cards())
    {
        return format!(
            "no node that is there has the {} that the pod claims",
            unknown.join(" or ")
        );
    }
    if unknown.len() == shape.task.alternatives.len() {
        // Only the first unknown name: usually a user makes one mistake.
        let cards = cluster.cards_of_nodes();
        let meant = unknown.first().and_then(|name| meant_card(name, cards));
        let meant = meant.map_or_else(String::new, |card| format!("did you mean {card}? "));
        return format!(
            "annotation {CARD_NAME}: no node has {} yet; {meant}{}",
            unknown.join(" or "),
            cards_to_name(cluster, shape, &unknown)
        );
    }
    let known = shape
        .task
        .cards()
        .find_map(|card| Some((card, cluster.resource_of(card)?)));
    known.map_or_else(String::new, |(card, resource)| {
        let resource = cluster.names().resource_name(resource);
        let card = cluster.names().card_name(card);
        format!(
            "annotation {CARD_NAME} names {card}, which is requested as {resource}: no container has it in \
             resources.limits"
        )
    })
}

/// Returns the resources by which a pod requests cards.
fn requested_cards(cluster: &Cluster, shape: &Shape) -> String {
    listed(cluster, cluster.card_resources_of(&shape.task.request))
}

/// Returns the resources by which a pod that claims cards requests further cards.
fn requested_besides(cluster: &Cluster, shape: &Shape) -> String {
    let claimed = shape.task.claimed.iter();
    listed(
        cluster,
        claimed.flat_map(|claimed| cluster.card_resources_of(&claimed.others)),
    )
}

/// Returns names of resources, each cut to a length that may be repeated: a pod that is only asked about may use any name.
fn listed(cluster: &Cluster, resources: impl IntoIterator<Item = ResourceId>) -> String {
    let names = resources.into_iter();
    let names: Vec<_> = names
        .map(|resource| excerpt(cluster.names().resource_name(resource)))
        .collect();
    names.join(" and ")
}

/// Returns which cards the pod could name instead of a name that may be mistyped, judged by what the pod requests.
pub(super) fn cards_to_name(cluster: &Cluster, shape: &Shape, unknown: &[String]) -> String {
    const MOST: usize = 5;
    let mut cards = cluster.cards_counted_by(|resource| shape.task.count(resource) > 0);
    if cards.is_empty() {
        return "the pod requests no resource by which the cluster has cards".to_owned();
    }
    // Cards whose names begin most alike come first.
    let alike = |card: &str, name: &String| {
        let pairs = card.chars().zip(name.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    cards.sort_by_key(|card| Reverse(unknown.iter().map(|name| alike(card, name)).max()));
    let more = if cards.len() > MOST { ", ..." } else { "" };
    cards.truncate(MOST);
    let cards = cards.join(", ");
    format!("for what the pod requests the cluster has {cards}{more}")
}

/// Returns the cards that the pod's card name lists, or would list, without spaces. Cards that are claimed together have a plus between
/// them.
pub(super) fn alternatives(cluster: &Cluster, shape: &Shape) -> Option<String> {
    let mut cards = Vec::new();
    for alternative in &*shape.task.alternatives {
        let joined = alternative.joined(cluster.names(), "+");
        if !cards.contains(&joined) {
            cards.push(joined);
        }
    }
    (!cards.is_empty()).then(|| cards.join("|"))
}

pub(super) fn names(cluster: &Cluster, cards: impl Iterator<Item = CardId>) -> Vec<String> {
    cards.map(|card| cluster.names().card_name(card).to_owned()).collect()
}
