//! `CardType`: one card name found in the cluster.

#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type and a path of its own"
)]

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of card a name stands for (Capacity Card, **Card Type Name and Quantity Generation Rules**).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CardKind {
    /// A whole card.
    Whole,
    /// A share of a card by NVIDIA's Multi-Process Service.
    #[serde(rename = "MPS")]
    Mps,
    /// A slice of a card by NVIDIA's Multi-Instance GPU.
    #[serde(rename = "MIG")]
    Mig,
    /// A card shared through mGPU.
    #[serde(rename = "MGPU")]
    Mgpu,
}

impl CardKind {
    /// The part of a card that the number counts, for people; `None` if each counts as one of what its name says.
    pub const fn part(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::Mps | Self::Mig => None,
            Self::Mgpu => Some("hundredths of a card"),
        }
    }

    /// Formats a number of cards, with the part that it counts.
    pub fn count(self, number: i64) -> String {
        self.part()
            .map_or_else(|| number.to_string(), |part| format!("{number} {part}"))
    }
}

impl fmt::Display for CardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "Whole",
            Self::Mps => "MPS",
            Self::Mig => "MIG",
            Self::Mgpu => "MGPU",
        })
    }
}

/// One card name found in the cluster. Written by the operator alone.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "card.volcano.sh",
    version = "v1alpha1",
    kind = "CardType",
    plural = "cardtypes",
    category = "cards",
    status = "CardTypeStatus",
    derive = "PartialEq",
    doc = "A card name found in the cluster: the name to write in volcano.sh/card.name and volcano.sh/card.quota.",
    printcolumn(name = "Card", type_ = "string", json_path = ".spec.cardName"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.total"),
    printcolumn(name = "In use", type_ = "integer", json_path = ".status.used"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.free"),
    printcolumn(name = "Resource", type_ = "string", json_path = ".spec.resource", priority = 1),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes", priority = 1),
    printcolumn(
        name = "Unaccounted",
        type_ = "integer",
        json_path = ".status.unaccounted",
        priority = 1
    ),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind", priority = 1),
    printcolumn(name = "Problems", type_ = "string", json_path = ".status.problems", priority = 1),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CardTypeSpec {
    /// The card name, as pods and quotas write it.
    pub card_name: String,
    /// The Kubernetes resource that pods request for it.
    pub resource: String,
    /// What kind of card it is.
    pub kind: CardKind,
}

/// How many of the card there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardTypeStatus {
    /// How many nodes have it.
    #[serde(default)]
    pub nodes: i64,
    /// How many there are on all nodes.
    #[serde(default)]
    pub total: i64,
    /// How many of them pods hold.
    #[serde(default)]
    pub used: i64,
    /// How many new pods could get, on nodes that are usable.
    #[serde(default)]
    pub free: i64,
    /// How many pods hold for which no queue is charged: pods that name neither a queue nor a card nor a `PodGroup` in namespaces
    /// that name no queue, those that a node runs by itself, and those of kube-system.
    #[serde(default)]
    pub unaccounted: i64,
    /// How many devices that are this card drivers publish for several nodes: they are in none of these numbers.
    #[serde(default)]
    pub not_counted: i64,
    /// What devices that are this card say of themselves, where drivers publish them: what claims can select them by. Where they
    /// differ, one of each kind, up to eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<CardDevice>,
    /// Resources by which classes of devices provide the card: pods request them without a claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provided_as: Vec<String>,
    /// Reasons of the conditions that are false, in one line; empty when all is well.
    #[serde(default)]
    pub problems: String,
    /// `Consistent`: all nodes map the card name to the same resource. Where False, the message names the nodes. `Counted`, where False:
    /// drivers publish devices that are this card for several nodes, so that no number has them.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// So many kinds of devices are shown of one card.
pub const MOST_DEVICES: usize = 8;

/// What devices of one kind say of themselves, apart from what tells one from the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardDevice {
    /// Whose devices these are: `device.driver` of selectors.
    pub driver: String,
    /// Attributes, by domain and name: `device.attributes` of selectors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, CardDeviceAttribute>,
    /// Quantities, by domain and name: `device.capacity` of selectors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
}

/// The value of an attribute: one of these, as drivers publish it; none of them where it is a list, of which only that it is there is
/// shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardDeviceAttribute {
    /// A truth value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,
    /// A whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int: Option<i64>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A semantic version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
