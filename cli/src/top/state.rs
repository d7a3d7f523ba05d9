//! The state of cards, queues and nodes at a moment, as far as the user may see it.

use std::collections::{BTreeMap, BTreeSet};

use crds::card_inventory::CardInventory;
use crds::card_type::{CardKind, CardType};
use crds::card_usage::{CardUsage, OwnCards};
use crds::queue_terms::{Item, Limits, QueueTerms};
use crds::volcano;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::failure::Failure;

/// The condition of nodes that take pods.
const USABLE: &str = "NodeUsable";

/// One card of the cluster.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CardRow {
    pub card: String,
    pub kind: CardKind,
    pub total: i64,
    /// What pods hold that a queue is charged for.
    pub charged: i64,
    /// What pods hold that no queue is charged for.
    pub unaccounted: i64,
    pub free: i64,
    /// What no pod holds, on nodes that take no pods.
    pub unusable: i64,
}

/// One card of a queue.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRow {
    pub queue: String,
    pub card: String,
    /// What is kept free for the queue.
    pub guaranteed: i64,
    /// What the queue should have while others want it too; its quota where it says nothing. `None` if it names the card in
    /// neither: under the plugin `capacity` only the cluster limits such a card, and the queue deserves what it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<i64>,
    /// `None` if the queue does not name the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    /// What the queue's pods and those of queues below it hold. `None` if the user may not see it, as for the following
    /// fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,
    /// How much of that is beyond what the queue deserves, so that others may take it back. `None` if what it deserves has
    /// no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<i64>,
    /// What waits in the queue and in queues below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i64>,
    /// The queue's own part of both, without queues below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnCards>,
}

/// One card of a node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub node: String,
    pub card: String,
    pub total: i64,
    pub used: i64,
    pub free: i64,
    /// Whether the node takes pods.
    pub usable: bool,
}

/// The whole state.
#[derive(Debug, Serialize)]
pub struct State {
    pub cards: Vec<CardRow>,
    pub queues: Vec<QueueRow>,
    /// `None` if the user may not see it, or if it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeRow>>,
    /// What the user may not see, in words.
    pub unseen: Vec<String>,
}

impl State {
    /// Reads the whole state.
    pub async fn read(cluster: &Cluster) -> Result<Self, Failure> {
        let mut state = Self::without_nodes(cluster).await?;
        let inventories = if_seen(cluster.inventories().await, "nodes", &mut state.unseen)?;
        state.nodes = inventories.map(|nodes| nodes.iter().flat_map(node).collect());
        Ok(state)
    }

    /// Reads only cards and queues, since there may be thousands of nodes.
    pub async fn without_nodes(cluster: &Cluster) -> Result<Self, Failure> {
        let mut unseen = Vec::new();
        let types = cluster.card_types().await?;
        let queues = cluster.queues().await?;
        let usages = if_seen(cluster.usages_of_queues().await, "what queues use", &mut unseen)?;
        Ok(Self {
            cards: types.iter().map(card).collect(),
            queues: rows(&queues, usages.as_deref()),
            nodes: None,
            unseen,
        })
    }
}

/// Returns what was listed; `None` if the user may not list it.
fn if_seen<T>(
    listed: Result<Vec<T>, Failure>,
    what: &str,
    unseen: &mut Vec<String>,
) -> Result<Option<Vec<T>>, Failure> {
    match listed {
        Ok(listed) => Ok(Some(listed)),
        Err(failure @ Failure::Forbidden { .. }) => {
            unseen.push(format!("{what}: {failure}"));
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn card(card: &CardType) -> CardRow {
    let status = card.status.clone().unwrap_or_default();
    CardRow {
        card: card.spec.card_name.clone(),
        kind: card.spec.kind,
        total: status.total,
        charged: (status.used - status.unaccounted).max(0),
        unaccounted: status.unaccounted,
        free: status.free,
        unusable: (status.total - status.used - status.free).max(0),
    }
}

/// Returns what each queue may have and has, card by card, by the queue's name.
fn rows(queues: &[volcano::Queue], usages: Option<&[CardUsage]>) -> Vec<QueueRow> {
    let mut rows = Vec::new();
    let by_name: BTreeMap<_, _> = queues.iter().map(|queue| (queue.name_any(), queue)).collect();
    for (name, queue) in by_name {
        let terms = QueueTerms::read(&queue.spec, |key| queue.annotations().get(key).map(String::as_str));
        let usage = usages.map(|usages| {
            let usage = usages.iter().find(|usage| usage.spec.queue == name);
            usage.and_then(|usage| usage.status.clone()).unwrap_or_default().cards
        });
        let limits = [&terms.capability, &terms.deserved, &terms.guarantee];
        let named = limits
            .into_iter()
            .flat_map(|limits| limits.keys())
            .filter_map(|item| match item {
                Item::Card(card) => Some(card.to_string()),
                Item::Resource(_) => None,
            });
        let used = usage.iter().flatten().map(|card| card.name.clone());
        for card in named.chain(used).collect::<BTreeSet<_>>() {
            let of = |limits: &Limits| limits.get(&Item::Card(card.as_str().into())).copied();
            let quota = of(&terms.capability);
            let guaranteed = of(&terms.guarantee).unwrap_or(0);
            // What a queue deserves is at least what is kept free for it, and at most what it may have (docs/rules.md,
            // **Queues**).
            let deserved = of(&terms.deserved).or(quota);
            let deserved = deserved.map(|deserved| deserved.max(guaranteed).min(quota.unwrap_or(i64::MAX)));
            let of_usage = usage.as_ref().map(|cards| {
                let card = cards.iter().find(|found| found.name == card);
                card.map_or((0, 0, OwnCards::default()), |card| {
                    (card.allocated, card.waiting, card.own())
                })
            });
            rows.push(QueueRow {
                queue: name.clone(),
                guaranteed,
                deserved,
                quota,
                used: of_usage.map(|(used, ..)| used),
                borrowed: of_usage
                    .zip(deserved)
                    .map(|((used, ..), deserved)| (used - deserved).max(0)),
                waiting: of_usage.map(|(_, waiting, _)| waiting),
                own: of_usage.map(|(.., own)| own),
                card,
            });
        }
    }
    rows
}

fn node(inventory: &CardInventory) -> Vec<NodeRow> {
    let status = inventory.status.clone().unwrap_or_default();
    let is_unusable = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        condition.type_ == USABLE && condition.status == "False"
    };
    let usable = !status.conditions.iter().any(is_unusable);
    let cards = status.cards.into_iter().map(|card| NodeRow {
        node: inventory.spec.node_name.clone(),
        card: card.name,
        total: card.total,
        used: card.used,
        free: card.free,
        usable,
    });
    cards.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_nobody_holds_is_free_or_on_a_node_that_takes_no_pods() {
        let object = json!({
            "metadata": { "name": "a" }, "spec": { "cardName": "A100", "resource": "nvidia.com/gpu", "kind": "Whole" },
            "status": { "total": 16, "used": 6, "free": 3, "unaccounted": 2 },
        });
        let card = card(&read(object));
        assert_eq!((card.charged, card.unaccounted, card.free, card.unusable), (4, 2, 3, 7));
        assert_eq!(card.charged + card.unaccounted + card.free + card.unusable, card.total);
    }

    #[test]
    fn a_queue_borrows_what_it_has_beyond_what_it_deserves() {
        let queue: volcano::Queue = read(json!({
            "metadata": { "name": "a", "annotations": {
                "volcano.sh/card.quota": r#"{"A100": 8, "H100": 2}"#, "volcano.sh/card.deserved": r#"{"A100": 4}"#,
                "volcano.sh/card.guarantee": r#"{"A100": 1}"#,
            } },
            "spec": {},
        }));
        let usage: CardUsage = read(json!({
            "metadata": { "name": "a" }, "spec": { "queue": "a" },
            "status": { "cards": [
                { "name": "A100", "quota": 8, "allocated": 7, "requested": 9, "waiting": 2 },
                { "name": "T4", "quota": 0, "allocated": 1, "requested": 1, "waiting": 0 },
            ] },
        }));
        let rows = rows(std::slice::from_ref(&queue), Some(&[usage]));
        // Under the plugin `capacity`, only the cluster limits a card that the queue does not name, and the queue deserves
        // what it asks for.
        let unnamed = rows.iter().position(|row| row.card == "T4").unwrap();
        assert_eq!(
            serde_json::to_value(&rows[unnamed]).unwrap(),
            json!({
                "queue": "a", "card": "T4", "guaranteed": 0, "used": 1, "waiting": 0,
                "own": { "allocated": 1, "waiting": 0 },
            })
        );
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    &*row.card,
                    row.guaranteed,
                    row.deserved,
                    row.quota,
                    row.used,
                    row.borrowed,
                    row.waiting,
                )
            })
            .collect();
        let expected = [
            ("A100", 1, Some(4), Some(8), Some(7), Some(3), Some(2)),
            ("H100", 0, Some(2), Some(2), Some(0), Some(0), Some(0)),
            ("T4", 0, None, None, Some(1), None, Some(0)),
        ];
        assert_eq!(told, expected);
        let unseen = super::rows(&[queue], None);
        assert_eq!((unseen.len(), unseen[0].used, unseen[0].quota), (2, None, Some(8)));
    }

    #[test]
    fn a_node_that_takes_no_pods_says_so() {
        let inventory = |status: &str| {
            read(json!({
                "metadata": { "name": "n" }, "spec": { "nodeName": "n" },
                "status": {
                    "cards": [{ "name": "A100", "resource": "r", "kind": "Whole", "total": 4, "used": 1, "free": 0 }],
                    "conditions": [{
                        "type": USABLE, "status": status, "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }],
                },
            }))
        };
        assert_eq!(
            (node(&inventory("True"))[0].usable, node(&inventory("False"))[0].usable),
            (true, false)
        );
    }
}
