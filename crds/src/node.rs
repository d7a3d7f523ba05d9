//! A lean node: the fields of a Node that Cardgate reads, and no others (see [`crate::lean`]).

use crate::lean::{Metadata, TextMap, lean};

/// The condition by which the kubelet, or the control plane in its place, says whether a node can run pods.
const READY_CONDITION: &str = "Ready";

lean! {
    Node {
        metadata: Metadata<S>,
        spec: NodeSpec<S>,
        status: NodeStatus<S>,
    }
}

lean! {
    /// What Cardgate reads of a node's specification.
    NodeSpec {
        /// Whether the node is cordoned: no new pod is scheduled to it.
        unschedulable: bool,
        /// Taints, which keep away pods that do not tolerate them.
        taints: Vec<Taint<S>>,
    }
}

lean! {
    Taint {
        key: Option<S>,
        /// Value; `None` is the same as empty.
        value: Option<S>,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: Option<S>,
    }
}

lean! {
    /// What Cardgate reads of a node's status.
    NodeStatus {
        /// What pods may use, quantities as text.
        allocatable: TextMap<S>,
        conditions: Vec<NodeCondition<S>>,
    }
}

lean! {
    NodeCondition {
        r#type: Option<S>,
        /// `True`, `False` or `Unknown`.
        status: Option<S>,
    }
}

impl<S: AsRef<str>> Node<S> {
    /// Whether the node says that it is ready. A node that says nothing is not ready.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| {
            let is = |field: &Option<S>, value: &str| field.as_ref().is_some_and(|text| text.as_ref() == value);
            is(&condition.r#type, READY_CONDITION) && is(&condition.status, "True")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: &str) -> Node<Box<str>> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_node_is_read_with_what_it_leaves_out() {
        let bare = node(r#"{"metadata":{"name":"n1"},"spec":{"taints":null},"status":{"allocatable":null}}"#);
        assert_eq!(bare.metadata.name.as_deref(), Some("n1"));
        assert!(!bare.spec.unschedulable && bare.spec.taints.is_empty() && bare.status.allocatable.is_empty());

        let full = node(
            r#"{"spec":{"unschedulable":true,"podCIDR":"10.0.0.0/24","taints":[{"key":"k","effect":"NoExecute"}]},
                "status":{"allocatable":{"cpu":"191450m","nvidia.com/gpu":"8"},"images":[{"names":["x"]}]}}"#,
        );
        assert!(full.spec.unschedulable);
        assert_eq!(full.spec.taints[0].effect.as_deref(), Some("NoExecute"));
        assert_eq!(full.spec.taints[0].value, None);
        assert_eq!(full.status.allocatable.get("nvidia.com/gpu"), Some("8"));
    }

    #[test]
    fn only_a_ready_condition_that_is_true_makes_a_node_ready() {
        for (conditions, ready) in [
            ("[]", false),
            (r#"[{"type":"Ready","status":"True"}]"#, true),
            (r#"[{"type":"Ready","status":"Unknown"}]"#, false),
            (r#"[{"type":"Ready","status":"False"}]"#, false),
            (r#"[{"type":"MemoryPressure","status":"True"}]"#, false),
            (
                r#"[{"type":"MemoryPressure","status":"True"},{"type":"Ready","status":"True"}]"#,
                true,
            ),
            (r#"[{"type":"Ready"}]"#, false),
        ] {
            assert_eq!(
                node(&format!(r#"{{"status":{{"conditions":{conditions}}}}}"#)).is_ready(),
                ready,
                "{conditions}"
            );
        }
    }
}
