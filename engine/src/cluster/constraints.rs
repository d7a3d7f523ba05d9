//! Which nodes a pod may run on, by node selector, required node affinity and tolerations, as the scheduler matches them.

use std::sync::Arc;

use crds::lean::TextMap;
use crds::pod::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration};
use crds::pod_bounds::{cut_node_terms, node_terms};

/// The only field that Kubernetes knows in `matchFields`.
pub const NAME_FIELD: &str = "metadata.name";

/// A taint that keeps pods away; `PreferNoSchedule` taints are not kept, since they forbid nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// The key by which a toleration names it.
    pub key: Arc<str>,
    /// The value; empty where none is given.
    pub value: Arc<str>,
    /// `NoSchedule` or `NoExecute`. A taint that only prefers other pods keeps none away.
    pub effect: Arc<str>,
}

/// What a pod says about the nodes it may run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeConstraints {
    /// Labels that the node must have.
    pub node_selector: TextMap<Box<str>>,
    /// What the pod's affinity says about nodes.
    pub affinity: NodeAffinity,
    /// Taints that the pod tolerates.
    pub tolerations: Vec<Toleration<Box<str>>>,
    /// How many items are compared with every node.
    pub length: usize,
}

/// What a pod's affinity says about nodes, and how much of the structure exists: a patch adds to it where it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum NodeAffinity {
    /// The pod has no affinity at all.
    #[default]
    Absent,
    /// The pod has affinity only to other pods.
    OnlyToPods,
    /// The pod prefers nodes, but requires none.
    Preferred,
    /// One of the terms must match.
    Required(Vec<NodeSelectorTerm<Box<str>>>),
}

impl NodeAffinity {
    fn take(spec: &mut PodSpec<Box<str>>) -> Self {
        let Some(affinity) = spec.affinity.take() else {
            return Self::Absent;
        };
        let Some(node_affinity) = affinity.node_affinity else {
            return Self::OnlyToPods;
        };
        match node_affinity.required_during_scheduling_ignored_during_execution {
            Some(selector) => Self::Required(selector.node_selector_terms.into_vec()),
            None => Self::Preferred,
        }
    }

    /// Returns the terms of which one must match; none where every node matches.
    pub fn terms(&self) -> Option<&[NodeSelectorTerm<Box<str>>]> {
        match self {
            Self::Required(terms) => Some(terms),
            Self::Absent | Self::OnlyToPods | Self::Preferred => None,
        }
    }

    /// Returns the node that every term names, so that no other node can match.
    pub fn pinned_to(&self) -> Option<&str> {
        let mut named = self
            .terms()?
            .iter()
            .filter(|term| !is_empty(term))
            .map(|term| term.match_fields.iter().find_map(named_node));
        let first = named.next()??;
        named.all(|name| name == Some(first)).then_some(first)
    }
}

/// Returns the only node that a requirement names.
fn named_node(requirement: &NodeSelectorRequirement<Box<str>>) -> Option<&str> {
    let names = requirement.key.as_deref() == Some(NAME_FIELD) && requirement.operator.as_deref() == Some("In");
    match requirement.values.as_slice() {
        [name] if names => Some(name),
        _ => None,
    }
}

/// Whether a term says nothing; such a term matches nothing, as in Kubernetes.
pub fn is_empty(term: &NodeSelectorTerm<Box<str>>) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// Why a node is ruled out for a pod, whatever is free on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The pod does not tolerate a taint; cordoned and unready nodes carry one.
    Taint,
    /// The pod's node selector or required affinity excludes the node.
    Selector,
}

impl NodeConstraints {
    /// Takes the constraints out of the pod's spec and leaves the rest. Terms beyond the allowed number are dropped; a pod
    /// with that many is let in nowhere.
    pub fn take(spec: &mut PodSpec<Box<str>>) -> Self {
        cut_node_terms(spec);
        Self {
            length: node_terms(spec),
            node_selector: std::mem::take(&mut spec.node_selector),
            affinity: NodeAffinity::take(spec),
            tolerations: std::mem::take(&mut spec.tolerations),
        }
    }

    /// Whether a node with these labels could be selected, whatever else it has.
    pub fn may_select(&self, labels: &[(String, String)]) -> bool {
        let value = |key: &str| labels.iter().find(|(known, _)| known == key).map(|(_, value)| &**value);
        let may_match = |requirement: &NodeSelectorRequirement<Box<str>>| {
            let value = value(requirement.key.as_deref().unwrap_or_default());
            value.is_none() || requirement_matches(requirement, value)
        };
        let mut selector = self.node_selector.iter();
        selector.all(|(key, wanted)| value(key).is_none_or(|value| value == wanted))
            && self
                .affinity
                .terms()
                .is_none_or(|terms| terms.iter().any(|term| term.match_expressions.iter().all(may_match)))
    }

    /// Checks whether a node with this name, these labels and these taints may take the pod.
    pub fn check<'a>(
        &self,
        name: &str,
        label: impl Fn(&str) -> Option<&'a str> + Copy,
        taints: &[Taint],
    ) -> Result<(), Mismatch> {
        let selected = self.node_selector.iter().all(|(key, value)| label(key) == Some(value))
            && self
                .affinity
                .terms()
                .is_none_or(|terms| terms.iter().any(|term| term_matches(term, name, label)));
        if !selected {
            return Err(Mismatch::Selector);
        }
        let tolerated = |taint| self.tolerations.iter().any(|toleration| tolerates(toleration, taint));
        if taints.iter().all(tolerated) {
            Ok(())
        } else {
            Err(Mismatch::Taint)
        }
    }
}

fn term_matches<'a>(
    term: &NodeSelectorTerm<Box<str>>,
    name: &str,
    label: impl Fn(&str) -> Option<&'a str> + Copy,
) -> bool {
    !is_empty(term)
        && term
            .match_expressions
            .iter()
            .all(|requirement| requirement_matches(requirement, label(requirement.key.as_deref().unwrap_or_default())))
        && term.match_fields.iter().all(|requirement| {
            requirement.key.as_deref() == Some(NAME_FIELD) && requirement_matches(requirement, Some(name))
        })
}

fn requirement_matches(requirement: &NodeSelectorRequirement<Box<str>>, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|known| **known == *value);
    let compared = |ordering| {
        let number = |text: &str| text.parse::<i64>().ok();
        let wanted = requirement.values.first().and_then(|text| number(text));
        matches!((value.and_then(number), wanted), (Some(value), Some(wanted)) if value.cmp(&wanted) == ordering)
    };
    match requirement.operator.as_deref() {
        Some("In") => value.is_some_and(listed),
        Some("NotIn") => !value.is_some_and(listed),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compared(std::cmp::Ordering::Greater),
        Some("Lt") => compared(std::cmp::Ordering::Less),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration<Box<str>>, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || *effect == *taint.effect)
        && (*key == *taint.key || (key.is_empty() && exists))
        && (exists || toleration.value.as_deref().unwrap_or_default() == &*taint.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraints(spec: serde_json::Value) -> NodeConstraints {
        NodeConstraints::take(&mut serde_json::from_value(spec).unwrap())
    }

    fn affinity(terms: &serde_json::Value) -> NodeConstraints {
        constraints(serde_json::json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}}))
    }

    fn matches(constraints: &NodeConstraints) -> bool {
        let label = |key: &str| match key {
            "zone" => Some("a"),
            "generation" => Some("7"),
            _ => None,
        };
        constraints.check("node-1", label, &[]).is_ok()
    }

    #[test]
    fn operators_match_as_in_kubernetes() {
        let expression = |key: &str, operator: &str, values: &[&str]| serde_json::json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        for (key, operator, values, expected) in [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("absent", "In", &["a"], false),
            ("zone", "NotIn", &["a"], false),
            ("absent", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("absent", "Exists", &[], false),
            ("absent", "DoesNotExist", &[], true),
            ("zone", "DoesNotExist", &[], false),
            ("generation", "Gt", &["6"], true),
            ("generation", "Gt", &["7"], false),
            ("generation", "Lt", &["8"], true),
            ("zone", "Gt", &["1"], false),
            ("zone", "Unheard", &["a"], false),
        ] {
            assert_eq!(
                matches(&affinity(&expression(key, operator, values))),
                expected,
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn terms_are_alternatives_and_empty_ones_match_nothing() {
        let zone = |value: &str| serde_json::json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]});
        let named = |value: &str| serde_json::json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [value]}]});
        assert!(matches(&affinity(&serde_json::json!([zone("b"), zone("a")]))));
        assert!(!matches(&affinity(&serde_json::json!([zone("b")]))));
        assert!(!matches(&affinity(&serde_json::json!([]))));
        assert!(!matches(&affinity(&serde_json::json!([{}]))));
        assert!(matches(&affinity(&serde_json::json!([named("node-1")]))));
        assert!(!matches(&affinity(&serde_json::json!([named("node-2")]))));
        assert!(matches(&constraints(
            serde_json::json!({"nodeSelector": {"zone": "a"}})
        )));
        assert!(!matches(&constraints(
            serde_json::json!({"nodeSelector": {"zone": "a", "absent": ""}})
        )));
    }

    #[test]
    fn how_much_of_the_affinity_is_there_is_known() {
        let read = |affinity: serde_json::Value| constraints(serde_json::json!({"affinity": affinity})).affinity;
        assert_eq!(read(serde_json::json!(null)), NodeAffinity::Absent);
        assert_eq!(read(serde_json::json!({})), NodeAffinity::OnlyToPods);
        assert_eq!(read(serde_json::json!({"podAffinity": {}})), NodeAffinity::OnlyToPods);
        assert_eq!(read(serde_json::json!({"nodeAffinity": {}})), NodeAffinity::Preferred);
    }

    #[test]
    fn a_pod_is_pinned_where_every_term_that_can_match_names_the_same_node() {
        let named = |operator: &str, values: &[&str]| serde_json::json!({"key": "metadata.name", "operator": operator, "values": values});
        let pin = |node: &str| serde_json::json!({"matchFields": [named("NotIn", &["x"]), named("In", &[node])]});
        let zone = serde_json::json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        for (terms, expected) in [
            (serde_json::json!([pin("n")]), Some("n")),
            (serde_json::json!([{}, pin("n"), pin("n")]), Some("n")),
            (serde_json::json!([pin("n"), pin("m")]), None),
            (serde_json::json!([pin("n"), zone]), None),
            (serde_json::json!([{"matchFields": [named("NotIn", &["n"])]}]), None),
            (serde_json::json!([{"matchFields": [named("In", &["n", "m"])]}]), None),
            (serde_json::json!([]), None),
        ] {
            assert_eq!(affinity(&terms).affinity.pinned_to(), expected, "{terms}");
        }
        assert_eq!(NodeConstraints::default().affinity.pinned_to(), None);
    }

    #[test]
    fn taints_need_a_toleration_of_their_key_value_and_effect() {
        let taint = Taint {
            key: "gpu".into(),
            value: "yes".into(),
            effect: "NoSchedule".into(),
        };
        for (toleration, expected) in [
            (serde_json::json!({"key": "gpu", "value": "yes"}), true),
            (
                serde_json::json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}),
                true,
            ),
            (serde_json::json!({"key": "gpu", "value": "no"}), false),
            (serde_json::json!({"key": "gpu", "operator": "Exists"}), true),
            (serde_json::json!({"operator": "Exists"}), true),
            (serde_json::json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (serde_json::json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let constraints = constraints(serde_json::json!({"tolerations": [toleration]}));
            let checked = constraints.check("n", |_| None, std::slice::from_ref(&taint));
            assert_eq!(checked.is_ok(), expected, "{toleration}");
        }
        assert_eq!(
            NodeConstraints::default().check("n", |_| None, &[taint]),
            Err(Mismatch::Taint)
        );
    }
}
