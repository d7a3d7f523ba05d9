//! `Queue` and `PodGroup`, which belong to Volcano: the fields that Cardgate reads, as they are there.

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::resources::{self, ResourceVector};

/// State of a queue that takes pods; also what an unset state means.
pub const QUEUE_OPEN: &str = "Open";

/// What a queue may use and how it stands to others.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "Queue",
    plural = "queues",
    status = "QueueStatus",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// What the queue may never exceed.
    #[serde(default)]
    pub capability: Option<ResourceQuantities>,
    /// Queues of higher priority go first.
    #[serde(default)]
    pub priority: Option<i32>,
}

/// State of a queue, written by Volcano.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// `Open`, `Closed`, `Closing` or `Unknown`.
    #[serde(default)]
    pub state: Option<String>,
}

impl Queue {
    /// Whether the queue takes pods: its state is `Open`, or nobody has set one.
    pub fn is_open(&self) -> bool {
        let state = self.status.as_ref().and_then(|status| status.state.as_deref());
        matches!(state, None | Some("" | QUEUE_OPEN))
    }
}

/// What a group of pods needs.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "PodGroup",
    plural = "podgroups",
    namespaced,
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// The queue of the group's pods.
    #[serde(default)]
    pub queue: Option<String>,
}

/// A resource list whose quantities may be written as strings or as bare integers.
pub type ResourceQuantities = BTreeMap<String, QuantityText>;

/// The resource list as exact integers; the error names the resource and its quantity.
pub fn resource_vector(quantities: &ResourceQuantities) -> Result<ResourceVector, ResourceQuantityError> {
    let mut vector = ResourceVector::default();
    for (resource, quantity) in quantities {
        let amount =
            resources::parse_amount(resource, &quantity.0).map_err(|source| ResourceQuantityError::Unreadable {
                resource: resource.clone(),
                source,
            })?;
        if amount < 0 {
            return Err(ResourceQuantityError::Negative {
                resource: resource.clone(),
                quantity: quantity.0.clone(),
            });
        }
        vector.set(resource, amount);
    }
    Ok(vector)
}

/// A resource list that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceQuantityError {
    /// A quantity that can't be read.
    #[error("{resource}: {source}")]
    Unreadable {
        /// The resource.
        resource: String,
        /// What is wrong.
        source: crate::quantity::QuantityError,
    },
    /// Less than nothing.
    #[error("{resource}: {quantity} is negative: write 0 or more")]
    Negative {
        /// The resource.
        resource: String,
        /// The quantity, as written.
        quantity: String,
    },
}

/// A Kubernetes quantity as it was written, a string or a bare integer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl Visitor<'_> for QuantityVisitor {
            type Value = QuantityText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity as a string or an integer")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(QuantityText(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(QuantityText(number.to_string()))
            }
        }
        deserializer.deserialize_any(QuantityVisitor)
    }
}

impl JsonSchema for QuantityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-int-or-string": true})
    }
}
