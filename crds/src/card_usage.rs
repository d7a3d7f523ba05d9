//! `CardUsage`: what one queue may have, has and waits for; and what no queue is charged for.

#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type and a path of its own"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the object that shows what no queue is charged for. A queue of this name keeps its own object under this name.
pub const UNACCOUNTED: &str = "unaccounted";

/// The card quota of one queue and what is used of it. Written by the operator alone, owned by its Queue; but `unaccounted`
/// shows what no queue is charged for, while there is any, and nobody owns it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "card.volcano.sh",
    version = "v1alpha1",
    kind = "CardUsage",
    plural = "cardusages",
    category = "cards",
    status = "CardUsageStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "What one queue may have, has and waits for, card by card.",
    printcolumn(name = "Cards", type_ = "string", json_path = ".status.summary"),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.waiting"),
    printcolumn(name = "Share", type_ = "string", json_path = ".status.share"),
    printcolumn(name = "Problems", type_ = "string", json_path = ".status.problems"),
    printcolumn(name = "Quota", type_ = "string", json_path = ".status.quota", priority = 1),
    printcolumn(name = "Allocated", type_ = "string", json_path = ".status.allocated", priority = 1),
    printcolumn(name = "Requested", type_ = "string", json_path = ".status.requested", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.memory", priority = 1),
    printcolumn(
        name = "Claims",
        type_ = "integer",
        json_path = ".status.podsWithResourceClaims",
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
pub struct CardUsageSpec {
    /// Name of the queue; empty where the object is of no queue, and shows what none is charged for.
    pub queue: String,
}

/// What a queue may have, has and waits for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CardUsageStatus {
    /// What admitted pods hold of each quota, such as `NVIDIA-A100 3/10`: as many cards as fit into a column, and how many more there are.
    #[serde(default)]
    pub summary: String,
    /// The quotas in one line, such as `NVIDIA-A100 x10`; `<none>` where no card may be used.
    #[serde(default)]
    pub quota: String,
    /// What admitted pods hold, in one line.
    #[serde(default)]
    pub allocated: String,
    /// What admitted and waiting pods, and suspended Jobs and groups without pods, ask for together, in one line.
    #[serde(default)]
    pub requested: String,
    /// Card by card, by name.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cards: Vec<QueueCard>,
    /// CPU in use against the queue's capability, such as `12500m / 100`; `unlimited` where the queue sets no limit.
    #[serde(default)]
    pub cpu: String,
    /// Memory in use against the queue's capability, such as `48Gi / 200Gi`.
    #[serde(default)]
    pub memory: String,
    /// How many pods of the queue hold quota.
    #[serde(default)]
    pub admitted_pods: i64,
    /// How many pods of the queue wait.
    #[serde(default)]
    pub waiting_pods: i64,
    /// How many pods of the queue wait, and Jobs and groups that wait to be taken as a whole before their pods exist.
    #[serde(default)]
    pub waiting: i64,
    /// How many workloads wait, of which `firstWaiting` shows the first: a `PodGroup`, a Job or another controller of pods counts once,
    /// however many of its pods wait, and so does a pod that is part of none.
    #[serde(default)]
    pub waiting_workloads: i64,
    /// How many pods, of all queues and of none, claim devices that are no cards (`spec.resourceClaims`) and are not over:
    /// no queue is charged for those devices. Shown on the object of what no queue is charged for, and on no other.
    #[serde(default)]
    pub pods_with_resource_claims: Option<i64>,
    /// The largest part in use of anything that the queue deserves, as a decimal fraction such as `0.75` (Capacity Card,
    /// **Resource Tracking**). What it deserves of a card or resource is what it says under `deserved`; where it says nothing, its quota
    /// or capability under `capacity-card`, and what it asks for under `capacity`. Queues with a smaller share go first.
    #[serde(default)]
    pub share: String,
    /// The workloads that are next of those that wait, in the order of their first pods, or of themselves where they have none.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["position"]))]
    pub first_waiting: Vec<WaitingWorkload>,
    /// Reasons of the conditions that are false, in one line; empty when all is well.
    #[serde(default)]
    pub problems: String,
    /// `Valid`: what the queue says can be read. Where False, nothing is admitted, and the message says what to mend.
    /// `Satisfiable`: the cluster has what the queue says, its quota and capability, and what all are guaranteed and deserve. Where
    /// False, what there is goes to those whose turn it is. `Open`, where False: the queue takes no pods, as one that was closed, and some
    /// wait in it.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl CardUsageStatus {
    /// Returns the text shown when no waiting workload is listed. The cards of a queue also count what waits in queues below
    /// it.
    pub fn none_waiting(&self) -> &'static str {
        if self.cards.iter().any(|card| card.waiting > card.own().waiting) {
            "Nothing waits in this queue itself: what is counted as waiting waits in queues below it."
        } else {
            "Nothing waits."
        }
    }

    /// Returns the title above the first waiting workloads: how many of how many are shown, and how many pods they have in
    /// all.
    pub fn title_of_waiting(&self) -> String {
        let shown = i64::try_from(self.first_waiting.len()).unwrap_or(i64::MAX);
        // An operator of an earlier release reports only how many pods and Jobs wait.
        let all = if self.waiting_workloads == 0 {
            self.waiting
        } else {
            self.waiting_workloads
        };
        let pods = if self.waiting_pods == 1 { "pod" } else { "pods" };
        format!(
            "{shown} of {all} that wait ({} {pods} in all), first to go first",
            self.waiting_pods
        )
    }
}

/// One card name in a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueCard {
    /// The card name.
    pub name: String,
    /// How many the queue may have; absent where the queue itself does not limit them, as under the plugin `capacity` where it does not name the
    /// card: a queue above it, or what the cluster has, still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    /// How many its admitted pods hold, and those of queues below it.
    pub allocated: i64,
    /// How many admitted and waiting pods ask for together, and Jobs and groups that wait to be taken as a whole before their pods
    /// exist; a waiting pod with alternatives counts for its first, a Job or group for the first by name.
    pub requested: i64,
    /// How many of these waiting pods, Jobs and groups ask for.
    pub waiting: i64,
    /// What of this is of the queue itself. The numbers above are also of all queues below it: those of several queues must not be
    /// added up, and these may be.
    #[serde(default)]
    pub own: Option<OwnCards>,
}

/// What pods of a queue itself have of a card, and not those of queues below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnCards {
    /// How many its own admitted pods hold.
    pub allocated: i64,
    /// How many its own waiting pods, Jobs and groups ask for.
    pub waiting: i64,
}

impl QueueCard {
    /// What the queue itself has of the card. It is all of it if nobody has written which part that is.
    pub fn own(&self) -> OwnCards {
        self.own.unwrap_or(OwnCards {
            allocated: self.allocated,
            waiting: self.waiting,
        })
    }
}

/// A workload that waits and is one of the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingWorkload {
    /// Its place among the workloads that wait; 1 is next.
    pub position: i64,
    /// `PodGroup`, or the kind of what made its pods, such as `Job` or `ReplicaSet`; `Pod` for a pod that is part of neither.
    #[serde(default)]
    pub kind: String,
    /// Its name, as `namespace/name`.
    pub name: String,
    /// How many of its pods wait; 0 where it waits to be taken as a whole, before its pods exist.
    #[serde(default)]
    pub pods: i64,
    /// How many cards these pods ask for together, or it as a whole, by card name; a pod with alternatives counts for its first. Only
    /// cards that the cluster has.
    #[serde(default)]
    pub cards: BTreeMap<String, i64>,
    /// Why it waits, in one word; empty while nothing has been decided.
    #[serde(default)]
    pub reason: String,
    /// What is missing, with the numbers of the last change.
    #[serde(default)]
    pub missing: String,
}
