//! A lean pod: the fields of a Pod that Cardgate reads, and no others.
//!
//! The text type is a parameter: the webhook borrows from the request's bytes ([`Text`]), the operator owns what it keeps
//! (`Box<str>`). Never serialise a lean pod back: the fields that it does not know would be lost.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// Text that borrows from the JSON it is read from, and is copied only where the JSON escapes a character.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<'a>(Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A JSON object of texts (labels, annotations, resource lists), in the order it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextMap<S>(Vec<(S, S)>);

impl<S> Default for TextMap<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: AsRef<str>> TextMap<S> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Whether `key` is there.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps only the entries that `keep` says.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key.as_ref()));
        self.0.shrink_to_fit();
    }
}

impl<S> FromIterator<(S, S)> for TextMap<S> {
    fn from_iter<I: IntoIterator<Item = (S, S)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<'de, S: Deserialize<'de>> Deserialize<'de> for TextMap<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextMapVisitor<S>(PhantomData<S>);
        impl<'de, S: Deserialize<'de>> Visitor<'de> for TextMapVisitor<S> {
            type Value = TextMap<S>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TextMap(entries))
            }
        }
        deserializer.deserialize_map(TextMapVisitor(PhantomData))
    }
}

/// Reads `null` as the default, as Go's JSON does.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

macro_rules! lean {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "S: Deserialize<'de>"))]
        pub struct $name<S> {
            $($(#[$field_meta])* #[serde(default, deserialize_with = "nullable")] pub $field: $type,)*
        }

        impl<S> Default for $name<S> {
            fn default() -> Self {
                Self { $($field: Default::default(),)* }
            }
        }
    };
}

lean! {
    /// What Cardgate reads of an object's metadata.
    Metadata {
        /// Name; empty while the API server has not generated it yet.
        name: Option<S>,
        /// Prefix of the name to be generated.
        generate_name: Option<S>,
        /// Namespace.
        namespace: Option<S>,
        /// Unique id.
        uid: Option<S>,
        /// Labels.
        labels: TextMap<S>,
        /// Annotations.
        annotations: TextMap<S>,
        /// Time of creation, RFC 3339.
        creation_timestamp: Option<S>,
        /// Time by which a deleted object should be gone, RFC 3339; the grace period is included.
        deletion_timestamp: Option<S>,
        /// Owners.
        owner_references: Vec<OwnerReference<S>>,
    }
}

lean! {
    /// An owner of an object.
    OwnerReference {
        /// Kind of the owner, such as `DaemonSet`.
        kind: Option<S>,
        /// Name of the owner.
        name: Option<S>,
        /// Whether the owner is the managing controller.
        controller: Option<bool>,
    }
}

lean! {
    /// A Pod.
    Pod {
        /// Metadata.
        metadata: Metadata<S>,
        /// Specification.
        spec: PodSpec<S>,
        /// Status.
        status: PodStatus<S>,
    }
}

lean! {
    /// What Cardgate reads of a pod's specification.
    PodSpec {
        /// The node the pod is bound to.
        node_name: Option<S>,
        /// Labels that the node must have.
        node_selector: TextMap<S>,
        /// Affinity.
        affinity: Affinity<S>,
        /// Tolerations.
        tolerations: Vec<Toleration<S>>,
        /// Gates that hold the pod back from scheduling.
        scheduling_gates: Vec<SchedulingGate<S>>,
        /// Priority, resolved from the priority class by the API server.
        priority: Option<i32>,
        /// Scheduler.
        scheduler_name: Option<S>,
        /// Main containers.
        containers: Vec<Container<S>>,
        /// Init containers and sidecars.
        init_containers: Vec<Container<S>>,
        /// What running the pod costs besides its containers.
        overhead: TextMap<S>,
        /// Resources of the pod as a whole.
        resources: ResourceRequirements<S>,
    }
}

lean! {
    /// A scheduling gate.
    SchedulingGate {
        /// Name of the gate.
        name: Option<S>,
    }
}

lean! {
    /// A container.
    Container {
        /// Name, unique in the pod.
        name: Option<S>,
        /// `Always` makes an init container a sidecar.
        restart_policy: Option<S>,
        /// Requests and limits.
        resources: ResourceRequirements<S>,
    }
}

lean! {
    /// Requests and limits, quantities as text.
    ResourceRequirements {
        /// What is set aside.
        requests: TextMap<S>,
        /// What must not be exceeded; also the request where none is given.
        limits: TextMap<S>,
    }
}

lean! {
    /// Affinity; only that to nodes matters here.
    Affinity {
        /// Affinity to nodes.
        node_affinity: NodeAffinity<S>,
    }
}

lean! {
    /// Affinity to nodes; only what is required matters here.
    NodeAffinity {
        /// The terms of which one must match.
        required_during_scheduling_ignored_during_execution: Option<NodeSelector<S>>,
    }
}

lean! {
    /// A list of terms, one of which must match.
    NodeSelector {
        /// The terms.
        node_selector_terms: Vec<NodeSelectorTerm<S>>,
    }
}

lean! {
    /// A term: every expression and field must match; an empty term matches nothing.
    NodeSelectorTerm {
        /// Requirements on labels.
        match_expressions: Vec<NodeSelectorRequirement<S>>,
        /// Requirements on fields; Kubernetes knows `metadata.name` alone.
        match_fields: Vec<NodeSelectorRequirement<S>>,
    }
}

lean! {
    /// A requirement on a label or field.
    NodeSelectorRequirement {
        /// The label or field.
        key: Option<S>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: Option<S>,
        /// The values.
        values: Vec<S>,
    }
}

lean! {
    /// A toleration of a taint.
    Toleration {
        /// Taint key; none matches every key.
        key: Option<S>,
        /// `Equal` (also where none is given) or `Exists`.
        operator: Option<S>,
        /// Taint value.
        value: Option<S>,
        /// Taint effect; none matches every effect.
        effect: Option<S>,
    }
}

lean! {
    /// What Cardgate reads of a pod's status.
    PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        phase: Option<S>,
        /// Conditions.
        conditions: Vec<PodCondition<S>>,
    }
}

lean! {
    /// A condition of a pod.
    PodCondition {
        /// Type of the condition.
        r#type: Option<S>,
        /// `True`, `False` or `Unknown`.
        status: Option<S>,
        /// Reason, in one word.
        reason: Option<S>,
        /// When the status changed last, RFC 3339.
        last_transition_time: Option<S>,
    }
}

impl<S: AsRef<str>> PodSpec<S> {
    /// Whether the gate `name` holds the pod back.
    pub fn has_gate(&self, name: &str) -> bool {
        self.scheduling_gates
            .iter()
            .any(|gate| gate.name.as_ref().is_some_and(|gate| gate.as_ref() == name))
    }

    /// Main containers, then init containers and sidecars.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container<S>> {
        self.containers.iter().chain(&self.init_containers)
    }
}

impl<S: AsRef<str>> Container<S> {
    /// Whether an init container is a sidecar: it stays running beside the main containers.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy
            .as_ref()
            .is_some_and(|policy| policy.as_ref() == "Always")
    }
}

impl<S: AsRef<str>> ResourceRequirements<S> {
    /// Resource names and quantities: the requests, and the limits of resources without a request.
    pub fn effective(&self) -> impl Iterator<Item = (&str, &str)> {
        let unrequested = self.limits.iter().filter(|(name, _)| !self.requests.contains_key(name));
        self.requests.iter().chain(unrequested)
    }
}
