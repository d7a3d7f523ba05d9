//! Builds the statuses of the objects, purely from data. The reporter sets the transition times of conditions.

#[cfg(test)]
mod tests;

use crds::card_inventory::{CardInventoryStatus, NodeCard, NodeQuota};
use crds::card_type::CardTypeStatus;
use crds::card_usage::{CardUsageStatus, QueueCard};
use crds::format;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::discovery::{Card, Problem, Severity};
use crate::happening::Happening;
use crate::reason::Reason;

/// Condition of inventories: every card that the labels show could be counted.
const CARDS_PUBLISHED: &str = "CardsPublished";
/// Reason and message while that is true.
const ALL_PUBLISHED: (&str, &str) = ("AllPublished", "every card that the node shows could be counted");
/// Condition of inventories: the labels agree with what the node allocates.
const LABELS_CONSISTENT: &str = "LabelsConsistent";
/// Reason and message while that is true.
const NO_DISAGREEMENT: (&str, &str) = ("NoDisagreement", "the labels agree with what the node allocates");
/// Condition of inventories: the node is ready and takes pods.
const NODE_USABLE: &str = "NodeUsable";
/// Condition of inventories: the node's annotations on quotas for pods without GPU can be read.
const CROSS_QUOTA_READABLE: &str = "CrossQuotaReadable";
/// Condition of inventories of nodes with cards: pods without GPU are limited there.
const CROSS_QUOTA_APPLIES: &str = "CrossQuotaApplies";
/// Reason of that condition, and of the event on the configuration.
const NO_GPU_NODE: &str = Happening::NotAGpuNode.as_str();
/// Message while the annotations can be read.
const QUOTAS_READABLE: &str = "the node's annotations on quotas for pods without GPU can be read";
/// Reason where an annotation can't be read, also used for the event.
const INVALID_CROSS_QUOTA: &str = Happening::InvalidCrossQuota.as_str();
/// Condition of card types: all nodes count the card by the same resource.
const CONSISTENT: &str = "Consistent";
/// Condition of card types with devices that several nodes reach: these are in no number.
const COUNTED: &str = "Counted";
/// Reason of that condition.
const SEVERAL_NODES: &str = "SeveralNodesReach";
/// Condition of usages: the queue's spec can be read.
const VALID: &str = "Valid";
/// Condition of usages: the cluster has what the queue's spec says.
const SATISFIABLE: &str = "Satisfiable";
/// Condition of usages of queues that take no pods while pods wait there.
const OPEN: &str = "Open";
/// The most characters of a list of cards in a column of `kubectl get`, so that a line fits 120.
const COLUMN: usize = 40;
/// The most problems, or nodes, that one message lists.
const MOST_LISTED: usize = 10;
/// Shown where there is nothing.
const NONE: &str = "<none>";

/// Whether new pods may come to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usability {
    /// The node's kubelet is ready, and the node is not cordoned.
    Usable,
    /// The node's kubelet does not report that it is ready.
    NotReady,
    /// The node is cordoned.
    Cordoned,
}

/// What pods without GPU may hold of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quotas {
    /// One entry for each resource.
    pub resources: Vec<NodeQuota>,
    /// What is wrong with the node's annotations.
    pub problems: Vec<String>,
}

/// Returns the inventory of a node with these cards, each with the amounts in use and free, and with its quotas for pods without GPU, where
/// it has any.
pub fn inventory(
    cards: &[(&Card, (i128, i128))],
    usability: Usability,
    problems: &[Problem],
    quotas: Option<Quotas>,
) -> CardInventoryStatus {
    let cards: Vec<_> = cards
        .iter()
        .map(|(card, in_use)| node_card(card, *in_use, usability))
        .collect();
    let mut resources: Vec<_> = cards.iter().map(|card| card.resource.as_str()).collect();
    resources.sort_unstable();
    resources.dedup();
    let mut conditions = vec![
        problem_condition(CARDS_PUBLISHED, ALL_PUBLISHED, problems, Severity::Unpublished),
        problem_condition(LABELS_CONSISTENT, NO_DISAGREEMENT, problems, Severity::Note),
        match usability {
            Usability::Usable => condition(NODE_USABLE, true, "Usable", "the node is ready and takes pods"),
            Usability::NotReady => condition(
                NODE_USABLE,
                false,
                "NotReady",
                "the node is not ready, so no pod can get its cards: see kubectl describe node",
            ),
            Usability::Cordoned => condition(
                NODE_USABLE,
                false,
                "Cordoned",
                "the node is cordoned, so no new pod can get its cards: kubectl uncordon makes it usable again",
            ),
        },
    ];
    let mut reasons: Vec<_> = problems.iter().map(Problem::reason).collect();
    reasons.extend(match usability {
        Usability::Usable => None,
        Usability::NotReady => Some("NotReady"),
        Usability::Cordoned => Some("Cordoned"),
    });
    let quotas = quotas.map(|quotas| {
        if quotas.problems.is_empty() {
            conditions.push(condition(CROSS_QUOTA_READABLE, true, "Readable", QUOTAS_READABLE));
        } else {
            let message = list(quotas.problems.into_iter(), "; ");
            conditions.push(condition(CROSS_QUOTA_READABLE, false, INVALID_CROSS_QUOTA, &message));
            reasons.push(INVALID_CROSS_QUOTA);
        }
        quotas.resources
    });
    let quotas = quotas.unwrap_or_default();
    let in_use = quotas
        .iter()
        .map(|quota| format!("{} {}/{}", quota.resource, quota.used, quota.quota));
    CardInventoryStatus {
        cross_quota_summary: in_use.collect::<Vec<_>>().join(", "),
        cross_quota: quotas,
        summary: column(cards.iter().map(|card| format!("{} x{}", card.name, card.total))),
        resources: or_none(resources.join(", ")),
        total: sum(cards.iter().map(|card| card.total)),
        used: sum(cards.iter().map(|card| card.used)),
        free: sum(cards.iter().map(|card| card.free)),
        cards,
        gpus: Vec::new(),
        problems: list_reasons(reasons),
        conditions,
    }
}

/// Adds to an inventory that `CrossQuota` takes this node, which has these cards, for a node without GPU, and limits nothing there.
pub fn outside_cross_quota(status: CardInventoryStatus, cards: &str) -> CardInventoryStatus {
    let message = format!(
        "the node has {cards}, and gpu-resource-names matches none of what it allocates: pods without GPU may take all of it, as of a node \
         without GPU; if its device plugin does not run, or not yet, see to that, and if it does, add a pattern that matches its cards"
    );
    let known = Some(status.problems.as_str()).filter(|known| !known.is_empty());
    let outside = condition(CROSS_QUOTA_APPLIES, false, NO_GPU_NODE, &message);
    CardInventoryStatus {
        problems: list_reasons(known.into_iter().chain([NO_GPU_NODE])),
        conditions: status.conditions.into_iter().chain([outside]).collect(),
        ..status
    }
}

fn node_card(card: &Card, (used, free): (i128, i128), usability: Usability) -> NodeCard {
    let number = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
    NodeCard {
        name: card.name.clone(),
        resource: card.resource.clone(),
        kind: card.kind,
        total: card.count,
        used: number(used),
        free: if usability == Usability::Usable {
            number(free)
        } else {
            0
        },
    }
}

/// Returns the status of a card type with these counts. `conflicts` are the nodes, by name, that count the card by another resource than
/// `resource`.
pub fn card_type(counts: CardTypeStatus, resource: &str, conflicts: &[(&str, &str)]) -> CardTypeStatus {
    let consistent = if conflicts.is_empty() {
        condition(
            CONSISTENT,
            true,
            "OneResource",
            "all nodes count the card by the same resource",
        )
    } else {
        let nodes = conflicts.iter().map(|(node, other)| format!("{node} ({other})"));
        let message = format!(
            "the card is counted by {resource}, as on the first node by name that is sure of it; not counted, since their labels \
             give the same name to another resource: {}. Give the products different names",
            list(nodes, ", ")
        );
        condition(CONSISTENT, false, "ConflictingResource", &message)
    };
    let apart = (counts.not_counted > 0).then(|| {
        let message = format!(
            "{} devices that are this card are published for several nodes (ResourceSlices with allNodes or nodeSelector): they are in no \
             number here, and pods that could be given one, and are not charged for this card, wait; what is allocated of them is charged. Have \
             the driver publish them by nodeName, or let claims select others",
            counts.not_counted
        );
        condition(COUNTED, false, SEVERAL_NODES, &message)
    });
    let reasons = [
        (!conflicts.is_empty()).then_some("ConflictingResource"),
        apart.as_ref().map(|_| SEVERAL_NODES),
    ];
    CardTypeStatus {
        problems: list_reasons(reasons.into_iter().flatten()),
        conditions: [consistent].into_iter().chain(apart).collect(),
        ..counts
    }
}

/// Returns the status of a usage with these figures of its queue. `problem` says why the queue can't be used, and `unsatisfiable` what of
/// its spec can't all be had at the moment, each in one word and in a sentence. `closed` is the queue's state, where it is not open.
pub fn usage(
    figures: CardUsageStatus,
    problem: Option<(&str, &str)>,
    unsatisfiable: Option<(&str, &str)>,
    closed: Option<&str>,
) -> CardUsageStatus {
    let list = |count: fn(&QueueCard) -> i64| {
        let counts = figures.cards.iter().map(|card| (card.name.as_str(), count(card)));
        list_counts(counts.filter(|(_, count)| *count > 0))
    };
    let says = |kind, fine: (&str, &str), wrong: Option<(&str, &str)>| {
        let (reason, message) = wrong.unwrap_or(fine);
        condition(kind, wrong.is_none(), reason, message)
    };
    // The one who closed the queue knows that. It is a problem only while pods wait.
    let shut = closed.filter(|_| figures.waiting > 0).map(|state| {
        let message = format!(
            "the queue is {state}, not Open: what waits in it waits until its status.state is Open again, or names another queue"
        );
        condition(OPEN, false, Reason::QueueNotOpen.as_str(), &message)
    });
    let problems = problem.into_iter().chain(unsatisfiable).map(|(reason, _)| reason);
    let problems = list_reasons(problems.chain(shut.iter().map(|_| Reason::QueueNotOpen.as_str())));
    let is_of_use = |card: &&QueueCard| card.quota.is_some_and(|quota| quota > 0) || card.allocated > 0;
    let of_quota = |card: &QueueCard| {
        let quota = card.quota.map_or_else(|| "-".to_owned(), |quota| quota.to_string());
        format!("{} {}/{quota}", card.name, card.allocated)
    };
    CardUsageStatus {
        summary: column(figures.cards.iter().filter(is_of_use).map(of_quota)),
        quota: list(|card| card.quota.unwrap_or(0)),
        allocated: list(|card| card.allocated),
        requested: list(|card| card.requested),
        problems,
        conditions: [
            says(VALID, ("Readable", "what the queue says can be read"), problem),
            says(
                SATISFIABLE,
                ("Possible", "the cluster has what the queue says"),
                unsatisfiable,
            ),
        ]
        .into_iter()
        .chain(shut)
        .collect(),
        ..figures
    }
}

/// Returns the usage that belongs to no queue: the cards that no queue is charged for, by name, and how many pods ask for devices by
/// resource claims. None where there are neither.
pub fn unaccounted<'a>(
    cards: impl IntoIterator<Item = (&'a str, i64)>,
    pods_with_resource_claims: i64,
) -> Option<CardUsageStatus> {
    let held = cards.into_iter().filter(|(_, count)| *count > 0);
    let cards: Vec<_> = held
        .map(|(name, count)| QueueCard {
            name: name.to_owned(),
            quota: Some(0),
            allocated: count,
            requested: count,
            waiting: 0,
            own: None,
        })
        .collect();
    if cards.is_empty() && pods_with_resource_claims == 0 {
        return None;
    }
    let summary = column(cards.iter().map(|card| format!("{} {}", card.name, card.allocated)));
    let allocated = list_counts(cards.iter().map(|card| (card.name.as_str(), card.allocated)));
    Some(CardUsageStatus {
        summary,
        quota: NONE.to_owned(),
        requested: allocated.clone(),
        allocated,
        pods_with_resource_claims: Some(pods_with_resource_claims),
        cards,
        ..CardUsageStatus::default()
    })
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if holds { "True".to_owned() } else { "False".to_owned() },
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// Returns a condition: True, with `fine`, if no problem has this severity; else False, with the reason of the first such problem.
fn problem_condition(kind: &str, fine: (&str, &str), problems: &[Problem], severity: Severity) -> Condition {
    let problems = || problems.iter().filter(|problem| problem.severity() == severity);
    match problems().next() {
        None => condition(kind, true, fine.0, fine.1),
        Some(first) => condition(
            kind,
            false,
            first.reason(),
            &list(problems().map(ToString::to_string), "; "),
        ),
    }
}

/// Returns a list such as `NVIDIA-A100 x8, NVIDIA-H100 x4`.
fn list_counts<'a>(counts: impl Iterator<Item = (&'a str, i64)>) -> String {
    let counts: Vec<_> = counts.map(|(name, count)| format!("{name} x{count}")).collect();
    or_none(counts.join(", "))
}

/// Returns as many texts as fit into a column of `kubectl get`.
fn column(texts: impl Iterator<Item = String>) -> String {
    or_none(format::column(&texts.collect::<Vec<_>>(), COLUMN))
}

/// Lists each reason once, in the order in which they come.
fn list_reasons<'a>(reasons: impl IntoIterator<Item = &'a str>) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for reason in reasons {
        if !distinct.contains(&reason) {
            distinct.push(reason);
        }
    }
    distinct.join(", ")
}

/// Lists the first few texts, and how many more there are.
fn list(texts: impl Iterator<Item = String>, separator: &str) -> String {
    let mut texts: Vec<_> = texts.collect();
    let more = texts.len().saturating_sub(MOST_LISTED);
    texts.truncate(MOST_LISTED);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts.join(separator)
}

fn or_none(text: String) -> String {
    if text.is_empty() { NONE.to_owned() } else { text }
}

fn sum(counts: impl Iterator<Item = i64>) -> i64 {
    counts.fold(0, i64::saturating_add)
}
