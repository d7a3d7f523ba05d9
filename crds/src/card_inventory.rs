//! `CardInventory`: the cards of one node, as Cardgate sees them.

#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type and a path of its own"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::card_type::CardKind;

/// The cards of one node. Written by the operator alone, owned by its Node and deleted with it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "card.volcano.sh",
    version = "v1alpha1",
    kind = "CardInventory",
    plural = "cardinventories",
    shortname = "cardinv",
    category = "cards",
    status = "CardInventoryStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "The cards of one node, as Cardgate sees them: what its labels and resources yield, and how many are in use.",
    printcolumn(name = "Cards", type_ = "string", json_path = ".status.summary"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.total"),
    printcolumn(name = "In use", type_ = "integer", json_path = ".status.used"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.free"),
    printcolumn(
        name = "Pods without GPU",
        type_ = "string",
        json_path = ".status.crossQuotaSummary",
        priority = 1
    ),
    printcolumn(name = "Problems", type_ = "string", json_path = ".status.problems"),
    printcolumn(name = "Resources", type_ = "string", json_path = ".status.resources", priority = 1),
    printcolumn(
        name = "Usable",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='NodeUsable')].status",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CardInventorySpec {
    /// Name of the node whose cards these are.
    pub node_name: String,
}

/// What a node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardInventoryStatus {
    /// The cards, such as `NVIDIA-A100 x8`: as many as fit into a column, and how many more there are; `<none>` where no card could be
    /// published.
    #[serde(default)]
    pub summary: String,
    /// The Kubernetes resources behind the cards, in one line.
    #[serde(default)]
    pub resources: String,
    /// The cards, by name.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cards: Vec<NodeCard>,
    /// What is in use of each card that the node shares through mGPU, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["index"]))]
    pub gpus: Vec<SharedGpu>,
    /// How many cards the node has, of all kinds; those shared through mGPU count 100 each.
    #[serde(default)]
    pub total: i64,
    /// How many of them pods hold.
    #[serde(default)]
    pub used: i64,
    /// How many a new pod could get; 0 while the node is not usable.
    #[serde(default)]
    pub free: i64,
    /// What pods without GPU hold of the node, against their quotas, in one line; empty where CrossQuota is not configured or
    /// the node has no GPU.
    #[serde(default)]
    pub cross_quota_summary: String,
    /// What pods without GPU may hold of the node, by resource (CrossQuota).
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["resource"]))]
    pub cross_quota: Vec<NodeQuota>,
    /// Reasons of the conditions that are false, in one line; empty when all is well.
    #[serde(default)]
    pub problems: String,
    /// `CardsPublished`: every labelled card could be counted. `LabelsConsistent`: the labels agree with what the node
    /// allocates, and with those of other nodes. `NodeUsable`: the node is ready and takes pods. `CrossQuotaReadable`, on
    /// nodes with quotas for pods without GPU: the node's annotations on them can be read. `CrossQuotaApplies`: False on a node
    /// with cards that CrossQuota takes for one without. Each that is False has a reason and a message.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One card name on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCard {
    /// The card name, as pods and quotas write it.
    pub name: String,
    /// The Kubernetes resource that pods request for it.
    pub resource: String,
    /// What kind of card it is.
    pub kind: CardKind,
    /// How many the node allocates; 100 for each card that it shares through mGPU.
    pub total: i64,
    /// How many pods hold.
    pub used: i64,
    /// How many a new pod could get; 0 while the node is not usable.
    pub free: i64,
}

/// What pods without GPU may hold of one resource of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeQuota {
    /// The resource, as pods request it.
    pub resource: String,
    /// How much they may hold, as a Kubernetes quantity.
    pub quota: String,
    /// How much they hold: what is bound to the node, and what was let in and is expected there.
    pub used: String,
    /// How much is left.
    pub free: String,
    /// Where the quota comes from: an annotation of the node, an argument of the plugin, or what the node allocates.
    pub source: String,
}

/// One card that a node shares through mGPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedGpu {
    /// Index of the card on the node, as pods are told it.
    pub index: i64,
    /// Device id of the card, where the node says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Compute that containers hold, of 100.
    pub core_used: i64,
    /// Compute that a new container could get; 0 while the node is not usable.
    pub core_free: i64,
    /// Memory of the card, in MiB.
    pub memory: i64,
    /// Memory that containers hold, in MiB.
    pub memory_used: i64,
    /// Memory that a new container could get, in MiB; 0 while the node is not usable.
    pub memory_free: i64,
    /// The containers on the card, as `namespace/pod/container`, by name.
    #[serde(default)]
    pub containers: Vec<String>,
}
