//! What a pod may say at most, beside what has a parser of its own (see [`crate::bounds`]).

use thiserror::Error;

use crate::bounds::{self, BoundError, shown};
use crate::keys::{GROUP_NAME, QUEUE_NAME, is_operator_result};
use crate::pod::{NodeSelectorTerm, Pod, PodSpec};

/// A pod that says more than it may.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum PodBoundError {
    /// An annotation that is too long.
    #[error("annotation {key}: {source}")]
    Annotation { key: &'static str, source: BoundError },
    /// Too much about nodes.
    #[error("{0}")]
    Nodes(BoundError),
    /// Too many results of an admission; the key is one of theirs.
    #[error("annotation {key}: {source}")]
    Results { key: String, source: BoundError },
}

/// Checks how many results of an admission a pod brings along. Each is taken off by itself, and its author told: so many must not make
/// an answer many times as long as the pod.
pub fn check_results<S: AsRef<str>>(pod: &Pod<S>) -> Result<(), PodBoundError> {
    let keys = pod.metadata.annotations.iter().map(|(key, _)| key);
    let mut results = keys.filter(|key| is_operator_result(key));
    let Some(first) = results.next() else {
        return Ok(());
    };
    BoundError::count(
        || "the pod".to_owned(),
        "results of an admission",
        1 + results.count(),
        bounds::RESULTS,
        "create it without them, only Cardgate writes them",
    )
    .map_err(|source| PodBoundError::Results {
        key: shown(first),
        source,
    })
}

/// Checks the names that a pod gives of other objects, and what it says about nodes.
pub fn check<S: AsRef<str>>(pod: &Pod<S>) -> Result<(), PodBoundError> {
    // Found once for all: every pod is checked whenever it says anything.
    const QUEUE_LENGTH: usize = bounds::annotation_length(QUEUE_NAME);
    const GROUP_LENGTH: usize = bounds::annotation_length(GROUP_NAME);
    for (key, most, remedy) in [
        (QUEUE_NAME, QUEUE_LENGTH, "name a queue, see kubectl get queues"),
        (GROUP_NAME, GROUP_LENGTH, "name a PodGroup, see kubectl get podgroups"),
    ] {
        let text = pod.metadata.annotations.get(key).unwrap_or_default();
        BoundError::length(text, most, remedy).map_err(|source| PodBoundError::Annotation { key, source })?;
    }
    let count = node_terms(&pod.spec);
    BoundError::count(
        || "the pod".to_owned(),
        "labels, requirements and values in spec.nodeSelector, spec.affinity.nodeAffinity and spec.tolerations",
        count,
        bounds::NODE_TERMS,
        "select nodes by a label that all of them have",
    )
    .map_err(PodBoundError::Nodes)
}

/// How much a pod says about nodes: its labels, requirements and values, and its tolerations.
pub fn node_terms<S>(spec: &PodSpec<S>) -> usize
where
    S: AsRef<str>,
{
    let of_term = |term: &NodeSelectorTerm<S>| {
        let requirements = term.match_expressions.iter().chain(&term.match_fields);
        1 + requirements
            .map(|requirement| 1 + requirement.values.len())
            .sum::<usize>()
    };
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map_or(0, |required| required.node_selector_terms.iter().map(of_term).sum());
    spec.node_selector.len() + spec.tolerations.len() + terms
}

/// Cuts what a pod says about nodes where that is more than it may: what is left is still more than that, and no longer.
pub fn cut_node_terms<S: AsRef<str>>(spec: &mut PodSpec<S>) {
    if node_terms(spec) <= bounds::NODE_TERMS {
        return;
    }
    let mut left = bounds::NODE_TERMS + 1;
    let mut take = |wanted: usize| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    cut(&mut spec.tolerations, &mut take);
    spec.node_selector.truncate(take(spec.node_selector.len()));
    let affinity = spec
        .affinity
        .as_mut()
        .and_then(|affinity| affinity.node_affinity.as_mut());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_mut());
    if let Some(required) = required {
        let terms = &mut required.node_selector_terms;
        terms.retain_mut(|term| {
            let is_kept = take(1) > 0;
            for requirements in [&mut term.match_expressions, &mut term.match_fields] {
                requirements.retain_mut(|requirement| {
                    let is_kept = take(1) > 0;
                    cut(&mut requirement.values, &mut take);
                    is_kept
                });
                requirements.shrink_to_fit();
            }
            is_kept
        });
        terms.shrink_to_fit();
    }
}

fn cut<T>(list: &mut Vec<T>, take: &mut impl FnMut(usize) -> usize) {
    list.truncate(take(list.len()));
    list.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(pod: &serde_json::Value) -> Result<(), String> {
        let pod: Pod<String> = serde_json::from_value(pod.clone()).unwrap();
        check(&pod).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pod_says_no_more_about_nodes_than_can_be_compared_with_each() {
        let pod = |values: usize, tolerations: usize| {
            let values: Vec<_> = (0..values).map(|index| format!("node-{index}")).collect();
            json!({"spec": {
                "nodeSelector": {"zone": "a"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": values}]},
                ]}}},
                "tolerations": vec![json!({"operator": "Exists"}); tolerations],
            }})
        };
        assert_eq!(checked(&pod(1000, 21)), Ok(()));
        for beyond in [pod(1001, 21), pod(1000, 22)] {
            let error = checked(&beyond).unwrap_err();
            assert!(
                error.starts_with("the pod has 1025 labels, requirements and values")
                    && error.ends_with("and 1024 are allowed: select nodes by a label that all of them have"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_too_much_is_cut_and_is_still_too_much() {
        let value = |index: usize| json!({"key": "zone", "operator": "In", "values": vec![format!("z{index}"); 50]});
        let terms: Vec<_> = (0..100)
            .map(|index| json!({"matchExpressions": [value(index), value(index)]}))
            .collect();
        let (selector, tolerations) = (json!({"a": "b"}), vec![json!({"operator": "Exists"}); 500]);
        let affinity = |terms: &[serde_json::Value]| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}})
        };
        for (terms, tolerations, cut_to) in [
            (&terms[..], &tolerations[..], 1025),
            (&terms[..], &[], 1025),
            (&[], &vec![json!({}); 1500][..], 1025),
            (&terms[..5], &tolerations[..], 1016),
        ] {
            let spec = json!({"nodeSelector": selector, "affinity": affinity(terms), "tolerations": tolerations});
            let mut spec: PodSpec<String> = serde_json::from_value(spec).unwrap();
            cut_node_terms(&mut spec);
            assert_eq!(node_terms(&spec), cut_to);
        }
    }

    #[test]
    fn names_of_objects_are_no_longer_than_names_can_be() {
        for key in [QUEUE_NAME, GROUP_NAME] {
            let pod = |length: usize| json!({"metadata": {"annotations": {key: "x".repeat(length)}}});
            assert_eq!(checked(&pod(253)), Ok(()));
            let error = checked(&pod(254)).unwrap_err();
            assert!(
                error.starts_with(&format!("annotation {key}: \"xxx"))
                    && error.contains("254 bytes, and 253 are allowed"),
                "{error}"
            );
        }
    }
}
