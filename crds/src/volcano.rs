//! Volcano's `Queue` and `PodGroup`: the fields that Cardgate reads.

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::bounds::{self, BoundError, shown};
use crate::lean::{AtMost, TextMap, bounded, lean};
use crate::resources::{self, ResourceVector};

/// State of a queue that takes pods; also what an unset state means.
pub const QUEUE_OPEN: &str = "Open";

/// What a queue may use and how it stands to others.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "Queue",
    plural = "queues",
    status = "QueueStatus",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct QueueSpec {
    /// What the queue may never exceed.
    #[serde(default)]
    pub capability: Option<ResourceQuantities>,
    /// Queues of higher priority go first.
    #[serde(default)]
    pub priority: Option<i32>,
    /// What the queue should have while others want it too; what exceeds this is taken back for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deserved: Option<ResourceQuantities>,
    /// What is kept free for the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Guarantee>,
    /// Whether what exceeds `deserved` may be taken back; absent: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<bool>,
    /// The queue that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The queue's part of the cluster under Volcano's `proportion`; the capacity documents name it and give it no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// What is kept free for a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The amount of each resource.
    #[serde(default)]
    pub resource: Option<ResourceQuantities>,
}

/// State of a queue, written by Volcano.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// `Open`, `Closed`, `Closing` or `Unknown`.
    #[serde(default)]
    pub state: Option<String>,
}

impl Queue {
    /// Returns the queue's state if it takes no pods; `None` if the state is `Open` or not set.
    pub fn closed(&self) -> Option<&str> {
        let state = self.status.as_ref()?.state.as_deref()?;
        (!matches!(state, "" | QUEUE_OPEN)).then_some(state)
    }
}

/// What a group of pods needs.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "PodGroup",
    plural = "podgroups",
    namespaced,
    status = "PodGroupStatus",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct PodGroupSpec {
    /// The queue of the group's pods.
    #[serde(default)]
    pub queue: Option<String>,
    /// How many pods must run at once for the group to make progress.
    #[serde(default)]
    pub min_member: Option<i32>,
    /// How many pods of each task must run at once, beside `min_member`.
    #[serde(default, deserialize_with = "bounded")]
    pub min_task_member: Option<BTreeMap<String, i32>>,
    /// The resources that the group needs at least.
    #[serde(default, deserialize_with = "bounded")]
    pub min_resources: Option<ResourceQuantities>,
}

impl PodGroupSpec {
    /// Returns how many pods of each task the group needs at once, by task. Returns none if they add up to more than
    /// `min_member`: then Volcano goes by that number alone.
    pub fn least_of_tasks(&self) -> Result<Vec<(&str, usize)>, BoundError> {
        let named = self.min_task_member.iter().flatten();
        let tasks: Vec<_> = named
            .filter_map(|(task, least)| Some((task.as_str(), usize::try_from(*least).ok().filter(|least| *least > 0)?)))
            .collect();
        bounds::tasks(tasks.len(), "name those that matter")?;
        for (task, _) in &tasks {
            let remedy = "name tasks as the label volcano.sh/task-spec of their pods does";
            BoundError::length(task, bounds::TASK_NAME_LENGTH, remedy)?;
        }
        let sum = tasks
            .iter()
            .fold(0, |sum: usize, (_, least)| sum.saturating_add(*least));
        let least = usize::try_from(self.min_member.unwrap_or(0)).unwrap_or(0);
        Ok(if sum <= least { tasks } else { Vec::new() })
    }
}

lean! {
    /// A group of which only the queue is read. Whatever else it contains, and however much, is not kept.
    GroupQueue {
        metadata: GroupName<S>,
        spec: NamedQueue<S>,
    }
}

/// A group as the program that decides about it watches it, with the metadata that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct WatchedGroup {
    /// The group's identity, and its annotations.
    #[serde(default)]
    pub metadata: GroupMetadata<Box<str>>,
    /// What the group needs.
    #[serde(default)]
    pub spec: PodGroupSpec,
    /// How far the group has got.
    #[serde(default)]
    pub status: Option<PodGroupStatus>,
}

lean! {
    /// What is read of a group's metadata.
    GroupMetadata {
        name: Option<S>,
        namespace: Option<S>,
        uid: Option<S>,
        resource_version: Option<S>,
        /// Time of creation, RFC 3339.
        creation_timestamp: Option<S>,
        /// Set if the group is being deleted: since when, or when its grace period ends, RFC 3339.
        deletion_timestamp: Option<S>,
        annotations: TextMap<S>,
    }
}

lean! {
    /// What identifies a group.
    GroupName {
        name: Option<S>,
        namespace: Option<S>,
        resource_version: Option<S>,
    }
}

lean! {
    /// The queue that a group names.
    NamedQueue {
        /// Name of the queue; empty names none.
        queue: Option<S>,
    }
}

/// How far a group has got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroupStatus {
    /// `Pending`, `Inqueue`, `Running`, `Unknown` or `Completed`.
    #[serde(default)]
    pub phase: Option<String>,
    /// Why the group has not got further.
    #[serde(default)]
    pub conditions: Option<AtMost<PodGroupCondition, MOST_CONDITIONS>>,
}

/// The most conditions of a group that are read. A group has one condition of each kind, however many a user may write.
const MOST_CONDITIONS: usize = 64;

/// What is read of a condition of a group: who wrote it, when, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// The session of Volcano's scheduler that wrote the condition; Cardgate's conditions have none.
    #[serde(default, rename = "transitionID")]
    pub transition_id: Option<String>,
    /// When the condition was written.
    #[serde(default)]
    pub last_transition_time: Option<String>,
    /// The reason, in one word.
    #[serde(default)]
    pub reason: Option<String>,
}

impl PodGroupStatus {
    /// Returns when Volcano's scheduler wrote its conditions, as it says itself.
    pub fn scheduled_by_volcano(&self) -> impl Iterator<Item = &str> {
        let by_volcano = self.conditions_by(true);
        by_volcano.filter_map(|one| one.last_transition_time.as_deref())
    }

    /// Returns why the group has not got further according to Cardgate, in one word.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.conditions_by(false).filter_map(|one| one.reason.as_deref())
    }

    fn conditions_by(&self, volcano: bool) -> impl Iterator<Item = &PodGroupCondition> {
        let conditions = self.conditions.iter().flat_map(|conditions| conditions.iter());
        conditions.filter(move |one| one.transition_id.as_deref().is_some_and(|id| !id.is_empty()) == volcano)
    }
}

/// Lets a whole `spec` be absent or `null`, as Volcano's definitions do. Then every field has its default.
///
/// For an absent field, serde deserialises an optional value. `remote = "Self"` keeps the derived implementation available
/// for a `spec` that is present.
macro_rules! optional_spec {
    ($spec:ty) => {
        impl<'de> Deserialize<'de> for $spec {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct SpecVisitor;
                impl<'de> Visitor<'de> for SpecVisitor {
                    type Value = $spec;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                        <$spec>::deserialize(deserializer)
                    }
                }
                deserializer.deserialize_option(SpecVisitor)
            }
        }

        impl Serialize for $spec {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$spec>::serialize(self, serializer)
            }
        }
    };
}

optional_spec!(QueueSpec);
optional_spec!(PodGroupSpec);

/// A resource list whose quantities may be written as strings or as bare integers.
pub type ResourceQuantities = BTreeMap<String, QuantityText>;

/// Returns the resource list as exact integers; the error names the resource and its quantity.
pub fn resource_vector(quantities: &ResourceQuantities) -> Result<ResourceVector<'_>, ResourceQuantityError> {
    read_quantities(quantities.iter())
}

fn read_quantities<'q>(
    quantities: impl Iterator<Item = (&'q String, &'q QuantityText)> + Clone,
) -> Result<ResourceVector<'q>, ResourceQuantityError> {
    const REMEDY: &str = "leave out the resources that are not needed";
    BoundError::count(
        || "it".to_owned(),
        "resources",
        quantities.clone().count(),
        bounds::RESOURCES,
        REMEDY,
    )?;
    let mut vector = ResourceVector::default();
    for (resource, quantity) in quantities {
        BoundError::length(
            resource,
            bounds::RESOURCE_NAME_LENGTH,
            "name resources as pods request them",
        )?;
        let amount =
            resources::parse_amount(resource, &quantity.0).map_err(|source| ResourceQuantityError::Unreadable {
                resource: shown(resource),
                source,
            })?;
        if amount < 0 {
            return Err(ResourceQuantityError::Negative {
                resource: shown(resource),
                quantity: shown(&quantity.0),
            });
        }
        vector.set(resource, amount);
    }
    Ok(vector)
}

/// Returns what a group's `minResources` ask for, limited to what pods can ask for. Volcano's controllers repeat the amounts
/// as keys of a `ResourceQuota` (`count/pods`, `requests.cpu`, `limits.nvidia.com/gpu`), which no node offers and no queue
/// limits.
pub fn min_resources(quantities: &ResourceQuantities) -> Result<ResourceVector<'_>, ResourceQuantityError> {
    let asked = quantities
        .iter()
        .filter(|(resource, _)| resources::is_of_pods(resource));
    read_quantities(asked)
}

/// A resource list that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum ResourceQuantityError {
    /// More than is allowed.
    #[error("{0}")]
    Bound(#[from] BoundError),
    /// A quantity that can't be read.
    #[error("{resource}: {source}")]
    Unreadable {
        resource: String,
        source: crate::quantity::QuantityError,
    },
    /// A negative quantity.
    #[error("{resource}: {quantity} is negative: write 0 or more")]
    Negative { resource: String, quantity: String },
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

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_may_be_absent() {
        for object in [
            json!({"metadata": {"name": "q"}}),
            json!({"metadata": {"name": "q"}, "spec": null}),
            json!({"metadata": {"name": "q"}, "spec": {}}),
        ] {
            // The way of watches.
            let queue: DeserializeGuard<Queue> = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(queue.0.unwrap().spec, QueueSpec::default(), "{object}");
            let group: PodGroup = serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(group.spec, PodGroupSpec::default(), "{object}");
        }
    }

    #[test]
    fn what_names_nothing_that_there_could_be_is_no_name() {
        let long = "x".repeat(1_000_000);
        let spec: PodGroupSpec = serde_json::from_value(json!({
            "minMember": 1, "minTaskMember": {&long: 1}, "minResources": {format!("example.com/{long}"): 1}
        }))
        .unwrap();
        let tasks = spec.least_of_tasks().unwrap_err().to_string();
        assert!(
            tasks.ends_with("name tasks as the label volcano.sh/task-spec of their pods does"),
            "{tasks}"
        );
        let resources = min_resources(spec.min_resources.as_ref().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            resources.ends_with("name resources as pods request them"),
            "{resources}"
        );
        assert!(tasks.len() < 300 && resources.len() < 300, "{tasks} {resources}");
    }

    #[test]
    fn a_spec_is_read_and_written() {
        let queue: Queue = serde_json::from_value(json!({
            "metadata": {"name": "q"},
            "spec": {"capability": {"cpu": 4, "memory": "1Gi"}, "priority": 3, "weight": 1}
        }))
        .unwrap();
        let capability = resource_vector(queue.spec.capability.as_ref().unwrap()).unwrap();
        assert_eq!((capability.get("cpu"), capability.get("memory")), (4000, 1 << 30));
        assert_eq!(serde_json::to_value(&queue).unwrap()["spec"]["priority"], 3);
        assert!(serde_json::from_value::<Queue>(json!({"metadata": {}, "spec": "x"})).is_err());
    }
}
